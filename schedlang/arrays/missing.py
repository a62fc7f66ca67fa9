"""NumPy's reductions that leave out NaN: ``nanmean``, ``nanvar``, ``nanmin`` and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.elementwise import array
from schedlang.arrays.moments import mean, var
from schedlang.arrays.reductions import extreme, total, truth
from schedlang.arrays.scans import cumulative
from schedlang.arrays.stages import tensor_of
from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.language.calls import call
from schedlang.language.construct import binary, cast, const, select, unary


def _may_miss(source: Tensor) -> bool:
    """Return whether an element may be NaN."""
    return dtypes.is_float(source.dtype) or dtypes.is_complex(source.dtype)


def _present(source: Tensor, where: Any) -> Tensor:
    """Return where the elements of ``source`` are numbers, and count."""
    if where is None:
        return array("present", lambda x: unary("~", call("isnan", x)), source)
    return array(
        "present", lambda x, w: binary("&", unary("~", call("isnan", x)), w), source, where
    )


def filled(source: Tensor, value: float) -> Tensor:
    """Return ``source`` with ``value`` in place of NaN."""
    if not _may_miss(source):
        return source
    return array("where", lambda x: select(call("isnan", x), const(value, x.dtype), x), source)


def nan_mean(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = None
) -> Tensor:
    """Return ``np.nanmean``: NaN where no element is a number."""
    source = tensor_of(a, "np.nanmean")
    mask = _present(source, where) if _may_miss(source) else where
    return mean(source, axis, dtype, keepdims, mask)


def nan_var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    correction: Any = None,
    root: bool = False,
) -> Tensor:
    """Return ``np.nanvar``, or ``np.nanstd`` if ``root``: NaN for ``ddof`` numbers or fewer."""
    source = tensor_of(a, "np.nanstd" if root else "np.nanvar")
    if not _may_miss(source):
        return var(source, axis, dtype, ddof, keepdims, where, correction, root)
    mask = _present(source, where)
    value = var(source, axis, dtype, ddof, keepdims, mask, correction, root)
    count = total("sum", mask, axis, "int64", keepdims)
    least = ddof if correction is None else correction

    def known(v: Expr, n: Expr) -> Expr:
        return select(binary(">", cast(n, "float64"), float(least)), v, const(np.nan, v.dtype))

    return array("nanstd" if root else "nanvar", known, value, count)


def nan_extreme(
    name: str,
    a: Any,
    axis: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Return ``np.nanmax`` or ``np.nanmin``: NaN where no element is a number."""
    source = tensor_of(a, f"np.nan{name}")
    if not dtypes.is_float(source.dtype):
        return extreme(name, source, axis, keepdims, initial, where)
    least = -np.inf if name == "max" else np.inf
    value = extreme(name, filled(source, least), axis, keepdims, initial, where)
    if initial is not None:
        return value
    missing = truth("all", array("isnan", lambda x: call("isnan", x), source), axis, keepdims)
    return array(f"nan{name}", lambda v, m: select(m, const(np.nan, v.dtype), v), value, missing)


def nan_cumulative(form: str, a: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """Return ``np.nancumsum`` or ``np.nancumprod``: NaN counts as 0 or 1."""
    source = tensor_of(a, f"np.nancum{'sum' if form == 'add' else 'prod'}")
    return cumulative(form, filled(source, 0 if form == "add" else 1), axis, dtype)
