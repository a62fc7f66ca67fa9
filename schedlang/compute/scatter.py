"""Scatters: ``scatter`` updates elements of its result at computed places.

An update definition of Halide, ``hist(image(r.x, r.y)) += 1``, in one call. Sources: Ragan-Kelley
et al., Halide (PLDI 2013), for update definitions; JAX's ``x.at[i].add(v, mode="drop")``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from schedlang.compute import math, reduce
from schedlang.compute.define import axis_names, finish
from schedlang.compute.fold import ufunc_of
from schedlang.compute.ragged import replace_axes
from schedlang.compute.reduce import Reduction, reduction, source_of, truth
from schedlang.compute.reducer import Reducer
from schedlang.compute.tensor import (
    ComputeOp,
    Extent,
    Tensor,
    check_extent,
    check_shape,
    shape_text,
)
from schedlang.compute.whole import refuse_traced
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError, SchedlangError, explain
from schedlang.expr import dtypes
from schedlang.expr.lazy import both
from schedlang.expr.names import check_name
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import rewrite
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr, const, convert, select
from schedlang.signatures import public

# combiners by name; the others that neighbours use, with the name here
COMBINERS = ("sum", "prod", "min", "max", "any", "all", "argmin", "argmax", "last")
_FUNCTIONS = {
    "sum": reduce.sum, "prod": reduce.prod, "min": reduce.min, "max": reduce.max, "any": math.any,
    "all": math.all, "argmin": reduce.argmin, "argmax": reduce.argmax,
}  # fmt: skip
_OTHERS = {
    "add": "sum", "mul": "prod", "multiply": "prod", "amin": "min", "amax": "max",
    "minimum": "min", "maximum": "max", "set": "last", "assign": "last", "or": "any", "and": "all",
}  # fmt: skip


@public
def scatter(
    shape: Any,
    domain: Any,
    fupdate: Callable[..., Any],
    combine: Any = "sum",
    init: Any = None,
    where: Callable[..., Any] | None = None,
    mode: str | None = None,
    dtype: object = None,
    name: str = "scatter",
) -> Any:
    """Return a tensor of ``shape`` whose elements are updated at computed places.

    ``fupdate`` takes one axis for each extent of ``domain`` and returns ``(index, value)``, where
    ``index`` is one integer expression for each dimension of ``shape`` (a tuple, or one alone). At
    each point of ``domain``, the element at ``index`` becomes ``combine(element, value)``. Both may
    read tensors. ``domain`` is an extent, a reduction axis, or a tuple of these.

    ``combine`` is ``"sum"`` (the default), ``"prod"``, ``"min"``, ``"max"``, ``"any"``, ``"all"``,
    ``"argmin"``, ``"argmax"`` (the row-major position in ``domain``), a reducer made by
    :func:`~schedlang.comm_reducer`, or ``"last"``, which overwrites: the last update in the
    row-major order of ``domain`` remains.

    The elements start from ``init``: a number, a tensor of ``shape``, or a function of the data
    axes; by default from the identity of ``combine`` (0 for ``"last"``). A tensor in place of
    ``shape`` stands for its shape and for ``init``, and the result has its dtype. Otherwise the
    dtype is ``dtype`` if given (for ``"sum"`` and ``"prod"``), else the dtype of the value.

    ``where`` is a function of the axes of ``domain``; points where it is false update nothing.
    ``mode="drop"`` leaves out the points whose index is outside of ``shape``. Without it, such a
    point is an error: one that is certain is refused here, ``sl.reference`` checks all of them, and
    compiled kernels check none, as for reads.

    Raises :class:`~schedlang.errors.ComputeTypeError` for a function that returns anything but
    ``(index, value)``, and for indices, values or conditions of a wrong dtype,
    :class:`~schedlang.errors.BoundsError` for a wrong number of indices or an index outside of
    ``shape``, :class:`~schedlang.errors.ComputeError` for an unknown ``combine`` or ``mode``, and
    for extents that depend on data.

    >>> import numpy as np, schedlang as sl
    >>> X = sl.placeholder((6,), "uint8", name="X")
    >>> H = sl.scatter((4,), (6,), lambda k: (X[k], 1), name="H")
    >>> sl.reference(H)(np.array([0, 3, 3, 1, 0, 3], "uint8"))
    array([2, 1, 0, 3])
    """
    check_name(name, "a tensor")
    init, extents = _result_shape(shape, init, name)
    axes = _domain_axes(domain, fupdate, name)
    index, value = _update(fupdate, axes, name)
    result = Tensor(name, extents, "float32", None)
    destination = _destination(result, index, value)
    cond = None if where is None else _condition(where, axes, name)
    cond = _inside(cond, destination, extents, axes, mode, name)
    data, change = _data_axes(extents, destination, axes, init)
    start = _start(init, data, extents, name)
    updates = _combined(combine, value, axes, cond, start, dtype, name)
    swap = _replaced(axes, updates.axes, dict(change))
    reduced = tuple(swap.get(a, a) for a in axes if not any(a is old for old, _ in change))
    op = ComputeOp(
        name,
        data,
        tuple(replace_axes(v, swap) for v in updates.sources),
        reduced,
        updates.reducer,
        replace_axes(updates.where, swap),
        updates.init,
        tuple(replace_axes(v, swap) for v in destination),
        limits=updates.limits,
    )
    return finish(_simplest(op), updates.visible, isinstance(value, (tuple, list)))


def _result_shape(shape: Any, init: Any, name: str) -> tuple[Any, tuple[Extent, ...]]:
    """Return ``init`` and the extents of the result; a tensor for ``shape`` gives both."""
    refuse_traced("sl.scatter", shape, init)
    if isinstance(shape, Tensor):
        if init is not None:
            raise ComputeError(
                f"sl.scatter({shape.name}, ..., init={_short(init)}): the result already starts "
                f"from {shape.name}; give {shape.name}.shape first to start from init="
            )
        return shape, shape.shape
    if callable(shape):
        raise ComputeTypeError(
            f"sl.scatter for {name}: the shape of the result must come first; write "
            "sl.scatter(shape, domain, lambda k: (index, value))"
        )
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    for position, extent in enumerate(items):
        if isinstance(extent, Expr) and not extent.weak:
            _refuse_data(extent, f"dimension {position} of {name}")
    return init, check_shape(shape, name)


def _refuse_data(extent: Expr, what: str) -> NoReturn:
    raise ComputeError(
        explain(
            f"{what} is {extent}",
            "it depends on data, and a result has storage before its data is known",
            'Give a size, sl.var("n"), or the largest value that can occur, and read only the '
            "elements that are used.",
        )
    )


def _domain_axes(domain: Any, fupdate: Any, name: str) -> tuple[Axis, ...]:
    if callable(domain) and not isinstance(domain, Expr):
        raise ComputeTypeError(
            f"sl.scatter for {name}: the domain of the updates must follow the shape; write "
            "sl.scatter(shape, domain, lambda k: (index, value))"
        )
    if not callable(fupdate) or isinstance(fupdate, (Expr, Tensor)):
        raise ComputeTypeError(
            f"sl.scatter for {name}: fupdate must be a function of the domain's axes, got "
            f"{type(fupdate).__name__}; write e.g. lambda k: (X[k], 1)"
        )
    items = tuple(domain) if isinstance(domain, (tuple, list)) else (domain,)
    names = axis_names(fupdate, len(items))
    if len(names) != len(items):
        raise ComputeError(
            explain(
                f"sl.scatter for {name}",
                f"the domain has {len(items)} dimension{'s' * (len(items) != 1)}, but the "
                f"function takes {len(names)} ({', '.join(names) or 'none'})",
                "Give the function one parameter for each dimension of the domain, or *idx.",
            )
        )
    axes: list[Axis] = []
    for position, (item, label) in enumerate(zip(items, names)):
        if isinstance(item, Axis):
            if not item.is_reduce or any(item is a for a in axes):
                why = "is given twice" if item.is_reduce else f"is a {item.kind} axis"
                raise ComputeError(
                    f"sl.scatter for {name}: axis {item.name} of the domain {why}; give an extent, "
                    "or an axis made by sl.reduce_axis, once"
                )
            axes.append(item)
            continue
        check_name(label, "an axis")
        what = f"dimension {position} of the domain of {name}"
        if isinstance(item, Expr) and not item.weak:
            _refuse_data(item, what)
        axes.append(Axis(label, check_extent(item, what), "reduce"))
    return tuple(axes)


def _update(fupdate: Callable[..., Any], axes: Sequence[Axis], name: str) -> tuple[Any, Any]:
    """Return the index and the value that ``fupdate`` returns."""
    result = fupdate(*axes)
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return result[0], result[1]
    title = f"{len(result)} values" if isinstance(result, (tuple, list)) else type(result).__name__
    title = "None" if result is None else title
    raise ComputeTypeError(
        explain(
            f"sl.scatter for {name}",
            f"its function returns {title}, not (index, value)",
            "Return the index of the element to update and the value: lambda k: (X[k], 1). "
            "Several indices are a tuple: lambda k: ((I[k], J[k]), V[k]).",
        )
    )


def _destination(result: Tensor, index: Any, value: Any) -> tuple[Expr, ...]:
    """Return the checked indices of an update, one for each dimension of ``result``."""
    items = tuple(index) if isinstance(index, (tuple, list)) else (index,)
    for item, what in ((index, "index"), (value, "value")):
        if isinstance(item, Reduction):
            raise ComputeError(
                explain(
                    f"sl.scatter for {result.name}",
                    f"the {what} of an update is sl.{item.reducer.name}(...), a reduction",
                    "Give the reduction a stage of its own, and read its elements here.",
                )
            )
    if len(items) != result.ndim:
        count = len(items)
        raise BoundsError(
            explain(
                f"sl.scatter for {result.name}",
                f"an update has {count} ind{'ex' if count == 1 else 'ices'}, but {result.name} of "
                f"shape {shape_text(result.shape)} has {result.ndim} dimension"
                f"{'s' * (result.ndim != 1)}",
                "Return one index for each dimension, as a tuple: lambda k: ((I[k], J[k]), V[k]).",
            )
        )
    return tuple(result[items].indices)


def _condition(where: Any, axes: Sequence[Axis], name: str) -> Expr:
    if not callable(where) or isinstance(where, (Expr, Tensor)):
        raise ComputeTypeError(
            f"sl.scatter for {name}: where= must be a function of the domain's axes, got "
            f"{type(where).__name__}; write e.g. where=lambda k: X[k] > 0"
        )
    cond = as_expr(where(*axes))
    if cond.dtype != "bool":
        raise ComputeTypeError(
            f"sl.scatter for {name}: where= returns {cond.dtype}, but a condition is bool; compare "
            f"it, e.g. {cond} != 0"
        )
    return cond


def _inside(
    cond: Expr | None,
    destination: Sequence[Expr],
    extents: Sequence[Extent],
    axes: Sequence[Axis],
    mode: str | None,
    name: str,
) -> Expr | None:
    """Return ``cond``, under ``mode="drop"`` joined with the test that an index is in bounds."""
    if mode is None:
        return cond
    if mode != "drop":
        raise ComputeError(
            f'sl.scatter for {name}: mode={mode!r} is not known; give mode="drop", which leaves '
            "out updates outside of the result, or clamp the index yourself"
        )
    for index, extent in zip(destination, extents):
        if any(index is a and _whole(a, extent) for a in axes):
            continue
        for test in (index >= 0, index < extent):
            cond = test if cond is None else both(cond, test)
    return cond


def _data_axes(
    extents: Sequence[Extent], destination: Sequence[Expr], axes: Sequence[Axis], init: Any
) -> tuple[tuple[Axis, ...], list[tuple[Axis, Axis]]]:
    """Return the axes of the result, and the axes of the domain that become one of them.

    A domain axis that is itself an index, over the whole dimension, is the data axis there:
    different iterations update different elements, and initialization and updates share its loop.
    """
    function = init if callable(init) and not isinstance(init, (Expr, Tensor)) else None
    labels = axis_names(function, len(extents)) if function is not None else []
    names_taken = {a.name for a in axes}
    data: list[Axis] = []
    change: list[tuple[Axis, Axis]] = []
    for position, (extent, index) in enumerate(zip(extents, destination)):
        shared = next((a for a in axes if a is index), None)
        used = any(old is index for old, _ in change)
        if shared is not None and not used and _whole(shared, extent):
            data.append(Axis(shared.name, extent))
            change.append((shared, data[-1]))
            continue
        label = labels[position] if position < len(labels) else f"i{position}"
        while label in names_taken and position >= len(labels):
            label += "_"
        names_taken.add(label)
        check_name(label, "an axis")
        data.append(Axis(label, extent))
    return tuple(data), change


def _replaced(
    axes: Sequence[Axis], boxed: Sequence[Axis], change: dict[Axis, Axis]
) -> dict[Axis, Axis]:
    """Return what replaces axes of the domain: ``change``, also in the ranges of ragged axes.

    ``boxed`` are ``axes`` with a box each.
    """
    swap = dict(change)
    for old, axis in zip(axes, boxed):
        if old in swap:
            continue
        new = axis
        if axis.bounds is not None:
            low, high = (replace_axes(b, swap) for b in axis.bounds)
            if low is not axis.bounds[0] or high is not axis.bounds[1]:
                new = replace(axis, bounds=(low, high))
        if new is not old:
            swap[old] = swap[axis] = new
    return swap


def _whole(axis: Axis, extent: Extent) -> bool:
    """Return whether ``axis`` runs over a whole dimension; a ragged axis does not."""
    if axis.bounds is not None:
        return False
    return to_lin(axis.lo) == to_lin(0) and to_lin(axis.extent) == to_lin(extent)


def _start(init: Any, data: Sequence[Axis], extents: Sequence[Extent], name: str) -> Any:
    """Return what the elements start from, over the data axes; ``None`` for the identity."""
    if isinstance(init, Tensor):
        if [to_lin(e) for e in init.shape] != [to_lin(e) for e in extents]:
            raise ComputeError(
                f"sl.scatter for {name}: init={init.name} has shape {shape_text(init.shape)}, but "
                f"the result has shape {shape_text(extents)}; give a tensor of that shape, or a "
                "function of the result's axes"
            )
        return init[tuple(data)]
    if callable(init) and not isinstance(init, Expr):
        names = axis_names(init, len(data))
        if len(names) != len(data):
            raise ComputeError(
                f"sl.scatter for {name}: init= takes {len(names)} axes, but the result has "
                f"{len(data)} dimension{'s' * (len(data) != 1)}; give it one parameter for each"
            )
        return init(*data)
    return init


def _combined(
    combine: Any,
    value: Any,
    axes: Sequence[Axis],
    cond: Expr | None,
    start: Any,
    dtype: object,
    name: str,
) -> Reduction:
    """Return the reduction that the updates are, over all axes of the domain."""
    kind = next((k for k, f in _FUNCTIONS.items() if combine is f), combine)
    over = tuple(axes) or (Axis("point", 1, "reduce"),)
    if callable(kind) and not isinstance(kind, (Expr, Tensor, Reducer)):
        if dtype is not None:
            raise ComputeTypeError(
                f"sl.scatter for {name}: dtype= is for sum and prod; cast the value instead, with "
                "sl.cast(value, dtype)"
            )
        try:
            reduced = kind(value, axis=over, where=cond, init=start)
        except TypeError as error:
            # a function of other parameters than a reducer's
            if isinstance(error, SchedlangError):
                raise
            reduced = None
        if isinstance(reduced, Reduction):
            return reduced
    if not isinstance(kind, str) or kind not in COMBINERS:
        other = _OTHERS.get(kind) if isinstance(kind, str) else None
        hint = f"did you mean {other!r}? " if other else ""
        raise ComputeError(
            explain(
                f"sl.scatter for {name}: combine={_short(combine)}",
                "it is not a combiner",
                f"{hint[:1].upper()}{hint[1:]}Give one of {', '.join(COMBINERS)}, or a reducer "
                "made by sl.comm_reducer(fcombine, fidentity).",
            )
        )
    if dtype is not None and kind not in ("sum", "prod"):
        raise ComputeTypeError(
            f"sl.scatter for {name}: dtype= is for sum and prod; for {kind}, cast the value with "
            "sl.cast(value, dtype)"
        )
    if isinstance(value, (tuple, list)):
        raise ComputeTypeError(
            f"sl.scatter for {name}: {kind} combines single values, but the value is a tuple of "
            f"{len(value)}; use a reducer of tuples, sl.comm_reducer(fcombine, fidentity)"
        )
    if kind in ("argmin", "argmax"):
        reduced = getattr(reduce, kind)(value, over, cond)
        if start is not None:
            raise ComputeError(
                f"sl.scatter for {name}: {kind} takes no init=, since it has no value to compare "
                "with; an element without updates is -1"
            )
        return reduced
    if kind in ("any", "all"):
        reduced = truth(kind, value, over, cond)
        return reduction(reduced.reducer, reduced.sources, over, cond, start, 1)
    source = _source(kind, value, dtype, start, name)
    reducer = _last(source.dtype) if kind == "last" else reduce.simple(kind, source.dtype)
    return reduction(reducer, (source,), over, cond, start, 1)


def _source(kind: str, value: Any, dtype: object, start: Any, name: str) -> Expr:
    """Return the value of an update, in the dtype of the result."""
    expr = as_expr(value)
    begin = None if start is None else as_expr(start)
    if dtype is None and begin is not None and not begin.weak:
        weak = expr.weak or dtypes.can_cast(expr.dtype, begin.dtype, "same_kind")
        if not weak:
            raise ComputeTypeError(
                f"sl.scatter for {name}: the value is {expr.dtype}, but init is {begin.dtype}, "
                f"the dtype of the result; cast one of them, e.g. sl.cast(value, {begin.dtype!r})"
            )
        return convert(expr, begin.dtype)
    if kind in ("sum", "prod"):
        return reduce.sum_operand(expr, dtype)
    return source_of(expr, None)


def _last(dtype: str) -> Reducer:
    """Return the combiner that keeps the later of two updates."""
    x, y = Var("x", dtype, weak=False), Var("y", dtype, weak=False)
    zero = const(False if dtype == "bool" else 0, dtype)
    return Reducer("last", (x,), (y,), (y,), (zero,), vouched=True)


def _simplest(op: ComputeOp) -> ComputeOp:
    """Return ``op`` without its destination if that is the element at its axes everywhere.

    It is then a reduction, or a plain computation if it has no reduction axes.
    """
    reducer = op.reducer
    assert reducer is not None and op.destination is not None
    if op.scattered or (op.reduce_axis and reducer.overwrites):
        return op
    if op.reduce_axis:
        return replace(op, destination=None)
    old, body = op.init or reducer.identity, op.body
    if op.init is not None or not (ufunc_of(reducer) or reducer.overwrites):
        values: dict[Expr, Expr] = dict(zip((*reducer.lhs, *reducer.rhs), (*old, *body)))
        memo: dict[int, Expr] = {}
        body = tuple(
            rewrite(r, lambda n: values.get(n) if isinstance(n, Var) else None, memo)
            for r in reducer.result
        )
    if op.where is not None:
        body = tuple(select(op.where, new, was, lazy=True) for new, was in zip(body, old))
    return ComputeOp(op.name, op.axis, body)


def _short(value: Any) -> str:
    text = str(value.name) if isinstance(value, Tensor) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


__all__ = ["COMBINERS", "scatter"]
