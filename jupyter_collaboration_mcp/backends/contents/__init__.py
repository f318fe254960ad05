"""Jupyter's contents API, which contents managers and REST servers share."""
