"""An entry of a database, recorded under other names, for the computation at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlang.autotune.knobs import Decision
from schedlang.autotune.record import Where
from schedlang.autotune.records.entry import Entry
from schedlang.compute.rename import Names, names_of, renamed
from schedlang.compute.tensor import Tensor
from schedlang.lowering.lower import lower_state
from schedlang.schedule.rename import renamed_steps
from schedlang.schedule.schedule import Schedule


def sizes_in(names: Names, entry: Entry) -> Where:
    """Return where ``entry`` was made, its sizes called as ``names`` calls them."""
    now = dict(zip(entry.names.sizes, names.sizes))
    sizes = sorted((now.get(name, name), value) for name, value in entry.where.sizes)
    return replace(entry.where, sizes=tuple(sizes))


def steps_for(entry: Entry, outputs: Sequence[Tensor]) -> str:
    """Return the steps of ``entry`` in the names of ``outputs``, an equal computation.

    Where names differ, the steps are replayed on a twin that has the recorded ones. Raises
    :class:`~schedlang.errors.SchedlangError` if they do not fit.
    """
    recorded = entry.trial.steps
    if entry.names in (Names(), names_of(outputs)):
        return recorded
    twin = renamed(outputs, entry.names)
    return renamed_steps(Schedule.from_json(recorded, list(twin)), list(outputs))


def decisions_for(entry: Entry, outputs: Sequence[Tensor]) -> Mapping[str, Decision]:
    """Return the decisions of ``entry``, unless they are those of knobs that others' names are in.

    The rules call a knob after the stage it is for; a template of the user's does as it likes.
    """
    same = entry.trial.template or entry.names in (Names(), names_of(outputs))
    return entry.trial.decisions if same else {}


def replay(entry: Entry, outputs: Sequence[Tensor]) -> Schedule:
    """Return the schedule of ``entry`` for ``outputs``, which lowers.

    Raises :class:`~schedlang.errors.SchedlangError` if there is none.
    """
    made = Schedule.from_json(steps_for(entry, outputs), list(outputs))
    lower_state(made.state)
    return made
