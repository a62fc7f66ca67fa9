"""Race detection: no two concurrent iterations of a loop may access one element to write it.

A proof takes two different iterations of the loop, with arbitrary iterations of the loops inside,
and shows that they access different elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schedlang.errors import VerifyError
from schedlang.expr.nodes import Expr
from schedlang.index import accesses
from schedlang.index.iterations import SecondIteration, always_differ
from schedlang.index.linear import Lin
from schedlang.index.simplify import merge_div_mod, to_lin
from schedlang.ir.accesses import Site
from schedlang.ir.dimension_orders import flat, orders
from schedlang.ir.nodes import Buffer, For, Load


@dataclass(frozen=True, eq=False)
class Access:
    """An access to one element: the write of a store, or the read of a load."""

    buffer: Buffer
    site: Site
    at: tuple[Expr, ...]
    writes: bool

    @cached_property
    def index(self) -> accesses.Access:
        """The access as its indices, loops and conditions."""
        indices = (
            self.site.indices
            if self.writes
            else (to_lin(i, ranges=self.site.ranges) for i in self.at)
        )
        conds = tuple(guard.cond for guard in self.site.guards)
        merged = tuple(map(merge_div_mod, indices))
        return accesses.Access(merged, self.site.extents, conds, self.site.ranges)

    def place(self, order: Sequence[int]) -> Lin:
        """Return the flat position of the element in its buffer of dimensions in ``order``."""
        return flat(self.buffer, self.index.indices, order)


def check_races(
    loop: For,
    position: int,
    stores: Sequence[Site],
    loads: Sequence[tuple[Load, Site | None]],
    counting: bool = True,
) -> list[str]:
    """Raise if two iterations of ``loop`` access one element and one of them writes it.

    Return a sentence for each buffer whose accesses are not proven free of races. ``counting``
    tries all iterations where no proof applies.
    """
    writes: dict[Buffer, list[Access]] = {}
    for site in stores:
        for buffer in site.stmt.buffers:
            if not _shared_by_threads(loop, buffer):
                write = Access(buffer, site, site.stmt.indices, True)
                writes.setdefault(buffer, []).append(write)
    unproven: dict[str, None] = {}
    for a, b in _pairs(writes, loads):
        apart = _differ_always(loop, position, a, b, counting)
        if apart is False:
            raise VerifyError(_race_message(loop, a, b))
        if apart is None:
            unproven[
                f"it is not proven that the iterations of {loop.kind} loop {loop.axis.name} access "
                f"different elements of {a.buffer.name} (stage {a.site.stmt.stage})"
            ] = None
    return list(unproven)


def _pairs(
    writes: dict[Buffer, list[Access]], loads: Sequence[tuple[Load, Site | None]]
) -> Iterator[tuple[Access, Access]]:
    """Yield each pair of accesses to one buffer, once; the first access writes."""
    for stores in writes.values():
        for k, store in enumerate(stores):
            for other in stores[k:]:
                # atomic updates of one element follow each other
                if not (store.site.stmt.atomic and other.site.stmt.atomic):
                    yield store, other
    visited: set[tuple[int, Any]] = set()
    for load, reader in loads:
        assert reader is not None
        for store in writes.get(load.buffer, ()):
            read = Access(load.buffer, reader, load.indices, False)
            # a loop body with many loads of one element yields the same pair many times
            key = (id(store), (id(reader), read.index.indices))
            if key not in visited:
                visited.add(key)
                yield store, read


def _race_message(loop: For, a: Access, b: Access) -> str:
    what = f"{a.buffer.name} is"
    by = f"of {loop.kind} loop {loop.axis.name}"
    stage = f"(stage {a.site.stmt.stage})"
    if not b.writes:
        return f"{what} read by one iteration {by} and written by another {stage}"
    how = "combined into" if a.site.stmt.reducer is not None else "written"
    return f"{what} {how} by several iterations {by} at the same element {stage}"


def _shared_by_threads(loop: For, buffer: Buffer) -> bool:
    # barriers order the accesses of a block's threads to storage they share; gpu_lowering checks it
    return loop.tag.startswith("threadIdx") and buffer.scope in ("shared", "global")


def _differ_always(loop: For, position: int, a: Access, b: Access, counting: bool) -> bool | None:
    """Return whether different iterations of ``loop`` access different elements.

    Return ``None`` if that is unknown.
    """
    inside = {x.axis for x in (*a.site.loops[position:], *b.site.loops[position:])}
    second = SecondIteration(loop.axis, a.index, b.index, inside)
    return always_differ(second, _places(a, b), counting)


def _places(a: Access, b: Access) -> Iterator[tuple[Lin, Lin]]:
    for order in orders(a.buffer, (*a.index.indices, *b.index.indices)):
        yield a.place(order), b.place(order)
