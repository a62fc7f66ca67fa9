"""Time schedlang itself: lowering, code generation, imports, and the overhead of a call.

    python -m benchmarks.compiler [--only PATTERN] [--json FILE]

Some rows time the first compilation of a kernel, and some its calls. The others compile none; of
these, ``net.kernels`` schedules and lowers the parts of whole networks.
Chains of 10, 100 and 1000 stages show how the time grows with the stages: ``per stage`` should not
grow.
"""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest import mock

import numba
import numpy as np

import schedlang as sl
from benchmarks.harness import Case, Column, Row, Unavailable, main
from benchmarks.peers.networks import OURS
from benchmarks.works import NETWORKS, Work
from schedlang.codegen.numba_cpu import source_of
from schedlang.codegen.numba_file import HELPERS, render
from schedlang.compute.tensor import Tensor
from schedlang.intrinsics.dialect import NAMES
from schedlang.machine.lower import machine_nest
from schedlang.runtime import files
from schedlang.runtime.built import numba_types
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target

Make = Callable[[], Schedule]
LENGTHS = (10, 100, 1000)
LONG = 2000


def matmul() -> Tensor:
    """Declare the matrix product of the README."""
    M = N = K = 1024
    A = sl.placeholder((M, K), name="A")
    B = sl.placeholder((K, N), name="B")
    k = sl.reduce_axis(K, name="k")
    return sl.compute((M, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


def scheduled_matmul(C: Tensor) -> Schedule:
    s = sl.schedule(C)
    i, j = s[C].op.axis
    io, jo, ii, ji = s[C].tile(i, j, 32, 32)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)
    s[C].reorder(io, jo, ko, ki, ii, ji)
    s[C].vectorize(ji)
    s[C].parallel(io)
    return s


def _smoothed(image: Tensor, k: int) -> Tensor:
    """Declare a 3-point filter, along rows for odd ``k`` and along columns for even ``k``."""
    h, w = image.shape
    dy, dx = (0, 1) if k % 2 else (1, 0)

    def smooth(y: sl.Expr, x: sl.Expr) -> sl.Expr:
        return (image[y, x] + image[y + dy, x + dx] * 2 + image[y + 2 * dy, x + 2 * dx]) / 4

    return sl.compute((h - 2 * dy, w - 2 * dx), smooth, name=f"{'rows' if k % 2 else 'cols'}{k}")


def _toned(image: Tensor, k: int) -> Tensor:
    """Declare a point-wise stage."""
    return sl.compute(
        image.shape, lambda y, x: sl.max(image[y, x] * 1.1 - 0.05, 0.0), name=f"tone{k}"
    )


def pipeline() -> list[Tensor]:
    """Declare 20 stages of an image pipeline: filters, point-wise stages, a sharpened result."""
    image = sl.placeholder((1080, 1920), name="image")
    stages = [image]
    for k in range(12):
        stages.append(_smoothed(stages[-1], k))
    soft = stages[-1]
    h, w = soft.shape
    for k in range(5):
        stages.append(_toned(stages[-1], k))
    tone = stages[-1]
    dx = sl.compute((h - 2, w - 2), lambda y, x: tone[y + 1, x + 2] - tone[y + 1, x], name="dx")
    dy = sl.compute((h - 2, w - 2), lambda y, x: tone[y + 2, x + 1] - tone[y, x + 1], name="dy")
    edges = sl.compute(
        (h - 2, w - 2),
        lambda y, x: soft[y + 1, x + 1] + sl.sqrt(dx[y, x] * dx[y, x] + dy[y, x] * dy[y, x]),
        name="edges",
    )
    return [*stages[1:], dx, dy, edges]


def scheduled_pipeline(stages: Sequence[Tensor]) -> Schedule:
    """Compute every stage at the tiles of the result, and vectorize its rows."""
    out = stages[-1]
    s = sl.schedule(out)
    y, x = s[out].op.axis
    yo, xo, _, xi = s[out].tile(y, x, 64, 128)
    s[out].parallel(yo)
    s[out].vectorize(s[out].split(xi, factor=8)[1])
    for stage in stages[:-1]:
        s[stage].compute_at(s[out], xo)
        s[stage].vectorize(s[stage].split(s[stage].op.axis[1], factor=8)[1])
    return s


def chain(count: int, how: str) -> Schedule:
    """Schedule ``count`` stages, each of which reads the one before.

    ``how`` places them: at root, inlined, at a loop of the last stage, or at a loop of the next.
    """
    stages = [sl.placeholder((1024,), name="A")]
    for k in range(count):
        before = stages[-1]
        stages.append(sl.compute((1024,), lambda i, p=before: p[i] * 0.5 + 1.0, name=f"S{k}"))
    last = stages[-1]
    s = sl.schedule(last)
    if how == "inlined":
        for stage in stages[1:-1]:
            s[stage].compute_inline()
    elif how == "at the last":
        outer, _ = s[last].split(s[last].op.axis[0], factor=32)
        for stage in stages[1:-1]:
            s[stage].compute_at(s[last], outer)
    elif how == "at the next":
        s[last].split(s[last].op.axis[0], factor=32)
        for stage, reader in zip(reversed(stages[1:-1]), reversed(stages[2:])):
            s[stage].compute_at(s[reader], s[reader].leaf_axes[0])
    return s


def source(s: Schedule, nest: sl.Nest) -> str:
    """Return the text that ``sl.build`` writes to a file."""
    machine = machine_nest(nest, Target.of(None), nest.name, [*NAMES, *HELPERS])
    made = source_of(machine, nest.name)
    return render(nest, made, s.as_python(), fastmath=False, compiled=True, shown=str(nest)).text


def _timed(*work: Callable[[], object]) -> float:
    start = perf_counter()
    for call in work:
        call()
    return perf_counter() - start


def _parts(make: Make, work: str, limit: float | None) -> Iterator[Case]:
    """Yield a case for each part of the way from steps to source, and one for all of it.

    Each call makes a new schedule, so that it profits from no cache of an earlier call.
    """

    def nest_alone() -> float:
        s = make()
        return _timed(lambda: sl.lower(s))

    def source_alone() -> float:
        s = make()
        nest = sl.lower(s)
        return _timed(lambda: source(s, nest))

    def printed() -> float:
        s = make()
        return _timed(lambda: str(s))

    def everything() -> float:
        s = make()
        return _timed(lambda: source(s, sl.lower(s)))

    yield Case(work, "declare, schedule", lambda: make)
    yield Case(work, "steps to nest", lambda: nest_alone)
    yield Case(work, "nest to source", lambda: source_alone)
    yield Case(work, "print", lambda: printed)
    yield Case(work, "steps to source", lambda: everything, limit=limit)


def _growth(how: str, count: int) -> Case:
    def whole() -> float:
        def work() -> None:
            s = chain(count, how)
            source(s, sl.lower(s))

        return _timed(work)

    return Case(f"chain {how}", f"{count} stages", lambda: whole)


def _long(how: str) -> Iterator[Case]:
    """Yield a case for each part of the tool, on a chain longer than Python's recursion limit."""
    held: list[Schedule] = []

    def schedule() -> Schedule:
        if not held:
            held.append(chain(LONG, how))
        return held[0]

    work = f"chain of {LONG} {how}"
    yield Case(work, "declare, schedule", lambda: lambda: chain(LONG, how))
    yield Case(work, "print", lambda: lambda: str(schedule()))
    yield Case(work, "steps to source", lambda: lambda: source(schedule(), sl.lower(schedule())))
    yield Case(
        work, "pickle and back", lambda: lambda: pickle.loads(pickle.dumps(schedule())),
        check=lambda: str(pickle.loads(pickle.dumps(schedule()))) == str(schedule()),
    )  # fmt: skip


_IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
_USE = (
    "import sys, time; start = time.perf_counter(); import schedlang as sl; "
    "A = sl.placeholder((8,), name='A'); "
    "B = sl.compute((8,), lambda i: A[i] + 1, name='B'); s = sl.schedule(B); "
    "s[B].split(B.op.axis[0], 4); str(s); s.to_json(); "
    "assert 'numba' not in sys.modules; print(time.perf_counter() - start)"
)


def _child(code: str) -> float:
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(run.stdout)


def _imports() -> Iterator[Case]:
    """Yield imports in new processes, of schedlang also with a schedule that is printed."""
    for modules in ("numpy", "numpy, networkx, sympy", "schedlang"):
        yield Case("import", modules, partial(_same, partial(_child, _IMPORT.format(modules))))
    yield Case("import", "schedlang, a schedule", partial(_same, partial(_child, _USE)))


def _torch_imports() -> Iterator[Case]:
    """Yield imports of models of PyTorch: its export alone, and the whole."""
    absent = [name for name in ("torch", "torchvision") if find_spec(name) is None]
    missing = f"not installed: {', '.join(absent)}" if absent else ""

    def prepare(kind: str, export: bool) -> Callable[[], object]:
        import torch

        from benchmarks.peers import network_models

        module = getattr(network_models, kind)({"small": 0, "height": 224}).eval()
        example = (torch.randn(1, 3, 224, 224),)
        if export:
            return partial(torch.export.export, module, example, strict=False)
        return partial(sl.frontend.from_torch, module, example)

    for kind in ("resnet50", "mobilenet_v2", "vit"):
        for name, export in (("torch.export", True), ("schedlang", False)):
            yield Case(f"import {kind}", name, partial(prepare, kind, export), missing=missing)


def _same(call: Callable[[], object]) -> Callable[[], object]:
    return call


def _by_numba(parallel: bool) -> Callable[..., object]:
    @numba.njit(parallel=parallel)
    def more(A: Any, B: Any) -> None:
        for i in numba.prange(A.size):
            B[i] = A[i] + 1

    return more


def _kernel(parallel: bool) -> sl.Kernel:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] + 1, name="B")
    s = sl.schedule(B)
    if parallel:
        s[B].parallel(B.op.axis[0])
    return sl.build(s, [A, B])


