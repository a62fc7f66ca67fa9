"""Refusals as data: what is wrong with a step, without the text of the call and the loop nest."""

from __future__ import annotations

from typing import NoReturn

from schedlang.expr.nodes import Axis
from schedlang.state.state import State


class Refusal(Exception):
    """A step that is illegal: why, what to do instead, and the loop at fault in a state.

    ``beside`` has the lines of the nest that the loop should be.
    """

    def __init__(
        self, why: str, hint: str, state: State | None, axis: Axis | None, beside: str = ""
    ) -> None:
        super().__init__(why)
        self.why, self.hint = why, hint
        self.state, self.axis, self.beside = state, axis, beside


def refuse(
    why: str, hint: str = "", state: State | None = None, axis: Axis | None = None,
    beside: str = "",
) -> NoReturn:  # fmt: skip
    """Raise :class:`Refusal`; ``state`` and ``axis`` say which loop of which nest is the cause."""
    raise Refusal(why, hint, state, axis, beside)
