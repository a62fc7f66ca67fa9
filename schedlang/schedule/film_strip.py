"""The steps of a schedule, which a notebook shows as frames: the code of each, and its change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from schedlang.ir.html import nest_lines
from schedlang.markup.bundle import mime_bundle
from schedlang.markup.elements import listing
from schedlang.markup.fragment import fragment
from schedlang.markup.name_table import NameTable
from schedlang.schedule.steps import Step

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule


class Steps(tuple[Step, ...]):
    """The steps of a schedule, as a tuple."""

    _schedule: Schedule

    def __new__(cls, steps: Iterable[Step], schedule: Schedule) -> Steps:
        steps_ = super().__new__(cls, tuple(steps))
        steps_._schedule = schedule.copy()
        return steps_

    def __reduce__(self) -> Any:
        return tuple, (tuple(self),)

    def _repr_html_(self) -> str:
        names = NameTable()
        frames = "".join(_frame(self._schedule, count, names) for count in range(len(self) + 1))
        return fragment(f'<div class="strip">{frames}</div>', len(names))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return mime_bundle(self._repr_html_(), self._code())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # IPython prefers its own text of tuples to the text of the bundle
        printer.text(self._code())

    def _code(self) -> str:
        return "\n".join(self._schedule.code(count) for count in range(1, len(self) + 1))


def _frame(schedule: Schedule, count: int, names: NameTable) -> str:
    """Return the frame after ``count`` steps; its new lines are coloured."""
    nest = schedule.at(count).nest()
    lines = nest_lines(nest, names)
    old = set(str(schedule.at(count - 1).nest()).split("\n")) if count else {t for t, _ in lines}
    body = "".join(
        f'<pre class="line{"" if text in old else " added"}">{html}</pre>' for text, html in lines
    )
    name = f"{count}" if count else "start"
    code = listing(schedule.code(count), f"the code of step {count}") if count else ""
    return f'<div class="frame"><p>{name}</p>{code}<div class="block">{body}</div></div>'
