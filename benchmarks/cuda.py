"""Compare GPU kernels with libraries on a GPU, or inspect their machine code without one.

    python -m benchmarks.cuda [--only PATTERN] [--json FILE]
    python -m benchmarks.cuda --code [--only PATTERN] [--json FILE] [--arch sm_90] [--emulate]

Everything is float32 (tf32 off) and warm, and implementations take turns. A sample is 20 ms of
calls, timed by events of the GPU. A kernel that sleeps holds the GPU until all calls are in its
queue. Calls cycle through sets of arrays that are together larger than twice the second-level
cache. The row ``launch of one block`` is the host's time of one call.

The peers are PyTorch (cuBLAS, cuDNN), ``torch.compile``, Triton and kernels by hand in numba.cuda,
where they are installed. Works are in ``works/gpu.py``, schedules in ``gpu/``, and ``--code`` is
in ``gpu/code.py``. ``--only 'sgemm|attention'`` prints a part of the table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from math import ceil
from typing import Any

import numpy as np

import schedlang as sl
from benchmarks.gpu import code, scheduled
from benchmarks.gpu.clock import Clock
from benchmarks.harness import Case, Column, Row, Unavailable, main
from benchmarks.works import Work
from benchmarks.works.gpu import GPU_WORKS
from schedlang.runtime import nvidia

OURS, EAGER, COMPILED = "schedlang", "torch eager", "torch.compile"
TRITON, BY_HAND, NUMBA = "Triton", "numba.cuda by hand", "numba.cuda"
LAUNCH = "launch of one block"
# the goals of the rows, as fractions of cuBLAS, of cuDNN at batch 1 and of the copy bandwidth
OF_CUBLAS, OF_CUDNN, OF_COPY = 0.8, 0.5, 0.9
MOST_SETS = 512
Call = Callable[[], object]


class Sets:
    """Several sets of the arrays of one work on the GPU, and the expected results."""

    def __init__(self, work: Work, clock: Clock) -> None:
        self.work = work
        self.host = work.arrays()
        count = min(MOST_SETS, max(2, ceil(2 * clock.cache_bytes / work.bytes)))
        self.sets = [[_on_device(a) for a in self.host.values()] for _ in range(count)]
        self.outs = [[_on_device(a) for a in work.empty().values()] for _ in range(count)]
        self.expected: tuple[Any, ...] = ()

    def each(self) -> Iterator[list[Any]]:
        """Yield the inputs and outputs of one call, for each set."""
        return ([*given, *out] for given, out in zip(self.sets, self.outs))

    def wrong(self, call: Call) -> str:
        """Return the error of ``call`` on the first set, or an empty string."""
        for out, fresh in zip(self.outs[0], self.work.empty().values()):
            _view(out).copy_to_device(fresh)
        made = call()
        results = self.outs[0] if made is None else made if isinstance(made, tuple) else (made,)
        if not self.expected:
            self.expected = self.work.expected(self.host)
        got = tuple(_view(r.contiguous() if hasattr(r, "contiguous") else r) for r in results)
        return self.work.wrong(tuple(g.copy_to_host() for g in got), self.expected)


def _on_device(array: np.ndarray[Any, Any]) -> Any:
    if find_spec("torch") is not None:
        import torch

        return torch.from_numpy(array).cuda()
    return nvidia.driver().to_device(array)


def _view(value: Any) -> Any:
    return nvidia.driver().as_cuda_array(value)


class Table:
    """The cases of a run. Only the arrays of one work at a time are on the GPU."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.limits: dict[str, float] = {}
        self.held: Sets | None = None

    def sets(self, work: Work) -> Sets:
        if self.held is None or self.held.work is not work:
            self.held = None
            self.held = Sets(work, self.clock)
        return self.held

    def cases(self) -> Iterator[Case]:
        for work in GPU_WORKS:
            for label, prepare in PREPARE.items():
                absent = _missing(label, work)
                if absent is not None:
                    yield self.case(work, label, prepare, absent)
        for label in (OURS, NUMBA, EAGER):
            yield Case(LAUNCH, label, partial(_launch, label), missing=_missing(label, None) or "")

    def case(self, work: Work, label: str, prepare: Any, missing: str) -> Case:
        calls: list[Call] = []
        facts: dict[str, Any] = {}

        def timed() -> Callable[[], float]:
            try:
                calls[:] = prepare(work, self.sets(work), self.clock)
                calls[0]()
            except Exception as error:
                # A row that fails must not end the run.
                raise Unavailable(f"{type(error).__name__}: {error}".splitlines()[0]) from error
            facts["sets"] = len(calls)
            return sample

        def sample() -> float:
            seconds = self.clock.seconds(calls)
            if self.clock.starved:
                facts["waits_for_the_host"] = True
            return seconds

        def check() -> bool:
            wrong = self.sets(work).wrong(calls[0])
            calls.clear()
            if wrong:
                facts["wrong"] = wrong
                print(f"{work.name}, {label}: {wrong}", file=sys.stderr)
            return not wrong

        moved = work.bytes if work.bound == "copy" else None
        return Case(work.name, label, timed, check, work.flops, moved, missing=missing, whole=True,
                    facts=facts)  # fmt: skip

    def ceilings(self) -> dict[str, float]:
        self.limits = self.clock.ceilings()
        return self.limits

    def fraction(self, row: Row) -> float | None:
        """Return the least time that the bounding ceiling allows, over the row's own."""
        work = _WORKS.get(row.case.work)
        if work is None:
            return None
        if work.bound == "fma":
            return (work.flops or 0) / (self.limits["FMA GFLOP/s"] * 1e9) / row.seconds
        return work.bytes / (self.limits["copy GB/s"] * 1e9) / row.seconds

    def summary(self, rows: Sequence[Row]) -> str:
        """Return a line for each row below its goal."""
        short = []
        for name, members in groupby(rows, lambda r: r.case.work):
            found = {r.case.implementation: r for r in members}
            own = found.get(OURS)
            if name not in _WORKS or own is None:
                continue
            seconds = {label: r.seconds for label, r in found.items() if r.correct}
            fraction = self.fraction(own) or 0
            text = _short(_WORKS[name], seconds, fraction) if own.correct else "wrong"
            short += [f"{name}: {text}"] if text else []
        return "\n".join(short) or "every row that was timed reaches its goal"


