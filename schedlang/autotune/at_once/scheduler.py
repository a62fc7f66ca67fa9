"""``autoschedule``: a good schedule at once, without a search."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from schedlang.autotune.at_once.known import find_known, sources
from schedlang.autotune.at_once.plain import plain_schedule
from schedlang.autotune.database import Database
from schedlang.autotune.model.by_model import by_model
from schedlang.autotune.model.parallel_loops import without_useless_threads
from schedlang.autotune.model.problems import (
    assumed_sizes,
    problem_of,
    refuse_calls,
    space_of,
)
from schedlang.autotune.record import NEAR_SIZE
from schedlang.autotune.records.warn import warn
from schedlang.autotune.sizes import checked_sizes
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tactics.registries import registry_for
from schedlang.compute.precision import warn_of_float64
from schedlang.errors import ComputeTypeError, PlainScheduleWarning, first_line
from schedlang.runtime.collection import no_collection
from schedlang.schedule.schedule import Schedule, empty_schedule
from schedlang.signatures import public
from schedlang.target import Target, TargetLike

# a schedule is clearly slower if its estimate is more than this many times the model's
CLEARLY_SLOWER = 1.25
# where a schedule comes from
DATABASE, MODEL, PLAIN = "database", "model", "plain"


@dataclass(frozen=True)
class Choice:
    """A schedule, and where it comes from.

    * ``origin``: ``"database"`` if a search measured it at these sizes, for these vectors or this
      GPU. Loops without a schedule count only if a search timed schedules there too. ``"near
      size"`` if a search measured it at other sizes, at most four times larger or smaller, and its
      knobs were made legal for these; so are the knobs of a record of another number of threads. A
      schedule is passed over if the cost estimate finds it over 1.25 times slower than the model's.
      ``"model"`` if the cost model chose it, group by group of stages that may share loops: first
      whether stages are inlined and which tactic computes each, then tiles, then the rest.
      ``"plain"`` if neither gave one.
    * ``note``: one line about it: where it was measured and what differs, the assumed sizes, or why
      it is plain.
    * ``assumed``: the numbers assumed for symbolic sizes that were not given, by name.
    * ``place``: the line of the database.
    """

    schedule: Schedule = field(repr=False)
    origin: str
    note: str = ""
    assumed: Mapping[str, int] = field(default_factory=dict)
    place: str = ""


@public
def autoschedule(
    outputs: Any,
    target: TargetLike | None = None,
    sizes: Mapping[Any, int] | None = None,
    database: Database | str | os.PathLike[str] | None = None,
) -> Schedule:
    """Return a good schedule of ``outputs``, a tensor or a list of them, in a second or less.

    Nothing is compiled or measured. The schedule comes from a tuning database if a search measured
    these sizes. Otherwise it may come from the nearest sizes that were measured, up to a factor of
    4, with its knobs made legal for these sizes. Without either, the tactics of
    :func:`schedlang.autotune` make it, and their cost model decides each knob, as in Halide's
    autoschedulers (Mullapudi et al., SIGGRAPH 2016). The same computation always gets the same
    schedule on one machine, as long as the databases do not change.

    * ``target``: as :func:`~schedlang.targets.build.build` takes it. What it leaves out, such as
      the vector width, is this machine's. A CPU is planned for as many threads as
      :func:`schedlang.autotune` would use here.
    * ``sizes``: values of symbolic sizes to plan for, by name or by ``sl.var``. Others are assumed
      to be 256. The schedule is right for every size.
    * ``database``: a file or a :class:`~schedlang.autotune.database.Database` to look in, instead
      of the one in the cache folder and the ones that come with schedlang.

    :func:`choose` also tells where the schedule comes from. If neither a database nor the tactics
    give one, a :class:`~schedlang.errors.PlainScheduleWarning` says why, and the schedule is plain:
    each stage at root, its outer loops in parallel.

    Raise :class:`~schedlang.errors.ComputeTypeError` and :class:`~schedlang.errors.ComputeError`
    for what :func:`schedlang.schedule` refuses, :class:`~schedlang.errors.TuningError` for a size
    or a database that does not fit, :class:`~schedlang.errors.BuildError` for an unknown target,
    and for one whose tactics are not a registry.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((512, 512), name="A"), sl.placeholder((512, 512), name="B")
    >>> k = sl.reduce_axis(512, name="k")
    >>> C = sl.compute((512, 512), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> s = sl.autoschedule(C)
    >>> {"vectorize", "unroll", "parallel"} <= {step.primitive for step in s.steps}
    True
    """
    choice = choose(outputs, target, sizes, database)
    if choice.origin == PLAIN:
        names = ", ".join(t.name for t in choice.schedule.outputs)
        warn(f"autoschedule({names}): the schedule is plain: {choice.note}", PlainScheduleWarning)
    return choice.schedule


@public
def choose(
    outputs: Any,
    target: TargetLike | None = None,
    sizes: Mapping[Any, int] | None = None,
    database: Database | str | os.PathLike[str] | None = None,
    cold: Collection[str] = (),
    team: bool = False,
    compiler: str = "",
) -> Choice:
    """Return the schedule of :func:`autoschedule`, and where it comes from.

    The cost model assumes that the caches have what fits them, and that threads start late on a
    machine with other work. A kernel may run among others: ``cold`` are then the names of the
    inputs that come from memory in each call, and ``team`` says that other threads wait for work
    when the kernel starts. Records of ``compiler`` come before other records. Raise what
    :func:`autoschedule` raises, and never warn of a plain schedule.

    >>> import schedlang as sl
    >>> A = sl.placeholder((sl.var("n"),), name="A")
    >>> B = sl.compute(A.shape, lambda i: A[i] + 1, name="B")
    >>> choice = choose(B)
    >>> choice.origin, dict(choice.assumed)
    ('model', {'n': 256})
    """
    # a collection would walk all objects of the process, and draws leave few cycles behind
    with no_collection():
        return _choose(outputs, target, sizes, database, cold, team, compiler)


def _choose(
    outputs: Any,
    target: TargetLike | None,
    sizes: Mapping[Any, int] | None,
    database: Database | str | os.PathLike[str] | None,
    cold: Collection[str],
    team: bool,
    compiler: str,
) -> Choice:
    """Return what :func:`choose` does."""
    if isinstance(outputs, Schedule):
        raise ComputeTypeError(
            "autoschedule(schedule): give the tensor instead; it makes a schedule of its own"
        )
    tensors = empty_schedule(outputs, "autoschedule").outputs
    warn_of_float64(tensors)
    device = Target.of(target)
    refuse_calls(tensors, device, "sl.autoschedule")
    # for a mistake in a package's tactics, an error says more than a plain schedule
    registry_for(device)
    given = checked_sizes("autoschedule", tensors, sizes)
    problem = problem_of(tensors, device, given, compiler)
    problem = replace(problem, cold=frozenset(cold), team=team)
    guessed = assumed_sizes(problem, given)
    hit = find_known(problem, sources(tensors, database))
    if hit is not None and hit.same_sizes and hit.same_threads:
        return Choice(hit.schedule, DATABASE, hit.note, guessed, hit.place)
    modelled, note = _schedule_by_model(problem)
    near = None if hit is None else _unless_slower(problem, hit.schedule, modelled)
    if hit is not None and near is not None:
        origin = DATABASE if hit.same_sizes else NEAR_SIZE
        return Choice(near, origin, hit.note, guessed, hit.place)
    if modelled is None:
        return Choice(plain_schedule(problem), PLAIN, note, guessed)
    listed = ", ".join(f"{name} = {n}" for name, n in guessed.items())
    notes = [f"planned for {listed}"] if listed else []
    return Choice(modelled, MODEL, "; ".join([*notes, *([note] if note else [])]), guessed)


def _unless_slower(problem: Problem, near: Schedule, modelled: Schedule | None) -> Schedule | None:
    """Return a schedule that was made legal, ``None`` if it is clearly slower than the model's.

    The fastest schedule at one size may waste most of a vector or of a cache at another, threads
    that save time at one size may cost time at another, and loops for two threads keep only two
    busy.
    """
    if not problem.target.facts.binds_threads:
        near = without_useless_threads(near, problem)
    if modelled is None:
        return near
    space = space_of(problem)
    return near if space.seconds(near) <= CLEARLY_SLOWER * space.seconds(modelled) else None


def _schedule_by_model(problem: Problem) -> tuple[Schedule | None, str]:
    """Return the schedule of the cost model and what to say about it, or why there is none."""
    try:
        return by_model(problem)
    except Exception as error:
        # a schedule that is right and slow is better than none: the reason goes into the note
        return None, f"the tactics failed: {type(error).__name__}: {first_line(error)}"


__all__ = ["Choice", "autoschedule", "choose"]
