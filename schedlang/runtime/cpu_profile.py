"""Profiles of CPU kernels: choose loops, run the kernel with time stamps, and add up the times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from time import perf_counter

import numpy as np

from schedlang.errors import CallError
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import For, Store, walk
from schedlang.machine.loop_tree import Place, around, loop_tree
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import For as Loop
from schedlang.machine.nodes import Function, Num, Reg
from schedlang.machine.passes.stamps import WHOLE, Slots, slots_of, with_calls_in_loops, with_stamps
from schedlang.machine.verify import verify_machine
from schedlang.machine.walks import walk as walk_machine
from schedlang.runtime.profile import Part, Profile
from schedlang.target import Target

Start = Callable[..., None]
# of the time that stamps may take, the part of those around loops that are not a stage's outermost
INNER = 0.2
# how often loops are chosen, if the kernel was faster than it seemed
CHOICES = 3
# the shortest time of all calls with stamps, in seconds, and their greatest number
WINDOW, MOST = 0.3, 1000
# pairs of stamps that are timed, compiled and in Python, and how often: other work on the machine
# should leave some of the tries alone
PAIRS, PAIRS_IN_PYTHON, TRIES = 10_000, 200, 50


@dataclass(frozen=True)
class Subject:
    """A kernel to profile: ``run`` starts it, and ``load`` returns the function of another nest.

    ``flat`` are its arguments: flat arrays, scalars and sizes. ``threads`` is the greatest number
    that a parallel loop can have.
    """

    name: str
    target: Target
    nest: Nest
    machine: MachineNest
    run: Start
    load: Callable[[MachineNest], Start]
    flat: Sequence[object]
    threads: int


@dataclass(frozen=True)
class Stamp:
    """The cost of time stamps, in ticks: a pair takes ``whole``, ``inside`` of it is measured."""

    seconds_per_tick: float
    inside: float
    whole: float


@dataclass(frozen=True)
class Tree:
    """The chosen loops in program order, each with its outer chosen loop, or -1."""

    places: tuple[Place, ...]
    outer: tuple[int, ...]
    slots: Slots


def check_options(repeat: int, levels: int, share: float) -> None:
    """Raise :class:`~schedlang.errors.CallError` unless counts are 1 or more, ``share`` 0 to 1."""
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share <= 1:
        raise CallError(
            f"profile(..., share={share!r}): share must be a number above 0 and up to 1, the part "
            "of the kernel's time that time stamps may take"
        )
    for name, value in (("repeat", repeat), ("levels", levels)):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise CallError(f"profile(..., {name}={value!r}): {name} must be an integer, 1 or more")


def cpu_profile(subject: Subject, repeat: int, levels: int, share: float) -> Profile:
    """Return the profile of a kernel, which it calls at least ``2*repeat + 2`` times."""
    if subject.machine.invoked:
        subject = replace(subject, machine=with_calls_in_loops(subject.machine))
    most = PAIRS_IN_PYTHON if subject.target.facts.interpreted else PAIRS
    stamp = measure_stamp(subject.load, most)
    subject.run(*subject.flat)
    seconds = _seconds(subject.run, subject.flat)
    scalars = {
        p.name: int(value)  # type: ignore[call-overload]
        for p, value in zip(subject.machine.entry.parameters, subject.flat)
        if isinstance(p, Reg) and p.type.dtype.startswith(("int", "uint"))
    }
    places = loop_tree(subject.machine, scalars)
    for _ in range(CHOICES):
        # how many pairs of stamps may run
        pairs = share * seconds / (stamp.whole * stamp.seconds_per_tick)
        tree = choose(places, pairs, levels, subject.threads)
        stamped = with_stamps(subject.machine, tree.slots, subject.threads)
        verify_machine(stamped)
        start = subject.load(stamped)
        alone, calls = _calls(subject, start, tree.slots.width, repeat)
        # other work on the machine may have slowed the first calls
        if min(alone) > seconds / 2:
            break
        seconds = min(alone)
    # other work only adds to the time, and it adds to the time of a part at random
    times = min(calls, key=lambda times: int(times[0, 2 * WHOLE]))
    return _profile(subject, tree, times, stamp, min(alone), len(calls))


def choose(places: tuple[Place, ...], pairs: float, levels: int, threads: int) -> Tree:
    """Return the loops to measure by at most about ``pairs`` pairs of stamps, one after the other.

    The outermost loops of the stages come first. The other loops take a fifth of the pairs, and of
    each stage at most ``levels`` loops in each other are measured. A loop in a parallel loop is
    measured only if the iterations of that one are, too; ``threads`` share these.
    """
    chosen: set[int] = set()
    bodies: set[int] = set()
    used = 0.0

    def cost(k: int, times: float) -> float:
        shared = any(places[o].loop.parallel for o in around(places, k))
        return times / threads if shared else times

    def level(k: int) -> int:
        return sum(places[o].loop.stage == places[k].loop.stage for o in around(places, k))

    def order(k: int) -> tuple[bool, float, int]:
        return level(k) > 0, places[k].times, k

    for k in sorted(range(len(places)), key=order):
        place = places[k]
        most = pairs if level(k) == 0 else pairs * INNER
        hidden = any(places[o].loop.parallel and o not in bodies for o in around(places, k))
        if level(k) >= levels or hidden or used + cost(k, place.times) > most:
            continue
        used += cost(k, place.times)
        chosen.add(k)
        iterations = place.times * place.iterations / threads
        if place.loop.parallel and used + iterations <= pairs:
            used += iterations
            bodies.add(k)
    measured = sorted(chosen)
    numbers = {k: n for n, k in enumerate(measured)}
    outer = [next((numbers[o] for o in around(places, k) if o in chosen), -1) for k in measured]
    slots = slots_of(
        [places[k].loop for k in measured], [places[k].loop for k in measured if k in bodies]
    )
    return Tree(tuple(places[k] for k in measured), tuple(outer), slots)


def _seconds(run: Start, flat: Sequence[object]) -> float:
    """Return the seconds of the fastest of a few calls."""
    samples_: list[float] = []
    begin = perf_counter()
    while len(samples_) < 3 or (perf_counter() - begin < WINDOW / 4 and len(samples_) < MOST):
        start = perf_counter()
        run(*flat)
        samples_.append(perf_counter() - start)
    return min(samples_)


def _calls(
    subject: Subject, start: Start, width: int, repeat: int
) -> tuple[list[float], list[np.ndarray]]:
    """Call the kernel and its twin with stamps in turns; return its seconds, and the times."""
    times = np.zeros((subject.threads + 1, width), "int64")
    start(*subject.flat, times.reshape(-1))
    alone: list[float] = []
    stamps: list[np.ndarray] = []
    begin = perf_counter()
    while len(stamps) < repeat or (perf_counter() - begin < WINDOW and len(stamps) < MOST):
        before = perf_counter()
        subject.run(*subject.flat)
        alone.append(perf_counter() - before)
        times[:] = 0
        start(*subject.flat, times.reshape(-1))
        stamps.append(times.copy())
    return alone, stamps


def measure_stamp(load: Callable[[MachineNest], Start], pairs: int) -> Stamp:
    """Measure what a pair of stamps costs, by a loop with nothing but an empty loop in it."""
    empty = Loop(Reg("j"), Num(0), ())
    loop = Loop(Reg("i"), Reg("n"), (empty,))
    nest = MachineNest((Function("stamps", (Reg("n"),), (loop,)),))
    slots = slots_of([empty])
    start = load(with_stamps(nest, slots, 0))
    times = np.zeros(slots.width, "int64")
    start(1, times)
    costs: list[tuple[float, float]] = []
    seconds, ticks = 0.0, 0
    for _ in range(TRIES):
        times[:] = 0
        before = perf_counter()
        start(pairs, times)
        seconds += perf_counter() - before
        whole, inside = int(times[2 * WHOLE]), int(times[2 * slots.loops[empty]])
        ticks += whole
        costs.append((whole / pairs, inside / pairs))
    # other work on the machine only adds to the time
    cost, inside_cost = min(costs)
    return Stamp(seconds / ticks, inside_cost, cost)


@dataclass(frozen=True)
class _Times:
    """The corrected seconds of the parts in one call."""

    tree: Tree
    times: np.ndarray
    stamp: Stamp

    def ticks(self, row: int, slot: int) -> float:
        return float(self.times[row, 2 * slot])

    def runs(self, row: int, slot: int) -> int:
        return int(self.times[row, 2 * slot + 1])

    def stamps_in(self, row: int, place: int) -> int:
        """Return how many pairs of stamps a row has inside of a loop, without the loop's own."""
        slots, places = self.tree.slots, self.tree.places
        pairs = 0
        for k, inner in enumerate(places):
            if not self.is_inside(k, place):
                continue
            pairs += self.runs(row, slots.loops[inner.loop])
            if inner.loop in slots.bodies:
                pairs += self.runs(row, slots.bodies[inner.loop])
        return pairs

    def is_inside(self, place: int, outer: int) -> bool:
        """Return whether a loop is inside of another one; all are in -1, the kernel."""
        while place >= 0:
            place = self.tree.outer[place]
            if place == outer:
                return True
        return False

    def corrected(self, row: int, slot: int, stamps: int) -> float:
        """Return seconds without the part's own stamps and without ``stamps`` in it."""
        own = self.runs(row, slot) * self.stamp.inside
        ticks = self.ticks(row, slot) - own - stamps * self.stamp.whole
        return max(0.0, ticks) * self.stamp.seconds_per_tick

    def threads(self, place: int) -> dict[int, float]:
        """Return the seconds that each thread worked in a parallel loop, by its row."""
        slot = self.tree.slots.bodies.get(self.tree.places[place].loop)
        if slot is None:
            return {}
        rows = [r for r in range(1, len(self.times)) if self.runs(r, slot)]
        return {r: self.corrected(r, slot, self.stamps_in(r, place)) for r in rows}


