"""Collisions: whether different threads of a block may reach one element, and need a barrier.

Two accesses that cannot be proven disjoint count as a collision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    """A read or write of shared storage, with the loops and conditions around it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool
    stage: str
    loops: tuple[For, ...]
    tests: tuple[Expr, ...]
    atomic: bool = False


@dataclass(frozen=True, eq=False)
class Between:
    """The context that two accesses share: the threads, and the loops around both.

    Both accesses are in the same iteration of the loops ``same``. The second is one iteration
    ahead in the loops ``moving``. They are in different iterations of ``apart``.
    """

    launch: Launch
    same: Sequence[For]
    moving: Sequence[For] = ()
    apart: For | None = None


def collide(a: Access, b: Access, between: Between) -> bool:
    """Return whether different threads may reach one element, one by ``a`` and one by ``b``."""
    launch = between.launch
    shared = collisions.Between(
        {i.axis: int(i.extent) for i in launch.block},
        [x.axis for x in between.same],
        [x.axis for x in between.moving],
        None if between.apart is None else between.apart.axis,
    )
    return not any(
        collisions.never_meet(_at(a, left, launch), _at(b, right, launch), shared)
        for left, right in _forms(a, b)
    )


Indices = Sequence[Lin]


def _forms(a: Access, b: Access) -> Iterable[tuple[Indices, Indices]]:
    """Yield the indices of both accesses in each form; equal indices mean one element."""
    left, right = ([to_lin(i) for i in access.indices] for access in (a, b))
    yield left, right
    if any(isinstance(atom, (Div, Mod)) for lin in (*left, *right) for atom in lin.atoms()):
        # the row and the column of an element may come from one fused axis
        yield tuple([merge_div_mod(flat(x.buffer, x.indices))] for x in (a, b))  # type: ignore[misc]


def _at(access: Access, indices: Indices, launch: Launch) -> accesses.Access:
    """Return ``access`` at ``indices``, with the threads as loops around it."""
    block = [(i.axis, to_lin(i.extent)) for i in launch.block]
    loops = tuple((x.axis, to_lin(x.extent)) for x in access.loops)
    extents: dict[Axis, Lin] = {i.axis: to_lin(i.extent) for i in launch.indices} | dict(loops)
    ranges = Ranges({axis: (ZERO, extent - 1) for axis, extent in extents.items()})
    return accesses.Access(tuple(indices), (*block, *loops), access.tests, ranges)
