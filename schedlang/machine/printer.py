"""The printer of machine nests: one statement a line, each register with its type."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.ir.printer import bytes_text
from schedlang.machine.nodes import (
    Alloc,
    Array,
    Barrier,
    Body,
    For,
    Function,
    Hint,
    If,
    Let,
    Prefetch,
    Reg,
    Run,
    Stmt,
    Store,
    Thread,
    Value,
)
from schedlang.machine.text import Printer

INDENT = "  "


def machine_text(functions: Sequence[Function]) -> str:
    """Return the functions of a machine nest as text."""
    return "\n\n".join("\n".join(_function(f)) for f in functions)


def _function(function: Function) -> list[str]:
    listed = ", ".join(_parameter(p) for p in function.parameters)
    return [f"{function.name}({listed}):", *_body(function.body, 1, {})]


def _parameter(parameter: Array | Reg) -> str:
    if isinstance(parameter, Array):
        return f"{parameter.name}: {parameter.dtype}[]"
    return f"{parameter.name}: {parameter.type}"


def _body(body: Body, depth: int, known: dict[str, str]) -> list[str]:
    lines: list[str] = []
    inside = dict(known)
    for stmt in body:
        lines += [INDENT * depth + line for line in _statement(stmt, inside)]
    return lines


def _statement(stmt: Stmt, known: dict[str, str]) -> list[str]:
    """Return the lines of a statement; ``known`` are the registers whose types were printed."""
    if isinstance(stmt, For):
        step = f" step {stmt.step}" if stmt.step != 1 else ""
        kind = "parallel" if stmt.parallel else "for"
        head = f"{kind} {stmt.index.name} in 0..{_operand(stmt)}{step}:{_comment(_notes(stmt))}"
        return [head, *_body(stmt.body, 1, known)]
    if isinstance(stmt, If):
        lines = [f"if {_show(stmt.cond)}:{_comment(stmt.note)}", *_body(stmt.body, 1, known)]
        return lines + (["else:", *_body(stmt.orelse, 1, known)] if stmt.orelse else [])
    return [_line(stmt, known)]


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
        size = bytes_text(stmt.array.buffer.bytes)
        count = _show(stmt.count)
        return f"{stmt.array.name}: {stmt.array.dtype}[{count}]   {stmt.place}{start}, {size}"
    if isinstance(stmt, Prefetch):
        return f"prefetch({stmt.array.name}, {_show(stmt.at)})"
    if isinstance(stmt, Hint):
        return f"{stmt.name}({', '.join(a.name for a in stmt.args)})"
    if isinstance(stmt, Run):
        given = (a.name if isinstance(a, Array) else _show(a) for a in stmt.args)
        return f"{stmt.function}({', '.join(given)})"
    if isinstance(stmt, Thread):
        return f"{stmt.reg.name}: {stmt.reg.type} = {stmt.tag}{_comment(stmt.note)}"
    assert isinstance(stmt, Barrier)
    return "barrier"


def _show(value: Value) -> str:
    return Printer()(value)


def _operand(loop: For) -> str:
    """Return the end of a loop's range, in parentheses unless it is one name or number."""
    text = _show(loop.stop)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _notes(loop: For) -> str:
    """Return the note of a loop, and what the compiler does with it."""
    rolled = f"rolled, {loop.rolled} vectors an iteration" if loop.rolled else ""
    notes = (loop.note, rolled, "unrolled" if loop.unrolled else "")
    return ", ".join(note for note in notes if note)


def _comment(note: str) -> str:
    return f"   # {note}" if note else ""


__all__ = ["machine_text"]
