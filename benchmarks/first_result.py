"""One first result in a new process, for ``first_results.py``.

    python -m benchmarks.first_result KIND NAME [OPTION=VALUE ...]

Print, as a line of JSON, the seconds from where the process has its libraries and its inputs to the
result (``wall``), and the processor time that it and its children took for that (``processor``).
The file imports nothing of the package that an earlier commit lacks, so that ``first_results``
can run it in another checkout.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

# what a kind returns: the call that ends with a first result
Call = Callable[[], object]


def kernel(name: str, **options: Any) -> Call:
    """Return the build of a kernel of ``benchmarks.cpu``, by its schedule by hand."""
    from benchmarks import schedules, works

    schedule, args = schedules.of(works.TABLE[name])[schedules.MAIN].make(
        works.TABLE[name], sl.Target("cpu")
    )
    return lambda: sl.build(schedule, args, **options).compile()


def halide(name: str) -> Call:
    """Return the compilation of a kernel by Halide, whose schedule stands."""
    from benchmarks import works
    from benchmarks.peers import halide_compile

    return halide_compile.just_in_time(works.TABLE[name])


def pipeline(name: str, **options: Any) -> Call:
    """Return the build of a long schedule: 200 stages, or a loop of 1,024 copies."""
    from benchmarks import compiler

    schedule = compiler.unrolled(1024) if name == "unrolled" else compiler.chain(200, "at root")
    return lambda: sl.build(schedule, **options).compile()


def npbench(name: str, by: str = "schedlang") -> Call:
    """Return the first call of a program of NPBench."""
    from benchmarks import npbench as programs

    program = next(p for p in programs.programs() if p.name == name)
    given = programs.arguments(program)
    if by == "schedlang":
        function = programs.with_jit(program)
        return lambda: function(*given)
    # these make their first call by themselves
    with_peer = {"numba": programs.with_numba, "torch": programs.with_torch}[by]
    return lambda: with_peer(program)


def network(name: str, by: str = "schedlang", **options: Any) -> Call:
    """Return the way of a network from its model in PyTorch to the first result."""
    import torch

    from benchmarks import works
    from benchmarks.peers import network_models

    work = works.ALL[name]
    module, x = network_models.module(work), work.arrays()["x"]
    example = torch.from_numpy(x)
    if by == "torch":

        def compile_by_torch() -> object:
            with torch.no_grad():
                return torch.compile(module)(example)

        return compile_by_torch

    def first_result() -> object:
        return sl.network(sl.frontend.from_torch(module, (example,)), **options)(x)

    return first_result


def loaded(name: str, by: str = "schedlang") -> Call:
    """Return the load of a network that an earlier process saved, and its first call."""
    from benchmarks import works
    from benchmarks.peers import networks

    work, implementation = works.ALL[name], by.replace("_", " ")
    networks.import_libraries(implementation, work)
    x = work.arrays()["x"]
    return lambda: networks.load(implementation, work).call(x)


def saved(name: str, by: str = "schedlang") -> Call:
    """Return what saves a network for :func:`loaded`."""
    from benchmarks import works
    from benchmarks.peers import networks

    return lambda: networks.build(by.replace("_", " "), works.ALL[name])


def search(name: str, trials: str) -> Call:
    """Return a search of some trials, from an empty database."""

    outputs = SEARCHES[name]()
    # a new folder for each process, so that no search continues another one
    database = os.path.join(os.environ["SCHEDLANG_CACHE"], "searched.jsonl")
    return lambda: sl.autotune(outputs, trials=int(trials), database=database, progress=False)


def _product() -> Any:
    A, B = (sl.placeholder((512, 512), name=name) for name in "AB")
    k = sl.reduce_axis(512, name="k")
    return sl.compute((512, 512), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


def _convolution() -> Any:
    image = sl.placeholder((1, 64, 58, 58), name="image")
    weights = sl.placeholder((64, 64, 3, 3), name="weights")
    c, dy, dx = (sl.reduce_axis(n, name=name) for n, name in ((64, "c"), (3, "dy"), (3, "dx")))
    return sl.compute(
        (1, 64, 56, 56),
        lambda n, o, y, x: sl.sum(
            image[n, c, y + dy, x + dx] * weights[o, c, dy, dx], axis=[c, dy, dx]
        ),
        name="out",
    )


def _softmax() -> Any:
    A = sl.placeholder((1024, 1024), name="A")
    k, m = sl.reduce_axis(1024, name="k"), sl.reduce_axis(1024, name="m")
    most = sl.compute((1024,), lambda i: sl.max(A[i, k], axis=k), name="most")
    total = sl.compute((1024,), lambda i: sl.sum(sl.exp(A[i, m] - most[i]), axis=m), name="total")
    return sl.compute(A.shape, lambda i, j: sl.exp(A[i, j] - most[i]) / total[i], name="out")


SEARCHES = {"product": _product, "convolution": _convolution, "softmax": _softmax}
KINDS: dict[str, Callable[..., Call]] = {
    f.__name__: f for f in (kernel, halide, pipeline, npbench, network, loaded, saved, search)
}


def _processor() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(kind: str, name: str, *options: str) -> None:
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # what libraries print goes to the log
    os.dup2(2, 1)
    call = KINDS[kind](name, **dict(option.split("=", 1) for option in options))
    wall, processor = perf_counter(), _processor()
    call()
    facts = {"wall": perf_counter() - wall, "processor": _processor() - processor}
    answer.write(json.dumps(facts) + "\n")
    answer.flush()


if __name__ == "__main__":
    # first_results runs this text in the folder of a checkout
    sys.path.insert(0, os.getcwd())
    import numba  # noqa: F401
    import numpy  # noqa: F401, ICN001

    import schedlang as sl

    main(*sys.argv[1:])
