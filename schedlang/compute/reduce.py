"""Reductions: their axes and combiners, and ``sum``, ``max``, ``argmax`` and the others."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from schedlang.compute.laws import exceptions_of
from schedlang.compute.reducer import Reducer
from schedlang.compute.tensor import check_extent, check_name
from schedlang.errors import ComputeError, ComputeTypeError, SchedlangError, explain
from schedlang.expr import dtypes
from schedlang.expr.construct import as_expr, binary, cast, const, convert, select, settled
from schedlang.expr.evaluate import evaluate
from schedlang.expr.functions import call
from schedlang.expr.interval import weak_range
from schedlang.expr.nodes import Axis, Const, Expr, ExprLike, Read, Var
from schedlang.expr.operators import OPERATORS
from schedlang.expr.simplify import simplify
from schedlang.expr.visit import postorder


class Reduction:
    """The value of ``sl.sum(...)`` or another reduction, which a lambda must return as it is."""

    __slots__ = ("reducer", "sources", "axes", "where", "init", "visible")

    def __init__(
        self, reducer: Reducer, sources: tuple[Expr, ...], axes: tuple[Axis, ...],
        where: Expr | None, init: tuple[Expr, ...] | None, visible: int,
    ) -> None:  # fmt: skip
        self.reducer = reducer
        self.sources = sources
        self.axes = axes
        self.where = where
        self.init = init
        self.visible = visible

    def as_scalar(self) -> Any:
        """Raise ``ComputeError``, since a reduction cannot be an operand."""
        return self.refuse()

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


def reduce_axis(dom: Any, name: str = "rv") -> Axis:
    """Return an axis to reduce over.

    Its range is ``extent`` or ``(lo, hi)``, half open.

    >>> k = reduce_axis((0, 16), name="k")
    >>> k.extent
    16
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
        lo, hi = dom
        lo, hi = _bound(lo, name), _bound(hi, name)
        extent = hi - lo
        if isinstance(extent, int) and extent < 0:
            raise ComputeError(
                f"reduce_axis({dom}, name={name!r}): hi is less than lo; give (lo, hi)"
            )
        if not isinstance(extent, int):
            extent = simplify(extent)
        return Axis(name, check_extent(extent, f"reduction axis {name}"), "reduce", lo)
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


def _axes(axis: Any, name: str) -> tuple[Axis, ...]:
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
                    f"    C = sl.compute(shape, lambda i: sl.{name}(A[i, k], axis=k))",
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
    return Reduction(reducer, sources, axes, cond, start, visible)


def _start(name: str, value: ExprLike, dtype: str) -> Expr:
    """Return ``init=`` in the dtype of the reduction.

    A number must fit into that dtype; an expression must cast to it under NumPy's rule
    ``same_kind``.
    """
    start = as_expr(value)
    if isinstance(start, Const):
        return const(start.value, dtype)
    indices = start.weak and dtypes.is_integer(start.dtype)
    if not indices and not np.can_cast(start.dtype, dtype, "same_kind"):
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


def _source(expr: ExprLike, dtype: object) -> Expr:
    value = as_expr(expr)
    return settled(value) if dtype is None else cast(value, dtype)


def _counted(expr: ExprLike, dtype: object) -> Expr:
    """Return the operand of ``sum`` or ``prod``: bools become int64, as in NumPy."""
    source = _source(expr, dtype)
    return cast(source, "int64") if dtype is None and source.dtype == "bool" else source


def _simple(name: str, dtype: str) -> Reducer:
    x, y = Var("x", dtype, weak=False), Var("y", dtype, weak=False)
    if name == "sum":
        return Reducer(name, (x,), (y,), (binary("+", x, y),), (const(0, dtype),))
    if name == "prod":
        return Reducer(name, (x,), (y,), (binary("*", x, y),), (const(1, dtype),))
    identity = extreme_value(dtype, largest=name == "min")
    return Reducer(name, (x,), (y,), (call(name, x, y),), (identity,))


