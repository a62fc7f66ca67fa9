"""Reductions: their axes and combiners, and ``sum``, ``max``, ``argmax`` and the others."""

from __future__ import annotations

import math
from typing import Any

from schedlang.compute.precision import warn_of_narrow_products
from schedlang.compute.ragged import give_boxes, is_ragged, ragged_axis, replace_axes, with_ranges
from schedlang.compute.reducer import Reducer
from schedlang.compute.tensor import Extent, Tensor, check_extent
from schedlang.compute.whole import elementwise, traceable
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.names import check_name
from schedlang.expr.nodes import Axis, Cast, Const, Expr, ExprLike, Var
from schedlang.index.ranges import weak_range
from schedlang.index.simplify import simplify
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, cast, const, convert, select, settle
from schedlang.language.operators import OPERATORS
from schedlang.signatures import public


class Reduction:
    """The value of ``sl.sum(...)`` or another reduction. A lambda must return it unchanged."""

    __slots__ = ("reducer", "sources", "axes", "where", "init", "visible", "limits")

    def __init__(
        self,
        reducer: Reducer,
        sources: tuple[Expr, ...],
        axes: tuple[Axis, ...],
        where: Expr | None,
        init: tuple[Expr, ...] | None,
        visible: int,
        limits: tuple[Extent | None, ...] = (),
    ) -> None:
        self.reducer = reducer
        self.sources = sources
        self.axes = axes
        self.where = where
        self.init = init
        self.visible = visible
        self.limits = limits

    def as_scalar(self) -> Any:
        """Raise ``ComputeError``, since a reduction cannot be an operand."""
        return self.refuse()

    def refuse_inside(self, outer: str, axes: tuple[Axis, ...]) -> None:
        """Raise ``ComputeError``, since this reduction is the operand of ``outer`` over ``axes``.

        Reductions of one kind over different axes are one reduction over all of them.
        """
        name = self.reducer.name
        same = name == outer and self.where is None and self.init is None
        if not same or not set(axes).isdisjoint(self.axes):
            self.refuse()
        listed = ", ".join(axis.name for axis in (*axes, *self.axes))
        raise ComputeError(
            explain(
                f"sl.{outer}(sl.{name}(...))",
                "a reduction must be the whole value of its lambda",
                f"Reduce over all axes at once: sl.{outer}(..., axis=({listed})).",
            )
        )

    def refuse(self, *_: Any, **__: Any) -> Any:
        raise ComputeError(
            explain(
                f"arithmetic on sl.{self.reducer.name}(...)",
                "a reduction must be the whole value of its lambda",
                "Give the reduction a stage of its own, and use its elements in the next stage:\n"
                f"    T = sl.compute(shape, lambda i: sl.{self.reducer.name}(..., axis=k))\n"
                "    C = sl.compute(shape, lambda i: T[i] * 2)",
            )
        )

    __getitem__ = __array_ufunc__ = __array_function__ = __array__ = astype = equal = refuse


for _name in OPERATORS:
    setattr(Reduction, _name, Reduction.refuse)


@public
def reduce_axis(dom: Any, name: str = "rv") -> Axis:
    """Return an axis to reduce over.

    Its range is ``extent`` or ``(lo, hi)``, half open. Inside the function of ``sl.compute``, both
    may depend on its axes, on reduction axes before this one, and on elements of integer tensors:
    such an axis is *ragged*. If ``hi`` is not above ``lo``, the range is empty, and the result is
    the identity. Storage covers a box around all ranges, from what :func:`~schedlang.assume`
    declares of the elements, or from a tensor that is read at the axis itself; loops run over the
    range alone.

    >>> k = reduce_axis((0, 16), name="k")
    >>> k.extent
    16
    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), name="A")
    >>> def row(i):
    ...     k = sl.reduce_axis((0, i + 1), name="k")
    ...     return sl.sum(A[k], axis=k)
    >>> sl.reference(sl.compute((3,), row, name="prefix"))(np.ones(3, "float32"))
    array([1., 2., 3.], dtype=float32)
    """
    if not isinstance(dom, (tuple, list)) and _is_bound(name):
        raise ComputeTypeError(
            f"sl.reduce_axis({dom}, {name}): a range must be one tuple; write "
            f"sl.reduce_axis(({dom}, {name}))"
        )
    check_name(name, "a reduction axis")
    if isinstance(dom, (tuple, list)):
        if len(dom) != 2:
            raise ComputeError(
                f"reduce_axis({dom}): give the extent, or (lo, hi), where hi is excluded"
            )
        lo, hi = (end.as_scalar() if isinstance(end, Tensor) else end for end in dom)
        if is_ragged(lo) or is_ragged(hi):
            return ragged_axis(lo, hi, name)
        lo, hi = _bound(lo, name), _bound(hi, name)
        extent = hi - lo
        if isinstance(extent, int) and extent < 0:
            raise ComputeError(
                f"reduce_axis({dom}, name={name!r}): hi is less than lo; give (lo, hi)"
            )
        if not isinstance(extent, int):
            extent = simplify(extent)
        return Axis(name, check_extent(extent, f"reduction axis {name}"), "reduce", lo)
    dom = dom.as_scalar() if isinstance(dom, Tensor) else dom
    if is_ragged(dom):
        return ragged_axis(0, dom, name)
    return Axis(name, check_extent(dom, f"reduction axis {name}"), "reduce")


