"""A machine nest as C (C11 with the vector extensions of GCC and Clang, and OpenMP)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from schedlang.codegen.c_definitions import includes, plain_types, used_definitions
from schedlang.codegen.c_externs import CExterns, c_externs
from schedlang.codegen.c_lanes import in_register
from schedlang.codegen.c_masks import first_lanes
from schedlang.codegen.c_streams import streams_together
from schedlang.codegen.c_sums import sums_together
from schedlang.codegen.c_values import TAGS, Size, ValuePrinter, first_mask, memory, short
from schedlang.codegen.listing import Line, Listing, join_parts, plain
from schedlang.compute.extern_op import ExternFunction
from schedlang.expr.dtypes import register_dtype
from schedlang.machine import nodes as m
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Body, Function, Num, Reg, Stmt
from schedlang.machine.walks import arrays, is_endless, operations, parts, values, walk, wide

INDENT = "    "
# vectors of sums that leave half of 16 registers to other values
MANY_SUMS = 8
# prefetches that are written out side by side
MOST_PREFETCHES = 64
# GCC writes out so many iterations
FEW_ITERATIONS = 8
# names that a C file cannot give to its variables
RESERVED = tuple(
    "asm auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "typeof union unsigned void volatile while linux unix i386 "
    # macros of the headers that are not all capitals and underscores
    "fpclassify isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan "
    "isnormal isunordered signbit math_errhandling stderr stdin stdout errno "
    # types that a file declares arrays and sizes with, and a macro of the helpers
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t size_t DLTensor "
    "DLDevice DLDataType schedlang_host SL".split()
)


def reserved_names(wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a C file cannot give, including the unsafe ones of ``wanted``.

    The helpers' names begin with ``sl_``, and the functions' with ``run_``. A name in capitals may
    be a macro of a header.
    """
    own = ("sl_", "run_", "_")
    unsafe = (n for n in wanted if n.lower().startswith(own) or _may_be_macro(n))
    return (*RESERVED, *unsafe)


def _may_be_macro(name: str) -> bool:
    return len(name) > 2 and name.upper() == name


def c_source(nest: MachineNest, head: str = "", fastmath: bool = False) -> Listing:
    """Return ``nest`` as a C file that begins with ``head``.

    Only the entry is visible outside of it. It has the C source of the functions that it calls.
    """
    externs = c_externs(nest, fastmath)
    texts, functions = c_functions(nest, externs)
    return c_file(head, texts, [*functions, *map(plain, externs.defined)])


def c_functions(
    nest: MachineNest, externs: CExterns | None = None
) -> tuple[list[str], list[list[Line]]]:
    """Return the texts that a C file of ``nest`` begins with, and the lines of each function.

    The functions of ``externs`` are called by their names, and others by their addresses.
    """
    printer = Printer()
    printer.externs = {} if externs is None else externs.names
    # no function of the C library begins like this
    printer.names = {f.name: f"run_{f.name}" for f in nest.functions[:-1]}
    functions = [printer.function(f, f is nest.entry) for f in nest.functions]
    texts = [line.text for function in functions for line in function]
    helpers = used_definitions(printer.helpers(), texts)
    shown = [[Line(plain_types(text), n) for text, n in function] for function in functions]
    declared = externs.declared if externs is not None else ""
    heads = includes([helpers, declared, *(line.text for lines in shown for line in lines)])
    return [text for text in (heads, helpers, declared) if text], shown


def c_file(head: str, texts: Sequence[str], functions: Sequence[Sequence[Line]]) -> Listing:
    """Return a C file of the comment ``head``, ``texts`` and ``functions``."""
    parts = join_parts([*map(plain, texts), *functions], 1)
    return Listing((*(plain(head.rstrip("\n") + "\n") if head else ()), *parts))


