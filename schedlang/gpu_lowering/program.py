"""The program of a GPU for a nest, as data: launches of kernels in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Union

from schedlang.expr.nodes import Axis, Expr
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, walk


@dataclass(frozen=True, eq=False)
class Index:
    """One of ``blockIdx.x`` to ``threadIdx.z``: the variable that holds it, and its extent."""

    tag: str
    axis: Axis
    extent: Union[int, Expr]

    @property
    def letter(self) -> str:
        return self.tag[-1]


@dataclass(frozen=True, eq=False)
class Launch:
    """One kernel: ``body`` runs in each thread of ``block``, in each block of ``grid``.

    The thread and block indices are variables that nothing in ``body`` binds; its loops are
    serial, vectorized or unrolled. Shared storage stands first in it.
    """

    name: str
    stage: str
    grid: tuple[Index, ...]
    block: tuple[Index, ...]
    body: Block

    @property
    def indices(self) -> tuple[Index, ...]:
        return (*self.grid, *self.block)

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return prod(int(i.extent) for i in self.block)

    @property
    def shared(self) -> tuple[Buffer, ...]:
        """The shared buffers of a block."""
        found = (s.buffer for s, _ in walk(self.body) if isinstance(s, Alloc))
        return tuple(b for b in found if b.scope == "shared")

    @property
    def shared_bytes(self) -> int:
        """The bytes of shared storage, where each buffer starts at a multiple of 16."""
        return sum(-(-(b.bytes or 0) // 16) * 16 for b in self.shared)

    def dims(self, kind: str) -> tuple[Union[int, Expr], ...]:
        """Return the extents in x, y and z of the ``"grid"`` or the ``"block"``."""
        found = {i.letter: i.extent for i in (self.grid if kind == "grid" else self.block)}
        return tuple(found.get(letter, 1) for letter in "xyz")


@dataclass(frozen=True, eq=False)
class Scratch:
    """Global memory that the launches after it share."""

    buffer: Buffer


@dataclass(frozen=True, eq=False)
class Repeat:
    """Steps that the host repeats: a scan's time, or a loop around bound ones."""

    axis: Axis
    extent: Union[int, Expr]
    body: tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class When:
    """Steps that run where a condition on the sizes holds."""

    cond: Expr
    body: tuple[Step, ...]


Step = Union[Launch, Scratch, Repeat, When]


@dataclass(frozen=True, eq=False)
class Program:
    """A nest as the steps of a host."""

    nest: Nest
    steps: tuple[Step, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(s for s in all_steps(self.steps) if isinstance(s, Launch))

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        return tuple(s.buffer for s in all_steps(self.steps) if isinstance(s, Scratch))


def all_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield every step, those inside others too, in order."""
    for step in steps:
        yield step
        if isinstance(step, (Repeat, When)):
            yield from all_steps(step.body)
