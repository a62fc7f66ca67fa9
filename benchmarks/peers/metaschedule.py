"""How long TVM's MetaSchedule searches for a product of square matrices, and what it finds.

    python -m benchmarks.peers.metaschedule N TRIALS SEED

Its own building, running and searching, from an empty database. Needs ``apache-tvm`` 0.27 with
xgboost, psutil and cloudpickle.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter

PACKAGES = ("tvm", "xgboost", "psutil", "cloudpickle")
# what it builds and runs before its model learns again
ROUND = 16
# it keeps a candidate that failed with a time beyond this
FAILED = 1e9


def missing() -> str:
    """What is not installed, or nothing."""
    absent = [name for name in PACKAGES if find_spec(name) is None]
    return f"{absent[0]} is not installed" if absent else ""


@dataclass(frozen=True)
class Found:
    """The seconds of a search, how many candidates it tried and how many of these failed, and the
    best of the others' mean times."""

    seconds: float
    tried: int
    failed: int
    best: float | None


def search(n: int, trials: int, seed: int) -> Found:
    """A search for at most ``trials`` candidates, in a process of its own."""
    numbers = [str(number) for number in (n, trials, seed)]
    command = [sys.executable, "-m", "benchmarks.peers.metaschedule", *numbers]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Found(**json.loads(done.stdout.splitlines()[-1]))


def _search(n: int, trials: int, seed: int) -> Found:
    import llvmlite.binding as llvm
    import tvm
    from tvm import te
    from tvm.s_tir import meta_schedule

    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    target = {"kind": "llvm", "mcpu": llvm.get_host_cpu_name(), "num-cores": 2}
    start = perf_counter()
    with TemporaryDirectory() as folder:
        database = meta_schedule.tir_integration.tune_tir(
            mod=te.create_prim_func([a, b, c]),
            target=tvm.target.Target(target),
            work_dir=folder,
            max_trials_global=trials,
            num_trials_per_iter=min(ROUND, trials),
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
