"""Halide: each algorithm under an automatic scheduler or scheduled by hand, compiled once.

A pipeline becomes an object file and a shared library in the cache folder, so that scheduling
(minutes, for Adams2019) and compiling happen once a machine.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import halide as hl

from benchmarks.cache import folder
from benchmarks.peers import Call
from benchmarks.peers.halide_algorithms import ALGORITHMS, F32
from benchmarks.works import Arrays, Work

THREADS = 2
ENTRY = "peer"
FLOAT32 = 2 | 32 << 8 | 1 << 16


class Dimension(ctypes.Structure):
    _fields_ = (
        ("min", ctypes.c_int32), ("extent", ctypes.c_int32), ("stride", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    )  # fmt: skip


class Buffer(ctypes.Structure):
    """``halide_buffer_t``."""

    _fields_ = (
        ("device", ctypes.c_uint64), ("interface", ctypes.c_void_p), ("host", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("type", ctypes.c_uint32), ("dimensions", ctypes.c_int32),
        ("dim", ctypes.POINTER(Dimension)), ("padding", ctypes.c_void_p),
    )  # fmt: skip


def prepare(implementation: str, work: Work, arrays: Arrays, outs: Arrays) -> Call:
    library = ctypes.CDLL(str(_library(implementation, work)))
    run = getattr(library, ENTRY)
    buffers = [_buffer(a) for a in (*arrays.values(), *outs.values())]
    given = [ctypes.byref(b) for b in buffers]

    def call() -> None:
        if run(*given):
            raise RuntimeError("the pipeline failed")

    return call


def _buffer(array: Any) -> Buffer:
    dims = (Dimension * array.ndim)()
    for dim, extent, stride in zip(dims, reversed(array.shape), reversed(array.strides)):
        dim.extent, dim.stride = extent, stride // array.itemsize
    host = ctypes.c_void_p(array.ctypes.data)
    return Buffer(host=host, type=FLOAT32, dimensions=array.ndim, dim=dims)


def _library(implementation: str, work: Work) -> Path:
    hand = implementation == "Halide by hand"
    algorithm = ALGORITHMS[f"{work.kind}_by_hand" if hand else work.kind]
    target = hl.get_host_target().with_feature(hl.TargetFeature.NoAsserts)
    code = inspect.getsource(inspect.getmodule(algorithm)) if hand else inspect.getsource(algorithm)
    key = repr((implementation, code, sorted(work.sizes.items()), str(target), THREADS))
    name = f"{work.kind}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    made = folder("halide") / f"{name}.so"
    if made.exists():
        return made
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotImplementedError("linking needs a C compiler")
    inputs, pipeline = _pipeline(work, algorithm)
    if not hand:
        scheduler = implementation.split()[1]
        hl.load_plugin(str(_plugin(scheduler)))
        given = hl.AutoschedulerParams(scheduler, {"parallelism": str(THREADS)})
        pipeline.apply_autoscheduler(target, given)
    draft = made.with_suffix(f".{os.getpid()}.o")
    pipeline.compile_to_object(str(draft), inputs, ENTRY, target)
    shared = draft.with_suffix(".so")
    link = [compiler, "-shared", "-o", str(shared), str(draft), "-lpthread", "-ldl", "-lm"]
    subprocess.run(link, check=True)
    shared.replace(made)
    draft.unlink()
    return made


def _plugin(scheduler: str) -> Path:
    root = Path(hl.__file__).parent
    found = sorted(root.glob(f"lib*/*autoschedule_{scheduler.lower()}.*"))
    if not found:
        raise NotImplementedError(f"this Halide has no {scheduler}")
    return found[0]


def _pipeline(work: Work, algorithm: Any) -> tuple[list[Any], Any]:
    """The pipeline for these very shapes; schedulers want estimates too."""
    inputs = [hl.ImageParam(F32, len(shape), name) for name, shape in work.inputs.items()]
    for parameter, shape in zip(inputs, work.inputs.values()):
        _fix(parameter, shape)
        parameter.set_estimates([(0, n) for n in reversed(shape)])
    made = algorithm(work.sizes, *inputs)
    outputs = made if isinstance(made, list) else [made]
    for out, shape in zip(outputs, work.outputs.values()):
        _fix(out.output_buffer(), shape)
        out.set_estimates([(0, n) for n in reversed(shape)])
    return inputs, hl.Pipeline(outputs)


def _fix(parameter: Any, shape: tuple[int, ...]) -> None:
    stride = 1
    parameter.set_host_alignment(64)
    for at, extent in enumerate(reversed(shape)):
        parameter.dim(at).set_bounds(0, extent).set_stride(stride)
        stride *= extent