def _is_bound(value: Any) -> bool:
    return isinstance(value, Expr) or hasattr(value, "__index__")


def _bound(value: Any, name: str) -> int | Expr:
    if isinstance(value, Expr) and not isinstance(value, Const):
        return check_extent(value, f"the range of reduction axis {name}")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ComputeTypeError(
            f"the range of reduction axis {name} contains {value!r}; give integers"
        )
    return int(value)


def _axes(axis: Any, name: str, operand: Any = None) -> tuple[Axis, ...]:
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if not axes:
        raise ComputeError(f"sl.{name}(..., axis=()): give at least one reduce_axis")
    for a in axes:
        if not isinstance(a, Axis):
            raise ComputeTypeError(
                explain(
                    f"sl.{name}(...)" if a is None else f"sl.{name}(..., axis={a!r})",
                    "a reduction needs an axis made by sl.reduce_axis",
                    "Make the reduction axis and index with it:\n"
                    '    k = sl.reduce_axis(n, name="k")\n'
                    f"    C = sl.compute(shape, lambda i: sl.{name}(A[i, k], axis=k))\n"
                    f"Of a whole tensor, write np.{name}(A, axis=0).",
                )
            )
        if not a.is_reduce:
            raise ComputeError(
                f"sl.{name}(..., axis={a.name}): {a.name} is a {a.kind} axis; reduce over an axis "
                "made by sl.reduce_axis"
            )
    doubled = next((a for k, a in enumerate(axes) if any(a is b for b in axes[:k])), None)
    if doubled is not None:
        listed = ", ".join(a.name for a in axes)
        raise ComputeError(
            f"sl.{name}(..., axis=[{listed}]): {doubled.name} is given twice; give each axis once"
        )
    if isinstance(operand, Reduction):
        operand.refuse_inside(name, axes)
    return axes


def reduction(
    reducer: Reducer, sources: tuple[Expr, ...], axis: Any, where: Any, init: Any, visible: int
) -> Reduction:
    axes = _axes(axis, reducer.name)
    cond = None if where is None else as_expr(where)
    if cond is not None and cond.dtype != "bool":
        raise ComputeTypeError(
            f"sl.{reducer.name}(..., where={cond}): a condition is bool, not {cond.dtype}; compare "
            f"it, e.g. {cond} != 0"
        )
    start = None
    if init is not None:
        items = init if isinstance(init, (tuple, list)) else (init,)
        if len(items) != len(sources):
            raise ComputeError(
                f"sl.{reducer.name}(..., init=...): init has {len(items)} values, but the "
                f"reduction has {len(sources)}; give one for each"
            )
        start = tuple(_start(reducer.name, v, s.dtype) for v, s in zip(items, sources))
    axes, swap = give_boxes(reducer.name, axes, (*sources, *(() if cond is None else (cond,))))
    sources, cond = tuple(replace_axes(s, swap) for s in sources), replace_axes(cond, swap)
    condition, limits = with_ranges(axes, cond)
    return Reduction(reducer, sources, axes, condition, start, visible, limits)


def _start(name: str, value: ExprLike, dtype: str) -> Expr:
    """Return ``init=`` in the dtype of the reduction.

    A number must fit into that dtype; an expression must cast to it under NumPy's rule
    ``same_kind``.
    """
    start = as_expr(value)
    if isinstance(start, Const):
        return const(start.value, dtype)
    indices = start.weak and dtypes.is_integer(start.dtype)
    if not indices and not dtypes.can_cast(start.dtype, dtype, "same_kind"):
        raise ComputeTypeError(
            f"sl.{name}(..., init={start}): init is {start.dtype}, but the reduction is {dtype}; "
            f"cast it with sl.cast({start}, {dtype!r})"
        )
    return convert(start, dtype)


def extreme_value(dtype: str, largest: bool) -> Const:
    """Return the largest or smallest value of ``dtype``."""
    if dtypes.is_float(dtype):
        return Const(math.inf if largest else -math.inf, dtype)
    low, high = dtypes.limits(dtype)
    value: Any = high if largest else low
    return Const(bool(value) if dtype == "bool" else value, dtype)


