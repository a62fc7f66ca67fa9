"""The builder of a function's statements, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schedlang.ir.nodes import Buffer
from schedlang.machine.names import Names
from schedlang.machine.nodes import INDEX, Array, Let, Reg, Stmt, Type, Value
from schedlang.machine.text import Printer, Text


class Builder:
    """The statements of the block under construction, and the names that exist so far."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.stmts: list[Stmt] = []
        # the number of the statement of the loop nest under construction
        self.number: int | None = None
        # the buffer whose storage another one of equal name, dtype and size has
        self.storage: dict[Buffer, Buffer] = {}
        self.printer = Printer()

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
    def collected(self) -> Iterator[list[Stmt]]:
        """Collect the statements emitted inside in a list of their own."""
        outer, self.stmts = self.stmts, []
        try:
            yield self.stmts
        finally:
            self.stmts = outer

    def array(self, buffer: Buffer) -> Array:
        """Return the array of a buffer, or the one that it is a view of."""
        buffer = buffer if buffer.whole is None else buffer.whole
        return Array(self.names[buffer], self.storage.get(buffer, buffer))

    def text(self, value: Value) -> Text:
        """Return the text of ``value``, to measure it."""
        return self.printer.text(value)
