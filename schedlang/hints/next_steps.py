"""The legal next steps of a schedule, each with its predicted effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.autotune import steps
from schedlang.autotune.steps import Steps
from schedlang.diagnostics.spills import guarded, spills
from schedlang.diagnostics.strides import strided
from schedlang.errors import CallTypeError, SchedlangError, explain
from schedlang.hints.candidates import candidates
from schedlang.hints.predicted import Prediction, predicted
from schedlang.ir.nest import Nest
from schedlang.ir.verify import report
from schedlang.lowering.lower import lower_state
from schedlang.runtime.environment import threads_of
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

    Each is tried on a copy of ``s``. Steps that are refused or warn, whose nest does not lower or
    does not pass the verifier, or that :func:`~schedlang.build` would warn of are left out. Of
    vectors along one axis, the best width is listed. The effects are predictions: the tuner's
    estimate, with the loops that LLVM vectorizes by itself, and with one memory for all cores.

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
    if where.facts.binds_threads:
        raise CallTypeError(
            explain(
                f"next_steps(s, {where.kind!r})", "it knows the steps for CPUs only",
                "Leave out the target, or search with sl.autotune(C, target=...).",
            )
        )  # fmt: skip
    found = [pair for pair in tried(s, where) if pair is not None]
    return ranked(found)


def tried(s: Schedule, target: Target) -> Iterator[tuple[Steps, NextStep] | None]:
    """Yield each candidate that was tried with its step, or ``None``.

    A step is legal and has a nest of its own.
    """
    nest = lower_state(s.state)
    now, seen = estimated(nest, target).seconds, {str(nest)}
    unproven = len(report(nest).open)
    for candidate in candidates(s, target):
        step = taken(s, candidate, target, now, unproven)
        if step is not None and str(step.nest) not in seen:
            seen.add(str(step.nest))
            yield candidate, step
        else:
            yield None


def ranked(found: Sequence[tuple[Steps, NextStep]]) -> list[NextStep]:
    """Return the steps that promise most first; of vectors along one axis, the best width alone."""
    best: dict[object, NextStep] = {}
    for candidate, step in sorted(found, key=lambda pair: -pair[1].speedup):
        best.setdefault(candidate.vectors or str(step.nest), step)
    return list(best.values())


def estimated(nest: Nest, target: Target) -> Prediction:
    """Return the predicted time of a nest on the threads that a kernel has here."""
    return predicted(nest, target, threads_of(target))


def taken(
    s: Schedule, candidate: Steps, target: Target, now: float, unproven: int = 0
) -> NextStep | None:
    """Return a candidate that a copy of ``s`` has taken; ``None`` if it is not legal.

    ``unproven`` is how many rules the verifier left open before, which a step may not add to.
    """
    try:
        # a step that warns is a step that a person should not be led to
        copy = steps.taken(s, candidate.take, "error")
        nest = lower_state(copy.state)
        found = report(nest)
        after = estimated(nest, target).seconds
    except (SchedlangError, Warning):
        return None
    refused = any(access.exact and not access.needs_sizes for access in found.accesses)
    if refused or len(found.open) > unproven:
        return None
    if spills(nest, target) or guarded(nest, target) or strided(nest, target):
        return None
    code = copy.code_since(len(s.steps))
    # a nest without an element takes no time before the step nor after it
    speedup = now / after if after else 1.0
    return NextStep(candidate.primitive, candidate.stage, code, copy, nest, speedup)


__all__ = ["NextStep", "estimated", "next_steps", "ranked", "taken", "tried"]
