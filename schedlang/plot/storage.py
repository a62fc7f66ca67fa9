"""What of a producer is computed and stored when its consumer computes one element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from schedlang.analysis.graph import graph
from schedlang.analysis.points_of_stage import guarded_reads
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import PlotError, explain
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.visit import postorder
from schedlang.index.linear import to_expr
from schedlang.ir.nodes import Buffer, For
from schedlang.plot.subject import Subject, shape_of
from schedlang.plot.timeline import Timed, Timeline, points, refuse_gather, timeline
from schedlang.state.placement import Placement
from schedlang.state.placement import place as placement_of
from schedlang.state.state import At, Inline, Root, State

# the most runs of statements that are followed
MOST_POINTS = 2**22


@dataclass(frozen=True, eq=False)
class Placed:
    """A producer and its consumer at the step that computes the consumer's ``element`` first.

    ``where`` says where the producer is computed and stored, ``loops`` are the loops that both
    share, with their iterations. The arrays of the producer are:

    * ``earlier``, ``now``: how often each element was computed before the current iteration of the
      innermost shared loop, and in it until this step,
    * ``read``: the elements that this step reads; ``stored``: those that have storage.

    Of the consumer, ``consumer_earlier`` marks the elements that are done, ``consumer_now`` those
    of this step, and ``consumer_iteration`` those of the current iteration. ``computed`` counts the
    evaluations of the producer in the whole run, ``distinct`` its different elements, and ``bytes``
    are those of its storage. ``reused`` tells whether storage keeps elements of earlier iterations.
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


def placed(
    subject: Subject, producer: Any, consumer: Any, element: Any, call: str
) -> Placed:
    """Return what is computed and stored when ``element`` of ``consumer`` is computed.

    Raise :class:`~schedlang.errors.PlotError` for stages that do not read each other, an element
    outside of the consumer, a nest without its schedule, or one too large to follow.
    """
    if subject.schedule is None:
        raise PlotError(f"{call}({subject.nest.name}): a nest alone does not tell where stages are "
                        "computed; give its schedule")  # fmt: skip
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
        )  # fmt: skip
    made, reader = _stages(subject.schedule, producer, consumer, call)
    line = timeline(subject.nest, subject.values)
    found = _Moment(subject, line, state, made, reader, call)
    return found.at(element)


def _stages(s: Any, producer: Any, consumer: Any, call: str) -> tuple[str, str]:
    """Return the names of the producer and its consumer; by default the last two that fit."""
    found = graph(s)
    names = [n for n in found.nodes if found.nodes[n]["computed"] != "input"]
    made = _named(producer, names, call, "producer")
    if made is None:
        inner = [n for n in names if not found.nodes[n]["output"]]
        if not inner:
            raise PlotError(f"{call}: the schedule has one stage, {names[-1]}, and no producer")
        made = inner[-1]
    reader = _named(consumer, names, call, "consumer")
    if reader is None:
        readers = list(found.successors(made))
        while len(readers) == 1 and found.nodes[readers[0]]["computed"] == "inline":
            readers = list(found.successors(readers[0]))
        if not readers:
            raise PlotError(f"{call}(..., producer={made}): no stage reads {made}")
        reader = readers[-1]
    return made, reader


