"""Functions of each element of a tensor.

>>> import numpy as np, schedlang as sl
>>> A = sl.placeholder((2,), name="A")
>>> sl.reference(negative(A))(np.array([0.5, 1], "float32"))
array([-0.5, -1. ], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import same
from schedlang.compute.tensor import Tensor, check_shape, shape_text
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr import dtypes
from schedlang.expr.nodes import Const, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, select, unary
from schedlang.language.construct import cast as converted
from schedlang.signatures import public
from schedlang.tvm import tir
from schedlang.tvm.tir import te_dtype
from schedlang.tvm.topi.checks import check_scalar, check_tensor
from schedlang.tvm.topi.functions import function
from schedlang.tvm.topi.rules import operator, tensor
from schedlang.tvm.topi.stages import compute

round = function(  # noqa: A001
    "round", tir.round, "the nearest integer, ties away from zero as in te"
)
negative = function("negative", lambda v: unary("-", v), "the negative of ``x``")
sign = function("sign", lambda v: _sign(v), "-1, 0 or 1 by the sign of ``x``, and NaN of NaN")
logical_not = function("logical_not", lambda v: unary("~", v != 0), "whether ``x`` is 0")
bitwise_not = function("bitwise_not", lambda v: unary("~", v), "the integer of inverted bits")


def _sign(value: Any) -> Any:
    one = select(value > 0, 1, 0) - select(value < 0, 1, 0)
    sign = converted(one, value.dtype)
    return select(call("isnan", value), value, sign) if dtypes.is_float(value.dtype) else sign


@operator(x=tensor())
def identity(x: Any) -> Tensor:
    """Return a copy of ``x``, as a stage.

    >>> import schedlang as sl
    >>> identity(sl.placeholder((3,), name="A"))
    Tensor(identity: float32[3])
    """
    return array("identity", lambda v: v, x)


@operator(x=tensor())
def clip(x: Any, a_min: Any, a_max: Any) -> Tensor:
    """Return ``x`` within ``a_min`` and ``a_max``, which are cast to its dtype; NaN stays NaN.

    A bound beyond the limits of an integer dtype bounds nothing.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), "int32", name="A")
    >>> sl.reference(clip(A, 0, 6))(np.array([-1, 5, 9], "int32"))
    array([0, 5, 6], dtype=int32)
    """
    for bound, what in ((a_min, "a_min"), (a_max, "a_max")):
        if isinstance(bound, Tensor):
            raise ComputeTypeError(
                f"topi.clip of {x.name} with a bound {bound.name}: bounds are numbers; use "
                "topi.maximum and topi.minimum"
            )
        check_scalar("topi.clip", bound, what)
    low, high = (_bound(v, x, what) for v, what in ((a_min, "a_min"), (a_max, "a_max")))
    return array("clip", lambda v: call("max", call("min", v, high), low), x)


def _bound(given: Any, x: Tensor, what: str) -> Expr:
    """Return a bound of ``clip`` in the dtype of ``x``; a number is first moved into its range."""
    value = as_expr(given)
    if isinstance(value, Const) and dtypes.is_integer(x.dtype):
        if value.value != value.value:
            raise ComputeTypeError(f"topi.clip of {x.name}: {what} is NaN, which bounds nothing")
        least, most = dtypes.limits(x.dtype)
        value = as_expr(min(max(value.value, least), most))
    return converted(value, x.dtype)


@operator(x=tensor())
def cast(x: Any, dtype: Any, span: Any = None) -> Tensor:
    """Return ``x`` converted to ``dtype``, as ``x.astype`` does.

    >>> import schedlang as sl
    >>> cast(sl.placeholder((3,), name="A"), "int32")
    Tensor(cast: int32[3])
    """
    kind = te_dtype(dtype)
    return array("cast", lambda v: converted(v, kind), x)


@operator(x=tensor())
def reinterpret(x: Any, dtype: Any) -> Tensor:
    """Return the bits of each element of ``x`` as a ``dtype`` of the same size.

    >>> import schedlang as sl
    >>> reinterpret(sl.placeholder((3,), name="A"), "int32")
    Tensor(reinterpret: int32[3])
    """
    return array("reinterpret", lambda v: tir.reinterpret(dtype, v), x)


@public
def elemwise_sum(xs: Sequence[Any]) -> Tensor:
    """Return the sum of tensors of one shape.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((3,), name="A"), sl.placeholder((3,), name="B")
    >>> elemwise_sum([A, B])
    Tensor(elemwise_sum: float32[3])
    """
    asked = "topi.elemwise_sum"
    if not isinstance(xs, (list, tuple)) or not xs:
        raise ComputeTypeError(f"{asked}: give a list of one tensor or more")
    first = check_tensor(asked, xs[0], "xs[0]")
    for k, other in enumerate(xs):
        check_tensor(asked, other, f"xs[{k}]")
        if other.ndim != first.ndim or not all(map(same, other.shape, first.shape)):
            raise ComputeError(
                f"{asked}: {first.name} has shape {shape_text(first.shape)}, but {other.name} has "
                f"{shape_text(other.shape)}; topi.add broadcasts"
            )

    def total(*values: Any) -> Any:
        result = values[0]
        for value in values[1:]:
            result = binary("+", result, value)
        return result

    return array("elemwise_sum", total, *xs)


@public
def full(shape: Any, dtype: Any, fill_value: Any) -> Tensor:
    """Return a tensor of ``shape`` whose elements are all ``fill_value``, cast to ``dtype``.

    >>> import schedlang as sl
    >>> full((2, 3), "int32", 7)
    Tensor(full: int32[2, 3])
    """
    value = converted(_scalar("topi.full", fill_value), te_dtype(dtype))
    return compute("full", check_shape(shape, "topi.full"), lambda *_: value)


@operator(x=tensor())
def full_like(x: Any, fill_value: Any) -> Tensor:
    """Return a tensor of the shape and dtype of ``x`` whose elements are all ``fill_value``.

    >>> import schedlang as sl
    >>> full_like(sl.placeholder((2, 3), name="A"), 1)
    Tensor(full: float32[2, 3])
    """
    return full(x.shape, x.dtype, fill_value)


def _scalar(asked: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.ndim:
            raise ComputeTypeError(
                f"{asked}: fill_value {value.name} has shape {shape_text(value.shape)}, but must "
                "be one number"
            )
        return value.as_scalar()
    return as_expr(value)
