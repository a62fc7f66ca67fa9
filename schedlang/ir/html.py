"""The printer of loop nests as HTML: loops fold, names light up, and the margin has counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple, Union

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.index.enumeration import count, spans_of
from schedlang.ir.nodes import (
    Alloc,
    Around,
    Buffer,
    Copy,
    For,
    If,
    Lanes,
    Stmt,
    Store,
    Strips,
)
from schedlang.ir.printer import (
    INDENT,
    argument_text,
    expr_text,
    header,
    printed_names,
    statement_lines,
)
from schedlang.ir.trimmed import printed_statements, trim_loop
from schedlang.markup.code import mark_code
from schedlang.markup.name_table import Name, NameTable
from schedlang.markup.sizes import bytes_text
from schedlang.markup.text import escape

if TYPE_CHECKING:
    from schedlang.ir.nest import Nest

KEYWORDS = (
    "for", "in", "if", "else", "parallel", "vectorize", "unroll", "vthread", "barrier", "prefetch",
    "select", "and", "or", "not", "lanes", "mask", "copies", "keep", "registers", "blockIdx.x",
    "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
)  # fmt: skip
Thing = Union[Axis, Buffer, Var]


class Named(NamedTuple):
    """The meaning of a name of the nest, and its name on the page."""

    thing: Thing
    name: Name


Scope = Mapping[str, Named]


@dataclass(frozen=True, eq=False)
class Row:
    """A statement of a nest: its lines, the loops around it, and the names that it may use.

    ``guards`` are the conditions around it, and ``defined`` is the name that it defines, or empty.
    """

    stmt: Stmt
    depth: int
    lines: tuple[str, ...]
    loops: tuple[For, ...]
    scope: Scope
    defined: str = ""
    guards: tuple[Expr, ...] = ()

    @property
    def marked(self) -> list[str]:
        """The lines as HTML; the word that begins a loop or a guard is of the class of its kind."""
        names = {name: lines.name for name, lines in self.scope.items()}
        lines = [mark_code(line, names, KEYWORDS, (self.defined,)) for line in self.lines]
        if self.kind:
            lines[0] = lines[0].replace("<b>", f'<b class="{self.kind}">', 1)
        return lines

    @property
    def kind(self) -> str:
        """The kind of a loop, ``guard`` for other statements that hold a block, or empty."""
        if isinstance(self.stmt, For):
            return self.stmt.kind
        return "guard" if isinstance(self.stmt, Around) else ""


def nest_html(nest: Nest, names: NameTable, linked: bool = False) -> str:
    """Return ``nest`` as HTML, without the style that shows it; add its names to ``names``.

    If ``linked``, statement number 3 is of class ``n3``.
    """
    rows = nest_rows(nest, names)
    margins = [_margin(row) for row in rows]
    width = max((len(text) for text, _ in margins), default=0)
    parts: list[str] = []
    open_: list[int] = []
    for number, (row, (text, title)) in enumerate(zip(rows, margins)):
        while open_ and open_[-1] >= row.depth:
            open_.pop()
            parts.append("</details>")
        code = "\n".join(row.marked)
        if text:
            code = f'<i title="{escape(title)}">{escape(text)}</i>{code}'
        link = f" n{number}" if linked else ""
        if row.kind:
            classes = f' class="{link.strip()}"' if link else ""
            parts.append(f"<details open><summary{classes}>{code}</summary>")
            open_.append(row.depth)
        else:
            focus = ' tabindex="0"' if linked else ""
            parts.append(f'<div class="leaf{link}"{focus}>{code}</div>')
    parts += ["</details>"] * len(open_)
    style = f' style="--margin: {width}ch"' if width else ""
    return f'{_head(nest, names)}<div class="nest block"{style}>{"".join(parts)}</div>'


def _head(nest: Nest, names: NameTable) -> str:
    """Return the header: the signature, and the bytes of the arrays."""
    scope = top_scope(nest, names)
    every = {name: named.name for name, named in scope.items()}
    signature = mark_code(header(nest), every, (), every)
    arrays = [a for a in nest.args if isinstance(a, Buffer) and a.bytes is not None]
    sizes = ", ".join(mark_code(f"{a.name} {bytes_text(a.bytes)}", every) for a in arrays)
    return f'<div class="head">{signature}{f"<br>{sizes}" if sizes else ""}</div>'


def nest_lines(nest: Nest, names: NameTable) -> list[tuple[str, str]]:
    """Return each line of the printed nest with its HTML; add its names to ``names``.

    Names are told apart by their stage alone, so that the same names in two nests light up
    together.
    """
    every = {name: lines.name for name, lines in top_scope(nest, names).items()}
    first = header(nest)
    lines = [(first, mark_code(first, every, (), every)), ("", "")]
    for row in _rows(nest, names, by_stage=True):
        margin = INDENT * row.depth
        lines += [(margin + line, margin + html) for line, html in zip(row.lines, row.marked)]
    return lines


def top_scope(nest: Nest, names: NameTable) -> dict[str, Named]:
    """Return the arguments and sizes of a nest by name."""
    scope: dict[str, Named] = {}
    for arg in nest.args:
        role = "an output" if arg in nest.outputs else "an input"
        title = f"{argument_text(arg)}, {role}"
        if isinstance(arg, Buffer):
            title += f", {bytes_text(arg.bytes)}"
        scope[arg.name] = Named(arg, names.name(arg.name, title))
    for size in nest.sizes:
        scope[size.name] = Named(size, names.name(size.name, f"{size.name}: a size"))
    return scope


def nest_rows(nest: Nest, names: NameTable) -> list[Row]:
    """Return the statements of a nest in printed order; add its names to ``names``.

    Each loop and each allocation has a name of its own.
    """
    return list(_rows(nest, names, by_stage=False))


def _rows(nest: Nest, names: NameTable, by_stage: bool) -> Iterator[Row]:
    names_printed = printed_names(nest)
    # the names in the block at each depth, and the loops around it
    scopes: list[dict[str, Named]] = [top_scope(nest, names)]
    around: list[tuple[For, ...]] = [()]
    guards: list[tuple[Expr, ...]] = [()]
    for number, (stmt, depth) in enumerate(printed_statements(nest.body, nest.remarks)):
        del scopes[depth + 1 :], around[depth + 1 :], guards[depth + 1 :]
        scope, loops, held = scopes[depth], around[depth], guards[depth]
        new = _definition(stmt, nest, names, None if by_stage else number)
        defined = ""
        if new is not None:
            defined = new[0]
            scope = {**scope, defined: new[1]}
        if isinstance(stmt, Alloc):
            scopes[depth] = scope
        if isinstance(stmt, For):
            loops = (*loops, stmt)
            held = (*held, *(test.cond for test in trim_loop(stmt).tests))
        elif isinstance(stmt, If):
            held = (*held, stmt.cond)
        scopes.append(scope)
        around.append(loops)
        guards.append(held)
        lines = tuple(statement_lines(stmt, nest.names, names_printed))
        yield Row(stmt, depth, lines, loops, scope, defined, held)


def _definition(
    stmt: Stmt, nest: Nest, names: NameTable, number: int | None
) -> tuple[str, Named] | None:
    """Return the name that ``stmt`` defines, and what it stands for.

    ``number`` is the number of the statement, if this tells the name apart.
    """
    if isinstance(stmt, Alloc):
        buffer = stmt.buffer
        title = f"{argument_text(buffer)}, {buffer.scope}, {bytes_text(buffer.bytes)}"
        return buffer.name, Named(buffer, names.name((buffer.name, number), title))
    if not isinstance(stmt, (For, Lanes, Strips, Copy)):
        return None
    name = nest.names.get(stmt.axis, stmt.axis.name)
    if isinstance(stmt, For):
        kind = stmt.tag or f"{stmt.kind} loop"
        trim = trim_loop(stmt)
        extent = expr_text(stmt.extent, nest.names)
        if trim.tests:
            ends = (expr_text(end, nest.names) for end in (trim.start, trim.stop))
            extent = f"{'..'.join(ends)}, at most {extent}"
        key = (name, number, stmt.stage)
        title = f"{name}: {kind} of stage {stmt.stage}, {extent} iterations"
    else:
        what = {Lanes: "the lanes of a vector", Strips: "a loop over vectors", Copy: "one copy"}
        key, title = (name, number, ""), f"{name}: {what[type(stmt)]}"
    return name, Named(stmt.axis, names.name(key, title))


def _margin(row: Row) -> tuple[str, str]:
    """Return what the margin says about a statement, and in full.

    That is how often it runs, if this does not depend on sizes, or the bytes of storage.
    """
    stmt = row.stmt
    if isinstance(stmt, Alloc):
        count_of_bytes = stmt.buffer.bytes
        if count_of_bytes is None:
            return "", ""
        return bytes_text(count_of_bytes), f"{stmt.buffer.name}: storage"
    spans = {loop.axis: (0, loop.extent) for loop in row.loops if isinstance(loop.extent, int)}
    if not isinstance(stmt, (For, Store)) or len(spans) < len(row.loops) or not spans:
        return "", ""
    what = "The body" if isinstance(stmt, For) else "The statement"
    times = _passing(row.guards, spans)
    if times is not None:
        return f"{times:,}×", f"{what} runs {times:,} times, exactly"
    most = prod(length for _, length in spans.values())
    return f"≤{most:,}×", f"{what} runs {most:,} times at most: a guard may skip some"


def _passing(guards: Sequence[Expr], spans: Mapping[Axis, tuple[int, int]]) -> int | None:
    """Return the iterations in which all guards hold; ``None`` if that is not known."""
    own = spans_of(guards, spans) if guards else {}
    if own is None:
        return None
    passed = count([(cond, True) for cond in guards], own) if guards else 1
    rest = prod(length for axis, (_, length) in spans.items() if axis not in own)
    return None if passed is None else passed * rest
