"""The registers of taps that are unrolled together, in addition to the registers of the sums."""

from __future__ import annotations

from functools import partial

from schedlang.diagnostics.tiles import Update, updates_in
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Stmt
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.short_sums import writing_out_spills
from schedlang.target import Target

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
    # LLVM writes out no other loop if that spills (see ``machine/loops/short_sums.py``)
    loops = (update.step, *update.inside)
    inner = [f for f in loops if f.kind in ("unroll", "vectorize")]
    taps = [f for f in inner if f.axis.is_reduce]
    return bool(taps) and writing_out_spills(update.store, taps, inner, target)
