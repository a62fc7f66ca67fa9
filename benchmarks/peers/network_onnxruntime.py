"""ONNX Runtime with all its optimizations."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnxruntime

from benchmarks.peers import THREADS
from benchmarks.peers.network_onnx import MODEL, export
from benchmarks.peers.networks import Loaded
from benchmarks.works import Work


def build(_: str, work: Work, folder: Path) -> dict[str, Any]:
    export(work, folder)
    return {}


def load(_: str, work: Work, folder: Path) -> Loaded:
    model = str(folder / MODEL)

    def session(profile: str = "") -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        if profile:
            options.enable_profiling = True
            options.profile_file_prefix = profile
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def kernels() -> int:
        """Return the number of kernels in the profile of a call."""
        with TemporaryDirectory() as written:
            profiled = session(f"{written}/profile")
            profiled.run(None, {"x": work.arrays()["x"]})
            events = json.loads(Path(profiled.end_profiling()).read_text(encoding="utf-8"))
        return sum(e.get("cat") == "Node" and e["name"].endswith("_kernel_time") for e in events)

    main = session()
    return Loaded(lambda x: main.run(None, {"x": x})[0], kernels)
