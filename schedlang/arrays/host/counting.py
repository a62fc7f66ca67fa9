"""Counts of elements in bins, of which the call gives the number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.arrays.elementwise import array
from schedlang.arrays.host.calls import numpy_result, on_host
from schedlang.arrays.host.row import Row
from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.rearranging import diff
from schedlang.arrays.reductions import total
from schedlang.arrays.refused import refuse_function
from schedlang.arrays.shapes import extent
from schedlang.arrays.stages import each, read, tensor_of
from schedlang.compute.facts import facts_of
from schedlang.compute.scatter import scatter
from schedlang.compute.tensor import Extent, Shape, Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, cast, const, select


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
    if isinstance(bins, tuple) and not bins:
        raise ComputeTypeError(
            explain(
                f"{asked}(bins=...)",
                "only a call knows the number of bins",
                "Give bins as a number of Python, or name it in static_argnames.",
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


def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,  # noqa: A002
    density: Any = None,
    weights: Any = None,
) -> tuple[Tensor, Tensor]:
    """Return ``np.histogram``, a scatter if ``bins`` and ``range`` are numbers.

    NumPy's edges are rounded, and so are ours: an element that is equal to one up to rounding may
    count in the bin beside it. Other histograms are computed by NumPy, on the host.
    """
    source = tensor_of(a, "np.histogram")
    scale = None if weights is None else tensor_of(weights, "np.histogram")
    is_number = hasattr(bins, "__index__") and not isinstance(bins, (bool, Tensor, Expr))
    ends = range if isinstance(range, (tuple, list)) and len(range) == 2 else ()
    if (
        not (is_number and ends and all(isinstance(e, (int, float, np.number)) for e in ends))
        or source.dtype in ("bool", "float16", "bfloat16")
        or dtypes.is_complex(source.dtype)
        or not (scale is None or np.can_cast(scale.dtype, "float64"))
    ):
        results: tuple[Tensor, Tensor] = on_host(
            "histogram", HISTOGRAM, a=a, bins=bins, range=range, density=density, weights=weights
        )
        return results
    if scale is not None and scale.shape != source.shape:
        raise ComputeError(
            f"np.histogram: weights of shape {shape_text(scale.shape)} for an array of shape "
            f"{shape_text(source.shape)}; give a weight for each element"
        )
    count = int(bins)
    known = numpy_result(
        "np.histogram", np.histogram_bin_edges, np.empty(0, source.dtype), count, ends
    )
    grid = _Grid(count, float(known[0]), float(known[-1]), known.dtype.name)
    edges = each("edges", (count + 1,), grid.edge)

    def value(at: Sequence[Any]) -> Any:
        return 1 if scale is None else cast(read(scale, at), "float64")

    counts: Any = scatter(
        (count,),
        source.shape,
        lambda *at: (grid.place(read(source, at)), value(at)),
        where=lambda *at: grid.holds(read(source, at)),
        name=automatic_name("histogram"),
    )
    mark_automatic(counts)
    if density:
        widths = array("widths", lambda v: cast(v, "float64"), diff(edges))
        return counts / widths / total("sum", counts), edges
    if scale is not None and scale.dtype != "float64":
        counts = array("astype", lambda v: cast(v, scale.dtype), counts)
    return counts, edges


@dataclass(frozen=True)
class _Grid:
    """Bins of one width between ``low`` and ``high``, whose edges have a dtype."""

    count: int
    low: float
    high: float
    dtype: str

    def edge(self, k: Any) -> Expr:
        step = (self.high - self.low) / self.count
        inner = cast(as_expr(k), "float64") * step + self.low
        last = binary(">=", as_expr(k), self.count)
        return cast(select(last, const(self.high, "float64"), inner), self.dtype)

    def holds(self, value: Expr) -> Expr:
        """Return whether a value is between the ends; NaN is not."""
        given = cast(value, self.dtype)
        return binary("&", binary(">=", given, self.low), binary("<=", given, self.high))

    def place(self, value: Expr) -> Expr:
        """Return the bin of a value, corrected by its edges in NumPy's way."""
        given = cast(value, self.dtype)
        scaled = (given - self.low) / (self.high - self.low) * self.count
        near = call("min", cast(scaled, "int64"), const(self.count - 1, "int64"))
        below = select(binary("<", given, self.edge(near)), const(1, "int64"), const(0, "int64"))
        lower = near - below
        above = binary(">=", given, self.edge(lower + 1)) & binary("<", lower, self.count - 1)
        return lower + select(above, const(1, "int64"), const(0, "int64"))


BINCOUNT = Row(
    "x weights minlength", "x weights", lambda x, minlength, **_: (minlength,), {"minlength": 2}
)
HISTOGRAM = Row("a bins range density weights", "a bins weights", _histogram)
ROWS = {
    "histogram_bin_edges": Row("a bins range weights", "a bins weights", _edges),
}
