"""tests/README.md lists every test and every file that is marked slow, with its reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.marks import slow_but

HERE = Path(__file__).parent


def rows() -> dict[str, list[str]]:
    """Return the cells of each row of the table, by the name of its test or file."""
    table = (HERE / "README.md").read_text(encoding="utf-8").partition("## Slow tests")[2]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line[:3] == "| `"]
    return {cells[0].strip("`"): cells[1:] for cells in lines}


def test_each_slow_test_is_in_the_table(request: pytest.FixtureRequest) -> None:
    listed = set(rows())
    slow = request.config.stash[SLOW] - listed
    missing = sorted(name for name in slow if name.partition("::")[0] not in listed)
    assert not missing, f"marked slow without a reason in tests/README.md: {missing}"


def test_each_row_of_the_table_is_a_slow_test_with_a_reason() -> None:
    listed = rows()
    assert len(listed) > 20
    for name, cells in listed.items():
        file, _, function = name.partition("::")
        text = (HERE / f"{file}.py").read_text(encoding="utf-8")
        if function:
            assert file not in listed, f"all of {file} is slow, so {name} needs no row"
            marks = re.search(rf"((?:^[@ )\]][^\n]*\n)+)def {function}\(", text, re.M)
            assert marks and re.search("slow|bugs", marks[1]), f"{name} is not marked slow"
        else:
            assert re.search(r"^pytestmark = \[?\s*pytest.mark.slow\b", text, re.M), name
        assert len(cells) == 2 and all(cells), name


def test_an_unknown_case_name_is_refused() -> None:
    with pytest.raises(KeyError, match="'c'.* of .'a', 'b'."):
        slow_but(["c"], ["a", "b"])
