"""Values of a machine nest as C expressions, in the vector extensions of GCC and Clang."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from schedlang.codegen.c_arithmetic import extreme, instruction, is_extreme, magnitude
from schedlang.codegen.c_halves import half_cast, half_moves, has_halves
from schedlang.codegen.c_headers import has_function, instruction_function, library_function
from schedlang.codegen.c_lanes import (
    columns_load,
    first_access,
    first_name,
    is_shuffled,
    masked_access,
    strided_load,
    strided_name,
    whole_load,
    with_shared_splats,
)
from schedlang.codegen.c_masks import first_lanes, lanes_that_hold
from schedlang.codegen.c_math import has_vector_form, vector_functions
from schedlang.expr.dtypes import (
    SHORT_FLOATS,
    is_float,
    is_integer,
    itemsize,
    register_dtype,
    storage_dtype,
)
from schedlang.expr.functions import FUNCTIONS, INTRINSICS
from schedlang.expr.operators import COMPARISONS, OPERATORS
from schedlang.expr.printer import number, paren
from schedlang.machine import nodes as m
from schedlang.machine.nodes import Num, Op, Reg, Type, Value
from schedlang.machine.text import CALLED
from schedlang.machine.walks import wide

TAGS = {
    "bool": "b8", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64",
}  # fmt: skip
_LEVELS = {o.symbol: o.in_c for o in OPERATORS.values() if o.in_c}
_AND, _CONDITIONAL, _UNARY, _ATOM = 2, 1, 11, 12
_COMPARE = {symbol: OPERATORS[symbol].method for symbol in COMPARISONS}
_WIDE_FLOATS = ("float32", "float64")
_BITWISE = ("&", "|", "^", "<<", ">>")
# rules of functions whose result has another dtype than the operand
_OTHER_RESULT = ("test", "count", "saturated", "bits")
# the text of a value, and its precedence in C
Printed = tuple[str, int]


class Size(NamedTuple):
    """The elements of an array of the stack, and their number after it is rounded up."""

    elements: int
    rounded: int


class ValuePrinter:
    """Printer of values; ``definitions`` are of the types and functions of vectors that they use.

    ``first`` are the registers that are masks of a known number of first lanes, and that number.
    ``sizes`` has the sizes of arrays of the stack, by their names.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, None] = {}
        self.first: Mapping[str, int] = {}
        self.sizes: Mapping[str, Size] = {}

    def helpers(self) -> list[str]:
        """Return the definitions, where narrow splats are parts of the widest one."""
        return with_shared_splats(self.definitions)

    def type(self, type_: Type) -> str:
        """Return the C type of a value; a vector's is made where it is first used."""
        name = f"sl_{TAGS[type_.dtype]}"
        if not type_.lanes:
            return name
        for dtype in dict.fromkeys((type_.dtype, "bool", "int64")):
            self.definitions[f"SL_VECTOR({TAGS[dtype]}, {type_.lanes})"] = None
        return f"{name}_{type_.lanes}"

    def vector(self, macro: str, type_: Type, *args: str) -> None:
        """Make a function of vectors of ``type_``, and the type itself first."""
        self.type(type_)
        self.definitions[f"{macro}({', '.join([*args, str(type_.lanes)])})"] = None

    def mask(self, type_: Type) -> str:
        """Return the dtype of a mask of vectors of ``type_``, and make its type."""
        held = register_dtype(type_.dtype)
        dtype = f"int{8 * itemsize(held)}"
        self.type(Type(dtype, type_.lanes))
        return dtype

    def memory_function(self, how: str, access: m.Load | m.Store) -> str:
        """Return the name of a vector load or store."""
        type_ = access.type if isinstance(access, m.Load) else access.value.type
        dtype = access.array.dtype
        if isinstance(access, m.Load) and access.raw:
            dtype = storage_dtype(dtype)
        kind = TAGS[dtype]
        rounded = short(dtype)
        get, put = (f"{rounded}_get", f"{rounded}_put") if rounded else ("", "")
        self.type(type_)
        moved = f"{kind}, {memory(dtype)}, {type_.lanes}"
        move = f"SL_ROUND({moved}, {get}, {put})" if rounded else f"SL_MOVE({moved})"
        if kind == "bf16":
            self.type(Type("uint32", type_.lanes))
            move = f"SL_BFLOAT({type_.lanes})"
        elif kind == "f16" and has_halves(type_.lanes):
            move = half_moves(type_.lanes)
        self.definitions[move] = None
        every = f"({kind}, {memory(dtype)}, {type_.lanes}, {get}, {put})"
        if how in ("vload_masked", "vstore_masked"):
            needed = [f"SL_{how.upper()}{every}"]
            if not rounded:
                mask = TAGS[self.mask(type_)]
                needed = [*masked_access(how, kind, memory(dtype), type_.lanes, mask)]
            self.definitions.update(dict.fromkeys(needed))
        elif how == "vstore_stream":
            end = f"_ROUNDED{every}" if rounded else f"({moved})"
            self.definitions[f"SL_VSTORE_STREAM{end}"] = None
        else:
            self.definitions[f"SL_MEMORY{every}"] = None
        return f"sl_{how}_{kind}_{type_.lanes}"

    def first_function(self, access: m.Load | m.Store) -> str:
        """Return the name of a load or store whose mask has a known number of first lanes.

        It takes no mask. The name of others is empty.
        """
        mask, dtype = access.mask, access.array.dtype
        if mask is None or not _takes_first_lanes(access):
            return ""
        name = first_mask(access)
        count = self.first.get(name, 0) if name else first_lanes(mask)
        if not count:
            return ""
        kind, element, lanes = TAGS[dtype], memory(dtype), mask.type.lanes
        if whole := self._whole(access, count, kind, lanes):
            return whole
        size = lanes
        while size > 1:
            self.type(Type(dtype, size))
            self.definitions[f"SL_MOVE({kind}, {element}, {size})"] = None
            size //= 2
        self.definitions[first_access(access.how, kind, element, lanes, count)] = None
        return f"sl_{first_name(access.how, count)}_{kind}_{lanes}"

    def _whole(self, access: m.Load | m.Store, count: int, kind: str, lanes: int) -> str:
        """Return the function that moves all lanes of such an access, if the array has room."""
        size, at = self.sizes.get(access.array.name), access.at
        if size is None or not isinstance(at, Num) or at.value + lanes > size.rounded:
            return ""
        self.type(Type(access.array.dtype, lanes))
        self.definitions[f"SL_MOVE({kind}, {memory(access.array.dtype)}, {lanes})"] = None
        if isinstance(access, m.Store):
            return f"sl_vstore_{kind}_{lanes}" if at.value + count == size.elements else ""
        text = whole_load(kind, memory(access.array.dtype), lanes, count)
        self.definitions[text] = None
        return f"sl_vload_whole_{count}_{kind}_{lanes}"

    def strided_function(self, access: m.Load) -> str:
        """Return the name of a load of elements a small step apart, by shuffles."""
        masked = access.mask is not None
        self.memory_function("vload_masked" if masked else "vload", access)
        kind, lanes = TAGS[access.type.dtype], access.type.lanes
        mask = TAGS[self.mask(access.type)] if masked else ""
        self.type(Type("float64", lanes // 2))
        element = memory(access.array.dtype)
        self.definitions[strided_load(kind, element, lanes, access.step, mask)] = None
        return f"sl_{strided_name(access.step, masked)}_{kind}_{lanes}"

    def columns_function(self, access: m.Load) -> str:
        """Return the name of a load of adjacent columns, which transposes blocks if it can."""
        name = self.memory_function(access.how, access)
        dtype, lanes = access.type.dtype, access.type.lanes
        kind, element, part = TAGS[dtype], memory(access.array.dtype), 16 // itemsize(dtype)
        if short(access.array.dtype) or not (text := columns_load(kind, element, lanes)):
            return name
        self.type(Type(dtype, part))
        self.definitions[f"SL_MOVE({kind}, {element}, {part})"] = None
        self.definitions[text] = None
        return f"sl_vload_transposed_{kind}_{lanes}"

    def text(self, value: Value) -> str:
        return self.value(value)[0]

    def at(self, value: Value, least: int) -> str:
        return paren(*self.value(value), least)

    def value(self, value: Value) -> Printed:
        """Return the text of a value, and its precedence."""
        if isinstance(value, Reg):
            return value.name, _ATOM
        if isinstance(value, Num):
            return self._number(value)
        if isinstance(value, Op):
            return self._operation(value)
        if isinstance(value, m.Load):
            return self._load(value), _ATOM
        if isinstance(value, m.Neg):
            return self._negated(value)
        if isinstance(value, m.Cast):
            return self._cast(value)
        if isinstance(value, m.Splat):
            kind = TAGS[value.type.dtype]
            self.vector("SL_SPLAT", value.type, kind)
            return f"sl_splat_{kind}_{value.type.lanes}({self.text(value.a)})", _ATOM
        if isinstance(value, m.Iota):
            self.vector("SL_IOTA", value.type)
            return f"sl_iota_{value.type.lanes}()", _ATOM
        if isinstance(value, m.Fn):
            return self._call(value), _ATOM
        if isinstance(value, m.Column):
            return f"{value.columns.name}[{value.at}]", _ATOM
        if isinstance(value, m.Instructed):
            return self._instructed(value), _ATOM
        if isinstance(value, m.Both):
            return f"{self.at(value.a, _AND)} && {self.at(value.b, _AND)}", _AND
        assert isinstance(value, m.Choice)
        bitwise = isinstance(value.cond, Op) and value.cond.op in _BITWISE
        # Clang warns of bitwise operators without parentheses
        test = self.at(value.cond, _UNARY if bitwise else _AND)
        return f"{test} ? {self.at(value.a, _AND)} : {self.at(value.b, 1)}", _CONDITIONAL

    def _number(self, value: Num) -> Printed:
        literal, dtype = number(value.value), value.type.dtype
        for word, name in (("inf", "INFINITY"), ("nan", "NAN")):
            if literal.lstrip("-") == word:
                literal = literal.replace(word, name)
        if dtype == "bool":
            return str(int(bool(value.value))), _ATOM
        if dtype == "int64" and abs(value.value) < 2**31:
            return literal, _UNARY if literal.startswith("-") else _ATOM
        if dtype == "uint64":
            literal += "ULL"
        elif dtype == "int64":
            # C has no literal for the lowest integer
            literal = f"{value.value + 1}LL - 1" if value.value < 0 else f"{literal}LL"
        literal = f"({literal})" if literal.startswith("-") else literal
        return f"(sl_{TAGS[dtype]}){literal}", _UNARY

    def _operation(self, value: Op) -> Printed:
        lanes, dtype, op = value.type.lanes, value.type.dtype, value.op
        a, b = wide(value.a, lanes), wide(value.b, lanes)
        if value.index and op in ("//", "%"):
            name = "quotient" if op == "//" else "remainder"
            if lanes:
                self.vector("SL_QUOTIENT", value.type, name)
                name = f"{name}_{lanes}"
            return f"sl_{name}({self.text(a)}, {self.text(b)})", _ATOM
        if op == "**" and is_float(dtype) and _constant(b) == 0.5:
            # GCC's vectorizer makes a square root of it, which differs at -0.0 and -inf
            return self._function("power_half", value.type, (a,)), _ATOM
        if op in CALLED:
            return self._function(CALLED[op], value.type, (a, b)), _ATOM
        if op in _COMPARE and lanes and (held := lanes_that_hold(value)) is not None:
            self.vector("SL_FIRST", Type("bool", lanes))
            bounds = self.text(held.start), str(held.step), self.text(held.end)
            text = f"sl_first_{lanes}({', '.join(bounds)})"
            return (f"{text} ^ 1", _LEVELS["^"]) if held.negated else (text, _ATOM)
        if op in _COMPARE and lanes:
            kind, name = TAGS[a.type.dtype], _COMPARE[op]
            self.type(a.type)
            self.definitions[f"SL_COMPARE({name}, {op}, {kind}, {lanes})"] = None
            return f"sl_{name}_{kind}_{lanes}({self.text(a)}, {self.text(b)})", _ATOM
        if op == "&" and dtype == "bool" and lanes and (uniform := _uniform(a, b)):
            # a branch, which GCC moves out of a loop; in one side of it a mask may be known
            none = m.Splat(Num(False, Type("bool")), value.type)
            return self.value(m.Choice(*uniform, none, value.type))
        level = _LEVELS[op]
        first, second = self._operand(a, op, level), self._operand(b, op, level + 1)
        text = f"{first} {op} {second}"
        if op in _COMPARE or dtype == "bool" or lanes or dtype in ("int64", "float32", "float64"):
            return text, level
        return f"(sl_{TAGS[dtype]})({text})", _UNARY

    def _operand(self, value: Value, op: str, least: int) -> str:
        """Return an operand, in parentheses also where compilers warn that a reader misses them."""
        if op in _BITWISE and not (isinstance(value, Op) and value.op == op):
            least = _UNARY
        if op in _COMPARE:
            least = max(least, _LEVELS["<"] + 1)
        return self.at(value, least)

    def _negated(self, value: m.Neg) -> Printed:
        a, dtype = self.at(value.a, _UNARY), value.type.dtype
        if dtype == "bool":
            return (f"{a} ^ 1", _LEVELS["^"]) if value.type.lanes else (f"!{a}", _UNARY)
        text = f"{value.op}{a}" if not a.startswith(value.op) else f"{value.op}({a})"
        return (text, _UNARY) if value.type.lanes else (f"(sl_{TAGS[dtype]})({text})", _UNARY)

    def _cast(self, value: m.Cast) -> Printed:
        source, dtype, lanes = value.a.type.dtype, value.type.dtype, value.type.lanes
        if source in SHORT_FLOATS and dtype == "float32":
            return self.value(value.a)
        how = f"(sl_{TAGS[dtype]})"
        if dtype == "bool":
            how = "0 != "
        elif dtype == "bfloat16" and source in ("int64", "uint64"):
            how = f"sl_bfloat_from_{TAGS[source]}"
        elif dtype in SHORT_FLOATS:
            how = (
                short(dtype) if register_dtype(source) == "float32" else f"{short(dtype)}_from_f64"
            )
        elif is_float(source) and not is_float(dtype):
            how = f"sl_{TAGS[dtype]}_of_float"
        if not lanes:
            return f"{how}({self.text(value.a)})", _UNARY if dtype != "bool" else _LEVELS["=="]
        kinds = TAGS[dtype], TAGS[source]
        self.type(value.a.type)
        self.type(value.type)
        is_single = register_dtype(source) == "float32"
        if is_single and dtype == "bfloat16":
            self.type(Type("uint32", lanes))
            self.definitions[f"SL_BFLOAT_OF({kinds[1]}, {lanes})"] = None
        elif is_single and dtype == "float16" and has_halves(lanes):
            self.definitions[half_cast(kinds[1], lanes)] = None
        elif (
            not is_float(source)
            and itemsize(source) < min(4, itemsize(dtype))
            and dtype not in SHORT_FLOATS
        ):
            self.type(Type("int32", lanes))
            how = "SL_WIDEN_TO_FLOAT" if is_float(dtype) else "SL_WIDEN"
            self.definitions[f"{how}({kinds[0]}, {kinds[1]}, {lanes})"] = None
        elif how == f"(sl_{kinds[0]})" or (kinds[0] == "i32" and source in _WIDE_FLOATS):
            self.definitions[f"SL_CONVERT({kinds[0]}, {kinds[1]}, {lanes})"] = None
        elif is_integer(dtype) and itemsize(dtype) < 4 and source in _WIDE_FLOATS:
            self.type(Type("int32", lanes))
            self.type(Type("int16", lanes))
            self.definitions[f"SL_NARROW{itemsize(dtype)}({kinds[0]}, {kinds[1]}, {lanes})"] = None
        else:
            self.definitions[f"SL_CAST({kinds[0]}, {kinds[1]}, {lanes}, {how})"] = None
        return f"sl_{kinds[0]}_of_{kinds[1]}_{lanes}({self.text(value.a)})", _ATOM

    def _call(self, value: m.Fn) -> str:
        if not value.args:
            return f"sl_{value.name}()"
        name = FUNCTIONS[value.name].called if value.index else value.name
        return self._function(name, value.type, value.args)

    def _instructed(self, value: m.Instructed) -> str:
        """Return a call of a function that calls the user's function of C."""
        kinds = [self.type(a.type) for a in value.args]
        text = instruction_function(value.instruction, self.type(value.type), kinds)
        self.definitions[text] = None
        operands = ", ".join(map(self.text, value.args))
        return f"sl_instruction_{value.instruction.identifier}({operands})"

    def _function(self, name: str, type_: Type, args: tuple[Value, ...]) -> str:
        """Return a call of a function of the helpers, lane by lane for vectors."""
        if name == "select" and type_.lanes and (chosen := self._chosen(args, type_)) is not None:
            return chosen
        # once: where calls are nested, a second time would double the work at each level
        listed = ", ".join(map(self.text, args))
        return f"{self._function_name(name, type_, args)}({listed})"

    def _function_name(self, name: str, type_: Type, args: tuple[Value, ...]) -> str:
        """Return the name of a function of the helpers; one over vectors is made here."""
        # float16 and bfloat16 are held as float32
        type_ = Type(register_dtype(type_.dtype), type_.lanes)
        kind = scalar = TAGS[register_dtype(args[-1].type.dtype)]
        lanes = type_.lanes
        intrinsic = INTRINSICS.get(name)
        if intrinsic is not None and intrinsic.library and not has_function(name):
            text = library_function(name, intrinsic.library, intrinsic.arity, scalar)
            self.definitions[text] = None
        if name.startswith("bits_"):
            name, scalar = "bits", TAGS[type_.dtype]
        if not lanes:
            return f"sl_{name}_{scalar}"
        if name == "select":
            self.vector("SL_CHOOSE", type_, kind, TAGS[self.mask(type_)])
            self.vector("SL_SELECT", type_, kind)
        elif kind == "f32" and has_vector_form(name):
            self.type(Type("float32", lanes))
            self.definitions.update(dict.fromkeys(vector_functions(name, lanes)))
        elif text := instruction(name, kind, lanes):
            self.type(type_)
            self.definitions[text] = None
        elif name == "rsqrt":
            self._function_name("sqrt", type_, args)
            self.vector("SL_RSQRT", type_, kind)
        elif is_extreme(name) and kind != "b8":
            # lane by lane, GCC makes branches of it
            self.vector("SL_CHOOSE", type_, kind, TAGS[self.mask(type_)])
            self.definitions[extreme(name, kind, lanes)] = None
        elif name == "absolute" and kind[0] == "f":
            self.vector("SL_ABSOLUTE", type_, kind)
        elif name == "absolute" and kind[0] == "i":
            self.type(type_)
            self.definitions[magnitude(kind, lanes)] = None
        elif name == "copysign":
            self.vector("SL_COPYSIGN", type_, kind)
        elif len(args) == 1:
            self.type(Type(register_dtype(args[0].type.dtype), lanes))
            differs = intrinsic is not None and intrinsic.rule in _OTHER_RESULT
            result = TAGS[type_.dtype] if differs else kind
            self.vector("SL_MAP1", type_, name, result, kind, scalar)
        else:
            self.vector(f"SL_MAP{len(args)}", type_, name, kind, scalar)
        return f"sl_{name}_{kind}_{lanes}"

    def _chosen(self, args: tuple[Value, ...], type_: Type) -> str | None:
        """Return a choice by a comparison, whose mask needs not become a vector of bytes."""
        test, lanes, kind = args[0], type_.lanes, TAGS[args[-1].type.dtype]
        if not isinstance(test, Op) or test.op not in _COMPARE or lanes_that_hold(test):
            return None
        operands = [wide(v, lanes) for v in (test.a, test.b)]
        of, name = TAGS[operands[0].type.dtype], _COMPARE[test.op]
        listed = ", ".join(map(self.text, (*operands, *args[1:])))
        self.vector("SL_CHOOSE", type_, kind, TAGS[self.mask(type_)])
        self.type(operands[0].type)
        self.definitions[f"SL_SELECT_IF({name}, {test.op}, {of}, {kind}, {lanes})"] = None
        return f"sl_select_{name}_{of}_{kind}_{lanes}({listed})"

    def _load(self, value: m.Load) -> str:
        if value.how == "load":
            text = f"{value.array.name}[{self.text(value.at)}]"
            get = "" if value.raw else short(value.array.dtype)
            return f"{get}_get({text})" if get else text
        if first := self.first_function(value):
            return f"{first}({self.place(value)})"
        args = [self.place(value)]
        is_short = short(value.array.dtype) and not value.raw
        if "strided" in value.how and is_shuffled(value.type.lanes, value.step) and not is_short:
            args += [self.text(value.mask)] if value.mask is not None else []
            return f"{self.strided_function(value)}({', '.join(args)})"
        if value.how == "vload_if":
            assert value.mask is not None and value.other is not None
            args = [self.text(value.mask), *args, self.text(value.other)]
        else:
            args += [] if value.step == 1 else [str(value.step)]
            args += [self.text(v) for v in (value.order, value.mask) if v is not None]
        return f"{self.memory_function(value.how, value)}({', '.join(args)})"

    def place(self, value: m.Load) -> str:
        """Return the address of the first lane, or the array and the offsets of all."""
        if "gather" in value.how:
            return f"{value.array.name}, {self.text(value.at)}"
        return f"{value.array.name} + {self.at(value.at, 9)}"


def _constant(value: Value) -> Any:
    """Return the number that a value is, in every lane; ``None`` for others."""
    inner = value.a if isinstance(value, m.Splat) else value
    return inner.value if isinstance(inner, Num) else None


def _uniform(a: Value, b: Value) -> tuple[Value, Value] | None:
    """Return the scalar that is one of two masks in all lanes, and the other mask."""
    if isinstance(a, m.Splat):
        return a.a, b
    return (b.a, a) if isinstance(b, m.Splat) else None


def _takes_first_lanes(access: m.Load | m.Store) -> bool:
    """Return whether a masked load or store has a form for known first lanes."""
    return access.how in ("vload_masked", "vstore_masked") and not short(access.array.dtype)


def first_mask(access: m.Load | m.Store) -> str:
    """Return the name of the register that is the mask of such a load or store, or an empty one."""
    mask = access.mask
    return mask.name if isinstance(mask, Reg) and _takes_first_lanes(access) else ""


def memory(dtype: str) -> str:
    """Return the C type of an element of an array."""
    return "uint16_t" if dtype in SHORT_FLOATS else f"sl_{TAGS[dtype]}"


def short(dtype: str) -> str:
    """Return the function that rounds to a short float, after which others are named; or ``""``."""
    return {"float16": "sl_half", "bfloat16": "sl_bfloat"}.get(dtype, "")
