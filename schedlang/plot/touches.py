"""The steps at which a loop nest touches a buffer: the numbers behind pictures of order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from schedlang.errors import PlotError, explain
from schedlang.ir.nodes import Buffer, For
from schedlang.plot.boxes import drawn_box
from schedlang.plot.limits import MOST_ELEMENTS, MOST_POINTS, Cut, cuts
from schedlang.plot.subject import Subject, buffer_of
from schedlang.plot.timeline import Timed, Timeline, refuse_gather, timeline

WHAT = {"touch": (True, False), "store": (True,), "load": (False,)}


@dataclass(frozen=True, eq=False)
class Level:
    """A loop, and its iteration when each element is first touched (-1 where it is not in it)."""

    loop: str
    kind: str
    iteration: np.ndarray


@dataclass(frozen=True, eq=False)
class Touches:
    """The steps at which a nest touches each element of a buffer.

    ``first`` and ``last`` are the steps of the first and the last touch, -1 for an element that is
    never touched; ``count`` is the number of steps that touch it. ``steps`` is the number of all
    steps. ``times`` and ``elements`` list every touch in order: its step, and the flat position of
    the element. ``levels`` are the loops around the first touches, outer to inner. If the picture
    is in part, the arrays cover the smallest box around all touched elements. The box begins at
    ``origin`` in the buffer.
    """

    title: str
    buffer: str
    first: np.ndarray
    last: np.ndarray
    count: np.ndarray
    steps: int
    times: np.ndarray
    elements: np.ndarray
    levels: tuple[Level, ...]
    cut: tuple[Cut, ...]
    parallel: bool
    origin: tuple[int, ...] = ()

    def frames(self, number: int) -> np.ndarray:
        """Return the elements touched in each of ``number`` equal parts of the steps, as bools."""
        touched = np.zeros((number, self.first.size), bool)
        touched[self.times * number // max(self.steps, 1), self.elements] = True
        return touched.reshape(number, *self.first.shape)


def touches(
    subject: Subject,
    which: Sequence[Any],
    what: str,
    call: str,
    most_points: int = MOST_POINTS,
    most_elements: int = MOST_ELEMENTS,
    elements_first: bool = False,
) -> list[Touches]:
    """Return when the nest of ``subject`` touches each buffer of ``which``.

    ``what`` is ``"touch"``, ``"store"`` or ``"load"``. The limits of :func:`cuts` hold for the
    first buffer. Raise :class:`~schedlang.errors.PlotError` for an unknown buffer, and where data
    decide the order.
    """
    if what not in WHAT:
        raise PlotError(f"{call}(..., what={what!r}): choose one of {', '.join(WHAT)}")
    if not which:
        raise PlotError(f"{call}(..., buffer=[]): give at least one buffer")
    nest = subject.unfolded
    buffers = [buffer_of(nest, one, call) for one in which]
    most, cut = cuts(nest, buffers[0], subject.values, most_points, most_elements, elements_first)
    line = timeline(nest, subject.values, most)
    ranks = line.ranks()
    return [_of_buffer(subject.title, line, ranks, buffer, what, cut) for buffer in buffers]


def _of_buffer(
    title: str, line: Timeline, ranks: np.ndarray, buffer: Buffer, what: str, cut: tuple[Cut, ...]
) -> Touches:
    # a name stands for all allocations of one stage
    same = [b for b in line.nest.buffers if b.name == buffer.name]
    times: list[np.ndarray] = []
    elements: list[np.ndarray] = []
    origins: list[tuple[Timed, np.ndarray]] = []
    for site in line.sites:
        for access in site.accesses:
            if access.buffer not in same or access.stores not in WHAT[what]:
                continue
            refuse_gather(access)
            place, inside = line.positions(site, access)
            at = np.flatnonzero(inside)
            times.append(ranks[site.times.ravel()[at]])
            elements.append(place.ravel()[at])
            origins.append((site, at))
    if not times:
        verb = {"touch": "touches", "store": "stores to", "load": "loads from"}[what]
        raise PlotError(
            explain(
                f"iteration_order(..., buffer={buffer.name}, what={what!r})",
                f"the nest of {line.nest.name} never {verb} {buffer.name}",
                'Choose another buffer, or what="touch".',
            )
        )
    every = np.concatenate(times)
    asked = f"iteration_order(..., buffer={buffer.name})"
    where, origin, shape = drawn_box(np.concatenate(elements), line.shape(buffer), bool(cut), asked)
    size = prod(shape)
    numbers = np.concatenate([np.full(t.size, k) for k, t in enumerate(times)])
    within = np.concatenate([at for _, at in origins])
    # a step that loads and stores an element touches it once; the keys are in the order of time
    _, unique = np.unique(every * size + where, return_index=True)
    every, where, numbers, within = every[unique], where[unique], numbers[unique], within[unique]
    # the first of equal keys is the earliest, since the touches are in order
    elements_found, begin = np.unique(where, return_index=True)
    first = np.full(size, -1, np.int64)
    last = np.full(size, -1, np.int64)
    first[elements_found] = every[begin]
    last[where] = every
    count = np.bincount(where, minlength=size)
    levels = _levels(
        line, [site for site, _ in origins], elements_found, numbers[begin], within[begin], shape
    )
    parallel = any(loop.kind == "parallel" for site in line.sites for loop in site.loops)
    return Touches(
        title,
        buffer.name,
        first.reshape(shape),
        last.reshape(shape),
        count.reshape(shape),
        int(ranks[-1]),
        every,
        where,
        levels,
        cut,
        parallel,
        origin,
    )


def _levels(
    line: Timeline,
    sites: Sequence[Timed],
    elements: np.ndarray,
    site_of: np.ndarray,
    point: np.ndarray,
    shape: tuple[int, ...],
) -> tuple[Level, ...]:
    """Return the loops around the first touch of each element, with their iterations then."""
    levels: dict[str, tuple[For, np.ndarray]] = {}
    for k, site in enumerate(sites):
        mine = site_of == k
        if not mine.any() or not site.counts:
            continue
        places = np.unravel_index(point[mine], site.counts)
        for loop, place in zip(site.loops, places):
            name = line.nest.names.get(loop.axis, loop.axis.name)
            if name not in levels:
                levels[name] = loop, np.full(shape, -1, np.int64)
            levels[name][1].ravel()[elements[mine]] = place
    return tuple(
        Level(name, loop.tag or loop.kind, iteration) for name, (loop, iteration) in levels.items()
    )
