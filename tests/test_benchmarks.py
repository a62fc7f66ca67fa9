"""Tests of the benchmarks at small sizes, against their oracles, for the installed peers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from benchmarks import clock, compiler, cpu, harness, schedules, works
from benchmarks.worker import Worker, environment, threads_and_caches
from benchmarks.works import Work, convolution, linear, memory

pytestmark = pytest.mark.slow

SMALL = {
    w.kind: w
    for w in (
        linear.sgemm(17, 12, 9), linear.gemv(13, 8), linear.batched(3, 6, 5, 4),
        linear.lstm_cell(3, 8), linear.attention(2, 7, 4),
        convolution.conv2d("small", 9, 3, 4, 3, 2, 1), convolution.depthwise("small", 8, 5, 2),
        convolution.max_pool(8, 3), memory.softmax(5, 16), memory.layer_norm(5, 16),
        memory.row_sum(5, 16), memory.box_blur(9), memory.jacobi(9), memory.unsharp(9, 14),
        memory.harris(9, 14), memory.chain(100), memory.transpose(9),
    )
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    monkeypatch.setenv("SCHEDLANG_BENCHMARKS", str(tmp_path))


def test_workers_keep_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("SOME_OTHER", "1")
    for made in (environment(), threads_and_caches()):
        assert "PYTHONDONTWRITEBYTECODE" not in made and made["SOME_OTHER"] == "1"


def error_of(module: str, implementation: str, work: Work) -> str:
    """Return what is wrong with a peer's result, or an empty string."""
    outs = work.empty()
    arrays = work.arrays()
    made = import_module(f"benchmarks.peers.{module}").prepare(implementation, work, arrays, outs)
    call = made[0] if isinstance(made, tuple) else made
    result = call()
    got: Any = tuple(outs.values()) if result is None else result
    got = got if isinstance(got, tuple) else (got,)
    return work.wrong(tuple(np.asarray(g) for g in got), work.expected(arrays))


def test_every_kind_of_work_has_a_small_case() -> None:
    assert {w.kind for w in works.TABLE.values()} == set(SMALL)


@pytest.mark.parametrize("kind", SMALL)
def test_numpy(kind: str) -> None:
    assert not error_of("numpy_peer", "NumPy", SMALL[kind])


@pytest.mark.parametrize("kind", ["sgemm", "depthwise", "harris"])
def test_numba_loops(kind: str) -> None:
    assert not error_of("numba_loops", "numba loops", SMALL[kind])


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("kind", SMALL)
def test_torch_eager(kind: str) -> None:
    assert not error_of("torch_peer", "torch eager", SMALL[kind])


@pytest.mark.skipif(find_spec("halide") is None, reason="halide is not installed")
@pytest.mark.parametrize("kind", ["conv2d", "unsharp", "lstm_cell"])
def test_halide(kind: str) -> None:
    assert not error_of("halide_peer", "Halide Mullapudi2016", SMALL[kind])


def test_a_wrong_result_is_said() -> None:
    work = SMALL["jacobi"]
    right = work.expected(work.arrays())[0].astype("float32")
    assert not work.wrong((right,), (right,))
    assert "off by" in work.wrong((right + 1e-3,), (right,))
    assert "off by nan" in work.wrong((work.empty()["y"],), (right,))
    assert "shape" in work.wrong((right[1:],), (right,))
    assert "float64" in work.wrong((right.astype("float64"),), (right,))


@pytest.mark.parametrize(
    ("work", "label"), [(w, label) for w in works.TABLE.values() for label in schedules.of(w)],
    ids=lambda v: getattr(v, "name", v),
)  # fmt: skip
def test_schedules_lower_on_every_target(work: Work, label: str) -> None:
    for width in (16, 32, 64):
        s, args = schedules.of(work)[label].make(work, sl.Target("cpu", vector_bytes=width))
        sl.lower(s, args)
        shapes = [tuple(a.shape) for a in args]
        assert shapes[-len(work.outputs) :] == list(work.outputs.values())
        if schedules.of(work)[label].ahead is None:
            assert shapes == [*work.inputs.values(), *work.outputs.values()]


