"""A call of a kernel to count, and how much of it is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.ir.nest import Nest
from schedlang.machine.nest import MachineNest
from schedlang.runtime.parameters import Signature

MOST = 10**8
MOST_TRACED = 10**7


@dataclass(frozen=True, eq=False)
class Call:
    """A call to count: the nest that runs, and its arguments as the compiled function takes them.

    ``flat`` are flat arrays and scalars; the kernel writes to the outputs among them. ``sizes`` are
    the values of symbolic sizes. ``started`` returns a compiled function of the nest as one that
    takes these arguments, then others.
    """

    name: str
    nest: Nest
    machine: MachineNest
    flat: Sequence[Any]
    sizes: Mapping[str, int]
    started: Callable[[Callable[..., None]], Callable[..., None]] = lambda function: function

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the user's functions that the nest calls."""
        return tuple(dict.fromkeys(stmt.function.name for stmt in self.machine.invoked))


def with_new_outputs(arrays: Sequence[Any], signature: Signature) -> list[Any]:
    """Return the arguments of a call with new arrays in place of its outputs."""
    return [
        np.empty_like(value) if p.is_output and not p.is_scalar else value
        for value, p in zip(arrays, signature.parameters)
    ]
