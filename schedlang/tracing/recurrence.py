"""A loop as a scan: each iteration is a row, which the stages of the body compute from the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.stages import axis_names, data_axes, each, read
from schedlang.compute.define import define, finish
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import operations
from schedlang.compute.read import Read
from schedlang.compute.scan import scan
from schedlang.compute.tensor import ComputeOp, Extent, Operation, ScanOp, Tensor, placeholder
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.simplify import simplify
from schedlang.language.construct import settle
from schedlang.tracing.spans import likely
from schedlang.tracing.trace import HostLoop, LoopRule, Value

# the most points that the stages of a body compute in an iteration of a scan; beyond it, a kernel
# call costs little beside its work, and steps of a scan lack some schedules
MOST_POINTS = 2**18
# the most points in all iterations of a scan that elements may end: on the host, the iterations
# after the last one cost nothing
MOST_POINTS_STOPPED = 2**20
# an iteration of so few points takes less time than a call of its kernel
LITTLE_POINTS = 2**10
# the most elements of the stages that depend on the index alone, computed for all iterations at
# once
MOST_ELEMENTS = 2**22


def host_reason(loop: HostLoop, rule: LoopRule) -> str:
    """Return why a loop runs on the host instead of as a scan; "" if it becomes a scan."""
    if loop.body.loops:
        return "its body has a loop on the host"
    if likely(loop.hi) is None:
        return "its range depends on the index of a loop around it"
    ops = _operations(loop)
    for op in ops:
        if isinstance(op, ScanOp):
            return f"its body has the recurrence {op.name}"
        if isinstance(op, ExternOp):
            return f"its body calls {op.function.name}"
        axes = (*op.axis, *op.reduce_axis) if isinstance(op, ComputeOp) else ()
        extents = [a.extent for a in axes if isinstance(a.extent, Expr)]
        if any(node is loop.index for node in postorder(extents)):
            return f"the shape of {op.name} depends on its index"
        if isinstance(op, ComputeOp):
            if op.destination is not None:
                return f"its body has the scatter {op.name}"
            if any(a.bounds is not None for a in op.reduce_axis):
                return f"its body has the ragged reduction {op.name}"
    if rule.limited and (reason := much_work(loop)):
        return reason
    if rule.host and not ends_early(rule) and (reason := _much_work_after_its_end(loop)):
        return reason
    _, indexed = dependences(loop, ops)
    rows = likely(loop.hi - loop.lo) or 0
    elements = sum(rows * prod(map(_likely, op.shape)) for op in indexed)
    if rule.host and elements > MOST_ELEMENTS:
        return (
            f"what depends on its index alone has {elements:,} elements in all iterations, more "
            f"than {MOST_ELEMENTS:,}"
        )
    return ""


def ends_early(rule: LoopRule) -> bool:
    """Return whether no iteration runs after the end of a loop that elements end.

    Otherwise the loop may become a scan, which runs them and masks what they compute.
    """
    return rule.host and rule.limited


def much_work(loop: HostLoop) -> str:
    """Return how much work an iteration is, if a call of a kernel costs little beside it."""
    points = sum(map(_points, _operations(loop)))
    if points <= MOST_POINTS:
        return ""
    return (
        f"each iteration computes {points:,} elements and terms of sums, more than {MOST_POINTS:,}"
    )


def _much_work_after_its_end(loop: HostLoop) -> str:
    """Return how much work a loop that elements may end is, if it is worth to end it."""
    rows = likely(loop.hi - loop.lo) if loop.stops else None
    points = (rows or 0) * sum(map(_points, _operations(loop)))
    if points <= MOST_POINTS_STOPPED:
        return ""
    return f"elements may end it before {points:,} elements and terms of sums are computed"


def little_work(loop: HostLoop) -> bool:
    """Return whether an iteration is so little work that the calls of its kernels take longer."""
    ops = _operations(loop)
    if any(isinstance(op, ExternOp) for op in ops):
        return False
    # numbers alone cost nothing, and a size that only a call knows may be much
    numbers = not any(isinstance(op, ComputeOp) for op in ops)
    return numbers or 0 < sum(map(_points, ops)) <= LITTLE_POINTS


def dependences(loop: HostLoop, ops: Sequence[Operation]) -> tuple[set[Tensor], list[ComputeOp]]:
    """Return the tensors that depend on a carry, and the operations that depend on the index alone.

    ``ops`` come in their order of computation.
    """
    moving = [c for c in loop.carries if not same_value(c.leaving, c.entering)]
    carried: set[Tensor] = {c.entering for c in moving}
    indexed: list[ComputeOp] = []
    by_index: set[Tensor] = set()
    for op in ops:
        if not isinstance(op, ComputeOp):
            continue
        inputs = set(op.input_tensors)
        if inputs & carried:
            carried.update(op.outputs)
        elif inputs & by_index or any(node is loop.index for node in postorder(op.roots)):
            indexed.append(op)
            by_index.update(op.outputs)
    return carried, indexed


def _operations(loop: HostLoop) -> list[Operation]:
    leaving = [v for v in _leaving(loop) if isinstance(v, Tensor)]
    return operations(leaving)


def _leaving(loop: HostLoop) -> list[Value]:
    """Return the values after an iteration, the tensors of an expression among them."""
    values: list[Value] = []
    for carry in loop.carries:
        if isinstance(carry.leaving, Tensor):
            values.append(carry.leaving)
        else:
            nodes = postorder([carry.leaving])
            values += [node.tensor for node in nodes if isinstance(node, Read)]
    return values


def _points(op: Operation) -> int:
    """Return how many values an operation computes, 0 for sizes that only a call knows."""
    if not isinstance(op, ComputeOp):
        return 0
    return prod(likely(a.extent) or 0 for a in (*op.axis, *op.reduce_axis))


def _likely(extent: Extent) -> int:
    size = likely(extent)
    return 1 if size is None else size


def recurrence(loop: HostLoop) -> list[Tensor]:
    """Return the values of the carries after a loop for which :func:`host_reason` returns "".

    Row 0 of each state is the value before the loop, and row ``k`` the value after ``k``
    iterations.
    """
    fixed = [same_value(c.leaving, c.entering) for c in loop.carries]
    moving = [c for c, same in zip(loop.carries, fixed) if not same]
    rows = loop.hi - loop.lo + 1
    if not isinstance(rows, int):
        rows = simplify(rows)
    values: dict[Tensor, Value] = {t: v for v, t in loop.read}
    values |= {c.entering: c.start for c, same in zip(loop.carries, fixed) if same}
    name = automatic_name("loop")
    states = [
        placeholder((rows, *c.entering.shape), c.entering.dtype, name=f"{name}.state{k}")
        for k, c in enumerate(moving)
    ]
    carried, indexed = dependences(loop, _operations(loop))
    body = Body(
        loop.index,
        max(loop.lo, 0),
        rows,
        values,
        dict(zip((c.entering for c in moving), states)),
        frozenset(carried),
        frozenset(t for op in indexed for t in op.outputs),
    )
    updates: list[Tensor] = []
    for k, carry in enumerate(moving):
        update = body.row_of(carry.leaving, f"{name}.step{k}", updates)
        updates.append(update)
    firsts = [
        _first(c.start, state, f"{name}.first{k}")
        for k, (c, state) in enumerate(zip(moving, states))
    ]
    results: list[Tensor] = []
    if moving:
        tensors = scan(firsts, updates, states, name=name)
        results = tensors if isinstance(tensors, list) else [tensors]
        for tensor in results[:1]:
            mark_automatic(tensor)
    last = iter(_last(tensor, rows - 1) for tensor in results)
    return [_whole(c.start) if same else next(last) for c, same in zip(loop.carries, fixed)]


def same_value(value: Value, tensor: Tensor) -> bool:
    """Return whether a value is a tensor, or the element of a 0-d one."""
    element = isinstance(value, Read) and not value.indices and value.tensor is tensor
    return value is tensor or element


def dependent(loop: HostLoop, ops: Sequence[Operation]) -> frozenset[Tensor]:
    """Return the tensors that depend on the index of a loop."""
    tensors: set[Tensor] = set()
    for op in ops:
        reads = not tensors.isdisjoint(op.input_tensors)
        if isinstance(op, ComputeOp) and (
            reads or any(node is loop.index for node in postorder(op.roots))
        ):
            tensors.update(op.outputs)
    return frozenset(tensors)


def _first(start: Value, state: Tensor, name: str) -> Tensor:
    """Return the first row of a state."""
    axes = (Axis("t", 1), *data_axes(state.shape[1:]))
    value = read(start, axes[1:]) if isinstance(start, Tensor) else settle(start)
    return define(name, axes, value)


def _last(tensor: Tensor, row: Extent) -> Tensor:
    return each("last", tensor.shape[1:], lambda *i: tensor.element((row, *i)))


def _whole(value: Value) -> Tensor:
    return value if isinstance(value, Tensor) else each("last", (), lambda: settle(value))


@dataclass(frozen=True)
class Body:
    """The stages of a body as stages over rows or over iterations.

    ``known`` has the values from around the loop, and ``states`` the rows before. Stages that
    depend on a carry (``carried``) are computed row by row: iteration ``k`` makes row ``k +
    before`` of ``rows``, since ``before`` rows precede the loop. Stages that depend on the index
    alone (``indexed``) are computed for each iteration, and the rest once. The index of iteration 0
    is ``first``. ``done`` has the stages so far.
    """

    index: Var
    first: int
    rows: Extent
    known: Mapping[Tensor, Value]
    states: Mapping[Tensor, Tensor]
    carried: frozenset[Tensor]
    indexed: frozenset[Tensor]
    done: dict[Tensor, Tensor] = field(default_factory=dict)
    before: int = 1

    def row_of(self, value: Value, name: str, updates: Sequence[Tensor]) -> Tensor:
        """Return the stage whose row is ``value``, a new one if it is among those ``taken``."""
        for op in operations([t for t in _tensors(value) if t not in self.done]):
            self.add(op)
        if isinstance(value, Tensor):
            stage = self.done.get(value)
            if stage is not None and value in self.carried and not any(stage is t for t in updates):
                return stage
            names = axis_names(value.ndim)
            row = self._axis(names, self.rows)
            axes = (row, *data_axes(value.shape, names))
            element = self.row_moved(Read(value, axes[1:], value.dtype), row, row - self.before)
        else:
            axes = (self._axis((), self.rows),)
            element = settle(self.row_moved(value, axes[0], axes[0] - self.before))
        op = ComputeOp(name, axes, (element,))
        row_stage: Tensor = finish(op, 1, first={axes[0]: self.before})
        mark_automatic(row_stage)
        return row_stage

    def state_element(self, node: Read, at: Expr) -> Expr:
        """Return the element of a state that iteration ``at`` reads."""
        return Read(self.states[node.tensor], (at, *node.indices), node.dtype)

    def _axis(self, names: Sequence[str], extent: Extent) -> Axis:
        """Return the axis of rows or iterations of a stage whose other axes have ``names``."""
        return Axis(self.index.name if self.index.name not in names else "t", extent)

    def add(self, op: Operation) -> None:
        """Make the stage of an operation of the body."""
        if not isinstance(op, ComputeOp) or op.outputs[0] in self.done:
            return
        names = [a.name for a in (*op.axis, *op.reduce_axis)]
        lead: tuple[Axis, ...] = ()
        at: Expr | None = None
        if op.outputs[0] in self.carried:
            lead = (self._axis(names, self.rows),)
            at = lead[0] - self.before
        elif op.outputs[0] in self.indexed:
            lead = (self._axis(names, self.rows - self.before),)
            at = lead[0]
        elif not any(t in self.known or t in self.done for t in op.input_tensors):
            return
        row = lead[0] if lead else None
        memo: dict[int, Expr] = {}
        ragged: dict[Axis, Axis] = {}

        def moved(values: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(self.row_moved(v, row, at, memo, ragged) for v in values)

        for axis in op.reduce_axis:
            if axis.bounds is not None:
                low, high = (moved([e])[0] if isinstance(e, Expr) else e for e in axis.bounds)
                ragged[axis] = replace(axis, bounds=(low, high))
                memo.clear()
        new = replace(
            op,
            axis=(*lead, *op.axis),
            reduce_axis=tuple(ragged.get(a, a) for a in op.reduce_axis),
            body=moved(op.body),
            where=None if op.where is None else moved([op.where])[0],
            init=None if op.init is None else moved(op.init),
            outputs=(),
            view=False,
        )
        starts = {lead[0]: self.before} if op.outputs[0] in self.carried else None
        for old, tensor in zip(op.outputs, finish(new, len(op.body), True, starts)):
            tensor.name = old.name
            self.done[old] = tensor

    def moved(self, value: Expr, at: Any) -> Expr:
        """Return an expression of the body as one of iteration ``at``."""
        return self.row_moved(value, None, at)

    def row_moved(
        self,
        value: Expr,
        row: Axis | None,
        at: Expr | None,
        memo: dict[int, Expr] | None = None,
        axes: Mapping[Axis, Axis] | None = None,
    ) -> Expr:
        """Return an expression of the body as one at a ``row``, of iteration ``at``.

        ``axes`` replace the ragged ones.
        """

        def swap(node: Expr) -> Expr | None:
            if isinstance(node, Axis) and axes:
                return axes.get(node)
            if node is self.index:
                assert at is not None
                return simplify(at + self.first)
            if not isinstance(node, Read):
                return None
            tensor = node.tensor
            if tensor in self.states:
                assert at is not None
                return self.state_element(node, at)
            if tensor in self.known:
                value = self.known[tensor]
                if not isinstance(value, Tensor):
                    return settle(value)
                return read(value, node.indices)
            if tensor not in self.done:
                return None
            lead = row if tensor in self.carried else at if tensor in self.indexed else None
            more = () if lead is None else (lead,)
            return Read(self.done[tensor], (*more, *node.indices), node.dtype)

        return rewrite(value, swap, memo)


def _tensors(value: Value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [node.tensor for node in postorder([value]) if isinstance(node, Read)]
