"""The dtypes of te programs, of which some names mean another size than NumPy's."""

from __future__ import annotations

from schedlang.expr import dtypes

BITS = {"int": "int32", "uint": "uint32", "float": "float32"}


def te_dtype(dtype: object) -> str:
    """Return ``dtype`` as te interprets it: ``"int"`` and ``"float"`` have 32 bits.

    >>> te_dtype("float"), te_dtype("float64")
    ('float32', 'float64')
    """
    return dtypes.canonical(BITS.get(dtype, dtype) if isinstance(dtype, str) else dtype)
