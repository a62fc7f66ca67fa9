"""tests/README.md lists every test that is marked slow, with its reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.marks import slow_but

HERE = Path(__file__).parent


def rows() -> dict[str, list[str]]:
    """Return the cells of each row of the table, by the name of its test."""
    table = (HERE / "README.md").read_text(encoding="utf-8").partition("## Slow tests")[2]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line[:3] == "| `"]
    return {cells[0].strip("`"): cells[1:] for cells in lines}


def test_each_slow_test_is_in_the_table(request: pytest.FixtureRequest) -> None:
    missing = sorted(request.config.stash[SLOW] - set(rows()))
    assert not missing, f"marked slow without a reason in tests/README.md: {missing}"


def test_each_row_of_the_table_is_a_slow_test_with_a_reason() -> None:
    assert len(rows()) > 20
    for name, cells in rows().items():
        file, _, function = name.partition("::")
        text = (HERE / f"{file}.py").read_text(encoding="utf-8")
        found = re.search(rf"((?:^[@ )\]][^\n]*\n)+)def {function}\(", text, re.M)
        assert found and re.search("slow|bugs", found[1]), f"{name} is not marked slow"
        assert len(cells) == 2 and all(cells), name


def test_an_unknown_case_name_is_refused() -> None:
    with pytest.raises(KeyError, match="'c'.* of .'a', 'b'."):
        slow_but(["c"], ["a", "b"])
