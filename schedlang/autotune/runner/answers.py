"""Checks of the answers of an executor's workers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import fields
from typing import Any

from schedlang.autotune.record import OUTCOMES
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.runner.sandbox import Broken
from schedlang.autotune.text import one_line

NAMES = {field.name for field in fields(Measured)}
# no text in an answer is longer
LONGEST = 1 << 20


class InvalidAnswer(ValueError):
    """Raised for an answer that no worker of schedlang gives."""


def measured_of(answer: Any, job: Job, timed: bool) -> Measured:
    """Return the outcome of ``job``; raise :class:`InvalidAnswer` for an invalid answer.

    >>> measured_of({"number": 3, "outcome": "ok", "seconds": 0.5}, Job(3, ""), True).seconds
    0.5
    """
    if not isinstance(answer, Mapping) or not NAMES >= set(answer):
        raise InvalidAnswer(f"it answered {one_line(repr(answer))}")
    values = {f.name: f.default for f in fields(Measured)} | {"resources": {}, **answer}
    seconds, outcome = values.get("seconds"), values.get("outcome")
    right = (
        values.get("number") == job.number
        and isinstance(outcome, str)
        and outcome in OUTCOMES
        and isinstance(values["quiet"], bool)
        and isinstance(values["processor"], bool)
        and all(_is_text(values[name]) for name in ("detail", "machine"))
        and _is_time(values["took"], 0.0)
        and isinstance(values["resources"], Mapping)
        and (seconds is None or (_is_time(seconds, 0.0) and seconds > 0))
        and (seconds is not None or outcome != "ok" or not timed)
    )
    if not right:
        raise InvalidAnswer(f"it answered {one_line(repr(answer))}")
    return Measured(**answer)


def raced_of(answer: Any, jobs: Sequence[Job], timed: bool) -> list[Measured]:
    """Return the outcomes of a race; raise :class:`InvalidAnswer` for an invalid answer."""
    if not isinstance(answer, (list, tuple)):
        raise InvalidAnswer(f"it answered {one_line(repr(answer))}")
    known = {job.number: job for job in jobs}
    times = []
    for one in answer:
        number = one.get("number") if isinstance(one, Mapping) else None
        job = known.pop(number, None) if isinstance(number, int) else None
        if job is None:
            raise InvalidAnswer(f"it answered {one_line(repr(answer))}")
        times.append(measured_of(one, job, timed))
    return times


def kind_of(why: BaseException) -> str:
    """Return the kind of failure by which a job was lost, in a few words.

    >>> kind_of(CancelledError()), kind_of(OSError("gone"))
    ('cancelled', 'OSError')
    """
    if isinstance(why, InvalidAnswer):
        return "invalid answer"
    if isinstance(why, CancelledError):
        return "cancelled"
    return "could not measure" if isinstance(why, Broken) else type(why).__name__


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) < LONGEST


def _is_time(value: Any, least: float) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= least
