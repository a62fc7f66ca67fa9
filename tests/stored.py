"""Files as an earlier version wrote them, which later versions still read.

    python -m tests.stored FOLDER    # writes those of this version

``tests/stored_files/`` has one folder for each version that is kept. A change that cannot read one
of them raises an error that says what to do, and its test says so.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np

import schedlang as sl
from schedlang import topi
from schedlang.autotune.database import Database
from schedlang.autotune.record import Trial, Where
from schedlang.host import Cache

FOLDER = Path(__file__).with_name("stored_files")
ROWS, COLUMNS, DEPTH = 12, 20, 7
# fixed, so that the files are the same on each machine
TARGET = sl.Target("cpu", vector_bytes=32, caches=(Cache(32 << 10, 8),))


def matrices() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (ROWS, DEPTH), (DEPTH, COLUMNS)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in shapes)
    return a, b


def product() -> sl.Tensor:
    A = sl.placeholder((ROWS, DEPTH), name="A")
    B = sl.placeholder((DEPTH, COLUMNS), name="B")
    k = sl.reduce_axis(DEPTH, name="k")
    return sl.compute(
        (ROWS, COLUMNS), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C"
    )


def scheduled() -> sl.Schedule:
    """Return a schedule with a step of most kinds: splits, a cache stage, an attached stage."""
    C = product()
    s = sl.schedule(C)
    sums = s.cache_write(C, "local")
    i, j = C.op.axis
    outer, inner = s[C].split(i, factor=4)
    lanes = s[C].split(j, factor=8, tail="guard")[1]
    s[C].vectorize(lanes)
    s[C].parallel(outer)
    s[sums].compute_at(s[C], inner)
    s[sums].unroll(s[sums].op.reduce_axis[0])
    return s


def where(outputs: list[sl.Tensor]) -> Where:
    """Return the place of the trials: this computation and target, on a machine of the past."""
    return Where.here(outputs, TARGET, {}, "a machine of the past", (("numba", "0.1"),))


def layers() -> tuple[sl.Tensor, dict[sl.Tensor, np.ndarray]]:
    rng = np.random.default_rng(1)
    x = sl.placeholder((3, DEPTH), name="x")
    w, v = sl.placeholder((6, DEPTH), name="w"), sl.placeholder((4, 6), name="v")
    params = {t: rng.standard_normal(t.shape).astype("float32") for t in (w, v)}
    hidden = topi.nn.relu(sl.named("first", topi.nn.dense(x, w)))
    return sl.named("second", topi.nn.dense(hidden, v)), params


def write(folder: Path) -> None:
    """Write a file of each kind that users keep."""
    folder.mkdir(parents=True)
    s = scheduled()
    (folder / "schedule.json").write_text(s.to_json(), "utf-8")
    (folder / "schedule.py").write_text(s.as_python(), "utf-8")
    (folder / "schedule.pickle").write_bytes(pickle.dumps(s))
    sl.build(s, target=TARGET).save(folder / "kernel.py")
    outputs = list(s.outputs)
    trials = Database(folder / "trials.jsonl")
    trials.add(where(outputs), "C", Trial(0, "ok", s.to_json(), seconds=2e-6), outputs)
    trials.add(where(outputs), "C", Trial(1, "wrong answer", s.to_json()), outputs)
    out, params = layers()
    sl.network(out, params, target=TARGET, database=folder / "none.jsonl").save(folder / "net")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
