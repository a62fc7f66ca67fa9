"""Compare quantized networks with ONNX Runtime and OpenVINO.

    python -m benchmarks.quantized [--only PATTERN] [--json FILE]

``NUMBA_NUM_THREADS`` says how many threads all implementations have.
ONNX Runtime's own tool quantizes each network to bytes, with a scale for each output channel of the
weights and scales of the data from four random pictures; all implementations read the file that it
writes. ``int8`` is the time of ONNX Runtime on that file over the row's own. ``floats`` are the
network before, with ONNX Runtime. ``error`` is the distance from these, in the root mean square.
ONNX Runtime without optimizations does what the file says, operator by operator. A result is right
if its error is at most 1.25 times the error there. Two right results may differ by as much:
implementations fuse other operators, so a value is rounded to a neighbour, and layers of random
weights amplify that.

ONNX Runtime's threads stop to wait in a loop when a call ends: they would take the core of the next
implementation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import schedlang as sl
from benchmarks.cache import folder
from benchmarks.harness import Case, Column, Row, main
from benchmarks.works import Work
from benchmarks.works.networks import pictures
from schedlang.runtime.environment import threads

WORKS = (
    pictures("ResNet-18", "resnet18", 224, 224),
    pictures("ResNet-50", "resnet50", 224, 224),
    pictures("MobileNetV2", "mobilenet_v2", 224, 224),
)
PICTURES, MOST_ERROR = 4, 1.25
BASE = "ONNX Runtime, int8"


class Pictures:
    """Random pictures like the work's own, as the tool asks for them."""

    def __init__(self, work: Work) -> None:
        others = (replace(work, name=f"{work.name} {k}") for k in range(PICTURES))
        self._left = iter([other.arrays() for other in others])

    def get_next(self) -> Any:
        return next(self._left, None)


def models(work: Work) -> tuple[Path, Path]:
    """Return the files of a network in floats and quantized; write them if they are missing."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    from benchmarks.peers.network_onnx import export

    where = folder("quantized") / work.name.replace(" ", "-").replace("^", "")
    floats, quantized = where / "prepared.onnx", where / "calibrated.onnx"
    if not quantized.exists():
        where.mkdir(exist_ok=True)
        quant_pre_process(str(export(work, where)), str(floats), skip_symbolic_shape=True)
        quantize_static(
            str(floats), str(quantized), Pictures(work), quant_format=QuantFormat.QDQ,
            per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        )  # fmt: skip
    return floats, quantized


def ours(work: Work) -> Callable[[], Any]:
    net = sl.network(sl.frontend.from_onnx(models(work)[1]))
    x = work.arrays()["x"]
    return lambda: net(x)


def runtime(work: Work, quantized: bool, optimized: bool = True) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads()
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(
        str(models(work)[quantized]), options, providers=["CPUExecutionProvider"]
    )
    x = work.arrays()["x"]
    return lambda: session.run(None, {"x": x})[0]


def openvino(work: Work) -> Callable[[], Any]:
    import openvino as ov

    hints = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads(),
        # what is left in floats may not become bfloat16
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = ov.Core().compile_model(str(models(work)[1]), "CPU", hints)
    x = work.arrays()["x"]
    return lambda: compiled(x)[0]


def cases() -> Iterator[Case]:
    tools = ("onnxruntime", "onnx", "torch", "torchvision")
    for work in WORKS:
        for name, prepare, more in (
            ("schedlang", ours, ()),
            (BASE, partial(runtime, quantized=True), ()),
            ("OpenVINO, int8", openvino, ("openvino",)),
            ("ONNX Runtime, floats", partial(runtime, quantized=False), ()),
        ):
            missing = [package for package in (*tools, *more) if not find_spec(package)]
            words = f"{' and '.join(missing)} not installed" if missing else ""
            yield _case(work, name, partial(prepare, work), words)


def _case(work: Work, name: str, prepare: Callable[[], Callable[[], Any]], missing: str) -> Case:
    results: list[Any] = []
    facts: dict[str, Any] = {}

    def checked() -> Callable[[], object]:
        call = prepare()
        results.append(call())
        return call

    def check() -> bool:
        floats, plain = (runtime(work, quantized, optimized=False)() for quantized in (False, True))
        facts["error"], usual = (_size(v - floats) / _size(floats) for v in (results[0], plain))
        return facts["error"] <= MOST_ERROR * usual

    return Case(work.name, name, checked, check, missing=missing, facts=facts)


def _size(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype="float64"))))


def _of_base(row: Row, group: Sequence[Row]) -> str:
    base = [r.seconds for r in group if r.case.implementation == BASE]
    return f"{base[0] / row.seconds:.2f}" if base else ""


def _error(row: Row, _: Sequence[Row]) -> str:
    return f"{row.case.facts['error']:.1%}"


if __name__ == "__main__":
    title = f"Quantized networks, batch 1, threads: {threads()}"
    sys.exit(main(title, cases(), [Column("int8", _of_base), Column("error", _error)]))
