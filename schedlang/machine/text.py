"""Values as text: the Python of the emitted file, in the dialect of its intrinsics."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from schedlang.expr import dtypes
from schedlang.expr.operators import OPERATORS
from schedlang.expr.printer import ATOM, LOWEST, PRECEDENCE, UNARY, binary_text, number, paren
from schedlang.instructions.c_forms import CFunction, CSnippet
from schedlang.instructions.emission import in_order
from schedlang.machine.nodes import (
    INDEX,
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
from schedlang.machine.walks import operations

# operators that numba defines otherwise than NumPy, and operators that it assumes not to overflow
CALLED = {o.symbol: o.called for o in OPERATORS.values() if o.called}
WRAPPING = {o.symbol: o.wrapping for o in OPERATORS.values() if o.wrapping}
# the integer dtypes whose scalars numba computes in a wider one
_NARROW = frozenset(d for d in dtypes.DTYPES if dtypes.is_integer(d) and dtypes.itemsize(d) < 8)
# the functions that round to short floats
SHORT = {"float16": "half", "bfloat16": "bfloat"}
_TIGHT = ("*", "//", "%")
_NOT, _AND = 2, 2
_CONDITIONAL = LOWEST + 1

# the characters and the operations of a short value
_SHORT_TEXT = 16
_SHORT_OPERATIONS = 6


class Text(NamedTuple):
    """The text of a value, its precedence, and how deeply its operations are nested."""

    text: str
    level: int = ATOM
    depth: int = 0

    def at(self, least: int) -> str:
        return paren(self.text, self.level, least)


# the text of each value by its identity, with the value, so that the identity stays its own, and
# the names of the dialect in the text
Texts = dict[int, tuple[Value, Text, Set[str]]]
_NO_NAMES: Set[str] = frozenset()


def is_short(value: Value, printer: Printer) -> bool:
    """Return whether the text of an offset is so short that a register for it saves nothing."""
    if len(operations(value)) > _SHORT_OPERATIONS:
        return False
    return len(printer.text(value).text) < _SHORT_TEXT


class Printer:
    """Printer of values; ``used`` collects the names of the dialect that their text contains.

    ``known`` are texts that another printer made, which this one adds to.
    """

    def __init__(self, known: Texts | None = None) -> None:
        self.used: set[str] = set()
        self.known: Texts = {} if known is None else known

    def use(self, name: str) -> str:
        self.used.add(name)
        return name

    def __call__(self, value: Value) -> str:
        return self.text(value).text

    def text(self, value: Value) -> Text:
        """Return the text of ``value``."""
        entry = self.known.get(id(value))
        if entry is None:
            if isinstance(value, Reg):
                result = Text(value.name)
                self.known[id(value)] = value, result, _NO_NAMES
                return result
            outer, self.used = self.used, set()
            result = self._text(value)
            entry = self.known[id(value)] = value, result, self.used or _NO_NAMES
            self.used = outer
        if entry[2]:
            self.used |= entry[2]
        return entry[1]

    def _text(self, value: Value) -> Text:
        if isinstance(value, Num):
            return self._number(value)
        if isinstance(value, Op):
            return self._binary(value)
        if isinstance(value, Load):
            return self._load(value)
        if isinstance(value, Fn):
            args = [self.text(a) for a in value.args]
            name = value.name if value.index else self.use(value.name)
            text = f"{name}({', '.join(a.text for a in args)})"
            return Text(text, ATOM, 1 + max((a.depth for a in args), default=0))
        if isinstance(value, Cast):
            return self._cast(value)
        if isinstance(value, Neg):
            return self._negated(value)
        if isinstance(value, Splat):
            inner = self.text(value.a)
            text = f"{self.use('broadcast')}({inner.text}, {value.type.lanes})"
            return Text(text, ATOM, inner.depth)
        if isinstance(value, Iota):
            return Text(f"{self.use('iota')}({value.type.lanes})")
        if isinstance(value, Column):
            return Text(self._value(f"{value.columns.name}[{value.at}]", value.type.dtype))
        if isinstance(value, Order):
            return Text(str(value.lanes))
        if isinstance(value, Instructed):
            return self._instructed(value)
        if isinstance(value, Both):
            a, b = self.text(value.a), self.text(value.b)
            return Text(f"{a.at(_AND)} and {b.at(_AND)}", _AND, 1 + max(a.depth, b.depth))
        assert isinstance(value, Choice)
        cond, a, b = (self.text(v) for v in (value.cond, value.a, value.b))
        text = f"{a.at(_AND)} if {cond.at(_AND)} else {b.at(_CONDITIONAL)}"
        return Text(text, _CONDITIONAL, 1 + max(cond.depth, a.depth, b.depth))

    def _instructed(self, value: Instructed) -> Text:
        operands, dtype = in_order(value.emission, value.args), value.type.dtype
        args = ", ".join(map(self, operands))
        if isinstance(value.emission, (CFunction, CSnippet)):
            # it has no text in Python, and only machine nests for C have it
            return Text(f"{value.instruction.name}({args})", ATOM, 2)
        call = value.emission.call(value.instruction)
        self.used.update((call.name, *call.calls))
        text = call.text(args, len(operands))
        # LLVM's integers have no sign, and numba computes scalars in a function as int64
        converts = not value.type.lanes if call.definition else dtype.startswith("u")
        if dtypes.is_integer(dtype) and converts:
            text = self.typed(dtype, text)
        return Text(text, ATOM, 2)

    def typed(self, dtype: str, inner: str) -> str:
        """Return ``inner`` converted to ``dtype``."""
        if dtype in SHORT:
            return f"{self.use(SHORT[dtype])}({inner})"
        return f"{self.use('boolean' if dtype == 'bool' else dtype)}({inner})"

    def store(self, stmt: Store) -> str:
        """Return the call that stores."""
        name = self.use(stmt.how + ("_half" if stmt.array.dtype == "float16" else ""))
        args = [stmt.array.name, self(stmt.at)]
        if stmt.step != 1:
            args.append(str(stmt.step))
        args.append(self._bits(stmt.value, stmt.array.dtype))
        if stmt.mask is not None:
            args.append(self(stmt.mask))
        return f"{name}({', '.join(args)})"

    def _number(self, value: Num) -> Text:
        dtype = value.type.dtype
        if value.type is INDEX and abs(value.value) < 2**63:
            literal = str(value.value)
            return Text(literal, UNARY if literal[0] == "-" else ATOM)
        literal = number(value.value)
        word = literal.lstrip("-")
        if word in ("inf", "nan"):
            self.use(word)
        if dtype == "bool" or (dtype == "int64" and abs(value.value) < 2**63):
            return Text(literal, UNARY if literal.startswith("-") else ATOM)
        return Text(self.typed(dtypes.register_dtype(dtype), literal))

    def _binary(self, value: Op) -> Text:
        a, b, op, type_ = self.text(value.a), self.text(value.b), value.op, value.type
        depth = 1 + max(a.depth, b.depth)
        pair = (a.text, a.level), (b.text, b.level)
        if value.index:
            text, level = binary_text(op, *pair, tight=op in _TIGHT)
            return Text(text, level, depth)
        dtype, lanes = type_
        called = CALLED.get(op)
        if called is None and dtype == "int64" and not lanes:
            called = WRAPPING.get(op)
        if called:
            text, level = f"{self.use(called)}({a.text}, {b.text})", ATOM
        else:
            text, level = binary_text(op, *pair)
        if not lanes and dtype in _NARROW:
            return Text(self.typed(dtype, text), ATOM, depth)
        return Text(text, level, depth)

    def _negated(self, value: Neg) -> Text:
        a, dtype, lanes = self.text(value.a), value.type.dtype, value.type.lanes
        if value.op == "~" and dtype == "bool" and not lanes:
            return Text(f"not {a.at(PRECEDENCE['<'])}", _NOT, a.depth + 1)
        text = f"{value.op}{a.at(UNARY)}"
        if not lanes and (dtype in _NARROW or dtype == "uint64"):
            return Text(self.typed(dtype, text), ATOM, a.depth + 1)
        return Text(text, UNARY, a.depth + 1)

    def _cast(self, value: Cast) -> Text:
        a, source, dtype = self.text(value.a), value.a.type.dtype, value.type.dtype
        if source in SHORT and dtype == "float32":
            # short floats are held as float32
            return a
        if dtype in SHORT:
            exact = dtypes.register_dtype(source) == "float32"
            name = self.use(SHORT[dtype] if exact else f"{SHORT[dtype]}_from")
            return Text(f"{name}({a.text})", ATOM, a.depth)
        return Text(self.typed(dtype, a.text), ATOM, a.depth + 1)

    def _load(self, value: Load) -> Text:
        half = value.array.dtype == "float16" and not value.raw
        name = self.use(value.how + "_half" * half)
        args = [value.array.name, self(value.at)]
        if value.how == "vload_if":
            assert value.mask is not None and value.other is not None
            args = [self(value.mask), *args, self._bits(value.other, value.array.dtype)]
        elif value.how == "vload_columns":
            args += [str(n) for n in (value.step, value.columns, value.type.lanes)]
        else:
            if value.step != 1:
                args.append(str(value.step))
            if value.order is not None:
                args.append(self(value.order))
            elif value.mask is not None:
                args.append(self(value.mask))
            elif value.type.lanes and value.how != "vgather":
                args.append(str(value.type.lanes))
        depth = 2 if "gather" in value.how else 1
        text = f"{name}({', '.join(args)})"
        # a tuple of vectors is converted where it is used
        several = value.how == "vload_columns"
        plain = several or value.raw
        return Text(text if plain else self._value(text, value.array.dtype), ATOM, depth)

    def _value(self, bits: str, dtype: str) -> str:
        """Return the text of a loaded value; a bfloat16 is loaded as its bits."""
        return f"{self.use('bfloat_value')}({bits})" if dtype == "bfloat16" else bits

    def _bits(self, value: Value, dtype: str) -> str:
        """Return the text of a value to store; a bfloat16 is stored as its bits."""
        text = self(value)
        return f"{self.use('bfloat_bits')}({text})" if dtype == "bfloat16" else text