def _refuse_complex(name: str, dtype: str) -> None:
    if dtypes.is_complex(dtype):
        raise ComputeTypeError(
            explain(
                f"sl.{name} of {dtype}",
                "complex numbers have no order",
                f"Reduce a part or the magnitude: sl.{name}(sl.abs(z), axis=k).",
            )
        )


def source_of(expr: ExprLike, dtype: object) -> Expr:
    value = as_expr(expr)
    return settle(value) if dtype is None else cast(value, dtype)


def sum_operand(expr: ExprLike, dtype: object) -> Expr:
    """Return the operand of ``sum`` or ``prod``: bools become int64, as in NumPy."""
    source = source_of(expr, dtype)
    return cast(source, "int64") if dtype is None and source.dtype == "bool" else source


def simple(name: str, dtype: str) -> Reducer:
    """Return the reducer ``sum``, ``prod``, ``min`` or ``max`` of values of ``dtype``."""
    x, y = Var("x", dtype, weak=False), Var("y", dtype, weak=False)
    if name == "sum":
        return Reducer(name, (x,), (y,), (binary("+", x, y),), (const(0, dtype),))
    if name == "prod":
        return Reducer(name, (x,), (y,), (binary("*", x, y),), (const(1, dtype),))
    _refuse_complex(name, dtype)
    identity = extreme_value(dtype, largest=name == "min")
    return Reducer(name, (x,), (y,), (call(name, x, y),), (identity,))


@public
def sum(  # noqa: A001
    expr: ExprLike, axis: Any = None, where: Any = None, init: Any = None, dtype: object = None
) -> Reduction:
    """Return the sum of ``expr`` over ``axis`` where ``where`` holds, starting from ``init`` (0).

    The dtype is ``dtype`` if given, else int64 for bools and the operand's dtype otherwise.
    Integers wrap; a :class:`~schedlang.errors.PrecisionWarning` names products of 8 or 16 bits
    that may wrap before a wider sum. ``init`` is a number or an expression over data axes, which
    may read tensors (``init=bias[j]``).

    >>> import schedlang as sl
    >>> A, k = sl.placeholder((4, 8), "bool", name="A"), sl.reduce_axis(8, name="k")
    >>> sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k), name="count").dtype
    'int64'
    """
    axes, source = _axes(axis, "sum", expr), sum_operand(expr, dtype)
    if isinstance(source, Cast):
        warn_of_narrow_products(source.a, source.dtype)
    return reduction(simple("sum", source.dtype), (source,), axes, where, init, 1)


@public
def prod(
    expr: ExprLike, axis: Any = None, where: Any = None, init: Any = None, dtype: object = None
) -> Reduction:
    """Return the product of ``expr`` over ``axis``; see :func:`sum`."""
    axes, source = _axes(axis, "prod", expr), sum_operand(expr, dtype)
    return reduction(simple("prod", source.dtype), (source,), axes, where, init, 1)


@traceable
def min(  # noqa: A001
    expr: ExprLike, axis: Any = None, *values: Any, where: Any = None, init: Any = None
) -> Any:
    """Return the smallest ``expr`` over a reduction axis, or the smallest of several expressions.

    NaN propagates. An axis that is known to be empty raises an error. If ``where`` never holds, the
    result is the largest value of the dtype.
    """
    return _extreme("min", expr, axis, values, where, init)


@traceable
def max(  # noqa: A001
    expr: ExprLike, axis: Any = None, *values: Any, where: Any = None, init: Any = None
) -> Any:
    """Return the largest ``expr`` over a reduction axis, or the largest of several expressions.

    See :func:`min`; if ``where`` never holds, the result is the smallest value of the dtype.
    """
    return _extreme("max", expr, axis, values, where, init)


def is_reduction(axis: Any) -> bool:
    """Return whether ``axis`` is a reduction axis, or a list or tuple of axes."""
    items = axis if isinstance(axis, (tuple, list)) else (axis,)
    return isinstance(axis, (tuple, list)) or any(
        isinstance(a, Axis) and a.is_reduce for a in items
    )


def _extreme(
    name: str, expr: ExprLike, axis: Any, values: tuple[Any, ...], where: Any, init: Any
) -> Any:
    if axis is not None and not is_reduction(axis):
        if where is not None or init is not None:
            raise ComputeTypeError(
                f"sl.{name}(a, b) of two expressions takes no where= or init=; only a reduction "
                f"does: sl.{name}(expr, axis=k, where=...)"
            )
        return elementwise(f"{name}imum", lambda *v: _extreme_of(name, v), expr, axis, *values)
    # te passes where and init by position after the axis
    for positional, keyword in zip(values, (where, init)):
        if keyword is not None or len(values) > 2:
            raise ComputeTypeError(
                f"sl.{name}(expr, axis, {positional}, ...): only where and init follow the axis, "
                "each "
                "once"
            )
    where, init = (*values, *(where, init)[len(values) :])
    axes, source = _axes(axis, name, expr), source_of(expr, None)
    if init is None:
        _refuse_empty(name, axes)
    return reduction(simple(name, source.dtype), (source,), axes, where, init, 1)