@pytest.mark.parametrize("kind", [k for k in SMALL if schedules.of(SMALL[k])])
def test_schedules_compute_what_the_oracle_does(kind: str) -> None:
    work = SMALL[kind]
    _, args = schedules.of(work)[schedules.MAIN].make(work, sl.Target("cpu", vector_bytes=16))
    arrays = work.arrays()
    given = {tensor.name: array for tensor, array in zip(args, arrays.values())}
    got = sl.reference(args[len(arrays) :])(**given)
    assert not work.wrong(got if isinstance(got, tuple) else (got,), work.expected(arrays))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker("numpy_peer", "NumPy", {})
    yield made
    made.close()


def test_a_worker_prepares_samples_and_checks(worker: Worker, tmp_path: Path) -> None:
    work = next(w for w in works.TABLE.values() if w.kind == "max_pool")
    worker.ask(do="prepare", work=work.name)
    assert 0 < worker.sample() < 1
    right, wrong = tmp_path / "right.npy", tmp_path / "wrong.npy"
    (expected,) = work.expected(work.arrays())
    np.save(right, expected)
    np.save(wrong, expected + 1)
    assert worker.ask(do="check", expected=[str(right)]) == {"wrong": ""}
    assert "off by" in worker.ask(do="check", expected=[str(wrong)])["wrong"]
    with pytest.raises(harness.Unavailable, match="KeyError"):
        worker.ask(do="prepare", work="no such work")


def test_missing_peers_and_failures_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> Any:
        raise harness.Unavailable("out of luck")

    cases = [
        harness.Case("work", "absent", fails, missing="not installed"),
        harness.Case("work", "unlucky", fails),
        harness.Case("work", "dies", lambda: fails, whole=True),
        harness.Case("work", "dies last", lambda: lambda: 0.5, check=fails, whole=True),
        harness.Case("work", "runs", lambda: lambda: 0.5, whole=True, facts={"note": 1}),
    ]
    assert harness.main("title", cases, arguments=[]) == 0
    printed = capsys.readouterr().out
    assert "absent          missing: not installed" in printed
    assert printed.count("missing: out of luck") == 3
    assert "500 ms" in printed


