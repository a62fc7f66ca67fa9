"""Tables of docs/reference/ that list what the package has: targets, GPUs, extras, commands."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from schedlang.__main__ import main
from schedlang.target import DEVICES
from schedlang.target_kinds import KINDS

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
TARGETS = REFERENCE / "targets.md"
ENVIRONMENT = (REFERENCE / "environment.md").read_text("utf-8")


def section(page: str, title: str) -> str:
    """Return what stands under a heading of the second level."""
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_column(text: str) -> list[str]:
    """Return the first code of each row of the tables in a text."""
    return re.findall(r"^\| `([^`]+)`", text, re.M)


def test_all_targets_are_listed() -> None:
    page = TARGETS.read_text("utf-8").partition("\n## ")[0]
    rows = dict(re.findall(r'^\| `"(\S+)"` \| (.*) \|$', page, re.M))
    assert [*rows] == [*KINDS]
    for name, facts in KINDS.items():
        assert re.findall(r'te\'s `"(\w+)"`', rows[name]) == [*facts.spellings]


def test_the_table_of_gpus_is_written_from_their_limits(request: pytest.FixtureRequest) -> None:
    rows = [
        f"| `{d.arch}` | {d.shared_opt_in // 1024} KiB | {d.shared_per_sm // 1024} KiB "
        f"| {d.threads_per_sm:,} | {d.blocks_per_sm} |\n"
        for d in DEVICES.values()
    ]
    page = TARGETS.read_text("utf-8")
    line = "|---|---|---|---|---|\n"
    begin = page.index(line, page.index("\n## GPUs")) + len(line)
    wanted = page[:begin] + "".join(rows) + page[page.index("\n\n", begin - 1) + 1 :]
    if request.config.getoption("--update-golden"):
        TARGETS.write_text(wanted, encoding="utf-8", newline="\n")
    assert TARGETS.read_text("utf-8") == wanted, "run this test with --update-golden"


def test_all_extras_are_listed() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = first_column(section(ENVIRONMENT, "Installation"))
    assert sorted(listed) == sorted(setup["options.extras_require"])


def test_all_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    commands = re.findall(r"^    ([a-z]+) ", capsys.readouterr().out, re.M)
    assert "demo" in commands and len(commands) > 5
    listed = [row.split()[0] for row in first_column(section(ENVIRONMENT, "Commands"))[1:]]
    assert sorted(listed) == sorted(commands)


def test_all_environment_variables_are_listed() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "schedlang").rglob("*.py")]
    read = {name for text in texts for name in re.findall(r'"(SCHEDLANG_[A-Z_]+)"', text)}
    assert "SCHEDLANG_CACHE" in read and len(read) > 4
    table, _, others = section(ENVIRONMENT, "Environment variables").partition("of others")
    assert sorted(first_column(table)) == sorted(read)
    package = "\n".join(texts)
    assert all(name in package for name in first_column(others))
