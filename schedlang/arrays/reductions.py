"""NumPy's reductions of whole arrays: sums, products, extremes, tests and their indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.arrays.elementwise import array
from schedlang.arrays.operands import Operand, operand, shape_of
from schedlang.arrays.shapes import axis_number, broadcast, reduced_axes, same
from schedlang.arrays.stages import axis_names, element, stage, tensor_of
from schedlang.compute import math, reduce
from schedlang.compute.reduce import Reduction
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import binary, cast, const, select

# makes a reduction over axes, under a condition, of an element of each source
Fold = Callable[..., Reduction]


def fold(
    word: str,
    sources: Sequence[Operand],
    axes: Sequence[int],
    make: Fold,
    keepdims: bool = False,
    where: Any = None,
    asked: str = "",
) -> Tensor:
    """Return ``make(reduction axes, condition, *elements)`` over the dimensions ``axes``.

    The first of ``sources`` is a tensor, to whose shape the others are broadcast. A reduction over
    no dimension is one of a single element.
    """
    source = sources[0]
    assert isinstance(source, Tensor)
    names = axis_names(source.ndim)
    data: list[Axis] = []
    reduced: list[Axis] = []
    indices: list[Axis] = []
    for k, (name, extent) in enumerate(zip(names, source.shape)):
        if k in axes:
            reduced.append(Axis(name, extent, "reduce"))
            indices.append(reduced[-1])
            if keepdims:
                data.append(Axis(f"{name}0", 1))
        else:
            data.append(Axis(name, extent))
            indices.append(data[-1])
    if not reduced:
        reduced.append(Axis("k", 1, "reduce"))
    condition = None if where is None else _condition(where, source, indices, asked)
    elements = (element(v, indices, source.shape) for v in sources)
    return stage(word, tuple(data), make(tuple(reduced), condition, *elements))


def _condition(where: Any, source: Tensor, indices: Sequence[Axis], asked: str) -> Expr:
    mask = operand(where, asked)
    if mask.dtype != "bool":
        raise ComputeTypeError(
            f"{asked}: where= is {mask.dtype}, but must be bool; write where=mask != 0"
        )
    shapes = [source.shape, shape_of(mask)]
    common = broadcast(shapes, f"{asked} with where=")
    if len(common) > source.ndim or not all(map(same, common, source.shape)):
        raise ComputeError(
            f"{asked}: where= of shape {shape_text(shapes[1])} is larger than the array of shape "
            f"{shape_text(source.shape)}; reduce np.broadcast_to(A, {shape_text(common)})"
        )
    return element(mask, indices, source.shape)


def sum_dtype(dtype: str) -> str:
    """Return the dtype in which NumPy sums ``dtype``: integers take 64 bits at least."""
    if dtypes.is_float(dtype) or dtypes.is_complex(dtype):
        return dtype
    return "uint64" if dtype.startswith("uint") else "int64"


def total(
    name: str,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Return ``np.sum`` or ``np.prod``; sums of short floats are accumulated in float32."""
    asked = f"np.{name}"
    source = tensor_of(a, asked)
    kind = sum_dtype(source.dtype) if dtype is None else dtypes.canonical(dtype)
    if kind == "bool":
        if initial is not None:
            raise ComputeTypeError(
                f"{asked}(dtype=bool, initial=...): with bools this is np.any or np.all, which "
                "take no initial=; combine the result with it afterwards, by | or &"
            )
        return truth("any" if name == "sum" else "all", source, axis, keepdims, where)
    wide = "float32" if kind in dtypes.SHORT_FLOATS and name == "sum" else kind
    make = reduce.sum if name == "sum" else reduce.prod
    result = fold(
        name,
        [source],
        reduced_axes(axis, source.ndim, asked),
        lambda k, c, x: make(cast(x, wide), k, c, _initial(initial, asked)),
        keepdims,
        where,
        asked,
    )
    return result if wide == kind else array("astype", lambda x: cast(x, kind), result)


