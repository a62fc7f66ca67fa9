"""The outcomes of earlier candidates, by the facts and the answers of knobs that led to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from schedlang.autotune.knobs import NOTHING, Decision, Knobs
from schedlang.autotune.tactics.facts import Dataflow, Problem
from schedlang.schedule.schedule import empty_schedule
from schedlang.schedule.step_memo import MemoSchedule, StepMemo, Taken

T = TypeVar("T")
# the most outcomes that are kept, each with its facts, so that memory is bounded
# nobody has measured this value
MOST = 2_000


@dataclass
class _Question:
    """A knob that is asked for, and what follows from each of its answers: more questions.

    ``name`` is empty as long as nobody has asked. Where nothing more is asked, there is an
    ``outcome``: the value that was decided, and the steps of the schedule.
    """

    name: str = ""
    options: list[Decision] | None = None
    size: int = 0
    answers: dict[str, _Question] = field(default_factory=dict)
    outcome: tuple[Any, Taken] | None = None

    def following(self, answer: Decision) -> _Question:
        """Return what follows from an answer, if need be without a name."""
        known = self.answers.get(key := repr(answer))
        if known is None:
            known = self.answers[key] = _Question()
        return known


class Outcomes:
    """The outcomes of the decisions of tactics, for candidates that have many of them in common.

    The decisions about a stage of ``problem`` follow from the facts about it and from the answers
    of the knobs. Where both are known, no tactic is asked again.
    """

    def __init__(self, problem: Problem) -> None:
        start = empty_schedule(list(problem.outputs))
        self._steps = StepMemo(start)
        self.flow = Dataflow(problem, start.state)
        # keys are identities of objects, which the values keep alive
        self._first: dict[tuple[int, ...], tuple[tuple[object, ...], _Question]] = {}
        self._count = 0

    def schedule(self) -> MemoSchedule:
        """Return a schedule without steps, for :meth:`once`."""
        return self._steps.schedule()

    def once(
        self, facts: tuple[object, ...], s: MemoSchedule, knobs: Knobs, decide: Callable[[], T]
    ) -> T:
        """Return what ``decide`` returns, which depends on ``facts``, ``s`` and ``knobs`` alone.

        The same objects must have the same steps in ``s``. If the outcome is known, ``s`` and
        ``knobs`` get its steps and its decisions.
        """
        key = tuple(map(id, facts))
        first = self._first[key][1] if key in self._first else _Question()
        known = _follow(first, knobs)
        if known is not None:
            value: T
            value, s.taken = known
            return value
        earlier = len(knobs.decisions)
        value = decide()
        if self._count < MOST:
            self._count += 1
            self._first[key] = facts, first
            _keep(first, knobs, list(knobs.decisions)[earlier:], (value, s.taken))
        return value


def _follow(question: _Question, knobs: Knobs) -> tuple[Any, Taken] | None:
    """Return the known outcome of the answers that ``knobs`` give, and make them decisions."""
    answers: list[tuple[_Question, Decision]] = []
    while question.outcome is None:
        if not question.name:
            return None
        answer = knobs.foresee(question.name, question.options, question.size)
        if answer is NOTHING:
            return None
        answers.append((question, answer))
        question = question.following(answer)
    for asked, answer in answers:
        knobs.keep(asked.name, answer, asked.options)
    return question.outcome


def _keep(
    question: _Question, knobs: Knobs, asked: Sequence[str], outcome: tuple[Any, Taken]
) -> None:
    """Keep the outcome of the decisions on the knobs that were ``asked`` for."""
    for name in asked:
        answer, options = knobs.decisions[name], knobs.options[name]
        question.name, question.options = name, options
        question.size = len(answer) if options is None else len(options)
        question = question.following(answer)
    question.outcome = outcome


__all__ = ["MOST", "Outcomes"]
