"""``break``, ``continue``, ``return`` in loops, and ``else`` of loops, as flags that tests read.

A statement that leaves the body of a loop sets a flag, and what would follow it stands in an ``if``
on that flag. So the body has one end, where it returns whether the loop ends there, and elements
may decide about it as they decide about any other ``if``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Union

from schedlang.tracing.counters import split_test
from schedlang.tracing.names import LEFT, PREFIX, assigned, inside

# the flag of a function that a loop returns from, and what it returns
RETURNED, RESULT = f"{PREFIX}returned", f"{PREFIX}result"

# statements that a function of a loop's body cannot hold
_KEPT_OUT = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Delete, ast.Import,
    ast.ImportFrom, ast.ClassDef, ast.NamedExpr, ast.Try, ast.With, ast.AsyncFor, ast.AsyncWith,
)  # fmt: skip
_LOOPS = (ast.For, ast.While)
Loop = Union[ast.For, ast.While]


def fits(statement: ast.stmt, fixed: set[str]) -> bool:
    """Return whether functions can hold the statements in a loop or an ``if``.

    Names that are ``fixed`` are global or belong to a function around.
    """
    return not set(assigned([statement])) & fixed and not any(
        isinstance(node, _KEPT_OUT) or (isinstance(node, ast.Match) and _ends(node))
        for node in inside([statement])
    )


def _ends(statement: ast.stmt) -> bool:
    ends = (ast.Break, ast.Continue, ast.Return)
    return any(isinstance(node, ends) for node in ast.walk(statement))


def is_left(statement: ast.stmt) -> bool:
    """Return whether a statement has a ``break`` or ``continue`` of a loop around it."""
    if isinstance(statement, _LOOPS):
        return any(is_left(s) for s in statement.orelse)
    parts = (s for s in ast.iter_child_nodes(statement) if isinstance(s, ast.stmt))
    return isinstance(statement, (ast.Break, ast.Continue)) or any(map(is_left, parts))


class Flags:
    """Replaces what leaves loops in the statements of a function, whose ``fixed`` names are not its
    own.

    A loop whose body may end it gets the attribute ``left``, the name of the flag for that.
    """

    def __init__(self, fixed: set[str]) -> None:
        self.fixed = fixed
        self.count = 0

    def block(self, statements: Sequence[ast.stmt], inner: bool = False) -> list[ast.stmt]:
        """Return statements with flags; ``inner`` ones are in a loop that leaves with flags."""
        new: list[ast.stmt] = []
        for statement in statements:
            if isinstance(statement, _LOOPS) and fits(statement, self.fixed):
                new += self._loop(statement, inner)
                continue
            for name in ("body", "orelse", "finalbody"):
                held = getattr(statement, name, None)
                if held and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                    setattr(statement, name, self.block(held, inner))
            for handler in getattr(statement, "handlers", ()):
                handler.body = self.block(handler.body, inner)
            new.append(statement)
        return new

    def _loop(self, loop: Loop, inner: bool) -> list[ast.stmt]:
        if isinstance(loop, ast.While):
            split_test(loop)
        returns = any(isinstance(node, ast.Return) for node in inside(loop.body))
        # loops inside come first, whose flags tell this one to go on or to end
        body = self.block(loop.body, inner=True)
        orelse = self.block(loop.orelse, inner)
        self.count += 1
        leaving = _Leaving(f"{PREFIX}away_{self.count}", f"{LEFT}{self.count}")
        loop.body, loop.orelse = leaving.body(body, loop), []
        if leaving.ends:
            loop.left = leaving.left  # type: ignore[union-attr]
        after: list[ast.stmt] = []
        if returns:
            leave: ast.stmt = ast.Break() if inner else ast.Return(_name(RESULT))
            endless = isinstance(loop, ast.While) and _is_true(loop.test) and not leaving.breaks
            test = ast.Constant(True) if endless else _name(RETURNED)
            after.append(_where(test, [leave], [], loop))
        before = [] if inner or not returns else [_set(RETURNED, False, loop)]
        if not orelse:
            return [*before, loop, *after]
        if not leaving.ends:
            return [*before, loop, *after, *orelse]
        ended = f"{PREFIX}ended_{self.count}"
        loop.body.append(_assigned(ended, _name(leaving.left), loop))
        test = ast.UnaryOp(ast.Not(), _name(ended))
        last = _where(test, orelse, [], loop)
        last.word = "else of the loop"  # type: ignore[attr-defined]
        return [*before, _set(ended, False, loop), loop, *after, last]


class _Leaving:
    """One loop: ``away`` says that an iteration is over, and ``left`` that the loop is."""

    def __init__(self, away: str, left: str) -> None:
        self.away, self.left = away, left
        self.ends = self.guarded = self.breaks = False

    def body(self, statements: list[ast.stmt], loop: Loop) -> list[ast.stmt]:
        """Return the body of the loop, which begins with the flags."""
        new, _, _ = self._block(statements)
        if not self.guarded:
            new = _without(new, self.away)
        flags = [self.away] * self.guarded + [self.left] * self.ends
        return [*(_set(name, False, loop) for name in flags), *new]

    def _block(self, statements: Sequence[ast.stmt]) -> tuple[list[ast.stmt], bool, bool]:
        """Return statements with flags, whether they may leave the body, and whether they do."""
        new: list[ast.stmt] = []
        for k, statement in enumerate(statements):
            if isinstance(statement, (ast.Break, ast.Continue, ast.Return)):
                return [*new, *self._leave(statement)], True, True
            if not isinstance(statement, ast.If) or not _may_leave(statement):
                new.append(statement)
                continue
            rest = list(statements[k + 1 :])
            return [*new, *self._choice(statement, rest)], True, False
        return new, False, False

    def _leave(self, statement: ast.stmt) -> list[ast.stmt]:
        new = [_set(self.away, True, statement)]
        if isinstance(statement, ast.Return):
            value = statement.value or ast.Constant(None)
            new += [_assigned(RESULT, value, statement), _set(RETURNED, True, statement)]
        self.breaks |= isinstance(statement, ast.Break)
        if not isinstance(statement, ast.Continue):
            self.ends = True
            new.append(_set(self.left, True, statement))
        return new

    def _choice(self, statement: ast.If, rest: list[ast.stmt]) -> list[ast.stmt]:
        """Return an ``if`` that may leave, with the statements after it where they still run."""
        body, body_may, body_does = self._block(statement.body)
        orelse, else_may, else_does = self._block(statement.orelse)
        after, _, _ = self._block(rest)
        if not after or (body_does and else_does):
            pass
        elif body_does:
            orelse += self._guard(after, statement) if else_may else after
        elif else_does:
            body += self._guard(after, statement) if body_may else after
        else:
            choice = _where(statement.test, body, orelse, statement)
            return [choice, *self._guard(after, statement)]
        return [_where(statement.test, body, orelse, statement)]

    def _guard(self, statements: list[ast.stmt], at: ast.stmt) -> list[ast.stmt]:
        self.guarded = True
        return [_where(ast.UnaryOp(ast.Not(), _name(self.away)), statements, [], at)]


def _may_leave(statement: ast.stmt) -> bool:
    """Return whether a statement may leave the loop around it; loops in it have flags by now."""
    parts = (s for s in ast.iter_child_nodes(statement) if isinstance(s, ast.stmt))
    leaves = isinstance(statement, (ast.Break, ast.Continue, ast.Return))
    if isinstance(statement, (*_LOOPS, ast.FunctionDef)):
        # the return of a body of its own
        return False
    return leaves or any(map(_may_leave, parts))


def _without(statements: list[ast.stmt], name: str) -> list[ast.stmt]:
    """Return statements without the assignments to a flag that no test reads."""
    new: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.If):
            body = _without(statement.body, name)
            statement.body = body or [ast.copy_location(ast.Pass(), statement)]
            statement.orelse = _without(statement.orelse, name)
        if isinstance(statement, ast.Assign) and _target(statement) == name:
            continue
        new.append(statement)
    return new


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _target(statement: ast.Assign) -> str:
    (target, *_) = statement.targets
    return target.id if isinstance(target, ast.Name) else ""


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _set(name: str, value: bool, at: ast.stmt) -> ast.stmt:
    return _assigned(name, ast.Constant(value), at)


def _assigned(name: str, value: ast.expr, at: ast.stmt) -> ast.stmt:
    new = ast.Assign([ast.Name(name, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(new, at))


def _where(
    test: ast.expr, body: list[Any], orelse: list[Any], at: ast.stmt
) -> ast.stmt:
    for statement in body:
        if not hasattr(statement, "lineno"):
            ast.copy_location(statement, at)
    new = ast.If(test, body or [ast.copy_location(ast.Pass(), at)], orelse)
    return ast.fix_missing_locations(ast.copy_location(new, at))
