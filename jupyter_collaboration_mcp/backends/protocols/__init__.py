"""The interface of a backend to the layers above, implemented by `in_process` and `remote`."""
