"""Sorts, and the first elements of an order, for models of any library.

A whole sort is topi's, by loops. The first ``k`` elements are chosen one after the other: each of
all that come later in the order than the one before it. Equal elements keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.shapes import same
from schedlang.arrays.shaping import permute, swapaxes
from schedlang.compute import reduce
from schedlang.compute.define import define
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.scan import scan
from schedlang.compute.tensor import Extent, Tensor, placeholder
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.node_stages import cast_to
from schedlang.language.calls import call
from schedlang.language.construct import cast, select
from schedlang.tvm.topi.sorting import LONGEST, ordered
from schedlang.tvm.topi.stages import compute

# the error for a reason, and for what to do instead
Refuse = Callable[[str, str], Exception]


def first_in_order(
    x: Tensor, along: int, count: int | None, descending: bool, used: Sequence[bool], refuse: Refuse
) -> tuple[Tensor | None, Tensor | None]:
    """Return the first ``count`` elements of the order along a dimension, and their indices.

    Without ``count`` it is all of them. NaN is greater than all numbers. What is not ``used`` is
    ``None``.
    """
    length = x.shape[along]
    if count is None or same(count, length):
        check_length(length, refuse)
        pair: Any = ordered("a sort", x, along, None, descending)
        values, places = (t if wanted else None for t, wanted in zip(pair, used))
        return values, places
    if isinstance(length, int) and not 0 <= count <= length:
        raise refuse(f"it chooses {count} of {length} elements", "Choose as many as there are.")
    chosen = _selected(swapaxes(x, along, -1), count, descending, used)
    values, places = (None if t is None else swapaxes(t, along, -1) for t in chosen)
    return values, places


def check_length(length: Extent, refuse: Refuse) -> None:
    """Raise for an axis that a network does not sort: topi sorts a longer one on the host."""
    if not isinstance(length, int) or length > LONGEST:
        raise refuse(
            f"its axis has {length} elements, and a sort here compares all pairs of an axis",
            f"Sort axes of a known extent, of {LONGEST} at most.",
        )


def _selected(
    rows: Tensor, count: int, descending: bool, used: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Return the first elements of the order in the last dimension."""
    if not count:
        empty = (*rows.shape[:-1], 0)
        return topi.full(empty, rows.dtype, 0), topi.full(empty, "int64", 0)
    chosen = _places(_keys(rows), count, descending)
    lead, last = rows.ndim - 1, rows.shape[-1]
    indices = permute(chosen, (*range(1, lead + 1), 0))

    def element(*at: Axis) -> Expr:
        return rows.element((*at[:-1], _within(indices.element(at), last)))

    values = compute("value", indices.shape, element) if used[0] else None
    return values, indices if used[1] else None


def _places(keys: Tensor, count: int, descending: bool) -> Tensor:
    """Return the indices of the first elements of the last dimension, as a scan: they come first.

    Each step takes the best of the elements that come after the one before it.
    """
    best = reduce.argmax if descending else reduce.argmin
    *lead, length = keys.shape
    name = automatic_name("chosen")
    state = placeholder((count, *lead), "int64", name=f"{name}.state")

    def axes() -> list[Axis]:
        return [Axis(f"i{k}", extent) for k, extent in enumerate(lead)]

    at, j = axes(), reduce_axis(length, "j")
    first = define(f"{name}.first", (Axis("t", 1), *at), best(keys.element((*at, j)), j))
    at, t = axes(), Axis("t", count)
    before = _within(state.element((t - 1, *at)), length)
    last = define(f"{name}.last", (t, *at), keys.element((*at, before)))
    at, t, j = axes(), Axis("t", count), reduce_axis(length, "j")
    own, limit = keys.element((*at, j)), last.element((t, *at))
    after = own < limit if descending else limit < own
    later = after | (own.equal(limit) & (j > state.element((t - 1, *at))))
    step = define(f"{name}.step", (t, *at), best(own, j, later))
    result: Tensor = scan(first, step, state, name=name)
    mark_automatic(result)
    return result


def _within(index: Expr, length: Extent) -> Expr:
    """Return an index that is in range, whatever the elements are."""
    return call("max", call("min", index, cast(length, "int64") - 1), cast(0, "int64"))


def _keys(rows: Tensor) -> Tensor:
    """Return integers in the order of the elements: of floats their bits, and the largest of NaN.

    So a comparison of two of them decides, also between infinity and NaN.
    """
    if not dtypes.is_float(rows.dtype):
        return cast_to(rows, "uint8") if rows.dtype == "bool" else rows
    bits = 64 if rows.dtype == "float64" else 32
    kind, largest = f"int{bits}", 2 ** (bits - 1) - 1

    def key(element: Expr) -> Expr:
        value = cast(element, f"float{bits}")
        own = call(f"bits_{kind}", value)
        # 0.0 and -0.0 are equal, and a negative float has a sign beside its bits
        ordered = select(value.equal(0), 0, select(own < 0, own ^ largest, own))
        return select(value == value, ordered, largest)  # noqa: PLR0124

    return array("key", key, rows)
