"""The vector registers that a machine nest needs: those that are live at once in a loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedlang.machine.nodes import (
    Body,
    Cast,
    Choice,
    Column,
    Fn,
    For,
    Function,
    Let,
    Load,
    Op,
    Reg,
    Splat,
    Stmt,
    Type,
    Value,
)
from schedlang.machine.walks import children, parts, values, walk
from schedlang.target import Target

FUSED = ("float32", "float64")


@dataclass(frozen=True)
class Pressure:
    """The most vector registers that are live at once in an innermost loop."""

    loop: For
    registers: int


def pressures(function: Function, target: Target) -> list[Pressure]:
    """Return the pressure of each innermost loop of ``function`` that computes vectors."""
    found = [Pressure(loop, _most(loop, target)) for loop in innermost(function.body)]
    return [p for p in found if p.registers]


def innermost(body: Body) -> Iterator[For]:
    """Yield the loops that have no loop inside, in program order."""
    for stmt, _ in walk(body):
        if isinstance(stmt, For) and not any(isinstance(s, For) for s, _ in walk(stmt.body)):
            yield stmt


def taken(type_: Type, target: Target) -> int:
    """Return the vector registers of a value: powers of two for the rest of a vector.

    >>> taken(Type("float32", 16), Target("cpu", vector_bytes=32))
    2
    """
    if not type_.lanes:
        return 0
    whole, rest = divmod(type_.lanes, target.vector_width(type_.dtype))
    return whole + rest.bit_count()


def _most(loop: For, target: Target) -> int:
    """Return the most registers live in ``loop``, from its end backwards.

    What an iteration passes to the next one is live at its end: the sums, and what comes from
    outside of the loop.
    """
    assigned = {s.reg for s, _ in walk(loop.body) if isinstance(s, Let) and s.reg.type.lanes}
    defined: set[Reg] = set()
    live: set[Reg] = set()
    for stmt, _ in walk(loop.body):
        live |= _read(stmt) - defined
        if isinstance(stmt, Let) and stmt.reg in assigned:
            defined.add(stmt.reg)
    most = 0
    for stmt in reversed([s for s, _ in walk(loop.body)]):
        wanted = max((_temporaries(v, target) for v in values(stmt)), default=0)
        most = max(most, sum(taken(r.type, target) for r in live | _read(stmt)) + wanted)
        if isinstance(stmt, Let) and stmt.reg not in _read(stmt):
            live.discard(stmt.reg)
        live |= _read(stmt)
    return most


def _read(stmt: Stmt) -> set[Reg]:
    """Return the vector registers that a statement itself reads."""
    return {
        value for root in values(stmt) for value in parts(root)
        if isinstance(value, Reg) and value.type.lanes
    }  # fmt: skip


def _temporaries(value: Value, target: Target) -> int:
    """Return the registers for the parts of a value, one of its pieces after the other.

    A load that is used once is a memory operand. On registers of 64 bytes, so is an element that
    all lanes of one register use. The result takes the place of a register that is written.
    """
    if isinstance(value, (Reg, Column, Load)):
        return 0
    if isinstance(value, Splat):
        return 1
    computed = [v for v in children(value) if _is_vector(v, value)]
    computed = [v for v in computed if isinstance(v, (Op, Fn, Cast, Choice, Splat))]
    needs = sorted((_temporaries(v, target) for v in computed), reverse=True)
    own = sum(not _is_fused(value, v) for v in computed)
    # an operation has one memory operand
    extra = max(0, sum(isinstance(v, Load) for v in children(value)) - 1)
    scalar = any(not v.type.lanes and not isinstance(v, Reg) for v in children(value))
    if value.type.lanes and scalar and (target.vector_bytes < 64 or taken(value.type, target) > 1):
        extra = 1
    return max([own + extra, *(need + k for k, need in enumerate(needs))])


def _is_fused(value: Value, part: Value) -> bool:
    """Return whether ``part`` is a product that is fused with the addition ``value``."""
    adds = isinstance(value, Op) and value.op in ("+", "-") and value.type.dtype in FUSED
    return adds and isinstance(part, Op) and part.op == "*"


def _is_vector(part: Value, whole: Value) -> bool:
    return part.type.lanes > 0 and whole.type.lanes > 0


__all__ = ["Pressure", "innermost", "pressures", "taken"]
