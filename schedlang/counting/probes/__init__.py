"""Functions that an instrumented kernel calls at each access, over int64 arrays, compiled by numba.

``caches`` and ``log`` each define ``report``; ``layout`` says what is where in their arrays. Only
instrumented kernels import the first two, so that no other module imports numba.
"""