def sum(  # noqa: A001
    expr: ExprLike, axis: Any = None, where: Any = None, init: Any = None, dtype: object = None
) -> Reduction:
    """Return the sum of ``expr`` over ``axis`` where ``where`` holds, starting from ``init`` (0).

    The dtype is ``dtype`` if given, else int64 for bools and the operand's dtype otherwise.
    Integers wrap. ``init`` is a number or an expression over data axes, which may read tensors
    (``init=bias[j]``).

    >>> import schedlang as sl
    >>> A, k = sl.placeholder((4, 8), "bool", name="A"), sl.reduce_axis(8, name="k")
    >>> sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k), name="count").dtype
    'int64'
    """
    axes, source = _axes(axis, "sum"), _counted(expr, dtype)
    return reduction(_simple("sum", source.dtype), (source,), axes, where, init, 1)


def prod(
    expr: ExprLike, axis: Any = None, where: Any = None, init: Any = None, dtype: object = None
) -> Reduction:
    """Return the product of ``expr`` over ``axis``; see :func:`sum`."""
    axes, source = _axes(axis, "prod"), _counted(expr, dtype)
    return reduction(_simple("prod", source.dtype), (source,), axes, where, init, 1)


def min(  # noqa: A001
    expr: ExprLike, axis: Any = None, *values: Any, where: Any = None, init: Any = None
) -> Any:
    """Return the smallest ``expr`` over a reduction axis, or the smallest of several expressions.

    NaN propagates. An axis that is known to be empty raises an error. If ``where`` never holds, the
    result is the largest value of the dtype.
    """
    return _extreme("min", expr, axis, values, where, init)


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
        found = call(name, expr, axis)
        for value in values:
            found = call(name, found, value)
        return found
    # te passes where and init by position after the axis
    for given, known in zip(values, (where, init)):
        if known is not None or len(values) > 2:
            raise ComputeTypeError(
                f"sl.{name}(expr, axis, {given}, ...): only where and init follow the axis, each "
                "once"
            )
    where, init = (*values, *(where, init)[len(values) :])
    axes, source = _axes(axis, name), _source(expr, None)
    if init is None:
        _refuse_empty(name, axes)
    return reduction(_simple(name, source.dtype), (source,), axes, where, init, 1)


def _refuse_empty(name: str, axes: tuple[Axis, ...]) -> None:
    for a in axes:
        if isinstance(a.extent, int) and a.extent == 0:
            raise ComputeError(
                f"sl.{name} over {a.name}: the axis is empty, and the {name} of no elements is "
                "undefined; give init= to define it"
            )


def _arg(name: str, expr: ExprLike, axis: Any, where: Any) -> Reduction:
    axes = _axes(axis, name)
    _refuse_empty(name, axes)
    for a in axes:
        least = weak_range(as_expr(a.lo))[0]
        if least is None or least < 0:
            raise ComputeError(
                f"sl.{name} over {a.name}: the axis starts at {a.lo}, but the result is an index, "
                f"which cannot be negative; reduce over sl.reduce_axis({a.extent}) and shift the "
                "indices of the reads"
            )
    value = _source(expr, None)
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


def argmax(expr: ExprLike, axis: Any = None, where: Any = None) -> Reduction:
    """Return the int64 index along ``axis`` of the largest ``expr``; the first one on ties.

    Over several axes the index is row-major. Elements for which ``where`` does not hold are
    skipped. The index is -1 if ``where`` never holds or a symbolic extent is 0.

    >>> import numpy as np, schedlang as sl
    >>> A, k = sl.placeholder((4,), name="A"), sl.reduce_axis(4, name="k")
    >>> C = sl.compute((), lambda: sl.argmax(A[k], axis=k, where=A[k] < 9), name="C")
    >>> int(sl.reference(C)(np.array([1, 9, 7, 7], "float32")))
    2
    """
    return _arg("argmax", expr, axis, where)


def argmin(expr: ExprLike, axis: Any = None, where: Any = None) -> Reduction:
    """Return the int64 index along ``axis`` of the smallest ``expr``; see :func:`argmax`."""
    return _arg("argmin", expr, axis, where)


