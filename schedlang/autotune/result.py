"""What a search found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from schedlang.autotune.record import Trial
from schedlang.autotune.search import name_of
from schedlang.autotune.showing.facts import correlation
from schedlang.autotune.showing.report import Facts, write_report
from schedlang.autotune.showing.summary import HINTS, summary
from schedlang.compute.graph import variables
from schedlang.compute.work import flops
from schedlang.errors import TuningError
from schedlang.runtime.build import build, lower
from schedlang.runtime.kernel import Kernel
from schedlang.schedule.schedule import Schedule

if TYPE_CHECKING:
    from schedlang.autotune.run import Search


class TuningResult:
    """The best schedule of a search, its kernel, its time, and every trial.

    ``trials`` are the :class:`~schedlang.autotune.record.Trial` records in the order in which they
    ended; ``ended`` says why the search stopped. ``print`` shows a summary.
    """

    def __init__(
        self, kernel: Kernel, schedule: Schedule, best: Trial, facts: Facts, ended: str
    ) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.best = best
        self.facts = facts
        self.ended = ended

    @staticmethod
    def of(search: Search, spent: float, seed: int) -> TuningResult:
        """What a search that has ended found. Raises where no candidate worked."""
        best = search.best()
        task = search.task
        if best is None:
            raise TuningError(_nothing(search))
        found = Schedule.from_json(best.steps, list(task.outputs))
        kernel = build(found, target=task.target)
        known = {v: task.sizes[v.name] for v in variables(task.outputs) if v.name in task.sizes}
        facts = Facts(
            name=search.name, where=search.where, trials=tuple(search.trials),
            baseline=search.baseline, tried=search.space.counts["tried"],
            valid=search.space.counts["valid"],
            rank_correlation=correlation(search.trials),
            timed=task.timed, best_nest=str(lower(found)), best_source=kernel.source,
            best_python=found.as_python(), flops=float(flops(task.outputs, known)),
            spent=spent, strategy=name_of(search.strategy), seed=seed,
            best=best.number, seconds=best.seconds, duplicates=search.duplicates,
        )  # fmt: skip
        return TuningResult(kernel, found, best, facts, search.ended)

    @property
    def seconds(self) -> float | None:
        """The median of a call of the best kernel; ``None`` where nothing was timed."""
        return self.best.seconds

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


def _nothing(search: Search) -> str:
    """Why a search has no result, and what to do."""
    head = f"autotune({search.name}): "
    if search.trials:
        ends = Counter(f"{t.outcome}: {t.detail}" for t in search.trials)
        listed = "".join(f"\n  {count} times {text}" for text, count in ends.most_common(5))
        outcome = Counter(t.outcome for t in search.trials).most_common(1)[0][0]
        hint = f"\n  {HINTS[outcome]}" if outcome in HINTS else ""
        return f"{head}none of {len(search.trials)} candidates worked{listed}{hint}"
    if search.space.counts["tried"] and not search.space.counts["valid"]:
        refused = search.space.reasons.most_common(5)
        listed = "".join(f"\n  {count} times {text}" for text, count in refused)
        return f"{head}no decisions of the template make a candidate{listed}"
    ended = search.ended or "it ended"
    return f"{head}{ended} before a candidate was measured: give more trials or more time"


__all__ = ["TuningResult"]
