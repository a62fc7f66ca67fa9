"""The statements of a traced function: the names that they assign, and the loops around them."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """A statement of a file.

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
    """The statements of files, each parsed once."""

    def __init__(self) -> None:
        self._trees: dict[str, list[ast.stmt]] = {}

    def at(self, path: str, line: int) -> Statement:
        """Return the statement at a line; one without a target if the file cannot be read."""
        text = linecache.getline(path, line).strip()
        around = [s for s in self._all(path) if s.lineno <= line <= (s.end_lineno or s.lineno)]
        if not around:
            return Statement(path, line, text)
        around.sort(key=lambda s: (s.end_lineno or s.lineno) - s.lineno)
        loops = tuple(
            s.lineno for s in around[: _function(around)]
            if isinstance(s, (ast.For, ast.While)) and line >= s.body[0].lineno
        )  # fmt: skip
        first = around[0].lineno
        return Statement(
            path, first, linecache.getline(path, first).strip(), _target(around[0]), loops
        )

    def _all(self, path: str) -> list[ast.stmt]:
        found = self._trees.get(path)
        if found is None:
            try:
                tree = ast.parse("".join(linecache.getlines(path)))
            except SyntaxError:
                # a cell with commands of IPython, or a file that changed since
                tree = ast.Module([], [])
            found = [n for n in ast.walk(tree) if isinstance(n, ast.stmt)]
            self._trees[path] = found
        return found


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


__all__ = ["Statement", "Statements"]
