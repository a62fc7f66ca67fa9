"""The result of a search."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from schedlang.autotune.record import Trial
from schedlang.autotune.report.facts import Facts, correlation
from schedlang.autotune.report.no_result import COMPILED_ALONE, no_result_message
from schedlang.autotune.report.page import write_report
from schedlang.autotune.report.remarks import hint, remark, why_untimed
from schedlang.autotune.report.summary import summary
from schedlang.autotune.search import name_of
from schedlang.autotune.tactics.driver import moves_of
from schedlang.autotune.tactics.registries import registry_for
from schedlang.compute.work import needed_flops
from schedlang.errors import TuningError
from schedlang.ir.html import nest_html
from schedlang.markup.bundle import InNotebooks
from schedlang.markup.elements import listing
from schedlang.markup.fragment import fragment
from schedlang.markup.name_table import NameTable
from schedlang.runtime.kernel import Kernel
from schedlang.schedule.schedule import Schedule
from schedlang.targets.build import lower, unwritten_kernel

# how many reasons for refused draws a result keeps
MOST_REASONS = 3

if TYPE_CHECKING:
    from schedlang.autotune.state import Search


class TuningResult(InNotebooks):
    """The best schedule of a search, its kernel, its time, and every trial.

    ``trials`` are the :class:`~schedlang.autotune.record.Trial` records in the order in which they
    ended. ``print`` shows a summary. Its GFLOP/s count only operations for which ``where=`` holds,
    and are left out if the data decide that. Its ``measured`` line also counts candidates that were
    skipped because an earlier one had the same loop nest.
    """

    def __init__(self, kernel: Kernel, schedule: Schedule, best: Trial, facts: Facts) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.best = best
        self.facts = facts

    @staticmethod
    def of(search: Search, started: float, seed: int) -> TuningResult:
        """Return the result of a search that has ended; its call ``started`` then.

        Raise :class:`~schedlang.errors.TuningError` if no candidate worked.
        """
        best = search.best()
        task, space = search.task, search.space
        if best is None:
            why = no_result_message(
                search.trials, space.counts["valid"], space.reasons.most_common(), search.ended,
                hint(space),
            )  # fmt: skip
            if task.target.facts.needs_driver and not task.timed:
                why = f"{why}\n  {COMPILED_ALONE}"
            raise TuningError(f"autotune({search.name}): {why}")
        schedule = Schedule.from_json(best.steps, list(task.outputs))
        # a full disk must not lose the result
        kernel = unwritten_kernel(schedule, None, task.target, compiler=task.compiler)
        facts = Facts(
            name=search.name, where=search.where, trials=tuple(search.trials),
            baseline=search.baseline, drawn=space.counts["drawn"],
            valid=space.counts["valid"],
            rank_correlation=correlation(search.trials),
            timed=task.timed, best_nest=str(lower(schedule)), best_source=kernel.source,
            best_python=schedule.as_python(), flops=needed_flops(task.outputs, task.values),
            spent=monotonic() - started, strategy=name_of(search.strategy), seed=seed,
            best=best.number,
            ended=search.ended, broken=search.broken,
            ran=task.runs,
            refused=tuple(space.reasons.most_common(MOST_REASONS)),
            duplicates=search.duplicates, unraced=search.unraced, untimed=why_untimed(search),
            remark=remark(search, schedule), finals_took=search.finals_took,
            lost=dict(getattr(search.measurer, "lost", {})), meanings=_meanings(search),
        )  # fmt: skip
        return TuningResult(kernel, schedule, best, facts)

    @property
    def seconds(self) -> float | None:
        """The median seconds per call of the best kernel, from the final race if there was one.

        ``None`` if nothing was timed.
        """
        return self.best.seconds

    @property
    def ended(self) -> str:
        """The reason why the search stopped."""
        return self.facts.ended

    @property
    def broken(self) -> bool:
        """True if an error ended the search: a full disk, lost workers, a broken template.

        The result is the best schedule until then, and ``ended`` is the error.
        """
        return self.facts.broken

    @property
    def trials(self) -> list[Trial]:
        return list(self.facts.trials)

    def report(self, path: str | Path) -> Path:
        """Write a report of the search, one HTML file that opens offline, and return its path."""
        return write_report(path, self.facts)

    def __str__(self) -> str:
        return summary(self.facts)

    def _repr_html_(self) -> str:
        names = NameTable()
        nest = nest_html(self.schedule.nest(), names)
        return fragment(f"{listing(str(self), 'the result')}{nest}", len(names))

    def __repr__(self) -> str:
        return f"<TuningResult {self.facts.name}: {len(self.facts.trials)} trials, {self.ended}>"


def _meanings(search: Search) -> dict[str, str]:
    """Return what the knobs of the tactics decide, by name; a user's template has its own knobs."""
    if search.template:
        return {}
    moves = moves_of(registry_for(search.task.target))
    names = dict.fromkeys(name for trial in search.trials for name in trial.decisions)
    return {name: moves.meaning(name) for name in names if moves.meaning(name)}
