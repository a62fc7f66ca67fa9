"""Comments say what decided the numbers of tactics and of the cost model, if anything did."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedlang.autotune.costs
import schedlang.autotune.model
import schedlang.autotune.tactics
from benchmarks import constants

PACKAGES = (schedlang.autotune.tactics, schedlang.autotune.costs, schedlang.autotune.model)
# what decided a number, by its comment: a measurement, the search itself or a document; if nothing
# did, the comment says that nobody has measured it
DECIDED = re.compile(
    r"measured|fitted|ended at|came closest|whitepaper|data sheet|by definition|a search decides"
)


def numbers(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of the constants of a file that are numbers, with the comment above them."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign):
            continue
        name = ast.unparse(node.targets[0])
        values = list(ast.walk(node.value))
        plain = not any(isinstance(value, ast.Call) for value in values)
        counted = any(isinstance(v, ast.Constant) and type(v.value) in (int, float) for v in values)
        if not (name.isupper() and plain and counted):
            continue
        above = node.lineno - 1
        while above and lines[above - 1].startswith("#"):
            above -= 1
        yield name, " ".join(line.removeprefix("# ") for line in lines[above : node.lineno - 1])


def test_each_number_says_what_decided_it() -> None:
    files = [path for p in PACKAGES for path in sorted(Path(p.__path__[0]).rglob("*.py"))]
    found = {f"{path.stem}.{name}": text for path in files for name, text in numbers(path)}
    assert len(found) > 80
    assert [name for name, text in found.items() if not DECIDED.search(text)] == []


@pytest.mark.slow
def test_records_are_compared_with_estimates() -> None:
    records = list(constants.timed())
    assert len(records) > 100
    some = records[:5]
    spreads = [constants.spread(some, "costs.estimate", "RATES", f) for f in constants.FACTORS]
    assert all(0 < spread < 3 for spread in spreads) and len(set(spreads)) == 3
