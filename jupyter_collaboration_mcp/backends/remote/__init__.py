"""The backend for a Jupyter server elsewhere: REST and WebSockets, nothing of ours installed."""
