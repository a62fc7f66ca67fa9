"""Steps to try on a copy of a schedule, which may be refused.

Every candidate is made here: what the tuner draws, each stage of the plain schedule of
``sl.autoschedule``, and each of ``sl.next_steps``. The primitives and lowering know what is legal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from schedlang.ir.nest import Nest
from schedlang.lowering.lower import lower_state
from schedlang.schedule.schedule import Schedule

# a function that takes a step, or a few that belong together
Take = Callable[[Schedule], object]


# what happens to a warning: it is raised, dropped, or left alone
Filter = Literal["error", "ignore", "default"]


def try_steps(
    s: Schedule, take: Take, warned: Filter, category: type[Warning] = Warning
) -> Schedule:
    """Return a copy of ``s`` that has taken some steps; raise why one of them is refused.

    With ``"error"``, a step that gives a warning of ``category`` is refused, too.
    """
    copy = s.copy()
    with filter_warnings(warned, category):
        take(copy)
    return copy


def try_and_lower(
    s: Schedule, take: Take, warned: Filter, category: type[Warning] = Warning
) -> tuple[Schedule, Nest]:
    """Return the copy that :func:`try_steps` returns, and its loop nest; raise why there is none.

    Warnings of lowering are treated like warnings of the steps.
    """
    copy = s.copy()
    with filter_warnings(warned, category):
        take(copy)
        return copy, lower_state(copy.state)


@contextmanager
def filter_warnings(warned: Filter, category: type[Warning] = Warning) -> Iterator[None]:
    """Raise, drop, or leave alone the warnings of ``category`` in a ``with`` block."""
    if warned == "default":
        # all threads share the filters, which are left alone, too
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter(warned, category)
        yield


@dataclass(frozen=True)
class Steps:
    """Steps to try: the primitive they are named after, its stage, and what takes them.

    ``vectors`` is the same for steps that differ in the width of a vector alone, else ``None``.
    """

    primitive: str
    stage: str
    take: Take
    vectors: object = None


def step(primitive: str, stage: str, *arguments: Any, **options: Any) -> Steps:
    """Return one step: a primitive of a stage, with its arguments."""
    return Steps(primitive, stage, lambda s: getattr(s[stage], primitive)(*arguments, **options))


def of_schedule(primitive: str, stage: str, *arguments: Any) -> Steps:
    """Return one step that a schedule takes itself, as ``s.rfactor`` is."""
    return Steps(primitive, stage, lambda s: getattr(s, primitive)(*arguments))
