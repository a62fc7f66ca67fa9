"""How long TVM's MetaSchedule searches for a product of square matrices.

    python -m benchmarks.peers.metaschedule N TRIALS

Its own building, running and searching, from an empty database. Needs ``apache-tvm`` 0.27 with
xgboost, psutil and cloudpickle.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from time import perf_counter

PACKAGES = ("tvm", "xgboost", "psutil", "cloudpickle")
# what it builds and runs before its model learns again
ROUND = 16


def missing() -> str:
    """What is not installed, or nothing."""
    absent = [name for name in PACKAGES if find_spec(name) is None]
    return f"{absent[0]} is not installed" if absent else ""


def search(n: int, trials: int) -> float:
    """Seconds for ``trials`` candidates, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.peers.metaschedule", str(n), str(trials)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def _search(n: int, trials: int) -> float:
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
        meta_schedule.tir_integration.tune_tir(
            mod=te.create_prim_func([a, b, c]),
            target=tvm.target.Target(target),
            work_dir=folder,
            max_trials_global=trials,
            num_trials_per_iter=ROUND,
        )
    return perf_counter() - start


if __name__ == "__main__":
    print(_search(int(sys.argv[1]), int(sys.argv[2])))
