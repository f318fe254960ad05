"""The backend inside a Jupyter server: its rooms, files and kernels, and the journal."""