class Printer(ValuePrinter):
    """Printer of statements and functions; ``names`` are the names of the static functions in C.

    ``externs`` are the names of the user's functions in the file. ``uses`` counts what reads each
    register of a function, and ``factors`` the products of which it is a factor. ``read`` are the
    arrays of a function that something reads.
    """

    uses: Counter[str]
    read: set[str]
    factors: Counter[str]
    names: dict[str, str]
    externs: Mapping[ExternFunction, str]

    def function(self, function: Function, public: bool) -> list[Line]:
        apart = {
            a.name
            for s in function.body
            if isinstance(s, m.Hint) and s.name == "apart"
            for a in s.args
        }
        self.first = _first_lanes(function.body)
        self.sizes = _sizes(function.body, self.first)
        self.uses = _uses(function.body)
        self.factors = _factors(function.body)
        self.read = _read(function.body)
        listed = [self.declared(p, p.name in apart) for p in function.parameters]
        head = self.head(function, public, listed)
        inside = self.body(function.body, 1, set())
        return [Line(head, function.number), *inside, Line("}", function.number)]

    def head(self, function: Function, public: bool, listed: Sequence[str]) -> str:
        """Return the first line of a function, of the parameters ``listed``."""
        static = "" if public else "static "
        name = self.names.get(function.name, function.name)
        return f"{static}void {name}({', '.join(listed) or 'void'}) {{"

    def is_unread(self, name: str) -> bool:
        """Return whether a register is a mask that only loads and stores of first lanes take."""
        return name in self.first and not self.uses[name]

    def declared(self, parameter: Array | Reg, apart: bool = False) -> str:
        """Return the declaration of a parameter, an array that is ``apart`` from the others."""
        if isinstance(parameter, Reg):
            return f"{self.type(parameter.type)} {parameter.name}"
        return f"{memory(parameter.dtype)} *{'restrict ' * apart}{parameter.name}"

    def call(self, name: str, arguments: Sequence[str]) -> str:
        """Return the call of a function of the nest."""
        return f"{self.names[name]}({', '.join(arguments)})"

    def body(self, body: Body, depth: int, known: set[str]) -> list[Line]:
        inside = set(known)
        lines: list[Line] = []
        body = sums_together(streams_together(body))
        for position, stmt in enumerate(body):
            if isinstance(stmt, (m.Alloc, m.View)):
                if stmt.array.name in inside:
                    # a second array of that name hides the first one, in a block of its own
                    rest = self.body(body[position:], depth + 1, inside - {stmt.array.name})
                    begin, end = (Line(INDENT * depth + brace, stmt.number) for brace in "{}")
                    return [*lines, begin, *rest, end]
                inside.add(stmt.array.name)
            lines += self.statement(stmt, depth, inside)
        return lines

    def statement(self, stmt: Stmt, depth: int, known: set[str]) -> list[Line]:
        """Return the lines of a statement; ``known`` are the registers declared so far."""
        margin, number = INDENT * depth, stmt.number
        close = Line(margin + "}", number)
        if isinstance(stmt, m.For):
            name, step = stmt.index.name, f" += {stmt.step}" if stmt.step != 1 else "++"
            start, stop = self.text(stmt.start), self.text(stmt.stop)
            test = f"{name} < {stop}"
            if stmt.again is not None:
                test += f" && {self.text(stmt.again)}"
            head = f"for (sl_i64 {name} = {start}; {test}; {name}{step}) {{"
            if stmt.again is not None and is_endless(stmt):
                head = f"while ({self.text(stmt.again)}) {{"
            lines = [Line(margin + pragma, number) for pragma in self.pragmas(stmt)]
            inside = {*known, name}
            lines.append(Line(margin + head + _note(stmt.note), number))
            if _is_short(stmt) and self.has_many_sums(stmt):
                # GCC writes it out, and would hold what several iterations read in registers
                lines.append(Line(f"{margin}{INDENT}sl_read_again();", number))
            return [*lines, *self.body(stmt.body, depth + 1, inside), close]
        if isinstance(stmt, m.If):
            lines = []
            if stmt.result is not None:
                declared = f"{margin}{self.type(stmt.result.type)} {stmt.result.name};"
                lines.append(Line(declared, number))
                known.add(stmt.result.name)
            test = f"{margin}if ({self.text(stmt.cond)}) {{{_note(stmt.note)}"
            lines += [Line(test, number), *self.body(stmt.body, depth + 1, known)]
            if stmt.orelse:
                lines.append(Line(f"{margin}}} else {{", number))
                lines += self.body(stmt.orelse, depth + 1, known)
            return [*lines, close]
        if isinstance(stmt, m.Hint):
            fence = [Line(f"{margin}sl_{stmt.name}();", number)]
            return fence if stmt.name == "stream_fence" else []
        if isinstance(stmt, m.Let) and self.is_unread(stmt.reg.name):
            return []
        text = f"{margin}{self._line(stmt, known)};" + _note(getattr(stmt, "note", ""))
        return [Line(text, number)]

    def pragmas(self, loop: m.For) -> list[str]:
        """Return the pragmas of a loop: it starts threads, or GCC is to take iterations together.

        GCC leaves a loop of sums as it is. Four iterations at once have fewer instructions. Those
        of a loop that prefetches share most of the quotients of its indices.
        """
        if loop.parallel:
            return ["#pragma omp parallel for"]
        if 1 < (count := _prefetches(loop)) <= MOST_PREFETCHES:
            return [f"#pragma GCC unroll {count}"]
        is_unrolled = self.has_many_sums(loop) and not _is_short(loop)
        return ["#pragma GCC unroll 4"] if is_unrolled else []

    def has_many_sums(self, loop: m.For) -> bool:
        """Return whether the vectors that a loop updates leave few registers to other values."""
        updates = (s for s in loop.body if isinstance(s, m.Let) and s.reg.type.lanes)
        return len({s.reg for s in updates if s.reg in parts(s.value)}) >= MANY_SUMS

    def _line(self, stmt: Stmt, known: set[str]) -> str:
        if isinstance(stmt, m.Let):
            return self._let(stmt, known)
        if isinstance(stmt, m.Store):
            return self._store(stmt)
        if isinstance(stmt, m.Alloc):
            name, kind, count = stmt.array.name, memory(stmt.array.dtype), self.text(stmt.count)
            if stmt.place == "stack":
                size = self.sizes.get(name)
                count = str(size.rounded) if size else count
                # compilers warn of an array that statements only fill
                unread = "" if name in self.read else ", unused"
                return f"{kind} {name}[{count}] __attribute__((aligned(64){unread}))"
            return f"SL_HEAP {kind} *{name} = sl_allocated(({count}) * sizeof({kind}))"
        if isinstance(stmt, m.View):
            kind = memory(stmt.array.dtype)
            start = self.at(stmt.start, 9)
            return f"{kind} *{stmt.array.name} = ({kind} *)({stmt.whole.name} + {start})"
        if isinstance(stmt, m.Prefetch):
            return f"__builtin_prefetch({stmt.array.name} + {self.at(stmt.at, 9)})"
        if isinstance(stmt, m.Invoke):
            return self._invocation(stmt)
        assert isinstance(stmt, m.Run)
        given = [a.name if isinstance(a, Array) else self.text(a) for a in stmt.args]
        return self.call(stmt.function, given)

    def _invocation(self, stmt: m.Invoke) -> str:
        table, position = stmt.table.name, stmt.position
        places = [f"{a.name} + {self.at(at, 9)}" for a, at in zip(stmt.given, stmt.starts)]
        sizes = ", ".join(map(self.text, stmt.sizes)) or "0"
        function = self.externs.get(stmt.function)
        if function is None:
            kind = f"int (*)({'void *, ' * len(places)}const sl_i64 *)"
            function = f"(({kind}){table}[{position}])"
        else:
            # what is a byte in this file is a bool in the user's source
            bools = [a.dtype == "bool" for a in stmt.given]
            places = [f"(bool *)({p})" if b else p for p, b in zip(places, bools)]
        given = ", ".join([*places, f"(const sl_i64[]){{{sizes}}}"])
        call = f"{function}({given})"
        return f"if (!{table}[0] && {call}) {table}[0] = {position}"

    def _let(self, stmt: m.Let, known: set[str]) -> str:
        reg, value = stmt.reg, stmt.value
        new = reg.name not in known
        known.add(reg.name)
        if isinstance(value, m.Order):
            return f"static const int {reg.name}[] = {{{', '.join(map(str, value.lanes))}}}"
        if isinstance(value, m.Load) and value.how == "vload_columns":
            declared = f"{self.type(reg.type)} {reg.name}[{value.columns}]; " if new else ""
            call = self.columns_function(value)
            sizes = f"{value.step}, {value.columns}"
            return f"{declared}{call}({reg.name}, {self.place(value)}, {sizes})"
        declared = f"{self.type(reg.type)} " if new else ""
        return f"{declared}{reg.name} = {self.register_text(reg, value)}"

    def register_text(self, reg: Reg, value: m.Value) -> str:
        """Return the text of what a register gets; a factor of several products stays in it."""
        text, kind, lanes = self.text(value), TAGS[reg.type.dtype], reg.type.lanes
        is_vector = isinstance(value, m.Load) and value.how == "vload"
        if is_vector and self.factors[reg.name] > 1 and (definition := in_register(kind, lanes)):
            self.definitions[definition] = None
            return f"sl_in_register_{kind}_{lanes}({text})"
        return text

    def _store(self, stmt: m.Store) -> str:
        value, lanes, name = self.text(_stored(stmt)), stmt.value.type.lanes, stmt.array.name
        if not lanes:
            put = short(stmt.array.dtype)
            return f"{name}[{self.text(stmt.at)}] = {f'{put}_put({value})' if put else value}"
        scattered = "scatter" in stmt.how
        place = (
            f"{name}, {self.text(wide(stmt.at, lanes))}"
            if scattered
            else (f"{name} + {self.at(stmt.at, 9)}")
        )
        if first := self.first_function(stmt):
            return f"{first}({place}, {value})"
        args = [place, *([] if stmt.step == 1 else [str(stmt.step)]), value]
        if stmt.mask is not None:
            args.append(self.text(stmt.mask))
        return f"{self.memory_function(stmt.how, stmt)}({', '.join(args)})"


