"""Inputs that come from memory in each call: in the estimate, the model, and a search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autoschedule import choose
from schedlang.autotune.costs.estimate import estimate
from schedlang.autotune.model.parallel_loops import worth_threads
from schedlang.autotune.record import tolerance_of
from schedlang.autotune.runner.candidate_runner import CandidateRunner
from schedlang.autotune.runner.cold import FILLS, in_turns
from schedlang.autotune.runner.task import Task, task_from_data
from schedlang.errors import TuningError
from schedlang.networks.surroundings import Surroundings
from schedlang.networks.tuning import works_of
from schedlang.runtime.kernel import Kernel
from schedlang.target import Cache
from tests.cpu_candidates import AVX512

SMALL = (Cache(4096, 8), Cache(16384, 8), Cache(65536, 16))


def layer(rows: int = 4, channels: int = 256, depth: int = 512) -> list[sl.Tensor]:
    X, W = sl.placeholder((rows, depth), name="X"), sl.placeholder((channels, depth), name="W")
    return [X, W, topi.nn.relu(topi.nn.dense(X, W))]


def test_the_estimate_counts_what_comes_from_memory() -> None:
    nest = sl.lower(sl.schedule(layer()[-1]))
    warm, cold, all_cold = (
        estimate(nest, AVX512, 1, cold=names).seconds for names in ((), ("W",), ("W", "X"))
    )
    assert warm < cold < all_cold


def test_threads_that_wait_start_for_less() -> None:
    Y = layer()[-1]

    def parallel(**given: Any) -> bool:
        nest = choose(Y, AVX512, **given).schedule.nest()
        return any(loop.kind == "parallel" for loop in nest.loops)

    assert not parallel() and parallel(cold=["W"], team=True)
    # what is too little for threads is that in a network, too
    tiny = layer(1, 16, 16)[-1]
    found = choose(tiny, AVX512, team=True).schedule.nest()
    assert not any(loop.kind == "parallel" for loop in found.loops)
    assert worth_threads(10**9, 0) and worth_threads(0, 10**8) and not worth_threads(10**5, 10**5)


def test_each_timed_call_reads_other_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, W, Y = layer(2, 32, 64)
    target = sl.Target("python", caches=SMALL)
    runner = CandidateRunner(Task((Y,), target, {}, cold=("W",)), tmp_path)
    runner.build(0, sl.schedule(Y).to_json())
    runner.check(0)
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Kernel, "__call__", lambda self, *values: seen.append(values))
    call = runner._timed(0)
    for _ in range(3):
        call()
    data, weights = ([values[n] for values in seen] for n in (0, 1))
    assert all(array is runner.inputs[0] for array in data)
    assert len({array.ctypes.data for array in weights}) == len(weights) == 3
    for array in weights:
        np.testing.assert_array_equal(array, runner.inputs[1])
        assert array.ctypes.data % 64 == 0


def test_copies_fill_the_cache() -> None:
    small, large = np.ones(100, "float32"), np.ones(10**5)
    for array in (small, large):
        turns = in_turns([array], [0], 65536)
        first = next(turns)[0]
        count = next(n for n, (copy,) in enumerate(turns, 1) if copy is first)
        assert array.nbytes * count >= FILLS * 65536
    # an empty array has nothing to read
    assert next(in_turns([np.ones(0)], [0], 65536))[0].size == 0


@pytest.mark.slow
def test_a_search_records_it(tmp_path: Path) -> None:
    X, W, Y = layer(2, 8, 8)
    given: dict[str, Any] = {
        "target": sl.Target("python", caches=SMALL), "trials": 1, "progress": False,
        "database": tmp_path / "db", "workers": 1,
    }  # fmt: skip
    checked = []
    for cold in ((), ("W",)):
        found = sl.autotune(Y, cold=cold, **given)
        checked.append(found.trials[0].checked)
        # the times of the other search are not taken for this one's
        assert not found.trials[0].resumed
    assert ["memory" in text for text in checked] == [False, True]
    assert tolerance_of(checked[0]) == tolerance_of(checked[1])
    task = Task((Y,), sl.Target("python"), {}, cold=("W",))
    assert task_from_data(task.data).cold == ("W",)


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    Y = layer()[-1]
    for cold in (["V"], "W"):
        with pytest.raises(TuningError, match=r"give a list of names of inputs, which are X, W"):
            sl.autotune(Y, cold=cold, trials=1, database=tmp_path / "db")
    with pytest.raises(TuningError, match="leave out cold="):
        sl.autotune(Y, "cuda-emulator", cold=["W"], trials=1, database=tmp_path / "db")


@pytest.mark.parametrize("caches, streams", [(SMALL, True), ((Cache(1 << 30, 16),), False)])
def test_a_network_tells_its_kernels(caches: tuple[Cache, ...], streams: bool) -> None:
    X, W, Y = layer()
    V = sl.placeholder((256, 256), name="V")
    out = topi.nn.dense(Y, V)
    arrays = {t: np.ones(t.shape, "float32") for t in (W, V)}
    target = sl.Target("python", caches=caches)
    net = sl.network(out, arrays, target=target)
    works = works_of(net.partition, None, target)
    made = {t for part in net.partition for t in part.writes}
    wanted = [
        {own.name for own, t in zip(part.group.inputs, part.reads) if streams and t not in made}
        for part in net.partition
    ]
    assert [set(work.cold) for work in works] == wanted and len(wanted) == 2
    assert Surroundings(streams=False).cold(net.partition.parts[0]) == ()