def test_only_and_json(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    names = [("a", "x"), ("a", "y"), ("b", "x")]
    cases = [
        harness.Case(w, i, lambda: lambda: 0.5, flops=1e9, whole=True, facts={"note": i})
        for w, i in names
    ]
    assert not harness.main("t", cases, arguments=["--only", "a", "--json", str(file)])
    data = json.loads(file.read_text())
    assert set(data) == {"machine", "ceilings", "rows"}
    assert data["rows"][1] == {
        "work": "a", "implementation": "y", "seconds": 0.5, "spread": 0.0, "correct": True,
        "least_seconds": 0.5, "gflops": 2.0, "note": "y",
    }  # fmt: skip
    assert [r["work"] for r in data["rows"]] == ["a", "a"]
    assert harness.main("t", cases, arguments=["--only", "nothing"]) == 2


def test_processor_time_of_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that sleeps takes wall time alone, and workers inherit the clock."""
    monkeypatch.setenv(clock.CLOCK, "")
    monkeypatch.setattr(harness, "LEAST", 0.0)
    monkeypatch.setattr("numba.set_num_threads", lambda n: None)
    file, case = tmp_path / "rows.json", harness.Case("a", "b", lambda: lambda: sleep(0.01))
    for options, least in (([], 0.01), (["--processor-time"], 0.0)):
        arguments = ["--rounds", "1", "--json", str(file), *options]
        assert not harness.main("t", [case], arguments=arguments)
        data = json.loads(file.read_text())
        assert ("clock" in data["machine"]) is bool(options)
        assert least <= data["rows"][0]["seconds"] < least + (1 if least else 0.01)
    assert environment()["NUMBA_NUM_THREADS"] == "1" and environment()[clock.CLOCK] == "processor"


def test_a_run_that_ends_early_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, prepared = tmp_path / "rows.json", []

    def case(work: str, implementation: str) -> harness.Case:
        def prepare() -> Any:
            prepared.append(work)
            if implementation == "refused":
                raise harness.Unavailable("no such loop")
            return lambda: 0.5

        return harness.Case(work, implementation, prepare, whole=True, flops=1e9, limit=0.25)

    cases = [case(w, i) for w in ("a", "b") for i in ("x", "refused")]
    options = ["--json", str(file), "--resume"]
    assert not harness.main("t", cases[:2], arguments=[*options, "--minutes", "1"])
    first = capsys.readouterr().out
    assert not harness.main("t", cases, arguments=[*options, "--minutes", "-1"])
    second = capsys.readouterr().out
    assert prepared == ["a", "a"] and "works left: 1" in second
    lines = [line for line in first.splitlines() if line.startswith("a ")]
    assert len(lines) == 2 and set(lines) <= set(second.splitlines())
    assert not harness.main("t", cases, arguments=options)
    assert prepared == ["a", "a", "b", "b"]
    data = json.loads(file.read_text())
    assert [r["work"] for r in data["rows"]] == ["a", "b"]
    assert data["missing"][1] == {
        "work": "b", "implementation": "refused", "missing": "no such loop"
    }  # fmt: skip
    file.write_text(json.dumps(data | {"machine": {"processor": "another"}}))
    with pytest.raises(SystemExit, match="another machine"):
        harness.main("t", cases, arguments=options)
    with pytest.raises(SystemExit):
        harness.main("t", cases, arguments=["--resume"])


def rows(**seconds: float) -> list[harness.Row]:
    made = []
    for name, value in seconds.items():
        case = harness.Case("sgemm 512^3", name, lambda: lambda: None)
        made.append(harness.Row(case, value, 0.0, True))
    return made


def test_the_ratio_is_to_the_best_peer_that_is_right() -> None:
    group = rows(NumPy=2.0, schedlang=1.0, fast=0.5)
    assert cpu.ratio(group[1], group) == 0.5
    group[2] = harness.Row(group[2].case, 0.5, 0.0, False)
    assert cpu.ratio(group[1], group) == 2.0
    assert [(r.case.implementation, v) for r, v in cpu.ratios(group)] == [("schedlang", 2.0)]


def test_dot_products_are_a_part_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # the module sets it where it is not set
    monkeypatch.setenv("GOMP_SPINCOUNT", "0")
    from benchmarks import dot_products

    product = dot_products.Product(dot_products.KINDS[0], 12, 16, 8)
    monkeypatch.setattr(dot_products, "PRODUCTS", [product])
    monkeypatch.setattr(harness, "LEAST", 0.01)
    assert cpu.run_part(["--part", "dot-products", "--only", "^u8 12x16x8 schedlang"]) == 0
    table = capsys.readouterr().out
    assert all(f"u8 12x16x8  {name}" in table for name in dot_products.OURS)
    assert "schedlang and a peer have no row in common here" in table
    # the table has none of them
    assert cpu.run_part(["--only", "^(u8|s8|bf16) "]) == 2


def test_the_summary_of_dot_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "0")
    from benchmarks import dot_products

    times = {"schedlang, by hand": 2.0, "torch": 1.0, "ONNX Runtime": 4.0}
    group = rows(**times)
    other = [
        harness.Row(harness.Case("u8", r.case.implementation, r.case.prepare), 1.0, 0.0, True)
        for r in group
    ]
    assert dot_products.summary([*group, *other]) == (
        "schedlang, by hand, against the best peer of each row: 0.707 (geometric mean of 2 rows), "
        "0.50 at least (sgemm 512^3)"
    )


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    cpu.plot(rows(NumPy=2.0, schedlang=1.0), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_the_compiler_is_timed() -> None:
    """Each stage of a build can be timed, and the timed source is the one that ``build`` writes."""
    for case in compiler.cases():
        if case.work == "matmul":
            case.prepare()()
    s = compiler.scheduled_matmul(compiler.matmul())
    assert compiler.source(s, sl.lower(s)) == sl.build(s).source
