"""The library that emitted source imports: `cpu` and `gpu` for numba, `twins` in NumPy.

The other modules hold what the CPU and the GPU share: the vector type (``simd.py``) and its
operations. ``cpu/`` adds the C library and float32 polynomials, ``gpu/`` adds libdevice, atomics
and exchanges in a warp. Each intrinsic has a twin in ``twins/`` that does the same to NumPy arrays,
so that the emitted text runs uncompiled. ``dialect.py`` lists the names for a CPU without importing
numba. The simple functions follow from the rows of ``expr/functions.py`` and ``expr/operators.py``.
"""
