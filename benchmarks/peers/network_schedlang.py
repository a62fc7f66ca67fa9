"""Our networks: imported from torch and built once, then loaded from the folder that was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import schedlang as sl
from benchmarks.peers.networks import Loaded
from benchmarks.works import Work

FOLDER = "network"


def build(_: str, work: Work, folder: Path) -> dict[str, Any]:
    import torch

    from benchmarks.peers import network_models

    for name in ("network", "load"):
        if not hasattr(sl, name):
            raise NotImplementedError(f"this schedlang has no sl.{name} yet")
    from schedlang.frontend import from_torch

    given = (torch.from_numpy(work.arrays()["x"]),)
    network = sl.network(from_torch(network_models.module(work), given))
    network.save(folder / FOLDER)
    return {
        "kernels": len(network.partition.parts), "distinct_kernels": len(network.kernels)
    }  # fmt: skip


def load(_: str, work: Work, folder: Path) -> Loaded:
    return Loaded(sl.load(folder / FOLDER))
