"""Collisions: whether different threads of a block may reach one element, and need a barrier.

Two accesses that cannot be proven disjoint count as a collision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from schedlang.expr.nodes import Axis, Expr
from schedlang.gpu_lowering.program import Launch
from schedlang.index import accesses, collisions
from schedlang.index.linear import ZERO, Div, Lin, Mod
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import merge_div_mod, to_lin
from schedlang.ir.nodes import Buffer, For
from schedlang.ir.offsets import flat


@dataclass(frozen=True, eq=False)
class Access:
    """A read or write of shared storage in a launch, with the loops and conditions around it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool
    stage: str
    loops: tuple[For, ...]
    tests: tuple[Expr, ...]
    launch: Launch
    atomic: bool = False

    @cached_property
    def at_indices(self) -> accesses.Access:
        """The access at its indices; equal indices mean one element, as in the other form."""
        return self._at([to_lin(i) for i in self.indices])

    @cached_property
    def at_offset(self) -> accesses.Access:
        """The access at one flat index: its row and its column may come from one fused axis."""
        # swizzles move elements, but no two to one place
        unmoved = replace(self.buffer, swizzles=()) if self.buffer.swizzles else self.buffer
        return self._at([merge_div_mod(flat(unmoved, self.indices))])

    @cached_property
    def is_divided(self) -> bool:
        """True if an index has a quotient or a remainder."""
        atoms = (atom for lin in self.at_indices.indices for atom in lin.atoms())
        return any(isinstance(atom, (Div, Mod)) for atom in atoms)

    def _at(self, indices: Sequence[Lin]) -> accesses.Access:
        """Return the access at ``indices``, with the threads as loops around it."""
        block = [(i.axis, to_lin(i.extent)) for i in self.launch.block]
        loops = tuple((x.axis, to_lin(x.extent)) for x in self.loops)
        launched = {i.axis: to_lin(i.extent) for i in self.launch.indices}
        extents: dict[Axis, Lin] = launched | dict(loops)
        ranges = Ranges({axis: (ZERO, extent - 1) for axis, extent in extents.items()})
        return accesses.Access(tuple(indices), (*block, *loops), self.tests, ranges)


@dataclass(frozen=True, eq=False)
class Between:
    """The context that two accesses share: the threads, and the loops around both.

    Both accesses are in the same iteration of the loops ``same``. The second is one iteration
    ahead in the loops ``moving``. They are in different iterations of ``apart``.
    """

    launch: Launch
    same: tuple[For, ...]
    moving: tuple[For, ...] = ()
    apart: For | None = None


def collide(a: Access, b: Access, between: Between) -> bool:
    """Return whether different threads may reach one element, one by ``a`` and one by ``b``."""
    shared = collisions.Between(
        {i.axis: int(i.extent) for i in between.launch.block},
        [x.axis for x in between.same],
        [x.axis for x in between.moving],
        None if between.apart is None else between.apart.axis,
    )
    if collisions.never_meet(a.at_indices, b.at_indices, shared):
        return False
    divided = a.is_divided or b.is_divided
    return not (divided and collisions.never_meet(a.at_offset, b.at_offset, shared))
