"""Tests of a target's caches: how they are read from the system, and what uses them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang import demo, host
from schedlang.autotune.costs.estimate import estimate
from schedlang.autotune.model.by_model import by_model
from schedlang.autotune.model.problems import problem_of
from schedlang.autotune.runner.task import target_data, target_from
from schedlang.errors import BuildError
from schedlang.host import USUAL_CACHES, Cache
from tests.marks import slow_but

KIB = 1024
# Linux on a Zen 4 EPYC, and on a virtual machine that reports the whole cache of its host
ZEN4 = [("Data", 1, "32K", 8, "0-1"), ("Instruction", 1, "32K", 8, "0-1"),
        ("Unified", 2, "1024K", 8, "0-1"), ("Unified", 3, "32768K", 16, "0-15")]  # fmt: skip
VIRTUAL = [("Data", 1, "48K", 12, "0"), ("Unified", 2, "2048K", 16, "0"),
           ("Unified", 3, "491520K", 15, "0-1")]  # fmt: skip
# the same virtual machine with two threads on each of its two cores
THREADS = [("Data", 1, "48K", 12, "0-1"), ("Unified", 2, "2048K", 16, "0-1"),
           ("Unified", 3, "491520K", 15, "0-3")]  # fmt: skip


def pretended(
    wide: int, datapath: int, first: tuple[int, int], second: int, last: int
) -> sl.Target:
    """Return a target whose last level, of ``last`` MiB, is shared by 8 cores."""
    size, ways = first
    caches = Cache(size * KIB, ways), Cache(second * KIB, 8), Cache(last << 20, 16, cores=8)
    return sl.Target("cpu", vector_bytes=wide, datapath_bytes=datapath, caches=caches)


MACHINES = {
    "Zen 3": pretended(32, 32, (32, 8), 512, 32),
    "Zen 4": pretended(64, 32, (32, 8), 1024, 32),
    "Zen 5": pretended(64, 64, (48, 12), 1024, 32),
    "laptop": pretended(32, 32, (32, 8), 512, 16),
}


def described(folder: Path, caches: list[tuple[str, int, str, int, str]]) -> Path:
    for number, (kind, level, size, ways, cores) in enumerate(caches):
        at = folder / f"index{number}"
        at.mkdir()
        texts = {"type": kind, "level": level, "size": size,
                 "ways_of_associativity": ways, "shared_cpu_list": cores}  # fmt: skip
        for name, value in texts.items():
            (at / name).write_text(f"{value}\n")
    return folder


@pytest.mark.parametrize(("caches", "sizes"), [
    (ZEN4, [32, 1024, 32 * KIB]),
    (VIRTUAL, [48, 2048, 32 * KIB]),
    (THREADS, [48, 2048, 32 * KIB]),
    ([("Data", 1, "48K", 1024, "0")], [32, 1024, 16 * KIB]),
    ([("Data", 1, "32K", 8, "0"), ("Unified", 2, "many", 8, "0")], [32, 1024, 16 * KIB]),
    ([], [32, 1024, 16 * KIB]),
])  # fmt: skip
def test_caches_are_read_from_the_system(
    caches: list[tuple[str, int, str, int, str]], sizes: list[int], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(host, "CACHES", described(tmp_path, caches))
    host.host_caches.cache_clear()
    try:
        found = sl.Target("cpu").caches
    finally:
        host.host_caches.cache_clear()
    assert [c.size // KIB for c in found] == sizes


@pytest.mark.parametrize(("caches", "cores"), [(ZEN4, 8), (VIRTUAL, 2), (THREADS, 2), ([], 1)])
def test_the_cores_that_share_the_last_level_are_read_from_the_system(
    caches: list[tuple[str, int, str, int, str]], cores: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Two threads of a core count once."""
    monkeypatch.setattr(host, "CACHES", described(tmp_path, caches))
    host.host_caches.cache_clear()
    try:
        assert [c.cores for c in sl.Target("cpu").caches] == [1, 1, cores]
    finally:
        host.host_caches.cache_clear()


@pytest.mark.parametrize(("threads", "held"), [(1, 32), (8, 32), (9, 64), (24, 96)])
def test_threads_on_more_cores_have_more_caches(threads: int, held: int) -> None:
    assert MACHINES["Zen 3"].last_cache(threads) == held << 20


