"""What the layers above may ask of a backend. Two implementations: `in_process` and `remote`."""
