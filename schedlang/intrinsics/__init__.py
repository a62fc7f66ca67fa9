"""The library that emitted source imports: `cpu` and `gpu` for numba, `twins` in NumPy.

The other modules hold what the CPU and the GPU share: the vector type and its operations.
"""
