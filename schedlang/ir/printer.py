"""The printer of loop nests: stable text with one statement a line.

A long chain of selects takes one line for each of its choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING

from schedlang.expr.nodes import Axis, Binary, Call, Cast, Expr, Select, Var
from schedlang.expr.printer import LONGEST, is_index, shorten, text
from schedlang.expr.visit import postorder
from schedlang.index.linear import to_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.extern_call import Extern
from schedlang.ir.nodes import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Commit,
    Copies,
    Copy,
    Exchange,
    Fetch,
    For,
    If,
    Kept,
    Lanes,
    Load,
    Masked,
    Note,
    Stmt,
    Store,
    Strips,
    walk,
)
from schedlang.ir.statement import ENDLESS
from schedlang.ir.trimmed import printed_statements, trim_loop
from schedlang.markup.sizes import bytes_text
from schedlang.state.layout import Swizzle
from schedlang.state.state import IMPORTS

if TYPE_CHECKING:
    from schedlang.ir.nest import Nest

INDENT = "  "
LONGEST_SHARED, LONGEST_INLINE = 60, 400
WIDEST_LINE = 100


def nest_text(nest: Nest) -> str:
    """Return the whole nest: a header with the arguments, a blank line, the statements."""
    lines, names_printed = [header(nest), ""], printed_names(nest)
    for stmt, depth in printed_statements(nest.body, nest.remarks):
        lines += [
            INDENT * depth + line for line in statement_lines(stmt, nest.names, names_printed)
        ]
    return "\n".join(lines)


def header(nest: Nest) -> str:
    inputs = [a for a in nest.args if isinstance(a, Var) or a not in nest.outputs]
    listed = ", ".join(argument_text(a) for a in inputs)
    results = ", ".join(argument_text(b) for b in nest.outputs)
    return f"{nest.name}({listed}) -> {results}"


def printed_names(nest: Nest) -> frozenset[str]:
    """Return the names of a nest's arguments, sizes, buffers and loops."""
    things = (*nest.args, *nest.sizes, *nest.buffers)
    return frozenset(nest.names.values()).union(thing.name for thing in things)


def argument_text(arg: Buffer | Var) -> str:
    if isinstance(arg, Var):
        return f"{arg.name}: {arg.dtype}"
    return f"{arg.name}: {arg.dtype}[{', '.join(map(str, arg.shape))}]"


def expr_text(
    value: Expr | int,
    names: dict[Axis, str],
    named: Callable[[Expr, str], str | None] = shorten,
) -> str:
    if isinstance(value, int):
        return str(value)

    def leaf(node: Expr) -> str:
        assert isinstance(node, (Axis, Var))
        return names.get(node, node.name) if isinstance(node, Axis) else node.name

    return text(value, leaf, named)


class Temporaries:
    """The named temporaries of a printed statement.

    A subexpression gets a name if its text is long, or if it is used more than once and not
    short. No name is one of ``taken``. ``indices`` are the texts of the index expressions that get
    a name too.
    """

    def __init__(
        self, values: Sequence[Expr], taken: Set[str], indices: frozenset[str] = frozenset()
    ) -> None:
        self.lines: list[str] = []
        self._indices = indices
        self._index_names: dict[str, str] = {}
        self._values = values
        self._taken = taken
        self._names: dict[int, str] = {}

    def __call__(self, node: Expr, printed: str) -> str | None:
        if id(node) in self._names:
            return self._names[id(node)]
        if is_index(node):
            return self._index_name(printed)
        if len(printed) <= LONGEST_SHARED:
            return None
        if self._uses[id(node)] == 1 and len(printed) <= LONGEST_INLINE:
            return None
        if len(printed) <= LONGEST and id(node) not in self._always:
            return None
        name = self._names[id(node)] = self._name(printed)
        return name

    @cached_property
    def _uses(self) -> Counter[int]:
        return Counter(id(child) for node in postorder(self._values) for child in node.children)

    @cached_property
    def _always(self) -> set[int]:
        return _evaluated_nodes(self._values)

    def _index_name(self, printed: str) -> str | None:
        if printed in self._indices and printed not in self._index_names:
            self._index_names[printed] = self._name(printed)
        return self._index_names.get(printed)

    def _name(self, printed: str) -> str:
        count = len(self.lines) + 1
        while f"t{count}" in self._taken:
            count += 1
        self._taken = {*self._taken, f"t{count}"}
        self.lines.append(f"t{count} = {printed}")
        return f"t{count}"


