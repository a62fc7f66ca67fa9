"""The search space: a template, and the candidates that its decisions make.

Every candidate is a draw of a :class:`Space`: the candidates of the tuner, the plain schedule of
``sl.autoschedule``, and each of ``sl.next_steps``. They differ in the template, in the schedule to
start from, and in the :class:`~schedlang.autotune.rules.Rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from random import Random
from time import monotonic

from schedlang.autotune.costs.estimate import Estimate
from schedlang.autotune.knobs import (
    Decision,
    Decisions,
    Knobs,
    Pick,
    Refused,
    Rejected,
    refusal,
)
from schedlang.autotune.options import changed_arguments
from schedlang.autotune.rules import BY_TACTICS, BY_TEMPLATE, Lowered, Rules, filter_warnings
from schedlang.autotune.tactics.driver import moves_of, schedule_again, schedule_stages
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tactics.moves import KnobMoves
from schedlang.autotune.tactics.outcomes import MOST, Outcomes
from schedlang.autotune.tactics.registries import registry_for
from schedlang.autotune.tactics.tactic import Registry
from schedlang.errors import OrderWarning, TuningError
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.lowering.lower import drafted_buffers, lower_state
from schedlang.schedule.schedule import Schedule, empty_schedule
from schedlang.schedule.step_memo import MemoSchedule, Taken
from schedlang.state.state import At

Template = Callable[[Schedule, Knobs], object]
# the most bytes of a stage that goes on the stack of its thread
MOST_STACK = 32 << 10


@dataclass(frozen=True)
class Candidate:
    """A schedule, the decisions that made it, its loop nest and the estimate of its cost.

    ``origin`` names its source if the strategy did not propose it, such as ``"database"``.
    ``options`` has the options that each decision was chosen from, see
    :class:`~schedlang.autotune.knobs.Knobs`.
    """

    decisions: Decisions
    schedule: Schedule
    nest: Nest
    estimate: Estimate
    origin: str = ""
    options: Mapping[str, Sequence[Decision] | None] = field(default_factory=dict, repr=False)


@dataclass
class Earlier:
    """The knowledge of some draws by tactics: outcomes of stages, and judgements of schedules.

    ``findings`` are about the stages and statements that their nests have in common.

    ``judged`` has, by the identity of a record of steps, what came of the schedule with them: the
    record, the loop nest, the estimate, and why it was refused, if it was.
    """

    outcomes: Outcomes
    judged: dict[int, tuple[Taken, Lowered, Estimate, str]] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)


@dataclass
class Space:
    """The schedules that solve ``problem``, made by ``template`` or else by tactics.

    Every candidate is drawn from a space: by the tuner and its cost model, by the plain schedule of
    :func:`schedlang.autoschedule`, and by :func:`schedlang.next_steps`. The primitives and lowering
    know which steps are legal; ``rules`` say what else refuses a candidate.

    * ``start``: the schedule whose copies take the steps, by default the one without any.
    * ``by_tactics``: tactics are the template, not a user's function.
    * ``rules``: by default the rules for tactics, whose candidates keep their tiles of sums in
      registers and recompute little, or else the rules for a user's template.
    * ``registry``: the tactics, by default the target's. Its checks judge the candidates of any
      template.
    * ``earlier``: what earlier draws found out, see :meth:`remembering`.
    * ``counts``: how many candidates were "drawn", and how many of these are "valid" and "invalid".
    * ``reasons``: why draws were invalid, counted. ``illegal``: those reasons that are errors of a
      schedule step and not of a constraint.
    * ``deadline``: nothing is drawn after it, by ``time.monotonic``.
    * ``pick``: decides what is neither given nor drawn, see
      :class:`~schedlang.autotune.knobs.Knobs`.
    """

    problem: Problem
    template: Template | None = None
    by_tactics: bool = True
    registry: Registry | None = None
    deadline: float | None = None
    pick: Pick | None = None
    start: Schedule | None = None
    rules: Rules | None = None
    earlier: Earlier | None = None
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    illegal: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.target = self.problem.target
        # copies of this space need not look for it again
        self.registry = self.tactics = self.registry or registry_for(self.target)

    @cached_property
    def moves(self) -> KnobMoves:
        """The moves of the tactics' knobs."""
        return moves_of(self.tactics)

    def remembering(self) -> Space:
        """Return this space for some draws by tactics that have most decisions in common.

        It keeps what they find out, and draws the same candidates in less time. Copies share what
        it knows.
        """
        if self.template is not None or self.start is not None or self.earlier is not None:
            return self
        return replace(self, earlier=Earlier(Outcomes(self.problem)))

    def draw(self, rng: Random | None, given: Decisions | None = None) -> Candidate:
        """Return a candidate with the decisions ``given``, and the others drawn from ``rng``.

        Raise :class:`~schedlang.autotune.knobs.Rejected`, with the reason, if the candidate cannot
        be built or is not worth it.
        """
        return self.verify(self.draw_unverified(rng, given))

    def draw_unverified(self, rng: Random | None, given: Decisions | None = None) -> Candidate:
        """Return a candidate like :meth:`draw`, but leave the check of its nest to :meth:`verify`.

        Most of the time of a draw goes to the verifier, and most draws are dropped for their
        estimates.
        """
        self.counts["drawn"] += 1
        try:
            candidate = self._candidate(rng, given)
        except Rejected as error:
            self._count_invalid(error)
            raise
        self.counts["valid"] += 1
        return candidate

    def verify(self, candidate: Candidate) -> Candidate:
        """Return a candidate of :meth:`draw_unverified` if its nest passes the verifier.

        Otherwise raises :class:`~schedlang.autotune.knobs.Rejected`.
        """
        try:
            return self._verified(candidate)
        except Rejected as error:
            self.counts["valid"] -= 1
            self._count_invalid(error)
            raise

    def _count_invalid(self, error: Rejected) -> None:
        self.counts["invalid"] += 1
        self.reasons[str(error)] += 1
        if isinstance(error, Refused):
            self.illegal.add(str(error))

    def replay(self, given: Decisions) -> Candidate:
        """Return the candidate that recorded decisions make. It is not counted as a draw."""
        return self._verified(self._candidate(None, given))

    def late(self) -> bool:
        """Return whether the deadline has passed."""
        return self.deadline is not None and monotonic() >= self.deadline

    def _rules(self) -> Rules:
        return self.rules or (BY_TACTICS if self.by_tactics else BY_TEMPLATE)

    def _candidate(self, rng: Random | None, given: Decisions | None) -> Candidate:
        """Apply the steps of a candidate, lower the schedule, estimate its cost, and judge it."""
        rules, knobs = self._rules(), Knobs(given, rng, self.pick)
        judged = {} if self.earlier is None else self.earlier.judged
        try:
            with filter_warnings("error", *rules.warnings):
                s = self._schedule(knobs)
                taken = s.taken if isinstance(s, MemoSchedule) else Taken((), ())
                known = judged.get(id(taken))
                lowered = self._lowered(s) if known is None else known[1]
            cost = rules.estimate(lowered) if known is None else known[2]
        except OrderWarning:
            raise Rejected("changes which of several tied values a reduction returns") from None
        except rules.refused as error:
            raise refusal(error) from None
        if self.start is None and s.state.arrays:
            raise TuningError(f"autotune: {changed_arguments(s)}")
        why = self._judge(lowered, cost) if known is None else known[3]
        if len(judged) < MOST:
            judged[id(taken)] = taken, lowered, cost, why
        if why:
            raise Rejected(why)
        return Candidate(knobs.decisions, s.copy(), lowered.nest, cost, options=knobs.options)

    @property
    def findings(self) -> Findings:
        """The findings about nests of the space, none if it remembers nothing."""
        return Findings() if self.earlier is None else self.earlier.findings

    def _lowered(self, s: Schedule) -> Lowered:
        findings = self.findings
        return Lowered(self.problem, lower_state(s.state, findings=findings), findings)

    def _schedule(self, knobs: Knobs) -> Schedule:
        """Return the schedule that the template or the tactics make."""
        if self.earlier is not None:
            copy = self.earlier.outcomes.schedule()
            schedule_again(self.tactics, copy, self.earlier.outcomes, knobs)
            _move_to_stack(copy, self.findings)
            return copy
        start = self.start
        s = empty_schedule(list(self.problem.outputs)) if start is None else start.copy()
        if self.template is None:
            schedule_stages(self.tactics, s, self.problem, knobs)
            _move_to_stack(s, self.findings)
        else:
            self.template(s, knobs)
        return s

    def _judge(self, lowered: Lowered, cost: Estimate) -> str:
        """Return why a candidate is not worth it, or an empty text."""
        reasons = chain(
            (judge(lowered, cost) for judge in self._rules().judges),
            (check(lowered.nest, self.target) for check in self.tactics.checks),
        )
        return next(filter(None, reasons), "")

    def _verified(self, candidate: Candidate) -> Candidate:
        """Return a candidate whose nest is right; otherwise raise why it is refused."""
        rules = self._rules()
        try:
            rules.verify(candidate.nest)
        except rules.refused as error:
            raise refusal(error) from None
        return candidate

    def of(self, s: Schedule, decisions: Decisions, origin: str) -> Candidate:
        """Return a candidate for a schedule that the space did not draw."""
        lowered = self._lowered(s)
        return Candidate(decisions, s, lowered.nest, self._rules().estimate(lowered), origin)

    def seconds(self, s: Schedule) -> float:
        """Return the estimated seconds of a schedule that the space did not draw."""
        return self.of(s, {}, "").estimate.seconds


def _move_to_stack(s: Schedule, findings: Findings) -> None:
    """Put small attached stages on the stack of their thread, as local buffers."""
    stages = s.state.stages
    attached = [v for v in s.stages if isinstance(stages[v.name].attach, At) and not v.scope]
    if not attached:
        return
    sizes = {b.tensor: b.bytes for b in drafted_buffers(s.state, findings) if b.scope == "global"}
    for view in attached:
        size = max((sizes.get(t) or 0 for t in view.outputs), default=0)
        if 0 < size <= MOST_STACK:
            view.set_scope("local")


__all__ = ["Candidate", "Decision", "Space", "Template"]
