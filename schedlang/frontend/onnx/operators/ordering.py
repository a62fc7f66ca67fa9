"""The largest or the smallest elements along a dimension."""

from __future__ import annotations

from schedlang.arrays.shapes import axis_number
from schedlang.compute.tensor import Tensor
from schedlang.frontend.onnx.call import Call, Flag
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known
from schedlang.frontend.ordering import first_in_order


def top_k(
    call: Call,
    x: Tensor,
    k: Known,
    *,
    axis: int = -1,
    largest: Flag = 1,
    sorted: Flag = 1,  # noqa: A002
) -> tuple[Tensor | None, Tensor | None]:
    """The elements are sorted in any case. The first of equal elements comes first."""
    return _first(call, x, call.integer(k, "K"), axis, bool(largest))


def top_k_before_order(
    call: Call, x: Tensor, k: Known, *, axis: int = -1
) -> tuple[Tensor | None, Tensor | None]:
    return _first(call, x, call.integer(k, "K"), axis, True)


def top_k_of_attribute(
    call: Call, x: Tensor, *, k: int, axis: int = -1
) -> tuple[Tensor | None, Tensor | None]:
    return _first(call, x, k, axis, True)


def _first(
    call: Call, x: Tensor, count: int, axis: int, largest: bool
) -> tuple[Tensor | None, Tensor | None]:
    used = [bool(name) for name in (*call.node.outputs, "", "")[:2]]
    along = axis_number(axis, x.ndim, str(call.node))
    return first_in_order(x, along, count, largest, used, call.refused)


OPERATORS: Table = {
    "TopK": {1: top_k_of_attribute, 10: top_k_before_order, **since(top_k, 11, 24)},
}
