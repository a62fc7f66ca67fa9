"""Values of the machine nest as LLVM's instructions, in the order in which the file prints them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from schedlang.expr.operators import COMPARISONS
from schedlang.instructions.emission import in_order
from schedlang.intrinsics import cpu, operators
from schedlang.intrinsics.simd import Vec, convert, is_float, is_integer, llvm_type
from schedlang.machine.nodes import (
    Array,
    Both,
    Cast,
    Choice,
    Column,
    Fn,
    Instructed,
    Iota,
    Load,
    Neg,
    Num,
    Op,
    Order,
    Reg,
    Splat,
    Store,
    Value,
)
from schedlang.machine.text import CALLED, SHORT
from schedlang.runtime.llvm.dialect import (
    ARITHMETIC,
    I64,
    Context,
    Typed,
    Unprintable,
    array_type,
    call,
    cast,
    literal,
    named,
    number,
    splat,
    type_of,
)
from schedlang.runtime.llvm.instructed import instructed

# arithmetic on indices does not overflow
_NO_OVERFLOW = ("nsw",)
_INDEX = {
    "+": "add", "-": "sub", "*": "mul", "&": "and_", "|": "or_", "^": "xor", "<<": "shl",
    ">>": "ashr",
}  # fmt: skip
_WRAPPING = frozenset("+-*")
_FLOAT = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}


class ValuePrinter:
    """Printer of values; ``values`` are the values of registers and arrays by their names."""

    def __init__(self, context: Context, builder: ir.IRBuilder) -> None:
        self.context, self.builder = context, builder
        # the orders of lanes that have a name; LLVM has no values for them
        self.orders: dict[str, Order] = {}
        # the registers with offsets of rows in folded storage
        self.rows: set[str] = set()
        self._emit: dict[type, Callable[[Any], ir.Value]] = {
            Reg: self.register, Num: self._number, Op: self._operation, Load: self._load,
            Fn: self._function, Cast: self._cast, Neg: self._negated, Splat: self._splat,
            Iota: self._iota, Instructed: self._instructed, Column: self._column,
            Both: self._both, Choice: self._choice,
        }  # fmt: skip

    def register(self, reg: Reg) -> ir.Value:
        """Return the value of a register."""
        raise NotImplementedError

    def array(self, array: Array) -> ir.Value:
        """Return the address of an array."""
        raise NotImplementedError

    def __call__(self, value: Value) -> ir.Value:
        """Emit a value, whose type is ``type_of(value.type)``."""
        emit = self._emit.get(type(value))
        if emit is None:
            raise Unprintable(f"{type(value).__name__} has no form in LLVM's code")
        return emit(value)

    def typed(self, value: Value) -> Typed:
        """Emit a value, and return it with its type, which for an integer's constant has it."""
        order = self.orders.get(value.name) if isinstance(value, Reg) else value
        if isinstance(order, Order):
            return types.Tuple([types.IntegerLiteral(lane) for lane in order.lanes]), None
        if isinstance(value, Num) and value.type.dtype == "int64" and abs(value.value) < 2**63:
            return literal(value.value)
        return type_of(value.type), self(value)

    def call(self, name: str, *operands: Typed, gives: types.Type) -> ir.Value:
        """Emit a call of an intrinsic, and convert its value to the type that it ``gives``."""
        kind, value = call(self.context, self.builder, named(name), operands)
        return cast(self.builder, value, kind, gives)

    def _number(self, value: Num) -> ir.Value:
        return number(type_of(value.type), value.value)

    def _operation(self, value: Op) -> ir.Value:
        if value.index and not value.type.lanes:
            return self._index(value)
        wanted = type_of(value.type)
        called = CALLED.get(value.op)
        if called:
            return self.call(called, self.typed(value.a), self.typed(value.b), gives=wanted)
        left, right = type_of(value.a.type), type_of(value.b.type)
        a, b = self(value.a), self(value.b)
        kind = self._common(left, right, value)
        a, b = cast(self.builder, a, left, kind), cast(self.builder, b, right, kind)
        return cast(self.builder, self._operator(value.op, kind, a, b), *self._result(value, kind))

    def _common(self, left: types.Type, right: types.Type, value: Op) -> types.Type:
        """Return the type in which the operands of an operation are combined."""
        if left == right:
            return left
        if isinstance(left, Vec) or isinstance(right, Vec):
            return left if isinstance(left, Vec) else right
        if not (is_integer(left) and is_integer(right)) or types.uint64 in (left, right):
            raise Unprintable(f"{left} {value.op} {right} has no form in LLVM's code")
        return types.int64

    def _result(self, value: Op, kind: types.Type) -> tuple[types.Type, types.Type]:
        wanted = type_of(value.type)
        return (wanted if value.op in COMPARISONS else kind), wanted

    def _operator(self, op: str, kind: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit an operator on two values of one type, with numba's meaning."""
        builder = self.builder
        if op in COMPARISONS:
            return operators.emit_compare(builder, kind, op, a, b)
        if is_float(kind) and not isinstance(kind, Vec):
            # without flags: the kernel's flags are added to what has none
            if op in _FLOAT:
                return getattr(builder, _FLOAT[op])(a, b)
        elif op in ARITHMETIC and not (op in "+-*/" and kind == types.boolean):
            return ARITHMETIC[op](builder, kind, a, b)
        raise Unprintable(f"{op} of {kind} has no form in LLVM's code")

    def _index(self, value: Op) -> ir.Value:
        a, b, op, builder = self(value.a), self(value.b), value.op, self.builder
        if op in COMPARISONS:
            return builder.icmp_signed(op, a, b)
        if op in _INDEX:
            emit = getattr(builder, _INDEX[op])
            return emit(a, b, flags=_NO_OVERFLOW) if op in _WRAPPING else emit(a, b)
        if op not in ("//", "%"):
            raise Unprintable(f"{op} of indices has no form in LLVM's code")
        if isinstance(value.b, Num) and value.b.value > 0:
            return self._divided(op, a, b)
        emit = operators.emit_floordiv if op == "//" else operators.emit_mod
        return emit(builder, types.int64, a, b)

    def _divided(self, op: str, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit a division by a positive constant, rounded down, or what it leaves."""
        builder = self.builder
        rest = builder.srem(a, b)
        below = builder.icmp_signed("<", rest, I64(0))
        if op == "%":
            return builder.select(below, builder.add(rest, b), rest)
        quotient = builder.sdiv(a, b)
        return builder.select(below, builder.sub(quotient, I64(1)), quotient)

    def _function(self, value: Fn) -> ir.Value:
        if value.index:
            a, b = self(value.args[0]), self(value.args[1])
            first = self.builder.icmp_signed("<" if value.name == "min" else ">", a, b)
            return self.builder.select(first, a, b)
        args = [self.typed(a) for a in value.args]
        return self.call(value.name, *args, gives=type_of(value.type))

    def _negated(self, value: Neg) -> ir.Value:
        kind, a = type_of(value.type), self(value.a)
        emit = operators.emit_neg if value.op == "-" else operators.emit_invert
        return emit(self.builder, kind, a)

    def _cast(self, value: Cast) -> ir.Value:
        source, dtype = value.a.type.dtype, value.type.dtype
        kind, wanted = type_of(value.a.type), type_of(value.type)
        a = self(value.a)
        if dtype in SHORT:
            exact = (kind.dtype if isinstance(kind, Vec) else kind) == types.float32
            name = SHORT[dtype] if exact else f"{SHORT[dtype]}_from"
            return self.call(name, (kind, a), gives=wanted)
        if source in SHORT and dtype == "float32":
            return a
        return convert(self.builder, a, kind, wanted)

    def _splat(self, value: Splat) -> ir.Value:
        return splat(self.builder, self(value.a), value.type.lanes)

    def _iota(self, value: Iota) -> ir.Value:
        return ir.Constant(llvm_type(type_of(value.type)), list(range(value.type.lanes)))

    def _column(self, value: Column) -> ir.Value:
        bits = self.builder.extract_value(self.register(value.columns), value.at)
        return self._value(bits, value.type.dtype, value.type.lanes)

    def _instructed(self, value: Instructed) -> ir.Value:
        operands = [self.typed(a) for a in in_order(value.emission, value.args)]
        kind, result = instructed(
            self.context, self.builder, value.instruction, value.emission, operands
        )
        return cast(self.builder, result, kind, type_of(value.type))

    def _both(self, value: Both) -> ir.Value:
        return self._branched(value.a, value.b, Num(False, value.type))

    def _choice(self, value: Choice) -> ir.Value:
        return self._branched(value.cond, value.a, value.b)

    def _branched(self, cond: Value, a: Value, b: Value) -> ir.Value:
        """Emit a branch that evaluates only ``a`` or only ``b``."""
        results: list[tuple[ir.Value, ir.Block]] = []
        with self.builder.if_else(self(cond)) as sides:
            for side, value in zip(sides, (a, b)):
                with side:
                    results.append((self(value), self.builder.block))
        result = self.builder.phi(results[0][0].type)
        for value, block in results:
            result.add_incoming(value, block)
        return result

    def _load(self, value: Load) -> ir.Value:
        array, how, lanes = value.array, value.how, value.type.lanes
        name = how + ("_half" if array.dtype == "float16" and not value.raw else "")
        args = self._element(array, value.at)
        if how == "vload_if":
            assert value.mask is not None and value.other is not None
            other = self._bits(value.other, array.dtype)
            args = [self.typed(value.mask), *args, other]
        elif how == "vload_columns":
            args += [literal(n) for n in (value.step, value.columns, lanes)]
        else:
            if value.step != 1:
                args.append(literal(value.step))
            if value.order is not None:
                args.append(self.typed(value.order))
            elif value.mask is not None:
                args.append(self.typed(value.mask))
            elif lanes and how != "vgather":
                args.append(literal(lanes))
        _, bits = call(self.context, self.builder, named(name), args)
        # a tuple of vectors is converted where it is used
        plain = value.raw or how == "vload_columns"
        return bits if plain else self._value(bits, array.dtype, lanes)

    def store(self, stmt: Store) -> None:
        """Emit a store."""
        dtype = stmt.array.dtype
        name = stmt.how + ("_half" if dtype == "float16" else "")
        args = self._element(stmt.array, stmt.at)
        if stmt.step != 1:
            args.append(literal(stmt.step))
        args.append(self._bits(stmt.value, dtype))
        if stmt.mask is not None:
            args.append(self.typed(stmt.mask))
        call(self.context, self.builder, named(name), args)

    def _element(self, array: Array, at: Value) -> list[Typed]:
        """Emit the address and the offset of an element.

        The offset of a row in folded storage belongs to the address: in ``(i + 2)%4*1024 + j`` LLVM
        makes a ``^`` of both sums, after which a loop over ``j`` has to gather.
        """
        address = self.array(array)
        terms = _terms(at)
        rows = [term for term in terms if self.is_row(term)]
        if not rows or len(rows) == len(terms):
            return [(array_type(array.dtype), address), (type_of(at.type), self(at))]
        for row in rows:
            address = self.builder.gep(address, [self(row)])
        inside, *others = (self(term) for term in terms if term not in rows)
        for other in others:
            inside = self.builder.add(inside, other, flags=_NO_OVERFLOW)
        return [(array_type(array.dtype), address), (type_of(at.type), inside)]

    def is_row(self, value: Value) -> bool:
        """Return whether ``value`` is the offset of a row in folded storage: ``(i + 2)%4*1024``."""
        if isinstance(value, Reg):
            return value.name in self.rows
        if not isinstance(value, Op) or value.op != "*":
            return False
        return isinstance(value.a, Op) and value.a.op == "%"

    def _value(self, bits: ir.Value, dtype: str, lanes: int) -> ir.Value:
        """Emit a loaded value; a bfloat16 is loaded as its bits."""
        if dtype != "bfloat16":
            return bits
        kind = Vec(types.uint16, lanes) if lanes else types.uint16
        return call(self.context, self.builder, cpu.bfloat_value, [(kind, bits)])[1]

    def _bits(self, value: Value, dtype: str) -> Typed:
        """Emit a value to store; a bfloat16 is stored as its bits."""
        typed = type_of(value.type), self(value)
        if dtype != "bfloat16":
            return typed
        return call(self.context, self.builder, cpu.bfloat_bits, [typed])


def _terms(at: Value) -> list[Value]:
    """Return the terms of a sum of scalar indices."""
    left, terms = [at], list[Value]()
    while left:
        value = left.pop()
        if isinstance(value, Op) and value.op == "+" and value.index and not value.type.lanes:
            left += (value.b, value.a)
        else:
            terms.append(value)
    return terms
