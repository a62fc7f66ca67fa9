"""Lesson 1: a computation says what, a schedule says how, and print shows the loops at any time.

We blur a line of numbers twice and move the first blur about. Nothing here compiles until
the last lines: printing is free.
"""

from __future__ import annotations

import numpy as np

import schedlang as sl

# What: B is A smoothed, C is B smoothed. No loop is written, and no order.
A = sl.placeholder((100,), name="A")
B = sl.compute((98,), lambda i: (A[i] + A[i + 1] + A[i + 2]) / 3, name="B")
C = sl.compute((96,), lambda i: (B[i] + B[i + 1] + B[i + 2]) / 3, name="C")

# How, to begin with: each stage in whole, one after the other. B is stored in full.
s = sl.schedule(C)
print("1. as declared\n")
print(s)

# C in blocks of 32; i is gone, i.outer and i.inner stand in its place.
(i,) = s[C].op.axis
outer, inner = s[C].split(i, factor=32)
print("\n2. split(i, 32): the same work, two loops\n")
print(s)

# B is computed inside the outer loop: the nest shows how much of it 32 elements of C need.
s[B].compute_at(s[C], outer)
print("\n3. compute_at(C, i.outer): 34 elements of B serve 32 of C, and B shrinks to those\n")
print(s)
assert s.nest().buffers[-1].shape == (34,)

# All lanes of the inner loops at once.
s[C].vectorize(inner)
print("\n4. vectorize(i.inner): what that step changed\n")
print(s.diff(len(s.steps)))

# A step that is not legal is refused where it is called, and changes nothing.
printed = str(s)
try:
    s[B].compute_at(s[C], inner)
except sl.errors.ScheduleError as refusal:
    print(f"\n5. a refusal\n\n{refusal}")
else:
    raise AssertionError("a stage cannot be computed inside a vector")
assert str(s) == printed

# Whatever the schedule, the result is the definition's.
a = np.random.default_rng(0).random(100, dtype=np.float32)
f = sl.build(s, [A, C])
b = (a[:-2] + a[1:-1] + a[2:]) / 3
np.testing.assert_allclose(f(a), (b[:-2] + b[1:-1] + b[2:]) / 3, rtol=1e-6)
print(f"\n6. the numba source of this nest is in\n{f.path}")

# Exercise: take step 3 back with s[B].compute_inline() instead. How many additions does an
# element of C cost then? Count them in the printed nest.
