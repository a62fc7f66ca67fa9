"""The printer of statements for numba on a CPU."""

from __future__ import annotations

from schedlang.codegen.numba_source import StatementPrinter
from schedlang.expr.dtypes import storage_dtype
from schedlang.machine.nodes import Alloc, Array, View


class NumbaPrinter(StatementPrinter):
    """Printer of statements for numba.njit."""

    def allocation(self, stmt: Alloc) -> str:
        return f"{self.use(f'{stmt.place}_array')}({self(stmt.count)}, {self._dtype(stmt.array)})"

    def view(self, stmt: View) -> str:
        operands = stmt.whole.name, self(stmt.start), self(stmt.count), self._dtype(stmt.array)
        return f"{self.use('arena_array')}({', '.join(operands)})"

    def _dtype(self, array: Array) -> str:
        dtype = storage_dtype(array.dtype)
        return self.use("boolean" if dtype == "bool" else dtype)