def _profile(
    subject: Subject, tree: Tree, times: np.ndarray, stamp: Stamp, alone: float, runs: int
) -> Profile:
    measured = _Times(tree, times, stamp)
    count = len(tree.places)
    seconds, busy, times_run = [0.0] * count, [0.0] * count, [0] * count
    # the row of the code in each loop: the slowest thread's row in a parallel loop
    row_of = [0] * count
    threads: list[dict[int, float]] = [{} for _ in range(count)]
    subtracted = 0.0
    for k, place in enumerate(tree.places):
        row = row_of[tree.outer[k]] if tree.outer[k] >= 0 else 0
        slot, row_of[k] = tree.slots.loops[place.loop], row
        times_run[k] = measured.runs(row, slot)
        subtracted += times_run[k] * stamp.whole
        inside = measured.stamps_in(row, k)
        threads[k] = measured.threads(k)
        if threads[k]:
            row_of[k] = max(threads[k], key=lambda r: threads[k][r])
            inside = measured.stamps_in(row_of[k], k)
            iterations = measured.runs(row_of[k], tree.slots.bodies[place.loop])
            inside += iterations
            subtracted += iterations * stamp.whole
        outer = tree.outer[k]
        most = measured.ticks(0, WHOLE) * stamp.seconds_per_tick if outer < 0 else busy[outer]
        seconds[k] = min(most, measured.corrected(row, slot, inside))
        busy[k] = min(seconds[k], threads[k][row_of[k]]) if threads[k] else seconds[k]
    whole = measured.ticks(0, WHOLE) * stamp.seconds_per_tick
    subtracted = min(whole, (subtracted + stamp.inside) * stamp.seconds_per_tick)
    total = whole - subtracted
    own = list(busy)
    other = total
    for k, o in enumerate(tree.outer):
        if o >= 0:
            own[o] -= seconds[k]
        else:
            other -= seconds[k]
    own = [max(0.0, value) for value in own]
    stages = dict.fromkeys((p.loop.stage for p in tree.places), 0.0)
    for k, place in enumerate(tree.places):
        stages[place.loop.stage] += own[k]
    parts = tuple(
        Part(
            place.loop.axis,
            place.loop.stage,
            "parallel" if place.loop.parallel else "serial",
            sum(measured.is_inside(k, o) for o in range(count)),
            seconds[k],
            own[k],
            times_run[k],
            tuple(threads[k][r] for r in sorted(threads[k])),
        )
        for k, place in enumerate(tree.places)
    )
    waiting = sum(seconds, 0.0) - sum(busy)
    return Profile(
        subject.name,
        subject.target.kind,
        total,
        alone,
        stages,
        waiting,
        max(0.0, other),
        parts,
        subtracted,
        runs,
        _notes(subject, tree),
    )


def _notes(subject: Subject, tree: Tree) -> tuple[str, ...]:
    """Return a sentence for each stage, and for each parallel loop, that is not measured apart."""
    measured = {p.loop.stage for p in tree.places}
    written: dict[str, list[str]] = {}
    looped = _machine_stages(subject.machine)
    for stmt, _ in walk(subject.nest.body):
        if isinstance(stmt, (For, Store)) and stmt.stage and stmt.stage not in measured:
            written.setdefault(stmt.stage, [])
    notes = []
    for stage in written:
        why = (
            "its time stamps would take more time than share= allows"
            if stage in looped
            else "it has no loop in the kernel that runs"
        )
        notes.append(f"the time of {stage} is in the time of what is around it: {why}")
    for place in tree.places:
        if place.loop.parallel and place.loop not in tree.slots.bodies:
            notes.append(
                f"the threads of {place.loop.axis} are not told apart: the time stamps of its "
                "iterations would take more time than share= allows"
            )
    return tuple(notes)


def _machine_stages(nest: MachineNest) -> set[str]:
    return {
        stmt.stage
        for function in nest.functions
        for stmt, _ in walk_machine(function.body)
        if isinstance(stmt, Loop)
    }