def _named(which: Any, names: list[str], call: str, role: str) -> str | None:
    if which is None:
        return None
    name = which if isinstance(which, str) else getattr(which, "name", str(which))
    if name not in names:
        raise PlotError(f"{call}(..., {role}={name}): its stages are {', '.join(names)}")
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
        assert reader is not None, "graph names the readers that are stored"
        shape = line.shape(reader)
        chosen = self._element(element, shape)
        writes = self._writes(self.consumer)
        step, site, point = self._step(writes, int(np.ravel_multi_index(chosen, shape)), chosen)
        mine = self._writes(self.producer)
        shared = self._shared(site, mine)
        begin, end = self._iteration(site, point, shared)
        done = np.zeros(shape, bool)
        iteration, present = done.copy(), done.copy()
        for _, place, inside, times in writes:
            done.ravel()[place[inside & (times < step)]] = True
            iteration.ravel()[place[inside & (times >= begin) & (times < end)]] = True
            present.ravel()[place[inside & (times == step)]] = True
        if not shared:
            iteration[:] = False
        inline = not mine
        counts = self._inline(writes, step) if inline else self._stored(mine, begin, step)
        earlier, now, whole, read = counts
        if not inline:
            read = self._read(site, step, earlier.shape)
            if not shared:
                earlier, now = earlier + now, np.zeros_like(now)
        stored, size = self._storage(site, point, earlier.shape, inline)
        names = line.nest.names
        loops = tuple((names.get(loop.axis, loop.axis.name), int(point[k]))
                      for k, loop in enumerate(site.loops) if loop in shared)  # fmt: skip
        kept = stored & (earlier > 0) & (now == 0)
        return Placed(
            self.subject.title, self.producer, self.consumer, self._where(), chosen, loops, earlier,
            now, read, stored, done & ~present, present, iteration, int(whole.sum()),
            int((whole > 0).sum()), size, bool(shared) and bool(kept.any()),
        )  # fmt: skip

    def _buffer(self, stage: str) -> Buffer | None:
        tensors = self.state.stages[stage].outputs
        return next((b for b in self.line.nest.buffers if b.tensor in tensors), None)

    def _element(self, element: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
        if element is None:
            return tuple(extent // 2 for extent in shape)
        given = tuple(element) if isinstance(element, (tuple, list)) else (element,)
        fits = len(given) == len(shape) and all(
            hasattr(k, "__index__") and 0 <= int(k) < n for k, n in zip(given, shape)
        )
        if not fits:
            raise PlotError(
                f"{self.call}(..., element={element!r}): {self.consumer} has the shape {shape}"
            )
        return tuple(int(k) for k in given)

    def _writes(self, stage: str) -> list[tuple[Timed, np.ndarray, np.ndarray, np.ndarray]]:
        """Return the stores of a stage that compute elements anew: no updates of a reduction."""
        buffer, found = self._buffer(stage), []
        for site in self.line.sites:
            if site.store.reducer is not None:
                continue
            for access in site.accesses:
                if access.stores and access.buffer is buffer and buffer is not None:
                    refuse_gather(access)
                    place, inside = self.line.positions(site, access)
                    found.append((site, place, inside, site.times))
        return found

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

    def _iteration(
        self, site: Timed, point: tuple[int, ...], shared: list[For]
    ) -> tuple[int, int]:
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
                total += np.bincount(place[inside & (times >= low) & (times < high)],
                                     minlength=size)  # fmt: skip
            parts.append(total.reshape(shape))
        earlier, now, whole = parts
        return earlier, now, whole, np.zeros(shape, bool)

    def _read(self, site: Timed, step: int, shape: tuple[int, ...]) -> np.ndarray:
        """Return the elements of the producer that the consumer reads for the elements of a step.

        A reduction reads them in the steps after its start.
        """
        found = np.zeros(shape, bool)
        tensor = self.state.stages[self.producer].outputs
        write = next(a for a in site.accesses if a.stores)
        place, inside = self.line.positions(site, write)
        chosen = np.unique(place[inside & (site.times == step)])
        for other in self.line.sites:
            if other.store.stage != site.store.stage:
                continue
            into = next(a for a in other.accesses if a.stores)
            where, there = self.line.positions(other, into)
            same = there & np.isin(where, chosen)
            for access in other.accesses:
                if not access.stores and access.buffer.tensor in tensor:
                    refuse_gather(access)
                    at, reads = self.line.positions(other, access)
                    found.ravel()[at[same & reads]] = True
        return found

    def _storage(
        self, site: Timed, point: tuple[int, ...], shape: tuple[int, ...], inline: bool
    ) -> tuple[np.ndarray, int]:
        """Return which elements of the producer have storage at this step, and its bytes."""
        stored = np.zeros(shape, bool)
        buffer = self._buffer(self.producer)
        if inline or buffer is None:
            return stored, 0
        extents = shape_of(buffer.shape)
        size = prod(extents) * itemsize(buffer.dtype)
        alloc = self.line.places.get(buffer)
        if alloc is None or alloc.layout:
            stored[:] = True
            return stored, size
        values: dict[Any, Any] = dict(self.line.known)
        values.update({loop.axis: at for loop, at in zip(site.loops, point)})
        box = []
        for low, extent in zip(alloc.origin, extents):
            start = int(evaluate(to_expr(low), values))
            box.append(slice(max(start, 0), max(start + extent, 0)))
        stored[tuple(box)] = True
        return stored, size

    def _inline(
        self, writes: list[Any], step: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return how often each element of an inlined producer is computed, as reads decide."""
        op = self.state.stages[self.producer].outputs[0]
        extents = [e if isinstance(e, int) else int(evaluate(e, self.line.known)) for e in op.shape]
        shape = tuple(extents)
        size = prod(shape)
        reader = self._buffer(self.consumer)
        assert reader is not None
        parts = []
        for low, high in ((-1, step), (step, step + 1), (-1, self.line.length)):
            total = np.zeros(size, np.int64)
            for _, place, inside, times in writes:
                flat = place[inside & (times >= low) & (times < high)]
                index = np.unravel_index(flat, self.line.shape(reader))
                for at in self._evaluated(self.consumer, list(index)):
                    total += np.bincount(np.ravel_multi_index(at, shape).ravel(), minlength=size)
            parts.append(total.reshape(shape))
        earlier, now, whole = parts
        return earlier, now, whole, now > 0

    def _evaluated(self, stage: str, index: list[Any]) -> list[tuple[Any, ...]]:
        """Return the producer's elements that computing elements of ``stage`` evaluates."""
        op = self.state.stages[stage].op
        assert isinstance(op, ComputeOp)
        values: dict[Any, Any] = dict(self.line.known)
        wide = [np.asarray(k).reshape(-1, *[1] * len(op.reduce_axis)) for k in index]
        values.update(zip(op.axis, wide))
        for k, axis in enumerate(op.reduce_axis):
            low, extent = (
                n if isinstance(n, int) else int(evaluate(n, self.line.known))
                for n in (axis.lo, axis.extent)
            )
            place_ = [1] * (1 + len(op.reduce_axis))
            place_[k + 1] = extent
            values[axis] = np.arange(low, low + extent).reshape(place_)
        found: list[tuple[Any, ...]] = []
        seen: set[Any] = set()
        for read, held in guarded_reads(op):
            key = (read.tensor, str(read), tuple((str(cond), holds) for cond, holds in held))
            if key in seen:
                continue
            seen.add(key)
            found += self._through(read, held, values)
        return found

    def _through(self, read: Read, held: Any, values: Mapping[Any, Any]) -> list[tuple[Any, ...]]:
        name = self.state.defined.get(read.tensor)
        inlined = name is not None and isinstance(self.placement.attach[name], Inline)
        if name != self.producer and not inlined:
            return []
        roots = [*read.indices, *(cond for cond, _ in held)]
        if any(isinstance(node, Read) for node in postorder(roots)):
            raise PlotError(f"{self.call}: an index of {self.producer} depends on data")
        at = [np.asarray(evaluate(index, values)) for index in read.indices]
        tests = [np.asarray(evaluate(cond, values)) == holds for cond, holds in held]
        at = list(np.broadcast_arrays(*at))
        mask = np.ones(at[0].shape, bool)
        for test in tests:
            mask = mask & test
        kept = [a[mask] for a in at]
        if name == self.producer:
            return [tuple(kept)]
        assert name is not None
        return self._evaluated(name, kept)

    def _where(self) -> str:
        found = self.placement
        attach = found.attach[self.producer]
        if isinstance(attach, Inline):
            return "inline"
        text = "compute_root"
        if isinstance(attach, At):
            text = f"compute_at {self._loop(attach)}"
        store = found.store.get(self.producer)
        if isinstance(store, At):
            text += f", store_at {self._loop(store)}"
        elif isinstance(store, Root) and isinstance(attach, At):
            text += ", store_root"
        return text

    def _loop(self, place_: At) -> str:
        return f"{place_.axis.name} of {place_.stage}"


__all__ = ["MOST_POINTS", "Placed", "placed"]
