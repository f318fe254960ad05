"""The service that a JupyterHub runs: one URL for the agents of all its users."""
