"""Search for a product of square matrices with TVM's MetaSchedule.

    python -m benchmarks.peers.metaschedule N TRIALS SEED

MetaSchedule builds and runs the candidates itself, and starts from an empty database. It needs
``apache-tvm`` 0.27 with xgboost, psutil and cloudpickle.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.peers import THREADS

PACKAGES = ("tvm", "xgboost", "psutil", "cloudpickle")
# seconds for a build, and for a run: each starts a process that imports TVM, which alone takes the
# default of 30 seconds on some machines
TIMEOUT = 120.0
# the candidates that it builds and runs before its model learns again
ROUND = 16
# it records a failed candidate with a time above this
FAILED = 1e9


def missing() -> str:
    """Return which package is not installed, or an empty string."""
    absent = [name for name in PACKAGES if find_spec(name) is None]
    return f"{absent[0]} is not installed" if absent else ""


@dataclass(frozen=True)
class Found:
    """The result of a search: its seconds, the candidates that it tried, and those that failed.

    ``best`` is the best mean time of the candidates that worked.
    """

    seconds: float
    tried: int
    failed: int
    best: float | None


def search(n: int, trials: int, seed: int) -> Found:
    """Search with at most ``trials`` candidates, in a process of its own."""
    numbers = [str(number) for number in (n, trials, seed)]
    command = [sys.executable, "-m", "benchmarks.peers.metaschedule", *numbers]
    # its default is all cores of the machine, even where the process may use only some of them
    given = {**os.environ, "TVM_NUM_THREADS": str(THREADS)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=given)
    return Found(**json.loads(done.stdout.splitlines()[-1]))


def host_target() -> dict[str, object]:
    """Return TVM's description of this machine."""
    import llvmlite.binding as llvm

    # A virtual machine may hide features that the processor's model has.
    features = llvm.get_host_cpu_features()
    hidden = [f"-{name}" for name in sorted(features) if not features[name]]
    return {
        "kind": "llvm", "mcpu": llvm.get_host_cpu_name(), "mattr": hidden, "num-cores": THREADS,
    }  # fmt: skip


def _search(n: int, trials: int, seed: int) -> Found:
    import tvm
    from tvm import te
    from tvm.s_tir import meta_schedule

    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    start = perf_counter()
    with TemporaryDirectory() as folder:
        database = meta_schedule.tir_integration.tune_tir(
            mod=te.create_prim_func([a, b, c]),
            target=tvm.target.Target(host_target()),
            work_dir=folder,
            max_trials_global=trials,
            num_trials_per_iter=min(ROUND, trials),
            builder=meta_schedule.builder.LocalBuilder(max_workers=THREADS, timeout_sec=TIMEOUT),
            runner=meta_schedule.runner.LocalRunner(timeout_sec=TIMEOUT),
            num_tuning_cores=THREADS,
            seed=seed,
        )
        seconds = perf_counter() - start
        runs = [
            [float(value) for value in record.run_secs or []]
            for record in database.get_all_tuning_records()
        ]
    times = [mean(run) for run in runs if run and max(run) < FAILED]
    return Found(seconds, len(runs), len(runs) - len(times), min(times, default=None))


if __name__ == "__main__":
    print(json.dumps(asdict(_search(*map(int, sys.argv[1:])))))
