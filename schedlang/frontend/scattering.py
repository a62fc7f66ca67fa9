"""Writes at indices that models make, as scatters; for models of any library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.compute.scatter import scatter
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import as_expr, cast, select

# a sum of truth values is true if one of them is
_OF_TRUTH = {"sum": "any", "max": "any", "prod": "all", "min": "all"}


def scattered(
    data: Tensor, domain: Sequence[Extent], update: Callable[..., Any], combine: str
) -> Tensor:
    """Return ``data`` after the updates ``update(*axes)`` of ``domain``, as ``sl.scatter`` does.

    An update at an index that is out of range is dropped, so that no other memory is written.
    """
    if data.dtype == "bool":
        combine = _OF_TRUTH.get(combine, combine)
    name = automatic_name("scatter")
    result: Tensor = scatter(data, domain, update, combine, mode="drop", name=name)
    mark_automatic(result)
    return result


def scattered_along(
    data: Tensor, along: int, indices: Tensor, value: Callable[..., Any], combine: str
) -> Tensor:
    """Return ``data`` with the updates ``value(axes)`` at ``indices`` of dimension ``along``.

    The other indices are the axes of ``indices`` themselves.
    """

    def update(*at: Axis) -> tuple[tuple[Expr, ...], Any]:
        place = from_start(indices.element(at), data.shape[along])
        return (*at[:along], place, *at[along + 1 :]), value(at)

    return scattered(data, indices.shape, update, combine)


def from_start(index: Expr, size: Extent) -> Expr:
    """Return ``index`` from the start of a dimension; a negative one counts from the end."""
    return select(index < 0, index + cast(as_expr(size), index.dtype), index)
