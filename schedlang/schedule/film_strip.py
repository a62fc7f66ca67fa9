"""The steps of a schedule, which a notebook shows as frames: the code of each, and its change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from schedlang.ir.html import KEYWORDS, titles_of
from schedlang.markup.code import marked
from schedlang.markup.elements import listing
from schedlang.markup.fragment import fragment
from schedlang.schedule.steps import Step

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule


class Steps(tuple[Step, ...]):
    """The steps of a schedule, as a tuple."""

    _schedule: Schedule

    def __new__(cls, steps: Iterable[Step], schedule: Schedule) -> Steps:
        made = super().__new__(cls, tuple(steps))
        made._schedule = schedule.copy()
        return made

    def __reduce__(self) -> Any:
        return tuple, (tuple(self),)

    def _repr_html_(self) -> str:
        frames = "".join(_frame(self._schedule, count) for count in range(len(self) + 1))
        return fragment(f'<div class="strip">{frames}</div>')


def _frame(schedule: Schedule, count: int) -> str:
    """Return the frame after ``count`` steps; its new lines are coloured."""
    nest = schedule.at(count).nest()
    lines = str(nest).splitlines()
    old = set(str(schedule.at(count - 1).nest()).splitlines()) if count else set(lines)
    titles = titles_of(nest)
    body = "".join(
        f'<div class="line{"" if line in old else " added"}">'
        f"{marked(line, titles, KEYWORDS)}</div>"
        for line in lines
    )
    name = f"{count}" if count else "start"
    code = listing(schedule.code(count), f"the code of step {count}") if count else ""
    return f'<div class="frame"><p>{name}</p>{code}{body}</div>'


__all__ = ["Steps"]