def _evaluated_nodes(values: Sequence[Expr]) -> set[int]:
    """Return the nodes that are evaluated unconditionally, outside lazy branches."""
    evaluated: set[int] = set()
    stack = list(values)
    while stack:
        node = stack.pop()
        if id(node) not in evaluated:
            evaluated.add(id(node))
            stack += [node.cond] if isinstance(node, Select) and node.lazy else node.children
    return evaluated


def statement_lines(stmt: Stmt, names: dict[Axis, str], taken: frozenset[str]) -> list[str]:
    """Return the lines of one statement, without the lines of its body.

    ``taken`` are the :func:`printed_names` of its nest, which no temporary gets.
    """
    if isinstance(stmt, For):
        return [loop_text(stmt, names)]
    if isinstance(stmt, If):
        note = f"   # {stmt.note}" if stmt.note else ""
        return [f"if {expr_text(stmt.cond, names)}:{note}"]
    if isinstance(stmt, Alloc):
        return [storage_text(stmt.buffer)]
    if isinstance(stmt, (Lanes, Strips, Copies, Copy, Kept, Masked)):
        return [_arranged_text(stmt, names)]
    if isinstance(stmt, Fetch):
        inside = _inside(stmt.indices, names)
        return [f"prefetch {stmt.buffer.name}[{inside}]"]
    if isinstance(stmt, Extern):
        boxes = [_box_text(*box, names) for box in stmt.boxes]
        given, results = boxes[: len(stmt.inputs)], boxes[len(stmt.inputs) :]
        arguments = ", ".join([*given, *stmt.function.options])
        return [f"{', '.join(results)} = {stmt.function.name}({arguments})"]
    if isinstance(stmt, Barrier):
        return [_barrier_text(stmt)]
    if isinstance(stmt, Commit):
        return ["commit copies"]
    if isinstance(stmt, Exchange):
        inside = _inside(stmt.indices, names)
        pairs = [
            (f"{a.name}[{inside}]", f"{b.name}[{inside}]") for a, b in zip(stmt.into, stmt.source)
        ]
        return [f"{a} = {b} of thread ^ {stmt.distance}" for a, b in pairs]
    if isinstance(stmt, Note):
        return [f"# {line}" for line in stmt.text.splitlines()]
    if isinstance(stmt, Store):
        return store_lines(stmt, names, taken)
    assert not isinstance(stmt, Block)
    raise TypeError(type(stmt).__name__)


def _arranged_text(
    stmt: Lanes | Strips | Copies | Copy | Kept | Masked, names: dict[Axis, str]
) -> str:
    """Return the line of a statement that the passes of ``machine/loops`` make."""
    if isinstance(stmt, Copies):
        loads = sorted({node.buffer.name for node in stmt.shared if isinstance(node, Load)})
        shared = f", which share loads of {', '.join(loads)}" if loads else ""
        columns = sorted({block.buffer.name for block in stmt.blocks})
        transposed = f", transposed: {', '.join(columns)}" if columns else ""
        return f"copies{shared}{transposed}:"
    if isinstance(stmt, Kept):
        return f"keep {', '.join(sorted(b.name for b in stmt.buffers))} in registers:"
    if isinstance(stmt, Masked):
        note = f"   # {stmt.note}" if stmt.note else ""
        return f"mask {expr_text(stmt.cond, names)}:{note}"
    name = names.get(stmt.axis, stmt.axis.name)
    if isinstance(stmt, Copy):
        return f"{name} = {stmt.at}:"
    if isinstance(stmt, Strips):
        return f"for {name} in 0..{stmt.stop} by {stmt.step}:"
    if stmt.start.const is None:
        return f"{stmt.count} lanes {name}:"
    return f"lanes {name} in {stmt.start.const}..{stmt.start.const + stmt.count}:"


