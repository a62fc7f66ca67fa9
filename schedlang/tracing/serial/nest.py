"""The nest of a serial loop: the segments of its body in a ``For``, in place in its arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.arrays.stages import data_axes
from schedlang.compute.math import all as all_of
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Extent, Tensor
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.linear import number_or_expr
from schedlang.index.simplify import simplify, to_lin
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Load,
    Stmt,
    Store,
)
from schedlang.ir.rewrite import substitute
from schedlang.ir.statement import ENDLESS
from schedlang.language.construct import as_expr, cast
from schedlang.tracing.indexing import Part, parts_of_region, unproven
from schedlang.tracing.serial.direct import Target, stored_directly
from schedlang.tracing.serial.order import (
    Computed,
    Event,
    NotInKernel,
    Order,
    behind,
    inside_scans,
    moving,
    order_of,
    states_of,
    title_of,
    token,
)
from schedlang.tracing.serial.segments import Maker
from schedlang.tracing.spans import ranges_of_loops
from schedlang.tracing.spread import spread
from schedlang.tracing.trace import HostLoop, Region, Value, run_as_current

# storage of at least so many bytes is allocated once for all iterations
LARGE = 1024


def loop_of(maker: Maker, loop: HostLoop, where: Mapping[Tensor, Buffer]) -> For:
    """Return the nest of a loop, whose carries and reads are at the buffers ``where``."""
    with run_as_current(loop.body):
        body = _Iteration(maker, order_of(loop), dict(where))
        body.run()
    extent = number_or_expr(to_lin(loop.hi) - to_lin(loop.lo))
    if isinstance(extent, int):
        extent = ENDLESS if loop.tested else max(extent, 0)
    again = None
    if loop.tested or loop.stops:
        again = Load(where[loop.carries[0].entering], (), "bool")
    name = loop.user_index[0]
    axis = Axis(name, extent)
    index = simplify(axis + max(loop.lo, 0))
    stmts = substitute(Block(tuple(body.stmts)), {loop.index: index})
    assert isinstance(stmts, Block)
    stage = title_of(loop, moving(loop)[0])
    if loop.form:
        maker.remarks[axis] = (loop.form,)
    return For(axis, extent, "serial", stmts, stage, again=again)


def copied(source: Buffer, into: Buffer, stage: str) -> Stmt:
    """Return the loops that copy an array into one of its shape."""
    axes = data_axes(source.shape)
    store = Store((into,), axes, (Load(source, axes, source.dtype),), stage=stage)
    return nested(axes, store, stage)


def element_of(value: Value) -> Tensor | None:
    """Return the tensor of which a number is a known element, such as ``x[0]``; else ``None``."""
    if not isinstance(value, Read):
        return None
    ends = zip(value.indices, value.tensor.shape)
    return value.tensor if all(_is_known(at, extent) for at, extent in ends) else None


def _is_known(index: Expr, extent: Extent) -> bool:
    at = index.value if isinstance(index, Const) else None
    return isinstance(at, int) and isinstance(extent, int) and 0 <= at < extent


def filling(
    value: Value, where: Mapping[Tensor, Buffer] | None = None
) -> Callable[[Buffer], Stmt] | None:
    """Return what makes the loops that fill an array with ``value``; ``None`` if it reads others.

    It is a constant or a formula of the indices, as ``np.zeros`` and ``np.arange`` return, or an
    element of a tensor that is at one of the buffers ``where``.
    """
    if isinstance(value, Read) and where is not None and element_of(value) in where:
        element = Load(where[value.tensor], value.indices, value.dtype)
        return lambda buffer: Store((buffer,), (), (element,), stage=buffer.name)
    own: tuple[Axis, ...] = ()
    if isinstance(value, Tensor):
        op = value.op
        if not isinstance(op, ComputeOp) or len(op.body) != 1:
            return None
        special = (op.where, op.init, op.destination)
        if op.reduce_axis or any(part is not None for part in special):
            return None
        own, (value,) = op.axis, op.body
    if any(isinstance(node, (Read, Var)) for node in postorder([value])):
        return None
    formula = value

    def fill(buffer: Buffer) -> Stmt:
        axes = data_axes(buffer.shape)
        swap: dict[Expr, Expr] = dict(zip(own, axes))
        element = cast(rewrite(formula, swap.get), buffer.dtype)
        return nested(axes, Store((buffer,), axes, (element,), stage=buffer.name), buffer.name)

    return fill


def nested(axes: Sequence[Axis], stmt: Stmt, stage: str) -> Stmt:
    for axis in reversed(axes):
        stmt = For(axis, axis.extent, "serial", Block((stmt,)), stage)
    return stmt


@dataclass
class _Iteration:
    """The statements of an iteration so far, and the buffers of what is computed."""

    maker: Maker
    order: Order
    where: dict[Tensor, Buffer]
    stmts: list[Stmt] = field(default_factory=list)
    slots: dict[Tensor, Buffer] = field(default_factory=dict)

    def run(self) -> None:
        loop = self.order.loop
        self.ranges = ranges_of_loops(loop.body)
        self.slots |= {c.entering: self.where[c.entering] for c in moving(loop)}
        pending = list(self.order.events)
        while pending:
            event = self._next(pending)
            pending.remove(event)
            self._prepare(event, pending)
            self._do(event, pending)

    def _is_available(self, tensor: Tensor) -> bool:
        return tensor not in self.order.slot_of or tensor in self.where

    def _ops(self, event: Event) -> dict[Computed, None]:
        return self._behind(event.needs)

    def _behind(self, tensors: Sequence[Tensor]) -> dict[Computed, None]:
        # of all versions, also of later events
        return behind(tensors, {**self.order.slot_of, **self.where})

    def _reads(self, event: Event) -> set[Tensor]:
        """Return the versions that what an event still computes reads."""
        direct = {t for t in event.needs if t in self.order.slot_of}
        return direct | {
            t for op in self._ops(event) for t in op.input_tensors if t in self.order.slot_of
        }

    def _next(self, pending: Sequence[Event]) -> Event:
        """Return an event whose values are there; one that replaces nothing still read, if any."""
        ready = [
            e
            for e in pending
            if all(v is None or v in self.where for v in e.before)
            and all(map(self._is_available, self._reads(e)))
        ]
        if not ready:
            raise NotInKernel("it reads an array before and after an assignment at once")
        for e in ready:
            others = [p for p in pending if p is not e]
            read = set().union(*map(self._reads, others)) if others else set()
            if read.isdisjoint(v for v in e.before if v is not None):
                return e
        return ready[0]

    def _prepare(self, event: Event, pending: Sequence[Event]) -> None:
        """Compute what the event needs, and what later ones read of the versions it replaces."""
        replaced = {v for v in event.before if v is not None}
        wanted = [t for t in event.needs if t not in self.where]
        copies: list[Tensor] = []
        if event.loop is not None:
            copies += [t for t in event.needs if t in replaced]
        for later in pending:
            copies += [t for t in later.needs if t in replaced]
            ops = self._ops(later)
            scans = inside_scans([*ops])
            inner = {op for parts in scans.values() for op in parts}
            units = {op: {op} for op in ops if op not in inner} | scans
            for op, parts in units.items():
                read = [t for part in parts for t in part.input_tensors if t in replaced]
                if read and self._are_computable(self._behind(op.outputs)):
                    wanted += op.outputs
                else:
                    # it also reads what an assignment after this one makes
                    copies += read
        # what computes the value may store it in place
        for version in dict.fromkeys(copies):
            self.where[version] = self._copy(version)
        names = dict.fromkeys(wanted)
        if event.region is None or not event.is_branch:
            self._compute([*names], event, pending)
            return
        value = event.needs[0]
        ops_later = {op for e in pending for op in self._ops(e)}
        read_later = {t for op in ops_later for t in op.input_tensors}
        read_later |= {t for e in pending for t in e.needs}
        if value not in names or value in read_later:
            self._compute([*names], event, pending)
            return
        shared = [op for op in self._behind([value]) if op in ops_later and not _is_view(op)]
        names |= {t: None for op in shared for t in op.outputs}
        self._compute([t for t in names if t is not value], event, pending)
        self._compute_in_branch(value, event, event.region)

    def _compute_in_branch(self, value: Tensor, event: Event, region: Region) -> None:
        """Compute and store the value of an assignment where its conditions hold."""
        ops = self._behind([value])
        if not self._are_computable(ops):
            raise NotInKernel("it reads an array before and after an assignment at once")
        segment = self.maker.segment([*ops], [value], self.where, self.ranges)
        (slot,) = event.slots
        into, buffer = self.slots[slot], segment.buffers[value]
        target = self._target(event, buffer)
        stmts = None if target is None else stored_directly(segment.stmts, target)
        if stmts is None:
            stmts = [*segment.stmts, self._assignment(into, buffer, value, region)]
        self.stmts.append(self._under(region, stmts))
        self.where[value] = into

    def _under(self, region: Region, stmts: Sequence[Stmt]) -> Stmt:
        """Return statements that run where the conditions of an assignment hold."""
        tests = [self._loaded(test, self.where) for test in region.under]
        parts = parts_of_region(region)
        for start, extent in unproven(region.base, parts, region.under):
            if not any(True for _ in reads([start])):
                tests.append((start >= 0) & (start < extent))
        return If(all_of(*tests), Block(tuple(stmts)), "the side of an if")

    def _are_computable(self, ops: Mapping[Computed, None]) -> bool:
        """Return whether the versions that operations read are there."""
        states = states_of(ops)
        return all(
            t in self.where or t.op in ops or t in states for op in ops for t in op.input_tensors
        )

    def _copy(self, version: Tensor) -> Buffer:
        source = self.where[version]
        into = Buffer(self.maker.names.fresh(f"{source.name}.before"), source.dtype, source.shape)
        self.stmts += [Alloc(into), copied(source, into, source.name)]
        return into

    def _compute(self, tensors: Sequence[Tensor], event: Event, pending: Sequence[Event]) -> None:
        missing = [t for t in tensors if t not in self.where]
        if not missing:
            return
        ops = self._behind(missing)
        if not self._are_computable(ops):
            raise NotInKernel("it reads an array before and after an assignment at once")
        inner = {op for parts in inside_scans([*ops]).values() for op in parts}
        kept = [op for op in ops if op not in inner and not _is_view(op)]
        # a later event computes views again, and then reads what they are views of
        done = {*kept, *inner}
        later = {op: None for e in pending for op in self._ops(e) if op not in done}
        read = {t for op in later for t in op.input_tensors}
        read |= {t for e in pending for t in e.needs}
        # a scan of several results computes all of them
        wanted = {*missing, *read}
        together = [t for op in kept if not wanted.isdisjoint(op.outputs) for t in op.outputs]
        outputs = [*missing, *(t for t in together if t not in missing)]
        made = self.maker.segment([*ops], outputs, self.where, self.ranges)
        stmts: Sequence[Stmt] = made.stmts
        (value, *_) = event.needs
        if event.loop is None and not event.is_branch and value in missing and value not in read:
            target = self._target(event, made.buffers[value])
            direct = None if target is None else stored_directly(stmts, target)
            if target is not None and direct is not None:
                stmts, made.buffers[value] = direct, target.into
        self.stmts += stmts
        self.where |= made.buffers

    def _target(self, event: Event, value: Buffer) -> Target | None:
        """Return where the value of an assignment belongs, if it has the shape of that place."""
        (slot,), (tensor, *_) = event.slots, event.needs
        into = self.slots[slot]
        if tensor.dtype != into.dtype:
            return None
        if event.region is None:
            return Target(value, into, lambda at: at, (), self.ranges)
        parts = parts_of_region(event.region)
        extents = tuple(p.extent for p in parts if p.extent is not None)
        if len(extents) != tensor.ndim:
            return None
        if any(to_lin(a) != to_lin(b) for a, b in zip(extents, tensor.shape)):
            return None
        if any(isinstance(n, Read) for n in postorder(place_of(parts, data_axes(extents)))):
            return None
        fixed = tuple(k for k, p in enumerate(parts) if p.extent is None)
        return Target(value, into, lambda at: place_of(parts, at), fixed, self.ranges)

    def _do(self, event: Event, pending: Sequence[Event]) -> None:
        if event.loop is not None:
            self._run_loop(event, event.loop)
        else:
            (slot,), (value, *_) = event.slots, event.needs
            into = self.slots[slot]
            if self.where[value] is not into or value in self.order.slot_of:
                source = self.where[value]
                if source is into and event.region is not None:
                    # b[::-1] = b reads elements that it writes
                    source = self._copy(value)
                stored = self._assignment(into, source, value, event.region)
                if event.region is not None and event.is_branch:
                    stored = self._under(event.region, [stored])
                self.stmts.append(stored)
        for slot, old, new in zip(event.slots, event.before, event.after):
            if old is not None and self.where.get(old) is self.slots[slot]:
                del self.where[old]
            self.where[new] = self.slots[slot]

    def _assignment(
        self, into: Buffer, source: Buffer, value: Tensor, region: Region | None
    ) -> Stmt:
        """Return the loops that copy a value into a whole array, or into a region of it."""
        if region is None:
            return copied(source, into, into.name)
        parts = parts_of_region(region)
        shape = tuple(p.extent for p in parts if p.extent is not None)
        axes = data_axes(shape)
        # a read of a view would read what it is a view of
        stand = token(value)
        element = spread(stand, shape, "an assignment")(axes)
        new = cast(as_expr(element), into.dtype)
        new = self._loaded(new, {stand: source})
        places = place_of(parts, axes)
        store: Stmt = Store((into,), places, (new,), stage=into.name)
        reads = [node for node in postorder(places) if isinstance(node, Read)]
        if not reads:
            return nested(axes, store, into.name)
        loaded = tuple(self._loaded(place, self.where) for place in places)
        if axes and any(self.where[node.tensor] is into for node in reads):
            raise NotInKernel("it writes the array that tells where")
        store = Store((into,), loaded, (new,), stage=into.name)
        inside = [
            (place >= 0) & (place < extent)
            for place, before, extent in zip(loaded, places, into.shape)
            if place is not before
        ]
        guarded = If(all_of(*inside), Block((store,)), "the place is in the array")
        return nested(axes, guarded, into.name)

    def _loaded(self, value: Expr, where: Mapping[Tensor, Buffer]) -> Expr:
        def load(node: Expr) -> Expr | None:
            if not isinstance(node, Read):
                return None
            return Load(where[node.tensor], node.indices, node.dtype)

        return rewrite(value, load)

    def _run_loop(self, event: Event, loop: HostLoop) -> None:
        inside = dict(self.where)
        for value, tensor in loop.read:
            inside[tensor] = self.where[self.order.tensor(value, tensor.dtype)]
        places = iter(zip(event.slots, event.before, event.after))
        changed = {id(c) for c in moving(loop)}
        for c in loop.carries:
            start = self.order.tensor(c.start, c.entering.dtype)
            if id(c) not in changed:
                inside[c.entering] = self.where[start]
                continue
            slot, before, _ = next(places)
            if before is None:
                source = self.where[start]
                own = Buffer(self.maker.names.fresh(c.result.name), source.dtype, source.shape)
                self.stmts += [Alloc(own), copied(source, own, own.name)]
                self.slots[slot] = own
            inside[c.entering] = self.slots[slot]
        self.stmts.append(loop_of(self.maker, loop, inside))


def _is_view(op: Computed) -> bool:
    """Return whether an operation only moves elements: readers may read its source."""
    return isinstance(op, ComputeOp) and not op.reduce_axis and isinstance(op.body[0], Read)


def place_of(parts: Sequence[Part], axes: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return the indices of an element of a region."""
    rest = iter(axes)
    places = []
    for p in parts:
        place = as_expr(p.start) if p.extent is None else as_expr(p.start + next(rest) * p.step)
        places.append(simplify(place))
    return tuple(places)
