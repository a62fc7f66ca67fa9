"""The limit of the cache folder, and the command that shows and clears it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.__main__ import main
from schedlang.errors import BuildError
from schedlang.runtime.cache_files import COMPILED, MODULE, contents, store
from schedlang.runtime.cache_room import DEFAULT_LIMIT, LIMIT, SECONDS_BETWEEN_LOOKS, limit
from tests.marks import compiles

CONTENT = bytes(1000)
DAY = 24 * 3600


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache folder of its own."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    monkeypatch.delenv(LIMIT, raising=False)
    return tmp_path


def age(path: Path, days: float) -> Path:
    """Make a file one that was last used some days ago."""
    then = time.time() - days * DAY
    os.utime(path, (then, then))
    return path


def stored(name: str, days: float) -> Path:
    path = COMPILED.path(name)
    store(COMPILED, path, CONTENT)
    return age(path, days)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", DEFAULT_LIMIT), ("1000", 1000), ("500M", 500_000_000), ("20GB", 20 * 10**9),
        ("1.5 GiB", 3 << 29), ("2kib", 2048), ("1T", 10**12), ("0", None), ("0GB", None),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, text)
    assert limit() == size


@pytest.mark.parametrize("text", ["much", "-1", "1e9", "5 apples", "GB", "1..5M", "nan"])
def test_no_size_is_refused_by_name(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, text)
    with pytest.raises(BuildError, match=f"{LIMIT}={text}: this is not a size; give a number"):
        store(COMPILED, COMPILED.path("a"), CONTENT)
    assert main(["cache"]) == 2


def test_what_was_not_used_for_longest_goes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, older, source = stored("old", 2), stored("older", 3), folder / "kernels" / "older.py"
    source.write_text("x = 1")
    age(source, 4)
    used = stored("used", 5)
    assert contents(COMPILED, used) == CONTENT
    notes, records = folder / "kernels" / "a.moved-1", folder / "tuning.jsonl"
    for mine in (notes, records):
        mine.write_bytes(CONTENT)
        age(mine, 90)
    monkeypatch.setenv(LIMIT, "3500")
    age(folder / ".measured", 1)
    store(MODULE, MODULE.path("new"), CONTENT)
    assert MODULE.path("new").exists() and used.exists() and old.exists()
    assert not older.exists() and not source.exists()
    assert notes.exists() and records.exists()


def test_what_is_written_stays_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    old = stored("old", 2)
    monkeypatch.setenv(LIMIT, "10")
    age(Path(os.environ["SCHEDLANG_CACHE"]) / ".measured", 1)
    store(COMPILED, COMPILED.path("new"), CONTENT)
    assert contents(COMPILED, COMPILED.path("new")) == CONTENT and not old.exists()


def test_the_folder_is_measured_at_times(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "1500")
    first, second = stored("first", 2), stored("second", 1)
    assert first.exists() and second.exists()  # the first look was before the second file
    age(folder / ".measured", 2 * SECONDS_BETWEEN_LOOKS / DAY)
    third = stored("third", 0)
    assert [p.exists() for p in (first, second, third)] == [False, False, True]


@compiles
def test_a_kernel_runs_though_its_files_went(monkeypatch: pytest.MonkeyPatch) -> None:
    A = sl.placeholder((5,), name="A")
    x = np.arange(5, dtype="float32")
    monkeypatch.setenv(LIMIT, "1")
    for number in (2, 3, 2):
        s = sl.schedule(sl.compute((5,), lambda i, n=number: A[i] * n, name="B"))
        f = sl.build(s)
        assert np.array_equal(f(x), x * number)
        for measured in Path(os.environ["SCHEDLANG_CACHE"]).glob(".measured"):
            age(measured, 1)


def test_the_command_measures_and_lists(capsys: pytest.CaptureFixture[str]) -> None:
    stored("first", 40), stored("second", 2)
    assert main(["cache", "--list", "1"]) == 0
    printed = capsys.readouterr().out
    assert "2.1 kB in      2      kernels: source and compiled code" in printed
    assert "the limit is 8.0 GB (SCHEDLANG_CACHE_LIMIT)" in printed
    assert "used    2.0 days ago  kernels/second" in printed and "first" not in printed
    assert main(["cache", "--list", "--unused", "30"]) == 0
    printed = capsys.readouterr().out
    assert "kernels/first" in printed and "second" not in printed


def test_the_command_clears(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = stored("first", 40), stored("second", 2)
    (folder / "tuning.jsonl").write_text("")
    assert main(["cache", "--clear", "--unused", "30"]) == 0
    assert f"1.1 kB in      1 from {folder}" in capsys.readouterr().out
    assert not first.exists() and second.exists()
    assert main(["cache", "--clear"]) == 0
    assert not second.exists() and (folder / "tuning.jsonl").exists()


@pytest.mark.parametrize("wrong", [["--list", "-1"], ["--unused", "-1"], ["--unused", "nan"]])
def test_the_command_refuses(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", *wrong]) == 2
    assert "are 0 or more" in capsys.readouterr().err


@pytest.mark.slow
def test_processes_write_and_clear_at_the_same_time(folder: Path) -> None:
    work = (
        "from schedlang.runtime.cache_files import COMPILED, contents, store\n"
        "from schedlang.__main__ import main\n"
        "for n in range(60):\n"
        "    path = COMPILED.path(f'file{n % 7}')\n"
        "    store(COMPILED, path, bytes(100))\n"
        "    assert contents(COMPILED, path) in (None, bytes(100))\n"
        "    if n % 5 == 0:\n"
        "        main(['cache', '--clear'])\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", work], stderr=subprocess.PIPE, stdout=-3)
        for _ in range(2)
    ]
    assert [(p.communicate()[1], p.returncode) for p in running] == [(b"", 0)] * 2
