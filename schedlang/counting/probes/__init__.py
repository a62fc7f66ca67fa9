"""Functions that an instrumented kernel calls at each access; their text is part of its file.

``caches`` and ``log`` each define ``report``, and ``lanes`` the reports of vectors whose lanes are
apart. They are plain Python over int64 arrays, which numba compiles.
"""