def _extreme_of(name: str, values: tuple[ExprLike, ...]) -> Expr:
    """Return the extreme ``name`` of several expressions."""
    result = as_expr(values[0])
    for value in values[1:]:
        result = call(name, result, value)
    return result


def _refuse_empty(name: str, axes: tuple[Axis, ...]) -> None:
    for a in axes:
        if isinstance(a.extent, int) and a.extent == 0:
            raise ComputeError(
                f"sl.{name} over {a.name}: the axis is empty, and the {name} of no elements is "
                "undefined; give init= to define it"
            )


def _arg(name: str, expr: ExprLike, axis: Any, where: Any) -> Reduction:
    axes = _axes(axis, name)
    roots = [as_expr(v) for v in (expr, where) if v is not None]
    axes, swap = give_boxes(name, axes, roots)
    expr, where = replace_axes(expr, swap), replace_axes(where, swap)
    _refuse_empty(name, axes)
    for a in axes:
        least = weak_range(as_expr(a.lo))[0]
        if least is None or least < 0:
            raise ComputeError(
                f"sl.{name} over {a.name}: the axis starts at {a.lo}, but the result is an index, "
                f"which cannot be negative; reduce over sl.reduce_axis({a.extent}) and shift the "
                "indices of the reads"
            )
    value = source_of(expr, None)
    _refuse_complex(name, value.dtype)
    position: Expr = axes[0]
    for a in axes[1:]:
        position = position * a.extent + a
    index = cast(position, "int64")
    li, lv = Var("index_x", "int64", weak=False), Var("value_x", value.dtype, weak=False)
    ri, rv = Var("index_y", "int64", weak=False), Var("value_y", value.dtype, weak=False)
    better = binary(">" if name == "argmax" else "<", lv, rv)
    if dtypes.is_float(value.dtype):
        # as in NumPy, a NaN is chosen over any number, and the first of several NaNs
        nan_l, nan_r = call("isnan", lv), call("isnan", rv)
        better = (better & ~nan_r) | (nan_l & ~nan_r)
        tied = (lv == rv) | (nan_l & nan_r)
    else:
        tied = lv == rv
    left = (li >= 0) & ((ri < 0) | better | (tied & (li < ri)))
    result = (select(left, li, ri), select(left, lv, rv))
    identity = (const(-1, "int64"), extreme_value(value.dtype, largest=name == "argmin"))
    reducer = Reducer(name, (li, lv), (ri, rv), result, identity)
    return reduction(reducer, (index, value), axes, where, None, 1)


@public
def argmax(expr: ExprLike, axis: Any = None, where: Any = None) -> Reduction:
    """Return the int64 index along ``axis`` of the largest ``expr``; the first one on ties.

    Over several axes the index is row-major. Elements where ``where`` does not hold are skipped.
    The index is -1 if ``where`` never holds or a symbolic extent is 0.

    >>> import numpy as np, schedlang as sl
    >>> A, k = sl.placeholder((4,), name="A"), sl.reduce_axis(4, name="k")
    >>> C = sl.compute((), lambda: sl.argmax(A[k], axis=k, where=A[k] < 9), name="C")
    >>> int(sl.reference(C)(np.array([1, 9, 7, 7], "float32")))
    2
    """
    return _arg("argmax", expr, axis, where)


@public
def argmin(expr: ExprLike, axis: Any = None, where: Any = None) -> Reduction:
    """Return the int64 index along ``axis`` of the smallest ``expr``; see :func:`argmax`."""
    return _arg("argmin", expr, axis, where)


def truth(name: str, expr: ExprLike, axis: Any, where: Any) -> Reduction:
    """Return the reduction ``any`` or ``all``, which tests ``expr`` over ``axis`` against 0."""
    axes, value = _axes(axis, name, expr), as_expr(expr)
    source = value if value.dtype == "bool" else binary("!=", value, 0)
    x, y = Var("x", "bool", weak=False), Var("y", "bool", weak=False)
    joined = binary("|" if name == "any" else "&", x, y)
    reducer = Reducer(name, (x,), (y,), (joined,), (const(name == "all", "bool"),))
    return reduction(reducer, (source,), axes, where, None, 1)


__all__ = [
    "Reducer", "Reduction", "argmax", "argmin", "max", "min", "prod", "reduce_axis", "sum",
]  # fmt: skip
