"""The refusal of extents that depend on elements of tensors."""

from __future__ import annotations

from schedlang.compute.read import Read
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Expr
from schedlang.expr.visit import postorder


def refuse_elements(value: Expr, what: str) -> None:
    """Raise ``ComputeError`` if ``value``, the extent ``what``, depends on an element."""
    if any(isinstance(node, Read) for node in postorder([value])):
        raise ComputeError(
            explain(
                f"{what} is {value}",
                "the shape of a result must be known before a call reads any element",
                "Give the largest extent, and choose what the rest holds with sl.if_then_else. "
                f"Only a reduction axis may have such a range: sl.reduce_axis((0, {value})).",
            )
        )
