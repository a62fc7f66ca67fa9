"""Lesson 9: let a search find the schedule, then read the schedule that it found.

First we write a search space ourselves: a template with three knobs. Then we search the space that
schedlang generates from the computation. Each search here has only 4 trials, so that the lesson
takes seconds. A real search wants tens of trials, or minutes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import schedlang as sl
from schedlang.autotune import Knobs

N = 256
A, B = sl.placeholder((N, N), name="A"), sl.placeholder((N, N), name="B")
k = sl.reduce_axis(N, name="k")
C = sl.compute((N, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


# A template applies steps, as in lesson 2, and takes the numbers to search for from knobs.
def template(s: sl.Schedule, knobs: Knobs) -> None:
    i, j = s[C].op.axis
    rows = knobs.choice("rows", [1, 2, 4, 8])
    lanes = knobs.choice("lanes", [8, 16, 32, 64])
    io, jo, ii, ji = s[C].tile(i, j, rows, lanes)
    outer = knobs.permutation("order", [io, jo])
    knobs.require(rows * lanes <= 256, "more sums than registers hold")
    s[C].reorder(*outer, k, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[C].parallel(outer[0])


with tempfile.TemporaryDirectory() as folder:
    # The database records each trial as it ends. The next search with this file resumes there.
    database = Path(folder) / "tuning.jsonl"
    ours = sl.autotune(C, trials=4, template=template, database=database)
    print("1. our own space: the candidates and their outcomes\n")
    for trial in ours.trials:
        print(f"  {trial.decisions}: {trial.outcome}")
    print(f"\n{ours}")

    # Without a template, general tactics generate the space from the stages of the computation.
    search = sl.autotune(C, trials=4, database=database, resume=False)
    print(f"\n2. the generated space\n\n{search}")
    print(f"\n3. the best schedule, as Python code\n\n{search.schedule.as_python()}")
    print(f"\n4. the best schedule, as a loop nest\n\n{search.schedule}")

    # A later program looks the best schedule up in the database by its computation.
    best = sl.best(C, database=database)
    print(f"\n5. the best trial in the database took {best.seconds * 1e6:.0f} µs")
    page = search.report(Path(folder) / "tuning.html")
    print(f"6. the report of the search is a page of {page.stat().st_size >> 10} KiB")

# The search compared every candidate with the NumPy oracle. We check the best one again.
a, b = (np.random.default_rng(n).random((N, N), dtype=np.float32) for n in (0, 1))
np.testing.assert_allclose(search.kernel(a, b), a @ b, rtol=1e-4)

# Exercise: add a knob, knobs.choice("pack", [False, True]), that packs B as lesson 2 does by hand.
# Search with trials=40. Which decision matters most? ours.report shows it.
