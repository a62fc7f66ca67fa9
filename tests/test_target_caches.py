"""Tests of a target's caches: how they are read from the system, and what uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang import demo, host
from schedlang.autotune.costs.estimate import estimate
from schedlang.autotune.runner.task import target_data, target_from
from schedlang.errors import BuildError
from schedlang.host import USUAL_CACHES, Cache

KIB = 1024
# Linux on a Zen 4 EPYC, and on a virtual machine that reports the whole cache of its host
ZEN4 = [("Data", 1, "32K", 8, "0-1"), ("Instruction", 1, "32K", 8, "0-1"),
        ("Unified", 2, "1024K", 8, "0-1"), ("Unified", 3, "32768K", 16, "0-15")]  # fmt: skip
VIRTUAL = [("Data", 1, "48K", 12, "0"), ("Unified", 2, "2048K", 16, "0"),
           ("Unified", 3, "491520K", 15, "0-1")]  # fmt: skip
# the same virtual machine with two threads on each of its two cores
THREADS = [("Data", 1, "48K", 12, "0-1"), ("Unified", 2, "2048K", 16, "0-1"),
           ("Unified", 3, "491520K", 15, "0-3")]  # fmt: skip


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


def test_another_vector_width_means_another_machine() -> None:
    width, _ = host.host_vectors()
    assert sl.Target("cpu", vector_bytes=width // 2).caches == USUAL_CACHES
    given = (Cache(48 * KIB, 12), Cache(2 << 20, 16))
    assert sl.Target("cpu", vector_bytes=width // 2, caches=given).caches == given


def test_a_worker_gets_the_caches_as_data() -> None:
    target = sl.Target("cpu", caches=(Cache(48 * KIB, 12), Cache(2 << 20, 16)))
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