_WORKS = {work.name: work for work in GPU_WORKS}


def _short(work: Work, seconds: Mapping[str, float], fraction: float) -> str:
    """Return how far a row is below its goal, or an empty string where it reaches it."""
    if work.bound == "copy" and work.kind != "depthwise":
        return "" if fraction >= OF_COPY else f"{fraction:.2f} of the copy bandwidth"
    library, peer, goal = "torch.compile", COMPILED, 1.0
    if work.kind == "sgemm":
        library, peer, goal = "cuBLAS", EAGER, OF_CUBLAS
    elif work.kind == "conv2d" and work.sizes["batch"] == 1:
        library, peer, goal = "cuDNN", EAGER, OF_CUDNN
    if peer not in seconds:
        return f"not compared with {library}"
    reached = seconds[peer] / seconds[OURS]
    return f"{reached:.2f} of {library}, below {goal}" if reached < goal else ""


def _missing(label: str, work: Work | None) -> str | None:
    """Return why an implementation cannot run, or an empty string where it can.

    Return ``None`` where it has no kernel for the work.
    """
    if label == BY_HAND and work is not None:
        from benchmarks.gpu import by_hand

        return "" if work.kind in by_hand.KINDS else None
    package = {EAGER: "torch", COMPILED: "torch", TRITON: "triton"}.get(label)
    if package is not None and find_spec(package) is None:
        return f"{package} is not installed"
    if label == TRITON and work is not None:
        from benchmarks.gpu import triton_kernels

        return "" if work.kind in triton_kernels.KINDS else None
    return ""


def _ours(work: Work, sets: Sets, clock: Clock) -> list[Call]:
    kernel = sl.build(*scheduled(work), target=sl.Target("cuda", arch=clock.arch))

    def call(given: Sequence[Any]) -> None:
        kernel(*given)

    return [partial(call, given) for given in sets.each()]


def _eager(work: Work, sets: Sets, _: Clock) -> list[Call]:
    from benchmarks.peers import torch_peer

    torch_peer.start_worker()
    make = getattr(torch_peer, f"eager_{work.kind}")
    return [make(work.sizes, *given) for given in sets.each()]


def _compiled(work: Work, sets: Sets, _: Clock) -> list[Call]:
    from benchmarks.peers import torch_peer

    torch_peer.start_worker()
    call = torch_peer.compiled(work)
    inputs = len(work.inputs)
    return [partial(call, given[:inputs], given[inputs:]) for given in sets.each()]


def _triton(work: Work, sets: Sets, clock: Clock) -> list[Call]:
    from benchmarks.gpu import triton_kernels

    def seconds(call: Call) -> float:
        return clock.seconds([call])

    return triton_kernels.prepare(work, list(sets.each()), seconds)


def _by_hand(work: Work, sets: Sets, _: Clock) -> list[Call]:
    from benchmarks.gpu import by_hand

    return [by_hand.prepare(work, given) for given in sets.each()]


PREPARE: dict[str, Callable[[Work, Sets, Clock], list[Call]]] = {
    EAGER: _eager, COMPILED: _compiled, TRITON: _triton, BY_HAND: _by_hand, OURS: _ours,
}  # fmt: skip


def _launch(label: str) -> Call:
    """Return a call on 32 elements, whose time is all launch overhead."""
    a, b = (_on_device(np.ones(32, "float32")) for _ in range(2))
    if label == EAGER:
        import torch

        return lambda: torch.mul(a, 2, out=b)
    if label == NUMBA:
        cuda = nvidia.driver()

        @cuda.jit
        def twice(x: Any, y: Any) -> None:
            i = cuda.grid(1)
            y[i] = x[i] * 2

        x, y = _view(a), _view(b)
        return lambda: twice[1, 32](x, y)
    A = sl.placeholder((32,), name="A")
    B = sl.compute((32,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "threadIdx.x")
    kernel = sl.build(s, [A, B], target=sl.Target("cuda", arch=Clock().arch))
    return lambda: kernel(a, b)


def timed(argv: Sequence[str]) -> int:
    """Print the table on a machine with a GPU, and return the exit status."""
    if find_spec("torch") is not None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        # Let cuDNN time its algorithms instead of guessing one.
        torch.backends.cudnn.benchmark = True
    table = Table()

    def ceiling(row: Row, _: Sequence[Row]) -> str:
        found = table.fraction(row)
        return "" if found is None else f"{found:.2f}"

    about = {"GPU": table.clock.name, "architecture": table.clock.arch}
    columns = [Column("ceiling", ceiling)]
    return main("GPU kernels, float32", table.cases(), columns, table.ceilings, argv, table.summary,
                about=about)  # fmt: skip


def choose(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda", add_help=False)
    parser.add_argument("--code", action="store_true")
    options, rest = parser.parse_known_args(argv)
    if options.code:
        return code.main(rest)
    if not nvidia.driver().is_available():
        print("This machine has no NVIDIA GPU to time kernels on. --code compiles the schedules.")
        return 2
    return timed(rest)


if __name__ == "__main__":
    sys.exit(choose(sys.argv[1:]))
