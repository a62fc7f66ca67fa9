"""The rules of a space: what refuses a candidate, and what its estimated cost is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from schedlang.autotune.costs.averages import average_loops
from schedlang.autotune.costs.estimate import Estimate, estimate
from schedlang.autotune.costs.estimate_gpu import estimate_gpu, registers
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.work_bound import most_work
from schedlang.diagnostics.spills import gpu_spills, spilled
from schedlang.errors import BuildError, LoweringError, OrderWarning, ScheduleError, VerifyError
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.program import Program
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.ir.specialize import at_sizes
from schedlang.ir.verify import verify


@dataclass(frozen=True)
class Lowered:
    """The loop nest of a candidate for ``problem``, and what is known of its statements."""

    problem: Problem
    nest: Nest
    findings: Findings = field(default_factory=Findings, repr=False)

    @cached_property
    def at_sizes(self) -> Nest:
        """The nest at the sizes to tune for, with the average of each ragged loop."""
        nest, sizes = self.nest, self.problem.sizes
        if nest.sizes or sizes:
            # no shape tells a size that is an argument
            nest = at_sizes(nest, {v.name: n for v, n in sizes.items()})
        return average_loops(nest, sizes)

    @cached_property
    def program(self) -> Program | None:
        """The kernels at these sizes, where loops are bound to threads.

        Raise :class:`~schedlang.errors.BuildError` if the nest cannot run on the GPU.
        """
        known, target = self.at_sizes, self.problem.target
        if not target.facts.binds_threads:
            return None
        program = device_program(self.nest, target)
        return program if known is self.nest else device_program(known, target)


@dataclass(frozen=True)
class Rules:
    """What a space asks of its candidates.

    * ``refused``: the errors and warnings that refuse a candidate. Other errors are mistakes in the
      template and leave the space; other warnings are left alone.
    * ``estimate``: returns the estimated cost.
    * ``judges``: each returns why a candidate is not worth it, or an empty text.
    * ``verify``: raises why the nest is wrong, or :class:`~schedlang.autotune.knobs.Rejected`.
    """

    refused: tuple[type[Exception], ...]
    estimate: Callable[[Lowered], Estimate]
    judges: tuple[Callable[[Lowered, Estimate], str], ...] = ()
    verify: Callable[[Nest], object] = verify

    @property
    def warnings(self) -> list[type[Warning]]:
        """The warnings that refuse a candidate."""
        return [kind for kind in self.refused if issubclass(kind, Warning)]


@contextmanager
def filter_warnings(action: Literal["error", "ignore"], *kinds: type[Warning]) -> Iterator[None]:
    """Raise or drop the warnings of some kinds in a ``with`` block."""
    if not kinds:
        # all threads share the filters, which are left alone, too
        yield
        return
    with warnings.catch_warnings():
        for kind in kinds:
            warnings.simplefilter(action, kind)
        yield


def estimate_cost(lowered: Lowered, jumps: float = 1.0, all_threads: bool = True) -> Estimate:
    """Return the estimated cost of a nest, or of its kernels on a GPU.

    ``jumps`` means the same as in :func:`~schedlang.autotune.costs.estimate.costs`. Without
    ``all_threads``, useless ones do not run.
    """
    problem, program = lowered.problem, lowered.program
    if program is not None:
        return estimate_gpu(program, problem.target)
    margin = None if all_threads else problem.margin
    nest, target, cold = lowered.at_sizes, problem.target, problem.cold
    return estimate(nest, target, problem.threads, jumps, cold, lowered.findings, margin)


def keeps_sums(lowered: Lowered, cost: Estimate) -> str:
    """Return that a tile needs more registers than a core, or a GPU's thread, has, if it does."""
    program, target = lowered.program, lowered.problem.target
    if program is None:
        too_large = spilled(lowered.nest, target, lowered.findings)
    else:
        device = target.device
        too_large = bool(gpu_spills(program, target)) or any(
            registers(x) > min(device.registers, device.registers_per_sm // x.threads)
            for x in program.launches
        )
    return "a tile of sums does not fit the registers" if too_large else ""


def recomputes_little(lowered: Lowered, cost: Estimate) -> str:
    """Return that a candidate repeats too much work, if it does."""
    return "recomputes too much" if cost.flops > most_work(lowered.problem.least) else ""


ERRORS = (ScheduleError, LoweringError, BuildError, VerifyError)
# only a user's template may reorder with a warning
BY_TEMPLATE = Rules(ERRORS, estimate_cost)
BY_TACTICS = Rules((*ERRORS, OrderWarning), estimate_cost, (keeps_sums, recomputes_little))
