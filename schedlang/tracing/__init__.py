"""Traced functions: ``sl.jit``, ``sl.trace`` and ``sl.fori_loop``."""
