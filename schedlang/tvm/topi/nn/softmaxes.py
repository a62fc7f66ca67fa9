"""Softmax along a dimension, and its logarithm."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.shapes import axis_number
from schedlang.compute import reduce
from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis
from schedlang.language.calls import call
from schedlang.language.construct import cast
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_float, check_tensor
from schedlang.tvm.topi.stages import compute, wide_dtype


@public
def softmax(x: Any, axis: int = -1) -> Tensor:
    """Return ``exp(x - m) / sum(exp(x - m))`` along ``axis``, where m is the largest element.

    It has four stages: ``softmax_maxelem``, ``softmax_exp``, ``softmax_expsum`` and ``softmax``.
    ``x`` is of floats; short ones are summed in float32. A row with NaN, with an infinity, or with
    no finite element is NaN, as in PyTorch.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((2,), name="A")
    >>> sl.reference(softmax(A))(np.array([0, 0], "float32"))
    array([0.5, 0.5], dtype=float32)
    """
    along = _axis("softmax", x, axis)
    top = _largest("softmax", x, along)
    exps = compute("softmax_exp", x.shape, lambda *i: call("exp", x[i] - top[_without(i, along)]))
    sums = _summed("softmax", exps, along, lambda *i: exps[i])
    return compute(
        "softmax",
        x.shape,
        lambda *i: cast(cast(exps[i], sums.dtype) / sums[_without(i, along)], x.dtype),
    )


@public
def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """Return ``x - m - log(sum(exp(x - m)))`` along ``axis``, where m is the largest element.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((2,), name="A")
    >>> sl.reference(log_softmax(A))(np.array([0, 0], "float32"))
    array([-0.6931472, -0.6931472], dtype=float32)
    """
    along = _axis("log_softmax", x, axis)
    top = _largest("log_softmax", x, along)
    sums = _summed("log_softmax", x, along, lambda *i: call("exp", x[i] - top[_without(i, along)]))
    logs = compute("log_softmax_log", sums.shape, lambda *i: call("log", sums[i]))
    return compute(
        "log_softmax",
        x.shape,
        lambda *i: cast(
            cast(x[i] - top[_without(i, along)], sums.dtype) - logs[_without(i, along)], x.dtype
        ),
    )


def _axis(name: str, x: Any, axis: Any) -> int:
    asked = f"topi.nn.{name}"
    check_tensor(asked, x, "x")
    check_float(asked, x)
    along = axis_number(axis, x.ndim, asked)
    if isinstance(x.shape[along], int) and x.shape[along] == 0:
        raise ComputeError(
            f"{asked} of {x.name} of shape {shape_text(x.shape)}: dimension {along} has no elements"
        )
    return along


def _without(at: tuple[Any, ...], along: int) -> tuple[Any, ...]:
    return (*at[:along], *at[along + 1 :])


def _largest(name: str, x: Tensor, along: int) -> Tensor:
    k = reduce_axis(x.shape[along], "k")
    return compute(
        f"{name}_maxelem",
        _without(x.shape, along),
        lambda *i: reduce.max(x.element((*i[:along], k, *i[along:])), axis=k),
    )


def _summed(name: str, x: Tensor, along: int, value: Any) -> Tensor:
    k = reduce_axis(x.shape[along], "k")

    def element(*i: Axis) -> Reduction:
        return reduce.sum(cast(value(*i[:along], k, *i[along:]), wide_dtype(x.dtype)), axis=k)

    return compute(f"{name}_expsum", _without(x.shape, along), element)
