"""The printer of loop nests as HTML: loops fold, names light up, and the margin has counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from schedlang.ir.nodes import Alloc, Around, Block, Buffer, For, Stmt, Store, held, walk
from schedlang.ir.printer import (
    argument_text,
    bytes_text,
    expr_text,
    header,
    printed_names,
    statement_lines,
)
from schedlang.markup.code import marked
from schedlang.markup.text import escape

if TYPE_CHECKING:
    from schedlang.ir.nest import Nest

KEYWORDS = (
    "for", "in", "if", "else", "parallel", "vectorize", "unroll", "vthread", "barrier", "prefetch",
    "select", "and", "or", "not", "lanes", "mask", "copies", "keep", "registers",
)  # fmt: skip


def nest_html(nest: Nest) -> str:
    """Return ``nest`` as HTML, without the style that shows it."""
    titles, taken = titles_of(nest), printed_names(nest)
    shown = _Shown(nest, titles, taken)
    body = shown.statement(nest.body, ())
    return f'<div class="head">{marked(header(nest), titles)}</div><div class="nest">{body}</div>'


def titles_of(nest: Nest) -> dict[str, str]:
    """Return what each name of a nest is, in a line."""
    found: dict[str, str] = {}
    for arg in nest.args:
        role = "an output" if arg in nest.outputs else "an input"
        found[arg.name] = f"{argument_text(arg)}, {role}"
        if isinstance(arg, Buffer):
            found[arg.name] += f", {bytes_text(arg.bytes)}"
    for size in nest.sizes:
        found[size.name] = f"{size.name}: a size"
    for stmt, _ in walk(nest.body):
        if isinstance(stmt, Alloc):
            buffer = stmt.buffer
            text = f"{argument_text(buffer)}, {buffer.scope}, {bytes_text(buffer.bytes)}"
            found.setdefault(buffer.name, text)
        elif isinstance(stmt, For):
            name = nest.names.get(stmt.axis, stmt.axis.name)
            kind = stmt.tag or f"{stmt.kind} loop"
            text = f"{name}: {kind} of stage {stmt.stage}, {_extent(stmt, nest)} iterations"
            found.setdefault(name, text)
    return found


def _extent(loop: For, nest: Nest) -> str:
    return expr_text(loop.extent, nest.names)


@dataclass(frozen=True)
class _Shown:
    """The printer of the statements of one nest."""

    nest: Nest
    titles: Mapping[str, str]
    taken: frozenset[str]

    def statement(self, stmt: Stmt, loops: tuple[For, ...]) -> str:
        if isinstance(stmt, Block):
            return "".join(self.statement(inner, loops) for inner in stmt.stmts)
        lines = statement_lines(stmt, self.nest.names, self.taken)
        code = "\n".join(marked(line, self.titles, KEYWORDS) for line in lines)
        around = (*loops, stmt) if isinstance(stmt, For) else loops
        row = f'<span class="row"><span class="code">{code}</span>{_margin(stmt, around)}</span>'
        if not isinstance(stmt, Around):
            return f'<div class="leaf">{row}</div>'
        kind = stmt.kind if isinstance(stmt, For) else "guard"
        inside = "".join(self.statement(inner, around) for inner in held(stmt))
        return f'<details open class="{kind}"><summary>{row}</summary>{inside}</details>'


def _margin(stmt: Stmt, loops: tuple[For, ...]) -> str:
    """Return how often a statement runs at most, as HTML; nothing if that depends on sizes."""
    if not isinstance(stmt, (For, Store)):
        return ""
    extents = [loop.extent for loop in loops]
    known = [extent for extent in extents if isinstance(extent, int)]
    if len(known) < len(extents) or not known:
        return ""
    times = f"{prod(known):,}"
    what = "The body" if isinstance(stmt, For) else "The statement"
    return f'<i title="{what} runs {times} times, without guards">{escape(times)}×</i>'


__all__ = ["nest_html", "titles_of"]
