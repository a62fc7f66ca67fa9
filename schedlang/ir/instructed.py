"""The use of an instruction in a nest: its operands in memory, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from schedlang.expr.nodes import Call, Expr
from schedlang.instructions.declaration import Instruction, ValueEmission
from schedlang.instructions.fragments import MatrixLoad
from schedlang.ir.nodes import Load


@dataclass(frozen=True, eq=False, repr=False)
class Tile(Load):
    """The ``count`` adjacent elements of a buffer from the one at ``indices`` on."""

    count: int = 1

    def with_children(self, children: tuple[Expr, ...]) -> Tile:
        return Tile(self.buffer, children, self.dtype, count=self.count)


@dataclass(frozen=True, eq=False, repr=False)
class Instructed(Call):
    """The result of an instruction for all lanes, whose operands are tiles.

    ``emission`` computes it on the target. One that accumulates gets the earlier value of its
    result, as the first operand, where its update becomes a plain store.
    """

    instruction: Optional[Instruction] = None
    emission: Optional[ValueEmission] = None

    @property
    def loads_matrices(self) -> bool:
        """True if its operand is the row of shared memory whose address the lane gives."""
        return isinstance(self.emission, MatrixLoad)
