"""Operators on sparse matrices in compressed rows."""

from __future__ import annotations

from typing import Any

from schedlang.errors import missing_name
from schedlang.tvm.topi.sparse.csr import CSR, csrmm, csrmv, dense, placeholder

REFUSED = {
    "utils": (
        "random sparse matrices and rules of sketches are not part of topi here",
        "scipy.sparse.random makes a matrix, whose data, indices and indptr a call takes.",
    ),
}


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, REFUSED, "topi.sparse")


__all__ = ["CSR", "csrmm", "csrmv", "dense", "placeholder"]
