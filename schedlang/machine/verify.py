"""The verifier of machine nests: names are defined where they are used, and types fit.

It relies on nothing that made the nest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedlang.errors import VerifyError
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    Alloc,
    Array,
    Body,
    Both,
    Cast,
    Choice,
    Column,
    Fn,
    For,
    Function,
    Hint,
    If,
    Let,
    Load,
    Op,
    Prefetch,
    Reg,
    Run,
    Splat,
    Stmt,
    Store,
    Thread,
    Type,
    Value,
    parts,
    values,
)
from schedlang.machine.text import Printer

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
SHIFTS = ("<<", ">>")


@dataclass
class _Scope:
    """The names that a statement may use: registers with their types, and arrays."""

    regs: dict[str, Type] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)

    def inner(self) -> _Scope:
        return _Scope(dict(self.regs), dict(self.arrays))


def verify_machine(nest: MachineNest) -> None:
    """Raise :class:`~schedlang.errors.VerifyError` if a rule does not hold.

    * A register or an array is defined before it is used, in the same block or one around it.
    * A register has one type, and the index of a loop is not assigned.
    * The operands of an operation have its dtype and lanes; a scalar stands for all lanes.
    * A load or a store has the dtype of its array; offsets and masks have their types.
    * A function is defined before it is called, and its parameters are given.
    """
    known: dict[str, Function] = {}
    for function in nest.functions:
        scope = _Scope()
        for parameter in function.parameters:
            if isinstance(parameter, Array):
                scope.arrays[parameter.name] = parameter
            else:
                scope.regs[parameter.name] = parameter.type
        _body(function.body, scope, known)
        known[function.name] = function


def _body(body: Body, scope: _Scope, known: Mapping[str, Function]) -> None:
    for stmt in body:
        for value in values(stmt):
            _value(value, scope, stmt)
        _statement(stmt, scope, known)


def _statement(stmt: Stmt, scope: _Scope, known: Mapping[str, Function]) -> None:
    if isinstance(stmt, For):
        _need(stmt.index.type == Type("int64") and stmt.step > 0, "a loop has an int64 index", stmt)
        inside = scope.inner()
        inside.regs[stmt.index.name] = stmt.index.type
        _need(
            all(not isinstance(s, Let) or s.reg.name != stmt.index.name for s in stmt.body),
            f"{stmt.index.name} is the index of a loop and is not assigned", stmt,
        )  # fmt: skip
        _body(stmt.body, inside, known)
    elif isinstance(stmt, If):
        _need(stmt.cond.type == Type("bool"), "a branch tests a scalar bool", stmt)
        for side in (stmt.body, stmt.orelse):
            inside = scope.inner()
            _body(side, inside, known)
            result = stmt.result
            _need(
                result is None or inside.regs.get(result.name) == result.type,
                "both sides of a choice assign its result", stmt,
            )  # fmt: skip
        if stmt.result is not None:
            scope.regs[stmt.result.name] = stmt.result.type
    elif isinstance(stmt, Let):
        made = stmt.value.type
        _need(stmt.reg.type == made or _is_held(stmt.reg.type, made),
              f"{stmt.reg.name} is {stmt.reg.type}, but its value is {made}", stmt)  # fmt: skip
        before = scope.regs.get(stmt.reg.name, stmt.reg.type)
        _need(before == stmt.reg.type, f"{stmt.reg.name} has the types {before} and "
              f"{stmt.reg.type}", stmt)  # fmt: skip
        scope.regs[stmt.reg.name] = stmt.reg.type
    elif isinstance(stmt, Thread):
        scope.regs[stmt.reg.name] = stmt.reg.type
    elif isinstance(stmt, Alloc):
        scope.arrays[stmt.array.name] = stmt.array
    elif isinstance(stmt, Store):
        _array(stmt.array, scope, stmt)
        _store(stmt)
    elif isinstance(stmt, Prefetch):
        _array(stmt.array, scope, stmt)
    elif isinstance(stmt, Hint):
        for arg in stmt.args:
            if isinstance(arg, Array):
                _array(arg, scope, stmt)
    elif isinstance(stmt, Run):
        _call(stmt, scope, known)


def _call(stmt: Run, scope: _Scope, known: Mapping[str, Function]) -> None:
    called = known.get(stmt.function)
    _need(called is not None, f"{stmt.function} is not defined before it is called", stmt)
    assert called is not None
    _need(len(called.parameters) == len(stmt.args), "each parameter is given", stmt)
    for parameter, given in zip(called.parameters, stmt.args):
        if isinstance(given, Array):
            _array(given, scope, stmt)
            fits = isinstance(parameter, Array) and parameter.dtype == given.dtype
        else:
            fits = isinstance(parameter, Reg) and parameter.type == given.type
        _need(fits, f"{parameter.name} does not fit what is given for it", stmt)


def _store(stmt: Store) -> None:
    made, lanes = stmt.value.type, stmt.value.type.lanes
    _need(made.dtype == stmt.array.dtype, f"{stmt.array.name} holds {stmt.array.dtype}, but "
          f"{made.dtype} is stored", stmt)  # fmt: skip
    _need((lanes > 0) == stmt.how.startswith("v"), "a vector is stored as one", stmt)
    scattered = "scatter" in stmt.how
    _need(stmt.at.type == Type("int64", lanes if scattered and stmt.at.type.lanes else 0),
          "offsets are int64", stmt)  # fmt: skip
    if stmt.mask is not None:
        _need(stmt.mask.type == Type("bool", lanes), "a mask has a bool for each lane", stmt)


def _value(root: Value, scope: _Scope, stmt: Stmt) -> None:
    for value in parts(root):
        if isinstance(value, Reg):
            known = scope.regs.get(value.name)
            _need(known is not None, f"{value.name} is used before it is defined", stmt)
            _need(known == value.type, f"{value.name} is {known}, not {value.type}", stmt)
        elif isinstance(value, Load):
            _array(value.array, scope, stmt)
            _load(value, stmt)
        elif isinstance(value, Op):
            _operation(value, stmt)
        elif isinstance(value, Splat):
            fits = value.type == Type(value.a.type.dtype, value.type.lanes) and value.type.lanes
            _need(bool(fits) and not value.a.type.lanes, "a splat repeats a scalar", stmt)
        elif isinstance(value, (Choice, Both, Cast, Fn, Column)):
            _lanes(value, stmt)


def _operation(value: Op, stmt: Stmt) -> None:
    lanes = (value.a.type.lanes, value.b.type.lanes)
    _need(value.type.lanes == max(lanes) and all(n in (0, value.type.lanes) for n in lanes),
          f"{_text(value)} has {value.type.lanes} lanes", stmt)  # fmt: skip
    a, b = value.a.type.dtype, value.b.type.dtype
    if value.op in SHIFTS:
        return
    _need(a == b or "int64" in (a, b), f"{_text(value)} has operands of {a} and {b}", stmt)
    if value.op not in COMPARISONS:
        _need(value.type.dtype in (a, b), f"{_text(value)} is {value.type.dtype}", stmt)


def _lanes(value: Choice | Both | Cast | Fn | Column, stmt: Stmt) -> None:
    given: tuple[Value, ...] = ()
    if isinstance(value, Choice):
        given = (value.a, value.b)
    elif isinstance(value, Cast):
        given = (value.a,)
    elif isinstance(value, Fn):
        given = value.args if value.name != "exchange" else value.args[:1]
    _need(all(v.type.lanes == value.type.lanes for v in given),
          f"{_text(value)} has {value.type.lanes} lanes", stmt)  # fmt: skip


def _load(value: Load, stmt: Stmt) -> None:
    lanes, gathered = value.type.lanes, "gather" in value.how
    _need(value.type.dtype == value.array.dtype, f"{value.array.name} holds "
          f"{value.array.dtype}, but {value.type.dtype} is loaded", stmt)  # fmt: skip
    _need((lanes > 0) == (value.how != "load"), "a vector is loaded as one", stmt)
    _need(value.at.type == Type("int64", lanes if gathered else 0), "offsets are int64", stmt)
    if value.mask is not None:
        under = Type("bool", 0 if value.how == "vload_if" else lanes)
        _need(value.mask.type == under, "a mask has a bool for each lane", stmt)


def _array(array: Array, scope: _Scope, stmt: Stmt) -> None:
    _need(array.name in scope.arrays, f"{array.name} is used before it is allocated", stmt)


def _is_held(reg: Type, value: Type) -> bool:
    """Return whether a register for lanes may take a scalar, which is the same in all lanes."""
    return reg.dtype == value.dtype and reg.lanes > 0 and value.lanes == 0


def _text(value: Value) -> str:
    return Printer()(value)


def _need(holds: bool, rule: str, stmt: Stmt) -> None:
    if not holds:
        where = " ".join(_text(v) for v in values(stmt))
        raise VerifyError(f"machine nest: {rule} (in {type(stmt).__name__} {where[:200]})")


__all__ = ["verify_machine"]
