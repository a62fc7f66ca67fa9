"""The verifier of machine nests: names are defined where they are used, and types fit.

It relies on nothing that made the nest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedlang.errors import VerifyError
from schedlang.expr.dtypes import itemsize, register_dtype, storage_dtype
from schedlang.expr.operators import COMPARISONS
from schedlang.intrinsics.dialect import GPU_NAMES, NAMES
from schedlang.machine.accesses import fields_given, fields_needed
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    INDEX,
    Alloc,
    Array,
    Body,
    Cast,
    Choice,
    Fn,
    For,
    Function,
    Hint,
    If,
    Let,
    Load,
    Num,
    Op,
    Reg,
    Run,
    Splat,
    Stmt,
    Store,
    Type,
    Value,
    View,
)
from schedlang.machine.text import Printer
from schedlang.machine.walks import (
    arrays,
    bodies,
    bound,
    children,
    defined_names,
    operations,
    values,
)

SHIFTS = ("<<", ">>")
FUNCTIONS = frozenset({*NAMES, *GPU_NAMES, "min", "max"})
_BOOL = Type("bool")
# the dtype of arrays that hold others
BYTES = "uint8"


@dataclass
class _Scope:
    """The names that a statement may use: registers with their types, and arrays.

    ``bound`` are the arrays of the names in the whole function: Python has no scopes of blocks.
    """

    regs: dict[str, Type] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    bound: dict[str, Array] = field(default_factory=dict)

    def bind(self, array: Array) -> None:
        self.arrays[array.name] = self.bound[array.name] = array

    def inner(self) -> _Scope:
        return _Scope(dict(self.regs), dict(self.arrays), self.bound)


def verify_machine(nest: MachineNest) -> None:
    """Raise :class:`~schedlang.errors.VerifyError` if a rule does not hold.

    * A register or an array is defined before it is used, in the same block or one around it.
    * An array's name is given to no other array until its last use.
    * A register has one type, and the index of a loop is not assigned.
    * The operands of an operation have its dtype and lanes; a scalar stands for all lanes.
    * A vector has a power of two of lanes, and a function is one of the dialects.
    * A load or a store has the fields that its intrinsic needs and no others, and the dtype of its
      array; offsets and masks have their types.
    * A view lies in an array of bytes, at a multiple of the size of its elements.
    * A function is defined before it is called, and its parameters are given.
    """
    defined_functions: dict[str, Function] = {}
    for function in nest.functions:
        scope = _Scope()
        for parameter in function.parameters:
            if isinstance(parameter, Array):
                scope.bind(parameter)
            else:
                scope.regs[parameter.name] = parameter.type
        _body(function.body, scope, defined_functions)
        defined_functions[function.name] = function


def _body(body: Body, scope: _Scope, known: Mapping[str, Function]) -> set[str]:
    """Check a block, and return the names of the registers that the statements in it assign."""
    assigned: set[str] = set()
    for stmt in body:
        for value in values(stmt):
            _value(value, scope, stmt)
        if isinstance(stmt, For):
            assigned |= _loop(stmt, scope, known)
        elif isinstance(stmt, If):
            assigned |= _branch(stmt, scope, known)
        else:
            _statement(stmt, scope, known)
            for held in bodies(stmt):
                inside = scope.inner()
                inside.regs.update((reg.name, reg.type) for reg in bound(stmt))
                assigned |= _body(held, inside, known)
            if isinstance(stmt, Let):
                assigned.add(stmt.reg.name)
    return assigned


def _statement(stmt: Stmt, scope: _Scope, known: Mapping[str, Function]) -> None:
    for array in arrays(stmt):
        _array(array, scope, stmt)
    if isinstance(stmt, Let):
        type_of_value, reg = stmt.value.type, stmt.reg
        if reg.type != type_of_value:
            raise _broken(f"{reg.name} is {reg.type}, but its value is {type_of_value}", stmt)
        if scope.regs.setdefault(reg.name, reg.type) != reg.type:
            raise _broken(f"{reg.name} is {reg.type} and {scope.regs[reg.name]}", stmt)
    elif isinstance(stmt, Alloc):
        if stmt.count.type != INDEX or (stmt.place == "stack" and stmt.array.buffer.size is None):
            raise _broken(f"the size of {stmt.array.name} is an int64, fixed on the stack", stmt)
    elif isinstance(stmt, View):
        _view(stmt)
    elif isinstance(stmt, Store):
        _store(stmt)
    elif isinstance(stmt, Hint):
        # it names arrays without an access
        for array in stmt.args:
            _array(array, scope, stmt)
    elif isinstance(stmt, Run):
        _call(stmt, scope, known)
    for named in defined_names(stmt):
        if isinstance(named, Array):
            scope.bind(named)
        else:
            scope.regs[named.name] = named.type


def _view(stmt: View) -> None:
    """Check that a view is of bytes, and lies in them where their number is known."""
    name, size = stmt.array.name, itemsize(stmt.array.dtype)
    if stmt.whole.dtype != BYTES or stmt.start.type != INDEX or stmt.count.type != INDEX:
        raise _broken(f"{name} is an int64 number of elements of an array of bytes", stmt)
    if not isinstance(stmt.start, Num):
        return
    if stmt.start.value < 0 or stmt.start.value % size:
        raise _broken(f"{name} begins at a multiple of the {size} bytes of its elements", stmt)
    whole = stmt.whole.buffer.size
    if whole is not None and isinstance(stmt.count, Num):
        if stmt.count.value < 0 or stmt.start.value + stmt.count.value * size > whole:
            raise _broken(f"{name} lies in the {whole} bytes of {stmt.whole.name}", stmt)


def _loop(stmt: For, scope: _Scope, known: Mapping[str, Function]) -> set[str]:
    if stmt.index.type != INDEX or stmt.stop.type != INDEX or stmt.step < 1:
        raise _broken("a loop has an int64 index and end, and a step of 1 or more", stmt)
    if stmt.again is not None and (stmt.parallel or not _is_flag(stmt.again)):
        raise _broken("a register or an element at a fixed place ends a serial loop", stmt)
    before = dict(scope.bound)
    assigned = _iteration(stmt, scope, known)
    if stmt.index.name in assigned:
        raise _broken(f"{stmt.index.name} is the index of a loop and is not assigned", stmt)
    if stmt.parallel and not assigned.isdisjoint(scope.regs):
        raise _broken("a parallel loop assigns no register from outside of it", stmt)
    if not before.items() <= scope.bound.items():
        # the next iteration begins with the arrays that this one bound
        _iteration(stmt, scope, known)
    return assigned


def _is_flag(value: Value) -> bool:
    """Return whether a value is a bool that no pass computes ahead of the loop that it ends."""
    is_element = isinstance(value, Load) and value.how == "load" and isinstance(value.at, Num)
    return value.type == _BOOL and (is_element or isinstance(value, Reg))


def _iteration(loop: For, scope: _Scope, known: Mapping[str, Function]) -> set[str]:
    inside = scope.inner()
    inside.regs[loop.index.name] = INDEX
    return _body(loop.body, inside, known)


def _branch(stmt: If, scope: _Scope, known: Mapping[str, Function]) -> set[str]:
    if stmt.cond.type != _BOOL:
        raise _broken("a branch tests a scalar bool", stmt)
    assigned: set[str] = set()
    for side in (stmt.body, stmt.orelse):
        inside = scope.inner()
        assigned |= _body(side, inside, known)
        if stmt.result is not None and inside.regs.get(stmt.result.name) != stmt.result.type:
            raise _broken("both sides of a choice assign its result", stmt)
    if stmt.result is not None:
        scope.regs[stmt.result.name] = stmt.result.type
    return assigned


def _call(stmt: Run, scope: _Scope, known: Mapping[str, Function]) -> None:
    called = known.get(stmt.function)
    if called is None:
        raise _broken(f"{stmt.function} is not defined before it is called", stmt)
    if len(called.parameters) != len(stmt.args):
        raise _broken("each parameter is given", stmt)
    for parameter, argument in zip(called.parameters, stmt.args):
        if isinstance(argument, Array):
            fits = isinstance(parameter, Array) and parameter.dtype == argument.dtype
        else:
            fits = isinstance(parameter, Reg) and parameter.type == argument.type
        if not fits:
            raise _broken(f"{parameter.name} does not fit what is given for it", stmt)


def _store(stmt: Store) -> None:
    type_of_value, lanes = stmt.value.type, stmt.value.type.lanes
    _fields(stmt, stmt)
    if type_of_value.dtype != stmt.array.dtype:
        raise _broken(
            f"{stmt.array.name} holds {stmt.array.dtype}, not {type_of_value.dtype}", stmt
        )
    if (lanes > 0) != stmt.how.startswith("v"):
        raise _broken("a vector is stored as one", stmt)
    if stmt.at.type != INDEX and not ("scatter" in stmt.how and stmt.at.type == _offsets(lanes)):
        raise _broken("offsets are int64", stmt)
    if stmt.mask is not None and stmt.mask.type != Type("bool", lanes):
        raise _broken("a mask has a bool for each lane", stmt)


def _value(root: Value, scope: _Scope, stmt: Stmt) -> None:
    if isinstance(root, Reg):
        _register(root, scope, stmt)
        return
    for value in operations(root):
        lanes = value.type.lanes
        if lanes and (lanes == 1 or lanes & (lanes - 1)):
            raise _broken(f"a vector has a power of two of lanes, not {lanes}", stmt)
        for operand in children(value):
            if isinstance(operand, Reg):
                _register(operand, scope, stmt)
        if isinstance(value, Load):
            _array(value.array, scope, stmt)
            _load(value, stmt)
        elif isinstance(value, Op):
            _operation(value, stmt)
        elif isinstance(value, Splat):
            if value.a.type.lanes or value.type != Type(value.a.type.dtype, value.type.lanes):
                raise _broken("a splat repeats a scalar", stmt)
        elif isinstance(value, (Choice, Cast, Fn)):
            _operands(value, stmt)


def _register(reg: Reg, scope: _Scope, stmt: Stmt) -> None:
    type_of_reg = scope.regs.get(reg.name)
    if type_of_reg is None:
        raise _broken(f"{reg.name} is used before it is defined", stmt)
    if type_of_reg != reg.type:
        raise _broken(f"{reg.name} is {type_of_reg}, not {reg.type}", stmt)


def _operation(value: Op, stmt: Stmt) -> None:
    left, right = value.a.type, value.b.type
    if left is INDEX and right is INDEX and value.type is INDEX:
        return
    lanes = value.type.lanes
    if lanes != max(left.lanes, right.lanes) or 0 < min(left.lanes, right.lanes) < lanes:
        raise _broken(f"{_text(value)} has {lanes} lanes", stmt)
    if value.op in SHIFTS:
        return
    a, b = register_dtype(left.dtype), register_dtype(right.dtype)
    if a != b and "int64" not in (a, b):
        raise _broken(f"{_text(value)} has operands of {a} and {b}", stmt)
    if value.op not in COMPARISONS and value.type.dtype not in (a, b):
        raise _broken(f"{_text(value)} is {value.type.dtype}", stmt)


def _operands(value: Choice | Cast | Fn, stmt: Stmt) -> None:
    """Check that a choice, a cast or a call has the lanes of its operands."""
    if isinstance(value, Choice):
        if value.cond.type != _BOOL:
            raise _broken(f"{_text(value)} tests a scalar bool", stmt)
        operands: tuple[Value, ...] = (value.a, value.b)
    elif isinstance(value, Cast):
        operands = (value.a,)
    else:
        if value.name not in FUNCTIONS:
            raise _broken(f"{value.name} is not a function", stmt)
        if value.name == "select" and value.args[0].type.dtype != "bool":
            raise _broken(f"{_text(value)} selects by a bool", stmt)
        operands = value.args[:1] if value.name == "exchange" else value.args
    if any(v.type.lanes != value.type.lanes for v in operands):
        raise _broken(f"{_text(value)} has {value.type.lanes} lanes", stmt)


def _load(value: Load, stmt: Stmt) -> None:
    lanes, dtype = value.type.lanes, value.type.dtype
    _fields(value, stmt)
    held = storage_dtype(value.array.dtype) if value.raw else value.array.dtype
    if dtype != held:
        raise _broken(f"{value.array.name} holds {held}, not {dtype}", stmt)
    if (lanes > 0) != (value.how != "load"):
        raise _broken("a vector is loaded as one", stmt)
    if value.at.type != (_offsets(lanes) if "gather" in value.how else INDEX):
        raise _broken("offsets are int64", stmt)
    under = Type("bool", 0 if value.how == "vload_if" else lanes)
    if value.mask is not None and value.mask.type != under:
        raise _broken("a mask has a bool for each lane", stmt)


def _fields(access: Load | Store, stmt: Stmt) -> None:
    needed, filled = fields_needed(access), fields_given(access)
    if needed is None:
        raise _broken(f"{access.how} is neither a load nor a store", stmt)
    if filled != needed:
        wrong = ", ".join(sorted(needed ^ filled))
        raise _broken(f"{access.how} has a field too many or too few: {wrong}", stmt)


def _offsets(lanes: int) -> Type:
    return Type("int64", lanes)


def _array(array: Array, scope: _Scope, stmt: Stmt) -> None:
    allocated = scope.arrays.get(array.name)
    if allocated is None or allocated.dtype != array.dtype:
        raise _broken(f"{array.name} is used before it is allocated", stmt)
    if array.buffer is not allocated.buffer or array.buffer is not scope.bound[array.name].buffer:
        raise _broken(f"{array.name} is by now the name of another array", stmt)


def _text(value: Value) -> str:
    return Printer()(value)


def _broken(rule: str, stmt: Stmt) -> VerifyError:
    """Return the error for a ``rule`` that does not hold in ``stmt``."""
    where = " ".join(_text(v) for v in values(stmt))
    return VerifyError(f"machine nest: {rule} (in {type(stmt).__name__} {where[:200]})")
