"""Activations: functions of each element."""

from __future__ import annotations

import math
from typing import Any

from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_number
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.composed import soft_maximum
from schedlang.language.construct import cast, select
from schedlang.tvm.topi.checks import check_same
from schedlang.tvm.topi.rules import floats, number, operator, tensor
from schedlang.tvm.topi.stages import compute, wide_dtype


@operator(x=tensor())
def relu(x: Any) -> Tensor:
    """Return ``max(x, 0)``, of the dtype of ``x``; NaN stays NaN.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), name="A")
    >>> sl.reference(relu(A))(np.array([-1, 0, 2], "float32"))
    array([0., 0., 2.], dtype=float32)
    """
    return array("relu", lambda v: call("max", v, 0), x)


@operator(x=floats(), alpha=number)
def leaky_relu(x: Any, alpha: float) -> Tensor:
    """Return ``x`` where it is positive, else ``x * alpha``.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((2,), name="A")
    >>> sl.reference(leaky_relu(A, 0.5))(np.array([-1, 2], "float32"))
    array([-0.5,  2. ], dtype=float32)
    """
    return array("leaky_relu", lambda v: select(v > 0, v, v * alpha), x)


@operator(x=floats(), slope=tensor("channels"))
def prelu(x: Any, slope: Any, axis: int = 1) -> Tensor:
    """Return ``x`` where it is positive, else ``x`` times the ``slope`` of its channel.

    ``slope`` has an element for each index of dimension ``axis``.

    >>> import numpy as np, schedlang as sl
    >>> A, p = sl.placeholder((1, 2), name="A"), sl.placeholder((2,), name="p")
    >>> sl.reference(prelu(A, p))(np.array([[-1, -1]], "float32"), np.array([2, 3], "float32"))
    array([[-2., -3.]], dtype=float32)
    """
    along = axis_number(axis, x.ndim, "topi.nn.prelu")
    check_same(
        "topi.nn.prelu",
        slope.shape[0],
        f"the number of elements of slope {slope.name}",
        x.shape[along],
        f"dimension {along} of {x.name}",
    )

    def element(*at: Axis) -> Expr:
        value = x[at]
        return select(value > 0, value, value * slope[at[along]])

    return compute("prelu", x.shape, element)


@operator(x=floats(), alpha=number)
def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """Return ``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    >>> import schedlang as sl
    >>> elu(sl.placeholder((2,), name="A"))
    Tensor(elu: float32[2])
    """
    return array("elu", lambda v: select(v > 0, v, call("expm1", v) * alpha), x)


@operator(x=floats())
def gelu(x: Any) -> Tensor:
    """Return ``x * (1 + erf(x / sqrt(2))) / 2``, the exact GELU (Hendrycks and Gimpel, 2016).

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((2,), name="A")
    >>> sl.reference(gelu(A))(np.array([0, 1], "float32"))
    array([0.       , 0.8413447], dtype=float32)
    """
    root = 1 / math.sqrt(2)
    return array("gelu", lambda v: v * 0.5 * (call("erf", v * root) + 1), x)


@operator(x=floats())
def gelu_tanh(x: Any) -> Tensor:
    """Return the approximation of :func:`gelu` by tanh (Hendrycks and Gimpel, 2016).

    >>> import schedlang as sl
    >>> gelu_tanh(sl.placeholder((2,), name="A"))
    Tensor(gelu_tanh: float32[2])
    """
    scale = math.sqrt(2 / math.pi)
    return array(
        "gelu_tanh",
        lambda v: v * 0.5 * (call("tanh", (v + v * v * v * 0.044715) * scale) + 1),
        x,
    )


@operator(x=floats())
def silu(x: Any) -> Tensor:
    """Return ``x * sigmoid(x)``, also called swish.

    >>> import schedlang as sl
    >>> silu(sl.placeholder((2,), name="A"))
    Tensor(silu: float32[2])
    """
    return array("silu", lambda v: v * call("sigmoid", v), x)


@operator(x=floats(), beta=number, threshold=number)
def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return ``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x > threshold``.

    Short floats are computed in float32.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((2,), name="A")
    >>> sl.reference(softplus(A))(np.array([0, 100], "float32"))
    array([  0.6931472, 100.       ], dtype=float32)
    """
    wide = wide_dtype(x.dtype)

    def value(v: Expr) -> Expr:
        scaled = cast(v, wide) * beta
        soft = soft_maximum(scaled) * (1 / beta)
        return select(scaled > threshold, v, cast(soft, x.dtype))

    return array("softplus", value, x)


@operator(x=floats())
def log_sigmoid(x: Any) -> Tensor:
    """Return ``log(sigmoid(x))``, without overflow.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((2,), name="A")
    >>> sl.reference(log_sigmoid(A))(np.array([0, -100], "float32"))
    array([  -0.6931472, -100.       ], dtype=float32)
    """
    return array("log_sigmoid", lambda v: -soft_maximum(-v), x)


@operator(x=floats())
def mish(x: Any) -> Tensor:
    """Return ``x * tanh(log(1 + exp(x)))`` (Misra, 2019).

    >>> import schedlang as sl
    >>> mish(sl.placeholder((2,), name="A"))
    Tensor(mish: float32[2])
    """

    return array("mish", lambda v: v * call("tanh", soft_maximum(v)), x)


@operator(x=floats())
def hard_sigmoid(x: Any) -> Tensor:
    """Return ``x / 6 + 1 / 2`` within 0 and 1.

    >>> import schedlang as sl
    >>> hard_sigmoid(sl.placeholder((2,), name="A"))
    Tensor(hard_sigmoid: float32[2])
    """
    return array("hard_sigmoid", _hard_sigmoid, x)


@operator(x=floats())
def hard_swish(x: Any) -> Tensor:
    """Return ``x`` times its :func:`hard_sigmoid` (Howard et al., MobileNetV3, 2019).

    >>> import schedlang as sl
    >>> hard_swish(sl.placeholder((2,), name="A"))
    Tensor(hard_swish: float32[2])
    """
    return array("hard_swish", lambda v: v * _hard_sigmoid(v), x)


def _hard_sigmoid(value: Expr) -> Expr:
    return call("min", call("max", value + 3, 0), 6) * (1 / 6)