def _initial(value: Any, asked: str) -> Any:
    if value is None:
        return None
    start = operand(value, f"{asked} with initial=")
    if isinstance(start, Tensor) and start.ndim:
        raise ComputeTypeError(f"{asked}: initial={start.name} must be a number, not an array")
    return start.as_scalar() if isinstance(start, Tensor) else start


def extreme(
    name: str,
    a: Any,
    axis: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Return ``np.max`` or ``np.min``; NaN propagates."""
    asked = f"np.{name}"
    source = tensor_of(a, asked)
    axes = reduced_axes(axis, source.ndim, asked)
    if initial is None:
        if where is not None:
            raise ComputeError(
                explain(
                    f"{asked} with where=",
                    f"the {name} of no elements is undefined",
                    f"Give initial=, which is the result there, such as initial="
                    f"{'-' * (name == 'max')}np.inf.",
                )
            )
        _refuse_empty(asked, source, axes)
    make = reduce.max if name == "max" else reduce.min
    return fold(
        f"a{name}",
        [source],
        axes,
        lambda k, c, x: make(x, k, where=c, init=_initial(initial, asked)),
        keepdims,
        where,
        asked,
    )


def _refuse_empty(asked: str, source: Tensor, axes: Sequence[int]) -> None:
    if any(isinstance(e, int) and e == 0 for e in (source.shape[k] for k in axes)):
        raise ComputeError(
            explain(
                f"{asked} of {source.name} of shape {shape_text(source.shape)}",
                "it has no elements",
                "Give initial= to define the result." if "arg" not in asked else "",
            )
        )


def index_of(name: str, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return ``np.argmax`` or ``np.argmin``: an int64 index, the first one on ties."""
    asked = f"np.{name}"
    source = tensor_of(a, asked)
    axes = tuple(range(source.ndim))
    if axis is not None:
        number = axis_number(axis, source.ndim or 1, asked)
        axes = (number,) if source.ndim else ()
    _refuse_empty(asked, source, axes)
    make = reduce.argmax if name == "argmax" else reduce.argmin
    return fold(name, [source], axes, lambda k, c, x: make(x, k, c), keepdims)


def truth(name: str, a: Any, axis: Any = None, keepdims: bool = False, where: Any = None) -> Tensor:
    """Return ``np.any`` or ``np.all``."""
    asked = f"np.{name}"
    source = tensor_of(a, asked)
    make = math.any if name == "any" else math.all
    axes = reduced_axes(axis, source.ndim, asked)
    return fold(
        name, [source], axes, lambda k, c, x: make(x, axis=k, where=c), keepdims, where, asked
    )


def peak_to_peak(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return ``np.ptp``: the largest element less the smallest."""
    high, low = (extreme(name, a, axis, keepdims) for name in ("max", "min"))
    return array("ptp", lambda x, y: binary("-", x, y), high, low)


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return ``np.count_nonzero`` as int64."""
    source = tensor_of(a, "np.count_nonzero")
    return fold(
        "count",
        [source],
        reduced_axes(axis, source.ndim, "np.count_nonzero"),
        lambda k, c, x: reduce.sum(cast(_nonzero(x), "int64"), k, c),
        keepdims,
    )


def _nonzero(value: Expr) -> Expr:
    if dtypes.is_complex(value.dtype):
        return binary("!=", value, 0)
    return cast(value, "bool")


def nan_total(
    name: str,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Return ``np.nansum`` or ``np.nanprod``: NaN counts as 0 or 1."""
    source = tensor_of(a, f"np.nan{name}")
    if dtypes.is_float(source.dtype) or dtypes.is_complex(source.dtype):
        unit = 0 if name == "sum" else 1
        source = array("where", lambda x: select(call("isnan", x), const(unit, x.dtype), x), source)
    return total(name, source, axis, dtype, keepdims, initial, where)