def _calls() -> Iterator[Case]:
    """Yield calls on tiny arrays, whose time is all overhead: numba's, checked, unchecked."""
    arrays = np.ones(8, "float32"), np.ones(8, "float32")
    made: dict[str, Callable[[bool], Callable[..., object]]] = {
        "numba": _by_numba, "schedlang": _kernel,
        "schedlang, unchecked": lambda parallel: _kernel(parallel).unchecked,
    }  # fmt: skip

    def prepare(make: Callable[[bool], Callable[..., object]], parallel: bool) -> Any:
        call = partial(make(parallel), *arrays)
        call()
        return call

    for parallel in (False, True):
        for name, make in made.items():
            work = "call of a parallel kernel" if parallel else "call of a kernel"
            yield Case(work, name, partial(prepare, make, parallel))


def unrolled(copies: int) -> Schedule:
    """Schedule a point-wise stage whose inner loop is unrolled."""
    A = sl.placeholder((4 * copies,), name="A")
    B = sl.compute(A.shape, lambda i: A[i] * 2 + 1, name="B")
    s = sl.schedule(B)
    s[B].unroll(s[B].split(B.op.axis[0], factor=copies)[1])
    return s


def _different(count: int) -> Schedule:
    """Schedule ``count`` stages at root, each with numbers of its own."""
    tensor = sl.placeholder((1024,), name="A")
    for k in range(count):
        tensor = sl.compute((1024,), lambda i, p=tensor, c=k + 2: p[i] * c + 1, name=f"S{k}")
    return sl.schedule(tensor)


