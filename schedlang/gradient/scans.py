"""The sites of a recurrence: a second recurrence runs back over the rows that the first stored.

The rows after the first are seen as ordinary stages over all rows, which read the stored states.
Their gradients are ordinary, too, but for one thing: the adjoint of a row of a state needs the
adjoints of later rows. So the stages between the two become the step of a recurrence in reversed
time. All else, such as the gradients of weights, is computed for all rows at once afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedlang.compute.define import define
from schedlang.compute.graph import operations, step_operations
from schedlang.compute.ragged import with_ranges, without_ranges
from schedlang.compute.read import Read
from schedlang.compute.reduce import Reduction
from schedlang.compute.scan import scan
from schedlang.compute.tensor import ComputeOp, Operation, ScanOp, Tensor, placeholder
from schedlang.errors import ComputeError, explain
from schedlang.expr import dtypes
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.expr.visit import rewrite
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.algebra import conjunction, guard_value, plus
from schedlang.gradient.backward import Backward
from schedlang.gradient.ragged import clip_range
from schedlang.gradient.reductions import compute_sites
from schedlang.gradient.simplify import substitute
from schedlang.gradient.site import Site
from schedlang.gradient.stage_sites import Found, Head, Walk
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin


def scan_sites(walk: Walk, op: ScanOp, heads: Sequence[Head]) -> Found:
    """Return the reads of a recurrence by its first rows and its steps, each with its site.

    Raises :class:`~schedlang.errors.ComputeError` for a step whose states are read at a distance
    that varies through other stages.
    """
    rows = _all_rows(op)
    adjoints = _state_adjoints(walk, op, rows, heads)
    reads_of_scan: Found = []
    for init, adjoint in zip(op.init, adjoints):
        if adjoint is not None and walk.active(init):
            own = tuple(Axis(a.name, a.extent) for a in init.op.axis)
            axes = (*own, *walk.batch)
            reads_of_scan.append((init, Site(op.name, init.name, axes, axes, (), adjoint.at(axes))))
    backward = _through_steps(walk, op, rows, adjoints)
    for source in backward.sources():
        if source not in op.outputs and source not in rows.stages:
            reads_of_scan += [(source, site) for site in backward.sites(source)]
    return reads_of_scan


@dataclass(frozen=True)
class _Rows:
    """The step of a recurrence as stages over all rows after the first ones.

    ``tensors`` maps the tensors of the step to those stages, ``order`` lists their operations.
    ``start`` is the number of first rows: row ``u`` of a stage is row ``u + start`` of the states.
    """

    tensors: Mapping[Tensor, Tensor]
    order: tuple[Operation, ...]
    start: int

    @property
    def stages(self) -> set[Tensor]:
        return set(self.tensors.values())


def _all_rows(op: ScanOp) -> _Rows:
    start = to_lin(op.init[0].shape[0]).const
    assert start is not None
    count = op.scan_axis.extent
    stored: dict[Tensor, Tensor] = dict(zip(op.state, op.outputs))
    inside = {*step_operations(op), *(t.op for t in op.update)}
    tensors: dict[Tensor, Tensor] = {}
    order: list[Operation] = []
    for step in operations(op.update):
        if step not in inside:
            continue
        assert isinstance(step, ComputeOp)
        row = Axis(step.axis[0].name, count)
        rest = [Axis(a.name, a.extent) for a in step.axis[1:]]
        at = {step.axis[0]: Lin.of(row) + start, **dict(zip(step.axis[1:], map(Lin.of, rest)))}

        def moved(read: Read, indices: tuple[Expr, ...], own: Expr = row) -> Expr:
            if read.tensor in tensors:
                return tensors[read.tensor](own, *indices[1:])
            return stored.get(read.tensor, read.tensor)[indices]

        outputs = _copy(step, f"{step.name}.rows", (row, *rest), at, moved)
        tensors.update(zip(step.outputs, outputs))
        order.append(outputs[0].op)
    return _Rows(tensors, tuple(order), start)


def _copy(
    op: ComputeOp,
    name: str,
    axes: tuple[Axis, ...],
    at: Mapping[Axis, Lin],
    moved: Any,
    held: Sequence[Expr] = (),
    ranges: Ranges | None = None,
    first: Mapping[Axis, int] | None = None,
) -> list[Tensor]:
    """Return the outputs of a copy of ``op`` over other axes.

    ``at`` gives the value of its data axes. ``moved`` returns what stands in place of a read at new
    indices. Where ``held`` do not hold, its value is 0, or the value of an empty reduction. Points
    of an axis before its ``first`` one are not computed.
    """
    values = dict(at)
    facts = Ranges() if ranges is None else ranges

    def value(root: Expr) -> Expr:
        moved_root = substitute(root, values, facts)
        return rewrite(moved_root, lambda n: moved(n, n.indices) if isinstance(n, Read) else None)

    condition = conjunction(held)
    reduced = []
    for axis in op.reduce_axis:
        own = Axis(axis.name, axis.extent, "reduce", axis.lo)
        if axis.bounds is not None and condition is None:
            low, high = (value(b) if isinstance(b, Expr) else b for b in axis.bounds)
            own = clip_range(axis, low, high)
        reduced.append(own)
        values[axis] = Lin.of(own)
    if op.reducer is None:
        bodies = [value(root) for root in op.body]
        outputs = define(
            name,
            axes,
            tuple(b if condition is None else guard_value([condition], b) for b in bodies),
            first,
        )
    else:
        # under conditions, the ends of ranges may be out of bounds: they are tested afterwards
        count = 0 if condition is not None else len(op.limits)
        rest = without_ranges(op.where, count)
        where = None if rest is None else value(rest)
        if condition is not None:
            where = condition if where is None else both(condition, where)
        where, limits = with_ranges(reduced, where)
        init = None if op.init is None else tuple(value(root) for root in op.init)
        sources = tuple(value(root) for root in op.body)
        outputs = define(
            name,
            axes,
            Reduction(op.reducer, sources, tuple(reduced), where, init, len(op.outputs), limits),
            first,
        )
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def _through_steps(
    walk: Walk, op: ScanOp, rows: _Rows, adjoints: Sequence[Adjoint | None]
) -> Backward:
    """Return the walk back through all rows of the step, given the adjoints of the states."""
    seeds: dict[Tensor, Adjoint] = {}
    for update, adjoint in zip(op.update, adjoints):
        if adjoint is None:
            continue
        tensor = rows.tensors[update]
        own = tuple(Axis(a.name, a.extent) for a in (*tensor.op.axis, *walk.batch))
        seeds[tensor] = Adjoint(axes=own, value=adjoint.at((own[0] + rows.start, *own[1:])))
    active: set[Tensor] = set()
    for step in rows.order:
        if any(walk.active(t) or t in active for t in step.input_tensors):
            assert isinstance(step, ComputeOp)
            active.update(step.outputs)

    def is_active(tensor: Tensor) -> bool:
        return tensor in active or walk.active(tensor)

    stored = {rows.tensors[update]: state for update, state in zip(op.update, op.outputs)}

    def in_state(node: Expr) -> Expr | None:
        """Return the row of a state that holds what an update computes."""
        if not isinstance(node, Read) or node.tensor not in stored:
            return None
        row, *rest = node.indices
        return stored[node.tensor](to_expr(to_lin(row) + rows.start), *rest)

    def sites_of(inner: Walk, step: Operation, heads: Sequence[Head]) -> Found:
        assert isinstance(step, ComputeOp)
        flows: Found = []
        for source, site in compute_sites(inner, step, heads):
            if isinstance(site, Site):
                held, chosen = (
                    tuple(rewrite(cond, in_state) for cond in conditions)
                    for conditions in (site.held, site.chosen)
                )
                value = rewrite(site.value, in_state)
                site = replace(site, held=held, value=value, chosen=chosen)
            flows.append((source, site))
        return flows

    backward = Backward(replace(walk, active=is_active), seeds, sites_of)
    backward.run(rows.order)
    return backward


def _state_adjoints(
    walk: Walk, op: ScanOp, rows: _Rows, heads: Sequence[Head]
) -> list[Adjoint | None]:
    """Return the adjoint of each state: of all its rows, with what later rows add."""
    batch = walk.batch
    count = len(op.state)
    floats = [dtypes.is_float(state.dtype) for state in op.state]
    later = [
        placeholder((*s.shape, *(a.extent for a in batch)), s.dtype, f"{s.name}_later")
        if is_float
        else None
        for s, is_float in zip(op.state, floats)
    ]
    template = [None if t is None else Adjoint(tensor=t) for t in later]
    inner = replace(walk, by_row=True)
    backward = _through_steps(inner, op, rows, template)
    back = [backward.adjoint(tensor) for tensor in op.outputs]
    own = [h if isinstance(h, Adjoint) else None for h in heads]
    feeds = [isinstance(b, Adjoint) and not isinstance(b.value, Const) for b in back]
    if not any(feeds):
        return own
    reverse = _Reverse(op, rows, [t for t in later if t is not None], batch)
    float_states = [k for k in range(count) if floats[k]]
    updates, inits = [], []
    for k in float_states:
        head, feed = own[k], back[k] if feeds[k] else None
        updates.append(reverse.update(k, head, feed if isinstance(feed, Adjoint) else None))
        inits.append(reverse.first(k, head))
    scanned = scan(
        inits, updates, [reverse.states[k] for k in float_states], name=f"{op.name}_grad.back"
    )
    listed = scanned if isinstance(scanned, list) else [scanned]
    results: list[Adjoint | None] = [None] * count
    for k, tensor in zip(float_states, listed):
        axes = tuple(Axis(f"i{n}", e) for n, e in enumerate(tensor.shape))
        last = to_expr(to_lin(tensor.shape[0]) - 1 - Lin.of(axes[0]))
        results[k] = Adjoint(axes=axes, value=tensor(last, *axes[1:]))
    return results


@dataclass
class _Reverse:
    """The stages of a recurrence in reversed time: row ``t`` is row ``rows - 1 - t`` of the first.

    ``later`` are the placeholders that stand for the adjoints of the states in stages over all
    rows; in the recurrence, ``states`` take their place.
    """

    op: ScanOp
    rows: _Rows
    later: Sequence[Tensor]
    batch: Sequence[Axis]
    states: list[Tensor] = field(init=False)
    length: Lin = field(init=False)
    copies: dict[Any, list[Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.length = to_lin(self.op.state[0].shape[0])
        floats = iter(self.later)
        self.states = []
        for state in self.op.state:
            shape = (*state.shape, *(a.extent for a in self.batch))
            dtype = state.dtype
            if dtypes.is_float(dtype):
                next(floats)
            self.states.append(placeholder(shape, dtype, f"{state.name}_grad.back"))
        float_states = [s for s in self.states if dtypes.is_float(s.dtype)]
        self._state_of = dict(zip(self.later, float_states))

    def first(self, k: int, head: Adjoint | None) -> Tensor:
        """Return the first row: the adjoint of the last row of the state."""
        state = self.states[k]
        axes = (Axis("t", 1), *self._data_axes(k))
        last = to_expr(self.length - 1)
        value = (head or Adjoint.zero(state.dtype)).at((last, *axes[1:]))
        return define(f"{state.name}.first", axes, value)

    def update(self, k: int, head: Adjoint | None, back: Adjoint | None) -> Tensor:
        """Return the other rows: the adjoint of a row, and what the rows after it add."""
        state = self.states[k]
        rest = self._data_axes(k)
        time = Axis("t", state.shape[0])
        row = self.length - 1 - Lin.of(time)
        value = (head or Adjoint.zero(state.dtype)).at((to_expr(row), *rest))
        if back is not None:
            added = self._added(back, row, rest, time)
            moved = rewrite(
                added,
                lambda n: self._moved(n, n.indices, time) if isinstance(n, Read) else None,
            )
            value = plus(value, moved)
        return define(f"{state.name}.step", (time, *rest), value, {time: 1})

    def _data_axes(self, k: int) -> tuple[Axis, ...]:
        own = self.op.update[k].op.axis[1:]
        return tuple(Axis(axis.name, axis.extent) for axis in (*own, *self.batch))

    def _added(self, back: Adjoint, row: Lin, rest: Sequence[Axis], time: Axis) -> Expr:
        """Return what later rows add to ``row``; a stage that only collects is not kept."""
        op = None if back.tensor is None else back.tensor.op
        if not isinstance(op, ComputeOp) or op.reducer is not None or len(op.outputs) > 1:
            return back.at((to_expr(row), *rest))
        ranges = Ranges({time: (Lin.of(1), self.length - 1)})
        at = dict(zip(op.axis, (row, *map(Lin.of, rest))))
        return substitute(op.body[0], at, ranges)

    def _moved(self, read: Read, indices: tuple[Expr, ...], time: Axis) -> Expr:
        """Return what a stage of the step reads in place of ``read``, in row ``time``."""
        if read.tensor in self._state_of:
            row = self.length - 1 - to_lin(indices[0])
            return self._state_of[read.tensor](to_expr(row), *indices[1:])
        if not self._depends(read.tensor):
            return read.tensor[indices]
        row = to_lin(indices[0])
        offset = row + Lin.of(time)
        if offset.depends_on({time}) or any(isinstance(a, Axis) for a in offset.leaves()):
            raise ComputeError(
                explain(
                    f"sl.gradient through scan {self.op.name}",
                    f"its steps read rows at a distance that varies, {read}, through other stages",
                    "Make the stage in between a state of the scan.",
                )
            )
        copy = self._copied(read.tensor, offset)
        return copy(time, *indices[1:])

    def _copied(self, tensor: Tensor, offset: Lin) -> Tensor:
        """Return a stage whose row ``t`` is row ``offset - t`` of ``tensor``."""
        op = tensor.op
        assert isinstance(op, ComputeOp)
        key = (op, offset)
        if key not in self.copies:
            time = Axis("t", self.states[0].shape[0])
            rest = tuple(Axis(a.name, a.extent) for a in op.axis[1:])
            row = offset - Lin.of(time)
            # row 0 is not computed by the step
            ranges = Ranges({time: (Lin.of(1), self.length - 1)})
            tests = []
            if not ranges.nonneg(row):
                tests.append(Binary(">=", to_expr(row), to_expr(Lin.of(0)), "bool"))
            if not ranges.nonneg(to_lin(op.axis[0].extent) - 1 - row):
                extent = to_expr(to_lin(op.axis[0].extent))
                tests.append(Binary("<", to_expr(row), extent, "bool"))
            at = {op.axis[0]: row, **dict(zip(op.axis[1:], map(Lin.of, rest)))}
            number = sum(1 for source, _ in self.copies if source is op)
            suffix = str(number + 1) if number else ""
            self.copies[key] = _copy(
                op,
                f"{op.name}.back{suffix}",
                (time, *rest),
                at,
                lambda read, indices: self._moved(read, indices, time),
                tests,
                ranges,
                {time: 1},
            )
        return self.copies[key][tensor.value_index]

    def _depends(self, tensor: Tensor) -> bool:
        """Return whether a tensor depends on the adjoints of later rows."""
        ends = {later.op for later in self.later}
        return any(op in ends for op in operations([tensor]))
