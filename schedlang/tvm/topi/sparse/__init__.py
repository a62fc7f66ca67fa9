"""Operators on sparse matrices in compressed rows."""

from __future__ import annotations

from schedlang.tvm.topi.sparse.csr import CSR, csrmm, csrmv, placeholder

__all__ = ["CSR", "csrmm", "csrmv", "placeholder"]
