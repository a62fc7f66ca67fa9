"""Counts of elements in bins, of which the call gives the number."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.host.calls import on_host
from schedlang.arrays.host.row import Row
from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.refused import refuse_function
from schedlang.arrays.shapes import extent
from schedlang.arrays.stages import read, tensor_of
from schedlang.compute.facts import facts_of
from schedlang.compute.scatter import scatter
from schedlang.compute.tensor import Extent, Shape, Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.language.construct import as_expr, cast


def _bins(bins: Any, asked: str) -> tuple[Extent, Extent]:
    """Return the number of bins and of edges; raise for a rule by which NumPy chooses it."""
    if isinstance(bins, str):
        raise ComputeError(
            explain(
                f"{asked}(bins={bins!r})",
                "the number of bins would depend on elements",
                "Give the number of bins, bins=10, or their edges.",
            )
        )
    if isinstance(bins, tuple) and len(bins) == 1:
        # the shape of an array of edges
        return extent(as_expr(bins[0]) - 1), bins[0]
    if isinstance(bins, bool) or not hasattr(bins, "__index__"):
        raise ComputeTypeError(
            f"{asked}: bins={bins!r} is neither a number of bins nor a vector of edges; give an "
            "integer, or a list of edges"
        )
    return int(bins), int(bins) + 1


def _histogram(a: Shape, bins: Any = 10, **_: Any) -> Any:
    count, edges = _bins(bins, "np.histogram")
    return [(count,), (edges,)]


def _edges(a: Shape, bins: Any = 10, **_: Any) -> Shape:
    return (_bins(bins, "np.histogram_bin_edges")[1],)


def bincount(x: Any, weights: Any = None, minlength: Any = 0) -> Tensor:
    """Return ``np.bincount`` with ``minlength`` bins, of which no element may be beyond the last.

    It is a scatter if the dtype of ``x``, or what ``sl.assume`` says of it, proves that. Else NumPy
    counts on the host, and a call with a larger element raises
    :class:`~schedlang.errors.CallError`.
    """
    count = int(minlength)
    source = tensor_of(x, "np.bincount")
    if not count:
        refuse_function("bincount", f"tensor {source.name}")
    if source.ndim != 1 or not _within(source, count):
        return on_host("bincount", BINCOUNT, x=x, weights=weights, minlength=count)
    scale = None if weights is None else tensor_of(weights, "np.bincount")

    def update(k: Any) -> tuple[Any, Any]:
        weight = 1 if scale is None else cast(read(scale, [k]), "float64")
        return read(source, [k]), weight

    counts: Tensor = scatter((count,), source.shape, update, name=automatic_name("bincount"))
    mark_automatic(counts)
    return counts


def _within(source: Tensor, count: int) -> bool:
    """Return whether each element is proven to lie in ``0..count``."""
    if source.dtype in ("uint8", "uint16"):
        return count > np.iinfo(source.dtype).max
    facts = facts_of(source)
    low, high = (None, None) if facts is None or facts.within is None else facts.within
    return isinstance(low, int) and isinstance(high, int) and low >= 0 and high < count


BINCOUNT = Row(
    "x weights minlength", "x weights", lambda x, minlength, **_: (minlength,), {"minlength": 2}
)
ROWS = {
    "histogram": Row("a bins range density weights", "a bins weights", _histogram),
    "histogram_bin_edges": Row("a bins range weights", "a bins weights", _edges),
}
