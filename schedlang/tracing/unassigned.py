"""Names that a statement may read where nothing was assigned to them, and Python would raise.

A trace runs both sides of an ``if`` on elements and the body of a loop, so such a name has a value
in the trace. Two flags follow it through loops and branches, like any other names: one says that
the name is assigned, the other that a statement read it where it was not. Where the function
returns, the second flag becomes a result of the trace (``missed_reads.py``).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

from schedlang.tracing.leaving import PREFIX, fits
from schedlang.tracing.names import (
    assigned,
    assigned_at_once,
    declared_around,
    inside,
    names_read,
    names_read_in_any_case,
    note_reads,
    parts_around,
    read_first,
)

# the flags of a name
_ASSIGNED, _MISSED = f"{PREFIX}assigned_", f"{PREFIX}missed_"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Unassigned:
    """The flags in one function, for the names that it may read before it assigns them.

    ``names`` has the line of the first such read for each of them. A loop gets the attribute
    ``ran``, the name of a flag that says whether it has an iteration.
    """

    def __init__(self, tree: ast.FunctionDef, fixed: Collection[str], control: str) -> None:
        self.fixed, self.control = set(fixed), control
        self.names: dict[str, int] = {}
        self._reads: dict[int, set[str]] = {}
        self._count = 0
        own = set(assigned(tree.body)) - self.fixed - _of_functions(tree.body)
        parameters = {a.arg for a in ast.walk(tree.args) if isinstance(a, ast.arg)}

        def note(statement: ast.stmt, reads: set[str]) -> None:
            risky = reads & own
            if isinstance(statement, (ast.ClassDef, *_FUNCTIONS)):
                risky &= names_read(parts_around(statement))
            if risky:
                self._reads[id(statement)] = risky
                for name in sorted(risky):
                    self.names.setdefault(name, statement.lineno)

        note_reads(tree.body, parameters, note)

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements with flags."""
        if not self.names:
            return list(statements)
        new = self._block(statements, set())
        first = [
            _parsed(f"{flag}{name} = False", statements[0])
            for name in self.names
            for flag in (_ASSIGNED, _MISSED)
        ]
        return [*first, *new]

    def ended(self, statements: Sequence[ast.stmt], ends: bool) -> list[ast.stmt]:
        """Return statements that tell the trace of their flags where the function returns.

        It ``ends`` after them, too.
        """
        new: list[ast.stmt] = []
        for statement in statements if self.names else ():
            if isinstance(statement, ast.Return):
                new += self._told(statement)
            for name in ("body", "orelse", "finalbody"):
                held = getattr(statement, name, None)
                if held and not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
                    setattr(statement, name, self.ended(held, False))
            for part in _parts(statement):
                part.body = self.ended(part.body, False)
            new.append(statement)
        if not self.names:
            return list(statements)
        return [*new, *self._told(statements[-1])] if ends else new

    def _told(self, at: ast.stmt) -> list[ast.stmt]:
        return [
            _parsed(f"{self.control}.missed({_MISSED}{name}, {name!r}, {line})", at)
            for name, line in self.names.items()
        ]

    def _block(self, statements: Sequence[ast.stmt], skipped: set[str]) -> list[ast.stmt]:
        """Return statements with flags, which need none for the names ``skipped``."""
        new: list[ast.stmt] = []
        for statement in statements:
            new += self._checked(statement)
            if isinstance(statement, (ast.For, ast.While)):
                new += self._loop(statement, skipped)
                continue
            new.append(statement)
            is_definition = isinstance(statement, (*_FUNCTIONS, ast.ClassDef))
            if is_definition or not (self._blocks(statement) or _parts(statement)):
                new += self._set(assigned([statement]), skipped, statement)
                continue
            for name in self._blocks(statement):
                setattr(statement, name, self._block(getattr(statement, name), skipped))
            if isinstance(statement, (ast.With, ast.AsyncWith)):
                names = assigned(statement.items)
                statement.body = [*self._set(names, skipped, statement), *statement.body]
            for part in _parts(statement):
                part.body = self._block(part.body, skipped)
        return new

    def _blocks(self, statement: ast.stmt) -> list[str]:
        return [name for name in ("body", "orelse", "finalbody") if getattr(statement, name, None)]

    def _loop(self, loop: ast.For | ast.While, skipped: set[str]) -> list[ast.stmt]:
        targets = assigned([loop.target]) if isinstance(loop, ast.For) else []
        first = {*targets, *assigned_at_once(loop)} & set(self.names)
        is_kept = fits(loop, self.fixed)
        # whether the loop runs at all tells of these names after it; the loop itself reads no flag
        read = read_first(loop.body) | read_first(loop.orelse)
        own = skipped | (first - read) if is_kept else skipped
        loop.body = [*self._set(targets, own, loop), *self._block(loop.body, own)]
        loop.orelse = self._block(loop.orelse, skipped)
        if not is_kept or not first - skipped:
            return [loop]
        self._count += 1
        ran = f"{PREFIX}ran_{self._count}"
        loop.ran = ran  # type: ignore[union-attr]
        flags = [f"{_ASSIGNED}{name}" for name in sorted(first - skipped)]
        texts = [f"{flag} = {self.control}.either_flag({flag}, {ran})" for flag in flags]
        return [loop, *(_parsed(text, loop) for text in texts)]

    def _checked(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return what runs before a statement that may read names before they are assigned."""
        reads = self._reads.get(id(statement), set())
        always = reads & names_read_in_any_case(statement)
        if reads - always:
            _Reads(reads - always, self.control).change(statement)
        new = []
        for name in sorted(always):
            text = f"{_MISSED}{name} = {self.control}.missed_or({_MISSED}{name}, {_ASSIGNED}{name})"
            new.append(_parsed(text, statement))
        return new

    def _set(self, names: Sequence[str], skipped: set[str], at: ast.stmt) -> list[ast.stmt]:
        own = [name for name in names if name in self.names and name not in skipped]
        return [_parsed(f"{_ASSIGNED}{name} = True", at) for name in own]


class _Reads(ast.NodeTransformer):
    """Replaces reads of names that a statement reads under a condition of its own."""

    def __init__(self, names: set[str], control: str) -> None:
        self.names, self.control = names, control

    def change(self, statement: ast.stmt) -> None:
        """Change the expressions of a statement itself."""
        for field, value in ast.iter_fields(statement):
            if isinstance(value, ast.expr):
                setattr(statement, field, self.visit(value))
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                setattr(statement, field, [self.visit(part) for part in value])

    def visit_Name(self, node: ast.Name) -> ast.AST:  # noqa: N802
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        text = f"{self.control}.read_of({_ASSIGNED}{node.id}, lambda: {node.id}, {node.id!r})"
        new = ast.parse(text, mode="eval").body
        for part in ast.walk(new):
            ast.copy_location(part, node)
        return new

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:  # noqa: N802
        own = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        self.generic_visit(node.args)
        node.body = _Reads(self.names - own, self.control).visit(node.body)
        return node

    def visit_ListComp(self, node: Any) -> ast.AST:  # noqa: N802
        own = set(assigned([part.target for part in node.generators]))
        first = node.generators[0]
        # the scope around evaluates this one
        iterable, first.iter = self.visit(first.iter), ast.Constant(None)
        _Reads(self.names - own, self.control).generic_visit(node)
        first.iter = iterable
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp  # noqa: N815


def _parts(statement: ast.stmt) -> list[Any]:
    """Return the handlers of a ``try`` or the cases of a ``match``."""
    return [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]


def _of_functions(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that functions in a block assign for it, and names of ``:=`` and ``del``."""
    names: set[str] = set()
    for node in inside(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names |= declared_around(node.body)
        elif isinstance(node, ast.NamedExpr):
            names.add(node.target.id)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            names.add(node.id)
    return names


def _parsed(text: str, at: ast.stmt) -> ast.stmt:
    """Return the statement of a text, at the line of another one."""
    (statement,) = ast.parse(text).body
    for node in ast.walk(statement):
        if hasattr(node, "lineno"):
            ast.copy_location(node, at)
            node.end_lineno = node.lineno  # type: ignore[attr-defined]
    return statement
