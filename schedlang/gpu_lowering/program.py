"""Device programs: kernel launches and host steps in order, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Optional, Union

from schedlang.expr.nodes import Axis, Expr
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, Commit, walk
from schedlang.ir.rewrite import storage


@dataclass(frozen=True, eq=False)
class Index:
    """A thread or block index, such as ``threadIdx.x``, with its variable and extent.

    ``number`` is the number of its loop in the scheduled nest.
    """

    tag: str
    axis: Axis
    extent: Union[int, Expr]
    number: Optional[int] = None

    @property
    def letter(self) -> str:
        return self.tag[-1]


@dataclass(frozen=True, eq=False)
class Launch:
    """One kernel: ``body`` runs in each thread of ``block``, in each block of ``grid``.

    Thread and block indices are free variables of ``body``. Its loops are serial, vectorized or
    unrolled. Its shared storage is allocated first.
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
    def number(self) -> int | None:
        """The number of the outermost loop that is bound to blocks or threads."""
        return min((i.number for i in self.indices if i.number is not None), default=None)

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return prod(int(i.extent) for i in self.block)

    @property
    def copies_asynchronously(self) -> bool:
        """True if the hardware copies tiles of it to shared memory by itself."""
        return any(isinstance(s, Commit) for s, _ in walk(self.body))

    @property
    def shared(self) -> tuple[Buffer, ...]:
        """The shared buffers of a block."""
        buffers = storage(self.body)
        return tuple(b for b in buffers if b.scope == "shared")

    @property
    def shared_bytes(self) -> int:
        """The bytes of shared storage, with each buffer aligned to 16."""
        return sum(-(-(b.bytes or 0) // 16) * 16 for b in self.shared)

    def dims(self, kind: str) -> tuple[Union[int, Expr], ...]:
        """Return the extents of the ``"grid"`` or the ``"block"`` in x, y and z."""
        extents = {i.letter: i.extent for i in (self.grid if kind == "grid" else self.block)}
        return tuple(extents.get(letter, 1) for letter in "xyz")


@dataclass(frozen=True, eq=False)
class Scratch:
    """A step that allocates global memory for the launches after it."""

    buffer: Buffer
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Repeat:
    """A loop of the host over steps: a scan's time loop, or a loop around bound loops."""

    axis: Axis
    extent: Union[int, Expr]
    body: tuple[Step, ...]
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class When:
    """Steps that run if a condition on the sizes holds."""

    cond: Expr
    body: tuple[Step, ...]
    number: Optional[int] = None


Step = Union[Launch, Scratch, Repeat, When]


@dataclass(frozen=True, eq=False)
class Program:
    """A nest as the steps that the host runs."""

    nest: Nest
    steps: tuple[Step, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(s for s in all_steps(self.steps) if isinstance(s, Launch))

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        return tuple(s.buffer for s in all_steps(self.steps) if isinstance(s, Scratch))


def all_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield every step in order, nested ones included."""
    for step in steps:
        yield step
        if isinstance(step, (Repeat, When)):
            yield from all_steps(step.body)
