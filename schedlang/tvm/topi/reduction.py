"""Reductions of tensors over dimensions. They keep the dtype, like te's reductions."""

from __future__ import annotations

import builtins
from typing import Any

from schedlang.arrays import moments, reductions
from schedlang.arrays.reductions import fold
from schedlang.arrays.shapes import reduced_axes, same
from schedlang.arrays.shaping import ravel, reshape
from schedlang.compute import math, reduce
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import as_expr, cast
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_tensor
from schedlang.tvm.topi.rules import operator, tensor
from schedlang.tvm.topi.stages import compute, names_of_user, stage_of


def _axes(name: str, data: Any, axis: Any) -> tuple[int, ...]:
    check_tensor(f"topi.{name}", data, "data")
    return reduced_axes(axis, data.ndim, f"topi.{name}")


@public
def sum(data: Any, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Return the sum over dimensions ``axis``, a number or several; ``None`` means all of them.

    It has the dtype of ``data``, so a sum of int8 wraps around; a sum of bools is int64.

    >>> import schedlang as sl
    >>> A = sl.placeholder((3, 4), "int8", name="A")
    >>> sum(A, axis=1), sum(A, keepdims=True)
    (Tensor(sum: int8[3]), Tensor(sum: int8[1, 1]))
    """
    axes = _axes("sum", data, axis)
    return fold("sum", [data], axes, lambda k, c, x: reduce.sum(x, k, c), keepdims)


@public
def collapse_sum(data: Any, target_shape: Any) -> Tensor:
    """Return the sum of ``data`` over what a broadcast from ``target_shape`` to its shape repeats.

    >>> import schedlang as sl
    >>> collapse_sum(sl.placeholder((2, 3, 4), name="A"), (3, 1))
    Tensor(reshape: float32[3, 1])
    """
    asked = "topi.collapse_sum"
    check_tensor(asked, data, "data")
    target = (*target_shape,) if isinstance(target_shape, (list, tuple)) else (target_shape,)
    extra = data.ndim - len(target)
    pairs = zip(data.shape[builtins.max(extra, 0) :], target)
    if extra < 0 or not builtins.all(same(t, d) or same(t, 1) for d, t in pairs):
        raise ComputeError(
            f"{asked}: the shape {shape_text(target)} does not broadcast to {data.name} of shape "
            f"{shape_text(data.shape)}"
        )
    axes = [k for k, d in enumerate(data.shape)
            if k < extra or (same(target[k - extra], 1) and not same(d, 1))]  # fmt: skip
    summed = sum(data, axes, keepdims=True) if axes else data
    return stage_of(reshape(summed, target), data) if extra else stage_of(summed, data)


@public
def prod(data: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the product over dimensions ``axis``; see :func:`sum`.

    >>> import schedlang as sl
    >>> prod(sl.placeholder((3, 4), name="A"), -1)
    Tensor(prod: float32[3])
    """
    axes = _axes("prod", data, axis)
    return fold("prod", [data], axes, lambda k, c, x: reduce.prod(x, k, c), keepdims)


@operator(data=tensor())
def mean(data: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the mean over dimensions ``axis``, by NumPy's rules: of integers in float64.

    It is a stage ``sum``, and a stage ``mean`` that divides.

    >>> import schedlang as sl
    >>> mean(sl.placeholder((3, 4), name="A"), 0)
    Tensor(mean: float32[4])
    """
    with names_of_user("np.mean", "topi.mean"):
        return moments.mean(data, axis, None, keepdims)


@public
def max(data: Any, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Return the largest element over dimensions ``axis``, or NaN if there is one.

    >>> import schedlang as sl
    >>> max(sl.placeholder((3, 4), name="A"), 0)
    Tensor(amax: float32[4])
    """
    return _extreme("max", data, axis, keepdims)


@public
def min(data: Any, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Return the smallest element over dimensions ``axis``, or NaN if there is one.

    >>> import schedlang as sl
    >>> min(sl.placeholder((3, 4), name="A"), 0)
    Tensor(amin: float32[4])
    """
    return _extreme("min", data, axis, keepdims)


def _extreme(name: str, data: Any, axis: Any, keepdims: bool) -> Tensor:
    check_tensor(f"topi.{name}", data, "data")
    with names_of_user(f"np.{name}", f"topi.{name}"):
        return reductions.extreme(name, data, axis, keepdims)


@public
def all(data: Any, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Return whether no element over dimensions ``axis`` is 0.

    >>> import schedlang as sl
    >>> all(sl.placeholder((3, 4), "bool", name="A"), 0)
    Tensor(all: bool[4])
    """
    axes = _axes("all", data, axis)
    return fold("all", [data], axes, lambda k, c, x: math.all(x, axis=k, where=c), keepdims)


@public
def any(data: Any, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Return whether an element over dimensions ``axis`` is not 0.

    >>> import schedlang as sl
    >>> any(sl.placeholder((3, 4), "bool", name="A"), 0)
    Tensor(any: bool[4])
    """
    axes = _axes("any", data, axis)
    return fold("any", [data], axes, lambda k, c, x: math.any(x, axis=k, where=c), keepdims)


@public
def argmax(
    data: Any, axis: Any = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Return the int32 index of the largest element along ``axis``, the first one on ties.

    Without ``axis`` it is the index among all elements in a row. ``select_last_index`` returns the
    last one on ties.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), name="A")
    >>> int(sl.reference(argmax(A))(np.array([1, 2, 2], "float32")))
    1
    """
    return _index_of("argmax", data, axis, keepdims, select_last_index)


@public
def argmin(
    data: Any, axis: Any = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Return the int32 index of the smallest element along ``axis``; see :func:`argmax`.

    >>> import schedlang as sl
    >>> argmin(sl.placeholder((3, 4), name="A"), 1)
    Tensor(argmin: int32[3])
    """
    return _index_of("argmin", data, axis, keepdims, select_last_index)


def _index_of(name: str, data: Any, axis: Any, keepdims: bool, last: bool) -> Tensor:
    axes = _axes(name, data, axis)
    if len(axes) not in (1, data.ndim):
        raise ComputeError(
            f"topi.{name}: axis={axis} names {len(axes)} of the {data.ndim} dimensions of "
            f"{data.name}; give one, or none for the index among all elements"
        )
    source = data if len(axes) == 1 else ravel(data)
    along = axes[0] if len(axes) == 1 else 0
    length = source.shape[along]
    with names_of_user(f"np.{name}", f"topi.{name}"):
        indices = reductions.index_of(name, _reversed(source, along) if last else source, along)
    shape = list(indices.shape)
    if keepdims:
        shape = [1 if k in axes else e for k, e in enumerate(data.shape)]

    def index(*at: Axis) -> Expr:
        own = at
        if keepdims:
            own = tuple(i for k, i in enumerate(at) if k not in axes)
        value = indices[own] if own else indices.as_scalar()
        return cast(as_expr(length) - 1 - value if last else value, "int32")

    return compute(name, tuple(shape), index)


def _reversed(source: Tensor, along: int) -> Tensor:
    return source[(slice(None),) * along + (slice(None, None, -1),)]
