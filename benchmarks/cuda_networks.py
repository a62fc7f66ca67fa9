"""Compare whole networks on a GPU with PyTorch: cuDNN, ``torch.compile``, and CUDA graphs of both.

Everything is float32 (tf32 off), warm, with the same weights, and implementations take turns. The
input and the result are in the memory of the GPU. A sample is 50 ms of calls back to back, by the
host's clock, between two moments when the GPU has nothing to do: launches that the GPU waits for
count. A CUDA graph reads its input where it was when the graph was made. ``torch.compile`` freezes
the weights and searches (``max-autotune``); without records in a database, ours are the schedules
that come with schedlang, else those of the cost model.

Further columns are ``of best``, the best peer's time over the row's own, and ``kernels``, those of
ours. A result is right within 1e-3 of the largest output in float64.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import schedlang as sl
from benchmarks.gpu.clock import Clock
from benchmarks.harness import Case, Column, Unavailable, main
from benchmarks.networks import fact, of_best, summary
from benchmarks.works import NETWORKS, SMALL, Work
from schedlang.runtime import nvidia

OURS, OURS_GRAPH = "schedlang", "schedlang CUDA graph"
OWN = (OURS, OURS_GRAPH)
EAGER, LAST, COMPILED = "torch eager", "torch channels-last", "torch.compile"
EAGER_GRAPH, COMPILED_GRAPH = "torch CUDA graph", "torch.compile CUDA graph"
COMPILE_MODE = "max-autotune-no-cudagraphs"
ROUNDS = 9
# calls before the first sample, and the least seconds of one
WARM_CALLS, WINDOW = 3, 0.05
Call = Callable[[], Any]


@dataclass(frozen=True)
class Tuning:
    """Where our schedules come from, and the minutes of a search for them."""

    database: str | None = None
    minutes: float = 0.0


class Table:
    """The cases of a run, each of which frees its network before the next work is prepared."""

    def __init__(self, works: tuple[Work, ...], tuning: Tuning) -> None:
        self.works, self.tuning = works, tuning
        self.clock = Clock()
        self.expected: dict[str, Any] = {}
        # our network, which two rows share
        self.network: tuple[Work, Any] | None = None

    def cases(self) -> Iterator[Case]:
        missing = [name for name in ("torch", "torchvision") if find_spec(name) is None]
        text = f"{missing[0]} is not installed" if missing else ""
        for work in self.works:
            for label, prepare in PREPARE.items():
                yield self.case(work, label, prepare, text)

    def case(self, work: Work, label: str, prepare: Any, missing: str) -> Case:
        calls: list[Call] = []
        facts: dict[str, Any] = {}

        def prepared() -> Callable[[], float]:
            import torch

            x = torch.from_numpy(work.arrays()["x"]).cuda()
            try:
                calls[:] = [prepare(self, work, x, facts)]
                for _ in range(WARM_CALLS):
                    calls[0]()
                torch.cuda.synchronize()
            except Exception as error:
                if label in OWN:
                    raise
                # a peer that fails must not end the run
                raise Unavailable(f"{type(error).__name__}: {error}".splitlines()[0]) from error
            return partial(seconds_of, calls[0])

        def check() -> bool:
            # a graph that runs nothing would leave what an earlier replay wrote
            calls[0]().fill_(float("nan"))
            found = calls[0]().detach().cpu().numpy()
            calls.clear()
            wrong = work.wrong((found,), self.result(work))
            if wrong:
                facts["wrong"] = wrong
                print(f"{work.name}, {label}: {wrong}", file=sys.stderr)
            return not wrong

        return Case(work.name, label, prepared, check, missing=missing, whole=True, facts=facts)

    def result(self, work: Work) -> Any:
        if work.name not in self.expected:
            self.expected[work.name] = work.expected(work.arrays())
        return self.expected[work.name]

    def of_schedlang(self, work: Work, facts: dict[str, Any]) -> Any:
        """Return our network of a work, which is built and tuned once."""
        if self.network is None or self.network[0] is not work:
            self.network = None
            self.network = work, self.built(work)
        network = self.network[1]
        facts["kernels"] = len(network.module.machine_code)
        return network

    def built(self, work: Work) -> Any:
        import torch

        from benchmarks.peers import network_models
        from schedlang.frontend import from_torch

        model = from_torch(network_models.module(work), (torch.from_numpy(work.arrays()["x"]),))
        target = sl.Target("cuda", arch=self.clock.arch)
        network = sl.network(model, target=target, database=self.tuning.database)
        if self.tuning.minutes:
            network.tune(timeout=60 * self.tuning.minutes, progress=False)
        return network


def seconds_of(call: Call) -> float:
    """Return the mean seconds of a call, from an idle GPU to an idle one."""
    import torch

    def seconds(count: int) -> float:
        torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        return (perf_counter() - start) / count

    return seconds(max(3, round(WINDOW / seconds(3))))


def model_of(work: Work) -> Any:
    from benchmarks.peers import network_models

    return network_models.module(work).cuda()


def eager(_: Table, work: Work, x: Any, __: Any) -> Call:
    return partial(model_of(work), x)


def channels_last(_: Table, work: Work, x: Any, __: Any) -> Call:
    import torch

    if len(work.inputs["x"]) != 4:
        raise Unavailable("it has no pictures")
    last = torch.channels_last
    return partial(model_of(work).to(memory_format=last), x.contiguous(memory_format=last))


def eager_graph(table: Table, work: Work, x: Any, facts: Any) -> Call:
    """Return the replay of a graph of eager PyTorch, recorded as its documentation says."""
    import torch

    call, other = eager(table, work, x, facts), torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        for _ in range(WARM_CALLS):
            call()
    torch.cuda.current_stream().wait_stream(other)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call()

    def replay() -> Any:
        graph.replay()
        return y

    return replay


def compiled(_: Table, work: Work, x: Any, __: Any, mode: str = COMPILE_MODE) -> Call:
    import torch
    from torch._inductor import config

    config.freezing = True
    # in threads: inductor compiled the candidates of its pool of processes a second time
    config.compile_threads = 1
    return partial(torch.compile(model_of(work), mode=mode, dynamic=False, fullgraph=True), x)


def ours(table: Table, work: Work, x: Any, facts: dict[str, Any]) -> Call:
    return partial(table.of_schedlang(work, facts), x)


def ours_graph(table: Table, work: Work, x: Any, facts: dict[str, Any]) -> Call:
    return table.of_schedlang(work, facts).module.cuda_graph(x).replay


PREPARE: dict[str, Callable[[Table, Work, Any, dict[str, Any]], Call]] = {
    EAGER: eager, LAST: channels_last, EAGER_GRAPH: eager_graph, COMPILED: compiled,
    COMPILED_GRAPH: partial(compiled, mode="max-autotune"), OURS: ours, OURS_GRAPH: ours_graph,
}  # fmt: skip


def timed(works: tuple[Work, ...], tuning: Tuning, argv: list[str]) -> int:
    """Print the table on a machine with a GPU, and return the exit status."""
    if find_spec("torch") is not None:
        import torch

        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        # let cuDNN time its algorithms instead of guessing one
        torch.backends.cudnn.benchmark = True
    table = Table(works, tuning)

    columns = [
        Column("of best", partial(of_best, own=OWN)),
        Column("kernels", fact("kernels", str)),
    ]
    return main(
        "whole networks on a GPU, float32", table.cases(), columns, table.clock.ceilings, argv,
        partial(summary, own=OWN), rounds=ROUNDS,
        about={
            "GPU": table.clock.name, "architecture": table.clock.arch,
            "database": tuning.database or "none", "minutes of search": f"{tuning.minutes:g}",
        },
    )  # fmt: skip


def run_all(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda_networks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Also --only PATTERN, --json FILE and --rounds N.",
                                     allow_abbrev=False)  # fmt: skip
    parser.add_argument("--small", action="store_true", help="networks of a few layers")
    parser.add_argument("--database", type=Path, metavar="FILE",
                        help="a tuning database for our networks")  # fmt: skip
    parser.add_argument("--tune", type=float, default=0, metavar="MINUTES",
                        help="tune each of our networks first, into the database")  # fmt: skip
    options, rest = parser.parse_known_args(given)
    if not nvidia.driver().is_available():
        print("This machine has no NVIDIA GPU to time networks on.")
        return 2
    database = None if options.database is None else str(options.database)
    return timed(SMALL if options.small else NETWORKS, Tuning(database, options.tune), rest)


if __name__ == "__main__":
    sys.exit(run_all())
