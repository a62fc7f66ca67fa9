"""The cycles that the threads of a block wait for memory and for each other.

The constants were fitted to 100 matrix products on an H100: a loop that loads a tile, waits for it
and uses it takes some 850 cycles per iteration besides its instructions, and 350 if the next tile
is loaded ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from schedlang.autotune.costs.warp import size_of
from schedlang.ir.accesses import contexts, loads, stores
from schedlang.ir.nodes import Barrier, Block, Buffer, For, Stmt, Store

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
    # how often each loop inside runs, and one of its iterations
    inner: list[tuple[int, Iteration]] = field(default_factory=list)

    @property
    def cycles(self) -> float:
        each = LATENCY if self.barriers else LATENCY / TOGETHER
        inner = sum((times * turn.cycles for times, turn in self.inner), 0.0)
        return inner + SYNC * self.barriers + each * self.reads


def waiting_cycles(body: Block) -> float:
    """Return the cycles that a block of threads waits in ``body``."""
    kernel, staged = Iteration(), _staging_buffers(body)
    for stmt, around in contexts(body, kernel, _inside):
        if isinstance(stmt, Barrier):
            around.barriers = True
        elif isinstance(stmt, Store) and not set(stmt.buffers) <= staged:
            around.reads |= any(n.buffer.scope == "global" for n in loads(stmt.values))
    return kernel.cycles


def _inside(stmt: Stmt, around: Iteration) -> Iteration:
    """Return the iteration in which the body of ``stmt`` runs."""
    if not isinstance(stmt, For) or stmt.kind != "serial":
        return around
    turn = Iteration()
    around.inner.append((size_of(stmt.extent), turn))
    return turn


def _staging_buffers(body: Block) -> frozenset[Buffer]:
    """Return the local buffers in which elements of the next shared tile wait."""
    to_shared = [s.stmt for s in stores(body) if all(b.scope == "shared" for b in s.stmt.buffers)]
    read = (n.buffer for store in to_shared for n in loads(store.values))
    return frozenset(b for b in read if b.scope == "local")