def _stored(stmt: m.Store) -> m.Value:
    """Return the value of a store, without a cast to the float16 that the store rounds to."""
    value, dtype = stmt.value, stmt.array.dtype
    if not isinstance(value, m.Cast) or dtype != "float16" or value.type.dtype != dtype:
        return value
    return value.a if register_dtype(value.a.type.dtype) == "float32" else value


def _iterations(loop: m.For) -> int | None:
    """Return how many iterations a loop has, if that is known."""
    start, stop = loop.start, loop.stop
    if not isinstance(start, Num) or not isinstance(stop, Num):
        return None
    return max(-(int(start.value - stop.value) // loop.step), 0)


def _is_short(loop: m.For) -> bool:
    """Return whether a loop has few iterations, as far as that is known."""
    count = _iterations(loop)
    return count is not None and count <= FEW_ITERATIONS


def _prefetches(loop: m.For) -> int:
    """Return the iterations of a loop that only divides and prefetches, or else 0."""
    kinds = {type(stmt) for stmt in loop.body}
    inside = (v for stmt in loop.body for root in values(stmt) for v in parts(root))
    divides = any(isinstance(v, m.Op) and v.op in ("//", "%") for v in inside)
    return (_iterations(loop) or 0) if m.Prefetch in kinds <= {m.Prefetch, m.Let} and divides else 0


def _first_lanes(body: Body) -> dict[str, int]:
    """Return the registers of a mask of a known number of first lanes, and that number."""
    lets = [stmt for stmt, _ in walk(body) if isinstance(stmt, m.Let)]
    times = Counter(stmt.reg.name for stmt in lets)
    counts = {s.reg.name: first_lanes(s.value) for s in lets if times[s.reg.name] == 1}
    return {name: count for name, count in counts.items() if count}


def _sizes(body: Body, first: Mapping[str, int]) -> dict[str, Size]:
    """Return the sizes of the arrays of the stack that are known.

    They are rounded up where a store of first lanes ends with the array.
    """
    inside = [stmt for stmt, _ in walk(body)]
    allocated = [s for s in inside if isinstance(s, m.Alloc)]
    times = Counter(s.array.name for s in allocated)
    sizes = {
        s.array.name: Size(int(s.count.value), int(s.count.value))
        for s in allocated
        if s.place == "stack" and isinstance(s.count, Num) and times[s.array.name] == 1
    }
    for stmt in inside:
        if not isinstance(stmt, m.Store) or stmt.array.name not in sizes:
            continue
        count, size = first.get(first_mask(stmt), 0), sizes[stmt.array.name]
        if count and isinstance(stmt.at, Num) and stmt.at.value + count == size.elements:
            end = int(stmt.at.value) + stmt.value.type.lanes
            sizes[stmt.array.name] = size._replace(rounded=max(size.rounded, end))
    return sizes


def _uses(body: Body) -> Counter[str]:
    """Return how many values read each register, without those that take known first lanes."""
    first = _first_lanes(body)
    uses: Counter[str] = Counter()
    for stmt, _ in walk(body):
        inside = [v for root in values(stmt) for v in parts(root)]
        uses.update(v.name for v in inside if isinstance(v, Reg))
        accesses = [v for v in (stmt, *inside) if isinstance(v, (m.Load, m.Store))]
        uses.subtract(name for a in accesses if (name := first_mask(a)) in first)
    return uses


def _read(body: Body) -> set[str]:
    """Return the arrays that values read, or that statements other than stores name."""
    names: set[str] = set()
    for stmt, _ in walk(body):
        inside = [v for root in values(stmt) for v in parts(root)]
        names |= {v.array.name for v in inside if isinstance(v, m.Load)}
        if not isinstance(stmt, m.Store):
            names |= {a.name for a in arrays(stmt)}
    return names


def _factors(body: Body) -> Counter[str]:
    """Return of how many products each register is a factor; a square counts once."""
    factors: Counter[str] = Counter()
    for stmt, _ in walk(body):
        products = (v for root in values(stmt) for v in operations(root))
        for value in products:
            if isinstance(value, m.Op) and value.op == "*":
                factors.update({v.name for v in (value.a, value.b) if isinstance(v, Reg)})
    return factors


def _note(note: str) -> str:
    return f"  // {note}" if note else ""


__all__ = ["INDENT", "Printer", "c_file", "c_functions", "c_source", "reserved_names"]
