"""Remarks on a search that has ended: hints, and the oddities of a template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlang.autotune.budget import UNTUNED_PART
from schedlang.autotune.report.no_result import BY_TACTICS, CONSTRAINED, ILLEGAL, LATE
from schedlang.autotune.runner.measure import TIMED_OUT
from schedlang.markup.progress import span
from schedlang.schedule.schedule import Schedule

if TYPE_CHECKING:
    from schedlang.autotune.space import Space
    from schedlang.autotune.state import Search


def hint(space: Space) -> str:
    """Return what to do if no draw makes a candidate."""
    if space.by_tactics:
        return LATE if space.late() else BY_TACTICS
    why = space.reasons.most_common(1)
    return ILLEGAL if why and why[0][0] in space.illegal else CONSTRAINED


def why_untimed(search: Search) -> str:
    """Return why the untuned schedule has no time, or an empty text if it has one."""
    if search.baseline is not None or not search.task.timed:
        return ""
    if search.untuned is not None and search.timeout and search.untuned.outcome in TIMED_OUT:
        allowed = span(UNTUNED_PART * search.timeout)
        return f"it takes longer than a tenth of the timeout, {allowed}"
    if search.untuned is not None:
        return ": ".join(filter(None, (search.untuned.outcome, search.untuned.detail)))
    if not search.times_untuned:
        return "it binds no threads, which a GPU needs"
    up = "the time of the search was up" if search.space.late() else "the search ended"
    return f"{up} before it was timed"


def remark(search: Search, s: Schedule) -> str:
    """Return what is odd about a template that made only one loop nest."""
    if not search.template or len(search.seen) != 1:
        return ""
    # one draw, or draws that were refused, do not show that the knobs have no effect
    if search.trials[0].decisions and (not search.duplicates or search.space.counts["invalid"]):
        return ""
    if not s.steps:
        return "it applied no steps"
    if not search.duplicates:
        return ""
    if not search.trials[0].decisions:
        return "it asks for no knobs, so it makes only one schedule"
    return "its knobs changed nothing: all drawn decisions make the same loop nest"
