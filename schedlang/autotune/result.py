"""What a search found."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from schedlang.autotune.record import Trial
from schedlang.autotune.search import name_of
from schedlang.autotune.showing.facts import Facts, correlation
from schedlang.autotune.showing.nothing import BY_RULES, CONSTRAINED, ILLEGAL, LATE, why_nothing
from schedlang.autotune.showing.report import write_report
from schedlang.autotune.showing.summary import summary
from schedlang.autotune.space import Space
from schedlang.compute.work import needed_flops
from schedlang.errors import SpillWarning, TuningError
from schedlang.runtime.build import build, lower
from schedlang.runtime.kernel import Kernel
from schedlang.schedule.schedule import Schedule

# reasons why decisions made no candidate that are kept
MOST_REASONS = 3

if TYPE_CHECKING:
    from schedlang.autotune.state import Search


class TuningResult:
    """The best schedule of a search, its kernel, its time, and every trial.

    ``trials`` are the :class:`~schedlang.autotune.record.Trial` records in the order in which they
    ended. ``print`` shows a summary.
    """

    def __init__(self, kernel: Kernel, schedule: Schedule, best: Trial, facts: Facts) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.best = best
        self.facts = facts

    @staticmethod
    def of(search: Search, spent: float, seed: int) -> TuningResult:
        """What a search that has ended found. Raises where no candidate worked."""
        best = search.best()
        task, space = search.task, search.space
        if best is None:
            why = why_nothing(
                search.trials, space.counts["valid"], space.reasons.most_common(), search.ended,
                _hint(space),
            )  # fmt: skip
            raise TuningError(f"autotune({search.name}): {why}")
        found = Schedule.from_json(best.steps, list(task.outputs))
        with warnings.catch_warnings():
            # measured, it was the best even so
            warnings.simplefilter("ignore", SpillWarning)
            kernel = build(found, target=task.target)
        facts = Facts(
            name=search.name, where=search.where, trials=tuple(search.trials),
            baseline=search.baseline, tried=space.counts["tried"],
            valid=space.counts["valid"],
            rank_correlation=correlation(search.trials),
            timed=task.timed, best_nest=str(lower(found)), best_source=kernel.source,
            best_python=found.as_python(), flops=needed_flops(task.outputs, task.values),
            spent=spent, strategy=name_of(search.strategy), seed=seed, best=best.number,
            ended=search.ended, broken=search.broken,
            # what the measurer does with a candidate (measure.run)
            ran=task.timed or task.target.kind != "cuda",
            refused=tuple(space.reasons.most_common(MOST_REASONS)),
            duplicates=search.duplicates, unraced=search.unraced, untimed=_untimed(search),
            remark=_remark(search, found), finals_took=search.finals_took,
        )  # fmt: skip
        return TuningResult(kernel, found, best, facts)

    @property
    def seconds(self) -> float | None:
        """The median of a call of the best kernel; ``None`` where nothing was timed."""
        return self.best.seconds

    @property
    def ended(self) -> str:
        """Why the search stopped."""
        return self.facts.ended

    @property
    def broken(self) -> bool:
        """Whether the search was broken off: a disk that is full, workers that are gone.

        The result is the best until then; ``ended`` is the error.
        """
        return self.facts.broken

    @property
    def trials(self) -> list[Trial]:
        return list(self.facts.trials)

    def report(self, path: str | Path) -> Path:
        """Write a page about the search, one HTML file that opens offline; its path."""
        return write_report(path, self.facts)

    def __str__(self) -> str:
        return summary(self.facts)

    def __repr__(self) -> str:
        return f"<TuningResult {self.facts.name}: {len(self.facts.trials)} trials, {self.ended}>"


def _hint(space: Space) -> str:
    """What to do where no decisions make a candidate."""
    if space.made:
        return LATE if space.late() else BY_RULES
    why = space.reasons.most_common(1)
    return ILLEGAL if why and why[0][0] in space.illegal else CONSTRAINED


def _untimed(search: Search) -> str:
    """Why the untuned schedule has no time; nothing where it has one."""
    if search.baseline is not None or not search.task.timed:
        return ""
    if search.untuned is not None:
        return ": ".join(filter(None, (search.untuned.outcome, search.untuned.detail)))
    if not search.times_plain:
        return "it has no threads, which a GPU needs"
    up = "the search's time was up" if search.space.late() else "the search ended"
    return f"{up} before it was timed"


def _remark(search: Search, found: Schedule) -> str:
    """What is odd about a template that made one loop nest and no other."""
    if not search.template or len(search.seen) != 1:
        return ""
    # of knobs of which one set was drawn, or of which others were refused, nothing is known
    if search.trials[0].decisions and (not search.duplicates or search.space.counts["invalid"]):
        return ""
    if not found.steps:
        return "it applied no steps"
    if not search.duplicates:
        return ""
    if not search.trials[0].decisions:
        return "it asks for no knobs, and makes one schedule"
    return "its knobs changed nothing: all that were drawn make the same loop nest"


__all__ = ["TuningResult"]
