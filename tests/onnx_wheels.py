"""ONNX files that packages ship in their wheels: which run here as onnxruntime runs them.

    SCHEDLANG_ONNX_WHEELS=FOLDER python -m tests.onnx_wheels [PATTERN]

reads the wheels of a folder and prints what each file gives; onnxruntime must be installed. A file
is right if it is imported, built by ``sl.network``, and gives what onnxruntime gives.
"""

from __future__ import annotations

import os
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.errors import SchedlangError

FOLDER = "SCHEDLANG_ONNX_WHEELS"


@dataclass(frozen=True)
class Case:
    """Files of a wheel: the sizes that they leave open, and what their inputs are.

    ``shapes`` are those of :func:`from_onnx`. ``values`` are inputs that decide about the graph,
    or about sizes, and so become constants of the model. Other floats are normal numbers times
    ``scale``, and other integers are below ``below``.
    """

    wheel: str
    files: str
    shapes: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    below: int = 8


_SPEECH = {"waveforms": (2, 4800)}
_LENGTHS = {"waveforms_lens": [4800, 3000]}
CASES = (
    Case("basic_pitch", "*/nmp.onnx", {"unk__749": 1}, scale=0.1),
    Case("ddddocr", "*/common.onnx", {"image_width": 128}),
    Case("ddddocr", "*/common_det.onnx"),
    Case("ddddocr", "*/common_old.onnx", {"image_width": 128}),
    Case("faster_whisper", "*/silero*.onnx", {"seq_len": 5}, scale=0.1),
    Case("magika", "*/model.onnx", {"unk__214": 2}, below=257),
    Case("nudenet", "*/320n.onnx", {"batch": 1, "height": 320, "width": 320}),
    Case("onnx_asr", "*.onnx", _SPEECH, _LENGTHS, scale=0.1),
    Case("piper_tts", "*/model.onnx", {"batch": 1, "seq": 24}, {"input_lengths": [24]}),
    Case("piper_tts", "*/nakdimon.onnx", {"input_1": (1, 24)}),
    Case("rapidocr_onnxruntime", "*_det_infer.onnx", {"x": (1, 3, 96, 128)}),
    Case("rapidocr_onnxruntime", "*_rec_infer.onnx", {"x": (1, 3, 48, 160)}),
    Case("rapidocr_onnxruntime", "*_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    Case("silero_vad", "*_16k_sequence.onnx", {"sequence_length": 5}, scale=0.1),
    Case("silero_vad", "*_openvino_16k.onnx", scale=0.1),
    Case("silero_vad", "*_half.onnx", {"batch": 1, "sequence": 576}, scale=0.1),
    Case("silero_vad", "*.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}, 0.1),
    Case("speechmos", "*/aecmos_models/*", {"batch_size": 1, "frames": 100}, scale=0.1),
    Case("speechmos", "*/*dnsmos_models/*", {"N": 1}, scale=0.1),
    Case("speechmos", "*/plcmos_models/*", {"batch_size": 1, "frames": 100}, scale=0.1),
    Case("swift_f0", "*/model.onnx", {"samples": 4000}, {"fmin": 50.0, "fmax": 2000.0}, 0.1),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a file: ``right``, or why not."""

    name: str
    reason: str = ""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        return not self.reason


def outcomes(folder: Path, pattern: str = "") -> Iterator[Outcome]:
    """Return the outcomes of the files in the wheels of a folder whose names have a pattern."""
    for wheel in sorted(folder.glob("*.whl")):
        package = wheel.name.partition("-")[0]
        with zipfile.ZipFile(wheel) as archive:
            for path in sorted(n for n in archive.namelist() if n.endswith(".onnx")):
                cases = [c for c in CASES if c.wheel == package and fnmatch(path, c.files)]
                if cases and pattern in path:
                    yield _outcome(path, archive.read(path), cases[0])


def _outcome(path: str, data: bytes, case: Case) -> Outcome:
    import onnx

    model = onnx.load_from_string(data)
    arrays = _inputs(model, case)
    expected = _expected(data, arrays)
    start = time.perf_counter()
    fixed = _with_values(model, {n: arrays[n] for n in case.values if n in arrays})
    shapes = {n: s for n, s in case.shapes.items() if _is_open(fixed, n)}
    try:
        imported = sl.frontend.from_onnx(fixed, shapes)
        network = sl.network(imported, database=None)
    except SchedlangError as error:
        return Outcome(path, str(error).splitlines()[0], time.perf_counter() - start)
    names = [value.name for value in fixed.graph.input if value.name in arrays]
    own = network(*(arrays[n] for n in names))
    results = own if isinstance(own, tuple) else (own,)
    for output, result, wanted in zip(model.graph.output, results, expected, strict=True):
        try:
            np.testing.assert_allclose(
                result, wanted, rtol=2e-3, atol=2e-3 * max(1.0, float(np.abs(wanted).max()))
            )
        except AssertionError as error:
            said = " ".join(str(error).split())[:160]
            return Outcome(path, f"differs in {output.name}: {said}", time.perf_counter() - start)
    return Outcome(path, "", time.perf_counter() - start)


def _inputs(model: Any, case: Case) -> dict[str, np.ndarray]:
    """Return an array for each input of the model."""
    from onnx import helper

    rng = np.random.default_rng(0)
    weights = {tensor.name for tensor in model.graph.initializer}
    arrays = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        declared = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(declared.elem_type)
        if value.name in case.values:
            arrays[value.name] = np.array(case.values[value.name], dtype)
            continue
        dims = [case.shapes.get(d.dim_param, d.dim_value) for d in declared.shape.dim]
        shape = case.shapes.get(value.name, dims)
        if dtype.kind == "f":
            arrays[value.name] = np.asarray(rng.standard_normal(shape) * case.scale, dtype)
        else:
            arrays[value.name] = rng.integers(0, case.below, shape).astype(dtype)
    return arrays


def _expected(data: bytes, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    results: list[np.ndarray] = session.run(None, dict(arrays))
    return results


def _with_values(model: Any, values: Mapping[str, np.ndarray]) -> Any:
    """Return a model with initializers in place of some inputs."""
    from onnx import ModelProto, numpy_helper

    copy = ModelProto()
    copy.CopyFrom(model)
    kept = [value for value in model.graph.input if value.name not in values]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in values.items())
    return copy


def _is_open(model: Any, name: str) -> bool:
    """Return whether a model has an input or a dimension of this name."""
    inputs = model.graph.input
    dims = {d.dim_param for v in inputs for d in v.type.tensor_type.shape.dim}
    return name in dims or any(v.name == name for v in inputs)


def main(pattern: str = "") -> None:
    folder = os.environ.get(FOLDER)
    if not folder:
        raise SystemExit(f"{FOLDER} must name a folder of wheels")
    results = []
    for outcome in outcomes(Path(folder), pattern):
        results.append(outcome)
        print(f"{outcome.seconds:5.1f} s  {outcome.name}: {outcome.reason or 'right'}", flush=True)
    print(f"{sum(o.right for o in results)} of {len(results)} right")


if __name__ == "__main__":
    main(*sys.argv[1:])
