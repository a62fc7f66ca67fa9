"""The effect of each knob: the measured times, grouped by the value of the knob."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.autotune.knobs import Decision
from schedlang.autotune.record import Trial
from schedlang.autotune.report.facts import Facts, undisturbed_trials, winner

# the most columns of a readable chart
MOST_COLUMNS = 12


@dataclass(frozen=True)
class Column:
    """The trials with one value of a knob.

    ``label`` is the value as text. ``values`` are pairs of a trial's number and its time (or its
    estimate, if nothing was timed). ``failed`` counts the trials that failed. ``best`` tells
    whether the winner is among them.
    """

    label: str
    values: tuple[tuple[int, float], ...]
    failed: int
    best: bool

    @property
    def median(self) -> float | None:
        return float(np.median([v for _, v in self.values])) if self.values else None


@dataclass(frozen=True)
class Effect:
    """A knob, the part of the variation that it explains, and its columns.

    :func:`explained_part` computes that part.

    ``count`` is the number of trials that have the knob and a time. If the knob has too many
    values, the last column holds the slower ones together.
    """

    name: str
    explained: float
    count: int
    columns: tuple[Column, ...]


def value_text(value: Decision) -> str:
    """Return a decision as text: lists without brackets, other values as Python prints them.

    >>> value_text([8, 4]), value_text("tiled"), value_text(True), value_text([[6, 16], []])
    ('8, 4', 'tiled', 'True', '[6, 16], []')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return ", ".join(v if isinstance(v, str) else str(v) for v in value)
    return str(value)


def explained_part(groups: Sequence[Sequence[float]]) -> float:
    """Return the part of the variation that the groups explain, from 0 to 1.

    It is Kelley's epsilon squared: eta squared, corrected for what as many groups explain by chance
    (T. L. Kelley, An Unbiased Correlation Ratio Measure, PNAS 21 (1935), 554-559).

    >>> explained_part([[1.0, 1.0], [2.0, 2.0]]), explained_part([[1.0, 2.0], [1.0, 2.0]])
    (1.0, 0.0)
    """
    known = [np.asarray(group, dtype=np.float64) for group in groups if len(group)]
    count = sum(len(group) for group in known)
    if len(known) < 2 or count <= len(known):
        return 0.0
    whole = np.concatenate(known)
    total = float(((whole - whole.mean()) ** 2).sum()) / (count - 1)
    within = float(sum(((g - g.mean()) ** 2).sum() for g in known)) / (count - len(known))
    return 0.0 if total == 0 else max(0.0, 1.0 - within / total)


def knob_effects(facts: Facts) -> tuple[list[Effect], list[str]]:
    """Return the knobs that varied, those that explain most first, and the names of the others."""
    known = {id(trial): value for trial, value in undisturbed_trials(facts)}
    won = winner(facts)
    # logarithms: a knob scales a time
    logs = bool(known) and min(known.values()) > 0
    by_knob: dict[str, list[Trial]] = defaultdict(list)
    for trial in facts.trials:
        if id(trial) in known or trial.outcome != "ok":
            for name in trial.decisions:
                by_knob[name].append(trial)
    effects, same = [], []
    for name, trials in by_knob.items():
        groups: dict[str, list[Trial]] = defaultdict(list)
        for trial in trials:
            groups[json.dumps(trial.decisions[name], sort_keys=True, default=str)].append(trial)
        values = [[known[id(t)] for t in group if id(t) in known] for group in groups.values()]
        if sum(1 for group in values if group) < 2:
            same.append(name)
            continue
        part = explained_part([[math.log(v) if logs else v for v in group] for group in values])
        ordered = _order_groups(name, list(groups.values()), known)
        columns = tuple(_column(label, group, known, won) for label, group in ordered)
        effects.append(Effect(name, part, sum(map(len, values)), columns))
    return sorted(effects, key=lambda e: (-e.explained, e.name)), sorted(same)


def _order_groups(
    name: str, groups: Sequence[list[Trial]], known: dict[int, float]
) -> list[tuple[str, list[Trial]]]:
    """Return labeled groups: numbers by value, a few other values by text, many by median time."""

    def value(group: list[Trial]) -> Any:
        return group[0].decisions[name]

    def number(group: list[Trial]) -> bool:
        return isinstance(value(group), (int, float)) and not isinstance(value(group), bool)

    def middle(group: list[Trial]) -> float:
        times = [known[id(t)] for t in group if id(t) in known]
        return float(np.median(times)) if times else math.inf

    def label(group: list[Trial]) -> str:
        return value_text(value(group))

    if all(map(number, groups)):
        return [(label(g), g) for g in sorted(groups, key=value)]
    if len(groups) <= MOST_COLUMNS:
        return [(label(g), g) for g in sorted(groups, key=lambda g: (_natural(value(g)), label(g)))]
    by_time = sorted(groups, key=lambda g: (middle(g), label(g)))
    rest = [t for group in by_time[MOST_COLUMNS - 1 :] for t in group]
    shown = [(label(g), g) for g in by_time[: MOST_COLUMNS - 1]]
    return [*shown, (f"{len(groups) - len(shown)} others", rest)]


def _natural(value: Decision) -> list[float]:
    """Return a sort key that orders lists of numbers by value, so that 8 comes before 16."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return [v for v in items if isinstance(v, (int, float))]


def _column(label: str, group: list[Trial], known: dict[int, float], won: Trial | None) -> Column:
    values = tuple((t.number, known[id(t)]) for t in group if id(t) in known)
    return Column(label, values, len(group) - len(values), any(t is won for t in group))
