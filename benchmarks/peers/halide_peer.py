"""Halide: each algorithm under an automatic scheduler or a schedule by hand.

A pipeline becomes a shared library in the cache folder. So each machine schedules it (which takes
Adams2019 minutes) and compiles it only once.
"""

from __future__ import annotations

import ast
import ctypes
import hashlib
import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.cache import folder
from benchmarks.peers import Call
from benchmarks.peers.halide_compile import ALGORITHMS, ENTRY, THREADS, squeezed
from benchmarks.peers.halide_host import host_target
from benchmarks.works import Arrays, Work

ROOT = Path(__file__).parent.parent.parent
FLOAT32 = 2 | 32 << 8 | 1 << 16
# the limit of a search, in seconds of processor time
SEARCH = 40
# the options of each scheduler, tried in turn until one of them ends within the limit
OPTIONS = {
    "Mullapudi2016": ({"parallelism": THREADS},),
    "Adams2019": (
        {"parallelism": THREADS},
        {"parallelism": THREADS, "disable_subtiling": "1"},
        {"parallelism": THREADS, "beam_size": "1"},
    ),
    "by hand": ({},),
}


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


def prepare(
    implementation: str, work: Work, arrays: Arrays, outs: Arrays
) -> tuple[Call, dict[str, Any]]:
    path, note = _library(implementation.removeprefix("Halide "), work)
    run = getattr(ctypes.CDLL(str(path)), ENTRY)
    held = [a.squeeze() for a in (*arrays.values(), *outs.values())]
    given = [ctypes.byref(_buffer(a)) for a in held]

    def call() -> None:
        # ``held`` keeps the arrays alive: the buffers have only their addresses.
        if run(*given):
            raise RuntimeError(f"the pipeline failed on {len(held)} arrays")

    return call, {"options": note}


def _buffer(array: Any) -> Buffer:
    dims = (Dimension * array.ndim)()
    for dim, extent, stride in zip(dims, reversed(array.shape), reversed(array.strides)):
        dim.extent, dim.stride = extent, stride // array.itemsize
    host = ctypes.c_void_p(array.ctypes.data)
    return Buffer(host=host, type=FLOAT32, dimensions=array.ndim, dim=dims)


def _library(scheduler: str, work: Work) -> tuple[Path, dict[str, str]]:
    """Return the shared library, and the scheduler's options that made it."""
    hand = scheduler == "by hand"
    algorithm = f"{work.kind}_by_hand" if hand else work.kind
    key = repr((scheduler, _code(algorithm), sorted(work.sizes.items()), host_target()))
    name = f"{work.kind}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    made = folder("halide") / f"{name}.so"
    note = made.with_suffix(".json")
    if made.exists():
        return made, json.loads(note.read_text())
    for options in OPTIONS[scheduler]:
        draft = made.with_suffix(f".{os.getpid()}.o")
        job = {
            "algorithm": algorithm, "sizes": dict(work.sizes), "inputs": squeezed(work.inputs),
            "outputs": squeezed(work.outputs), "file": str(draft),
            "scheduler": "" if hand else scheduler, "options": options, "seconds": SEARCH,
        }  # fmt: skip
        command = [sys.executable, "-m", "benchmarks.peers.halide_compile", json.dumps(job)]
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
        if done.returncode == 0 and "guaranteed to fail" not in done.stderr:
            note.write_text(json.dumps(options))
            _link(draft, made)
            return made, options
    raise RuntimeError(f"{scheduler} made no schedule in {SEARCH} s of processor time")


def _code(algorithm: str) -> str:
    """Return the syntax trees of an algorithm and its helpers: formatting makes no new key."""
    made = ALGORITHMS[algorithm]
    parts = ast.parse(Path(inspect.getfile(made)).read_text(encoding="utf-8")).body
    named = [p for p in parts if isinstance(p, ast.FunctionDef)]
    wanted = made.__name__, made.__name__.removesuffix("_by_hand")
    return "".join(ast.dump(p) for p in named if p.name.startswith("_") or p.name in wanted)


def _link(draft: Path, made: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("linking needs a C compiler")
    shared = draft.with_suffix(".so")
    command = [compiler, "-shared", "-o", str(shared), str(draft), "-lpthread", "-ldl", "-lm"]
    subprocess.run(command, check=True)
    shared.replace(made)
    draft.unlink()