def storage_text(buffer: Buffer) -> str:
    """Return the line of an allocation, such as ``C.local: float32[4, 16]   local, 256 B``."""
    properties = [buffer.scope, bytes_text(buffer.bytes)]
    if buffer.strides is not None:
        rows = len(buffer.shape) == 2 and buffer.strides[1] == 1
        steps = ", ".join(map(str, buffer.strides))
        properties.append(f"rows padded to {buffer.strides[0]}" if rows else f"strides ({steps})")
    if buffer.asynchronous:
        properties.append(f"pipeline of {buffer.copies} stages")
    elif buffer.copies > 1:
        properties.append("double buffered")
    properties += [_swizzle_text(s, len(buffer.shape)) for s in buffer.swizzles]
    return f"{argument_text(buffer)}   {', '.join(properties)}"


def _barrier_text(barrier: Barrier) -> str:
    if barrier.pending is None:
        return "barrier"
    if not barrier.pending:
        return "wait for all copies, barrier"
    last = "group" if barrier.pending == 1 else f"{barrier.pending} groups"
    return f"wait for all copies but the last {last}, barrier"


def _swizzle_text(swizzle: Swizzle, dims: int) -> str:
    """Return a swizzle in words, such as ``swizzled: index 1 ^ index 0 // 2 % 8``."""
    by = f"index {swizzle.by % dims}"
    by += f" // {swizzle.divisor}" if swizzle.divisor > 1 else ""
    return f"swizzled: index {swizzle.place % dims} ^ {by} % {swizzle.modulus}"


def loop_text(loop: For, names: dict[Axis, str]) -> str:
    word = {"serial": "for", "thread": loop.tag}.get(loop.kind, loop.kind)
    if loop.instruction is not None:
        word = f"{word} {loop.instruction}"
    # the code that a pragma brings has many lines
    values = ["" if v is None or n in IMPORTS else f" = {v}" for n, v in loop.pragmas]
    notes = [f"pragma {n}{value}" for (n, _), value in zip(loop.pragmas, values)]
    if loop.kind == "thread" and loop.axis.is_reduce and not _scatters(loop):
        notes.append(f"{loop.stage} is reduced across these threads")
    name, trim = names.get(loop.axis, loop.axis.name), trim_loop(loop)
    ends = f"{_end(trim.start, names)}..{_end(trim.stop, names)}"
    while_ = "" if loop.again is None else f"while {expr_text(loop.again, names)}"
    if isinstance(loop.extent, int) and loop.extent == ENDLESS:
        return f"{while_}:"
    head = f"{word} {name} in {ends}{while_ and ' '}{while_}:"
    return head + (f"   # {', '.join(notes)}" if notes else "")


def _end(value: Expr | int, names: dict[Axis, str]) -> str:
    """Return an end of a loop's range."""
    plain = value
    if isinstance(plain, Cast) and isinstance(plain.a, Load):
        # the conversion of an element to an index
        plain = plain.a
    text = expr_text(plain, names)
    return f"({text})" if isinstance(value, Binary) and value.op in "+-" else text


def _scatters(loop: For) -> bool:
    """Return whether the updates in ``loop`` go to computed places, and to no sum."""
    return any(
        isinstance(s, Store) and s.scatters and s.stage == loop.stage for s, _ in walk(loop.body)
    )


def _box_text(
    buffer: Buffer, starts: Sequence[Expr], extents: Sequence[Expr], names: dict[Axis, str]
) -> str:
    """Return a box of an array: its name if it is the whole array, else its ranges."""
    whole = all(
        to_lin(start).const == 0 and to_lin(extent) == to_lin(full)
        for start, extent, full in zip(starts, extents, buffer.shape)
    )
    if whole:
        return buffer.name
    ends = (to_expr(to_lin(start) + to_lin(extent)) for start, extent in zip(starts, extents))
    ranges = [f"{expr_text(a, names)}:{expr_text(b, names)}" for a, b in zip(starts, ends)]
    return f"{buffer.name}[{', '.join(ranges)}]"


def _inside(indices: Sequence[Expr], names: dict[Axis, str]) -> str:
    return ", ".join(expr_text(i, names) for i in indices) or "()"


