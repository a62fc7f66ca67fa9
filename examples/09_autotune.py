"""Lesson 9: let a search find the schedule, then read what it found.

First a space that we write ourselves: three decisions about one product. Then the space that
schedlang makes from the computation. A few trials each, so that the lesson takes seconds; give a
search some tens of them, or minutes.
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


# A template applies steps, as in lesson 2, and asks for each number that it does not know.
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
    # every trial is kept as it ends: the next search on this file goes on from there
    database = Path(folder) / "tuning.jsonl"
    ours = sl.autotune(C, trials=4, template=template, database=database)
    print("1. our own space: what was tried\n")
    for trial in ours.trials:
        print(f"  {trial.decisions}: {trial.outcome}")
    print(f"\n{ours}")

    # No template: rules over the stages make the space, and know no operator by name.
    found = sl.autotune(C, trials=4, database=database, resume=False)
    print(f"\n2. the space that is made from the computation\n\n{found}")
    print(f"\n3. the winner, as code to paste\n\n{found.schedule.as_python()}")
    print(f"\n4. and as loops\n\n{found.schedule}")

    # What a search kept, any later program finds again, by what is computed.
    best = sl.best(C, database=database)
    print(f"\n5. the best of all trials that were kept took {best.seconds * 1e6:.0f} µs")
    page = found.report(Path(folder) / "tuning.html")
    print(f"6. the page about the search has {page.stat().st_size >> 10} KiB")

# Every candidate was compared with the NumPy oracle; this is the winner once more.
a, b = (np.random.default_rng(n).random((N, N), dtype=np.float32) for n in (0, 1))
np.testing.assert_allclose(found.kernel(a, b), a @ b, rtol=1e-4)

# Exercise: add a knob that packs B, as lesson 2 does by hand, with knobs.choice("pack", [False,
# True]), and search with trials=40. Which decision matters most? found.report shows it.
