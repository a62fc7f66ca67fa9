"""The elements of a producer that are computed and stored at one step of its consumer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from schedlang.analysis.graph import graph
from schedlang.compute.tensor import ScanOp, Tensor
from schedlang.errors import PlotError, explain
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.index.linear import to_expr
from schedlang.ir.nodes import Alloc, Buffer, For, walk
from schedlang.plot.inlined import InlinedReads
from schedlang.plot.subject import Subject, shape_of
from schedlang.plot.timeline import Timed, Timeline, points, refuse_gather, timeline
from schedlang.state.placement import Placement
from schedlang.state.placement import place as placement_of
from schedlang.state.state import At, Inline, Root, State

# the most runs of statements that are followed, and the most steps of a picture that moves
MOST_POINTS, MOST_MOMENTS = 2**22, 256


@dataclass(frozen=True, eq=False)
class Placed:
    """A producer and its consumer at the first step for ``element`` that reads the producer.

    An inlined producer is computed where it is read; all terms of a reduction count as one step.

    ``where`` says where the producer is computed and stored, ``loops`` are the loops that both
    share, with their iterations. The arrays of the producer are:

    * ``earlier``, ``now``: how often each element was computed before the current iteration of the
      innermost shared loop, and in it until this step,
    * ``read``: the elements that this step reads; ``stored``: the elements that have storage.

    The fields ``consumer_earlier``, ``consumer_now`` and ``consumer_iteration`` mark the elements
    of the consumer that are done, of this step, and of the current iteration. ``computed`` counts
    the evaluations of the producer in the whole run, ``distinct`` its different elements, and
    ``bytes`` the bytes of its storage. ``reused`` tells whether storage keeps elements of earlier
    iterations. ``step`` is the time of this step in the run.
    """

    title: str
    producer: str
    consumer: str
    where: str
    element: tuple[int, ...]
    loops: tuple[tuple[str, int], ...]
    earlier: np.ndarray
    now: np.ndarray
    read: np.ndarray
    stored: np.ndarray
    consumer_earlier: np.ndarray
    consumer_now: np.ndarray
    consumer_iteration: np.ndarray
    computed: int
    distinct: int
    bytes: int
    reused: bool
    step: int


def moment_of(subject: Subject, producer: Any, consumer: Any, element: Any, call: str) -> Placed:
    """Return what is computed and stored when ``element`` of ``consumer`` is computed.

    By default, ``element`` is the one in the middle. Raise :class:`~schedlang.errors.PlotError` for
    stages that do not read each other, an element outside of the consumer, a nest without its
    schedule, or one too large to follow.
    """
    return _moment(subject, producer, consumer, call).at(element)


def moments_of(subject: Subject, producer: Any, consumer: Any, call: str) -> list[Placed]:
    """Return what is computed and stored at each element of ``consumer``, in their order.

    Raise the errors of :func:`moment_of`, and for a consumer of more than ``MOST_MOMENTS``
    elements.
    """
    return _moment(subject, producer, consumer, call).in_order()


def _moment(subject: Subject, producer: Any, consumer: Any, call: str) -> _Moment:
    if subject.schedule is None:
        raise PlotError(
            f"{call}({subject.nest.name}): a nest alone does not tell where stages are "
            "computed; give its schedule"
        )
    state = subject.schedule.state
    count = points(subject.nest, subject.values, {})
    if count > MOST_POINTS:
        raise PlotError(
            explain(
                f"{call}({subject.title})",
                f"its statements run {count:,} times, and a picture follows {MOST_POINTS:,}",
                "Declare the computation at a smaller size, such as 24 rows: boxes and storage of "
                "a tile stay the same.",
            )
        )
    name, reader = _stages(subject.schedule, producer, consumer, call)
    line = timeline(subject.unfolded, subject.values)
    return _Moment(subject, line, state, name, reader, call)


def _stages(s: Any, producer: Any, consumer: Any, call: str) -> tuple[str, str]:
    """Return the names of the producer and its consumer; by default the last two that fit."""
    stage_graph = graph(s)
    # the stages of a scan store the rows of the scan
    scans = [stage.op for stage in s.state.stages.values() if isinstance(stage.op, ScanOp)]
    parts = {s.state.defined[t] for op in scans for t in (*op.init, *op.update)}
    names = [n for n in s.state.stages if n not in parts and not s.state.stages[n].is_scan]
    if not names:
        raise PlotError(f"{call}: every stage belongs to a scan, whose rows it does not draw")
    source = _named(s, producer, names, call, "producer")
    if source is None:
        inner = [n for n in names if not stage_graph.nodes[n]["output"]]
        if not inner:
            why = f"the schedule has one stage, {names[-1]}, and no producer"
            if parts:
                why = f"all stages but {names[-1]} belong to a scan, whose rows it does not draw"
            raise PlotError(f"{call}: {why}")
        source = inner[-1]
    reader = _named(s, consumer, names, call, "consumer")
    if reader is None:
        readers = list(stage_graph.successors(source))
        while len(readers) == 1 and stage_graph.nodes[readers[0]]["computed"] == "inline":
            readers = list(stage_graph.successors(readers[0]))
        readers = [name for name in readers if name in names]
        if not readers:
            raise PlotError(
                f"{call}(..., producer={source}): no stage outside of scans reads {source}"
            )
        reader = readers[-1]
    return source, reader


def _named(s: Any, which: Any, names: list[str], call: str, role: str) -> str | None:
    """Return the stage that ``which`` names, or that computes it as one of its outputs."""
    if which is None:
        return None
    name = which if isinstance(which, str) else getattr(which, "name", str(which))
    if isinstance(which, Tensor):
        name = s.state.defined.get(which, name)
    if name not in names:
        raise PlotError(f"{call}(..., {role}={name}): choose one of {', '.join(names)}")
    return str(name)


@dataclass(frozen=True, eq=False)
class _Moment:
    """A producer and a consumer in the timeline of a nest."""

    subject: Subject
    line: Timeline
    state: State
    producer: str
    consumer: str
    call: str

    @cached_property
    def placement(self) -> Placement:
        return placement_of(self.state)

    def at(self, element: Any) -> Placed:
        line, reader = self.line, self._buffer(self.consumer)
        if reader is None:
            raise PlotError(
                f"{self.call}(..., consumer={self.consumer}): it is inlined; choose a "
                "stage that is stored"
            )
        shape = line.shape(reader)
        chosen = self._element(element, shape)
        every, mine = self._writes(self.consumer), self._writes(self.producer)
        writes = [write for write in every if write[0].store.reducer is None]
        mine = [write for write in mine if write[0].store.reducer is None]
        reading = self._reading(every) if mine else writes
        flat = int(np.ravel_multi_index(chosen, shape)) if shape else 0
        step, site, point = self._step(reading, flat, chosen)
        shared = self._shared(site, mine)
        begin, end = self._iteration(site, point, shared)
        computed = np.zeros(shape, bool)
        iteration, present = computed.copy(), computed.copy()
        for _, place, inside, times in writes:
            computed.ravel()[place[inside & (times < step)]] = True
        for _, place, inside, times in every:
            iteration.ravel()[place[inside & (times >= begin) & (times < end)]] = True
            present.ravel()[place[inside & (times == step)]] = True
        if not shared:
            iteration[...] = False
        inline = not mine
        counts = self._inline(writes, step) if inline else self._stored(mine, begin, step)
        earlier, now, whole, read = counts
        if not inline:
            read = self._read(site, step, earlier.shape)
            if not shared:
                earlier, now = earlier + now, np.zeros_like(now)
        stored, size = self._storage(site, point, earlier.shape, inline)
        if not inline and not self.state.stages[self.producer].layout:
            stored, size = self._ring(stored, size, mine, step, site, point)
        names = line.nest.names
        loops = tuple(
            (names.get(loop.axis, loop.axis.name), int(point[k]))
            for k, loop in enumerate(site.loops)
            if loop in shared
        )
        reused = stored & (earlier > 0) & (now == 0)
        return Placed(
            self.subject.title,
            self.producer,
            self.consumer,
            self._where(),
            chosen,
            loops,
            earlier,
            now,
            read,
            stored,
            computed & ~present,
            present,
            iteration,
            int(whole.sum()),
            int((whole > 0).sum()),
            size,
            bool(shared) and bool(reused.any()),
            step,
        )

    def in_order(self) -> list[Placed]:
        """Return the moments of all elements of the consumer, in the order of their steps."""
        reader = self._buffer(self.consumer)
        shape = () if reader is None else self.line.shape(reader)
        if prod(shape) > MOST_MOMENTS:
            raise PlotError(
                explain(
                    f"{self.call}(..., moves=True)",
                    f"{self.consumer} has {prod(shape):,} elements, and a picture that moves has "
                    f"a step for each, at most {MOST_MOMENTS}",
                    "Declare the computation at a smaller size, such as 8 rows.",
                )
            )
        every = [self.at(element) for element in np.ndindex(*shape)]
        return sorted(every, key=lambda one: one.step)

    def _buffer(self, stage: str) -> Buffer | None:
        tensors = self.state.stages[stage].outputs
        return next((b for b in self.line.nest.buffers if b.tensor in tensors), None)

    def _element(self, element: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
        if not prod(shape):
            raise PlotError(f"{self.call}: {self.consumer} has the shape {shape}, and no element")
        if element is None:
            return tuple(extent // 2 for extent in shape)
        indices = tuple(element) if isinstance(element, (tuple, list)) else (element,)
        fits = len(indices) == len(shape) and all(
            hasattr(k, "__index__") and 0 <= int(k) < n for k, n in zip(indices, shape)
        )
        if not fits:
            raise PlotError(
                f"{self.call}(..., element={element!r}): {self.consumer} has the shape {shape}"
            )
        return tuple(int(k) for k in indices)

    def _writes(self, stage: str) -> list[tuple[Timed, np.ndarray, np.ndarray, np.ndarray]]:
        """Return the stores of a stage, with the element, whether there is one, and the time."""
        buffer, stores = self._buffer(stage), []
        for site in self.line.sites:
            for access in site.accesses:
                # a stage has a buffer in each part of a loop that is cut
                if access.stores and buffer and access.buffer.tensor is buffer.tensor:
                    refuse_gather(access)
                    place, inside = self.line.positions(site, access)
                    stores.append((site, place, inside, site.times))
        return stores

    def _reading(self, writes: list[Any]) -> list[Any]:
        """Return the stores of the consumer that read the producer."""
        tensors = self.state.stages[self.producer].outputs
        readers = [
            write
            for write in writes
            if any(a.buffer.tensor in tensors and not a.stores for a in write[0].accesses)
        ]
        if not readers:
            raise PlotError(f"{self.call}: {self.consumer} does not read {self.producer}")
        return readers

    def _step(
        self, writes: list[Any], flat: int, chosen: tuple[int, ...]
    ) -> tuple[int, Timed, tuple[int, ...]]:
        """Return the first step that computes an element, its statement and its iterations."""
        best: tuple[int, Timed, tuple[int, ...]] | None = None
        for site, place, inside, times in writes:
            hits = np.argwhere(inside & (place == flat))
            for hit in hits[:1]:
                at = int(times[tuple(hit)])
                if best is None or at < best[0]:
                    best = at, site, tuple(map(int, hit))
        if best is None:
            raise PlotError(
                f"{self.call}(..., element={chosen}): the nest does not compute that element of "
                f"{self.consumer}"
            )
        return best

    def _shared(self, site: Timed, mine: list[Any]) -> list[For]:
        """Return the loops around both the consumer's statement and the producer's."""
        around = [set(map(id, write[0].loops)) for write in mine]
        return [loop for loop in site.loops if around and all(id(loop) in a for a in around)]

    def _iteration(self, site: Timed, point: tuple[int, ...], shared: list[For]) -> tuple[int, int]:
        """Return the times at which the current iteration of the innermost shared loop runs."""
        if not shared:
            return 0, self.line.length
        base, units = self.line.starts[id(shared[-1])]
        begin = base + sum(unit * at for unit, at in zip(units, point))
        return begin, begin + max(units[-1], 1)

    def _stored(
        self, mine: list[Any], begin: int, step: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        buffer = self._buffer(self.producer)
        assert buffer is not None
        shape = self.line.shape(buffer)
        size = prod(shape)
        parts = []
        for low, high in ((-1, begin), (begin, step), (-1, self.line.length)):
            total = np.zeros(size, np.int64)
            for _, place, inside, times in mine:
                total += np.bincount(
                    place[inside & (times >= low) & (times < high)], minlength=size
                )
            parts.append(total.reshape(shape))
        earlier, now, whole = parts
        return earlier, now, whole, np.zeros(shape, bool)

    def _read(self, site: Timed, step: int, shape: tuple[int, ...]) -> np.ndarray:
        """Return the elements of the producer that a step of the consumer reads."""
        elements = np.zeros(shape, bool)
        tensors = self.state.stages[self.producer].outputs
        for access in site.accesses:
            if not access.stores and access.buffer.tensor in tensors:
                refuse_gather(access)
                place, inside = self.line.positions(site, access)
                elements.ravel()[place[inside & (site.times == step)]] = True
        return elements

    def _storage(
        self, site: Timed, point: tuple[int, ...], shape: tuple[int, ...], inline: bool
    ) -> tuple[np.ndarray, int]:
        """Return which elements of the producer have storage at this step, and its bytes."""
        stored = np.zeros(shape, bool)
        tensors = self.state.stages[self.producer].outputs
        read = (a.buffer for a in site.accesses if not a.stores and a.buffer.tensor in tensors)
        buffer = next(read, None)
        if inline or buffer is None:
            return stored, 0
        extents = shape_of(buffer.shape)
        size = prod(extents) * itemsize(buffer.dtype)
        alloc = self.line.places.get(buffer)
        if alloc is None or alloc.layout:
            stored[...] = True
            return stored, size
        values: dict[Any, Any] = dict(self.line.known)
        values.update({loop.axis: at for loop, at in zip(site.loops, point)})
        box = []
        for low, extent in zip(alloc.origin, extents):
            start = int(evaluate(to_expr(low), values))
            box.append(slice(max(start, 0), max(start + extent, 0)))
        stored[tuple(box)] = True
        return stored, size

    def _ring(
        self,
        stored: np.ndarray,
        size: int,
        mine: list[Any],
        step: int,
        site: Timed,
        point: tuple[int, ...],
    ) -> tuple[np.ndarray, int]:
        """Return what is stored if the nest keeps a ring of rows: the last row of each place."""
        tensors = self.state.stages[self.producer].outputs
        rings = (s for s, _ in walk(self.subject.nest.body) if isinstance(s, Alloc))
        ring = next((s for s in rings if s.buffer.tensor in tensors and s.layout), None)
        mine_here = next((b for b in self.line.places if b.tensor in tensors), None)
        if ring is None or mine_here is None or self.line.places[mine_here].layout:
            return stored, size
        (part,) = (part for part in ring.layout if part.modulus)
        values: dict[Any, Any] = dict(self.line.known)
        values.update({loop.axis: at for loop, at in zip(site.loops, point)})
        origin = int(evaluate(to_expr(self.line.places[mine_here].origin[part.dim]), values))
        times_written = np.full(stored.shape, -1, np.int64)
        for _, place, inside, times in mine:
            now = inside & (times <= step)
            np.maximum.at(times_written.ravel(), place[now], times[now])
        times_written[~stored] = -1
        rows = np.moveaxis(times_written, part.dim, 0).copy()
        slots = (np.arange(rows.shape[0]) - origin) % part.modulus
        for slot in range(part.modulus):
            # a later row has overwritten the others in its place
            same = rows[slots == slot]
            same[same < same.max(axis=0, initial=-1)] = -1
            rows[slots == slot] = same
        extents = shape_of(ring.buffer.shape)
        present = np.moveaxis(rows, 0, part.dim) >= 0
        return present, prod(extents) * itemsize(ring.buffer.dtype)

    def _inline(
        self, writes: list[Any], step: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return how often each element of an inlined producer is computed, as reads decide."""
        reads = InlinedReads(self.state, self.placement, self.producer, self.line.known, self.call)
        reader = self._buffer(self.consumer)
        assert reader is not None
        within = self.line.shape(reader)
        parts = []
        for low, high in ((-1, step), (step, step + 1), (-1, self.line.length)):
            total = np.zeros(prod(reads.shape), np.int64)
            for _, place, inside, times in writes:
                flat = place[inside & (times >= low) & (times < high)]
                index = np.unravel_index(flat, within) if within else ()
                for at in reads.of(self.consumer, list(index), flat.size):
                    total += np.bincount(at, minlength=total.size)
            parts.append(total.reshape(reads.shape))
        earlier, now, whole = parts
        return earlier, now, whole, now > 0

    def _where(self) -> str:
        placement = self.placement
        attach = placement.attach[self.producer]
        if isinstance(attach, Inline):
            return "inline"
        text = "compute_root"
        if isinstance(attach, At):
            text = f"compute_at {self._loop(attach)}"
        store = placement.store.get(self.producer)
        if isinstance(store, At):
            text += f", store_at {self._loop(store)}"
        elif isinstance(store, Root) and isinstance(attach, At):
            text += ", store_root"
        return text

    def _loop(self, place_: At) -> str:
        return f"{place_.axis.name} of {place_.stage}"
