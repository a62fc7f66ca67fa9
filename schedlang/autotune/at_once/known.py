"""Schedules from the tuning databases: of the same sizes, or of near ones with fitting knobs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log2

from schedlang.autotune.best import packaged
from schedlang.autotune.database import Database, nearest_first
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.model.problems import space_of
from schedlang.autotune.model.rename import rename_decisions
from schedlang.autotune.record import UNTUNED, Where
from schedlang.autotune.records.distance import differences, ratio
from schedlang.autotune.records.entry import Entry
from schedlang.autotune.records.replay import replay
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.text import one_line
from schedlang.compute.data import structure
from schedlang.compute.rename import Names, names_of
from schedlang.compute.tensor import Tensor
from schedlang.errors import SchedlangError
from schedlang.lowering.lower import verify_state
from schedlang.runtime.environment import machine
from schedlang.schedule.schedule import Schedule, empty_schedule
from schedlang.version import __version__

# sizes that are at most this many times larger or smaller are near
NEAR = 4
# the most entries that are tried, as their steps or knobs need not fit
MOST_TRIED = 8


@dataclass(frozen=True)
class Known:
    """A schedule from a database.

    ``note`` says where it was measured and what differs, and ``place`` is the line of the database.
    """

    schedule: Schedule
    same_sizes: bool
    same_threads: bool
    note: str
    place: str


def sources(
    outputs: Sequence[Tensor], database: Database | str | os.PathLike[str] | None
) -> list[Database]:
    """Return the databases to look in: the given one, or those that :func:`schedlang.best` takes.

    Raise :class:`~schedlang.errors.TuningError` for a file that cannot be read.
    """
    if isinstance(database, Database):
        return [database]
    op = structure(outputs).key
    return [Database(database, op), *(packaged(op) if database is None else ())]


def find_known(problem: Problem, databases: Sequence[Database]) -> Known | None:
    """Return the fastest schedule that a database has for these sizes, or else for near ones.

    It was measured for the same vectors, or the same GPU. If it was measured with another number of
    threads, or for other sizes, its knobs are made legal for the threads and sizes of ``problem``.
    """
    tried = 0
    for where, entry in _nearest_first(problem, databases):
        apart = _sizes_apart(where, entry.where)
        if apart > log2(NEAR) or not _same_target(where, entry.where):
            continue
        if apart and entry.trial.strategy == UNTUNED:
            # another size may well gain from steps
            continue
        tried += 1
        if tried > MOST_TRIED:
            break
        same = _same_threads(problem, entry)
        schedule = _schedule_of(problem, entry, replays=not apart and same)
        if schedule is not None:
            place = f"line {entry.line} of {entry.path}"
            return Known(schedule, not apart, same, _note(where, entry), place)
    return None


def fastest(problem: Problem, databases: Sequence[Database]) -> Entry | None:
    """Return the entry of :func:`find_known` for these sizes, whether its steps fit or not."""
    for where, entry in _nearest_first(problem, databases):
        if not _sizes_apart(where, entry.where) and _same_target(where, entry.where):
            return entry
    return None


def _nearest_first(
    problem: Problem, databases: Sequence[Database]
) -> Iterator[tuple[Where, Entry]]:
    """Yield the timed entries of this computation, nearest first, each with what it is near to.

    Loops without a schedule are left out where nothing else was timed: a schedule may be faster.
    """
    entries = list(nearest_first(databases, _places(problem), problem.outputs))
    compared = {entry.where for *_, entry in entries if entry.trial.strategy != UNTUNED}
    for where, _, entry in entries:
        if entry.trial.strategy != UNTUNED or entry.where in compared:
            yield where, entry


def _places(problem: Problem) -> Iterator[Where]:
    """Yield what to look for: a schedule for C or for the emulator may be measured with numba."""
    target = problem.target
    sizes = {v.name: n for v, n in problem.sizes.items()}
    # versions do not matter here, as steps are checked when they are replayed
    versions = (("schedlang", __version__),)
    # the name of a GPU would cost a start of its driver, and the architecture says enough
    here = str(target.kind) if target.arch else machine()
    for kind in dict.fromkeys((str(target.kind), target.facts.measured_as)):
        # a record names the vectors of a processor, and no triple
        features = () if target.triple else target.features
        measured = replace(target, kind=kind, features=features, triple="", cpu="")
        compiler = problem.compiler if measured == target else ""
        yield Where.here(problem.outputs, measured, sizes, here, versions, compiler)


def _sizes_apart(wanted: Where, recorded: Where) -> float:
    """Return the largest distance of two sizes."""
    mine, theirs = dict(wanted.sizes), dict(recorded.sizes)
    if mine.keys() != theirs.keys() or len(wanted.extents) != len(recorded.extents):
        return float("inf")
    pairs = [(mine[n], theirs[n]) for n in mine] + list(zip(wanted.extents, recorded.extents))
    return max((ratio(a, b) for a, b in pairs), default=0.0)


def _same_target(wanted: Where, recorded: Where) -> bool:
    return wanted.target == recorded.target


def _same_threads(problem: Problem, entry: Entry) -> bool:
    """Return whether as many threads measured an entry of a CPU as are planned for here."""
    if problem.target.facts.binds_threads:
        return True
    counts = re.search(r", (\d+) cores(?:, (\d+) threads)?$", entry.where.machine)
    return counts is not None and int(counts[2] or counts[1]) == problem.threads


def _schedule_of(problem: Problem, entry: Entry, replays: bool) -> Schedule | None:
    """Return the schedule of an entry for ``problem``; ``None`` if neither steps nor knobs fit."""
    if entry.trial.strategy == UNTUNED:
        return empty_schedule(list(problem.outputs))
    try:
        return _replay(problem, entry) if replays else _fit_knobs(problem, entry)
    except (SchedlangError, Rejected):
        # steps or knobs for another size need not fit
        return None


def _replay(problem: Problem, entry: Entry) -> Schedule:
    schedule = replay(entry, problem.outputs)
    verify_state(schedule.state)
    return schedule


def _fit_knobs(problem: Problem, entry: Entry) -> Schedule | None:
    """Return the schedule of an entry's decisions, each made legal for ``problem``.

    The steps of a template of the user are replayed, as only that template knows its knobs.
    """
    if entry.trial.template or not entry.trial.decisions:
        return _replay(problem, entry)
    decisions = entry.trial.decisions
    if entry.names != Names():
        own = rename_decisions(decisions, entry.names, names_of(problem.outputs))
        if own is None:
            return None
        decisions = own
    space = space_of(problem)
    near = replace(space, pick=space.moves.nearest(decisions))
    return near.draw(None, decisions).schedule


def _note(where: Where, entry: Entry) -> str:
    """Return a phrase that says where a schedule was measured, and what differs."""
    alike = replace(entry.where, versions=where.versions, machine=where.machine)
    tuned = [*differences(where, alike), f"on {one_line(entry.where.machine)}"]
    return f"tuned {', '.join(tuned)}"
