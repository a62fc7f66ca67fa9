"""The map of placements: where each stage can live, what that computes, keeps and costs."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from schedlang.analysis.cost import ScheduleCost, cost
from schedlang.errors import SchedlangError, first_line
from schedlang.hints.next_steps import NextStep, try_steps
from schedlang.hints.places import (
    Place,
    loops_around,
    places,
    present,
    producers,
    put,
    same_place,
)
from schedlang.hints.steps import Steps
from schedlang.live.history import State
from schedlang.plot.sheet import as_rows
from schedlang.plot.stored_elements import Placed, moment_of
from schedlang.plot.subject import subjects
from schedlang.schedule.schedule import Schedule
from schedlang.state.state import At, Inline
from schedlang.target import Target

# the most stages with a map, the most places of each that are tried, the cells of a picture
MOST_STAGES, MOST_PLACES, HIGH, WIDE = 8, 64, 20, 36
# kinds of elements: computed earlier, in this iteration, again; marks: stored, of this step
EARLIER, NOW, AGAIN, STORED, STEP = 1, 2, 3, 4, 8


@dataclass(frozen=True, eq=False)
class TriedPlace:
    """A legal place of a stage: the schedule there, the step that leads to it, and its counts.

    The step is ``None`` for the place where the stage is now. ``counts`` are JSON data.
    """

    stage: str
    where: Place
    schedule: Schedule
    step: NextStep | None
    counts: Mapping[str, Any]


def places_tried(
    state: State, target: Target, sizes: Mapping[str, int]
) -> Iterator[TriedPlace | None]:
    """Yield each legal place of the last stages that have one, ``None`` for what is refused."""
    s = state.schedule
    for name in producers(s)[-MOST_STAGES:]:
        now = present(s.state, name)
        yield TriedPlace(name, now, s, None, place_counts(s, name, sizes))
        others = [one for one in places(s, name) if not same_place(one, now)][:MOST_PLACES]
        steps = {put(name, one): one for one in others}
        for tried in _legal(s, list(steps), target):
            if tried is None:
                yield None
                continue
            candidate, step = tried
            counts = place_counts(step.schedule, name, sizes)
            yield TriedPlace(name, steps[candidate], step.schedule, step, counts)


def _legal(
    s: Schedule, steps: Sequence[Steps], target: Target
) -> Iterator[tuple[Steps, NextStep] | None]:
    try:
        yield from try_steps(s, steps, target)
    except SchedlangError:
        # a schedule that cannot be lowered has no place to compare with
        return


def places_part(state: State, tried: Sequence[TriedPlace]) -> dict[str, Any]:
    """Return the map of all stages of a state, by stage, as the page draws it."""
    stages: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(tried):
        loops = loops_around(state.schedule, one.stage)
        rows = [f"{name} of {at.stage}" for name, at in loops]
        entry = stages.setdefault(one.stage, {"stage": one.stage, "loops": rows, "places": []})
        at = [loop for _, loop in loops]
        stored = one.where.attach if one.where.store is None else one.where.store
        entry["places"].append(
            {
                "number": number,
                "compute": _row(one.where.attach, at),
                "store": _row(stored, at),
                "now": one.step is None,
                "speedup": 1.0 if one.step is None else one.step.speedup,
                "code": "" if one.step is None else one.step.code,
                **one.counts,
            }
        )
    unmapped = len(producers(state.schedule)) - len(stages)
    return {"places": list(stages.values()), "unmapped": unmapped}


def _row(where: Any, loops: Sequence[At]) -> str | int:
    """Return the name of a place, or the number of its loop."""
    if isinstance(where, At):
        return next(
            k for k, at in enumerate(loops)
            if at.stage == where.stage and at.axis is where.axis
        )  # fmt: skip
    return "inline" if isinstance(where, Inline) else "root"


def place_counts(
    s: Schedule, stage: str, sizes: Mapping[str, int], element: Any = None
) -> dict[str, Any]:
    """Return how often a stage is computed, its storage, and a picture of one step.

    ``element`` is the element of the consumer that the step computes, by default the middle one:
    there, a window slides in its steady state.
    """
    call = "the map"
    try:
        (subject,) = subjects(s, call, sizes)
        moment = moment_of(subject, stage, None, element, call)
    except SchedlangError as error:
        return {**_counts_without_picture(s, stage), "moment": None, "why": first_line(error)}
    return {
        "computed": moment.computed, "distinct": moment.distinct, "bytes": moment.bytes,
        "bound": False, "moment": _moment(moment), "why": "",
    }  # fmt: skip


def _counts_without_picture(s: Schedule, stage: str) -> dict[str, Any]:
    """Return the counts of a stage from the loop nest alone; an inlined one has none."""
    unknown = {"computed": None, "distinct": None, "bytes": None, "bound": False}
    tensor = s.state.stages[stage].outputs[0]
    try:
        nest_cost = cost(s)
    except SchedlangError:
        return unknown
    assert isinstance(nest_cost, ScheduleCost)
    for buffer in nest_cost.buffers:
        if buffer.name == tensor.name and buffer.bytes:
            numbers = (buffer.stores, prod(tensor.shape), buffer.bytes)
            if all(isinstance(n, int) or getattr(n, "is_Integer", False) for n in numbers):
                computed, distinct, size = map(int, numbers)
                return {"computed": computed, "distinct": distinct, "bytes": size,
                        "bound": bool(nest_cost.notes)}  # fmt: skip
    return unknown


def _moment(moment: Placed) -> dict[str, Any]:
    """Return one step as two pictures, of the producer and of its consumer."""
    again = (moment.now > 1) | ((moment.now > 0) & (moment.earlier > 0))
    kinds = np.where(moment.earlier > 0, EARLIER, 0)
    kinds = np.where(moment.now > 0, NOW, kinds)
    kinds = np.where(again, AGAIN, kinds)
    cells = kinds + STORED * moment.stored + STEP * moment.read
    done = np.where(moment.consumer_earlier, EARLIER, 0)
    done = np.where(moment.consumer_earlier & moment.consumer_iteration, NOW, done)
    consumer = done + STORED * moment.consumer_iteration + STEP * moment.consumer_now
    return {
        "consumer": moment.consumer, "where": moment.where, "element": list(moment.element),
        "shape": list(moment.consumer_now.shape), "reused": moment.reused,
        "loops": [f"{name} = {at}" for name, at in moment.loops],
        "above": _cells(cells, moment.read), "below": _cells(consumer, moment.consumer_now),
    }  # fmt: skip


def _cells(values: np.ndarray, marked: np.ndarray) -> dict[str, Any]:
    """Return a part of an array around the first marked element, as bytes."""
    grid, marks = as_rows(values).astype(np.uint8), as_rows(marked)
    starts = []
    for at, extent, most in zip(np.nonzero(marks), grid.shape, (HIGH, WIDE)):
        middle = int(at[0]) if at.size else 0
        starts.append(max(0, min(middle - most // 2, extent - most)))
    row, column = starts
    part = np.ascontiguousarray(grid[row : row + HIGH, column : column + WIDE])
    return {
        "row": row, "column": column, "rows": part.shape[0], "columns": part.shape[1],
        "cells": base64.b64encode(part.tobytes()).decode("ascii"),
    }  # fmt: skip
