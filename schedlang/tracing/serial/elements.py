"""Elements that the iterations of a loop update one after the other: local while the loop runs.

The loop may read other elements of the array. A compiler would take them for the same one, and
store and load it in each iteration; their indices show that they are others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import ZERO, Lin
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import Site, sites, stores
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Load,
    Stmt,
    Store,
    block_of,
    with_held,
)
from schedlang.ir.rewrite import relocate
from schedlang.tracing.serial.segments import Names


@dataclass(frozen=True)
class Element:
    """An element of an array."""

    buffer: Buffer
    indices: tuple[Expr, ...]


def with_local_elements(
    block: Block, arrays: Sequence[Buffer], names: Names, ranges: Ranges | None = None
) -> Block:
    """Return a block in which loops update elements of ``arrays`` in local storage.

    ``ranges`` are the ranges of the loops around.
    """
    around = Ranges() if ranges is None else ranges
    stmts: list[Stmt] = []
    for stmt in block.stmts:
        if isinstance(stmt, If):
            stmts.append(with_held(stmt, _inside(arrays, names, around)))
            continue
        if not isinstance(stmt, For) or stmt.kind != "serial":
            stmts.append(stmt)
            continue
        loop = stmt
        before: list[Stmt] = []
        after: list[Stmt] = []
        element = _updated_element(loop, arrays, around)
        while element is not None:
            first, loop, last = _with_local(loop, element, names)
            before += first
            after.append(last)
            element = _updated_element(loop, arrays, around)
        inner = with_held(loop, _inside(arrays, names, _within(around, loop)))
        stmts += [*before, inner, *after]
    return Block(tuple(stmts))


def _inside(arrays: Sequence[Buffer], names: Names, ranges: Ranges) -> Callable[[Stmt], Stmt]:
    """Return what changes the statements that a statement holds, within ``ranges``."""
    return lambda held: with_local_elements(block_of(held), arrays, names, ranges)


def _within(ranges: Ranges, loop: For) -> Ranges:
    return ranges.extended(loop.axis, ZERO, to_lin(loop.extent, ranges=ranges) - 1)


def _updated_element(loop: For, arrays: Sequence[Buffer], around: Ranges) -> Element | None:
    """Return an element that iterations read and store, the only one of its array that they store.

    The loop may have no iteration, so the element is in its array in any case.
    """
    inside = list(sites(loop))
    loops = [site.stmt for site in inside if isinstance(site.stmt, For)]
    if any(inner.kind not in ("serial", "vectorize") for inner in loops):
        return None
    own = {inner.axis for inner in loops}
    for site in stores(loop):
        element = Element(site.stmt.buffers[0], site.stmt.indices)
        is_fixed = not any(
            isinstance(node, Load) or (isinstance(node, Axis) and node in own)
            for node in postorder(element.indices)
        )
        if (
            element.buffer in arrays
            and element.indices
            and is_fixed
            and _is_inside(element, around)
            and _is_updated(element, inside, around)
        ):
            return element
    return None


def _is_inside(element: Element, ranges: Ranges) -> bool:
    """Return whether an element is proved to be in its array."""
    places = [to_lin(index, ranges=ranges) for index in element.indices]
    ends = [to_lin(extent, ranges=ranges) for extent in element.buffer.shape]
    return all(ranges.nonneg(at) and ranges.nonneg(end - at - 1) for at, end in zip(places, ends))


def _is_updated(element: Element, inside: Sequence[Site], around: Ranges) -> bool:
    """Return whether statements read and store an element, and store no other of its array."""
    is_read = False
    for site in inside:
        ranges = around
        for loop in (s for s in (*site.around, site.stmt) if isinstance(s, For)):
            ranges = _within(ranges, loop)
        for access in site.accesses:
            if access.buffer is not element.buffer:
                continue
            distances = [
                to_lin(a, ranges=ranges) - to_lin(b, ranges=ranges)
                for a, b in zip(access.indices, element.indices)
            ]
            same = all(distance == ZERO for distance in distances)
            if access.stores:
                if not same or not _is_plain(site.stmt):
                    return False
            elif access.count > 1 or not (same or any(_differ(d, ranges) for d in distances)):
                return False
            else:
                is_read |= same
    return is_read


def _is_plain(stmt: Stmt) -> bool:
    """Return whether a statement stores one value of its own."""
    return isinstance(stmt, Store) and len(stmt.buffers) == 1 and stmt.reducer is None


def _differ(distance: Lin, ranges: Ranges) -> bool:
    return ranges.nonneg(distance - 1) or ranges.nonneg(-distance - 1)


def _with_local(loop: For, element: Element, names: Names) -> tuple[list[Stmt], For, Stmt]:
    """Return what stands before a loop, the loop, and what stands after it."""
    buffer, at = element.buffer, element.indices
    local = Buffer(names.fresh(f"{buffer.name}.element"), buffer.dtype, ())
    places = tuple(map(to_lin, at))

    def moved(array: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]] | None:
        is_element = array is buffer and tuple(map(to_lin, indices)) == places
        return (local, ()) if is_element else None

    stage = buffer.name
    first = Store((local,), (), (Load(buffer, at, buffer.dtype),), stage=stage)
    last = Store((buffer,), at, (Load(local, (), buffer.dtype),), stage=stage)
    inner = relocate(loop, moved)
    assert isinstance(inner, For)
    return [Alloc(local), first], inner, last
