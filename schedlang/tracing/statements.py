"""The statements of a traced function: the names that they assign, and the loops around them."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from dataclasses import dataclass
from textwrap import dedent
from types import CodeType

from schedlang.parsing import parse_source


@dataclass(frozen=True)
class Statement:
    """A statement of a function.

    ``target`` is the name that it assigns, to the whole array or to a part of it, or ``""``.
    ``loops`` are the first lines of the loops around it, innermost first.
    """

    path: str
    line: int
    text: str
    target: str = ""
    loops: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        return self.path, self.line


class Statements:
    """The statements of functions, each parsed once."""

    def __init__(self) -> None:
        self._known: dict[CodeType, list[ast.stmt]] = {}

    def at(self, code: CodeType, line: int) -> Statement:
        """Return the statement of a function at a line of its file.

        It has no target if the source of the function cannot be found.
        """
        path = code.co_filename
        around = [s for s in self._all(code) if s.lineno <= line <= (s.end_lineno or s.lineno)]
        if not around:
            return Statement(path, line, linecache.getline(path, line).strip())
        around.sort(key=lambda s: (s.end_lineno or s.lineno) - s.lineno)
        loops = tuple(
            s.lineno
            for s in around[: _function(around)]
            if isinstance(s, (ast.For, ast.While)) and line >= s.body[0].lineno
        )
        first = around[0].lineno
        text = linecache.getline(path, first).strip()
        return Statement(path, first, text, _target(around[0]), loops)

    def _all(self, code: CodeType) -> list[ast.stmt]:
        statements = self._known.get(code)
        if statements is None:
            try:
                lines, first = lines_of(code)
                tree = parse_source(dedent("".join(lines)))
            except SyntaxError:
                # typed at a prompt, or a lambda in the middle of a statement
                tree, first = ast.Module([], []), 1
            ast.increment_lineno(tree, first - 1)
            statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt)]
            self._known[code] = statements
        return statements


# the first line of a function; the code of a comprehension begins further down
_BEGIN = re.compile(r"\s*(def|async\s+def)\s|\s*@|.*\blambda\b")


def lines_of(code: CodeType) -> tuple[list[str], int]:
    """Return the source of the function around some code, and the number of its first line.

    ``inspect.getsourcelines`` finds the same, but asks all modules for their files, which takes a
    tenth of a second where numba is loaded.
    """
    lines, first = linecache.getlines(code.co_filename), code.co_firstlineno
    if first > len(lines):
        return [], 1
    while first > 1 and not _BEGIN.match(lines[first - 1]):
        first -= 1
    return inspect.getblock(lines[first - 1 :]), first


def instead_of_copies(head: str, reason: str) -> str:
    """Return what to write instead of a loop that is unrolled."""
    if reason:
        return "Change this, and its body is traced once and runs as a loop."
    if head.startswith("while"):
        return (
            "Write for k in range(lo, hi), or while k < hi with k += 1 in each iteration: its body "
            "is traced once and runs as a loop."
        )
    return (
        "Make the body a function and write sl.fori_loop(lo, hi, body): it is traced once and runs "
        "as a loop."
    )


def _function(around: list[ast.stmt]) -> int:
    """Return the position of the innermost function around a statement."""
    defs = (ast.FunctionDef, ast.AsyncFunctionDef)
    return next((k for k, s in enumerate(around) if k and isinstance(s, defs)), len(around))


def _target(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        target = statement.target
    else:
        return ""
    while isinstance(target, ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""
