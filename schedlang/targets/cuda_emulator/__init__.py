"""The target of kernels of a GPU on the CPU."""