def _compilations() -> Iterator[Case]:
    """Yield first compilations, without a cache on disk: as kernels, and by numba alone."""
    works: dict[str, Make] = {
        "50 stages at root": lambda: chain(50, "at root"),
        "200 stages at root": lambda: chain(200, "at root"),
        "50 different stages": lambda: _different(50),
        "1024 unrolled copies": lambda: unrolled(1024),
        "parallel matmul": lambda: scheduled_matmul(matmul()),
    }

    samples = itertools.count()

    def seconds(make: Make, alone: bool) -> float:
        with TemporaryDirectory() as folder, mock.patch.dict(os.environ, SCHEDLANG_CACHE=folder):
            # a process compiles kernels of equal text once
            f = sl.build(make(), name=f"sample{next(samples)}")
            if not alone:
                return _timed(f.compile)
            function = getattr(files.load(Path(f.path)), f.machine_nest.entry.name)
            return _timed(lambda: function.compile(tuple(numba_types(f.signature))))

    for work, make in works.items():
        for name, alone in (("numba alone", True), ("schedlang", False)):
            yield Case(f"compile {work}", name, partial(_same, partial(seconds, make, alone)))


def _networks() -> Iterator[Case]:
    """Yield the time from an imported network to the scheduled, lowered kernels of its parts."""

    def prepare(work: Work) -> Callable[[], float]:
        if missing := OURS.missing():
            raise Unavailable(missing)
        import torch

        from benchmarks.peers import network_models
        from schedlang.frontend import from_torch

        x = torch.from_numpy(work.arrays()["x"])
        imported = from_torch(network_models.module(work), (x,))

        def kernels() -> float:
            network = sl.network(imported)
            assert network.partition
            return _timed(lambda: network.kernels)

        return kernels

    for work in NETWORKS:
        yield Case(work.name, "net.kernels", partial(prepare, work))


def cases() -> Iterator[Case]:
    yield from _imports()
    yield from _torch_imports()
    yield from _calls()
    yield from _compilations()
    yield from _networks()
    yield from _parts(lambda: scheduled_matmul(matmul()), "matmul", 0.020)
    yield from _parts(lambda: scheduled_pipeline(pipeline()), "20-stage image pipeline", 0.150)
    for how in ("at root", "inlined", "at the last", "at the next"):
        for count in LENGTHS:
            yield _growth(how, count)
    for how in ("at root", "inlined", "at the last", "at the next"):
        yield from _long(how)


def _per_stage(row: Row, group: Sequence[Row]) -> str:
    words = row.case.implementation.split()
    return f"{row.seconds / int(words[0]) * 1e6:.0f} µs" if words[0].isdigit() else ""


if __name__ == "__main__":
    sys.exit(main("schedlang itself", cases(), [Column("per stage", _per_stage)]))
