"""The memory requests of a program from its addresses, without computing values.

:func:`count_requests` counts all requests, and :func:`requests_of_block` reports the requests of
one block.

Addresses and conditions must not depend on data; otherwise :func:`count_requests` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import Program as Evaluation
from schedlang.expr.evaluate import plan
from schedlang.expr.nodes import Expr
from schedlang.expr.visit import postorder
from schedlang.gpu_lowering.fragments import is_of_warp
from schedlang.gpu_lowering.ledger import Ledger
from schedlang.gpu_lowering.lockstep import Lockstep, batches, perform
from schedlang.gpu_lowering.program import Launch, Program
from schedlang.index.linear import to_expr
from schedlang.instructions.fragments import ROW
from schedlang.ir.accesses import Access, accesses, sites
from schedlang.ir.nodes import (
    Barrier,
    Block,
    Buffer,
    Exchange,
    For,
    If,
    Load,
    Stmt,
    Store,
    expressions,
    walk,
)
from schedlang.ir.offsets import flat
from schedlang.ir.updates import as_plain_store
from schedlang.state.state import PRIVATE

# the most lanes whose addresses are computed at once
MOST_LANES = 2**16


def depends_on_data(program: Program) -> bool:
    """Return whether an address, a condition or the extent of a loop depends on data."""
    for launch in program.launches:
        for stmt, _ in walk(launch.body):
            if any(isinstance(n, Load) for n in postorder(_deciding(stmt, accesses(stmt, True)))):
                return True
    return False


def _deciding(stmt: Stmt, accessed: Iterable[Access]) -> list[Expr]:
    """Return the expressions that decide which elements a statement accesses, and whether it runs.

    ``accessed`` are its accesses.
    """
    around = expressions(stmt) if stmt.HELD else ()
    return [*around, *(e for a in accessed for e in (*a.indices, *a.tests))]


def count_requests(program: Program, scalars: Mapping[Any, Any]) -> dict[str, Ledger]:
    """Return the requests of each kernel, for given sizes and scalar arguments.

    Raise if :func:`depends_on_data` holds.
    """
    ledgers = {launch.name: Ledger(launch.body) for launch in program.launches}
    needed = {launch.name: _Needed(launch) for launch in program.launches}
    values = dict(scalars)
    for step in perform(program.steps, values):
        if isinstance(step, Launch):
            for numbers, blocks in batches(step, values, MOST_LANES):
                inputs, name = {**values, **blocks}, step.name
                _Walker(needed[name], ledgers[name], inputs, len(numbers)).run()
    return ledgers


@dataclass(frozen=True, eq=False)
class Request:
    """An access of the threads of one block to global or shared memory.

    ``bytes`` are the offsets in the buffer, ``active`` tells which threads take part, and ``width``
    are the bytes for each of them.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    stores: bool
    bytes: np.ndarray
    active: np.ndarray
    width: int


def requests_of_block(
    launch: Launch,
    block: Sequence[int],
    scalars: Mapping[Any, Any],
    see: Callable[[Request], None],
    stores_to: Buffer | None = None,
    most: int | None = None,
) -> bool:
    """Report to ``see`` each request of one block of a kernel, in program order.

    ``block`` has a number for each index of ``launch.grid``. ``stores_to`` leaves out all but the
    stores to one buffer, and those that a loop repeats. After ``most`` requests, if given, the
    others are left out. Return whether these were all. Addresses must not depend on data.
    """
    values = {i.axis: np.full((1, 1), at) for i, at in zip(launch.grid, block)}
    needed, ledger = _Needed(launch, stores_to), Ledger(launch.body)
    walker = _Walker(needed, ledger, {**scalars, **values}, 1, see, most)
    walker.run()
    return not walker.stopped


