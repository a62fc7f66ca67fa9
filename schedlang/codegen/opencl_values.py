"""Values of a machine nest as expressions of OpenCL C."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedlang.codegen.c_values import TAGS, Printed, ValuePrinter
from schedlang.expr.dtypes import is_float, is_integer, register_dtype
from schedlang.expr.functions import SATURATED
from schedlang.expr.operators import OPERATORS
from schedlang.expr.printer import number
from schedlang.ir.nodes import with_fields
from schedlang.machine import nodes as m
from schedlang.machine.nodes import Array, Num, Op, Reg, Type, Value
from schedlang.machine.rewrite import with_children
from schedlang.machine.walks import children

# the types of elements in memory
MEMORY = {
    "bool": "uchar", "float16": "ushort", "bfloat16": "ushort", "float32": "float",
    "float64": "double", "int8": "char", "int16": "short", "int32": "int", "int64": "long",
    "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
}  # fmt: skip
# the types of values: a short float is held as a float
VALUES = {**MEMORY, "float16": "float", "bfloat16": "float"}
GLOBAL, LOCAL = "global", "local"
# the vectors of OpenCL C
LANES = (2, 3, 4, 8, 16)
# functions of floats that OpenCL C has under these names
BUILTIN = {
    **{name: name for name in (
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh "
        "asinh acosh atanh erf erfc atan2 floor ceil trunc copysign fma isnan isinf isfinite"
    ).split()},
    "absolute": "fabs", "round_even": "rint", "power": "pow",
}  # fmt: skip
_UNARY, _ATOM, _CONDITIONAL = 11, 12, 1
_WRAPS = ("+", "-", "*")


class OpenClValues(ValuePrinter):
    """Printer of values; ``spaces`` has the address space of each array by name.

    A vector that is computed is written lane by lane, each a scalar of C.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spaces: dict[str, str] = {}

    def type(self, type_: Type) -> str:
        if not type_.lanes:
            return super().type(type_)
        assert type_.lanes in LANES, type_
        return f"{VALUES[type_.dtype]}{type_.lanes}"

    def pointer(self, array: Array, kind: str) -> str:
        """Return the type of a pointer to elements ``kind`` of ``array``."""
        space = self.spaces.get(array.name, "")
        return f"__{space} {kind} *" if space else f"{kind} *"

    def in_halves(self, array: Array) -> bool:
        """Return whether the elements of an array are halves in memory."""
        return array.dtype == "float16" and self.spaces.get(array.name) == GLOBAL

    def kept(self, dtype: str) -> str:
        """Return the type of an element of a kernel's own array: a half is kept as a float.

        Every device converts halves of its global memory, and few have arrays of them.
        """
        return "float" if dtype == "float16" else MEMORY[dtype]

    def value(self, value: Value) -> Printed:
        lanes = value.type.lanes
        if not lanes or isinstance(value, Reg) or is_moved(value):
            return super().value(value)
        if isinstance(value, m.Splat):
            return f"({self.type(value.type)})({self.text(value.a)})", _ATOM
        each = ", ".join(self.text(lane(value, number)) for number in range(lanes))
        return f"({self.type(value.type)})({each})", _ATOM

    def _number(self, value: Num) -> Printed:
        dtype = value.type.dtype
        if is_float(dtype):
            single = register_dtype(dtype) == "float32"
            held = np.float32(value.value) if single else np.float64(value.value)
            if np.isnan(held):
                return "NAN", _ATOM
            literal = "INFINITY" if np.isinf(held) else f"{abs(held)!s}{'f' * single}"
            negative = bool(np.signbit(held))
            return f"{'-' * negative}{literal}", _UNARY if negative else _ATOM
        literal = number(value.value)
        if dtype in ("int32", "int64") and abs(value.value) < 2**31:
            return literal, _UNARY if literal.startswith("-") else _ATOM
        if dtype == "int64":
            # C has no literal for the lowest integer
            lowest = f"({value.value + 1}L - 1)"
            return (lowest if value.value < 0 else f"{literal}L"), _ATOM
        if dtype in ("uint32", "uint64"):
            return f"{literal}{'u' if dtype == 'uint32' else 'UL'}", _ATOM
        return super()._number(value)

    def _operation(self, value: Op) -> Printed:
        dtype, op = value.type.dtype, value.op
        if op in _WRAPS and is_integer(dtype) and not value.index:
            # a signed sum that overflows is undefined in C
            level = OPERATORS[op].in_c
            wide = "ulong" if dtype in ("int64", "uint64") else "uint"
            a, b = f"({wide}){self.at(value.a, _UNARY)}", self.at(value.b, level + 1)
            if dtype in ("uint32", "uint64"):
                return f"{self.at(value.a, level)} {op} {b}", level
            return f"({self.type(value.type)})({a} {op} {b})", _UNARY
        return super()._operation(value)

    def _negated(self, value: m.Neg) -> Printed:
        dtype = value.type.dtype
        if value.op == "-" and is_integer(dtype):
            wide = "ulong" if dtype in ("int64", "uint64") else "uint"
            return f"({self.type(value.type)})-({wide}){self.at(value.a, _UNARY)}", _UNARY
        return super()._negated(value)

    def _cast(self, value: m.Cast) -> Printed:
        source, dtype = value.a.type.dtype, value.type.dtype
        if dtype == "float16" and not is_float(source):
            # what a float rounds is too large for a half
            return f"sl_half((float)({self.text(value.a)}))", _ATOM
        if dtype == "bfloat16" and is_integer(source):
            kind = "u64" if source.startswith("u") else "i64"
            return f"sl_bfloat_from_{kind}({self.text(value.a)})", _ATOM
        if dtype == "bfloat16" and source == "bool":
            return f"(float)({self.text(value.a)})", _UNARY
        return super()._cast(value)

    def _function(self, name: str, type_: Type, args: tuple[Value, ...]) -> str:
        listed = ", ".join(self.text(a) for a in args)
        dtype = args[-1].type.dtype
        if name == "select":
            cond, a, b = (self.at(v, 2) for v in args)
            return f"({cond} ? {a} : {b})"
        if name.startswith("bits_"):
            return f"as_{VALUES[type_.dtype]}({listed})"
        if name.startswith(SATURATED):
            return f"convert_{VALUES[type_.dtype]}_sat({listed})"
        if is_float(dtype):
            # both operands of a call have one type, which a literal such as INFINITY may not have
            if name in ("copysign", "atan2", "power", "fma"):
                kind = self.type(Type(dtype))
                listed = ", ".join(self._typed(a, kind) for a in args)
            if name in BUILTIN:
                return f"{BUILTIN[name]}({listed})"
        elif name in ("floor", "ceil", "trunc", "round_even"):
            return listed
        return f"sl_{name}_{TAGS[register_dtype(dtype)]}({listed})"

    def _typed(self, value: Value, kind: str) -> str:
        text, level = self.value(value)
        return f"({kind}){text if level >= _UNARY else f'({text})'}" if "I" in text else text

    def _load(self, value: m.Load) -> str:
        array, lanes, at = value.array, value.type.lanes, value.at
        if self.in_halves(array):
            if not lanes:
                return f"vload_half({self.text(at)}, {array.name})"
            return f"vload_half{lanes}(0, {array.name} + {self.at(at, 9)})"
        if not lanes:
            read = f"{array.name}[{self.text(at)}]"
            return f"sl_bfloat_get({read})" if array.dtype == "bfloat16" else read
        start = f"{array.name} + {self.at(at, 9)}"
        if value.how == "vload_aligned" and array.dtype != "float16":
            return f"*({self.pointer(array, f'{MEMORY[array.dtype]}{lanes}')})({start})"
        return f"vload{lanes}(0, {start})"

    def stored(self, stmt: m.Store) -> str:
        """Return the statement that stores."""
        array, lanes, value = stmt.array, stmt.value.type.lanes, self.text(stmt.value)
        if self.in_halves(array):
            if not lanes:
                return f"vstore_half_rte({value}, {self.text(stmt.at)}, {array.name})"
            return f"vstore_half{lanes}_rte({value}, 0, {array.name} + {self.at(stmt.at, 9)})"
        if not lanes:
            value = f"sl_bfloat_put({value})" if array.dtype == "bfloat16" else value
            return f"{array.name}[{self.text(stmt.at)}] = {value}"
        start = f"{array.name} + {self.at(stmt.at, 9)}"
        if stmt.how == "vstore_aligned" and array.dtype != "float16":
            kind = f"{MEMORY[array.dtype]}{lanes}"
            return f"*({self.pointer(array, kind)})({start}) = {value}"
        return f"vstore{lanes}({value}, 0, {start})"

    def updated(self, stmt: m.Store) -> str:
        """Return the statement of an atomic update."""
        dtype, space = stmt.array.dtype, self.spaces[stmt.array.name]
        name = stmt.how.removeprefix("atomic_")
        place = f"&{stmt.array.name}[{self.text(stmt.at)}]"
        given = self.text(stmt.value)
        wide = dtype in ("int64", "uint64")
        own = {"add": "add", "minimum": "min", "maximum": "max"}.get(name)
        if own is not None and is_integer(dtype):
            return f"{'atom' if wide else 'atomic'}_{own}({place}, {given})"
        tag = TAGS[dtype]
        swap = "atom_cmpxchg" if wide or dtype == "float64" else "atomic_cmpxchg"
        word = {"float32": "int", "float64": "long"}.get(dtype, VALUES[dtype])
        reads = f"as_{VALUES[dtype]}" if is_float(dtype) else ""
        writes = f"as_{word}" if is_float(dtype) else ""
        new = {
            "add": "a + x", "multiply": "a * x", "minimum": f"sl_minimum_{tag}(a, x)",
            "maximum": f"sl_maximum_{tag}(a, x)",
        }[name]  # fmt: skip
        if name == "multiply" and is_integer(dtype):
            new = f"(sl_{tag})(({'ulong' if wide else 'uint'})a * x)"
        self.definitions[
            f"SL_ATOMIC({name}, {tag}, {word}, {reads}, {writes}, {swap}, {space}, {new})"
        ] = None
        return f"sl_atomic_{name}_{tag}_{space}({place}, {given})"


