"""OpenVINO, held to float32: on processors with AMX or AVX512-BF16 it would choose bfloat16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openvino

from benchmarks.peers import THREADS
from benchmarks.peers.network_onnx import MODEL, export
from benchmarks.peers.networks import Loaded
from benchmarks.works import Work

# nodes that run no kernel
DATA = frozenset({"Parameter", "Result", "Const", "Constant", "Input", "Output"})


def build(implementation: str, work: Work, folder: Path) -> dict[str, Any]:
    export(work, folder)
    # writes the compiled network into its cache
    load(implementation, work, folder)
    return {}


def load(_: str, work: Work, folder: Path) -> Loaded:
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": THREADS,
        "PERFORMANCE_HINT": "LATENCY",
        "CACHE_DIR": str(folder / "compiled"),
    }
    compiled = openvino.Core().compile_model(str(folder / MODEL), "CPU", settings)
    request = compiled.create_infer_request()

    def call(x: Any) -> Any:
        return request.infer({0: x}, share_inputs=True, share_outputs=True)[0]

    def kernels() -> int:
        return sum(_layer(node) not in DATA for node in compiled.get_runtime_model().get_ops())

    return Loaded(call, kernels)


def _layer(node: Any) -> str:
    info = node.get_rt_info()
    return str(info["layerType"].astype(str)) if "layerType" in info else node.get_type_name()
