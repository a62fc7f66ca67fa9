"""A machine nest as C (C11 with the vector extensions of GCC and Clang, and OpenMP)."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from schedlang.expr.printer import number, paren
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
    Iota,
    Let,
    Load,
    Neg,
    Num,
    Op,
    Order,
    Prefetch,
    Reg,
    Run,
    Splat,
    Stmt,
    Store,
    Type,
    Value,
    wide,
)
from schedlang.machine.text import CALLED, UNROUNDED

INDENT = "    "
# names that a C file cannot give to its variables
RESERVED = tuple(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "typeof union unsigned void volatile while SL SL_HEAP NULL INFINITY NAN".split()
)
TAGS = {
    "bool": "b8", "float16": "f16", "float32": "f32", "float64": "f64", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64",
}  # fmt: skip
_LEVELS = {
    "*": 10, "/": 10, "+": 9, "-": 9, "<": 7, "<=": 7, ">": 7, ">=": 7, "==": 6, "!=": 6,
    "&": 5, "^": 4, "|": 3,
}  # fmt: skip
_AND, _CONDITIONAL, _UNARY, _ATOM = 2, 1, 11, 12
_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_LOGICAL = ("isnan", "isinf", "isfinite")
Text = tuple[str, int]


def c_source(nest: MachineNest) -> str:
    """Return ``nest`` as the text of a C file; only the entry is visible outside of it."""
    printer = _Printer()
    functions = [printer.function(f, f is nest.entry) for f in nest.functions]
    vectors = "\n".join(printer.made)
    return "\n\n".join([helpers(), *([vectors] if vectors else []), *functions]) + "\n"


@lru_cache(maxsize=1)
def helpers() -> str:
    """Return the helpers that the file begins with."""
    return files("schedlang.codegen").joinpath("c_helpers.h").read_text().rstrip()


def tag(dtype: str) -> str:
    return TAGS[dtype]


class _Printer:
    """Printer of values and statements; ``made`` are the types and functions of vectors used."""

    def __init__(self) -> None:
        self.made: dict[str, None] = {}

    def function(self, function: Function, public: bool) -> str:
        apart = {a.name for s in function.body if isinstance(s, Hint) and s.name == "apart"
                 for a in s.args if isinstance(a, Array)}  # fmt: skip
        listed = [self._parameter(p, apart) for p in function.parameters]
        static = "" if public else "static "
        head = f"{static}void {function.name}({', '.join(listed) or 'void'}) {{"
        return "\n".join([head, *self.body(function.body, 1, set()), "}"])

    def _parameter(self, parameter: Array | Reg, apart: set[str]) -> str:
        if isinstance(parameter, Reg):
            return f"{self.type(parameter.type)} {parameter.name}"
        restrict = "restrict " if parameter.name in apart else ""
        return f"{memory(parameter.dtype)} *{restrict}{parameter.name}"

    def type(self, type_: Type) -> str:
        """Return the C type of a value; a vector's is made where it is first used."""
        name = f"sl_{tag(type_.dtype)}"
        if not type_.lanes:
            return name
        for dtype in dict.fromkeys((type_.dtype, "bool", "int64")):
            self.make(f"SL_VECTOR({tag(dtype)}, {type_.lanes})")
        return f"{name}_{type_.lanes}"

    def make(self, macro: str) -> None:
        self.made.setdefault(macro)

    def vector(self, macro: str, type_: Type, *args: str) -> None:
        """Make a function of vectors of ``type_``, and the type itself first."""
        self.type(type_)
        self.make(f"{macro}({', '.join([*args, str(type_.lanes)])})")

    def body(self, body: Body, depth: int, known: set[str]) -> list[str]:
        inside = set(known)
        return [line for stmt in body for line in self.statement(stmt, depth, inside)]

    def statement(self, stmt: Stmt, depth: int, known: set[str]) -> list[str]:
        """Return the lines of a statement; ``known`` are the registers declared so far."""
        margin = INDENT * depth
        if isinstance(stmt, For):
            name, step = stmt.index.name, f" += {stmt.step}" if stmt.step != 1 else "++"
            stop = self.text(stmt.stop)
            head = f"for (sl_i64 {name} = 0; {name} < {stop}; {name}{step}) {{"
            lines = [f"{margin}#pragma omp parallel for"] if stmt.parallel else []
            inside = {*known, name}
            return [*lines, margin + head + _note(stmt.note),
                    *self.body(stmt.body, depth + 1, inside), margin + "}"]  # fmt: skip
        if isinstance(stmt, If):
            lines = []
            if stmt.result is not None:
                lines.append(f"{margin}{self.type(stmt.result.type)} {stmt.result.name};")
                known.add(stmt.result.name)
            lines.append(f"{margin}if ({self.text(stmt.cond)}) {{{_note(stmt.note)}")
            lines += self.body(stmt.body, depth + 1, known)
            if stmt.orelse:
                lines += [f"{margin}}} else {{", *self.body(stmt.orelse, depth + 1, known)]
            return [*lines, margin + "}"]
        if isinstance(stmt, Hint):
            return []
        return [f"{margin}{self._line(stmt, known)};" + _note(getattr(stmt, "note", ""))]

    def _line(self, stmt: Stmt, known: set[str]) -> str:
        if isinstance(stmt, Let):
            return self._let(stmt, known)
        if isinstance(stmt, Store):
            return self._store(stmt)
        if isinstance(stmt, Alloc):
            name, kind, count = stmt.array.name, memory(stmt.array.dtype), self.text(stmt.count)
            if stmt.place == "stack":
                return f"{kind} {name}[{count}] __attribute__((aligned(64)))"
            return f"SL_HEAP {kind} *{name} = sl_allocated(({count}) * sizeof({kind}))"
        if isinstance(stmt, Prefetch):
            return f"__builtin_prefetch({stmt.array.name} + {self._at(stmt.at, 9)})"
        assert isinstance(stmt, Run)
        given = (a.name if isinstance(a, Array) else self.text(a) for a in stmt.args)
        return f"{stmt.function}({', '.join(given)})"

    def _let(self, stmt: Let, known: set[str]) -> str:
        reg, value = stmt.reg, stmt.value
        new = reg.name not in known
        known.add(reg.name)
        if isinstance(value, Order):
            return f"static const int {reg.name}[] = {{{', '.join(map(str, value.lanes))}}}"
        if isinstance(value, Load) and value.how == "vload_columns":
            call = f"{self._memory('vload_columns', value)}({reg.name}, {self._place(value)}, "
            declared = f"{self.type(reg.type)} {reg.name}[{value.columns}]; " if new else ""
            return f"{declared}{call}{value.step}, {value.columns})"
        declared = f"{self.type(reg.type)} " if new else ""
        return f"{declared}{reg.name} = {self.text(wide(value, reg.type.lanes))}"

    def _store(self, stmt: Store) -> str:
        value, lanes, name = self.text(stmt.value), stmt.value.type.lanes, stmt.array.name
        if not lanes:
            half = stmt.array.dtype == "float16"
            return f"{name}[{self.text(stmt.at)}] = {f'sl_half_put({value})' if half else value}"
        how = {"vstore_stream": "vstore"}.get(stmt.how, stmt.how)
        scattered = "scatter" in how
        place = f"{name}, {self.text(wide(stmt.at, lanes))}" if scattered else (
            f"{name} + {self._at(stmt.at, 9)}")  # fmt: skip
        args = [place, *([] if stmt.step == 1 else [str(stmt.step)]), value]
        if stmt.mask is not None:
            args.append(self.text(stmt.mask))
        return f"{self._memory(how, stmt)}({', '.join(args)})"

    def _memory(self, how: str, access: Load | Store) -> str:
        """Return the name of a vector load or store."""
        type_ = access.type if isinstance(access, Load) else access.value.type
        kind, dtype = tag(access.array.dtype), access.array.dtype
        self.vector(*(("SL_ADJACENT_HALF", type_) if dtype == "float16" else
                      ("SL_ADJACENT", type_, kind)))  # fmt: skip
        if how not in ("vload", "vstore"):
            get, put = ("sl_half_get", "sl_half_put") if dtype == "float16" else ("SL_SAME",) * 2
            lanes = type_.lanes
            self.make(f"SL_SCATTERED({kind}, {memory(dtype)}, {lanes}, {get}, {put})")
        return f"sl_{how}_{kind}_{type_.lanes}"

    def text(self, value: Value) -> str:
        return self.value(value)[0]

    def _at(self, value: Value, least: int) -> str:
        return paren(*self.value(value), least)

    def value(self, value: Value) -> Text:
        """Return the text of a value, and its precedence."""
        if isinstance(value, Reg):
            return value.name, _ATOM
        if isinstance(value, Num):
            return self._number(value)
        if isinstance(value, Op):
            return self._operation(value)
        if isinstance(value, Load):
            return self._load(value), _ATOM
        if isinstance(value, Neg):
            return self._negated(value)
        if isinstance(value, Cast):
            return self._cast(value)
        if isinstance(value, Splat):
            self.type(value.type)
            name = f"sl_splat_{tag(value.type.dtype)}_{value.type.lanes}"
            return f"{name}({self.text(value.a)})", _ATOM
        if isinstance(value, Iota):
            self.vector("SL_IOTA", value.type)
            return f"sl_iota_{value.type.lanes}()", _ATOM
        if isinstance(value, Fn):
            return self._call(value), _ATOM
        if isinstance(value, Column):
            return f"{value.columns.name}[{value.at}]", _ATOM
        if isinstance(value, Both):
            return f"{self._at(value.a, _AND)} && {self._at(value.b, _AND)}", _AND
        assert isinstance(value, Choice)
        parts = self._at(value.cond, _AND), self._at(value.a, _AND), self._at(value.b, 1)
        return f"{parts[0]} ? {parts[1]} : {parts[2]}", _CONDITIONAL

    def _number(self, value: Num) -> Text:
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
        return f"(sl_{tag(dtype)}){literal}", _UNARY

    def _operation(self, value: Op) -> Text:
        lanes, dtype, op = value.type.lanes, value.type.dtype, value.op
        a, b = wide(value.a, lanes), wide(value.b, lanes)
        if value.index and op in ("//", "%"):
            name = "quotient" if op == "//" else "remainder"
            if lanes:
                self.vector("SL_QUOTIENT", value.type, name)
                name = f"{name}_{lanes}"
            return f"sl_{name}({self.text(a)}, {self.text(b)})", _ATOM
        if op in CALLED:
            return self._rounded(self._function(CALLED[op], value.type, (a, b)), value.type), _ATOM
        if op in _COMPARE and lanes:
            kind, name = tag(a.type.dtype), _COMPARE[op]
            self.type(a.type)
            self.make(f"SL_COMPARE({name}, {op}, {kind}, {lanes})")
            return f"sl_{name}_{kind}_{lanes}({self.text(a)}, {self.text(b)})", _ATOM
        level = _LEVELS[op]
        text = f"{self._at(a, level)} {op} {self._at(b, level + 1)}"
        if op in _COMPARE or dtype == "bool" or lanes or dtype in ("int64", "float32", "float64"):
            return (text, level) if dtype != "float16" else (self._rounded(text, value.type), _ATOM)
        if dtype == "float16":
            return self._rounded(text, value.type), _ATOM
        return f"(sl_{tag(dtype)})({text})", _UNARY

    def _rounded(self, text: str, type_: Type) -> str:
        """Return ``text`` rounded to half precision, if it is a float16."""
        if type_.dtype != "float16":
            return text
        if type_.lanes:
            self.vector("SL_HALF", type_)
        return f"sl_half{f'_{type_.lanes}' if type_.lanes else ''}({text})"

    def _negated(self, value: Neg) -> Text:
        a, dtype = self._at(value.a, _UNARY), value.type.dtype
        if dtype == "bool":
            return (f"{a} ^ 1", _LEVELS["^"]) if value.type.lanes else (f"!{a}", _UNARY)
        text = f"{value.op}{a}" if not a.startswith(value.op) else f"{value.op}({a})"
        return (text, _UNARY) if value.type.lanes else (f"(sl_{tag(dtype)})({text})", _UNARY)

    def _cast(self, value: Cast) -> Text:
        source, dtype, lanes = value.a.type.dtype, value.type.dtype, value.type.lanes
        if source == "float16" and dtype == "float32":
            return self.value(value.a)
        how = f"(sl_{tag(dtype)})"
        if dtype == "bool":
            how = "0 != "
        elif dtype == "float16":
            how = "sl_half" if source == "float32" else "sl_half_from_f64"
        elif source.startswith("float") and not dtype.startswith("float"):
            how = f"sl_{tag(dtype)}_of_float"
        if not lanes:
            return f"{how}({self.text(value.a)})", _UNARY if dtype != "bool" else _LEVELS["=="]
        kinds = tag(dtype), tag(source)
        self.type(value.a.type)
        self.type(value.type)
        self.make(f"SL_CAST({kinds[0]}, {kinds[1]}, {lanes}, {how})")
        return f"sl_{kinds[0]}_of_{kinds[1]}_{lanes}({self.text(value.a)})", _ATOM

    def _call(self, value: Fn) -> str:
        name = {"min": "minimum", "max": "maximum"}.get(value.name, value.name)
        found = self._function(name, value.type, value.args)
        return found if name in UNROUNDED else self._rounded(found, value.type)

    def _function(self, name: str, type_: Type, args: tuple[Value, ...]) -> str:
        """Return a call of a function of the helpers, lane by lane for vectors."""
        lanes, kind = type_.lanes, tag(args[-1].type.dtype)
        scalar = "f32" if kind == "f16" else kind
        if name.startswith("bits_"):
            name, scalar = "bits", tag(type_.dtype)
        listed = ", ".join(self.text(a) for a in args)
        if not lanes:
            return f"sl_{name}_{scalar}({listed})"
        if name == "select":
            self.vector("SL_SELECT", type_, kind)
        elif len(args) == 1:
            self.type(args[0].type)
            result = "b8" if name in _LOGICAL else scalar if name == "bits" else kind
            self.vector("SL_MAP1", type_, name, result, kind, scalar)
        else:
            self.vector(f"SL_MAP{len(args)}", type_, name, kind, scalar)
        return f"sl_{name}_{kind}_{lanes}({listed})"

    def _load(self, value: Load) -> str:
        if value.how == "load":
            text = f"{value.array.name}[{self.text(value.at)}]"
            return f"sl_half_get({text})" if value.array.dtype == "float16" else text
        args = [self._place(value)]
        if value.how == "vload_if":
            assert value.mask is not None and value.other is not None
            args = [self.text(value.mask), *args, self.text(value.other)]
        else:
            args += [] if value.step == 1 else [str(value.step)]
            args += [self.text(v) for v in (value.order, value.mask) if v is not None]
        return f"{self._memory(value.how, value)}({', '.join(args)})"

    def _place(self, value: Load) -> str:
        """Return the address of the first lane, or the array and the offsets of all."""
        if "gather" in value.how:
            return f"{value.array.name}, {self.text(value.at)}"
        return f"{value.array.name} + {self._at(value.at, 9)}"


def memory(dtype: str) -> str:
    """Return the C type of an element of an array."""
    return "uint16_t" if dtype == "float16" else f"sl_{tag(dtype)}"


def _note(note: str) -> str:
    return f"  // {note}" if note else ""


__all__ = ["RESERVED", "c_source", "helpers"]
