"""A loop nest as text: one statement a line, stable to the character."""

from __future__ import annotations

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.printer import ATOM, binary_text, text
from schedlang.ir.nodes import (
    Alloc, Block, Buffer, Fetch, For, If, Let, Load, Nest, Note, Stmt, Store, walk,
)  # fmt: skip

INDENT = "  "


def nest_text(nest: Nest) -> str:
    """The whole nest: a header with the arguments, a blank line, the statements."""
    lines = [header(nest), ""]
    for stmt, depth in walk(nest.body):
        lines += [INDENT * depth + line for line in statement_lines(stmt, nest.names)]
    return "\n".join(lines)


def header(nest: Nest) -> str:
    inputs = [a for a in nest.args if a not in nest.outputs]
    listed = ", ".join(argument_text(a) for a in inputs)
    results = ", ".join(argument_text(b) for b in nest.outputs)
    return f"{nest.name}({listed}) -> {results}"


def argument_text(arg: Buffer | Var) -> str:
    if isinstance(arg, Var):
        return f"{arg.name}: {arg.dtype}"
    return f"{arg.name}: {arg.dtype}[{', '.join(map(str, arg.shape))}]"


def bytes_text(count: int | None) -> str:
    """A size for people: exact below 10 KiB, else in KiB or MiB.

    >>> bytes_text(256), bytes_text(4 << 20), bytes_text(None)
    ('256 B', '4.00 MiB', 'size known at the call')
    """
    if count is None:
        return "size known at the call"
    if count < 10 * 1024:
        return f"{count} B"
    if count < 1024 * 1024:
        return f"{count / 1024:.4g} KiB"
    return f"{count / 1024 / 1024:.2f} MiB"


def expr_text(value: Expr | int, names: dict[Axis, str]) -> str:
    if isinstance(value, int):
        return str(value)

    def leaf(node: Expr) -> str:
        return names.get(node, node.name)  # type: ignore[arg-type, attr-defined, union-attr]

    def special(node: Expr, done: dict[int, tuple[str, int]]) -> tuple[str, int] | None:
        if isinstance(node, Load):
            inside = ", ".join(done[id(i)][0] for i in node.indices)
            return f"{node.buffer.name}[{inside}]", ATOM
        return None

    return text(value, leaf, special)


def statement_lines(stmt: Stmt, names: dict[Axis, str]) -> list[str]:
    """The line (or lines) of one statement, without what is inside it."""
    if isinstance(stmt, For):
        return [loop_text(stmt, names)]
    if isinstance(stmt, If):
        note = f"   # {stmt.note}" if stmt.note else ""
        return [f"if {expr_text(stmt.cond, names)}:{note}"]
    if isinstance(stmt, Alloc):
        b = stmt.buffer
        padded = f", rows padded to {b.strides[-2]}" if b.strides and len(b.strides) > 1 else ""
        return [f"{argument_text(b)}   {b.scope}, {bytes_text(b.bytes)}{padded}"]
    if isinstance(stmt, Let):
        return [f"{stmt.var.name} = {expr_text(stmt.value, names)}"]
    if isinstance(stmt, Fetch):
        inside = ", ".join(expr_text(i, names) for i in stmt.indices)
        return [f"prefetch {stmt.buffer.name}[{inside}]"]
    if isinstance(stmt, Note):
        return [f"# {line}" for line in stmt.text.splitlines()]
    if isinstance(stmt, Store):
        return store_lines(stmt, names)
    assert not isinstance(stmt, Block)
    raise TypeError(type(stmt).__name__)


def loop_text(loop: For, names: dict[Axis, str]) -> str:
    word = {"serial": "for", "thread": loop.tag}.get(loop.kind, loop.kind)
    pragmas = "".join(
        f"   # pragma {name}" + ("" if value is None else f" = {value}") for name, value in loop.pragmas
    )
    name = names.get(loop.axis, loop.axis.name)
    return f"{word} {name} in 0..{expr_text(loop.extent, names)}:{pragmas}"


def store_lines(store: Store, names: dict[Axis, str]) -> list[str]:
    inside = ", ".join(expr_text(i, names) for i in store.indices)
    targets = [f"{b.name}[{inside}]" for b in store.buffers]
    values = [expr_text(v, names) for v in store.values]
    if store.reducer is None:
        return [f"{', '.join(targets)} = {', '.join(values)}"]
    kind = store.reducer.name
    if kind in ("sum", "prod") and len(targets) == 1:
        return [f"{targets[0]} {'+' if kind == 'sum' else '*'}= {values[0]}"]
    return [f"{', '.join(targets)} = {kind}({', '.join([*targets, *values])})"]


__all__ = ["argument_text", "binary_text", "bytes_text", "expr_text", "header", "nest_text"]
