"""New arrays in the shape or the manner of another: zeros, ones, ranges, identities."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.joining import stack
from schedlang.arrays.operands import operand
from schedlang.arrays.shapes import at_least_0
from schedlang.arrays.shaping import extents
from schedlang.arrays.stages import data_axes, each, read, stage, tensor_of
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.language.construct import as_expr, binary, cast


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Tensor:
    """Return ``np.full_like``: ``fill_value`` in the shape and dtype of ``a``."""
    return _like("full", a, fill_value, dtype, shape)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None) -> Tensor:
    """Return ``np.zeros_like``; ``np.empty_like`` is the same."""
    return _like("zeros", a, 0, dtype, shape)


def ones_like(a: Any, dtype: Any = None, shape: Any = None) -> Tensor:
    """Return ``np.ones_like``."""
    return _like("ones", a, 1, dtype, shape)


def _like(word: str, a: Any, value: Any, dtype: Any, shape: Any) -> Tensor:
    source = tensor_of(a, f"np.{word}_like")
    kind = source.dtype if dtype is None else dtypes.canonical(dtype)
    return _filled(word, source.shape if shape is None else shape, value, kind)


def zeros(shape: Any, dtype: Any = float) -> Tensor:
    """Return ``np.zeros(shape, like=A)``; the size may be symbolic."""
    return _filled("zeros", shape, 0, dtypes.canonical(dtype or float))


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Return ``np.ones(shape, like=A)``."""
    return _filled("ones", shape, 1, dtypes.canonical(dtype or float))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """Return ``np.full(shape, value, like=A)``, by default in the dtype of the value."""
    value = operand(fill_value, "np.full")
    return _filled("full", shape, fill_value, value.dtype if dtype is None else dtype)


def _filled(word: str, shape: Any, value: Any, dtype: Any) -> Tensor:
    kind = dtypes.canonical(dtype)
    fill = operand(value, f"np.{word}")
    element = fill.as_scalar() if isinstance(fill, Tensor) else fill
    return each(word, extents(shape, f"np.{word}"), lambda *_: cast(element, kind))


def arange(*bounds: Any, dtype: Any = None) -> Tensor:
    """Return ``np.arange(..., like=A)``; the bounds may be sizes, the step a number."""
    if not 1 <= len(bounds) <= 3:
        raise ComputeTypeError(f"np.arange takes 1 to 3 bounds, got {len(bounds)}")
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    for value in (start, stop, step):
        if not isinstance(value, (int, float, Expr)) and not hasattr(value, "__index__"):
            raise ComputeTypeError(f"np.arange: {value!r} is not a number")
    if isinstance(step, Expr) or step == 0:
        raise ComputeError(f"np.arange: the step {step} must be a number other than 0")
    if any(isinstance(v, float) for v in (start, stop, step)):
        if any(isinstance(v, Expr) for v in (start, stop)):
            raise ComputeError("np.arange: sizes and floats do not mix; write np.arange(n) * 0.5")
        length: Any = len(np.arange(start, stop, step))
        kind = "float64"
    else:
        distance = as_expr(stop) - start if step > 0 else as_expr(start) - stop
        length = at_least_0((distance + (abs(step) - 1)) // abs(step))
        kind = "int64"
    kind = kind if dtype is None else dtypes.canonical(dtype)
    (axis,) = axes = data_axes((length,))
    return stage("arange", axes, cast(_at(axis, start, step), kind))


def _at(axis: Expr, start: Any, step: Any) -> Expr:
    moved = axis if isinstance(step, int) and step == 1 else binary("*", axis, step)
    return moved if isinstance(start, int) and start == 0 else binary("+", start, moved)


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Tensor:
    """Return ``np.eye(..., like=A)``: ones on the diagonal ``k``."""
    shape = extents((N, N if M is None else M), "np.eye")
    return each("eye", shape, lambda i, j: cast(binary("==", j, i + k), dtypes.canonical(dtype)))


def identity(n: Any, dtype: Any = None) -> Tensor:
    """Return ``np.identity(..., like=A)``."""
    return eye(n, dtype=dtype or float)


def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Tensor:
    """Return ``np.tri(..., like=A)``: ones at and below the diagonal ``k``."""
    shape = extents((N, N if M is None else M), "np.tri")
    return each("tri", shape, lambda i, j: cast(binary("<=", j, i + k), dtypes.canonical(dtype)))


def asarray(a: Any, dtype: Any = None, copy: Any = None) -> Tensor:
    """Return ``np.asarray(a, like=A)``: a number or an element as a 0-d tensor, a list stacked."""
    if isinstance(a, (list, tuple)):
        tensor = stack([asarray(v) for v in a])
    else:
        tensor = tensor_of(a, "np.asarray")
    if dtype is None or dtypes.canonical(dtype) == tensor.dtype:
        return tensor
    kind = dtypes.canonical(dtype)
    return each("astype", tensor.shape, lambda *at: cast(read(tensor, at), kind))