def store_lines(store: Store, names: dict[Axis, str], taken: frozenset[str]) -> list[str]:
    """Return the lines of a store; if one is too wide, repeated indices are named first."""
    lines = _store_lines(store, names, taken, frozenset())
    repeated = _repeated(store, names) if max(map(len, lines)) > WIDEST_LINE else frozenset()
    return _store_lines(store, names, taken, repeated) if repeated else lines


def _repeated(store: Store, names: dict[Axis, str]) -> frozenset[str]:
    """Return the texts of clamped or wrapped indices that several loads of a store share."""
    counts: Counter[str] = Counter()
    inside = postorder(store.values)
    if not any(map(_wraps, inside)):
        return frozenset()
    for load in inside:
        if not isinstance(load, Load):
            continue
        for index in load.indices:
            nodes = postorder([index]) if index.children else ()
            if any(map(_wraps, nodes)) and not any(isinstance(n, Load) for n in nodes):
                counts[expr_text(index, names)] += 1
    return frozenset(text for text, count in counts.items() if count > 1)


def _wraps(node: Expr) -> bool:
    """Return whether ``node`` may clamp or wrap an index."""
    return isinstance(node, (Call, Select)) or (isinstance(node, Binary) and node.op in ("//", "%"))


def _store_lines(
    store: Store, names: dict[Axis, str], taken: frozenset[str], indices: frozenset[str]
) -> list[str]:
    inside = _inside(store.indices, names)
    targets = [f"{b.name}[{inside}]" for b in store.buffers]
    parts = Temporaries(store.values, taken, indices)
    values = [expr_text(v, names, parts) for v in store.values]
    if len(values) > 1 and store.reducer is None:
        lazy = [isinstance(v, Select) and v.lazy for v in store.values]
        values = [f"({v})" if wrap else v for v, wrap in zip(values, lazy)]
    if store.reducer is not None and store.reducer.parts:
        updates = [
            _update(p.reducer.name, [targets[k] for k in p.places], [values[k] for k in p.places])
            for p in store.reducer.parts
        ]
        return [*parts.lines, *(" ".join(update) for update in updates)]
    kind = None if store.reducer is None else store.reducer.name
    if store.reducer is not None and store.reducer.overwrites:
        kind = None
    left, how, right = _update(kind, targets, values)
    start = "atomic " if store.atomic else ""
    line = f"{start}{left} {how} {right}"
    if len(line) > WIDEST_LINE and not parts.lines and (kind is None or how != "="):
        chain = _choices(store.values[0], names) if len(values) == 1 else []
        if chain:
            return [f"{start}{targets[0]} {how} (", *(INDENT + choice for choice in chain), ")"]
    return [*parts.lines, line]


def _update(
    kind: str | None, targets: Sequence[str], values: Sequence[str]
) -> tuple[str, str, str]:
    """Return the left side, the operator and the right side of an update by reducer ``kind``.

    Without a reducer it is an assignment.
    """
    left = ", ".join(targets)
    if kind in ("sum", "prod") and len(targets) == 1:
        return left, "+=" if kind == "sum" else "*=", values[0]
    right = ", ".join(values) if kind is None else f"{kind}({', '.join([*targets, *values])})"
    return left, "=", right


def _choices(value: Expr, names: dict[Axis, str]) -> list[str]:
    """Return the lines of a chain ``a if p else (b if q else c)``, one choice a line.

    Return ``[]`` if ``value`` is not such a chain.
    """
    lines: list[str] = []
    lazy, current = isinstance(value, Select) and value.lazy, value
    while isinstance(current, Select) and current.lazy == lazy:
        cond, chosen = expr_text(current.cond, names), expr_text(current.a, names)
        if lazy:
            lines.append(
                f"{_in_parens(current.a, chosen)} if {_in_parens(current.cond, cond)} else"
            )
        else:
            lines.append(f"select({cond}, {chosen},")
        current = current.b
    if len(lines) < 2:
        return []
    rest = expr_text(current, names)
    return [*lines, rest if lazy else rest + ")" * len(lines)]


def _in_parens(value: Expr, printed: str) -> str:
    return f"({printed})" if isinstance(value, Select) and value.lazy else printed
