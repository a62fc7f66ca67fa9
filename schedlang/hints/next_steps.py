"""The legal next steps of a schedule, each with its predicted effect."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from schedlang.autotune.record import cores
from schedlang.diagnostics.spills import guarded, spills
from schedlang.diagnostics.strides import strided
from schedlang.errors import CallTypeError, SchedlangError, explain
from schedlang.hints.candidates import Candidate, candidates
from schedlang.hints.predicted import Prediction, predicted
from schedlang.ir.nest import Nest
from schedlang.ir.verify import verify
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


@dataclass(frozen=True)
class NextStep:
    """A legal next step of a schedule.

    ``code`` takes it: Python statements that use ``s`` and the names of the tensors, and nothing
    else. ``schedule`` is a copy of the schedule that has taken it. ``speedup`` is the estimated
    time before the step over that after it. ``primitive`` and ``stage`` name the step.
    """

    primitive: str
    stage: str
    code: str
    schedule: Schedule
    nest: Nest
    speedup: float

    def __str__(self) -> str:
        lines = self.code.splitlines()
        head = f"{self.speedup:6.2f}x  {lines[0]}"
        return "\n".join([head, *(f"         {line}" for line in lines[1:])])


def next_steps(s: Any, target: Any = None) -> list[NextStep]:
    """Return the legal next steps of a schedule on a CPU, those that promise most first.

    Each is tried on a copy of ``s``. Steps that are refused or warn, whose nest does not pass the
    verifier, or that :func:`~schedlang.build` would warn of are left out. Of vectors along one
    axis, the best width is listed. The effects are predictions: the tuner's estimate, with the
    loops that LLVM vectorizes by itself, and with one memory for all cores.

    Raise :class:`~schedlang.errors.CallTypeError` if ``s`` is no schedule, and
    :class:`~schedlang.errors.LoweringError` if it cannot be lowered.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1024, 1024), name="A")
    >>> B = sl.compute((1024, 1024), lambda i, j: sl.exp(A[i, j]), name="B")
    >>> s = sl.schedule(B)
    >>> {step.primitive for step in sl.next_steps(s)} >= {"vectorize", "parallel", "tile"}
    True
    >>> len(s.steps)
    0
    """
    if not isinstance(s, Schedule):
        raise CallTypeError(
            explain(
                f"next_steps({type(s).__name__})", "it takes a schedule",
                "Give the schedule of a computation: sl.schedule(C).",
            )
        )  # fmt: skip
    where = Target.of(target)
    if where.is_gpu:
        raise CallTypeError(
            explain(
                f"next_steps(s, {where.kind!r})", "it knows the steps for CPUs only",
                "Leave out the target, or search with sl.autotune(C, target=...).",
            )
        )  # fmt: skip
    nest = s.nest()
    now, seen = estimated(nest, where).seconds, {str(nest)}
    found: list[tuple[Candidate, NextStep]] = []
    for candidate in candidates(s, where):
        step = taken(s, candidate, where, now)
        if step is not None and str(step.nest) not in seen:
            seen.add(str(step.nest))
            found.append((candidate, step))
    best: dict[object, NextStep] = {}
    for candidate, step in sorted(found, key=lambda pair: -pair[1].speedup):
        # of vectors along one axis only the best width is a step to choose
        best.setdefault(candidate.vectors or str(step.nest), step)
    return list(best.values())


def estimated(nest: Nest, target: Target) -> Prediction:
    """Return the predicted time of a nest on all cores."""
    return predicted(nest, target, cores())


def taken(s: Schedule, candidate: Candidate, target: Target, now: float) -> NextStep | None:
    """Return a candidate that a copy of ``s`` has taken; ``None`` if it is not legal."""
    copy = s.copy()
    try:
        with warnings.catch_warnings():
            # a step that warns is a step that a person should not be led to
            warnings.simplefilter("error")
            candidate.take(copy)
            nest = copy.nest()
            verify(nest)
            after = estimated(nest, target).seconds
    except (SchedlangError, Warning):
        return None
    if spills(nest, target) or guarded(nest, target) or strided(nest, target):
        return None
    code = copy.code_since(len(s.steps))
    return NextStep(candidate.primitive, candidate.stage, code, copy, nest, now / after)


__all__ = ["NextStep", "estimated", "next_steps", "taken"]
