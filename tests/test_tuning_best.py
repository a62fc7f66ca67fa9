"""Tests of ``sl.best``: schedules from a database, exact or nearest, under any names."""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from benchmarks import works
from benchmarks.computations import computation
from schedlang import te
from schedlang.autotune.best import apply_best, best, packaged
from schedlang.autotune.database import Database
from schedlang.autotune.record import UNTUNED, Trial, Where
from schedlang.autotune.records.replay import replay
from schedlang.compute.data import structure
from schedlang.compute.rename import Names, names_of, rename
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, DatabaseWarning, TuningError
from schedlang.schedule.schedule import Schedule
from tests.marks import slow_but

CPU = sl.Target()


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """Turn warnings into errors, so that an unexpected warning fails a test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DatabaseWarning)
        yield


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "tuning.jsonl")


def keep(
    database: Database, s: Schedule, seconds: float = 1.0, target: sl.Target = CPU,
    sizes: dict[str, int] | None = None, **where: Any,
) -> None:  # fmt: skip
    """Store the steps of ``s`` as a trial that took ``seconds``."""
    outputs = list(s.outputs)
    here = replace(Where.here(outputs, target, sizes or {}), **where)
    trial = Trial(0, "ok", s.to_json(), seconds=seconds)
    database.add(here, ", ".join(t.name for t in outputs), trial, outputs)


def compute(shape: Any, axes: str, body: str, name: str, **values: Any) -> Any:
    """Return ``sl.compute`` with axes of the given names."""
    return sl.compute(shape, eval(f"lambda {axes}: {body}", {"sl": sl, **values}), name=name)


# names of two inputs, two stages, and their axes x y (of D), i j k (of C)
NAMES = [
    "A B D C x y i j k",
    "X Y P Q a b c d e",
    # names that steps give to new stages
    "A B C.local C x y i j k",
    "A B C C.local x y i j k",
    "A B C.rf C x y i j k",
    "A B.local B C x y i j k",
    "D.local B D B.local.local x y i j k",
    "B A C D i j x y k",
    # equal names
    "T T T T i i2 i i2 i3",
    "A A D D x y i j k",
    # an axis named like the result of a split
    "A B D C i.outer i.inner i.inner i.outer k",
    "A B i C C D A B C",
]


def product(names: str = NAMES[0], m: Any = 24, n: Any = 32, depth: int = 16) -> SimpleNamespace:
    """Return ``C = D @ B`` with ``D = A * 2``, in a namespace."""
    a, b, d, c, x, y, i, j, k = names.split()
    A, B = sl.placeholder((m, depth), name=a), sl.placeholder((depth, n), name=b)
    D = _dotted(compute((m, depth), "x, y", "A[x, y] * 2", d, A=A), [x, y])
    r = sl.reduce_axis(depth, name="k")
    C = compute((m, n), "i, j", "sl.sum(D[i, r] * B[r, j], axis=r)", c, D=D, B=B, r=r)
    return SimpleNamespace(A=A, B=B, C=_dotted(C, [i, j, k]))


def _dotted(tensor: Tensor, axes: list[str]) -> Tensor:
    """Rename the axes of ``tensor`` to names with dots, which a lambda cannot have."""
    names = names_of([tensor])
    at = len(names.parts) - len(axes) - 1
    changed = (*names.parts[:at], *axes, names.parts[-1])
    for axis, name in zip((*tensor.op.axis, *tensor.op.reduce_axis), axes):
        object.__setattr__(axis, "name", name)
    assert names_of([tensor]).parts == changed
    return tensor


def tiled(g: SimpleNamespace, s: Schedule) -> None:
    i, j = g.C.op.axis
    io, jo, ii, ji = s[g.C].tile(i, j, 8, 8)
    s[g.C.op.input_tensors[0]].compute_at(s[g.C], io)
    s[g.C].vectorize(ji)


def cached(g: SimpleNamespace, s: Schedule) -> None:
    """Apply every primitive that makes stages twice, and steps on the new stages."""
    C, D, B = g.C, g.C.op.input_tensors[0], g.B
    CL = s.cache_write(C, "local")
    CG = s.cache_write(CL, "global")
    BL = s.cache_read(B, "local", [CG])
    BG = s.cache_read(B, "global", [BL])
    DL = s.cache_read(D, "local", [CG])
    (k,) = s[CG].op.reduce_axis
    ko, ki = s[CG].split(k, factor=4)
    RF = s.rfactor(CG, ki, 1)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 8)
    s[CL].compute_at(s[C], jo)
    s[DL].compute_root()
    s[BG].transform_layout(lambda y, x: (x // 4, y, x % 4))
    s[BL].set_scope("global")
    s[RF].fuse(s[RF].leaf_axes[0], s[RF].leaf_axes[1])
    s[RF].pragma(s[RF].leaf_axes[0], "auto_unroll_max_step", 16)
    s[D].split(s[D].op.axis[1], nparts=4, tail="guard")


def factored(g: SimpleNamespace, s: Schedule) -> None:
    (k,) = g.C.op.reduce_axis
    ko, ki = s[g.C].split(k, factor=4)
    F = s.rfactor(g.C, ki)
    s[F].compute_at(s[g.C], g.C.op.axis[0])
    s[g.C].set_store_predicate(g.C.op.axis[0] + s[g.C].leaf_axes[-1] * 0 < 24)
    s[g.C.op.input_tensors[0]].compute_inline()


def run(s: Schedule, g: SimpleNamespace, **sizes: int) -> None:
    """Compare the uncompiled kernel of ``s`` with NumPy."""
    shapes = [[e if isinstance(e, int) else sizes[e.name] for e in t.shape] for t in (g.A, g.B)]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in shapes)
    f = sl.build(s, [g.A, g.B, g.C], target="python")
    np.testing.assert_array_equal(f(a, b), (a * 2) @ b)


@pytest.mark.parametrize("steps", [tiled, cached, factored])
@pytest.mark.parametrize("old", slow_but(NAMES[2:4], [NAMES[k] for k in (0, 2, 3, 8, 10)]))
@pytest.mark.parametrize("new", NAMES)
def test_steps_hold_for_any_names(
    database: Database, steps: Callable[..., None], old: str, new: str
) -> None:
    recorded, wanted = product(old), product(new)
    s = sl.schedule(recorded.C)
    steps(recorded, s)
    keep(database, s, 2e-6)
    found = best(wanted.C, database=database)
    assert found.exact and found.note == "" and found.seconds == 2e-6
    assert found.schedule.outputs == (wanted.C,)
    # the same steps by hand
    mine = sl.schedule(wanted.C)
    steps(wanted, mine)
    assert str(found.schedule) == str(mine)
    assert found.schedule.to_json() == mine.to_json()


@pytest.mark.parametrize("steps", [tiled, cached, factored])
@pytest.mark.parametrize("new", [NAMES[0], NAMES[1], NAMES[3]])
def test_a_found_schedule_computes_the_right_values(
    database: Database, steps: Callable[..., None], new: str
) -> None:
    recorded, wanted = product(), product(new)
    s = sl.schedule(recorded.C)
    steps(recorded, s)
    keep(database, s)
    run(best(wanted.C, database=database).schedule, wanted)


def test_trials_and_entries_use_the_requested_names(database: Database) -> None:
    recorded, wanted = product(), product(NAMES[1])
    s = sl.schedule(recorded.C)
    cached(recorded, s)
    keep(database, s)
    here = Where.here([wanted.C], CPU, {})
    failed = Trial(1, "invalid", "no schedule at all")
    database.add(here, "C", failed, [recorded.C])
    mine = sl.schedule(wanted.C)
    cached(wanted, mine)
    assert [t.steps for t in database.trials(here, [wanted.C])] == [mine.to_json()]
    assert [t.steps for t in database.trials(here)] == [s.to_json(), failed.steps]
    for look in (database.best, database.nearest):
        found = look(here, [wanted.C])
        assert found is not None and found.trial.steps == mine.to_json()
    assert database.problems == []


def test_axes_that_two_stages_share(database: Database) -> None:
    """One reduction axis shared by two stages has the same structure as two axes."""

    def both(shared: bool, names: str) -> Any:
        A = sl.placeholder((8, 16), name="A")
        first, second = (sl.reduce_axis(16, name=n) for n in names.split())
        second = first if shared else second
        P = sl.compute((8,), lambda i: sl.sum(A[i, first], axis=first), name="P")
        return (
            sl.compute((8,), lambda i: P[i] + 0 * i, name="S"),
            P,
            sl.compute((8,), lambda i: sl.sum(A[i, second] * P[i], axis=second), name="Q"),
        )

    for recorded, wanted in ((True, False), (False, True), (False, False)):
        _, P, Q = both(recorded, "k r")
        s = sl.schedule(Q)
        for stage in (P, Q):
            s[stage].split(s[stage].op.reduce_axis[0], factor=4)
        keep(database, s)
        _, _, mine = both(wanted, "u v")
        found = best(mine, database=database).schedule
        assert len(found.steps) == 2
        a = np.random.default_rng(0).integers(0, 5, (8, 16)).astype("float32")
        total = a.sum(axis=1)
        np.testing.assert_array_equal(sl.build(found, target="python")(a), total * total)


def test_several_outputs_scans_and_reductions_of_pairs(database: Database) -> None:
    def pairs(p: str, q: str, axis: str) -> Any:
        A = sl.placeholder((6, 8), name=p)
        k = sl.reduce_axis(8, name=axis)
        M = sl.compute((6,), lambda i: sl.argmax(A[i, k], axis=k), name=q)
        two = sl.compute((6,), lambda i: (M[i] + 1, M[i] * 2), name="two")
        return k, M, list(two)

    k, M, outputs = pairs("A", "M", "k")
    s = sl.schedule(outputs)
    ko, ki = s[M].split(k, factor=4)
    s.rfactor(M, ki)
    s.cache_write(outputs, "local")
    keep(database, s)
    _, _, others = pairs("X", "M.rf", "r")
    found = best(others, database=database)
    a = np.random.default_rng(1).random((6, 8)).astype("float32")
    one, two = sl.build(found.schedule, target="python")(a)
    np.testing.assert_array_equal(one, a.argmax(1) + 1)
    np.testing.assert_array_equal(two, a.argmax(1) * 2)
    # the order of the outputs belongs to the computation
    with pytest.raises(TuningError, match="it was not tuned"):
        best(others[::-1], database=database)

    def running(x: str, state: str, name: str) -> Any:
        X, S = sl.placeholder((5, 4), name=x), sl.placeholder((5, 4), name=state)
        first = sl.compute((1, 4), lambda t, i: X[0, i], name=f"{name}0")
        step = sl.compute((5, 4), lambda t, i: S[t - 1, i] + X[t, i], name=f"{name}1")
        R = sl.scan(first, step, S, inputs=[X], name=name)
        return X, step, sl.compute((5, 4), lambda a, b: R[a, b] * 2, name=f"{name}2")

    X, step, out = running("X", "S", "R")
    s = sl.schedule(out)
    s.cache_read(X, "global", [step])
    s[step].split(step.op.axis[1], factor=2)
    s[out].vectorize(out.op.axis[1])
    keep(database, s)
    _, _, other = running("S", "X", "T")
    a = np.arange(20, dtype="float32").reshape(5, 4)
    found = best(other, database=database)
    assert len(found.schedule.steps) == 3
    np.testing.assert_array_equal(
        sl.build(found.schedule, target="python")(a), np.cumsum(a, axis=0) * 2
    )


def test_sizes_are_matched_by_position(database: Database) -> None:
    n, m = sl.var("n"), sl.var("m")
    recorded = product(m=n, n=m)
    s = sl.schedule(recorded.C)
    tiled(recorded, s)
    s[recorded.C].set_store_predicate(recorded.C.op.axis[0] < n)
    keep(database, s, 1.0, sizes={"n": 24, "m": 32})
    # the same names, swapped
    first, second = sl.var("m"), sl.var("n")
    wanted = product("X Y P Q a b c d e", m=first, n=second)
    assert structure(wanted.C) == structure(recorded.C)
    found = best(wanted.C, database=database, sizes={"m": 24, "n": 32})
    assert found.exact and dict(found.entry.where.sizes) == {"m": 24, "n": 32}
    assert found.exact == best(wanted.C, database=database, sizes={first: 24, second: 32}).exact
    run(found.schedule, wanted, m=24, n=32)
    run(found.schedule, wanted, m=13, n=5)
    with pytest.warns(DatabaseWarning, match=r"for m = 24, n = 32, not for m = 32, n = 24"):
        assert not best(wanted.C, database=database, sizes={"n": 24, "m": 32}).exact
    with pytest.warns(DatabaseWarning, match=r"for m = 24, n = 32, not for any size"):
        assert not best(wanted.C, database=database).exact


def test_sizes_of_one_name_are_not_confused(database: Database) -> None:
    n = sl.var("n")
    recorded = product(m=n, n=sl.var("m"))
    s = sl.schedule(recorded.C)
    s[recorded.C].set_store_predicate(recorded.C.op.axis[0] < n)
    keep(database, s)
    wanted = product(m=sl.var("q"), n=sl.var("q"))
    with pytest.warns(DatabaseWarning, match="two sizes are named q"):
        with pytest.raises(TuningError, match="the steps cannot be replayed"):
            best(wanted.C, database=database)


@pytest.mark.parametrize(
    "sizes, why",
    [
        (
            {"q": 3},
            r"best\(sizes=\{'q': 3\}\): there is no symbolic size 'q' in C; give sizes=\{'n': ",
        ),
        ({"n": -1}, "give an integer, 0 or more"),
        ({"n": 2.5}, "give an integer, 0 or more"),
        ({"n": True}, "give an integer, 0 or more"),
        ({"n": np.array(2.5)}, "give an integer, 0 or more"),
        ({"n": sl.var("q")}, "give an integer, 0 or more"),
        ({"n": 3, sl.var("n"): 4}, "the size 'n' is given twice"),
    ],
)
def test_invalid_sizes_are_refused(database: Database, sizes: Any, why: str) -> None:
    with pytest.raises(TuningError, match=why):
        best(product(m=sl.var("n")).C, database=database, sizes=sizes)


def test_the_nearest_is_used_with_a_warning(database: Database) -> None:
    g = product()
    s = sl.schedule(g.C)
    keep(database, s, 0.5, machine="Abacus, 10 beads")
    tiled(g, s)
    keep(database, s, 0.7, versions=(("numba", "0.1"),))
    with pytest.warns(DatabaseWarning) as caught:
        found = best(g.C, database=database)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert str(caught[0].message) == found.note
    assert found.note.startswith("the schedule of C is the nearest known one, and was tuned")
    assert "numba 0.1, not " in found.note and f"(line 2 of {database.path})" in found.note
    assert not found.exact and found.seconds == 0.7 and len(found.schedule.steps) == 3
    assert str(found).startswith("the nearest, C: 700 ms on ")
    # an exact match wins over a faster trial of another size
    keep(database, sl.schedule(g.C), 0.9)
    assert best(g.C, database=database).seconds == 0.9
    assert best(g.C, target=CPU, database=str(database.path)).exact


def test_steps_that_do_not_fit_are_reported_and_the_next_is_tried(database: Database) -> None:
    g = product()
    here = Where.here([g.C], CPU, {})
    s = sl.schedule(g.C)
    tiled(g, s)
    bad = [
        "", "{}", s.to_json().replace('"C"', '"Q"'), s.to_json().replace("i.outer", "j.outer"),
        s.to_json().replace("vectorize", "explode"), "[" * 10_000,
    ]  # fmt: skip
    for number, steps in enumerate(bad):
        trial = Trial(number, "ok", steps, seconds=1e-9 * (number + 1))
        database.add(here, "C", trial, [g.C] if number % 2 else ())
    keep(database, s, 3.0)
    with pytest.warns(DatabaseWarning) as caught:
        found = best(g.C, database=database)
    assert found.exact and found.seconds == 3.0 and found.entry.line == len(bad) + 1
    assert len(caught) == len(bad) == len(database.problems)
    assert all("its steps cannot be replayed: " in p for p in database.problems)
    # said once
    assert best(g.C, database=database).seconds == 3.0


def test_other_extents_are_used_if_nothing_is_closer(database: Database) -> None:
    def line(extent: int) -> Tensor:
        X = sl.placeholder((extent,), name="X")
        return sl.compute((extent,), lambda i: X[i] * 2 + 1, name="Y")

    for extent, factor in ((64, 8), (1024, 32)):
        Y = line(extent)
        s = sl.schedule(Y)
        s[Y].split(Y.op.axis[0], factor=factor)
        keep(database, s, extent * 1e-9)
    with pytest.warns(DatabaseWarning, match="for extents 64, not 100"):
        near = best(line(100), database=database)
    assert near.schedule.steps[0].args["factor"] == 8 and not near.exact
    f, x = sl.build(near.schedule), np.arange(100, dtype="float32")
    np.testing.assert_array_equal(f(x), x * 2 + 1)
    with pytest.warns(DatabaseWarning, match="for extents 1024, not 1000"):
        assert best(line(1000), database=database).entry.where.extents == (1024,) * 2


def test_steps_for_other_extents_need_not_fit(database: Database) -> None:
    def rows(extent: int) -> Tensor:
        X = sl.placeholder((extent, 4), name="X")
        return sl.compute((extent, 4), lambda i, j: X[i, j] * 2, name="Y")

    Y = rows(8)
    s = sl.schedule(Y)
    # needs a constant extent
    s[Y].unroll(Y.op.axis[1])
    keep(database, s)
    text = s.to_json().replace("unroll", "vectorise")
    database.add(Where.here([Y], CPU, {}), "Y", Trial(1, "ok", text, seconds=1e-9), [Y])
    with pytest.warns(DatabaseWarning, match="for extents 8, not 16"):
        assert best(rows(16), database=database).schedule.steps[0].primitive == "unroll"
    assert database.problems == []


def test_steps_that_do_not_lower_are_skipped(database: Database) -> None:
    g = product()
    s = sl.schedule(g.C)
    tiled(g, s)
    # D is attached in a loop of C, which is then inlined
    D = g.C.op.input_tensors[0]
    s[D].compute_at(s[g.C], s[g.C].leaf_axes[0])
    s.cache_read(D, "global", [g.C])
    try:
        sl.lower(s)
    except sl.errors.LoweringError:
        pass
    else:
        pytest.fail("this schedule was meant not to lower")
    keep(database, s, 1e-9)
    keep(database, sl.schedule(g.C), 2.0)
    with pytest.warns(DatabaseWarning, match="cannot be replayed"):
        assert best(g.C, database=database).seconds == 2.0


def test_invalid_names_in_a_line_are_skipped(database: Database) -> None:
    g, other = product(), product(NAMES[1])
    s = sl.schedule(g.C)
    tiled(g, s)
    keep(database, s)
    text = database.path.read_text()
    for names in ("[]", '["A"]', "[" + ", ".join(['"os.system(1)"'] * 11) + "]", '["é ", 1]'):
        at = text.index('"parts":') + len('"parts":')
        database.path.write_text(text[:at] + names + text[text.index("]", at) + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DatabaseWarning)
            with pytest.raises(TuningError):
                best(other.C, database=database)
            assert len(database.problems) == 1


def test_an_empty_result_gives_advice(database: Database) -> None:
    g = product()
    how = rf'sl.autotune\(C, target="cpu", database={re.escape(repr(str(database.path)))}\)'
    with pytest.raises(TuningError, match=rf"no schedule of C for cpu .* no such file.\n  {how}"):
        best(g.C, database=database)
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    symbolic = sl.compute((n,), lambda i: A[i] + 1, name="Z")
    with pytest.raises(
        TuningError,
        match=r"sizes=\{'n': 8\}, database='.*'\) finds .*\n    python -m schedlang tune "
        r"script.py:Z --target cpu --size n=8 --database ",
    ):
        best(symbolic, database=database, sizes={"n": 8})
    keep(database, sl.schedule(sl.compute((8,), lambda i: i + 1, name="C")))
    with pytest.raises(TuningError, match=rf"known in .*: it was not tuned.\n  {how}"):
        best(g.C, database=database)
    keep(database, sl.schedule(g.C), target=sl.Target("cuda"))
    with pytest.raises(TuningError, match="it was tuned only for cuda"):
        best(g.C, database=database)
    here = Where.here([g.C], CPU, {})
    database.add(here, "C", Trial(0, "crashed", sl.schedule(g.C).to_json()), [g.C])
    with pytest.raises(TuningError, match="every candidate failed"):
        best(g.C, database=database)
    with pytest.raises(sl.errors.ComputeTypeError, match="give tensors"):
        best("C", database=database)
    with pytest.raises(TuningError, match="it is a directory"):
        best(g.C, database=database.path.parent)


def test_the_packaged_database_is_used_after_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(database.problems == [] for database in packaged())
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("schedlang.runtime.tuning_files._PACKAGED", tmp_path / "data")
    assert packaged() == []
    (tmp_path / "data").mkdir()
    g = product()
    s = sl.schedule(g.C)
    tiled(g, s)
    keep(Database(tmp_path / "data" / "some.jsonl"), s, 1.0)
    assert [d.path.name for d in packaged()] == ["some.jsonl"]
    assert best(g.C).seconds == 1.0 and not (tmp_path / "cache" / "tuning.jsonl").exists()
    with apply_best() as applied:
        assert len(sl.schedule(g.C).steps) == 3
    assert len(applied.used) == 1
    keep(Database(), sl.schedule(g.C), 2.0)
    assert best(g.C).seconds == 2.0
    with pytest.raises(TuningError):
        best(g.C, database=tmp_path / "empty.jsonl")


def test_the_module_can_be_called_and_imported(database: Database) -> None:
    import schedlang.autotune.best as module

    g = product()
    keep(database, sl.schedule(g.C))
    assert module(g.C, database=database).exact  # type: ignore[operator]
    assert module.best(g.C, database=database).exact


def test_a_schedule_starts_with_the_best_steps(database: Database) -> None:
    g = product()
    other = sl.compute((8, 8), lambda i, j: i + j, name="C")
    s = sl.schedule(g.C)
    tiled(g, s)
    keep(database, s)
    with apply_best(database) as applied:
        started = sl.schedule(g.C)
        assert sl.create_schedule(g.C.op).steps == te.create_schedule(g.C.op).steps == s.steps
        assert sl.schedule([other]).steps == ()
        # more steps may follow, and the next schedule starts anew
        started[g.C].unroll(started[g.C].leaf_axes[2])
        assert len(started.steps) == 4 and len(sl.schedule(g.C).steps) == 3
        run(started, g)
    assert [len(b.schedule.steps) for b in applied.used] == [4, 3, 3, 3]
    assert applied.missing == [(other,)]
    assert sl.schedule(g.C).steps == ()


def test_copies_json_pickles_and_the_oracle_are_unchanged_inside(database: Database) -> None:
    g = product()
    s = sl.schedule(g.C)
    plain = s.copy()
    tiled(g, s)
    keep(database, s)
    with apply_best(database) as applied:
        assert plain.copy().steps == plain.at(0).steps == ()
        assert Schedule.from_json(plain.to_json(), g.C).steps == ()
        assert Schedule.from_json(s.to_json(), g.C).steps == s.steps
        assert pickle.loads(pickle.dumps(plain)).steps == ()
        assert best(g.C, database=database).schedule.steps == s.steps
        a, b = np.ones((24, 16), "float32"), np.ones((16, 32), "float32")
        np.testing.assert_array_equal(sl.reference(g.C)(a, b), a * 2 @ b)
        run(plain, g)
    assert applied.used == [] and applied.missing == []


def test_the_tuner_starts_from_schedules_without_steps(database: Database) -> None:
    from schedlang.autotune.space import Space
    from schedlang.autotune.tactics.facts import Problem

    g = product()
    s = sl.schedule(g.C)
    tiled(g, s)
    keep(database, s)
    with apply_best(database) as applied:
        candidate = Space(Problem((g.C,), CPU), lambda s, knobs: None, by_tactics=False).draw(None)
    assert candidate.schedule.steps == () and applied.used == []


def test_nesting_and_errors_inside(database: Database, tmp_path: Path) -> None:
    g = product()
    s = sl.schedule(g.C)
    tiled(g, s)
    keep(database, s)
    (tmp_path / "empty.jsonl").touch()
    with apply_best(database) as outer:
        with apply_best(tmp_path / "empty.jsonl") as inner:
            assert sl.schedule(g.C).steps == ()
        assert len(sl.schedule(g.C).steps) == 3
        with pytest.raises(ZeroDivisionError), apply_best(tmp_path / "empty.jsonl"):
            raise ZeroDivisionError
        assert len(sl.schedule(g.C).steps) == 3
        with apply_best(database, target="cuda") as other:
            assert sl.schedule(g.C).steps == ()
    assert (len(outer.used), len(outer.missing)) == (2, 0)
    assert len(inner.missing) == len(other.missing) == 1 and inner.used == other.used == []
    assert sl.schedule(g.C).steps == ()


def test_threads_and_tasks_do_not_see_each_other(database: Database, tmp_path: Path) -> None:
    g = product()
    s = sl.schedule(g.C)
    tiled(g, s)
    keep(database, s)
    (tmp_path / "empty.jsonl").touch()
    barrier = threading.Barrier(4)
    counts: dict[int, set[int]] = {}
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            barrier.wait(10)
            found = set()
            for _ in range(5):
                if number % 2:
                    with apply_best(database) as applied:
                        found.add(len(sl.schedule(g.C).steps))
                        assert len(applied.used) == 1
                else:
                    found.add(len(sl.schedule(g.C).steps))
            counts[number] = found
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    with apply_best(tmp_path / "empty.jsonl"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == [] and counts == {0: {0}, 1: {3}, 2: {0}, 3: {3}}

    async def task(tuned: bool, others: asyncio.Event) -> int:
        if not tuned:
            others.set()
            await asyncio.sleep(0.01)
            return len(sl.schedule(g.C).steps)
        with apply_best(database):
            await others.wait()
            await asyncio.sleep(0.02)
            return len(sl.schedule(g.C).steps)

    async def both() -> list[int]:
        event = asyncio.Event()
        return await asyncio.gather(task(True, event), task(False, event))

    assert asyncio.run(both()) == [3, 0]


def test_an_inexact_start_warns(database: Database) -> None:
    g = product()
    keep(database, sl.schedule(g.C), machine="Abacus, 10 beads")
    with apply_best(database) as applied, pytest.warns(DatabaseWarning, match="on Abacus"):
        sl.schedule(g.C)
    assert not applied.used[0].exact


def test_a_missing_file_gives_one_warning(tmp_path: Path) -> None:
    path, g = tmp_path / "nope.jsonl", product()
    with pytest.warns(DatabaseWarning) as told, apply_best(path) as applied:
        assert sl.schedule(g.C).steps == sl.schedule(g.C).steps == ()
    assert len(applied.missing) == 2
    (said,) = told
    assert str(said.message) == (
        f'apply_best(database="{path}"): there is no such file, so no schedule is known; '
        f'sl.autotune(C, database="{path}") creates it'
    )
    assert said.filename == __file__


def test_an_unreadable_file_is_refused_at_the_with(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="it is a directory"), apply_best(tmp_path):
        pytest.fail("it was entered")
    assert sl.schedule(product().C).steps == ()


def tuned_for_24(database: Database) -> SimpleNamespace:
    """Return a product of a symbolic size n, tuned for one value of n."""
    g = product(m=sl.var("n"))
    s = sl.schedule(g.C)
    tiled(g, s)
    keep(database, s, sizes={"n": 24})
    return g


def test_symbolic_computations_start_with_a_schedule_for_one_size(database: Database) -> None:
    g = tuned_for_24(database)
    with apply_best(database), pytest.warns(DatabaseWarning, match="for n = 24, not for any size"):
        started = sl.schedule(g.C)
    run(started, g, n=24)
    run(started, g, n=7)


def test_an_empty_schedule_for_one_size_is_not_used_for_another(database: Database) -> None:
    g = tuned_for_24(database)
    where = Where.here([g.C], CPU, {"n": 4096})
    untuned = Trial(1, "ok", sl.schedule(g.C).to_json(), seconds=1e-9, strategy=UNTUNED)
    database.add(where, "C", untuned, [g.C])
    with pytest.warns(DatabaseWarning, match="for n = 24, not for n = 2000"):
        assert sl.best(g.C, database=database, sizes={"n": 2000}).schedule.steps
    with apply_best(database), pytest.warns(DatabaseWarning, match="for n = 24, not for any size"):
        assert sl.schedule(g.C).steps
    assert not sl.best(g.C, database=database, sizes={"n": 4096}).schedule.steps


def test_a_computation_under_other_names_is_equal() -> None:
    g = product()
    names = names_of([g.C])
    assert names == Names(("A", "D", "x", "y", "D", "B", "C", "i", "j", "k", "C"))
    (again,) = rename([g.C], names)
    assert again is not g.C and names_of([again]) == names
    other = Names(tuple(f"n{k}" for k in range(len(names.parts))))
    (twin,) = rename([g.C], other)
    assert structure(twin) == structure(g.C)
    assert names_of([twin]).parts[1] == "n1" and names_of([g.C]) == names
    for wrong in (Names(), Names(names.parts, ("n",)), Names((*names.parts, "x"))):
        with pytest.raises(ComputeError, match="are given, but the computation has"):
            rename([g.C], wrong)
    with pytest.raises(ComputeError, match="cannot name"):
        rename([g.C], Names(("1+1", *names.parts[1:])))


def test_the_packaged_databases_of_operators_are_complete() -> None:
    of_operators = [shipped for shipped in packaged() if shipped.path.name.startswith("cpu-")]
    for shipped, least in zip(of_operators, (25, 35), strict=True):
        found = list(shipped.entries())
        assert shipped.problems == [] and len(found) >= least
        for entry in found:
            outputs = computation(works.ALL[entry.name])[-1:]
            assert entry.where.op == structure(outputs).key
            assert entry.seconds is not None and replay(entry, outputs).steps
