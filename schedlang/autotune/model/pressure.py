"""The registers of taps that are unrolled together, in addition to the registers of the sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod

from schedlang.diagnostics.tiles import Update, registers, updates_in
from schedlang.ir.accesses import loads
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import For, Load, Stmt
from schedlang.ir.offsets import flat, lane_step
from schedlang.machine.loops.job import LoopJob
from schedlang.target import Target

# LLVM unrolls serial loops of so few iterations; more copies than these are not examined
# nobody has measured these values
SHORT, MOST_COPIES = 4, 512
# the factor on the time of a tile whose sums spill (measured for two convolutions)
SPILLED = 1.6


def spill_factor(nest: Nest, target: Target, findings: Findings | None = None) -> float:
    """Return the factor on the time of ``nest`` if reused operands push sums out of registers.

    Taps that are unrolled inside a tile read some elements again: a tap of one row reads the
    element that the next tap of the row before reads. LLVM loads such an element once, and keeps it
    in a register until its last use. ``findings`` are about other nests for the target with the
    same statements.
    """
    job, known = LoopJob(nest, target), Findings() if findings is None else findings
    keys = ((root, ("operands spill", root, job.steps_in(root, known))) for root in nest.body.stmts)
    if any(known.once(key, partial(_spills_in, root, job)) for root, key in keys):
        return SPILLED
    return 1.0


def _spills_in(root: Stmt, job: LoopJob) -> bool:
    return any(_spills(update, job.target) for update in updates_in(root, job.steps))


def _spills(update: Update, target: Target) -> bool:
    loops = (update.step, *update.inside)
    lanes = next((f for f in loops if f.kind == "vectorize"), None)
    if lanes is None or not isinstance(lanes.extent, int):
        return False
    rows = [f for f in loops if f.kind == "unroll" and not f.axis.is_reduce]
    taps = [f for f in loops if f.axis.is_reduce and _is_unrolled(f)]
    copies = prod(size for size in map(_size, (*rows, *taps)))
    if not rows or not taps or copies > MOST_COPIES:
        return False
    vectors = registers(lanes.extent, target.vector_width(update.store.buffers[0].dtype))
    live = sum(_distinct(load, lanes, rows, taps, copies) for load in loads(update.store.values))
    return live > 0 and vectors * (prod(map(_size, rows)) + 1) + live > target.vector_registers


def _distinct(load: Load, lanes: For, rows: Sequence[For], taps: Sequence[For], copies: int) -> int:
    """Return the elements that copies of a load share, if all lanes read one element; else 0."""
    offset = flat(load.buffer, load.indices)
    if lane_step(offset, lanes.axis) != 0:
        return 0
    loops = (*rows, *taps)
    steps = [lane_step(offset, f.axis) for f in loops]
    known = [step for step in steps if step is not None]
    moves = any(steps[: len(rows)]) and any(steps[len(rows) :])
    if len(known) < len(steps) or not moves:
        return 0
    places = product(*(range(0, step * _size(f) or 1, step or 1) for step, f in zip(known, loops)))
    elements = {sum(place) for place in places}
    # elements that each copy reads alone are operands of an instruction, not kept
    shared = copies // prod(_size(f) for f, step in zip(loops, known) if not step)
    return len(elements) if len(elements) < shared else 0


def _is_unrolled(loop: For) -> bool:
    return loop.kind == "unroll" or (isinstance(loop.extent, int) and loop.extent <= SHORT)


def _size(loop: For) -> int:
    return loop.extent if isinstance(loop.extent, int) else 1
