"""Tests of the tuning database: round trips, concurrent processes, damaged files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.autotune.database import Database
from schedlang.autotune.record import OUTCOMES, Trial, Where
from schedlang.autotune.records.entry import LONGEST
from schedlang.autotune.records.lines import open_lines
from schedlang.errors import DatabaseWarning, TuningError
from schedlang.runtime.environment import cores, threads
from schedlang.runtime.locks import lock
from tests.marks import slow_but

HERE = Where(
    "ab" * 32, (("m", 8), ("n", 64)), "cpu, 16 vectors of 32 bytes", "AMD EPYC 7R13, 2 cores",
    (("llvmlite", "0.45"), ("numba", "0.62"), ("schedlang", "0.1")), (64, 64, 8), "llvm",
)  # fmt: skip
STEPS = '{"schedlang": 1, "steps": []}'
bound_by_permissions = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind this user"
)


def trial(number: int = 0, seconds: float | None = 1.0, outcome: str = "ok") -> Trial:
    return Trial(number, outcome, STEPS, {"rows": [4, 16], "how": "tile"}, seconds)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuning.jsonl"


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """Turn warnings into errors, so that an unexpected warning fails a test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DatabaseWarning)
        yield


def skipped(path: Path) -> tuple[list[int], list[str]]:
    """Return the numbers of the trials that can be read, and the problems."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DatabaseWarning)
        database = Database(path)
        return [e.trial.number for e in database.entries()], database.problems


def test_every_field_is_read_as_it_was_written(path: Path) -> None:
    trials = [
        Trial(
            k, outcome, f"steps {k} é\u2028\n", {"a": [1, [2.5, None]], "b": True, "ü": "x"},
            1e-6 / 3 if outcome == "ok" else None, 123.25, 'first "line"', f"c0ffee{k}",
            "evolution", 0.125, template="mine",
        )
        for k, outcome in enumerate(OUTCOMES)
    ]  # fmt: skip
    writer = Database(path)
    for one in trials:
        writer.add(HERE, "C", one)
    expected = [replace(t, resumed=True) for t in trials]
    for database in (writer, Database(str(path)), Database.open(path), Database.open(writer)):
        assert database.trials(HERE) == expected
        assert [(e.where, e.name, e.line) for e in database.entries()] == [
            (HERE, "C", k + 1) for k in range(len(OUTCOMES))
        ]
        assert database.problems == []
    lines = path.read_bytes().splitlines()
    assert len(lines) == len(trials)
    assert all(json.loads(x)["format"] == "schedlang.tuning" for x in lines)
    assert all(json.loads(x)["version"] == 1 for x in lines)


def test_the_default_is_a_file_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    database = Database.open(None)
    assert database.path == tmp_path / "cache" / "tuning.jsonl"
    assert list(database.entries()) == [] and not database.path.exists()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "file"))
    with pytest.raises(TuningError, match="set SCHEDLANG_CACHE"):
        Database()


def test_a_missing_file_is_empty_and_is_not_made_by_reading(path: Path) -> None:
    database = Database(path)
    assert database.trials(HERE) == [] and database.best(HERE) is database.nearest(HERE) is None
    assert database.problems == [] and not path.exists()
    database.check_writable()
    assert path.read_bytes() == b""


def test_the_best_is_the_fastest_valid_trial(path: Path) -> None:
    database = Database(path)
    for number, seconds, outcome in [
        (0, 3.0, "ok"), (1, None, "wrong answer"), (2, 2.0, "ok"), (3, None, "ok"),
        (4, None, "crashed"),
    ]:  # fmt: skip
        database.add(HERE, "C", trial(number, seconds, outcome))
    found = database.best(HERE)
    assert found is not None and found.trial.number == 2 and found.differs == ()
    assert database.best(replace(HERE, op="cd" * 32)) is None
    assert [t.number for t in database.trials(HERE)] == [0, 1, 2, 3, 4]


DIFFERENT: list[tuple[str, Where, str]] = [
    ("versions", replace(HERE, versions=(("llvmlite", "0.45"), ("numba", "0.61"),
                                         ("schedlang", "0.1"))), "with numba 0.61, not 0.62"),
    ("machine", replace(HERE, machine="Xeon, 8 cores"),
     "on Xeon, 8 cores, not on AMD EPYC 7R13, 2 cores"),
    ("target", replace(HERE, target="cpu, 32 vectors of 64 bytes"),
     "for cpu, 32 vectors of 64 bytes, not for cpu, 16 vectors of 32 bytes"),
    ("extents", replace(HERE, extents=(72, 72, 8)), "for extents 72, not 64"),
    ("sizes", replace(HERE, sizes=(("m", 8), ("n", 128))),
     "for m = 8, n = 128, not for m = 8, n = 64"),
    ("far extents", replace(HERE, extents=(100, 72, 30)), "for extents 100, 72, 30, not 64, 64, 8"),
    ("far sizes", replace(HERE, sizes=(("m", 8), ("n", 1024))),
     "for m = 8, n = 1024, not for m = 8, n = 64"),
    ("no sizes", replace(HERE, sizes=()), "for any size, not for m = 8, n = 64"),
]  # fmt: skip


@pytest.mark.parametrize("name, where, said", DIFFERENT, ids=[d[0] for d in DIFFERENT])
def test_the_nearest_says_what_differs(path: Path, name: str, where: Where, said: str) -> None:
    database = Database(path)
    database.add(where, "C", trial())
    assert database.best(HERE) is None and database.trials(HERE) == []
    found = database.nearest(HERE)
    assert found is not None and found.differs == (said,) and found.where == where


def test_smaller_differences_win_and_then_shorter_times(path: Path) -> None:
    database = Database(path)
    # farther trials are faster, but nearness must win over seconds
    order = [HERE, *(where for _, where, _ in DIFFERENT)]
    for number, where in reversed(list(enumerate(order))):
        database.add(where, "C", trial(number, 100.0 - number))
    assert [e.trial.number for e in database.ranked(HERE)] == list(range(len(order)))
    both = replace(DIFFERENT[0][1], machine="Xeon, 8 cores")
    database.add(both, "C", trial(70, 1e-9))
    database.add(DIFFERENT[1][1], "C", trial(71, 200.0))
    database.add(DIFFERENT[1][1], "C", trial(72, 50.0))
    ranked = [e.trial.number for e in database.ranked(HERE)]
    assert ranked[:6] == [0, 1, 72, 2, 71, 70]


def test_other_computations_and_other_kinds_of_target_do_not_count(path: Path) -> None:
    database = Database(path)
    database.add(replace(HERE, op="cd" * 32), "C", trial(0))
    for number, target in enumerate(("cuda sm_90", "cpuish, 16 vectors", "python, 16 vectors"), 1):
        database.add(replace(HERE, target=target), "C", trial(number))
    assert database.nearest(HERE) is None and database.problems == []
    cuda = replace(HERE, target="cuda sm_80")
    found = database.nearest(cuda)
    assert found is not None and found.differs == ("for cuda sm_90, not for cuda sm_80",)
    assert database.nearest(replace(HERE, target="cuda-emulator sm_90")) is None


def test_lines_appended_by_others_are_read_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from schedlang.autotune import database as module

    parsed: list[bytes] = []
    plain = module.from_line
    monkeypatch.setattr(module, "from_line", lambda line: (parsed.append(line), plain(line))[1])
    reader, writer = Database(path), Database(path)
    for number in range(5):
        writer.add(HERE, "C", trial(number))
        assert [t.number for t in reader.trials(HERE)] == list(range(number + 1))
    assert len(parsed) == 5


def test_a_file_that_was_cut_or_replaced_is_read_anew(path: Path) -> None:
    database = Database(path)
    for number in range(3):
        database.add(HERE, "C", trial(number))
    whole = path.read_bytes()
    assert len(database.trials(HERE)) == 3
    first = whole.splitlines(keepends=True)[0]
    path.write_bytes(first)
    assert [t.number for t in database.trials(HERE)] == [0]
    # the same file, rewritten with the same length and longer
    changed = whole.replace(b'"number":0', b'"number":7')
    path.write_bytes(changed + changed)
    assert [t.number for t in database.trials(HERE)] == [7, 1, 2, 7, 1, 2]
    # another file of the same length and the same end
    other = path.with_name("other")
    other.write_bytes(whole + changed)
    os.replace(other, path)
    assert [t.number for t in database.trials(HERE)] == [0, 1, 2, 7, 1, 2]
    path.unlink()
    assert database.trials(HERE) == []
    database.add(HERE, "C", trial(9))
    assert [t.number for t in database.trials(HERE)] == [9]


@pytest.mark.parametrize("step", slow_but(["7"], [1, 7]))
def test_a_last_line_cut_at_any_byte_loses_nothing_else(path: Path, step: int) -> None:
    for number in range(2):
        Database(path).add(HERE, "C", trial(number))
    before = path.read_bytes()
    Database(path).add(HERE, "C", trial(2))
    whole = path.read_bytes()
    for end in {*range(len(before), len(whole) + 1, step), len(whole) - 1, len(whole)}:
        path.write_bytes(whole[:end])
        numbers, problems = skipped(path)
        complete = end >= len(whole) - 1
        assert numbers == ([0, 1, 2] if complete else [0, 1]), end
        assert bool(problems) == (len(before) < end < len(whole) - 1), end
        Database(path).add(HERE, "C", trial(3))
        numbers, problems = skipped(path)
        assert numbers == ([0, 1, 2, 3] if complete else [0, 1, 3]), end
        assert all(p.startswith("line 3: it is not JSON") for p in problems)


def test_an_incomplete_line_is_read_when_it_is_complete(path: Path) -> None:
    Database(path).add(HERE, "C", trial(0))
    Database(path).add(HERE, "C", trial(1))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.warns(DatabaseWarning):
        database = Database(path)
        assert [t.number for t in database.trials(HERE)] == [0]
    with path.open("ab") as file:
        file.write(whole[-20:])
    assert [t.number for t in database.trials(HERE)] == [0, 1]
    assert database.problems == []


WRITER = """
import sys
from schedlang.runtime import locks
from schedlang.autotune.database import Database
from schedlang.autotune.record import Trial, Where
path, first, count, size, locked = sys.argv[1], *map(int, sys.argv[2:])
if not locked:
    locks.fcntl = None
