"""The arithmetic of a value: its operations by name and type, without those on indices."""

from __future__ import annotations

from typing import NamedTuple, Optional

from schedlang.machine.nodes import Fn, Instructed, Neg, Op, Type, Value

# functions that do no arithmetic: hints to the compiler, and moves between lanes
NOT_COUNTED = frozenset({"rounded"})


class Work(NamedTuple):
    """An operation: its name, its dtype, and the lanes of a vector (0 for a scalar).

    A comparison has the dtype of what it compares.
    """

    name: str
    dtype: str
    lanes: int = 0

    @property
    def type(self) -> Type:
        return Type(self.dtype, self.lanes)


def operation(value: Value) -> Optional[Work]:
    """Return the operation of ``value`` itself; ``None`` if it computes nothing.

    Arithmetic on indices is none, nor are casts and choices by a test. An instruction of the user's
    is one operation.
    """
    if isinstance(value, Op):
        if value.index:
            return None
        lanes = max(value.a.type.lanes, value.b.type.lanes)
        return Work(value.op, value.a.type.dtype, lanes)
    if isinstance(value, Neg):
        return Work(value.op, value.type.dtype, value.type.lanes)
    if isinstance(value, Fn) and not value.index and value.name not in NOT_COUNTED:
        return Work(value.name, value.args[0].type.dtype, value.type.lanes)
    if isinstance(value, Instructed):
        return Work(value.instruction.name, value.type.dtype, value.type.lanes)
    return None
