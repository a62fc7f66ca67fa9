"""The legal next steps of a schedule, each with its predicted effect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from schedlang.autotune.costs.estimate import Estimate
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.model.problems import problem_of
from schedlang.autotune.rules import Lowered, Rules, estimate_cost, filter_warnings, keeps_sums
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.diagnostics.spills import guarded_tiles, spills
from schedlang.diagnostics.strides import strided_accesses
from schedlang.errors import CallTypeError, SchedlangError, explain
from schedlang.hints.candidates import candidates
from schedlang.hints.predicted import Prediction, predict
from schedlang.hints.steps import Steps
from schedlang.ir.nest import Nest
from schedlang.ir.verify import report
from schedlang.lowering.lower import lower_state
from schedlang.runtime.environment import cores_of
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public
from schedlang.target import Target

# the knob that says which candidate is taken
STEP = "step"


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

    def __repr__(self) -> str:
        # a list of steps would print every nest
        return f"<NextStep: {self.primitive} of {self.stage}, {self.speedup:.2f}x>"

    def __str__(self) -> str:
        lines = self.code.splitlines()
        head = f"{self.speedup:6.2f}x  {lines[0]}"
        return "\n".join([head, *(f"         {line}" for line in lines[1:])])


@public
def next_steps(s: Any, target: Any = None) -> list[NextStep]:
    """Return the legal next steps of a schedule, those that promise most first.

    On a GPU, these are the steps that use an instruction of the threads, such as ``dp4a``, in a
    schedule whose loops are bound: :func:`~schedlang.autoschedule` chooses all others.

    Each is tried on a copy of ``s``. Steps that are refused or warn, whose nest does not lower or
    does not pass the verifier or a check of the target's tactics, or that :func:`~schedlang.build`
    would warn of are left out. For vectors along one axis, only the best width is listed. The
    effects are predictions: the tuner's estimate, with the loops that LLVM vectorizes by itself,
    and with one memory for all cores. Nothing warns here, neither of a step nor of ``s`` itself.

    Raise :class:`~schedlang.errors.CallTypeError` if ``s`` is not a schedule, and for a GPU of
    which no instructions are known, :class:`~schedlang.errors.LoweringError` if it cannot be
    lowered, and :class:`~schedlang.errors.BuildError` for a target whose tactics are not a
    registry, and if a GPU cannot run the nest of ``s``.

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
    check_instructions("next_steps", where)
    return rank([pair for pair in try_candidates(s, where) if pair is not None])


def check_instructions(asked: str, target: Target) -> None:
    """Raise :class:`~schedlang.errors.CallTypeError` for a GPU of which none are known."""
    if target.facts.binds_threads and not target.facts.instructions:
        raise CallTypeError(
            explain(
                f"{asked} for target={target.kind!r}",
                "on a GPU it knows the steps that use an instruction, and there are none for this "
                "target",
                "sl.autoschedule(C, target) and sl.autotune(C, target) choose the steps for a GPU.",
            )
        )


def try_candidates(s: Schedule, target: Target) -> Iterator[tuple[Steps, NextStep] | None]:
    """Yield each legal candidate with its step, and ``None`` for each of the others.

    So a caller can stop after any number of candidates. A candidate counts as one of the others if
    its nest is the nest of ``s``, or of an earlier candidate.
    """
    return try_steps(s, list(candidates(s, target)), target)


def try_steps(
    s: Schedule, tried: Sequence[Steps], target: Target
) -> Iterator[tuple[Steps, NextStep] | None]:
    """Yield some steps as :func:`try_candidates` does."""
    nest = lower_quietly(s)
    seconds, known = _predicted(Lowered(_problem(s, target), nest)).seconds, {str(nest)}
    space = space_of_steps(s, tried, target, len(report(nest).open))
    for number, candidate in enumerate(tried):
        drawn = _draw(space, number, known)
        if drawn is None:
            yield None
            continue
        known.add(str(drawn.nest))
        code, after = drawn.schedule.code_since(len(s.steps)), drawn.estimate.seconds
        # a nest without an element takes no time before the step nor after it
        speedup = seconds / after if after else 1.0
        primitive, stage = candidate.primitive, candidate.stage
        yield candidate, NextStep(primitive, stage, code, drawn.schedule, drawn.nest, speedup)


def _draw(space: Space, number: int, known: Collection[str]) -> Candidate | None:
    """Return the candidate of one step; ``None`` if it is refused or its nest is ``known``."""
    try:
        drawn = space.draw_unverified(None, {STEP: number})
        # most of the time of a draw goes to the verifier
        return None if str(drawn.nest) in known else space.verify(drawn)
    except Rejected:
        return None


def space_of_steps(s: Schedule, tried: Sequence[Steps], target: Target, unproven: int) -> Space:
    """Return the schedules that are ``s`` and one of some steps, which the knob ``STEP`` chooses.

    ``unproven`` is how many rules the verifier leaves open for ``s``, and a step must not leave
    more open.
    """
    # a step that warns is a step that a person should not be led to
    refused, proven = (SchedlangError, Warning), partial(_prove, unproven=unproven)
    numbers = range(len(tried))
    return Space(
        _problem(s, target),
        lambda s, knobs: tried[knobs.choice(STEP, numbers)].take(s),
        start=s,
        rules=Rules(refused, _predicted, (_warned_of,), proven),
    )


def rank(steps: Sequence[tuple[Steps, NextStep]]) -> list[NextStep]:
    """Return the steps that promise most first; of vectors along one axis, the best width alone."""
    best: dict[object, NextStep] = {}
    for candidate, step in sorted(steps, key=lambda pair: -pair[1].speedup):
        best.setdefault(candidate.vectors or str(step.nest), step)
    return list(best.values())


def lower_quietly(s: Schedule) -> Nest:
    """Return the nest of ``s`` without warnings, which show when a person lowers it."""
    with filter_warnings("ignore", Warning):
        return lower_state(s.state)


def predict_here(nest: Nest, target: Target) -> Prediction:
    """Return the predicted time of a nest on the cores that a kernel has here."""
    return predict(nest, target, cores_of(target))


def _problem(s: Schedule, target: Target) -> Problem:
    if target.facts.binds_threads:
        return problem_of(list(s.outputs), target, {})
    return Problem(tuple(s.outputs), target, cores_of(target))


def _predicted(lowered: Lowered) -> Estimate:
    problem = lowered.problem
    if problem.target.facts.binds_threads:
        return estimate_cost(lowered)
    return predict(lowered.nest, problem.target, problem.threads)


def _warned_of(lowered: Lowered, cost: Estimate) -> str:
    """Return what :func:`~schedlang.build` would warn of."""
    nest, target = lowered.nest, lowered.problem.target
    if target.facts.binds_threads:
        return keeps_sums(lowered, cost)
    for warnings_of in (spills, guarded_tiles, strided_accesses):
        for text in warnings_of(nest, target):
            return text
    return ""


def _prove(nest: Nest, unproven: int) -> None:
    """Reject a nest with accesses that stay unproven, or with more than ``unproven`` open rules."""
    checks = report(nest)
    refused = any(access.exact and not access.needs_sizes for access in checks.accesses)
    if refused or len(checks.open) > unproven:
        raise Rejected("the verifier finds no proof")


__all__ = ["NextStep", "next_steps"]