where = Where("ab" * 32, (), "cpu", "machine", (), (), "llvm")
database = Database(path)
sys.stdout.write("ready\\n"); sys.stdout.flush()
sys.stdin.readline()
for number in range(first, first + count):
    database.add(where, "C", Trial(number, "ok", str(number) * size, seconds=1.0))
    sys.stdout.write(f"{number}\\n"); sys.stdout.flush()
"""
WRITTEN = Where("ab" * 32, (), "cpu", "machine", (), (), "llvm")


def writer(
    path: Path, first: int, count: int, size: int, locks: bool = True
) -> subprocess.Popen[str]:
    numbers = (first, count, size, int(locks))
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), *map(str, numbers)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.parametrize("locks", slow_but(["True"], [True, False]))
def test_two_processes_write_at_once(path: Path, locks: bool) -> None:
    # lines longer than a page and than an atomic write to a pipe
    processes = [writer(path, first, 100, 3000, locks) for first in (1000, 2000)]
    for process in processes:
        go(process)
    reader = Database(path)
    while any(p.poll() is None for p in processes):
        # without locks a reader may see half of a line, and warn too early
        if locks:
            reader.trials(WRITTEN)
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
    assert [p.wait() for p in processes] == [0, 0]
    for database in (reader, Database(path)):
        trials = database.trials(WRITTEN)
        assert sorted(t.number for t in trials) == [*range(1000, 1100), *range(2000, 2100)]
        assert all(t.steps == str(t.number) * 3000 for t in trials)
        assert database.problems == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
def test_a_killed_process_loses_the_trial_in_flight_alone(path: Path) -> None:
    done: list[int] = []
    for attempt in range(4):
        process = writer(path, 1000 * (attempt + 1), 900, 20000)
        go(process)
        time.sleep(0.02 * (attempt + 1))
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        done += [int(line) for line in process.stdout.read().split() if len(line) == 4]
        process.wait()
    numbers, problems = skipped(path)
    assert done and set(done) <= set(numbers)
    assert len(numbers) <= len(done) + 4 and len(problems) <= 4
    Database(path).add(WRITTEN, "C", trial(77))
    assert skipped(path)[0] == [*numbers, 77]


LINE: dict[str, Any] = {
    "format": "schedlang.tuning", "version": 1, "name": "C", "op": "ab" * 32,
    "extents": [64], "sizes": {"n": 64},
    "target": "cpu", "machine": "M", "versions": {"numba": "0.62"},
    "names": {"parts": [], "sizes": []},
    "trial": {"number": 0, "outcome": "ok", "seconds": 1.0, "estimate": None, "took": 0.5,
              "detail": "", "source": "", "strategy": "", "template": "",
              "decisions": {}, "steps": ""},
}  # fmt: skip


def edited(place: str, value: Any) -> bytes:
    data = json.loads(json.dumps(LINE))
    *parents, last = place.split(".")
    inner = data
    for parent in parents:
        inner = inner[parent]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return json.dumps(data).encode()


DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]

HOSTILE: list[tuple[bytes, str]] = [
    (b"", ""),
    (b"   ", ""),
    (b"\xff\xfe{}", "not UTF-8"),
    (b"not json", "not JSON"),
    (b"[]", "it is not an object"),
    (b"3", "it is not an object"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"a":' * 100_000, "nested too deeply"),
    (b"1" * 10_000, "."),
    (b"{" + b" " * (LONGEST + 5) + b"}", "longer than"),
    (b"cbuiltins\nexit\n(tR.".replace(b"\n", b" "), "not JSON"),
    (edited("format", "pickle"), '"format" is not'),
    (edited("format", ...), '"format" is not'),
    (edited("version", 2), "it has version 2; only version 1 can be read"),
    (edited("version", True), "has version True"),
    (edited("version", [[[[]]]]), "has version a list"),
    (edited("op", "abc"), '"op" is not the key'),
    (edited("op", 3), "'op' is not text"),
    (edited("extents", {}), '"extents" is not a list'),
    (edited("extents", [64, -1]), "'extents' is not a count: -1"),
    (edited("extents", [64.0]), "'extents' is not a count"),
    (edited("sizes", []), '"sizes" is not an object'),
    (edited("sizes.n", -1), "'n' is not a count: -1"),
    (edited("sizes.n", 2**63), "'n' is not a count"),
    (edited("sizes.n", True), "'n' is not a count"),
    (edited("sizes.n", 1.5), "'n' is not a count"),
    (edited("target", None), "'target' is not text"),
    (edited("machine", "\ud800"), "half a character"),
    (edited("versions.numba", 0.62), "'numba' is not text"),
    (edited("names", "C"), '"names" is not an object'),
    (edited("names.parts", {}), '"parts" is not a list'),
    (edited("names.parts", [3]), "'parts' is not text"),
    (edited("trial", ...), 'has no "trial"'),
    (edited("trial.outcome", "great"), "outcome 'great' is unknown"),
    (edited("trial.outcome", ["ok"]), "'outcome' is not text"),
    (edited("trial.number", "0"), "'number' is not a count"),
    (edited("trial.seconds", -1.0), "is not a time"),
    (edited("trial.seconds", 0), "is not a time"),
    (edited("trial.seconds", "1"), "'seconds' is not a number"),
    (edited("trial.seconds", True), "'seconds' is not a number"),
    (edited("trial.seconds", float("nan")), "NaN, which is not a number"),
    (edited("trial.seconds", float("inf")), "Infinity, which is not a number"),
    (edited("trial.seconds", 1.0).replace(b"1.0", b"1e999"), "'seconds' is not a number: inf"),
    (edited("trial.seconds", 10**400), "'seconds' is not a number"),
    (edited("trial.took", None), '"took" is not a time'),
    (edited("trial.took", -1), '"took" is not a time'),
    (edited("trial.decisions", []), '"decisions" is not an object'),
    (edited("trial.decisions", {"a": {"b": 1}}), "a decision is an object"),
    (edited("trial.decisions", {"a": [[[{}]]]}), "a decision is an object"),
    (edited("trial.steps", {}), "'steps' is not text"),
]


@pytest.mark.parametrize("line, why", HOSTILE, ids=[str(k) for k in range(len(HOSTILE))])
def test_a_line_that_is_no_trial_is_skipped(path: Path, line: bytes, why: str) -> None:
    good = json.dumps(LINE).encode()
    path.write_bytes(b"\n".join([good, line, good, b""]))
    numbers, problems = skipped(path)
    assert numbers == [0, 0]
    assert len(problems) == (why != "")
    assert all(p.startswith("line 2: ") and why in p for p in problems), problems
    # as the last line, without a newline
    path.write_bytes(good + b"\n" + line)
    numbers, problems = skipped(path)
    assert numbers == [0] and len(problems) == (why != "")


def test_one_warning_names_the_count_the_first_and_the_path(path: Path) -> None:
    good = json.dumps(LINE).encode()
    path.write_bytes(b"\n".join([good, b"x", good, b"y", b""]))
    with pytest.warns(DatabaseWarning) as caught:
        database = Database(path)
        list(database.entries())
        assert len(database.problems) == 2
    assert len(caught) == 1
    said = str(caught[0].message)
    assert said.startswith(f"2 lines are skipped in {path}; line 2: it is not JSON")
    assert caught[0].filename == __file__
    assert list(database.entries())[1].line == 3


def test_a_huge_line_is_not_kept_in_memory(path: Path) -> None:
    import tracemalloc

    good = json.dumps(LINE).encode()
    with path.open("wb") as file:
        file.write(good + b"\n")
        for _ in range(64):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + good + b"\n")
    tracemalloc.start()
    numbers, problems = skipped(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert numbers == [0, 0] and problems == [f"line 2: it is longer than {LONGEST} bytes"]
    assert peak < 4 * LONGEST


def test_the_lines_of_one_computation_are_read_alone(path: Path) -> None:
    whole, other = Database(path), "cd" * 32
    for number in range(3):
        whole.add(HERE, "C", trial(number))
        whole.add(replace(HERE, op=other), "D", trial(number))
    one = Database(path, HERE.op)
    assert [entry.line for entry in one.entries()] == [1, 3, 5]
    assert [entry for entry in whole.entries() if entry.where.op == HERE.op] == [*one.entries()]
    with path.open("ab") as file:
        # no warning: the line is of another computation
        file.write(json.dumps({**LINE, "op": other, "version": 2}).encode() + b"\n")
    whole.add(HERE, "C", trial(3))
    assert [entry.line for entry in one.entries()] == [1, 3, 5, 8]
    path.unlink()
    assert not [*one.entries()]


GOOD = json.dumps(LINE).encode()
noise = st.binary(max_size=60).map(lambda b: b.replace(b"\n", b"?"))
mutated = st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(0, 3)).map(
    lambda m: (GOOD[: m[0]] + bytes([m[1]]) * m[2] + GOOD[m[0] + 1 :]).replace(b"\n", b"?")
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(noise, mutated, st.just(GOOD)), max_size=8), st.booleans())
def test_valid_lines_are_read_beside_any_others(lines: list[bytes], ended: bool) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder, "tuning.jsonl")
        path.write_bytes(b"\n".join(lines) + b"\n" * ended)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DatabaseWarning)
            database = Database(path)
            kept = {e.line for e in database.entries()}
            where = Where("ab" * 32, (("n", 64),), "cpu", "M", (("numba", "0.62"),), (64,), "llvm")
            assert len(database.trials(where)) >= lines.count(GOOD)
            database.nearest(where)
            bad = {int(p.split(":")[0].removeprefix("line ")) for p in database.problems}
            database.add(where, "C", trial(5))
            assert database.trials(where)[-1].number == 5
    assert {k for k, line in enumerate(lines, 1) if line == GOOD} <= kept
    assert not kept & bad
    assert kept | bad == {k for k, line in enumerate(lines, 1) if line.strip()}


# all characters of UTF-8, which st.text() looks for in seconds
CHARACTERS = st.characters(exclude_categories=["Cs"])
texts = st.text(CHARACTERS, max_size=5)
nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner),
    max_leaves=5,
)
places = st.sampled_from([*LINE, *(f"trial.{k}" for k in LINE["trial"]), "names.parts", "sizes.n"])


@settings(max_examples=100, deadline=None)
@given(places, nested)
def test_a_field_of_any_kind_is_read_or_refused(place: str, value: Any) -> None:
    from schedlang.autotune.records.entry import from_line, to_line

    try:
        entry = from_line(edited(place, value))
    except ValueError as error:
        assert str(error) and str(error).isascii() and len(str(error)) < 150
    else:
        assert from_line(to_line(entry)) == entry


@pytest.mark.parametrize(
    "bad, why",
    [
        (replace(trial(), seconds=float("nan")), "not JSON compliant"),
        (replace(trial(), seconds=-1.0), "is not a time"),
        (replace(trial(), outcome="fine"), "outcome 'fine' is unknown"),
        (replace(trial(), decisions={"a": object()}), "not JSON serializable"),
        (replace(trial(), decisions={"a": DEEP}), "ecursion"),
        (replace(trial(), steps="x" * LONGEST), "of at most"),
    ],
)
def test_a_trial_that_could_not_be_read_is_not_written(path: Path, bad: Trial, why: str) -> None:
    with pytest.raises(TuningError, match=f"trial 0 of C cannot be written.*{why}"):
        Database(path).add(HERE, "C", bad)
    assert not path.exists()


def test_an_error_may_have_any_characters(path: Path) -> None:
    Database(path).add(HERE, "C", replace(trial(), detail="\udcff" + "x" * 10_000))
    (found,) = Database(path).trials(HERE)
    assert found.detail.startswith("?xxx") and len(found.detail) == 2000


def test_a_directory_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="it is a directory\n  Give database= a readable file"):
        Database(tmp_path)
    for empty in ("", "."):
        with pytest.raises(TuningError, match="it is a directory"):
            Database(empty)


@pytest.mark.parametrize("value", [3, b"x", object(), ["a"]])
def test_values_other_than_paths_are_refused(value: Any) -> None:
    with pytest.raises(TuningError, match="give a path, a Database or None"):
        Database.open(value)


def test_odd_paths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for odd in ("a\0b", str(tmp_path / "file" / "x"), "~nobody_of_this_name/x"):
        with pytest.raises(TuningError):
            Database(odd)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(TuningError, match="it is not a regular file"):
            Database(tmp_path / "pipe")


def test_symbolic_links(tmp_path: Path, path: Path) -> None:
    link, loop, lost = tmp_path / "link", tmp_path / "loop", tmp_path / "lost"
    link.symlink_to(path)
    loop.symlink_to(loop)
    lost.symlink_to(tmp_path / "no folder" / "x")
    database = Database(link)
    assert database.trials(HERE) == []
    database.add(HERE, "C", trial(4))
    assert skipped(path) == ([4], []) and link.is_symlink()
    with pytest.raises(TuningError, match="symbolic links"):
        Database(loop)
    with pytest.raises(TuningError, match="cannot be written"):
        Database(lost).check_writable()


def test_a_missing_folder_is_refused_when_it_is_written(tmp_path: Path) -> None:
    database = Database(tmp_path / "nowhere" / "tuning.jsonl")
    assert database.best(HERE) is None
    for write in (database.check_writable, lambda: database.add(HERE, "C", trial())):
        with pytest.raises(TuningError, match="there is no folder .*nowhere"):
            write()
    assert not (tmp_path / "nowhere").exists()


@bound_by_permissions
def test_permissions(path: Path) -> None:
    Database(path).add(HERE, "C", trial(1))
    path.chmod(0o400)
    database = Database(path)
    assert len(database.trials(HERE)) == 1
    with pytest.raises(TuningError, match="cannot be written: Permission denied"):
        database.check_writable()
    path.chmod(0o200)
    with pytest.raises(TuningError, match="cannot be read: Permission denied"):
        Database(path)
    with pytest.raises(TuningError, match="cannot be read: Permission denied"):
        database.trials(HERE)


@pytest.mark.parametrize("flag, call", [(os.O_RDWR, "check_writable"), (os.O_RDONLY, "entries")])
def test_a_denied_write(path: Path, monkeypatch: pytest.MonkeyPatch, flag: int, call: str) -> None:
    """Simulate denied access, since file permissions do not bind every user."""
    database = Database(path)
    plain: Callable[..., int] = os.open

    def denied(name: Any, flags: int, *rest: Any) -> int:
        if Path(name) == path and flags & (os.O_RDWR | os.O_WRONLY) == flag:
            raise PermissionError(13, "Permission denied")
        return plain(name, flags, *rest)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(TuningError, match="(?s)Permission denied.*SCHEDLANG_CACHE"):
        getattr(database, call)()


def test_a_full_disk_gives_a_warning_and_no_damage(path: Path) -> None:
    resource = pytest.importorskip("resource")
    Database(path).add(WRITTEN, "C", trial(1))
    length = path.stat().st_size
    script = (
        "import resource, sys\n"
        "from schedlang.autotune.database import Database\n"
        "from schedlang.autotune.record import Trial, Where\n"
        "database = Database(sys.argv[1])\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({length + 50},) * 2)\n"
        f"database.add({WRITTEN!r}, 'C', Trial(2, 'ok', 'steps'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True
    )  # fmt: skip
    assert resource and "TuningError" in done.stderr and "cannot be written" in done.stderr
    assert skipped(path)[0] == [1]
    Database(path).add(WRITTEN, "C", trial(3))
    assert skipped(path)[0] == [1, 3]


def test_a_lock_that_is_never_released_blocks_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    from schedlang.autotune.records import lines

    monkeypatch.setattr(lines, "PATIENCE", 0.05)
    database = Database(path)
    database.add(HERE, "C", trial(0))
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        database.add(HERE, "C", trial(1))
        assert [t.number for t in database.trials(HERE)] == [0, 1]


def test_a_system_without_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from schedlang.runtime import locks

    monkeypatch.setattr(locks, "fcntl", None)
    Database(path).add(HERE, "C", trial(0))
    assert skipped(path) == ([0], [])


def test_the_file_is_readable_by_others_and_not_executable(path: Path) -> None:
    old = os.umask(0o022)
    try:
        Database(path).check_writable()
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_database_pickles_and_prints(path: Path) -> None:
    import pickle

    database = Database(path)
    database.add(HERE, "C", trial(3))
    again = pickle.loads(pickle.dumps(database))
    assert again.trials(HERE) == database.trials(HERE)
    assert repr(again) == f"Database({str(path)!r})"


def test_the_thread_count_of_numba_is_part_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    B = sl.compute((8,), lambda i: i + 1, name="B")

    def told(count: str) -> tuple[int, Where]:
        monkeypatch.setenv("NUMBA_NUM_THREADS", count)
        return threads(), Where.here([B], sl.Target(), {})

    usual = told("")[1]
    # numba refuses other text too
    for count in (str(cores()), "0", "x", "²"):
        assert told(count) == (cores(), usual)
    count, where = told(str(cores() + 3))
    assert count == cores() + 3 and where.machine == f"{usual.machine}, {count} threads"


def test_trials_of_this_machine_are_found(path: Path) -> None:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] * 2, name="B")
    here = Where.here([B], sl.Target(), {})
    Database(path).add(here, "B", replace(trial(), steps=sl.schedule(B).to_json()), [B])
    found = Database(path).best(here)
    assert found is not None and found.where == here
    assert found.names.parts == ("A", "B", "i", "B")


def test_a_fork_does_not_keep_the_lock(tmp_path: Path) -> None:
    """A forked child shares the open file, and would otherwise hold the lock while it lives."""
    path = tmp_path / "tuning.jsonl"
    with open_lines(path, write=True) as descriptor:
        forked = os.dup(descriptor)
    try:
        with open(path, "ab") as file:
            assert lock(file.fileno(), True, 0.2)
    finally:
        os.close(forked)
