"""Fragments as the registers of each thread, and instructions of a warp as a value of them."""

from __future__ import annotations

from dataclasses import replace

from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.gpu_lowering.fragments import WARP_INDEX, emission_of, is_of_warp
from schedlang.gpu_lowering.matrix_loads import load_of, loads_matrices, row_of_lane
from schedlang.gpu_lowering.program import Launch
from schedlang.index.linear import ZERO, Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.instructions.fragments import ROW
from schedlang.ir.instructed import Instructed, Tile
from schedlang.ir.nodes import (
    Block,
    Buffer,
    For,
    Load,
    Stmt,
    Store,
    walk,
    with_fields,
    with_held,
)
from schedlang.ir.rewrite import relocate, storage, with_own_buffers

FIRST = Const(0, "int64", True)


def in_registers(launch: Launch) -> Block:
    """Return the statements of one thread with its part of each fragment in local storage."""
    body = launch.body
    own = {
        b: replace(b, shape=(*b.shape[:-2], b.shape[-1]), scope="local", fragment=None)
        for b in storage(body) if b.fragment is not None
    }  # fmt: skip
    if not own:
        return body

    def moved_to(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]] | None:
        return (own[buffer], (*at[:-2], at[-1])) if buffer in own else None

    def changed(stmt: Stmt) -> Stmt:
        if is_of_warp(stmt):
            assert isinstance(stmt, For)
            lane = next(i.axis for i in launch.block if i.tag == WARP_INDEX)
            return _loaded(stmt, own, lane) if loads_matrices(stmt) else _instructed(stmt, own)
        stmt = with_held(stmt, changed)
        if isinstance(stmt, Block):
            return stmt
        # what it holds has no fragments any more
        stmt = with_own_buffers(stmt, stmt.DEFINES, lambda b: own.get(b, b))
        return relocate(stmt, moved_to)

    rewritten = changed(body)
    assert isinstance(rewritten, Block)
    return rewritten


def _instructed(loop: For, own: dict[Buffer, Buffer]) -> For:
    """Return the instruction of ``loop`` on the registers of one thread."""
    declared = loop.instruction
    assert declared is not None
    inner = [s for s, _ in walk(loop)]
    origin: dict[Axis | Var, Lin] = {s.axis: ZERO for s in inner if isinstance(s, For)}
    (store,) = (s for s in inner if isinstance(s, Store))

    def tile(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(to_expr(to_lin(index).substitute(origin)) for index in at[:-2])

    loads = {
        n.buffer.fragment.of: n for n in postorder(store.values)
        if isinstance(n, Load) and n.buffer.fragment is not None
    }  # fmt: skip
    emission, tiles = emission_of(declared), []
    for tensor in declared.operands:
        read = loads[tensor.name]
        count = emission.fragment(tensor.name).registers
        tiles.append(Tile(own[read.buffer], (*tile(read.indices), FIRST), read.dtype, count=count))
    value = Instructed(
        declared.name, tuple(tiles), declared.output.dtype, instruction=declared, emission=emission
    )
    register = Axis("register", emission.fragments[0].registers)
    (result,) = store.buffers
    at = (*tile(store.indices), register)
    update = replace(store, buffers=(own[result],), indices=at, values=(value,))
    return For(
        register, register.extent, "vectorize", Block((update,)), loop.stage, number=loop.number
    )


def _loaded(loop: For, own: dict[Buffer, Buffer], lane: Axis) -> For:
    """Return the load of the matrices whose rows start where the lanes say."""
    declared = loop.instruction
    assert declared is not None
    (store,) = (s for s, _ in walk(loop) if isinstance(s, Store))
    (buffer,) = store.buffers
    source, row = row_of_lane(loop, lane)
    tile = Tile(source, row, source.dtype, count=ROW // itemsize(source.dtype))
    value = Instructed(
        declared.name, (tile,), buffer.dtype, instruction=declared, emission=load_of(loop)
    )
    at = (*store.indices[:-2], store.indices[-1])
    update = replace(store, buffers=(own[buffer],), indices=at, values=(value,))
    return with_fields(loop, kind="vectorize", instruction=None, body=Block((update,)))
