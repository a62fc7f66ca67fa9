"""Warnings about tiles of sums that do not stay in the registers of the target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from schedlang.diagnostics.tiles import (
    Need,
    Tile,
    Update,
    need,
    size,
    tile_of,
    updates,
    updates_in,
)
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Var
from schedlang.expr.visit import postorder
from schedlang.gpu_lowering.program import Program
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import For, If, Stmt, Store, walk, with_held
from schedlang.ir.rewrite import replace_statements, with_each
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.sums import kept_buffers, steps_of
from schedlang.target import Target

# bytes of a GPU register
REGISTER = 4


def spills(nest: Nest, target: Target) -> list[str]:
    """Return a sentence for each tile that does not fit into the vector registers of ``target``."""
    job = LoopJob(nest, target)
    return _distinct(_too_many(update, job) for update in updates(nest))


def spilled(nest: Nest, target: Target, findings: Findings) -> bool:
    """Return whether a tile does not fit into the vector registers of ``target``.

    ``findings`` are about other nests for the target with the same statements.
    """
    job = LoopJob(nest, target)
    return any(
        findings.once(("spilled", root, job.steps_in(root, findings)), partial(_spilled, root, job))
        for root in nest.body.stmts
    )


def _spilled(root: Stmt, job: LoopJob) -> bool:
    return any(_excess(update, job) is not None for update in updates_in(root, job.steps))


def guarded_tiles(nest: Nest, target: Target) -> list[str]:
    """Return a sentence for each stage whose tile the tail test of a split keeps out of registers.

    A stage has no sentence if it also has an update without that test, or if all reduction loops
    are unrolled, since LLVM decides then.
    """
    serial_updates = [update for update in updates(nest) if update.step.kind == "serial"]
    free = {update.store.stage for update in serial_updates if update.tail is None}
    # the first of a stage: later ones are in the rests of cuts
    first: dict[str, str] = {}
    for update in serial_updates:
        text = _kept_out(update, nest, target)
        if update.store.stage not in free and text is not None:
            first.setdefault(update.store.stage, text)
    return list(first.values())


def gpu_spills(program: Program, target: Target) -> list[str]:
    """Return a sentence for each tile of sums that needs more registers than a GPU thread has."""
    room = target.device.registers
    sums = [
        (s.stage, b)
        for launch in program.launches
        for s, _ in walk(launch.body)
        if isinstance(s, Store) and s.reducer is not None
        for b in s.buffers
        if b.scope == "local"
    ]
    return _distinct(
        f"stage {stage}: the {b.size} {b.dtype} sums of a thread do not fit its {room} 32-bit "
        f"registers on {target.arch}, so they are kept in local memory. Make the tile of a thread "
        "smaller."
        for stage, b in sums
        if (b.size or 0) * registers_of(b.dtype) > room
    )


def registers_of(dtype: str) -> int:
    """Return the GPU registers that one element takes, at least one.

    >>> registers_of("float16"), registers_of("float32"), registers_of("float64")
    (1, 1, 2)
    """
    return -(-itemsize(dtype) // REGISTER)


def _distinct(texts: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text is not None))


def _kept_out(update: Update, nest: Nest, target: Target) -> str | None:
    tile, tail = tile_of(update, target), update.tail
    if tile is None or tail is None:
        return None
    if sum(need(update, LoopJob(nest, target))) > target.vector_registers:
        return None
    untested = replace(update.step, body=replace_statements(update.step.body, _untested))
    steps = steps_of(update.step, nest)
    if not kept_buffers(untested, target.vector_width, target.vector_registers, steps):
        return None
    step = (
        'Split with tail="cut", which gives the tail loops of its own, or by a factor that '
        "divides the extent."
    )
    tested = set(postorder([tail.cond]))
    if any(isinstance(n, Var) for n in tested) and any(f.axis in tested for f in tile.unrolled):
        # the rest of a cut would have a symbolic length, which cannot be unrolled
        step = f'Compute the tile with s.cache_write({tile.store.stage}, "local").'
    return (
        f"stage {tile.store.stage}: its tile of {tile} could stay in vector registers, but its "
        f"reduction loops test {tail.cond} ({tail.note}), so every iteration loads and stores the "
        f"sums. {step}"
    )


def _untested(stmt: Stmt) -> list[Stmt]:
    """Return ``stmt`` without the tail tests of splits."""
    inner = with_each(stmt, _untested)
    return list(inner.body.stmts) if isinstance(inner, If) and inner.tail else [inner]


def _too_many(update: Update, job: LoopJob) -> str | None:
    excess, target = _excess(update, job), job.target
    if excess is None:
        return None
    tile, needed = excess
    what = ("for sums", "for operands that several sums read", "for other values")
    parts = [f"{count} {use}" for count, use in zip(needed, what) if count]
    return (
        f"stage {tile.store.stage}: its tile of {tile} needs {sum(needed)} vector registers "
        f"({', '.join(parts)}), but there are {target.vector_registers} of "
        f"{target.vector_bytes * 8} bits, so every iteration loads and stores the sums. "
        f"{_advice(update, tile, job)}"
    )


def _excess(update: Update, job: LoopJob) -> tuple[Tile, Need] | None:
    """Return a tile that does not fit the vector registers, and the registers that it needs."""
    tile = tile_of(update, job.target)
    needed = None if tile is None else need(update, job)
    if tile is None or needed is None or sum(needed) <= job.target.vector_registers:
        return None
    return tile, needed


def _advice(update: Update, tile: Tile, job: LoopJob) -> str:
    """Return advice for a smaller tile: the largest extent of its outermost loop that fits."""
    most_registers = job.target.vector_registers
    outermost = (*tile.unrolled, tile.lanes)[0]
    step = 1 if tile.unrolled else job.target.vector_width(tile.store.buffers[0].dtype)
    whole = size(outermost)
    most = min(whole - 1, most_registers * whole // need(update, job).sums)
    for fewer in range(most // step * step, 0, -step):
        if sum(need(_shorten(update, outermost, fewer), job)) <= most_registers:
            return f"Make the tile smaller: {fewer} along {outermost.axis.name} would fit."
    return f"Make the tile smaller, along {tile.lanes.axis.name} first."


def _shorten(update: Update, loop: For, extent: int) -> Update:
    """Return ``update`` with fewer iterations of a loop around it."""

    def changed(stmt: Stmt) -> Stmt:
        inner = with_held(stmt, changed)
        return replace(inner, extent=extent) if stmt is loop and isinstance(inner, For) else inner

    step = changed(update.step)
    assert isinstance(step, For)
    inside = tuple(replace(f, extent=extent) if f is loop else f for f in update.inside)
    return replace(update, step=step, inside=inside)
