"""The cycles that the threads of a block wait for memory and for each other.

The constants were fitted to 100 matrix products on an H100: a loop that loads a tile, waits for it
and uses it takes some 850 cycles per iteration besides its instructions, and 350 if the next tile
is loaded ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.autotune.costs.warp import size_of
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Barrier, Block, Buffer, For, If, Kept, Load, Stmt, Store, walk

# the cycles of an iteration with barriers, and of a read of global memory that is used at once
SYNC, LATENCY = 350.0, 500.0
# iterations without barriers whose reads the compiler issues together
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
    _visit(body, kernel, _staged(body))
    return kernel.cycles


def _visit(stmt: Stmt, around: Iteration, staged: frozenset[Buffer]) -> None:
    if isinstance(stmt, Block):
        for inner in stmt.stmts:
            _visit(inner, around, staged)
    elif isinstance(stmt, For) and stmt.kind == "serial":
        turn = Iteration()
        _visit(stmt.body, turn, staged)
        around.inner += size_of(stmt.extent) * turn.cycles
    elif isinstance(stmt, (For, If, Kept)):
        _visit(stmt.body, around, staged)
    elif isinstance(stmt, Barrier):
        around.barriers = True
    elif isinstance(stmt, Store) and not set(stmt.buffers) <= staged:
        around.reads = around.reads or "global" in _scopes_read(stmt)


def _staged(body: Block) -> frozenset[Buffer]:
    """Return the local buffers in which elements of the next shared tile wait."""
    stores = [s for s, _ in walk(body) if isinstance(s, Store)]
    to_shared = [s for s in stores if all(b.scope == "shared" for b in s.buffers)]
    return frozenset(b for s in to_shared for b in _read(s) if b.scope == "local")


def _scopes_read(store: Store) -> set[str]:
    return {b.scope for b in _read(store)}


def _read(store: Store) -> list[Buffer]:
    return [n.buffer for n in postorder(store.values) if isinstance(n, Load)]


__all__ = ["waiting_cycles"]
