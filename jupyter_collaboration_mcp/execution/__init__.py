"""Running code in kernels: runs, their queue, their outputs, and inspecting variables."""
