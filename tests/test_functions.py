"""The table of math functions: what is written from it, and a new function as one more row."""

from __future__ import annotations

from pathlib import Path

import pytest

import schedlang as sl
from schedlang.compute import functions
from schedlang.expr.functions import FUNCTIONS, Function

PACKAGE = Path(sl.__file__).parent
STUB = PACKAGE / "compute" / "functions.pyi"
LANGUAGE = PACKAGE.parent / "docs" / "language.md"
BEGIN, END = "| function | returns | on expressions also |\n", "\n\n"
PUBLIC = [f for f in FUNCTIONS.values() if f.returns]


def stub() -> str:
    """Return what type checkers see of ``compute/functions.py``."""
    listed = "\n".join(f'    "{name}",' for name in functions.__all__)
    lines = ['"""Written from the table of functions by tests/test_functions.py."""', "",
             "from typing import Any", "", f"__all__ = [\n{listed}\n]", ""]  # fmt: skip
    for row in PUBLIC:
        operands = "x: Any" if row.arity == 1 else "x: Any, y: Any"
        lines.append(f"def {row.name}({operands}) -> Any: ...")
    return "\n".join(lines) + "\n"


def table() -> str:
    """Return the rows of the table of functions in docs/language.md."""
    def line(row: Function) -> str:
        operands = "x" if row.arity == 1 else "x, y"
        returns = row.returns.replace("``", "`")
        also = f"`{row.spelled}`" if row.ufunc else ""
        return f"| `sl.{row.name}({operands})` | {returns} | {also} |"

    return "\n".join(["|---|---|---|", *map(line, PUBLIC)])


def check_written(path: Path, wanted: str, request: pytest.FixtureRequest) -> None:
    """Check the text of a file; ``--update-golden`` writes it anew."""
    if request.config.getoption("--update-golden"):
        path.write_text(wanted, encoding="utf-8", newline="\n")
    else:
        same = path.read_text(encoding="utf-8") == wanted
        assert same, "a row changed: run this test with --update-golden"


def test_the_stub_is_written_from_the_table(request: pytest.FixtureRequest) -> None:
    check_written(STUB, stub(), request)


def test_the_document_is_written_from_the_table(request: pytest.FixtureRequest) -> None:
    before, begin, rest = LANGUAGE.read_text(encoding="utf-8").partition(BEGIN)
    check_written(LANGUAGE, before + begin + table() + rest[rest.index(END) :], request)
