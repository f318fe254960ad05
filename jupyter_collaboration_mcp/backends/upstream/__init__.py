"""Workarounds for faults of the libraries below us, one class each; `registry` lists them all."""
