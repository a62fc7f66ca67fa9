"""Values that later statements may compute differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from schedlang.machine.nodes import Body, Let, Load, Reg, Value
from schedlang.machine.walks import children, operations, walk


def changing_registers(body: Body) -> frozenset[str]:
    """Return the names of the registers that several statements of ``body`` assign."""
    times = Counter(stmt.reg.name for stmt, _ in walk(body) if isinstance(stmt, Let))
    return frozenset(name for name, count in times.items() if count > 1)


def is_lasting(value: Value, changing: Container[str]) -> bool:
    """Return whether ``value`` reads no memory and none of the registers ``changing``."""
    if isinstance(value, Reg):
        return value.name not in changing
    for part in operations(value):
        if isinstance(part, Load):
            return False
        for operand in children(part):
            if isinstance(operand, Reg) and operand.name in changing:
                return False
    return True
