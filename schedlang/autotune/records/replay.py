"""Replaying the steps of a database entry on an equal computation with other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlang.autotune.knobs import Decision
from schedlang.autotune.record import Where
from schedlang.autotune.records.entry import Entry
from schedlang.compute.rename import Names, names_of, rename
from schedlang.compute.tensor import Tensor
from schedlang.lowering.lower import lower_state
from schedlang.schedule.rename import rename_steps
from schedlang.schedule.schedule import Schedule


def sizes_in(names: Names, entry: Entry) -> Where:
    """Return the place of ``entry``, with its sizes renamed to the sizes of ``names``."""
    now = dict(zip(entry.names.sizes, names.sizes))
    sizes = sorted((now.get(name, name), value) for name, value in entry.where.sizes)
    return replace(entry.where, sizes=tuple(sizes))


def steps_for(entry: Entry, outputs: Sequence[Tensor]) -> str:
    """Return the steps of ``entry`` in the names of ``outputs``, an equal computation.

    If the names differ, the steps are replayed on a copy of ``outputs`` with the recorded names.
    Raise :class:`~schedlang.errors.SchedlangError` if they do not fit.
    """
    recorded = entry.trial.steps
    if entry.names in (Names(), names_of(outputs)):
        return recorded
    twin = rename(outputs, entry.names)
    return rename_steps(Schedule.from_json(recorded, list(twin)), list(outputs))


def decisions_for(entry: Entry, outputs: Sequence[Tensor]) -> Mapping[str, Decision]:
    """Return the decisions of ``entry``, empty if their knobs are named after other stages.

    Tactics name a knob after its stage. A user's template names knobs freely, so its decisions
    are kept.
    """
    same = entry.trial.template or entry.names in (Names(), names_of(outputs))
    return entry.trial.decisions if same else {}


def replay(entry: Entry, outputs: Sequence[Tensor]) -> Schedule:
    """Return the schedule of ``entry`` for ``outputs``.

    Raise :class:`~schedlang.errors.SchedlangError` if the steps do not fit or do not lower.
    """
    schedule = Schedule.from_json(steps_for(entry, outputs), list(outputs))
    lower_state(schedule.state)
    return schedule
