"""The builder of a function's statements, in program order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schedlang.ir.nodes import Buffer
from schedlang.machine.identifiers import Names
from schedlang.machine.nodes import INDEX, Array, Let, Order, Reg, Stmt, Type, Value


class Builder:
    """The statements of the block under construction, and the names that exist so far."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.stmts: list[Stmt] = []
        # the registers of the orders of shuffles in this block and those around it
        self.orders: dict[tuple[int, ...], Reg] = {}
        # the number of the statement of the loop nest under construction
        self.number: int | None = None
        # the buffer whose storage another one of equal name, dtype and size has
        self.storage: dict[Buffer, Buffer] = {}

    def emit(self, stmt: Stmt) -> None:
        """Append a statement to the current block."""
        self.stmts.append(stmt)

    def let(self, value: Value, wanted: str = "t", note: str = "") -> Reg:
        """Assign ``value`` to a new register and return it."""
        reg = self.fresh(wanted, value.type)
        self.emit(Let(reg, value, note, self.number))
        return reg

    def fresh(self, wanted: str, type_: Type = INDEX) -> Reg:
        """Return a new register, named ``wanted`` or so."""
        return Reg(self.names.fresh(wanted), type_)

    @contextmanager
    def collected(self, alone: bool = False) -> Iterator[list[Stmt]]:
        """Collect the statements emitted inside in a block of their own.

        A block ``alone`` becomes a function, which knows no registers from outside.
        """
        outer, orders = self.stmts, self.orders
        self.stmts, self.orders = [], {} if alone else dict(orders)
        try:
            yield self.stmts
        finally:
            self.stmts, self.orders = outer, orders

    def order(self, lanes: tuple[int, ...]) -> Reg:
        """Return a register for the order of a shuffle, defined once in each block."""
        reg = self.orders.get(lanes)
        if reg is None:
            reg = self.orders[lanes] = self.let(Order(lanes), "order")
        return reg

    def array(self, buffer: Buffer) -> Array:
        """Return the array of a buffer, or the one that it is a view of."""
        buffer = buffer if buffer.whole is None else buffer.whole
        return Array(self.names[buffer], self.storage.get(buffer, buffer))