def is_moved(access: Value | m.Store) -> bool:
    """Return whether an access moves adjacent elements as one vector of OpenCL C."""
    if not isinstance(access, (m.Load, m.Store)) or access.array.dtype == "bfloat16":
        return False
    return access.how.removeprefix("v") in ("load", "load_aligned", "store", "store_aligned")


def lane(value: Value, number: int) -> Value:
    """Return one lane of a vector as a scalar; a scalar is in every lane."""
    lanes, scalar = value.type.lanes, Type(value.type.dtype)
    if not lanes:
        return value
    if isinstance(value, Reg):
        return Reg(f"{value.name}.s{number:x}", scalar)
    if isinstance(value, m.Splat):
        return value.a
    if isinstance(value, m.Iota):
        return Num(number, scalar)
    if isinstance(value, Num):
        return Num(value.value, scalar)
    if isinstance(value, m.Load):
        return _lane_of_load(value, number)
    one = with_children(value, [lane(operand, number) for operand in children(value)])
    return with_fields(one, type=scalar)


def _lane_of_load(load: m.Load, number: int) -> Value:
    scalar = Type(load.type.dtype)
    at = lane_place(load.at, load.step, number)
    if load.order is not None:
        assert isinstance(load.order, m.Order)
        at = lane_place(load.at, load.order.lanes[number], 1)
    one = m.Load("load", load.array, at, scalar)
    if load.mask is None:
        return one
    other = Num(0, scalar) if load.other is None else lane(load.other, number)
    return m.Choice(lane(load.mask, number), one, other, scalar)


def lane_place(at: Value, step: int, number: int) -> Value:
    """Return the offset of one lane: of a vector of offsets, or ``step`` from the next."""
    if at.type.lanes:
        return lane(at, number)
    return Op("+", at, Num(step * number), index=True) if step * number else at


def vector_types(dtype: str) -> Sequence[str]:
    """Return the names of the vectors of a type of OpenCL C."""
    return [f"{dtype}{lanes}" for lanes in LANES]


__all__ = [
    "BUILTIN", "GLOBAL", "LOCAL", "MEMORY", "VALUES", "OpenClValues", "is_moved", "lane",
    "lane_place", "vector_types",
]  # fmt: skip
