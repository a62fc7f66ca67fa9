"""Reductions of ATen, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.moments import var as variance
from schedlang.arrays.reductions import index_of
from schedlang.arrays.scans import running_fold
from schedlang.arrays.shapes import extent
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.frontend.scattering import scattered
from schedlang.frontend.torch.calls import Call, Operator, combine, of_dtype
from schedlang.language.composed import norm_of
from schedlang.language.construct import select
from schedlang.tvm.topi.stages import wide_dtype


def _axes(dim: Any) -> Any:
    """Return the dimensions to reduce; without any, all of them."""
    if dim is None or (isinstance(dim, list) and not dim):
        return None
    return tuple(dim) if isinstance(dim, list) else dim


def sum_(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Short floats are summed in float32, as in PyTorch."""
    if not x.ndim:
        return _only(call, x)
    # PyTorch converts the elements first, if it is told the dtype of the result
    values = of_dtype(of_dtype(x, call.dtype), wide_dtype(call.dtype))
    return of_dtype(topi.sum(values, _axes(dim), keepdim), call.dtype)


def _folded(fold: Callable[..., Tensor]) -> Operator:
    def operator(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        values = of_dtype(x, call.dtype)
        return fold(values, _axes(dim), keepdim) if x.ndim else values

    return operator


mean = _folded(topi.mean)


def _only(call: Call, x: Tensor) -> Tensor:
    """Return the only element of a 0-d tensor, which is its own sum, product and mean."""
    return of_dtype(x, call.dtype)


def max_dim(call: Call, x: Tensor, dim: int, keepdim: bool) -> tuple[Any, Any]:
    return (
        topi.max(x, dim, keepdim) if call.used[0] else None,
        index_of("argmax", x, dim, keepdim) if call.used[1] else None,
    )


def min_dim(call: Call, x: Tensor, dim: int, keepdim: bool) -> tuple[Any, Any]:
    return (
        topi.min(x, dim, keepdim) if call.used[0] else None,
        index_of("argmin", x, dim, keepdim) if call.used[1] else None,
    )


def _place(name: str) -> Operator:
    return lambda call, x, dim, keepdim: index_of(name, x, dim, keepdim)


def _truth_over(fold: Callable[..., Tensor]) -> Operator:
    """Over no dimensions, ``dim=()``, each element is its own result, unlike in a sum."""

    def operator(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        alone = dim == [] or not x.ndim
        # for uint8, PyTorch's result is uint8
        return of_dtype(_truth(x) if alone else fold(_truth(x), _axes(dim), keepdim), call.dtype)

    return operator


def _truth(x: Tensor) -> Tensor:
    return x if x.dtype == "bool" else combine("not_equal", x, 0)


def var(call: Call, x: Tensor, dim: Any, correction: Any, keepdim: bool) -> Tensor:
    return variance(x, _axes(dim), ddof=1 if correction is None else correction, keepdims=keepdim)


def var_mean(call: Call, x: Tensor, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    spread = var(call, x, dim, correction, keepdim) if call.used[0] else None
    return spread, mean(call, x, dim, keepdim) if call.used[1] else None


def vector_norm(call: Call, x: Tensor, ord: Any, dim: Any, keepdim: bool) -> Tensor:  # noqa: A002
    """The powers of short floats are float32: the square of 300 does not fit in float16."""
    values, axes = of_dtype(x, wide_dtype(call.dtype)), _axes(dim)
    return of_dtype(_norm(values, ord, axes, keepdim), call.dtype)


def _norm(values: Tensor, ord: Any, axes: Any, keepdim: bool) -> Tensor:  # noqa: A002
    if ord == 2:
        squares = topi.sum(combine("multiply", values, values), axes, keepdim)
        return array("norm", norm_of, squares)
    if ord == 1:
        return topi.sum(topi.abs(values), axes, keepdim)
    if ord == 0:
        return topi.sum(topi.cast(combine("not_equal", values, 0), values.dtype), axes, keepdim)
    if ord in (float("inf"), float("-inf")):
        fold = topi.max if ord > 0 else topi.min
        return fold(topi.abs(values), axes, keepdim)
    powers = combine("power", topi.abs(values), float(ord))
    return array("norm", lambda total: norm_of(total, ord), topi.sum(powers, axes, keepdim))


def cdist(call: Call, x: Tensor, x2: Tensor, p: float, compute_mode: Any) -> Tensor:
    """The norms of the differences of two lists of points; any ``compute_mode`` gives the same."""
    wide = wide_dtype(call.dtype)
    one, other = topi.expand_dims(of_dtype(x, wide), -2), topi.expand_dims(of_dtype(x2, wide), -3)
    return of_dtype(_norm(topi.subtract(one, other), p, -1, False), call.dtype)


def pdist(call: Call, x: Tensor, p: float) -> Tensor:
    """The norms of the differences of each pair of points, the second after the first."""
    norms = cdist(call, x, x, p, None)
    count = x.shape[0]

    def pair(i: Axis, j: Axis) -> tuple[Any, Any]:
        # before row i there are the pairs of rows 0 to i - 1; others are dropped
        index = i * count - i * (i + 1) // 2 + j - i - 1
        return select(j > i, index, -1), norms.element((i, j))

    pairs = extent(count * (count - 1) // 2)
    result = topi.full((pairs,), call.dtype, 0)
    if isinstance(pairs, int) and not pairs:
        return result
    return scattered(result, (count, count), pair, "last")


def logsumexp(call: Call, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Less the largest element, so that no exponential is too large; an infinite one is itself."""
    axes = _axes(dim)
    top = topi.max(x, axes, True)
    finite = topi.where(topi.isfinite(top), top, 0)
    terms = topi.exp(of_dtype(combine("subtract", x, finite), wide_dtype(call.dtype)))
    logs = topi.log(topi.sum(terms, axes, True))
    result = of_dtype(combine("add", logs, finite), call.dtype)
    return result if keepdim else topi.squeeze(result, axes)


def cumsum(call: Call, x: Tensor, dim: int) -> Tensor:
    """Short floats are summed in float32: in float16, 2048 + 1 is 2048."""
    return _running(topi.cumsum, call, x, dim)


def cumprod(call: Call, x: Tensor, dim: int) -> Tensor:
    return _running(topi.cumprod, call, x, dim)


def logcumsumexp(call: Call, x: Tensor, dim: int) -> Tensor:
    if not x.ndim:
        return _only(call, x)
    values = of_dtype(x, wide_dtype(call.dtype))
    return of_dtype(running_fold("logaddexp", values, dim, None, "logcumsumexp"), call.dtype)


def _running(fold: Callable[..., Tensor], call: Call, x: Tensor, dim: int) -> Tensor:
    if not x.ndim:
        return _only(call, x)
    # PyTorch converts the elements first, if it is told the dtype of the result
    values, wide = of_dtype(x, call.dtype), wide_dtype(call.dtype)
    return of_dtype(fold(values, dim, wide), call.dtype)


OPERATORS: dict[str, Operator] = {
    "sum.default": sum_, "sum.dim_IntList": sum_, "mean.default": mean, "mean.dim": mean,
    "prod.default": _folded(topi.prod), "prod.dim_int": _folded(topi.prod),
    **dict.fromkeys(("amax.default", "max.default"), _folded(topi.max)),
    **dict.fromkeys(("amin.default", "min.default"), _folded(topi.min)),
    "max.dim": max_dim, "min.dim": min_dim,
    "argmax.default": _place("argmax"), "argmin.default": _place("argmin"),
    **{f"any.{form}": _truth_over(topi.any) for form in ("default", "dim", "dims")},
    **{f"all.{form}": _truth_over(topi.all) for form in ("default", "dim", "dims")},
    "var.correction": var, "var_mean.correction": var_mean,
    "linalg_vector_norm.default": vector_norm, "logsumexp.default": logsumexp,
    "_cdist_forward.default": cdist,
    "_pdist_forward.default": pdist, "logcumsumexp.default": logcumsumexp,
    "cumsum.default": cumsum, "cumprod.default": cumprod,
}  # fmt: skip
