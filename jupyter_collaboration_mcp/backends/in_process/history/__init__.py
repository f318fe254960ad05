"""The history of documents: what jupyter-collaboration's store has, and an index of our own."""
