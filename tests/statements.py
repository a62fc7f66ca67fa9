"""``python -m tests.statements [PATH]``: how many statements of Python a package has.

Imports and docstrings do not count, nor do blank lines, comments and the length of a line.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "schedlang"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a module that count."""
    for node in ast.walk(tree):
        documented = isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False)
        for field in ("body", "orelse", "finalbody"):
            listed = getattr(node, field, None)
            if not isinstance(listed, list):
                # the body of a lambda is an expression
                continue
            counted = listed[1:] if documented and field == "body" else listed
            yield from (s for s in counted if not isinstance(s, (ast.Import, ast.ImportFrom)))


def count(path: Path) -> int:
    return sum(1 for _ in statements(ast.parse(path.read_text("utf-8"))))


def main(root: Path = PACKAGE) -> None:
    packages: Counter[str] = Counter()
    files = sorted(root.rglob("*.py"))
    for path in files:
        packages[path.relative_to(root).parts[0]] += count(path)
    for name, number in packages.most_common():
        print(f"{number:7,} {name}")
    print(f"{sum(packages.values()):7,} in {len(files)} files")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
