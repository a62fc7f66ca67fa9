"""The printer of machine nests: one statement a line, each register with its type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Optional

from schedlang.machine.nodes import (
    Alloc,
    Array,
    Barrier,
    Body,
    For,
    Function,
    Hint,
    If,
    Invoke,
    Let,
    Prefetch,
    Reg,
    Run,
    SharedCopy,
    Stmt,
    Store,
    Thread,
    Value,
    View,
)
from schedlang.machine.text import Printer
from schedlang.machine.walks import is_endless
from schedlang.markup.sizes import bytes_text

INDENT = "  "


class Line(NamedTuple):
    """A line of a printed nest, and the statement that it begins; ``None`` at other lines."""

    text: str
    stmt: Optional[Stmt] = None


def machine_text(functions: Sequence[Function]) -> str:
    """Return the functions of a machine nest as text."""
    return "\n".join(line.text for line in machine_lines(functions))


def machine_lines(functions: Sequence[Function]) -> list[Line]:
    """Return the lines of :func:`machine_text`, each with the statement that begins there."""
    lines: list[Line] = []
    for function in functions:
        lines += [Line("")] if lines else []
        listed = ", ".join(_parameter(p) for p in function.parameters)
        lines += [Line(f"{function.name}({listed}):"), *_body(function.body, 1, {})]
    return lines


def _parameter(parameter: Array | Reg) -> str:
    if isinstance(parameter, Array):
        return f"{parameter.name}: {parameter.dtype}[]"
    return f"{parameter.name}: {parameter.type}"


def _body(body: Body, depth: int, known: dict[str, str]) -> list[Line]:
    lines: list[Line] = []
    inside = dict(known)
    for stmt in body:
        lines += [Line(INDENT * depth + line, of) for line, of in _statement(stmt, inside)]
    return lines


def _statement(stmt: Stmt, known: dict[str, str]) -> list[Line]:
    """Return the lines of a statement; ``known`` are the registers whose types were printed."""
    if isinstance(stmt, For):
        step = f" step {stmt.step}" if stmt.step != 1 else ""
        kind = "parallel" if stmt.parallel else "for"
        ends = f"{_operand(stmt.start)}..{_operand(stmt.stop)}"
        again = "" if stmt.again is None else f"while {_show(stmt.again)}"
        head = f"{kind} {stmt.index.name} in {ends}{step}{again and ' '}{again}"
        head = f"{again if is_endless(stmt) else head}:{_comment(_notes(stmt))}"
        return [Line(head, stmt), *_body(stmt.body, 1, known)]
    if isinstance(stmt, If):
        head = f"if {_show(stmt.cond)}:{_comment(stmt.note)}"
        lines = [Line(head, stmt), *_body(stmt.body, 1, known)]
        return lines + ([Line("else:"), *_body(stmt.orelse, 1, known)] if stmt.orelse else [])
    return [Line(_line(stmt, known), stmt)]


def _line(stmt: Stmt, known: dict[str, str]) -> str:
    if isinstance(stmt, Let):
        reg = stmt.reg
        first = known.get(reg.name) != str(reg.type)
        known[reg.name] = str(reg.type)
        declared = f"{reg.name}: {reg.type}" if first else reg.name
        return f"{declared} = {_show(stmt.value)}{_comment(stmt.note)}"
    if isinstance(stmt, Store):
        return Printer().store(stmt)
    if isinstance(stmt, Alloc):
        start = "" if stmt.start is None else f" from element {stmt.start} on"
        size = _bytes_text(stmt.array)
        count = _show(stmt.count)
        return f"{stmt.array.name}: {stmt.array.dtype}[{count}]   {stmt.place}{start}, {size}"
    if isinstance(stmt, View):
        size = _bytes_text(stmt.array)
        place = f"from byte {_show(stmt.start)} of {stmt.whole.name} on"
        return f"{stmt.array.name}: {stmt.array.dtype}[{_show(stmt.count)}]   {place}, {size}"
    if isinstance(stmt, Prefetch):
        return f"prefetch({stmt.array.name}, {_show(stmt.at)})"
    if isinstance(stmt, Hint):
        return f"{stmt.name}({', '.join(a.name for a in stmt.args)})"
    if isinstance(stmt, Invoke):
        return f"invoke {stmt.function.name}({', '.join(_boxes(stmt))})"
    if isinstance(stmt, Run):
        arguments = (a.name if isinstance(a, Array) else _show(a) for a in stmt.args)
        return f"{stmt.function}({', '.join(arguments)}){_comment(stmt.note)}"
    if isinstance(stmt, Thread):
        return f"{stmt.reg.name}: {stmt.reg.type} = {stmt.tag}{_comment(stmt.note)}"
    if isinstance(stmt, SharedCopy):
        source = f"{stmt.source.name}, {_show(stmt.start)}"
        return f"{stmt.how}({stmt.array.name}, {_show(stmt.at)}, {source}, {stmt.count})"
    assert isinstance(stmt, Barrier)
    return "barrier" if stmt.pending is None else f"wait_copies({stmt.pending}), barrier"


def _bytes_text(array: Array) -> str:
    # a CPU has one copy, and the copies of a GPU are a dimension by now
    return bytes_text(replace(array.buffer, copies=1).bytes)


def _boxes(stmt: Invoke) -> list[str]:
    """Return each box of a call, with its first element, its extents and its strides."""
    boxes, sizes = list[str](), [*map(_show, stmt.sizes)]
    for array, first, rank in zip(stmt.given, stmt.starts, stmt.ranks):
        own, sizes = sizes[: 2 * rank], sizes[2 * rank :]
        shape = f"{', '.join(own[:rank])} by {', '.join(own[rank:])}" if rank else ""
        boxes.append(f"{array.name} at {_show(first)}: [{shape}]")
    return boxes


def _show(value: Value) -> str:
    return Printer()(value)


def _operand(end: Value) -> str:
    """Return an end of a loop's range, in parentheses unless it is one name or number."""
    text = _show(end)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _notes(loop: For) -> str:
    """Return the note of a loop, and what the compiler does with it."""
    several = f", {loop.rolled} vectors an iteration" if loop.rolled > 1 else ""
    rolled = f"rolled{several}" if loop.rolled else ""
    notes = (loop.note, rolled, "unrolled" if loop.unrolled else "")
    return ", ".join(note for note in notes if note)


def _comment(note: str) -> str:
    return f"   # {note}" if note else ""