@pytest.mark.parametrize("cores", [0, -1, 1.5, True, "8"])
def test_an_invalid_number_of_cores_is_refused(cores: Any) -> None:
    with pytest.raises(BuildError, match="cores is the number of cores that share the level"):
        Cache(32 * KIB, 8, cores)


def test_another_vector_width_means_another_machine() -> None:
    width, _ = host.host_vectors()
    assert sl.Target("cpu", vector_bytes=width // 2).caches == USUAL_CACHES
    given = (Cache(48 * KIB, 12), Cache(2 << 20, 16))
    assert sl.Target("cpu", vector_bytes=width // 2, caches=given).caches == given


def test_a_worker_gets_the_caches_as_data() -> None:
    target = sl.Target("cpu", caches=(Cache(48 * KIB, 12), Cache(2 << 20, 16, cores=4)))
    assert target_from(json.loads(json.dumps(target_data(target)))) == target


@pytest.mark.parametrize(
    "caches",
    [(1 << 20,), USUAL_CACHES + USUAL_CACHES[2:], 5, None, "L1", USUAL_CACHES[0], {1: 2}],
)
def test_invalid_caches_are_refused(caches: Any) -> None:
    with pytest.raises(BuildError, match=r"caches=(.|\n)*Cache\(size, ways\)"):
        sl.Target("cpu", caches=caches)


def test_caches_may_be_a_list() -> None:
    assert sl.Target("cpu", caches=list(USUAL_CACHES)).caches == USUAL_CACHES  # type: ignore


@pytest.mark.parametrize(
    ("size", "ways"),
    [(0, 8), (64, 0), (-512, -8), (511, 8), ("a", 8), (32768.0, 8), (None, 8), (32768, True)],
)
def test_an_invalid_cache_is_refused(size: Any, ways: Any) -> None:
    with pytest.raises(BuildError, match=r"Cache\(size=.*give Cache\(32 \* 1024, 8\)"):
        Cache(size, ways)


@pytest.mark.parametrize(("second", "group"), [(1 << 20, 8), (2 << 20, 16)])
def test_a_product_packs_panels_for_half_of_the_second_level(second: int, group: int) -> None:
    """A group of panels, 64 KiB each, fills half of the second-level cache."""
    target = sl.Target("cpu", caches=(Cache(32 * KIB, 8), Cache(second, 16)))
    assert demo.panels_per_group(32, 512, 32, target) == group


def test_cached_data_costs_less() -> None:
    """Each row is summed twice; the second sum is cheaper if the first level holds the row."""
    A = sl.placeholder((64, 10240), name="A")
    k, r = sl.reduce_axis(10240, name="k"), sl.reduce_axis(10240, name="r")
    S = sl.compute((64,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    D = sl.compute((64,), lambda i: sl.sum(A[i, r] - S[i], axis=r), name="D")
    s = sl.schedule(D)
    s[S].compute_at(s[D], D.op.axis[0])
    nest = sl.lower(s)
    small, large = (
        estimate(nest, sl.Target("cpu", caches=(Cache(first, 8), *USUAL_CACHES[1:])), 1).seconds
        for first in (32 * KIB, 64 * KIB)
    )
    assert large < small


def scaled(rows: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Return an input of ``rows`` KiB in float32, and an output as large."""
    A = sl.placeholder((rows, 256), name="A")
    return A, sl.compute(A.shape, lambda i, j: A[i, j] * 2, name="C")


def streamed(C: sl.Tensor, target: sl.Target, threads: int) -> bool:
    """Return whether the schedule of the cost model stores past the caches, and says so."""
    s, _ = by_model(replace(problem_of([C], target, {}), threads=threads))
    assert s is not None
    taken = any(step.args.get("name") == "nontemporal" for step in s.steps)
    assert taken == ("pragma nontemporal" in str(s))
    return taken


@pytest.mark.parametrize("machine", slow_but(["laptop"], MACHINES))
def test_results_that_the_last_cache_does_not_hold_bypass_it(machine: str) -> None:
    """The output and what is read count together, against the caches of the cores in use."""
    target = MACHINES[machine]
    half = target.caches[-1].size // (2 * KIB)
    assert not streamed(scaled(half)[1], target, 8)
    assert streamed(scaled(half + 1)[1], target, 8)
    # 16 threads run on the cores of two such caches
    assert not streamed(scaled(half + 1)[1], target, 16)
    assert streamed(scaled(2 * half + 1)[1], target, 16)


def test_only_results_bypass_the_caches() -> None:
    """A stage that another one reads, a reduction and an open size store as ever."""
    target = MACHINES["laptop"]
    A, B = scaled(1 << 15)
    k = sl.reduce_axis(256, name="k")
    S = sl.compute((1 << 15,), lambda i: sl.sum(B[i, k], axis=k), name="S")
    n = sl.var("n")
    X = sl.placeholder((n, 256), name="X")
    Y = sl.compute(X.shape, lambda i, j: X[i, j] * 2, name="Y")
    assert not streamed(S, target, 8) and not streamed(Y, target, 8)
    assert streamed(B, target, 8)


def test_stores_past_the_caches_fetch_no_lines() -> None:
    """The estimate of a copy that reads no line before it is overwritten is lower."""
    s = sl.schedule(scaled(1 << 15)[1])
    (C,) = s.outputs
    i, j = C.op.axis
    s[C].vectorize(s[C].split(j, factor=8)[1])
    before = estimate(sl.lower(s), MACHINES["Zen 3"], 1).seconds
    s[C].pragma(i, "nontemporal")
    assert estimate(sl.lower(s), MACHINES["Zen 3"], 1).seconds < 0.7 * before


def test_explain_names_stores_that_go_through_the_caches() -> None:
    A, C = scaled(1 << 15)
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[1], factor=8)[1])
    target = MACHINES["laptop"]
    (advice,) = [a for a in sl.explain(s, target=target).advice if "overwrites" in a.text]
    held = 2 * (1 << 15) * KIB
    evidence = f"stage C reads and writes {held:,} B, and the last cache holds {16 << 20:,} B"
    assert advice.text.startswith(evidence)
    assert advice.code.splitlines()[-1] == 's[C].pragma(i, "nontemporal")'
    small = scaled(64)[1]
    t = sl.schedule(small)
    t[small].vectorize(t[small].split(small.op.axis[1], factor=8)[1])
    assert not any("overwrites" in a.text for a in sl.explain(t, target=target).advice)


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["Zen 3", "Zen 4"])
@pytest.mark.parametrize("size", [1000, 1040])
def test_columns_that_no_two_vectors_divide_are_packed(machine: str, size: int) -> None:
    """Tiles of vectors side by side leave a smaller tile at the end."""
    A, B = (sl.placeholder((size, size), name=name) for name in "AB")
    k = sl.reduce_axis(size, name="k")
    C = sl.compute((size, size), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s, _ = by_model(replace(problem_of([C], MACHINES[machine], {}), threads=1))
    assert s is not None and "B.global" in s.state.stages
    lanes = [f.extent for f in sl.lower(s).loops if f.kind == "vectorize"]
    assert max(lanes) >= 2 * MACHINES[machine].vector_width("float32")


def test_large_outputs_that_a_call_allocates_start_on_a_cache_line() -> None:
    """Otherwise none of their vectors could bypass the caches."""
    A, C = scaled(1 << 10)
    f = sl.build(sl.schedule(C), [A, C], target="python")
    new = f._fresh(None, (1 << 10, 256), "float32")
    assert new.ctypes.data % 64 == 0 and new.shape == (1 << 10, 256) and new.flags.c_contiguous


@pytest.mark.parametrize("width", [1024, 1040])
def test_rows_that_are_pages_apart_are_not_streamed_in_turns(width: int) -> None:
    """Stores of such rows past the caches meet in the buffers that gather lines."""
    X = sl.placeholder((8192, width), name="X")
    k = sl.reduce_axis(width, name="k")
    S = sl.compute((8192,), lambda i: sl.sum(X[i, k], axis=k), name="S")
    Y = sl.compute(X.shape, lambda i, j: X[i, j] - S[i], name="Y")
    s, _ = by_model(replace(problem_of([Y], MACHINES["Zen 3"], {}), threads=1))
    loops = [line for line in str(s).split("Y[")[0].splitlines() if line.lstrip().startswith("for")]
    in_turns = any("i.inner" in line for line in loops[-2:])
    assert not (width == 1024 and in_turns and "nontemporal" in str(s)), str(s)
    assert "nontemporal" in str(s), str(s)
