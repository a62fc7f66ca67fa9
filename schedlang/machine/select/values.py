"""The builder of values, as the builders of expressions, loads and stores see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.index.linear import Lin
from schedlang.ir.nodes import Buffer
from schedlang.machine.nodes import INDEX, Array, Reg, Stmt, Type, Value
from schedlang.machine.select.context import Context
from schedlang.machine.select.uses import Uses


class Values(Protocol):
    """A builder of values, such as :class:`schedlang.machine.select.evaluator.Evaluator`.

    ``aligned(buffer, first, count)`` says whether ``count`` elements from ``first`` on are one
    access of the target. ``tested`` and ``shuffled`` say whether the target has the intrinsics
    ``vload_if`` (a vector load under a scalar test) and ``vload_shuffled`` (a vector load whose
    lanes are then permuted). ``number`` is the number of the statement under construction.
    """

    number: int | None

    aligned: Callable[[Buffer, Lin, int], bool]
    tested: bool
    shuffled: bool

    def emit(self, stmt: Stmt) -> None:
        """Append a statement to the current block."""

    def let(self, value: Value, wanted: str = "t", note: str = "") -> Reg:
        """Assign ``value`` to a new register and return it."""

    def fresh(self, wanted: str, type_: Type = INDEX) -> Reg:
        """Return a new register, named ``wanted`` or so."""

    def collected(self, alone: bool = False) -> AbstractContextManager[list[Stmt]]:
        """Collect the statements emitted inside in a block of their own."""

    def order(self, lanes: tuple[int, ...]) -> Reg:
        """Return a register for the order of a shuffle, defined once in each block."""

    def array(self, buffer: Buffer) -> Array:
        """Return the array of a buffer."""

    def reg(self, scalar: Axis | Var) -> Reg:
        """Return the register of a loop's index, a size or a scalar argument."""

    def value(self, root: Expr, context: Context) -> Value:
        """Return the value of ``root``, after statements for what it uses twice."""

    def uses_in(self, root: Expr) -> Uses:
        """Return the uses in an expression before anything of it is evaluated."""

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...], context: Context) -> Lin:
        """Return the flat element offset of ``buffer[indices]``."""

    def index(
        self,
        lin: Lin,
        context: Context,
        buffer: Buffer | None = None,
        indices: tuple[Expr, ...] = (),
    ) -> Value:
        """Return a scalar index; an offset into ``buffer`` has a term a dimension."""

    def kept(self, buffer: Buffer, indices: tuple[Expr, ...], context: Context) -> Reg | None:
        """Return the register that holds ``buffer[indices]``, if the loop around keeps that sum."""
