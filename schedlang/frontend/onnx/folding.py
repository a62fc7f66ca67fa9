"""Operators on small known arrays, computed by NumPy at import: the arithmetic on shapes.

Exporters write the shapes of reshapes and slices as graphs of such operators. The elements may be
symbolic sizes; :mod:`~schedlang.frontend.onnx.symbolic` computes with those. A function returns
``None`` for what is left to a stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.errors import FrontendError
from schedlang.frontend.onnx import symbolic
from schedlang.frontend.onnx.elements import DTYPES, array_dtype
from schedlang.frontend.onnx.graph import Node
from schedlang.frontend.onnx.values import Known, Value

# arrays of more elements are stages, which fuse with what reads them
MOST_ELEMENTS = 64


def folded(
    node: Node, values: Sequence[Value | None], attributes: dict[str, Any]
) -> list[Known] | None:
    """Return what a node computes from small known arrays; ``None`` if it is to be a stage."""
    function = MOVING.get(node.operator) or COMPUTING.get(node.operator)
    given = [v for v in values if v is not None]
    if node.domain or function is None or not given:
        return None
    if not all(isinstance(v, Known) and _few(v.shape) for v in given):
        return None
    known: list[Any] = given
    try:
        found = _computed(node, function, values, known, attributes)
        return None if found is None else [Known("", symbolic.settled(*v), v[1]) for v in found]
    except (ValueError, IndexError, TypeError, KeyError, ArithmeticError) as error:
        if isinstance(error, FrontendError):
            raise
        raise node.refused(f"it does not fit its inputs: {error}") from None


def _few(shape: Sequence[int]) -> bool:
    """Return whether arrays of a shape are computed at import.

    An extent of 0 counts as 1: without it, as in the middle of a computation, there may be many.
    """
    return math.prod(max(n, 1) for n in shape) <= MOST_ELEMENTS


def _computed(
    node: Node, function: Callable[..., Any], values: Sequence[Value | None], known: list[Any],
    attributes: dict[str, Any],
) -> list[tuple[np.ndarray, str]] | None:  # fmt: skip
    """Return the results as arrays and their dtypes."""
    arrays = [v.array if isinstance(v, Known) else None for v in values]
    # a few elements in each of many dimensions broadcast to more than any memory holds
    broadcasts = node.operator in BROADCASTING
    if broadcasts and not _few(np.broadcast_shapes(*(v.shape for v in known))):
        return None
    dtype = known[0].dtype
    if any(v.symbolic for v in known) and node.operator not in MOVING:
        found = symbolic.computed(node.operator, arrays, attributes)
        # the results of tests are arrays of bools
        dtype = dtype if found is None or found.dtype == object else found.dtype.name
        if found is not None and node.operator == "Cast":
            dtype = DTYPES[attributes["to"]]
    else:
        with np.errstate(all="ignore"):
            found = function(*arrays, **attributes)
        # NumPy returns an element, not an array of no dimensions
        if found is not None and not isinstance(found, (list, np.ndarray)):
            found = symbolic.scalar(found)
        first = found[0] if isinstance(found, list) else found
        if first is not None and first.dtype != object:
            dtype = first.dtype.name
        elif node.operator == "Where":
            dtype = known[1].dtype
    if found is None:
        return None
    parts = found if isinstance(found, list) else [found]
    return [(part, dtype) for part in parts] if all(_few(p.shape) for p in parts) else None


def _numbers(axes: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in np.asarray(axes).reshape(-1))


def _concat(*xs: Any, axis: int = 1) -> Any:
    return np.concatenate(xs, axis)


def _gather(data: Any, indices: Any, *, axis: int = 0) -> Any:
    return np.take(data, indices, axis, mode="raise")


def _slice(
    data: Any, starts_in: Any = None, ends_in: Any = None, axes_in: Any = None, steps: Any = None,
    *, starts: Any = None, ends: Any = None, axes: Any = None,
) -> Any:  # fmt: skip
    first = starts_in if starts is None else starts
    last = ends_in if ends is None else ends
    along = axes_in if axes is None else axes
    for bounds in (first, last, steps, along):
        if bounds is not None and np.asarray(bounds).dtype == object:
            return None
    begin, end = _numbers(first), _numbers(last)
    dims = range(len(begin)) if along is None else _numbers(along)
    by = (1,) * len(begin) if steps is None else _numbers(steps)
    taken = [slice(None)] * data.ndim
    for k, b, e, s in zip(dims, begin, end, by):
        taken[k] = slice(b, e, s) if not (s < 0 and e < -data.shape[k]) else slice(b, None, s)
    return data[tuple(taken)]


def _squeeze(data: Any, axes_in: Any = None, *, axes: Any = None) -> Any:
    along = axes_in if axes is None else axes
    return np.squeeze(data, None if along is None else _numbers(along))


def _unsqueeze(data: Any, axes_in: Any = None, *, axes: Any = None) -> Any:
    return np.expand_dims(data, _numbers(axes_in if axes is None else axes))


def _reshape(data: Any, shape: Any, *, allowzero: int = 0) -> Any:
    if shape.dtype == object:
        return None
    wanted = [
        data.shape[k] if n == 0 and not allowzero else n for k, n in enumerate(_numbers(shape))
    ]
    return np.reshape(data, wanted)


def _transpose(data: Any, *, perm: Any = None) -> Any:
    return np.transpose(data, perm)


def _flatten(data: Any, *, axis: int = 1) -> Any:
    if not -data.ndim <= axis <= data.ndim:
        raise ValueError(f"axis {axis} of {data.ndim} dimensions")
    at = axis % data.ndim if axis < 0 else axis
    return data.reshape(math.prod(data.shape[:at]), -1) if data.size else None


def _expand(data: Any, shape: Any) -> Any:
    if shape.dtype == object:
        return None
    return _broadcast(data, _numbers(shape))


def _broadcast(data: Any, shape: tuple[int, ...]) -> Any:
    if any(n < 0 for n in shape):
        raise ValueError(f"a negative extent in {shape}")
    if not _few(shape):
        return None
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, shape)).copy()


def _tile(data: Any, repeats: Any) -> Any:
    counts = () if repeats.dtype == object else _numbers(repeats)
    if len(counts) != data.ndim or any(not 0 <= n <= MOST_ELEMENTS for n in counts):
        return None
    return np.tile(data, counts) if _few((*counts, *data.shape)) else None


def _split(
    data: Any, split_in: Any = None, *, axis: int = 0, split: Any = None, num_outputs: Any = None
) -> Any:
    # without sizes, the number of outputs decides, which a stage knows
    sizes = split_in if split is None else split
    if sizes is None or np.asarray(sizes).dtype == object:
        return None
    counts = _numbers(sizes)
    if sum(counts) != data.shape[axis] or min(counts, default=0) < 0:
        raise ValueError(f"parts of {counts} are not those of {data.shape[axis]} elements")
    return list(np.split(data, np.cumsum(counts)[:-1], axis))


def _where(condition: Any, x: Any, y: Any) -> Any:
    return None if condition.dtype == object else np.where(condition, x, y)


def _cast(data: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    if to not in DTYPES or (data.dtype.kind in "fc" and not np.isfinite(data).all()):
        return None
    return data.astype(array_dtype(DTYPES[to]))


def _div(a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iu":
        return a / b
    if not np.all(b):
        raise ValueError("a division by 0")
    # toward zero, as in C
    found = np.abs(a) // np.abs(b)
    return (np.sign(a) * np.sign(b) * found).astype(a.dtype)


def _mod(a: Any, b: Any, *, fmod: int = 0) -> Any:
    if a.dtype.kind in "iu" and not np.all(b):
        raise ValueError("a division by 0")
    return np.fmod(a, b) if fmod else np.mod(a, b)


def _pow(x: Any, y: Any) -> Any:
    if x.dtype.kind in "iu" and np.any(y < 0):
        return None
    return np.power(x, y).astype(x.dtype)


def _of_many(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def folded_pairs(*xs: Any) -> Any:
        found = xs[0]
        for x in xs[1:]:
            found = function(found, x)
        return found

    return folded_pairs


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(
        data: Any, axes_in: Any = None, *, axes: Any = None, keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Any:  # fmt: skip
        along = axes_in if axes is None else axes
        over = None if along is None or not len(along) else _numbers(along)
        if over is None and noop_with_empty_axes:
            return data
        return np.asarray(function(data, axis=over, keepdims=bool(keepdims))).astype(data.dtype)

    return reduced


def _nonzero(data: Any) -> Any:
    return np.array(np.nonzero(np.atleast_1d(data)), "int64")


# what only moves elements takes symbolic sizes as well
MOVING: dict[str, Callable[..., Any]] = {
    "Concat": _concat, "Gather": _gather, "Slice": _slice, "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze, "Reshape": _reshape, "Transpose": _transpose, "Flatten": _flatten,
    "Expand": _expand, "Tile": _tile, "Split": _split, "Where": _where,
}  # fmt: skip
COMPUTING: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _div, "Mod": _mod, "Pow": _pow,
    "Min": _of_many(np.minimum), "Max": _of_many(np.maximum), "Neg": np.negative, "Abs": np.abs,
    "Sign": np.sign, "Sqrt": np.sqrt, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint,
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or,
    "Xor": np.logical_xor, "Not": np.logical_not, "Cast": _cast,
    "ReduceProd": _reduction(np.prod), "ReduceSum": _reduction(np.sum),
    "ReduceMax": _reduction(np.max), "ReduceMin": _reduction(np.min), "NonZero": _nonzero,
}  # fmt: skip
BROADCASTING = {
    "Where", "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Equal", "Less",
    "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor",
}  # fmt: skip
