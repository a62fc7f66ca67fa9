"""The legal next steps of a schedule, each with its predicted effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.autotune.steps import Steps, filter_warnings, try_and_lower
from schedlang.diagnostics.spills import guarded_tiles, spills
from schedlang.diagnostics.strides import strided_accesses
from schedlang.errors import CallTypeError, SchedlangError, explain
from schedlang.hints.candidates import candidates
from schedlang.hints.predicted import Prediction, predict
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
    does not pass the verifier, or that :func:`~schedlang.build` would warn of are left out. For
    vectors along one axis, only the best width is listed. The effects are predictions: the tuner's
    estimate, with the loops that LLVM vectorizes by itself, and with one memory for all cores.
    Nothing warns here, neither of a step nor of ``s`` itself.

    Raise :class:`~schedlang.errors.CallTypeError` if ``s`` is not a schedule, and
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
                f"next_steps({type(s).__name__})",
                "it takes a schedule",
                "Give the schedule of a computation: sl.schedule(C).",
            )
        )
    where = Target.of(target)
    if where.facts.binds_threads:
        raise CallTypeError(
            explain(
                f"next_steps(s, {where.kind!r})",
                "it knows the steps for CPUs only",
                "Leave out the target, or search with sl.autotune(C, target=...).",
            )
        )
    return rank([pair for pair in try_candidates(s, where) if pair is not None])


def try_candidates(s: Schedule, target: Target) -> Iterator[tuple[Steps, NextStep] | None]:
    """Yield each legal candidate with its step, and ``None`` for each of the others.

    So a caller can stop after any number of candidates. A candidate counts as one of the others if
    its nest is the nest of ``s``, or of an earlier candidate.
    """
    nest = lower_quietly(s)
    seconds, known = predict_here(nest, target).seconds, {str(nest)}
    unproven = len(report(nest).open)
    for candidate in candidates(s, target):
        step = try_candidate(s, candidate, target, seconds, unproven)
        if step is not None and str(step.nest) not in known:
            known.add(str(step.nest))
            yield candidate, step
        else:
            yield None


def rank(steps: Sequence[tuple[Steps, NextStep]]) -> list[NextStep]:
    """Return the steps that promise most first; of vectors along one axis, the best width alone."""
    best: dict[object, NextStep] = {}
    for candidate, step in sorted(steps, key=lambda pair: -pair[1].speedup):
        best.setdefault(candidate.vectors or str(step.nest), step)
    return list(best.values())


def lower_quietly(s: Schedule) -> Nest:
    """Return the nest of ``s``. What lowering warns of is said when a person lowers it."""
    with filter_warnings("ignore"):
        return lower_state(s.state)


def predict_here(nest: Nest, target: Target) -> Prediction:
    """Return the predicted time of a nest on the threads that a kernel has here."""
    return predict(nest, target, threads_of(target))


def try_candidate(
    s: Schedule, candidate: Steps, target: Target, seconds: float, unproven: int = 0
) -> NextStep | None:
    """Return the step of ``s`` that a candidate is; ``None`` if it is not legal.

    ``seconds`` is the predicted time of ``s``. ``unproven`` is how many rules the verifier leaves
    open for ``s``, and a step must not leave more open.
    """
    try:
        # a step that warns is a step that a person should not be led to
        copy, nest = try_and_lower(s, candidate.take, "error")
        checks = report(nest)
        after = predict_here(nest, target).seconds
    except (SchedlangError, Warning):
        return None
    refused = any(access.exact and not access.needs_sizes for access in checks.accesses)
    if refused or len(checks.open) > unproven:
        return None
    if spills(nest, target) or guarded_tiles(nest, target) or strided_accesses(nest, target):
        return None
    code = copy.code_since(len(s.steps))
    # a nest without an element takes no time before the step nor after it
    speedup = seconds / after if after else 1.0
    return NextStep(candidate.primitive, candidate.stage, code, copy, nest, speedup)


__all__ = ["NextStep", "next_steps"]
