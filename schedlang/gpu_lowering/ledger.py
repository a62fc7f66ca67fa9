"""The counters of a kernel and of each of its statements, kept while its accesses are found."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from schedlang.gpu_lowering.counters import Counters
from schedlang.ir.nodes import Block, Stmt, held_statements

# fields that add up; the others are the most of any thread
ADDED = tuple(f.name for f in fields(Counters) if not f.name.startswith("most_"))


class Ledger:
    """Counters of the kernel in ``total``, and of statements in ``lines``.

    A loop and a guard have the counters of all that they do. Threads are counted in batches of
    blocks, between :meth:`begin` and :meth:`end`.
    """

    def __init__(self, body: Block) -> None:
        self.total = Counters()
        self.lines: dict[Stmt, Counters] = {}
        self._around: dict[Stmt, tuple[Stmt, ...]] = {}
        self._enter(body, ())
        self._shape = (0, 0)
        # elements by block and thread, for a statement (None is the kernel), scope and direction
        self._threads: dict[tuple[Stmt | None, str, bool], np.ndarray] = {}

    def _enter(self, stmt: Stmt, around: tuple[Stmt, ...]) -> None:
        if not isinstance(stmt, Block):
            self.lines[stmt] = Counters()
            around = (*around, stmt)
            self._around[stmt] = around
        for inner in held_statements(stmt):
            self._enter(inner, around)

    def begin(self, blocks: int, threads: int) -> None:
        """Begin a batch of blocks."""
        self._shape = (blocks, threads)
        self._threads = {}

    def end(self) -> None:
        """End a batch: note the most that any of its threads read and wrote."""
        for (stmt, scope, stores), counts in self._threads.items():
            counters = self.total if stmt is None else self.lines[stmt]
            name = f"most_{scope}_{'writes' if stores else 'reads'}"
            most = int(counts.max(initial=0))
            setattr(counters, name, max(getattr(counters, name), most))

    def access(
        self,
        stmt: Stmt,
        scope: str,
        stores: bool,
        bytes_: np.ndarray,
        active: np.ndarray,
        width: int,
        elements: int,
        times: int = 1,
    ) -> None:
        """Count an access that ``stmt`` makes; see :meth:`Counters.access`.

        Each active thread accesses ``elements``. With ``times``, there is one row for all blocks.
        """
        one = Counters()
        one.access(scope, stores, bytes_, active, width, times)
        self.add(stmt, one)
        for key in (None, *self._around[stmt]):
            counts = self._threads.get((key, scope, stores))
            if counts is None:
                counts = np.zeros(self._shape, np.int64)
                self._threads[key, scope, stores] = counts
            counts += active * np.int64(elements)

    def add(self, stmt: Stmt, more: Counters) -> None:
        """Add counters to the counters of ``stmt``, of all around it, and of the kernel."""
        for counters in (self.total, *(self.lines[s] for s in self._around[stmt])):
            for name in ADDED:
                setattr(counters, name, getattr(counters, name) + getattr(more, name))

    def branch(self, stmt: Stmt, taken: np.ndarray, active: np.ndarray) -> None:
        """Count the warps that diverge at ``stmt``; see :meth:`Counters.branch`."""
        one = Counters()
        one.branch(taken, active)
        self.add(stmt, one)

    def wait(self, stmt: Stmt, barriers: int = 0, exchanges: int = 0, products: int = 0) -> None:
        """Count barriers, exchanges and products of matrices of ``stmt``."""
        counts = {"barriers": barriers, "exchanges": exchanges, "matrix_products": products}
        self.add(stmt, replace(Counters(), **counts))
