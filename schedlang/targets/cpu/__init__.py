"""The target of the CPU, by LLVM or by numba."""
