"""The events of a loop's iteration: assignments in place, and loops inside.

Each array that an iteration changes is a *slot*. Its values one after the other are *versions*:
tensors of the body's trace, of which the slot holds one at a time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Optional, Union

from schedlang.arrays.shapes import same_shape
from schedlang.arrays.stages import tensor_of
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.nodes import Const, Expr, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.language.construct import cast
from schedlang.tracing.conditional import unconditional
from schedlang.tracing.indexing import in_bounds, parts_of_region
from schedlang.tracing.recurrence import same_value
from schedlang.tracing.spans import likely
from schedlang.tracing.trace import Carry, HostLoop, Region, Value

Computed = Union[ComputeOp, ScanOp]
# a copy of so many times the elements that are assigned takes most of the time of an iteration
MOST_COPIED = 16
# a copy of fewer elements takes less time than a call of a kernel
LARGE_COPY = 2**14


class NotInKernel(Exception):
    """The loop cannot run inside of a kernel; the text says why."""


@dataclass(frozen=True, eq=False)
class Event:
    """A change of slots: of the elements of a ``region``, of a whole slot, or by a ``loop``.

    ``needs`` are the tensors that it reads. It replaces the versions ``before`` by ``after``, which
    stand in ``slots``. A loop that begins with a value of its own has a slot for it, and ``None``
    before.
    """

    needs: tuple[Tensor, ...]
    slots: tuple[Tensor, ...]
    before: tuple[Optional[Tensor], ...]
    after: tuple[Tensor, ...]
    region: Optional[Region] = None
    loop: Optional[HostLoop] = None

    @property
    def is_branch(self) -> bool:
        """Tell an event that happens only where conditions hold."""
        return self.region is not None and bool(self.region.under)


@dataclass(eq=False)
class Order:
    """The events of an iteration of ``loop``, in the order of each slot's versions.

    A slot has the name of its first version: a carry before the iteration, or the result of a loop
    inside. ``same`` has for results of loops that no iteration changes the tensors that they are.
    """

    loop: HostLoop
    events: list[Event] = field(default_factory=list)
    slot_of: dict[Tensor, Tensor] = field(default_factory=dict)
    same: dict[Tensor, Tensor] = field(default_factory=dict)
    stored: dict[tuple[int, str], Tensor] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)

    def tensor(self, value: Value, dtype: str = "") -> Tensor:
        """Return a value of the body as a tensor; an expression becomes a 0-d one, once.

        An expression that takes the dtype of what it meets gets ``dtype``.
        """
        read = getattr(value, "tensor", None)
        if isinstance(read, Tensor) and not read.ndim:
            value = read
        if isinstance(value, Expr):
            key = id(value), dtype if value.weak else ""
            known = self.stored.get(key)
            if known is None:
                # what an assignment before stored is read from there
                shorter = rewrite(value, self._stored_value)
                typed = cast(shorter, dtype) if value.weak and dtype else shorter
                known = self.stored[key] = tensor_of(typed, "a value of a loop")
                self.kept.append(value)
            return known
        while value in self.same:
            value = self.same[value]
        assert isinstance(value, Tensor)
        return value

    def test(self, condition: Expr) -> Expr:
        """Return a condition of the body; one that reads elements is computed once."""
        if not any(True for _ in reads([condition])):
            return condition
        return Read(self.tensor(condition, "bool"), (), "bool")

    def _stored_value(self, node: Expr) -> Expr | None:
        known = self.stored.get((id(node), ""))
        if known is None or isinstance(node, (Const, Var)) or node.weak:
            return None
        return Read(known, (), known.dtype) if known.dtype == node.dtype else None


def moving(loop: HostLoop) -> list[Carry]:
    """Return the carries that an iteration may change."""
    return [c for c in loop.carries if not same_value(c.leaving, c.entering)]


def title_of(loop: HostLoop, carry: Carry) -> str:
    """Return the user's name of a carry: the name of the last stage that assigns to it."""
    leaving = carry.leaving
    for inner in loop.body.loops:
        for own in inner.carries:
            if same_value(leaving, own.result):
                return title_of(inner, own)
    return leaving.name if isinstance(leaving, Tensor) else carry.result.name


def in_place(loop: HostLoop) -> bool:
    """Return whether an iteration assigns to parts of an array, which a scan would copy."""
    return any(
        c.leaving in loop.body.regions for c in moving(loop) if isinstance(c.leaving, Tensor)
    )


def copied_arrays(loop: HostLoop) -> list[str]:
    """Return the arrays that an iteration on the host copies to assign to a small part of them."""
    names = []
    for c in moving(loop):
        region = loop.body.regions.get(c.leaving) if isinstance(c.leaving, Tensor) else None
        if region is None:
            continue
        assigned = prod(likely(p) or 1 for p in _slices(region))
        elements = prod(likely(extent) or 1 for extent in region.base.shape)
        if elements >= max(MOST_COPIED * assigned, LARGE_COPY):
            names.append(title_of(loop, c))
    return names


def _slices(region: Region) -> list[Any]:
    return [p.extent for p in parts_of_region(region) if p.extent is not None]


