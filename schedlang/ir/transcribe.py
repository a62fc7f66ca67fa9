"""Transcription of a loop nest to a Python program over scalars, for the interpreter.

Every operation is one assignment, so that expressions may be arbitrarily deep. Loops nested
deeper than Python allows move to a function of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from schedlang.errors import VerifyError
from schedlang.expr.bfloat import convert_values, round_to_bfloat16
from schedlang.expr.evaluation_order import evaluation_order
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary, Var
from schedlang.index.linear import to_expr
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Copies,
    Copy,
    Fetch,
    For,
    If,
    Kept,
    Lanes,
    Load,
    Masked,
    Stmt,
    Store,
    Strips,
    held_statements,
)
from schedlang.ir.scalars import caller, caster, powers
from schedlang.ir.trimmed import trim_loop

DEEPEST = 12
UNORDERED = ("parallel", "vectorize", "vthread", "thread")
Named = Union[Buffer, Var, Axis]


@dataclass(frozen=True)
class Transcript:
    """A transcribed nest: ``source`` defines ``run()``, ``names`` maps arguments to names."""

    source: str
    names: dict[Named, str]
    constants: dict[str, Any]


@dataclass(eq=False)
class _Function:
    """A function under construction; ``params`` are the names in scope where it is called."""

    name: str
    params: tuple[str, ...]
    lines: list[str] = field(default_factory=list)
    indent: int = 1


class _Writer:
    """The program under construction: its functions, names and constants."""

    def __init__(self) -> None:
        self.names: dict[Named, str] = {}
        self.constants: dict[str, Any] = {}
        self.numbers: dict[tuple[Any, ...], str] = {}
        self.finished: list[_Function] = []
        self.count = 0
        self.current = _Function("run", ())

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def line(self, text: str) -> None:
        self.current.lines.append(" " * self.current.indent + text)

    def constant(self, value: Any, key: tuple[Any, ...]) -> str:
        name = self.numbers.get(key)
        if name is None:
            name = self.numbers[key] = self.fresh("c")
            self.constants[name] = value
        return name

    def value(self, root: Expr, given: dict[Expr, str] | None = None) -> str:
        """Emit the assignments that compute ``root``; return its name or its literal."""
        root, steps = evaluation_order(root)
        named: dict[int, str] = {}
        chosen: list[str] = []
        for what, node in steps:
            if what == "make":
                parts = [self._known(c, named, given) for c in node.children]
                named[id(node)] = name = self.fresh("t")
                self.line(f"{name} = {self._operation(node, parts)}")
            elif what == "if":
                chosen.append(self.fresh("t"))
                self.line(f"if {self._known(node.cond, named, given)}:")
                self.current.indent += 1
            elif what == "else":
                self.line(f"{chosen[-1]} = {self._known(node.a, named, given)}")
                self.current.indent -= 1
                self.line("else:")
                self.current.indent += 1
            else:
                self.line(f"{chosen[-1]} = {self._known(node.b, named, given)}")
                self.current.indent -= 1
                named[id(node)] = chosen.pop()
        return self._known(root, named, given)

    def _known(self, node: Expr, named: Mapping[int, str], given: dict[Expr, str] | None) -> str:
        if isinstance(node, Const):
            return self._number(node)
        if isinstance(node, (Axis, Var)):
            if given is not None and node in given:
                return given[node]
            if node not in self.names:
                raise VerifyError(f"{node.name} is used outside its loop")
            return self.names[node]
        return named[id(node)]

    def _number(self, node: Const) -> str:
        if node.dtype == "bool":
            return str(bool(node.value))
        if node.weak and node.dtype == "int64":
            return f"({node.value})" if node.value < 0 else str(node.value)
        value = convert_values(node.value, node.dtype)
        return self.constant(value, (node.dtype, value.tobytes()))

    def _operation(self, node: Expr, parts: Sequence[str]) -> str:
        code = self._unrounded(node, parts)
        if node.dtype != "bfloat16" or not isinstance(node, (Binary, Call)):
            return code
        return f"{self.constant(round_to_bfloat16, ('rounded',))}({code})"

    def _unrounded(self, node: Expr, parts: Sequence[str]) -> str:
        if isinstance(node, Binary):
            return self._binary(node, *parts)
        if isinstance(node, Unary):
            return f"{'not' if node.dtype == 'bool' else node.op} {parts[0]}"
        if isinstance(node, Cast):
            return f"{self.constant(caster(node.dtype), ('cast', node.dtype))}({parts[0]})"
        if isinstance(node, Call):
            return f"{self.constant(caller(node.fn), ('call', node.fn))}({', '.join(parts)})"
        if isinstance(node, Select):
            return f"{parts[1]} if {parts[0]} else {parts[2]}"
        if isinstance(node, Load):
            return f"load{len(parts)}({', '.join((self.buffer(node.buffer), *parts))})"
        raise VerifyError(f"{type(node).__name__} {node} has no meaning in a loop nest")

    def _binary(self, node: Binary, a: str, b: str) -> str:
        if node.op == "**":
            return f"{self.constant(powers(node.dtype), ('power', node.dtype))}({a}, {b})"
        if node.weak and node.op in ("//", "%") and not isinstance(node.b, Const):
            return f"{'index_div' if node.op == '//' else 'index_mod'}({a}, {b})"
        if node.dtype == "bool" and node.op in ("+", "*"):
            return f"{a} {'|' if node.op == '+' else '&'} {b}"
        return f"{a} {node.op} {b}"

    def buffer(self, buffer: Buffer) -> str:
        if buffer not in self.names:
            raise VerifyError(f"{buffer.name} is used where it has no storage")
        return self.names[buffer]

    def store(self, store: Store) -> None:
        index = [self.value(i) for i in store.indices]
        targets = [", ".join((self.buffer(b), *index)) for b in store.buffers]
        values = [self.value(v) for v in store.values]
        if store.reducer is not None:
            old = [self.fresh("t") for _ in targets]
            for name, target in zip(old, targets):
                self.line(f"{name} = load{len(index)}({target})")
            leaves: dict[Expr, str] = dict(
                zip((*store.reducer.lhs, *store.reducer.rhs), (*old, *values))
            )
            values = [self.value(r, leaves) for r in store.reducer.result]
        how = "final" if store.reducer is None else "store"
        for target, value in zip(targets, values):
            self.line(f"{how}{len(index)}({target}, {value})")

    def program(self) -> str:
        self.finished.append(self.current)
        text = []
        for function in self.finished:
            text.append(f"def {function.name}({', '.join(function.params)}):")
            text += [*function.lines, " return"]
        return "\n".join(text) + "\n"


def transcribe(nest: Nest) -> Transcript:
    """Return the Python program of ``nest``."""
    writer = _Writer()
    arguments: dict[Named, str] = {a: writer.fresh("g") for a in nest.args}
    arguments.update((v, writer.fresh("g")) for v in nest.sizes if v not in arguments)
    writer.names.update(arguments)
    stack: list[Any] = [nest.body]
    while stack:
        item = stack.pop()
        if callable(item):
            item()
        else:
            _write(writer, item, stack)
    return Transcript(writer.program(), arguments, writer.constants)


def _write(w: _Writer, stmt: Stmt, stack: list[Any]) -> None:
    if isinstance(stmt, Block):
        inside = [s.buffer for s in stmt.stmts if isinstance(s, Alloc)]
        stack.append(lambda: [w.names.pop(n, None) for n in inside] and None)
        stack.extend(reversed(stmt.stmts))
    elif isinstance(stmt, For):
        _loop(w, stmt, stack)
    elif isinstance(stmt, (Lanes, Strips, Copy)):
        _values(w, stmt, stack)
    elif isinstance(stmt, (Copies, Kept)):
        stack.extend(reversed(held_statements(stmt)))
    elif isinstance(stmt, (If, Masked)):
        w.line(f"if {w.value(stmt.cond)}:")
        _indented(w, stmt.body, stack)
    elif isinstance(stmt, Store):
        w.store(stmt)
    elif isinstance(stmt, Alloc):
        shape = [str(e) if isinstance(e, int) else w.value(e) for e in stmt.buffer.shape]
        w.names[stmt.buffer] = name = w.fresh("b")
        buffer = w.constant(stmt.buffer, ("buffer", id(stmt.buffer)))
        w.line(f"{name} = fresh({buffer}, ({''.join(n + ', ' for n in shape)}))")
    elif isinstance(stmt, Extern):
        boxes = [
            f"({w.buffer(b)}, {_tuple(w, starts)}, {_tuple(w, extents)})"
            for b, starts, extents in stmt.boxes
        ]
        call = w.constant(stmt, ("extern", id(stmt)))
        w.line(f"call_extern({call}, ({', '.join(boxes)},))")
    elif isinstance(stmt, Fetch):
        operands = ", ".join((w.buffer(stmt.buffer), *(w.value(i) for i in stmt.indices)))
        w.line(f"touch{len(stmt.indices)}({operands})")


def _tuple(w: _Writer, values: Sequence[Expr]) -> str:
    return f"({''.join(w.value(v) + ', ' for v in values)})"


def _indented(w: _Writer, body: Block, stack: list[Any]) -> None:
    w.line(" pass")
    w.current.indent += 1

    def leave() -> None:
        w.current.indent -= 1

    stack += [leave, body]


def _values(w: _Writer, stmt: Lanes | Strips | Copy, stack: list[Any]) -> None:
    """Write the statements inside of ``stmt`` for each value of its axis."""
    axis, name = stmt.start if isinstance(stmt, Strips) else stmt.axis, w.fresh("i")
    if isinstance(stmt, Strips):
        w.line(f"for {name} in range(0, {stmt.stop}, {stmt.step}):")
    elif isinstance(stmt, Copy):
        w.line(f"for {name} in ({stmt.at},):")
    else:
        lane, start = w.fresh("i"), w.value(to_expr(stmt.start))
        w.line(f"for {lane} in ordered({stmt.count}):")
        w.line(f" {name} = {start} + {lane}")
    w.names[axis] = name
    stack.append(lambda: w.names.pop(axis) and None)
    _indented(w, stmt.body, stack)


def _loop(w: _Writer, loop: For, stack: list[Any]) -> None:
    name = w.fresh("i")
    trim = trim_loop(loop)
    ends = [
        str(e) if isinstance(e, int) else w.value(e)
        for e in (*((trim.start,) if trim.tests else ()), trim.stop)
    ]
    order = "ordered" if loop.kind in UNORDERED else "range"
    w.line(f"for {name} in {order}({', '.join(ends)}):")
    w.current.indent += 1
    if loop.again is not None:
        w.line(f"if not {w.value(loop.again)}: break")
    w.line("ticks[0] += 1")
    shadowed = w.names.get(loop.axis)
    w.names[loop.axis] = name
    caller_ = w.current
    deep = caller_.indent > DEEPEST

    def leave() -> None:
        if deep:
            w.finished.append(w.current)
            w.current = caller_
        caller_.indent -= 1
        w.names.pop(loop.axis)
        if shadowed is not None:
            w.names[loop.axis] = shadowed

    if deep:
        scope = tuple(n for n in w.names.values() if n[0] != "g")
        inner = _Function(w.fresh("f"), scope)
        w.line(f"{inner.name}({', '.join(scope)})")
        w.current = inner
    stack += [leave, trim.body]
