"""Our networks: imported from torch and built once, then loaded from the folder that was saved."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

# schedlang imports it at its first build: it is one of the libraries, and no part of a network
import numba  # noqa: F401

import schedlang as sl
from benchmarks.peers.networks import DATABASE, MINUTES, Loaded
from benchmarks.works import Work

FOLDER = "network"


def build(implementation: str, work: Work, folder: Path) -> dict[str, Any]:
    import torch

    from benchmarks.peers import network_models
    from schedlang.frontend import from_torch

    x = work.arrays()["x"]
    imported = from_torch(network_models.module(work), (torch.from_numpy(x),))
    network = sl.network(imported, database=os.environ.get(DATABASE))
    facts: dict[str, Any] = {}
    if minutes := os.environ.get(MINUTES):
        start = perf_counter()
        network.tune(timeout=60 * float(minutes), progress=False)
        facts["tuning_seconds"] = perf_counter() - start
    network.save(folder / FOLDER)
    # compiles the module, which stays in the cache folder
    load(implementation, work, folder).call(x)
    return facts | {
        "kernels": len(network.partition.parts), "distinct_kernels": len(network.kernels)
    }  # fmt: skip


def load(_: str, work: Work, folder: Path) -> Loaded:
    return Loaded(sl.load(folder / FOLDER))
