"""Workarounds for faults of the libraries below us, one module each."""
