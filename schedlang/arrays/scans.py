"""Running sums and products, as recurrences."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.reductions import sum_dtype
from schedlang.arrays.shapes import axis_number
from schedlang.arrays.shaping import permute, ravel
from schedlang.arrays.stages import axis_names, each, read, tensor_of
from schedlang.compute.define import define
from schedlang.compute.scan import scan
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.composed import COMPOSED
from schedlang.language.construct import binary, cast

# the operation of each running reduction, and the word of its stage
FORMS = {
    "add": ("+", "cumsum"), "multiply": ("*", "cumprod"), "maximum": ("max", "cummax"),
    "minimum": ("min", "cummin"), "logical_and": ("&", "cumall"), "logical_or": ("|", "cumany"),
    "logaddexp": ("logaddexp", "logcumsumexp"),
}  # fmt: skip


def cumulative(form: str, a: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """Return ``np.cumsum`` or ``np.cumprod``."""
    return running_fold(form, a, axis, dtype, f"np.{FORMS[form][1]}")


def running_fold(form: str, a: Any, axis: Any, dtype: Any, asked: str) -> Tensor:
    """Return the running ``form`` along ``axis``, or of all elements in order if it is ``None``.

    It is an :func:`~schedlang.compute.scan.scan` whose rows are the elements along ``axis``.
    """
    source = tensor_of(a, asked)
    if axis is None:
        source, along = ravel(source), 0
    elif not source.ndim:
        source, along = ravel(source), axis_number(axis, 1, asked)
    else:
        along = axis_number(axis, source.ndim, asked)
    order = [along, *(k for k in range(source.ndim) if k != along)]
    rows = permute(source, order)
    op, word = FORMS[form]
    kind = dtypes.canonical(dtype) if dtype is not None else source.dtype
    if dtype is None and form in ("add", "multiply"):
        kind = sum_dtype(kind)
    if form == "logaddexp":
        # of integers it is a float
        value = cast(source.element((0,) * source.ndim), kind)
        kind = _joined(op, value, value).dtype
    if form.startswith("logical"):
        kind = "bool"
    length = rows.shape[0]
    if isinstance(length, int) and length <= 1:
        return each(word, source.shape, lambda *i: cast(read(source, i), kind))
    scanned = _scan_rows(word, op, rows, kind)
    return permute(scanned, [order.index(k) for k in range(source.ndim)])


def _scan_rows(word: str, op: str, rows: Tensor, kind: str) -> Tensor:
    name = automatic_name(word)
    state = placeholder(rows.shape, kind, name=f"{name}.state")
    names = axis_names(rows.ndim)
    inner = tuple(Axis(n, e) for n, e in zip(names[1:], rows.shape[1:]))
    once, time = Axis(names[0], 1), Axis(names[0], rows.shape[0])
    first = define(f"{name}.first", (once, *inner), cast(read(rows, (0, *inner)), kind))
    inner = tuple(Axis(n, e) for n, e in zip(names[1:], rows.shape[1:]))
    before, now = state.element((time - 1, *inner)), cast(read(rows, (time, *inner)), kind)
    joined = _joined(op, before, now)
    step = define(f"{name}.step", (time, *inner), joined)
    result: Tensor = scan(first, step, state, name=name)
    mark_automatic(result)
    return result


def _joined(op: str, before: Expr, now: Expr) -> Expr:
    if op in COMPOSED:
        joined: Expr = COMPOSED[op](before, now)
        return joined
    return call(op, before, now) if op in ("min", "max") else binary(op, before, now)
