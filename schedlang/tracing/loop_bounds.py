"""The bounds of ``sl.fori_loop``: integers of Python."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.nodes import Const, Expr
from schedlang.tracing.array import TracedArray, plain


def bound(value: Any, name: str) -> int:
    """Return a bound as an integer; raise ``ComputeTypeError`` for anything else."""
    number = plain(value) if isinstance(value, TracedArray) else value
    if isinstance(number, (Tensor, Expr)) and not isinstance(number, Const):
        # such as np.int64(n), the size of a dimension, or the index of a loop around this one
        title = number.name if isinstance(number, Tensor) else number
        raise ComputeTypeError(
            explain(
                f"sl.fori_loop: {name} is {title}, whose value is unknown while the loop is traced",
                "the bounds of sl.fori_loop must be Python integers",
                f"Pass {title} as an int, or name it in static_argnames; give sl.trace arguments "
                "of known shapes. An outer loop over range has indices that are integers.",
            )
        )
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise ComputeTypeError(
            f"sl.fori_loop: {name} is {number!r}, but the bounds must be Python integers"
        )
    return int(number)
