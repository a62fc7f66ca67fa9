"""A loop as a scan: each iteration is a row, which the stages of the body compute from the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.stages import axis_names, data_axes, each, read
from schedlang.compute.define import defined, finished
from schedlang.compute.graph import operations
from schedlang.compute.read import Read
from schedlang.compute.scan import scan
from schedlang.compute.tensor import ComputeOp, Operation, ScanOp, Tensor, placeholder
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.language.construct import settled
from schedlang.tracing.trace import HostLoop, Value

# the most points that the stages of a body compute in an iteration of a scan. Beyond, a call of a
# kernel costs little beside its work, for which steps of a scan lack some schedules
MOST_POINTS = 2**18


def host_reason(loop: HostLoop, limited: bool) -> str:
    """Return why a loop runs on the host, and is no scan; "" for a scan.

    ``limited`` says that a body of much work is a reason.
    """
    if loop.body.loops:
        return "its body has a loop on the host"
    ops = _operations(loop)
    for op in ops:
        if isinstance(op, ScanOp):
            return f"its body has the recurrence {op.name}"
        if isinstance(op, ComputeOp):
            if op.destination is not None:
                return f"its body has the scatter {op.name}"
            if any(a.bounds is not None for a in op.reduce_axis):
                return f"its body has the ragged reduction {op.name}"
    points = sum(_points(op) for op in ops)
    if limited and points > MOST_POINTS:
        return (
            f"each iteration computes {points:,} elements and terms of sums, more than "
            f"{MOST_POINTS:,}"
        )
    return ""


def _operations(loop: HostLoop) -> list[Operation]:
    leaving = [v for v in _leaving(loop) if isinstance(v, Tensor)]
    return operations(leaving)


def _leaving(loop: HostLoop) -> list[Value]:
    """Return the values after an iteration, the tensors of an expression among them."""
    found: list[Value] = []
    for carry in loop.carries:
        if isinstance(carry.leaving, Tensor):
            found.append(carry.leaving)
        else:
            nodes = postorder([carry.leaving])
            found += [node.tensor for node in nodes if isinstance(node, Read)]
    return found


def _points(op: Operation) -> int:
    """Return how many values an operation computes, 0 for sizes that only a call knows."""
    if not isinstance(op, ComputeOp):
        return 0
    axes = (*op.axis, *op.reduce_axis)
    extents = [a.extent for a in axes if isinstance(a.extent, int)]
    return prod(extents) if len(extents) == len(axes) else 0


def recurrence(loop: HostLoop) -> list[Tensor]:
    """Return the values of the carries after a loop for which :func:`host_reason` has none.

    Row 0 of each state is the value before the loop, and row ``k`` that after ``k`` iterations.
    """
    fixed = [_same(c.leaving, c.entering) for c in loop.carries]
    moving = [c for c, same in zip(loop.carries, fixed) if not same]
    rows = loop.hi - loop.lo + 1
    known: dict[Tensor, Value] = {t: v for v, t in loop.read}
    known |= {c.entering: c.start for c, same in zip(loop.carries, fixed) if same}
    name = automatic_name("loop")
    states = [
        placeholder((rows, *c.entering.shape), c.entering.dtype, name=f"{name}.state{k}")
        for k, c in enumerate(moving)
    ]
    # the index counts from 0, or from a negative bound on
    body = _Body(loop.index, max(loop.lo, 0) - 1, rows, known,
                 dict(zip((c.entering for c in moving), states)))  # fmt: skip
    updates: list[Tensor] = []
    for k, carry in enumerate(moving):
        update = body.row_of(carry.leaving, f"{name}.step{k}", updates)
        updates.append(update)
    firsts = [_first(c.start, state, f"{name}.first{k}")
              for k, (c, state) in enumerate(zip(moving, states))]  # fmt: skip
    results: list[Tensor] = []
    if moving:
        made = scan(firsts, updates, states, name=name)
        results = made if isinstance(made, list) else [made]
        for tensor in results[:1]:
            mark_automatic(tensor)
    last = iter(_last(tensor, rows - 1) for tensor in results)
    return [_whole(c.start) if same else next(last) for c, same in zip(loop.carries, fixed)]


def _same(value: Value, tensor: Tensor) -> bool:
    """Return whether a value is a tensor, or the element of a 0-d one."""
    element = isinstance(value, Read) and not value.indices and value.tensor is tensor
    return value is tensor or element


def _first(start: Value, state: Tensor, name: str) -> Tensor:
    """Return the first row of a state."""
    axes = (Axis("t", 1), *data_axes(state.shape[1:]))
    value = read(start, axes[1:]) if isinstance(start, Tensor) else settled(start)
    made: Tensor = defined(name, axes, value)
    return made


def _last(tensor: Tensor, row: int) -> Tensor:
    return each("last", tensor.shape[1:], lambda *i: tensor.element((row, *i)))


def _whole(value: Value) -> Tensor:
    return value if isinstance(value, Tensor) else each("last", (), lambda: settled(value))


@dataclass
class _Body:
    """The stages of a body as stages over all rows.

    The index of the loop is the row plus ``shift``. ``known`` has the values from around the loop,
    and ``states`` those of the row before. ``done`` has the stages so far, and ``varying`` those of
    them that have rows.
    """

    index: Var
    shift: int
    rows: int
    known: dict[Tensor, Value]
    states: dict[Tensor, Tensor]
    done: dict[Tensor, Tensor] = field(default_factory=dict)
    varying: set[Tensor] = field(default_factory=set)

    def row_of(self, value: Value, name: str, taken: Sequence[Tensor]) -> Tensor:
        """Return the stage whose row is ``value``, a new one if it is among those ``taken``."""
        for op in operations([t for t in _tensors(value) if t not in self.done]):
            self._add(op)
        if isinstance(value, Tensor):
            made = self.done.get(value)
            if made is not None and value in self.varying and not any(made is t for t in taken):
                return made
            names = axis_names(value.ndim)
            row = Axis(self.index.name if self.index.name not in names else "t", self.rows)
            axes = (row, *data_axes(value.shape, names))
            element = self._moved(Read(value, axes[1:], value.dtype), row)
        else:
            axes = (Axis(self.index.name, self.rows),)
            element = settled(self._moved(value, axes[0]))
        op = ComputeOp(name, axes, (element,))
        found: Tensor = finished(op, 1, first={axes[0]: 1})
        mark_automatic(found)
        return found

    def _add(self, op: Operation) -> None:
        """Make the stage of an operation of the body: with rows if it depends on the iteration."""
        if not isinstance(op, ComputeOp) or op.outputs[0] in self.done:
            return
        nodes = postorder(op.roots)
        given = {node.tensor for node in nodes if isinstance(node, Read)}
        indexed = any(node is self.index for node in nodes)
        varies = indexed or any(t in self.states or t in self.varying for t in given)
        if not varies and not any(t in self.known or t in self.done for t in given):
            return
        names = {a.name for a in (*op.axis, *op.reduce_axis)}
        row = Axis(self.index.name if self.index.name not in names else "t", self.rows)
        memo: dict[int, Expr] = {}

        def moved(values: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(self._moved(v, row, memo) for v in values)

        new = replace(
            op, axis=(row, *op.axis) if varies else op.axis, body=moved(op.body),
            where=None if op.where is None else moved([op.where])[0],
            init=None if op.init is None else moved(op.init), outputs=(), view=False,
        )  # fmt: skip
        made = finished(new, len(op.body), True, {row: 1} if varies else None)
        for old, tensor in zip(op.outputs, made):
            tensor.name = old.name
            self.done[old] = tensor
            if varies:
                self.varying.add(old)

    def _moved(self, value: Expr, row: Axis, memo: dict[int, Expr] | None = None) -> Expr:
        """Return an expression of the body as one of a row."""

        def swap(node: Expr) -> Expr | None:
            if node is self.index:
                return row + self.shift if self.shift > 0 else row - 1 if self.shift else row
            if not isinstance(node, Read):
                return None
            tensor = node.tensor
            if tensor in self.states:
                return Read(self.states[tensor], (row - 1, *node.indices), node.dtype)
            if tensor in self.known:
                value = self.known[tensor]
                if not isinstance(value, Tensor):
                    return settled(value)
                return read(value, node.indices)
            if tensor in self.varying:
                return Read(self.done[tensor], (row, *node.indices), node.dtype)
            if tensor in self.done:
                return Read(self.done[tensor], node.indices, node.dtype)
            return None

        return rewrite(value, swap, memo)


def _tensors(value: Value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [node.tensor for node in postorder([value]) if isinstance(node, Read)]


__all__ = ["MOST_POINTS", "host_reason", "recurrence"]
