"""The space of a search: a template, and what makes a candidate of its decisions."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from schedlang.autotune.estimate import Estimate, estimate
from schedlang.autotune.knobs import Decision, Decisions, Knobs, Rejected
from schedlang.codegen.budget import spills
from schedlang.compute.tensor import Tensor
from schedlang.compute.work import flops
from schedlang.errors import LoweringError, ScheduleError, VerifyError
from schedlang.ir.nest import Nest
from schedlang.ir.verify import verify
from schedlang.lowering.lower import lower_state
from schedlang.schedule.schedule import Schedule, plain_schedule
from schedlang.stage.state import At
from schedlang.target import Target

Template = Callable[[Schedule, Knobs], object]
# more arithmetic than this many times the least is not worth a measurement
MOST_WORK = 1.6
# bytes of a stage that is computed in a loop and may stand on the stack of its thread
NEAR = 32 << 10


@dataclass(frozen=True)
class Candidate:
    """A schedule, the decisions that made it, and what is expected of it."""

    decisions: Decisions
    options: Decisions
    schedule: Schedule
    nest: Nest
    estimate: Estimate


@dataclass
class Space:
    """Schedules of ``outputs`` that ``template`` makes.

    ``made`` says whether the template is schedlang's own: its candidates are also held to what a
    good schedule keeps (tiles of sums in registers, little computed twice). ``counts`` says how
    many decisions were "tried", and how many of these are "valid" and "invalid"; ``reasons`` why.
    """

    outputs: Sequence[Tensor]
    target: Target
    template: Template
    threads: int = 1
    made: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._work = max(1, flops(self.outputs))

    def draw(self, rng: Random | None, given: Decisions | None = None) -> Candidate:
        """A candidate of the decisions ``given``, the rest drawn from ``rng``.

        Raises :class:`~schedlang.autotune.knobs.Rejected`, with the reason, for one that is not
        worth building or cannot be.
        """
        self.counts["tried"] += 1
        try:
            found = self._drawn(rng, given)
        except Rejected as error:
            self.counts["invalid"] += 1
            self.reasons[str(error)] += 1
            raise
        self.counts["valid"] += 1
        return found

    def _drawn(self, rng: Random | None, given: Decisions | None) -> Candidate:
        knobs = Knobs(given, rng)
        s = plain_schedule(list(self.outputs))
        try:
            self.template(s, knobs)
            if self.made:
                _near(s)
            nest = lower_state(s.state)
            verify(nest)
        except (ScheduleError, LoweringError, VerifyError) as error:
            raise Rejected(str(error).splitlines()[0]) from None
        found = estimate(nest, self.target, self.threads)
        if self.made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if spills(nest, self.target):
                    raise Rejected("a tile of sums does not fit the registers")
            if found.flops > MOST_WORK * self._work:
                raise Rejected("computes too much again")
        return Candidate(knobs.decisions, dict(knobs.options), s, nest, found)


def _near(s: Schedule) -> None:
    """What is computed in a loop and small stands on the stack of its thread."""
    attached = [v for v in s.stages if isinstance(s.state.stages[v.name].attach, At)]
    wide = {b.tensor: b.bytes for b in lower_state(s.state).buffers if b.scope == "global"}
    for view in attached:
        size = max((wide.get(t) or 0 for t in view.outputs), default=0)
        if not s.state.stages[view.name].scope and 0 < size <= NEAR:
            view.set_scope("local")


__all__ = ["Candidate", "Decision", "Space", "Template"]
