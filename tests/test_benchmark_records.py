"""The records that a package ships: the fastest schedule of each computation that worked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import schedlang as sl
from benchmarks import records
from schedlang.autotune.database import Database
from schedlang.autotune.record import UNTUNED, Trial, Where


def test_the_fastest_of_each_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] + 1, name="B")
    small = sl.compute((32,), lambda i: A[i] + 1, name="small")
    plain = sl.schedule(B).to_json()
    wide = sl.schedule(B)
    wide[B].vectorize(B.op.axis[0])
    here = Where.here([B], sl.Target("cpu"), {})
    first, second = Database(tmp_path / "a.jsonl"), Database(tmp_path / "b.jsonl")
    first.add(here, "B", Trial(0, "ok", plain, seconds=3e-6, source="0"), [B])
    first.add(here, "B", Trial(1, "ok", wide.to_json(), seconds=2e-6, source="1"), [B])
    first.add(here, "B", Trial(2, "wrong answer", plain, source="2"), [B])
    second.add(here, "B", Trial(0, "ok", plain, seconds=4e-6, source="0"), [B])
    elsewhere = replace(here, machine="another, 4 cores")
    second.add(elsewhere, "B", Trial(0, "ok", plain, seconds=5e-6, source="0"), [B])
    older = replace(here, versions=(("schedlang", "0"),))
    second.add(older, "B", Trial(1, "ok", plain, seconds=4e-6, source="1"), [B])
    where = Where.here([small], sl.Target("cpu"), {})
    second.add(where, "small", Trial(0, "ok", sl.schedule(small).to_json(), seconds=1e-6), [small])
    out = tmp_path / "kept.jsonl"
    records.main([str(first.path), str(second.path), "--out", str(out)])
    assert capsys.readouterr().out.startswith("3 records")
    kept = Database(out)
    assert [(e.name, e.seconds, e.where.machine) for e in kept.entries()] == [
        ("B", 2e-6, here.machine), ("B", 5e-6, "another, 4 cores"), ("small", 1e-6, here.machine),
    ]  # fmt: skip
    assert sl.best(B, "cpu", database=kept).schedule.steps[0].primitive == "vectorize"
    # loops without a schedule need a rival
    alone, rivals = Database(tmp_path / "alone.jsonl"), Database(tmp_path / "rivals.jsonl")
    untuned = Trial(0, "ok", plain, seconds=1e-6, strategy=UNTUNED)
    for database in (alone, rivals):
        database.add(here, "B", untuned, [B])
    rivals.add(here, "B", Trial(1, "ok", wide.to_json(), seconds=2e-6, source="1"), [B])
    records.main([str(rivals.path), "--out", str(out)])
    assert [entry.seconds for entry in Database(out).entries()] == [1e-6, 2e-6]
    # a mistake leaves the file as it is
    failed = Database(tmp_path / "failed.jsonl")
    failed.add(here, "B", Trial(0, "wrong answer", plain, source="0"), [B])
    whole = out.read_bytes()
    for name, message in (("c.jsonl", "there is no file .*c.jsonl"), ("failed.jsonl", "no trial"),
                          ("alone.jsonl", "no trial")):  # fmt: skip
        with pytest.raises(SystemExit):
            records.main([str(tmp_path / name), "--out", str(out)])
        assert re.search(message, capsys.readouterr().err) and out.read_bytes() == whole
