"""Operators on sparse matrices in compressed rows."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from schedlang.errors import missing_name
from schedlang.tvm.topi.sparse.csr import CSR, csrmm, csrmv, dense, placeholder


def __getattr__(name: str) -> Any:
    if name == "utils":
        # SciPy's matrices are for programs that make random ones
        return import_module("schedlang.topi.sparse.utils")
    raise missing_name(__name__, name, {}, "topi.sparse")


__all__ = ["CSR", "csrmm", "csrmv", "dense", "placeholder"]
