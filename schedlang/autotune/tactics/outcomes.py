"""What followed in earlier candidates from the same dataflow and the same answers of knobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from schedlang.autotune.knobs import NOTHING, Decision, Knobs
from schedlang.autotune.tactics.facts import Dataflow, Problem
from schedlang.compute.tensor import Tensor
from schedlang.schedule.schedule import empty_schedule
from schedlang.schedule.step_memo import MemoSchedule, StepMemo, Taken

# the most outcomes that are kept, each with its facts
MOST = 2_000


@dataclass
class _Question:
    """A knob that is asked for, and what follows from each of its answers: more questions.

    ``name`` is empty as long as nobody has asked. Where nothing more is asked, there is an
    ``outcome``: the dataflow, and the steps of the schedule.
    """

    name: str = ""
    options: list[Decision] | None = None
    size: int = 0
    answers: dict[str, _Question] = field(default_factory=dict)
    outcome: tuple[Dataflow, Taken] | None = None

    def following(self, answer: Decision) -> _Question:
        """Return what follows from an answer, if need be without a name."""
        return self.answers.setdefault(repr(answer), _Question())


class Outcomes:
    """The outcomes of the stages of ``problem``, for candidates that have decisions in common.

    How a stage is scheduled follows from the dataflow before it and from the answers of the knobs
    that are asked for. Where both are known, the tactics are not asked again.
    """

    def __init__(self, problem: Problem) -> None:
        start = empty_schedule(list(problem.outputs))
        self._steps = StepMemo(start)
        self.flow = Dataflow(problem, start.state)
        # keys are identities of objects, which the values keep alive
        self._first: dict[tuple[int, int], tuple[Dataflow, _Question]] = {}
        self._count = 0

    def schedule(self) -> MemoSchedule:
        """Return a schedule without steps, for :meth:`after`."""
        return self._steps.schedule()

    def after(
        self,
        flow: Dataflow,
        tensor: Tensor | None,
        s: MemoSchedule,
        knobs: Knobs,
        decide: Callable[[], Dataflow],
    ) -> Dataflow:
        """Return the dataflow after ``decide``, which schedules the stage of ``tensor`` in ``s``.

        If it is known, ``s`` and ``knobs`` get the same steps and decisions.
        """
        _, first = self._first.setdefault((id(flow), id(tensor)), (flow, _Question()))
        known = _follow(first, knobs)
        if known is not None:
            after, s.taken = known
            return after
        earlier = len(knobs.decisions)
        after = decide()
        if self._count < MOST:
            self._count += 1
            _keep(first, knobs, list(knobs.decisions)[earlier:], (after, s.taken))
        return after


def _follow(question: _Question, knobs: Knobs) -> tuple[Dataflow, Taken] | None:
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
    question: _Question, knobs: Knobs, asked: Sequence[str], outcome: tuple[Dataflow, Taken]
) -> None:
    """Keep the outcome of the decisions on the knobs that were ``asked`` for."""
    for name in asked:
        answer, options = knobs.decisions[name], knobs.options[name]
        question.name, question.options = name, options
        question.size = len(answer) if options is None else len(options)
        question = question.following(answer)
    question.outcome = outcome


__all__ = ["Outcomes"]
