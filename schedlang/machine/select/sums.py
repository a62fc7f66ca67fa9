"""The registers of sums that stay in registers while a reduction loop runs.

They are loaded before the loop, or initialized with the constant that would be stored there, and
stored after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.index.linear import Lin
from schedlang.ir.nodes import Buffer
from schedlang.machine.nodes import Let, Reg, Value
from schedlang.machine.nodes import Load as MachineLoad
from schedlang.machine.nodes import Stmt as MachineStmt
from schedlang.machine.nodes import Store as MachineStore
from schedlang.machine.walks import parts

# the place of a sum in memory: its buffer, the offset of its first lane, its lanes (0 for one
# element) and the distance between lanes, in elements
Spot = tuple[Buffer, Lin, int, int]


@dataclass(frozen=True)
class Sum:
    """A register that holds a sum, and the offset that it is loaded from and stored to.

    ``number`` is the number of the update.
    """

    reg: Reg
    at: Value
    number: int | None = None


@dataclass
class Sums:
    """The registers for the sums of one reduction loop, collected as its body is built.

    ``mask`` is the mask around the loop.
    """

    buffers: frozenset[Buffer]
    mask: Value | None = None
    named: dict[Spot, Sum] = field(default_factory=dict)


def starts_of(
    stmts: Sequence[MachineStmt], constant: Mapping[MachineStore, Spot], sums: Sums
) -> dict[Spot, MachineStore]:
    """Return the stores of constants at the end of ``stmts`` that ``sums`` can start from.

    ``constant`` holds the places of stores of constants. A buffer's sums start from them if each of
    its sums was stored exactly once.
    """
    stores: list[MachineStore] = []
    for stmt in reversed(stmts):
        if isinstance(stmt, MachineStore) and stmt in constant:
            stores.append(stmt)
        elif not isinstance(stmt, Let) or _reads_memory(stmt.value):
            break
    begun: dict[Spot, MachineStore] = {}
    for buffer in sums.buffers:
        own = [stmt for stmt in stores if constant[stmt][0] is buffer]
        spots = {constant[stmt]: stmt for stmt in own}
        if len(spots) == len(own) and set(spots) == {k for k in sums.named if k[0] is buffer}:
            begun |= spots
    return begun


def _reads_memory(value: Value) -> bool:
    return any(isinstance(v, MachineLoad) for v in parts(value))
