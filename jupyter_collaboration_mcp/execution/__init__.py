"""An agent at a kernel: runs, their queue, what they put out, and looking at variables."""