def order_of(loop: HostLoop) -> Order:
    """Return the events of an iteration; raise :class:`NotInKernel` if no kernel can run it."""
    order = Order(loop)
    results: dict[Tensor, tuple[HostLoop, int]] = {}
    for inner in loop.body.loops:
        for k, c in enumerate(inner.carries):
            if same_value(c.leaving, c.entering):
                order.same[c.result] = order.tensor(c.start, c.result.dtype)
            else:
                results[c.result] = (inner, k)
    places: dict[HostLoop, dict[int, tuple[Tensor, Tensor]]] = {}
    for c in moving(loop):
        order.slot_of[c.entering] = c.entering
    for c in moving(loop):
        _chain(order, c, results, places)
    for inner in loop.body.loops:
        order.events.append(_loop(order, inner, places.get(inner, {})))
    return order


def _chain(
    order: Order,
    carry: Carry,
    results: dict[Tensor, tuple[HostLoop, int]],
    places: dict[HostLoop, dict[int, tuple[Tensor, Tensor]]],
) -> None:
    """Add the events that make the value after an iteration out of the one before."""
    slot = carry.entering
    steps: list[tuple[Any, Tensor]] = []
    value = order.tensor(carry.leaving, slot.dtype)
    while value is not slot and value not in order.slot_of:
        region = order.loop.body.regions.get(value)
        if region is not None:
            steps.append((region, value))
            value = order.tensor(region.base)
        elif value in results:
            inner, k = results[value]
            start = order.tensor(inner.carries[k].start, value.dtype)
            if start is not slot and start not in order.loop.body.regions and start not in results:
                break
            steps.append((results[value], value))
            value = start
        else:
            break
        if not same_shape(value.shape, slot.shape) or value.dtype != slot.dtype:
            raise NotInKernel(f"{slot.name} changes its shape")
    version = slot
    if value is not slot:
        # a new array, or the value of another slot
        version = token(slot)
        order.slot_of[version] = slot
        order.events.append(Event((value,), (slot,), (slot,), (version,)))
    for step, after in reversed(steps):
        order.slot_of[after] = slot
        if isinstance(step, Region):
            order.events.append(_store(order, slot, version, after, step))
        else:
            inner, k = step
            places.setdefault(inner, {})[k] = (slot, version)
        version = after


def token(slot: Tensor) -> Tensor:
    """Return a tensor that stands for a version of a slot, or for a value that is at hand."""
    return PlaceholderOp(slot.name, slot.shape, slot.dtype).output()


def _store(order: Order, slot: Tensor, version: Tensor, after: Tensor, step: Region) -> Event:
    region = step if _is_branch(step) else unconditional(step)
    tests = tuple(map(order.test, region.under))
    value = order.tensor(region.value, slot.dtype)
    starts = [p.start for p in parts_of_region(region) if isinstance(p.start, Expr)]
    read = [node.tensor for node in postorder([*starts, *tests]) if isinstance(node, Read)]
    stored = Region(region.base, region.item, value, tests)
    return Event((value, *read), (slot,), (version,), (after,), stored)


def _is_branch(region: Region) -> bool:
    """Return whether an assignment under conditions is a branch, which a processor predicts.

    Others load the old element and store one of two: elements that decide are hard to predict.
    """
    if not region.under:
        return False
    by_index = any(not any(True for _ in reads([test])) for test in region.under)
    is_array = isinstance(region.value, Tensor) and region.value.ndim > 0
    return by_index or is_array or not in_bounds(region.base, parts_of_region(region))


def _loop(order: Order, inner: HostLoop, places: dict[int, tuple[Tensor, Tensor]]) -> Event:
    needs = [order.tensor(value, t.dtype) for value, t in inner.read]
    slots, before, after = [], [], []
    for k, c in enumerate(inner.carries):
        if same_value(c.leaving, c.entering):
            needs.append(order.tensor(c.start, c.entering.dtype))
            continue
        slot, version = places.get(k, (c.result, None))
        if version is None:
            order.slot_of[c.result] = c.result
            needs.append(order.tensor(c.start, c.entering.dtype))
        slots.append(slot)
        before.append(version)
        after.append(c.result)
    return Event(tuple(needs), tuple(slots), tuple(before), tuple(after), loop=inner)


def behind(tensors: Sequence[Tensor], known: Container[Tensor]) -> dict[Computed, None]:
    """Return the operations that compute ``tensors`` from what is ``known``, producers first."""
    order: dict[Computed, None] = {}
    stack: list[tuple[Tensor, bool]] = [(t, False) for t in reversed(tensors)]
    while stack:
        tensor, ready = stack.pop()
        op = tensor.op
        if tensor in known or isinstance(op, PlaceholderOp) or op in order:
            continue
        if isinstance(op, ExternOp):
            raise NotInKernel(f"its body calls {op.function.name}")
        if ready:
            order[op] = None
            continue
        stack.append((tensor, True))
        stack += [(t, False) for t in reversed(op.input_tensors)]
    return order


def states_of(ops: Iterable[Computed]) -> set[Tensor]:
    """Return what stands for the rows before in the steps of scans."""
    return {t for op in ops if isinstance(op, ScanOp) for t in op.state}


def inside_scans(ops: Sequence[Computed]) -> dict[ScanOp, set[Operation]]:
    """Return the operations of each scan among ``ops``, which no other kernel can read.

    They compute its first rows and its steps. ``ops`` come in their order of computation.
    """
    inside: dict[ScanOp, set[Operation]] = {}
    for scan in ops:
        if isinstance(scan, ScanOp):
            parts = {t.op for t in (*scan.init, *scan.update)}
            of_rows = {*scan.state}
            for op in ops:
                if not of_rows.isdisjoint(op.input_tensors) and op is not scan:
                    of_rows.update(op.outputs)
                    parts.add(op)
            inside[scan] = parts
    return inside
