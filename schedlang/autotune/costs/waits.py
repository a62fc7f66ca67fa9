"""The cycles that the threads of a block wait for memory and for each other.

The constants were fitted to 100 matrix products on an H100: a loop that loads a tile, waits for it
and uses it takes some 850 cycles per iteration besides its instructions, and 350 if the next tile
is loaded ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.autotune.costs.warp import size_of
from schedlang.ir.accesses import loads, stores
from schedlang.ir.nodes import Barrier, Block, Buffer, For, Stmt, Store, held

# the cycles of an iteration with barriers, and of a read of global memory that is used at once
# fitted to 100 matrix products on an H100
SYNC, LATENCY = 350.0, 500.0
# iterations without barriers whose reads the compiler issues together
# fitted to 100 matrix products on an H100
TOGETHER = 4


@dataclass
class Iteration:
    """The waits of one iteration of a serial loop, or of a kernel outside its loops."""

    reads: bool = False
    barriers: bool = False
    # the cycles of the loops inside
    inner: float = 0.0

    @property
    def cycles(self) -> float:
        each = LATENCY if self.barriers else LATENCY / TOGETHER
        return self.inner + SYNC * self.barriers + each * self.reads


def waiting_cycles(body: Block) -> float:
    """Return the cycles that a block of threads waits in ``body``."""
    kernel = Iteration()
    _visit(body, kernel, _staging_buffers(body))
    return kernel.cycles


def _visit(stmt: Stmt, around: Iteration, staged: frozenset[Buffer]) -> None:
    if isinstance(stmt, For) and stmt.kind == "serial":
        turn = Iteration()
        _visit(stmt.body, turn, staged)
        around.inner += size_of(stmt.extent) * turn.cycles
        return
    if isinstance(stmt, Barrier):
        around.barriers = True
    elif isinstance(stmt, Store) and not set(stmt.buffers) <= staged:
        around.reads = around.reads or any(n.buffer.scope == "global" for n in loads(stmt.values))
    for inner in held(stmt):
        _visit(inner, around, staged)


def _staging_buffers(body: Block) -> frozenset[Buffer]:
    """Return the local buffers in which elements of the next shared tile wait."""
    to_shared = [s.stmt for s in stores(body) if all(b.scope == "shared" for b in s.stmt.buffers)]
    read = (n.buffer for store in to_shared for n in loads(store.values))
    return frozenset(b for b in read if b.scope == "local")
