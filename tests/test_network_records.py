"""The records of networks in the package: their schedules without a search."""

from __future__ import annotations

from pathlib import Path

import pytest

import schedlang as sl
from schedlang.autotune.best import packaged
from schedlang.autotune.database import Database
from schedlang.autotune.record import UNTUNED
from tests.networks import basic, bottleneck, resnet


def shipped() -> list[Database]:
    return [database for database in packaged() if database.path.name.startswith("networks-")]


def test_the_records_are_whole() -> None:
    least = {"networks-avx2.jsonl": 200, "networks-avx512.jsonl": 200, "networks-sm_90.jsonl": 31}
    assert {database.path.name for database in shipped()} == least.keys()
    for database in shipped():
        found = list(database.entries())
        assert database.problems == [] and len(found) >= least[database.path.name]
        assert all(entry.seconds and entry.trial.steps for entry in found)
        # loops without a schedule have a rival behind them
        places = [entry.where for entry in found if entry.trial.strategy != UNTUNED]
        assert len(set(places)) == len(places)
        assert {entry.where for entry in found} == set(places)


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [32, 64], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize("block, counts, size", [
    (basic, (2, 2, 2, 2), 224), (bottleneck, (3, 4, 6, 3), 224),
    (bottleneck, (3, 4, 6, 3), (375, 500)),
])  # fmt: skip
def test_a_resnet_has_its_schedules_from_them(
    block: object, counts: tuple[int, ...], size: int | tuple[int, int], vector_bytes: int,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """ResNet-18 and ResNet-50, written with topi; the records are of the models of torchvision."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    outputs, _, params = resnet(counts, block, size, 64, 1000)  # type: ignore[arg-type]
    net = sl.network(outputs, params, target=sl.Target("cpu", vector_bytes=vector_bytes))
    # their last two layers are written in another way
    others = [kernel.name for kernel in net.kernels if kernel.origin != "database"]
    assert set(others) <= {"pool.global_pool_sum", "fc.dense"} and len(net.kernels) > 25
    assert any(part.name.endswith("_products") for part in net.partition)


@pytest.mark.slow
def test_resnet_50_has_its_schedules_for_a_gpu_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    outputs, _, params = resnet((3, 4, 6, 3), bottleneck, 224, 64, 1000)
    net = sl.network(outputs, params, target=sl.Target("cuda", arch="sm_90"))
    others = [kernel.name for kernel in net.kernels if kernel.origin != "database"]
    assert set(others) <= {"pool.global_pool_sum", "fc.dense"} and len(net.kernels) > 25
