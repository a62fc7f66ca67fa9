"""Covariances and coefficients of correlation."""

from __future__ import annotations

from functools import partial
from typing import Any

from schedlang.arrays.choices import clip
from schedlang.arrays.elementwise import array
from schedlang.arrays.joining import concatenate
from schedlang.arrays.reductions import total
from schedlang.arrays.shapes import is_one
from schedlang.arrays.shaping import diagonal, expand_dims, squeeze, transpose
from schedlang.arrays.stages import each, read, tensor_of
from schedlang.compute.math import if_then_else
from schedlang.compute.tensor import Extent, Tensor
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, cast, const

# the fewest variables, and observations, of which only half of the products are summed
# 500 by 600 was measured to be 1.9 times as fast; nobody has measured the least
LEAST_MIRRORED = 256


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Tensor:
    """Return ``np.cov``: each row of ``m`` is a variable, each column an observation."""
    if ddof is not None and (isinstance(ddof, bool) or not hasattr(ddof, "__index__")):
        raise ComputeTypeError(f"np.cov: ddof={ddof!r} must be an integer")
    sources = [tensor_of(v, "np.cov") for v in (m, y) if v is not None]
    kind = dtypes.canonical(dtype) if dtype is not None else "float64"
    for source in sources:
        if dtype is None:
            kind, _ = dtypes.promote(kind, False, source.dtype, False)
    parts = [_rows(source, rowvar, kind, k) for k, source in enumerate(sources)]
    X = parts[0] if len(parts) == 1 else concatenate(parts, axis=0)
    freedom = (0 if bias else 1) if ddof is None else int(ddof)
    weights = _weights(fweights, aweights, kind)
    if weights is None:
        scale: Any = X.shape[1]
        middle: Any = array("mean", _quotient, total("sum", X, 1, keepdims=True), as_expr(scale))
        count: Any = _at_least_0(as_expr(scale) - freedom)
        spread = X - middle
        weighted = spread
    else:
        sums = total("sum", weights)
        middle = array("mean", _quotient, total("sum", X * weights, 1, keepdims=True), sums)
        less: Any = freedom
        if aweights is not None and freedom:
            squares = total("sum", weights * tensor_of(aweights, "np.cov"))
            less = array("freedom", lambda q, s: binary("/", q * freedom, s), squares, sums)
        count = array("count", lambda s, d: _at_least_0(binary("-", s, d)), sums, less)
        spread = X - middle
        weighted = spread * weights
    turned = transpose(weighted)
    if dtypes.is_complex(kind):
        turned = array("conjugate", lambda v: call("conj", v), turned)
    products = spread @ turned
    if weights is None and not dtypes.is_complex(kind):
        products = _mirrored(products, X.shape[1])
    return squeeze(array("cov", _quotient, products, count))


def _mirrored(products: Tensor, count: Extent) -> Tensor:
    """Return a large symmetric matrix that needs only the sums up to the diagonal."""
    extents = (*products.shape, count)
    if not all(isinstance(n, int) and n >= LEAST_MIRRORED for n in extents):
        return products

    def element(i: Axis, j: Axis) -> Expr:
        whole: Expr = if_then_else(j <= i, read(products, (i, j)), read(products, (j, i)))
        return whole

    return each("mirrored", products.shape, element)


def _quotient(value: Expr, count: Expr) -> Expr:
    return binary("/", value, cast(count, value.dtype))


def _at_least_0(count: Expr) -> Expr:
    return call("max", count, const(0, count.dtype) if not count.weak else 0)


def _rows(source: Tensor, rowvar: bool, kind: str, place: int) -> Tensor:
    """Return the variables as rows, converted to ``kind``."""
    if source.ndim > 2:
        raise ComputeError(
            f"np.cov of {source.name}, which has {source.ndim} dimensions: it takes 2 at most; "
            "reshape it to a matrix"
        )
    whole = source.ndim == 2
    while source.ndim < 2:
        source = expand_dims(source, 0)
    # a vector is one variable; so is one row of y, whatever rowvar says
    is_variable = not whole or (place > 0 and is_one(source.shape[0]))
    turned = source if rowvar or is_variable else transpose(source)
    if turned.dtype == kind:
        return turned
    return array("astype", lambda v: cast(v, kind), turned)


def _weights(fweights: Any, aweights: Any, kind: str) -> Tensor | None:
    """Return the product of both weights, each a vector with a number for each observation."""
    given = [tensor_of(w, "np.cov") for w in (fweights, aweights) if w is not None]
    for weight in given:
        if weight.ndim != 1:
            raise ComputeError(
                f"np.cov: the weights {weight.name} have {weight.ndim} dimensions; give a vector "
                "with a number for each observation"
            )
    if fweights is not None and dtypes.is_float(given[0].dtype):
        raise ComputeTypeError("np.cov: fweights must be integers; they say how often each counts")
    if not given:
        return None
    product = given[0] if len(given) == 1 else given[0] * given[1]
    real = dtypes.part_of(kind) if dtypes.is_complex(kind) else kind
    return array("astype", lambda v: cast(v, real), product)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Tensor:
    """Return ``np.corrcoef``: the covariances, divided by both standard deviations."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return array("corrcoef", lambda v: binary("/", v, v), c)
    spread = array("std", lambda v: call("sqrt", call("real", v)), diagonal(c))
    scaled = c / expand_dims(spread, 1) / expand_dims(spread, 0)
    if not dtypes.is_complex(c.dtype):
        return clip(scaled, -1, 1)
    parts = [clip(array(p, partial(call, p), scaled), -1, 1) for p in ("real", "imag")]
    return array("corrcoef", lambda r, i: binary("+", r, binary("*", i, 1j)), *parts)
