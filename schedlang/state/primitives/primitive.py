"""The row of a primitive in the table of its family."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schedlang.state.state import Result


@dataclass(frozen=True)
class Primitive:
    """A primitive and what the recording, the printing and the checks of its calls need.

    ``apply`` is the function of a state. ``keywords`` are the arguments that a call names. A step
    that ``keeps_loops`` cannot make an earlier request for a cut impossible. ``makes_tensors`` says
    that the step adds a stage, ``on_schedule`` that it takes the whole schedule, not a stage, and
    ``changes_operands`` that it returns the list of the stages that it adds for operands.
    """

    apply: Callable[..., Result]
    keywords: tuple[str, ...] = ()
    keeps_loops: bool = False
    makes_tensors: bool = False
    on_schedule: bool = False
    changes_operands: bool = False

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The arguments that a call may leave out, with their values."""
        parameters = inspect.signature(self.apply).parameters.values()
        return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The arguments of a step that have no default."""
        own = () if self.on_schedule else ("stage",)
        parameters = inspect.signature(self.apply).parameters.values()
        return tuple(
            p.name for p in parameters
            if p.default is inspect.Parameter.empty and p.name not in ("state", *own)
        )  # fmt: skip
