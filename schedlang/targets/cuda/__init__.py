"""The target of NVIDIA GPUs, by numba.cuda."""
