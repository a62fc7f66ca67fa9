"""Views of an array through windows, and places as numbers and as tuples."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.elementwise import array
from schedlang.arrays.operands import operand
from schedlang.arrays.shapes import axis_numbers, extent
from schedlang.arrays.stages import tensor_of, view
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Expr
from schedlang.language.construct import as_expr, binary, cast


def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, writeable: bool = False
) -> Tensor:
    """Return ``np.lib.stride_tricks.sliding_window_view``: every window of ``x``, as a view."""
    asked = "np.lib.stride_tricks.sliding_window_view"
    source = tensor_of(x, asked)
    sizes = tuple(window_shape) if isinstance(window_shape, (list, tuple)) else (window_shape,)
    if axis is None:
        numbers = tuple(range(source.ndim))
    else:
        listed = axis if isinstance(axis, (list, tuple)) else (axis,)
        numbers = tuple(axis_numbers(k, source.ndim, asked)[0] for k in listed)
    if len(sizes) != len(numbers):
        raise ComputeError(
            f"{asked}: window_shape={window_shape} has {len(sizes)} extents for {len(numbers)} "
            "axes; give one for each"
        )
    lead = list(source.shape)
    for k, size in zip(numbers, sizes):
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < 0:
            raise ComputeError(
                f"{asked}: window_shape={window_shape} must be integers of 0 or more"
            )
        lead[k] = extent(as_expr(lead[k]) - (int(size) - 1))
        if isinstance(lead[k], int) and lead[k] < 1:
            raise ComputeError(
                f"{asked}: a window of {size} is longer than axis {k} of shape "
                f"{shape_text(source.shape)}; give a shorter one"
            )

    def place(*at: Expr) -> list[Any]:
        indices: list[Any] = [*at[: source.ndim]]
        for k, inner in zip(numbers, at[source.ndim :]):
            indices[k] = indices[k] + inner
        return indices

    return view("windows", source, (*lead, *map(int, sizes)), place)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Return ``np.unravel_index``: the index in each dimension of elements that are counted."""
    extents = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    source = operand(indices, "np.unravel_index")
    results = []
    rest = 1
    for k in reversed(range(len(extents))):
        step, size = rest, extents[k]

        def part(v: Expr, step: Any = step, size: Any = size, first: bool = k == 0) -> Expr:
            whole = binary("//", cast(v, "int64"), step)
            return whole if first else binary("%", whole, size)

        results.append(array("unravel_index", part, source))
        rest = rest * size
    return tuple(reversed(results))


def ravel_multi_index(multi_index: Any, dims: Any) -> Any:
    """Return ``np.ravel_multi_index``: the number of the element at an index for each dimension."""
    extents = tuple(dims) if isinstance(dims, (list, tuple)) else (dims,)
    places = [operand(v, "np.ravel_multi_index") for v in multi_index]
    if len(places) != len(extents):
        raise ComputeError(
            f"np.ravel_multi_index: {len(places)} indices for {len(extents)} dimensions; give one "
            "for each"
        )

    def number(*at: Expr) -> Expr:
        result = cast(at[0], "int64")
        for value, size in zip(at[1:], extents[1:]):
            result = binary("+", binary("*", result, size), cast(value, "int64"))
        return result

    return array("ravel_multi_index", number, *places)
