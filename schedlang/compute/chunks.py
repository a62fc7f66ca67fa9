"""The evaluation of one operation by NumPy, in chunks that keep every temporary small.

Each axis of the operation is one dimension of the arrays (reduction axes first). The value of an
expression has extent 1 along the axes that it does not use, and broadcasts. A read whose indices
are affine in the axes is a strided view.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from schedlang.compute.fold import ACCUMULATORS, Masked, combine_kept, contraction, fold, ufunc_of
from schedlang.compute.joint import alone
from schedlang.compute.places import Places, update
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Tensor, shape_text
from schedlang.errors import BoundsError, explain
from schedlang.expr import dtypes
from schedlang.expr.bfloat import convert_values, holding_dtype
from schedlang.expr.evaluate import Program, evaluate, plan
from schedlang.expr.evaluation_order import around_uses, under
from schedlang.expr.nodes import Axis, Binary, Const, Expr, Select, Var
from schedlang.expr.visit import axes_in, postorder
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin

# a chunk of 2**18 elements stays in the L2 cache; an operand of 2**21 doubles takes 16 MiB
CHUNK = 2**18
OPERAND = 2**21

Span = tuple[int, int]
Box = tuple[Span, ...]
Sizes = Mapping[Var, Any]
Arrays = Mapping[Tensor, np.ndarray]
Index = tuple[int, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Prepared:
    """An operation prepared for evaluation at given sizes.

    ``affine`` maps the ``id`` of a read to its indices as ``offset + sum(coef * axis)``, with axes
    by position. ``guards`` maps the ``id`` of a node to the condition under which it is needed.
    ``factors`` are the two sides of a product that is summed. ``parts`` are the reductions of a
    joint one, each evaluated by itself, with the positions of its outputs.
    """

    op: ComputeOp
    sizes: Sizes
    axes: tuple[Axis, ...]
    spans: Box
    affine: Mapping[int, tuple[Index, ...]]
    guards: Mapping[int, Expr | None]
    program: Program
    init: Program | None
    factors: Program | None
    ufunc: Any
    parts: tuple[tuple[Prepared, tuple[int, ...]], ...] = ()

    @property
    def folded(self) -> int:
        """The number of reduction axes."""
        return len(self.op.reduce_axis)


def extent_of(value: int | Expr, sizes: Sizes) -> int:
    """Return the value of an extent."""
    return value if isinstance(value, int) else int(evaluate(value, sizes))


def prepare(op: ComputeOp, sizes: Sizes) -> Prepared:
    """Return ``op`` prepared for evaluation at the given sizes."""
    axes = (*op.reduce_axis, *op.axis)
    spans = []
    for axis in axes:
        lo = extent_of(axis.lo, sizes)
        spans.append((lo, lo + max(extent_of(axis.extent, sizes), 0)))
    position = {axis: k for k, axis in enumerate(axes)}
    affine: dict[int, tuple[Index, ...]] = {}
    order = postorder(op.roots)
    for node in order:
        if isinstance(node, Read):
            indices = [_affine(to_lin(i), position, sizes) for i in node.indices]
            if None not in indices:
                affine[id(node)] = tuple(indices)  # type: ignore[arg-type]

    def program(roots: Sequence[Expr]) -> Program:
        return plan(roots, lambda node: id(node) in affine)

    parts = () if op.reducer is None else op.reducer.parts
    own = tuple((prepare(alone(op, part), sizes), part.places) for part in parts)
    where = () if op.where is None else (op.where,)
    ufunc = None if op.reducer is None else ufunc_of(op.reducer)
    factors = None
    product = ufunc is np.add and op.where is None and op.destination is None
    if product and _is_product(op.body[0], len(axes)):
        factors = program(op.body[0].children)
    init = program(op.init) if op.init else None
    return Prepared(
        op,
        sizes,
        axes,
        tuple(spans),
        affine,
        guards(op, order),
        program((*op.updates, *where)),
        init,
        factors,
        ufunc,
        own,
    )


def _affine(lin: Lin, position: Mapping[Any, int], sizes: Sizes) -> Index | None:
    offset = 0
    coefs: dict[int, int] = {}
    for product, coef in lin.terms.items():
        axis = None
        for atom in product:
            if isinstance(atom, Var):
                coef *= int(sizes[atom])
            elif isinstance(atom, Axis) and axis is None:
                axis = position[atom]
            else:
                return None
        if axis is None:
            offset += coef
        else:
            coefs[axis] = coefs.get(axis, 0) + coef
    return offset, tuple(coefs.items())


def _is_product(body: Expr, ndim: int) -> bool:
    """Return whether ``body`` is a product of floats whose sides both lack an axis."""
    if not isinstance(body, Binary) or body.op != "*" or not dtypes.is_float(body.dtype):
        return False
    return all(len(axes_in([side])) < ndim for side in body.children)


def execute(
    stage: Prepared, arrays: Arrays, outs: Sequence[np.ndarray], first: Span | None = None
) -> None:
    """Write the elements of ``stage`` into ``outs``; only the rows of ``first`` if it is given."""
    if stage.parts:
        for part, places in stage.parts:
            execute(part, arrays, [outs[k] for k in places], first)
        return
    data = stage.spans[stage.folded :]
    if first is not None:
        data = (first, *data[1:])
    spans = (*stage.spans[: stage.folded], *data)
    lengths = [stop - start for start, stop in spans]
    if not all(lengths[stage.folded :]) and stage.op.destination is None:
        return
    with np.errstate(all="ignore"):
        if stage.op.destination is not None:
            _scatter(stage, arrays, outs, spans)
        elif stage.op.reducer is None:
            _elementwise(stage, arrays, outs, data, lengths)
        elif stage.ufunc is not None:
            _reduce_by_ufunc(stage, arrays, outs, spans, lengths)
        else:
            _reduce_by_combiner(stage, arrays, outs, spans, lengths)


def _elementwise(
    stage: Prepared, arrays: Arrays, outs: Sequence[np.ndarray], data: Box, lengths: list[int]
) -> None:
    steps = shrink(lengths, [range(len(lengths))], _budget(stage.program))
    for box in boxes(data, steps):
        values = _run(stage, stage.program, arrays, box)
        for out, value in zip(outs, values):
            out[_slices(box)] = value


def _reduce_by_ufunc(
    stage: Prepared, arrays: Arrays, outs: Sequence[np.ndarray], spans: Box, lengths: list[int]
) -> None:
    dims = range(len(lengths))
    steps = shrink(lengths, [dims], _budget(stage.program))
    wide = steps
    if stage.factors is not None:
        groups = [
            [k for k in dims if stage.axes[k] in set(axes_in([side]))]
            for side in stage.factors.roots
        ]
        limit = min(OPERAND, max(2**23 // stage.factors.peak, 256))
        wide = shrink(lengths, [*groups, dims[stage.folded :]], limit)
    for outer in boxes(spans[stage.folded :], wide[stage.folded :]):
        total = _start(stage, arrays, outer)[0]
        for inner in boxes(spans[: stage.folded], wide[: stage.folded]):
            box = (*inner, *outer)
            part = _product(stage, arrays, box)
            if part is not None:
                total += part
                continue
            for piece in boxes(box, steps):
                view = total[_slices(piece[stage.folded :], outer)]
                stage.ufunc(view, _partial(stage, arrays, piece), out=view)
        outs[0][_slices(outer)] = convert_values(total, stage.op.body[0].dtype)


def _partial(stage: Prepared, arrays: Arrays, box: Box) -> np.ndarray:
    value, *mask = _sources(stage, arrays, box)
    if mask:
        (unit,) = stage.op.combiner.identity
        value = np.where(mask[0], value, convert_values(unit.value, unit.dtype))
    own = stage.op.body[0].dtype
    kind = None if stage.ufunc in (np.minimum, np.maximum) else ACCUMULATORS.get(own, own)
    return stage.ufunc.reduce(value, axis=tuple(range(stage.folded)), dtype=kind)


def _product(stage: Prepared, arrays: Arrays, box: Box) -> np.ndarray | None:
    """Return the sum of a product over ``box`` as a matrix product, if that is as accurate."""
    if stage.factors is None:
        return None
    a, b = _run(stage, stage.factors, arrays, box)
    lengths = [stop - start for start, stop in box]
    return contraction(a, b, lengths, stage.folded, stage.op.body[0].dtype)


def _reduce_by_combiner(
    stage: Prepared, arrays: Arrays, outs: Sequence[np.ndarray], spans: Box, lengths: list[int]
) -> None:
    budget = _budget(stage.program)
    steps = _row_major(lengths, stage.folded, budget)
    for outer in boxes(spans[stage.folded :], steps[stage.folded :]):
        total = Masked(_start(stage, arrays, outer))
        for inner in boxes(spans[: stage.folded], steps[: stage.folded]):
            parts = _sources(stage, arrays, (*inner, *outer))
            shape = [stop - start for start, stop in outer]
            flat = [
                np.broadcast_to(p, (*p.shape[: stage.folded], *shape)).reshape(-1, *shape)
                for p in parts
            ]
            mask = None if stage.op.where is None else flat.pop()
            rows = fold(stage.op.combiner, Masked(tuple(flat), mask))
            total = combine_kept(stage.op.combiner, total, rows)
            # the start is always kept
            total = Masked(total.parts)
        for out, value in zip(outs, total.parts):
            out[_slices(outer)] = value


def _scatter(stage: Prepared, arrays: Arrays, outs: Sequence[np.ndarray], spans: Box) -> None:
    """Evaluate a scatter: the initial values, then the updates in the order of the domain."""
    op, reducer = stage.op, stage.op.combiner
    assert op.destination is not None
    whole = spans[stage.folded :]
    rows = _slices(whole)
    # an axis that the updates do not loop over has one iteration in them
    moved = [any(a is b for b in op.domain) for a in op.axis]
    data = tuple(span if own else (0, 1) for span, own in zip(whole, moved))
    box = (*spans[: stage.folded], *data)
    lengths = [stop - start for start, stop in box]
    if not all(stop > start for start, stop in whole):
        totals = tuple(np.zeros([stop - start for start, stop in whole], o.dtype) for o in outs)
    else:
        totals = tuple(np.array(v, order="C") for v in _start(stage, arrays, whole))
    if all(lengths):
        places = Places(op, tuple(start for start, _ in whole), totals[0].shape)
        steps = _row_major(lengths, stage.folded, _budget(stage.program))
        for piece in boxes(box, steps):
            shape = [stop - start for start, stop in piece]
            evaluated = _run(stage, stage.program, arrays, piece)
            wide = [np.broadcast_to(v, shape).ravel() for v in evaluated]
            rank, mask = len(op.axis), wide[-1] if op.where is not None else None
            values = wide[rank : rank + len(op.body)]
            at, values = places.checked(wide[:rank], values, mask)
            update(reducer, totals, at, values)
    for out, value in zip(outs, totals):
        out[rows] = value


def _row_major(lengths: list[int], folded: int, budget: int) -> list[int]:
    """Return chunk lengths that make the chunks visit the reduction axes in row-major order."""
    data = math.prod(lengths[folded:])
    room = max(budget // data, 1024)
    steps = [1] * folded
    for k in reversed(range(folded)):
        steps[k] = max(1, min(lengths[k], room))
        if steps[k] < lengths[k]:
            break
        room //= steps[k]
    left = max(1, budget // max(math.prod(steps), 1))
    return steps + shrink(lengths[folded:], [range(len(lengths) - folded)], left)


def _start(stage: Prepared, arrays: Arrays, outer: Box) -> tuple[np.ndarray, ...]:
    """Return the initial values of a reduction, for one chunk of data."""
    reducer = stage.op.combiner
    shape = [stop - start for start, stop in outer]
    unit = ((0, 1),) * stage.folded
    first: Sequence[Any] = [np.asarray(convert_values(c.value, c.dtype)) for c in reducer.identity]
    if stage.init is not None:
        first = [
            np.reshape(v, np.shape(v)[stage.folded :])
            for v in _run(stage, stage.init, arrays, (*unit, *outer))
        ]
    kinds = [s.dtype for s in stage.op.body]
    if stage.ufunc in (np.add, np.multiply):
        kinds = [ACCUMULATORS.get(k, k) for k in kinds]
    return tuple(np.broadcast_to(v, shape).astype(holding_dtype(k)) for v, k in zip(first, kinds))


def _sources(stage: Prepared, arrays: Arrays, box: Box) -> list[np.ndarray]:
    """Return the values to reduce, broadcast to ``box`` along the reduction axes.

    The condition ``where`` is the last, if there is one.
    """
    folded = [stop - start for start, stop in box[: stage.folded]]
    full = []
    for value in _run(stage, stage.program, arrays, box):
        shape = np.shape(value) or (1,) * len(box)
        full.append(np.broadcast_to(value, (*folded, *shape[stage.folded :])))
    return full


def _budget(program: Program) -> int:
    """Return the most elements of a chunk, so that all live temporaries fit in 64 MiB."""
    return min(CHUNK, max(2**23 // max(program.peak, 1), 256))


def shrink(lengths: Sequence[int], groups: Sequence[Sequence[int]], limit: int) -> list[int]:
    """Return chunk lengths whose product over each group of axes is at most ``limit``."""
    steps = [max(1, n) for n in lengths]
    for group in groups:
        while math.prod(steps[k] for k in group) > limit:
            # keep rows long: the last axis is contiguous in most arrays
            widest = max(group, key=lambda k: steps[k] // (8 if k == len(steps) - 1 else 1))
            if steps[widest] == 1:
                widest = max(group, key=lambda k: steps[k])
            steps[widest] = -(-steps[widest] // 2)
    return steps


def boxes(spans: Box, steps: Sequence[int]) -> Iterator[Box]:
    """Return an iterator over boxes of at most ``steps`` that cover ``spans``, row-major."""
    cuts = [
        [(at, min(at + step, stop)) for at in range(start, stop, step)]
        for (start, stop), step in zip(spans, steps)
    ]
    return itertools.product(*cuts)


def _slices(box: Box, base: Box | None = None) -> tuple[Any, ...]:
    starts = [0] * len(box) if base is None else [start for start, _ in base]
    return (*(slice(a - s, b - s) for (a, b), s in zip(box, starts)), Ellipsis)


def _run(stage: Prepared, program: Program, arrays: Arrays, box: Box) -> tuple[Any, ...]:
    values: dict[Any, Any] = dict(stage.sizes)
    for k, (axis, (start, stop)) in enumerate(zip(stage.axes, box)):
        shape = [1] * len(box)
        shape[k] = stop - start
        values[axis] = np.arange(start, stop).reshape(shape)

    def read(node: Read, indices: tuple[Any, ...]) -> Any:
        array = arrays[node.tensor]
        affine = stage.affine.get(id(node))
        if affine is None:
            if all(inside(i, n) for i, n in zip(indices, array.shape)):
                return array[indices]
        else:
            view = _view(array, affine, box)
            if view is not None:
                return view
            indices = tuple(evaluate(i, values) for i in node.indices)
        outside.append((node, indices))
        return read_clipped(array, indices)

    outside: list[tuple[Read, tuple[Any, ...]]] = []
    results = program.run(values, read)
    if outside:
        check_guards(stage, outside, values, arrays)
    return results


def _view(array: np.ndarray, affine: tuple[Index, ...], box: Box) -> np.ndarray | None:
    """Return the elements at affine indices over ``box``; ``None`` if one is out of bounds."""
    shape, strides, corner = [1] * len(box), [0] * len(box), []
    for (offset, coefs), size, stride in zip(affine, array.shape, array.strides):
        low = high = first = offset
        for axis, coef in coefs:
            start, stop = box[axis]
            first += coef * start
            low += coef * (start if coef > 0 else stop - 1)
            high += coef * (stop - 1 if coef > 0 else start)
            shape[axis] = stop - start
            strides[axis] += coef * stride
        if low < 0 or high >= size:
            return None
        corner.append(first)
    start_at: Any = (*corner, Ellipsis)
    return as_strided(array[start_at], shape, strides, writeable=False)


def inside(index: Any, size: int) -> bool:
    """Return whether all of ``index`` are in ``0..size``; there may be none."""
    return not np.size(index) or (np.min(index) >= 0 and np.max(index) < size)


def check_guards(
    stage: Prepared,
    outside: Sequence[tuple[Read, tuple[Any, ...]]],
    values: Mapping[Any, Any],
    arrays: Arrays,
) -> None:
    """Raise for reads with indices that are out of bounds and not under a false guard."""
    # a probe is a read whose only index is the guard, so that one pass evaluates all guards
    probes = []
    for node, _ in outside:
        guard = stage.guards.get(id(node))
        live = Const(True, "bool") if guard is None else guard
        probes.append(Read(node.tensor, (live,), node.dtype))
    suspects = {id(probe): suspect for probe, suspect in zip(probes, outside)}

    def read(node: Read, at: tuple[Any, ...]) -> Any:
        suspect_read = suspects.get(id(node))
        if suspect_read is None:
            return read_clipped(arrays[node.tensor], at)
        _refuse_outside(stage.op, *suspect_read, arrays[node.tensor].shape, at[0])
        return None

    plan(probes).run(values, read)


def _refuse_outside(
    op: ComputeOp, node: Read, indices: tuple[Any, ...], shape: tuple[int, ...], live: Any
) -> None:
    for position, (index, size) in enumerate(zip(indices, shape)):
        wrong = np.logical_and(
            live, np.logical_or(np.less(index, 0), np.greater_equal(index, size))
        )
        if np.any(wrong):
            value = np.broadcast_to(index, np.shape(wrong))[wrong].flat[0]
            raise BoundsError(
                explain(
                    f"{op.name} reads {node}",
                    f"index {position} is {value}, but {node.tensor.name} of shape "
                    f"{shape_text(shape)} has extent {size} there",
                    "Correct the index, or guard the read with sl.if_then_else(cond, ..., ...).",
                )
            )


def read_clipped(array: np.ndarray, indices: tuple[Any, ...]) -> Any:
    if not array.size:
        return np.zeros((), array.dtype)[()]
    return array[tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, array.shape))]


def guards(op: ComputeOp, order: Sequence[Expr]) -> dict[int, Expr | None]:
    """Return the condition under which each node, by ``id``, is needed (``None``: always)."""
    if op.where is None and not any(isinstance(node, Select) and node.lazy for node in order):
        return {}
    conditions: dict[int, Expr | None] = {id(root): op.where for root in op.updates}
    conditions.update({id(root): None for root in op.roots[len(op.updates) :]})
    return around_uses(order, conditions, _in_branch, _either)


def _in_branch(around: Expr | None, cond: Expr, holds: bool) -> Expr:
    (test,) = under((), cond, holds)
    return test if around is None else Binary("&", around, test, "bool")


def _either(a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None:
        return None
    return a if a is b else Binary("|", a, b, "bool")