def truth(name: str, expr: ExprLike, axis: Any, where: Any) -> Reduction:
    """Return the reduction ``any`` or ``all``, which tests ``expr`` over ``axis`` against 0."""
    axes, value = _axes(axis, name), as_expr(expr)
    source = value if value.dtype == "bool" else binary("!=", value, 0)
    x, y = Var("x", "bool", weak=False), Var("y", "bool", weak=False)
    joined = binary("|" if name == "any" else "&", x, y)
    reducer = Reducer(name, (x,), (y,), (joined,), (const(name == "all", "bool"),))
    return reduction(reducer, (source,), axes, where, None, 1)


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce", *,
    samples: Sequence[Any] | None = None, trusted: bool = False,
) -> Callable[..., Reduction]:  # fmt: skip
    """Return a custom reduction that combines with ``fcombine(x, y)`` from ``fidentity(dtype)``.

    For tuples, ``x`` and ``y`` are tuples and ``fidentity`` takes one dtype for each part. An
    identity is any expression of a constant value.

    The combiner must be commutative and associative. Both are tested on states that the reduction
    can have: values of what it reduces, folded from the identity. A combiner that fails raises
    :class:`~schedlang.errors.ComputeError`. The exception is one that fails to commute only where
    the values it compares are equal: then the first element wins while a schedule keeps the order,
    and a step that changes the order warns (:class:`~schedlang.errors.OrderWarning`). A step that
    adds partial results warns if the result depends on the identity that they start from.

    ``samples`` is a list of elements (numbers, or tuples of them) to test in place of sampled ones,
    for a combiner that is valid only for certain inputs. ``trusted`` skips the tests.

    >>> multiply = comm_reducer(lambda x, y: x * y, lambda t: 1.0, name="multiply")
    """
    check_name(name, "a reducer")
    _check_functions(name, fcombine, fidentity)
    if not isinstance(trusted, bool):
        raise ComputeTypeError(f"reducer {name}: trusted is {trusted!r}; give True or False")

    def reduce_with(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Reduction:
        parts = expr if isinstance(expr, (tuple, list)) else (expr,)
        sources = tuple(_source(p, None) for p in parts)
        if not sources:
            raise ComputeError(
                f"sl.{name}((), ...): there is nothing to reduce; give an expression, or a tuple "
                "of one or more"
            )
        reducer = _custom(name, fcombine, fidentity, [s.dtype for s in sources])
        made = reduction(reducer, sources, axis, where, init, len(sources))
        if not trusted:
            found = exceptions_of(reducer, sources, made.where, made.init, samples)
            reducer = replace(reducer, **found._asdict())
        made.reducer = replace(reducer, vouched=trusted or samples is not None)
        return made

    reduce_with.__name__ = name
    return reduce_with


def _check_functions(name: str, fcombine: Any, fidentity: Any) -> None:
    """Raise unless ``fcombine`` is a function of two operands, and ``fidentity`` a function."""
    examples = {"fcombine": "lambda x, y: x + y", "fidentity": "lambda dtype: 0"}
    for asked, function in (("fcombine", fcombine), ("fidentity", fidentity)):
        if not callable(function):
            raise ComputeTypeError(
                f"reducer {name}: {asked} is {function!r}, not a function; write e.g. "
                f"{asked}={examples[asked]}"
            )
    if not _accepts(fcombine, 2):
        raise ComputeTypeError(
            f"reducer {name}: fcombine cannot be called as fcombine(x, y); it combines two values, "
            f"e.g. {examples['fcombine']}, which are tuples if the reduction is of tuples"
        )


def _custom(
    name: str, fcombine: Callable[..., Any], fidentity: Callable[..., Any], kinds: Sequence[str]
) -> Reducer:
    lhs = tuple(Var(f"x{k}", t, weak=False) for k, t in enumerate(kinds))
    rhs = tuple(Var(f"y{k}", t, weak=False) for k, t in enumerate(kinds))
    combined = _combined(name, fcombine, lhs, rhs)
    results = combined if isinstance(combined, (tuple, list)) else (combined,)
    identities = _called(name, fidentity, kinds)
    starts = identities if isinstance(identities, (tuple, list)) else (identities,)
    if len(results) != len(kinds) or len(starts) != len(kinds):
        raise ComputeError(
            f"reducer {name}: it has {len(kinds)} operand{'s' * (len(kinds) != 1)}, but fcombine "
            f"returns {len(results)} and fidentity {len(starts)}; return one value for each"
        )
    result = tuple(_check_result(name, _returned(name, "fcombine", r), t)
                   for r, t in zip(results, kinds))  # fmt: skip
    _refuse_others(name, result, {*lhs, *rhs})
    identity = tuple(_identity(name, _returned(name, "fidentity", v), t)
                     for v, t in zip(starts, kinds))  # fmt: skip
    return Reducer(name, lhs, rhs, result, identity)


def _combined(name: str, fcombine: Any, lhs: tuple[Var, ...], rhs: tuple[Var, ...]) -> Any:
    single = len(lhs) == 1
    try:
        return fcombine(lhs[0], rhs[0]) if single else fcombine(lhs, rhs)
    except (TypeError, IndexError) as error:
        if isinstance(error, SchedlangError):
            raise
        operands = "x and y are single values" if single else f"x and y have {len(lhs)} parts each"
        raise ComputeTypeError(
            explain(
                f"reducer {name}",
                f"fcombine(x, y) fails with {type(error).__name__}: {error}",
                f"Here {operands}, since that is how many values the reduction is given.",
            )
        ) from error


def _called(name: str, fidentity: Any, kinds: Sequence[str]) -> Any:
    if _accepts(fidentity, len(kinds)):
        return fidentity(*kinds)
    if _accepts(fidentity, 1):
        return fidentity(kinds[0])
    count = len(kinds)
    example = "lambda dtype: 0" if count == 1 else "lambda *dtypes: (0, ...)"
    raise ComputeTypeError(
        f"reducer {name}: fidentity cannot be called with {count} dtype{'s' * (count != 1)}; it "
        f"takes the dtype of each value, e.g. {example}"
    )


def _returned(name: str, function: str, value: Any) -> Expr:
    try:
        return as_expr(value)
    except ComputeTypeError as error:
        raise ComputeTypeError(f"the result of {function} of reducer {name}: {error}") from None


def _refuse_others(name: str, result: tuple[Expr, ...], operands: set[Var]) -> None:
    """Raise if a combiner uses an axis, a size, a scalar or a tensor."""
    for node in postorder(result):
        leaf = isinstance(node, (Axis, Read)) or (isinstance(node, Var) and node not in operands)
        if leaf:
            raise ComputeError(
                explain(
                    f"reducer {name}",
                    f"fcombine uses {node}, but may use only its operands and constants",
                    f"Use {node} in the expression to reduce, or in a later stage that reads the "
                    "result. Or reduce tuples that have it as a part.",
                )
            )


def _accepts(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        # a function in C may not tell its parameters
        return True
    return True


def _check_result(name: str, value: Expr, dtype: str) -> Expr:
    if value.weak:
        return convert(value, dtype)
    if value.dtype != dtype:
        raise ComputeTypeError(
            f"reducer {name}: fcombine returns {value.dtype} for an operand of {dtype}; cast it "
            f"with sl.cast(..., {dtype!r})"
        )
    return value


def _identity(name: str, unit: Expr, dtype: str) -> Const:
    """Return the value of a constant expression, in ``dtype``."""
    if any(isinstance(n, (Axis, Var, Read)) for n in postorder([unit])):
        raise ComputeError(
            f"reducer {name}: the identity {unit} is not a constant; give a constant, and use "
            "init= to start a reduction from another value"
        )
    with np.errstate(all="ignore"):
        return const(evaluate(unit, {}).item(), dtype)


__all__ = [
    "Reducer", "Reduction", "argmax", "argmin", "comm_reducer", "max", "min", "prod",
    "reduce_axis", "sum",
]  # fmt: skip