class _Needed:
    """The statements of a kernel with something to count, and their accesses with offsets."""

    def __init__(self, launch: Launch, stores_to: Buffer | None = None) -> None:
        self.launch = launch
        self.stores_to = stores_to
        self.accesses: dict[int, list[tuple[Access, Evaluation]]] = {}
        self.loud: set[int] = set()
        self.moving: dict[int, bool] = {}
        for site in sites(launch.body):
            needed = self.accesses[id(site.stmt)] = self._wanted(site.stmt)
            # a condition counts, too, unless only some stores are wanted
            waits = isinstance(site.stmt, (If, Barrier, Exchange)) or is_of_warp(site.stmt)
            waits = waits and stores_to is None
            if needed or waits:
                self.loud.update(map(id, (site.stmt, *site.around)))

    def _wanted(self, stmt: Stmt) -> list[tuple[Access, Evaluation]]:
        only = self.stores_to
        if isinstance(stmt, Store) and stmt.reducer is not None:
            stmt = as_plain_store(stmt)
        return [
            (a, plan((to_expr(flat(a.buffer, a.indices)),)))
            for a in accesses(stmt, tested=True)
            if a.buffer.scope not in PRIVATE and (only is None or (a.stores and a.buffer is only))
        ]

    def moves(self, loop: For) -> bool:
        """Return whether what is accessed in a loop depends on its iteration."""
        if id(loop) not in self.moving:
            roots: list[Expr] = []
            for stmt, _ in walk(loop.body):
                roots += _deciding(stmt, (access for access, _ in self.accesses[id(stmt)]))
            self.moving[id(loop)] = any(node is loop.axis for node in postorder(roots))
        return self.moving[id(loop)]


class _Walker(Lockstep):
    """Some blocks of a kernel, without values: their accesses are counted, or reported."""

    def __init__(
        self,
        needed: _Needed,
        ledger: Ledger,
        values: Mapping[Any, Any],
        blocks: int,
        see: Callable[[Request], None] | None = None,
        most: int | None = None,
    ) -> None:
        super().__init__(needed.launch, ledger, values, blocks)
        self.needed = needed
        self.see = see
        # how many more requests are reported, and whether there were others
        self.left = most
        self.stopped = False

    def statement(self, stmt: Stmt) -> None:
        if id(stmt) not in self.needed.loud and not isinstance(stmt, Block):
            return
        self.stmt = stmt
        for access, offset in self.needed.accesses.get(id(stmt), ()):
            self.access(access, offset)
        super().statement(stmt)

    def turns(self, loop: For, most: int) -> Iterator[int]:
        still = self.needed.stores_to is not None and not self.needed.moves(loop)
        return takewhile(lambda _: not self.stopped, range(min(most, 1) if still else most))

    def request_rows(
        self, buffer: Buffer, indices: Sequence[Expr], bytes_: np.ndarray, active: np.ndarray
    ) -> None:
        if self.see is None:
            super().request_rows(buffer, indices, bytes_, active)
        elif self.left == 0:
            self.stopped = True
        elif self.needed.stores_to is None:
            self.left = None if self.left is None else self.left - 1
            self.see(Request(buffer, tuple(indices), False, bytes_[0], active[0], ROW))

    def access(self, access: Access, offset: Evaluation) -> None:
        lanes = self.lanes_of(access.buffer, access.indices)
        if not lanes:
            return
        mask = self.active
        for test in access.tests:
            mask = mask & self.known(test)
        if self.left == 0:
            self.stopped = True
            return
        size = itemsize(access.buffer.dtype)
        bytes_ = np.asarray(offset.run(self.values)[0]) * size
        if self.see is not None:
            self.left = None if self.left is None else self.left - 1
            at = np.broadcast_to(bytes_, self.shape)[0]
            self.see(
                Request(access.buffer, access.indices, access.stores, at, mask[0], lanes * size)
            )
        elif mask.all() and (bytes_.ndim < 2 or bytes_.shape[0] == 1):
            # the offsets are the same in every block
            row = np.broadcast_to(bytes_, (1, self.shape[1]))
            self.count(access.buffer, lanes, access.stores, row, mask[:1], self.shape[0])
        else:
            at = np.where(mask, np.broadcast_to(bytes_, self.shape), 0)
            self.count(access.buffer, lanes, access.stores, at, mask)
