"""Loads of matrices: loops that a warp computes by ``ldmatrix`` become loops over its registers.

Each thread gets what a copy of its own elements would give it. Its lane also gives the address of
a row, whose elements other threads get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis, Expr
from schedlang.gpu_lowering.placed_fragments import Placed, refuse, whole_tiles
from schedlang.index.linear import ZERO, Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.instructions.fragments import REGISTER, ROWS, WARP, Fragment, MatrixLoad
from schedlang.ir.nodes import Block, Buffer, For, Load, Stmt, Store, walk
from schedlang.ir.rewrite import with_leaves
from schedlang.state.state import TENSORIZE


def loads_matrices(stmt: Stmt) -> bool:
    """Return whether ``stmt`` is loops that the threads of a warp compute by ``ldmatrix``."""
    declared = stmt.instruction if isinstance(stmt, For) else None
    return declared is not None and declared.loads_matrices


def load_of(loop: For) -> MatrixLoad:
    """Return the form of the instruction of a loop that loads matrices."""
    assert loop.instruction is not None
    return next(e for e in loop.instruction.emit.values() if isinstance(e, MatrixLoad))


def over_registers(loop: For, dims: Sequence[int], placed: Placed, lane: Axis, title: str) -> For:
    """Return the loop over the registers of each thread that ``loop`` fills.

    ``placed`` is the fragment, and ``dims`` are its dimensions in the nest along the dimensions of
    the instruction's result. Raise :class:`~schedlang.errors.BuildError` if the threads
    that ``placed`` says would get other elements.
    """
    (store,) = (s for s, _ in walk(loop) if isinstance(s, Store))
    (value,) = store.values
    assert isinstance(value, Load)
    inside = [s.axis for s, _ in walk(loop) if isinstance(s, For)]
    lins, load = [*map(to_lin, store.indices)], load_of(loop)
    axes = [_axis_along(lins[dim], inside) for dim in dims]
    extents = dict(zip(dims, load.fragment.shape))
    fits = (f for f in load.orders(value.dtype) if _fits(placed, f, dims))
    fragment = next(fits, None)
    if fragment is None:
        assert loop.instruction is not None
        refuse(
            title,
            f"{loop.instruction} (stage {loop.stage}) does not give the threads the elements of "
            f"{placed.buffer.name} that they hold as {placed.fragment.of} of the instruction that "
            "uses it",
            f"Take the form whose rows run along the terms of the product{_other_order(value)}, "
            "and load a tile or several that follow each other in registers.",
        )
    register = Axis("register", fragment.registers)
    elements = fragment.element(lane, register)
    swap: dict[Expr, Expr] = {a: to_expr(to_lin(e)) for a, e in zip(axes, elements)}
    firsts = {dim: lins[dim].substitute({axis: ZERO}) for dim, axis in zip(dims, axes)}
    own = _indices(placed, store.indices, firsts, extents, register, loop, title)
    source = with_leaves(value, swap)
    body = Store((placed.buffer,), (*own[:-1], lane, own[-1]), (source,), None, store.stage,
                 number=store.number)  # fmt: skip
    return For(
        register, fragment.registers, TENSORIZE, Block((body,)), loop.stage, number=loop.number,
        instruction=loop.instruction,
    )  # fmt: skip


def _other_order(value: Load) -> str:
    """Return the hint at loads of rows in the other order, which have elements of 16 bits alone."""
    if itemsize(value.dtype) == 2:
        return ", or the one with _trans for the other order"
    return f" (elements of 16 bits alone have _trans, so lay {value.buffer.name} out so)"


def _axis_along(index: Lin, inside: Sequence[Axis]) -> Axis:
    """Return the loop whose iterations are the elements along a dimension."""
    return next(a for a in inside if (index.substitute({a: Lin.of(a) + 1}) - index).const == 1)


def _tile_strides(placed: Placed) -> dict[int, int]:
    """Return the registers of a thread between two tiles along each dimension."""
    shape = [int(str(n)) for n in placed.buffer.shape[:-2]]
    return {dim: placed.fragment.registers * prod(shape[dim + 1 :]) for dim in placed.dims}


def _fits(placed: Placed, fragment: Fragment, dims: Sequence[int]) -> bool:
    """Return whether the registers that a load fills are adjacent ones, of the same threads."""
    lane, register = np.indices((WARP, fragment.registers))
    elements = dict(zip(dims, fragment.element(lane, register)))
    extents, strides = dict(zip(dims, fragment.shape)), _tile_strides(placed)
    within, place = [], np.zeros_like(register)
    for k, (dim, size) in enumerate(zip(placed.dims, placed.fragment.shape)):
        extent = extents.get(dim, 1)
        long, short = max(size, extent), min(size, extent)
        if long % short:
            return False
        for digit in placed.fragment.digits:
            # a part of a tile has the lanes of whole tiles, and one number in each other digit
            if digit.dim == k and digit.scale * digit.size > extent:
                if digit.scale < extent or digit.of == "lane":
                    return False
        at = elements.get(dim, np.zeros_like(register))
        within.append(at % size)
        place = place + at // size * strides[dim]
    own_lane, own_register = placed.fragment.holder(within)
    return bool((own_lane == lane).all() and (place + own_register == register).all())


def _indices(
    placed: Placed, at: Sequence[Expr], firsts: Mapping[int, Lin], extents: Mapping[int, int],
    register: Axis, loop: For, title: str,
) -> tuple[Expr, ...]:  # fmt: skip
    """Return the tile and the register of an element of a load, without its lane."""
    strides, indices, count = _tile_strides(placed), [*at], placed.fragment.registers
    base = ZERO
    for k, (dim, size) in enumerate(zip(placed.dims, placed.fragment.shape)):
        first, extent = firsts.get(dim, to_lin(at[dim])), extents.get(dim, 1)
        if extent < size:
            number = to_expr(whole_tiles(placed.buffer, first, extent, loop, title))
            tile = to_lin(number // (size // extent))
            for digit in placed.fragment.digits:
                if digit.dim == k and digit.scale >= extent:
                    part = number // (digit.scale // extent) % digit.size * digit.step
                    base = base + to_lin(part)
        else:
            tile = whole_tiles(placed.buffer, first, size, loop, title)
            if extent > size:
                tile = tile + to_lin(register // strides[dim] % (extent // size))
        indices[dim] = to_expr(tile)
    own = register % count if int(str(register.extent)) > count else register
    return (*indices, to_expr(base + to_lin(own)))


def row_of_lane(loop: For, lane: Expr, element: int = 0) -> tuple[Buffer, tuple[Expr, ...]]:
    """Return the buffer that ``loop`` loads from, and the place of an element of a lane's row.

    The lane is the ``lane`` of a warp whose number is below the :func:`rows` of the load.
    """
    (store,) = (s for s, _ in walk(loop) if isinstance(s, Store))
    (value,) = store.values
    assert isinstance(value, Load)
    holder, register = load_of(loop).row(lane, value.dtype, element)
    swap: dict[Expr, Expr] = {
        lane: to_expr(to_lin(holder)), loop.axis: to_expr(to_lin(register))
    }  # fmt: skip
    return value.buffer, tuple(with_leaves(index, swap) for index in value.indices)


def rows(loop: For) -> int:
    """Return how many rows a load fetches: 8 for each matrix."""
    assert loop.instruction is not None
    size = load_of(loop).fragment.registers * itemsize(loop.instruction.output.dtype)
    return ROWS * size // REGISTER
