"""The search space: a template, and the candidates that its decisions make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from random import Random
from time import monotonic

from schedlang.autotune.costs.averages import average_loops
from schedlang.autotune.costs.estimate import Estimate, estimate
from schedlang.autotune.costs.estimate_gpu import estimate_gpu, registers
from schedlang.autotune.knobs import (
    Decision,
    Decisions,
    Knobs,
    Pick,
    Refused,
    Rejected,
    refusal,
)
from schedlang.autotune.steps import Filter, try_and_lower
from schedlang.autotune.tactics.driver import moves_of, schedule_stages
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tactics.moves import KnobMoves
from schedlang.autotune.tactics.registries import registry_for
from schedlang.autotune.tactics.tactic import Registry
from schedlang.autotune.work_bound import most_work
from schedlang.diagnostics.spills import gpu_spills, spills
from schedlang.errors import (
    BuildError,
    LoweringError,
    OrderWarning,
    ScheduleError,
    VerifyError,
)
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.program import Program
from schedlang.ir.nest import Nest
from schedlang.ir.specialize import at_sizes
from schedlang.ir.verify import verify
from schedlang.lowering.lower import lower_state
from schedlang.schedule.schedule import Schedule, empty_schedule
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
class Space:
    """The schedules that solve ``problem``, made by ``template`` or else by tactics.

    * ``by_tactics``: tactics are the template. Its candidates must also keep their tiles of sums
      in registers and recompute little.
    * ``registry``: the tactics, by default those for the target.
    * ``counts``: how many candidates were "drawn", and how many of these are "valid" and "invalid".
    * ``reasons``: why draws were invalid, counted. ``illegal``: those reasons that are errors of a
      schedule step and not of a constraint.
    * ``deadline``: nothing is drawn after it, by ``time.monotonic``.
    * ``pick``: decides what is neither given nor drawn, see
      :class:`~schedlang.autotune.knobs.Knobs`.
    * ``jumps``: as for :func:`~schedlang.autotune.costs.estimate.costs`.
    """

    problem: Problem
    template: Template | None = None
    by_tactics: bool = True
    registry: Registry | None = None
    deadline: float | None = None
    pick: Pick | None = None
    jumps: float = 1.0
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    illegal: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.target = self.problem.target
        # copies of this space need not look for it again
        self.registry = self.tactics = self.registry or registry_for(self.target)

    def _apply(self, s: Schedule, knobs: Knobs) -> None:
        """Apply the steps of a candidate to the schedule without any."""
        if self.template is None:
            schedule_stages(self.tactics, s, self.problem, knobs)
        else:
            self.template(s, knobs)
        if self.by_tactics:
            _move_to_stack(s)

    @cached_property
    def moves(self) -> KnobMoves:
        """The moves of the tactics' knobs."""
        return moves_of(self.tactics)

    def draw(self, rng: Random | None, given: Decisions | None = None) -> Candidate:
        """Return a candidate with the decisions ``given``, and the others drawn from ``rng``.

        Raise :class:`~schedlang.autotune.knobs.Rejected`, with the reason, if the candidate cannot
        be built or is not worth it.
        """
        return self.verify(self.draw_unverified(rng, given))

    def draw_unverified(self, rng: Random | None, given: Decisions | None = None) -> Candidate:
        """Return a candidate as :meth:`draw` does, whose nest the verifier has not seen yet.

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
            _verify(candidate)
        except Rejected as error:
            self.counts["valid"] -= 1
            self._count_invalid(error)
            raise
        return candidate

    def _count_invalid(self, error: Rejected) -> None:
        self.counts["invalid"] += 1
        self.reasons[str(error)] += 1
        if isinstance(error, Refused):
            self.illegal.add(str(error))

    def replay(self, given: Decisions) -> Candidate:
        """Return the candidate that recorded decisions make. It is not counted as a draw."""
        candidate = self._candidate(None, given)
        _verify(candidate)
        return candidate

    def late(self) -> bool:
        """Return whether the deadline has passed."""
        return self.deadline is not None and monotonic() >= self.deadline

    def _candidate(self, rng: Random | None, given: Decisions | None) -> Candidate:
        """Apply the template, lower the schedule, and estimate its cost."""
        knobs = Knobs(given, rng, self.pick)
        untouched = empty_schedule(list(self.problem.outputs))
        # only a user's template may reorder with a warning
        warned: Filter = "error" if self.by_tactics else "default"
        try:
            apply = partial(self._apply, knobs=knobs)
            s, nest = try_and_lower(untouched, apply, warned, OrderWarning)
            known, program = self._at_sizes(nest)
            estimate = self._estimate(known, program)
        except (ScheduleError, LoweringError, BuildError) as error:
            raise refusal(error) from None
        except OrderWarning:
            raise Rejected("changes which of several tied values a reduction returns") from None
        if self.by_tactics:
            if self._spills(nest, program):
                raise Rejected("a tile of sums does not fit the registers")
            if estimate.flops > most_work(self.problem.least):
                raise Rejected("recomputes too much")
        return Candidate(knobs.decisions, s, nest, estimate, options=knobs.options)

    def of(self, s: Schedule, decisions: Decisions, origin: str) -> Candidate:
        """Return a candidate for a schedule that the space did not draw."""
        nest = lower_state(s.state)
        return Candidate(decisions, s, nest, self._estimate(*self._at_sizes(nest)), origin)

    def seconds(self, s: Schedule) -> float:
        """Return the estimated seconds of a schedule that the space did not draw."""
        return self.of(s, {}, "").estimate.seconds

    def _at_sizes(self, nest: Nest) -> tuple[Nest, Program | None]:
        """Return ``nest`` at the sizes to tune for, and its GPU kernels, for estimates.

        Raise :class:`~schedlang.errors.BuildError` if the nest cannot run on the GPU.
        """
        known, sizes = nest, self.problem.sizes
        if nest.sizes or sizes:
            # no shape tells a size that is an argument
            known = at_sizes(nest, {v.name: n for v, n in sizes.items()})
        known = average_loops(known, sizes)
        if not self.target.facts.binds_threads:
            return known, None
        program = device_program(nest, self.target)
        return known, program if known is nest else device_program(known, self.target)

    def _estimate(self, known: Nest, program: Program | None) -> Estimate:
        """Return the estimated cost of a nest, or of its kernels on a GPU."""
        if program is None:
            problem = self.problem
            return estimate(known, self.target, problem.threads, self.jumps, problem.cold)
        return estimate_gpu(program, self.target)

    def _spills(self, nest: Nest, program: Program | None) -> bool:
        """Return whether a tile needs more registers than a core, or a GPU's thread, has."""
        if program is None:
            return bool(spills(nest, self.target))
        device = self.target.device
        return bool(gpu_spills(program, self.target)) or any(
            registers(x) > min(device.registers, device.registers_per_sm // x.threads)
            for x in program.launches
        )


def _verify(candidate: Candidate) -> None:
    """Raise :class:`~schedlang.autotune.knobs.Rejected` if the verifier refuses the nest."""
    try:
        verify(candidate.nest)
    except VerifyError as error:
        raise refusal(error) from None


def _move_to_stack(s: Schedule) -> None:
    """Put small attached stages on the stack of their thread, as local buffers."""
    stages = s.state.stages
    attached = [v for v in s.stages if isinstance(stages[v.name].attach, At) and not v.scope]
    if not attached:
        return
    sizes = {b.tensor: b.bytes for b in lower_state(s.state).buffers if b.scope == "global"}
    for view in attached:
        size = max((sizes.get(t) or 0 for t in view.outputs), default=0)
        if 0 < size <= MOST_STACK:
            view.set_scope("local")


__all__ = ["Candidate", "Decision", "Space", "Template"]
