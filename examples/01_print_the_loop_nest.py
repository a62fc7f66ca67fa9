"""Lesson 1: declare a computation, schedule it, and print the loop nest after every step.

A computation says what to compute, and a schedule says how. We blur a line of numbers twice, then
move the first blur from place to place. Printing compiles nothing: only the last lines compile.
"""

from __future__ import annotations

import numpy as np

import schedlang as sl

# The computation: B smooths A, and C smooths B. We write no loops and no order.
A = sl.placeholder((100,), name="A")
B = sl.compute((98,), lambda i: (A[i] + A[i + 1] + A[i + 2]) / 3, name="B")
C = sl.compute((96,), lambda i: (B[i] + B[i + 1] + B[i + 2]) / 3, name="C")

# The default schedule computes each stage as a whole, one after the other, and stores all of B.
s = sl.schedule(C)
print("1. the default schedule\n")
print(s)

# Split i into blocks of 32. The loops i.outer and i.inner replace i.
(i,) = s[C].op.axis
outer, inner = s[C].split(i, factor=32)
print("\n2. split(i, 32): two loops do the same work\n")
print(s)

# Compute B inside the outer loop of C. The nest shows how many elements of B a block of C needs.
s[B].compute_at(s[C], outer)
print("\n3. compute_at(C, i.outer): 32 elements of C need 34 of B, so B shrinks to 34\n")
print(s)
assert s.nest().buffers[-1].shape == (34,)

# Vectorize the inner loop of C. diff compares the nest before a step with the nest after it.
s[C].vectorize(inner)
print("\n4. vectorize(i.inner): the lines that this step changed\n")
print(s.diff(len(s.steps)))

# An illegal step raises at once and leaves the schedule as it was.
printed = str(s)
try:
    s[B].compute_at(s[C], inner)
except sl.errors.ScheduleError as refusal:
    print(f"\n5. an illegal step raises an error\n\n{refusal}")
else:
    raise AssertionError("a stage cannot be computed inside a vectorized loop")
assert str(s) == printed

# The schedule never changes the result. We check it against NumPy.
a = np.random.default_rng(0).random(100, dtype=np.float32)
f = sl.build(s, [A, C])
b = (a[:-2] + a[1:-1] + a[2:]) / 3
np.testing.assert_allclose(f(a), (b[:-2] + b[1:-1] + b[2:]) / 3, rtol=1e-6)
print(f"\n6. the numba source of this nest is in\n{f.path}")

# Exercise: replace step 3 by s[B].compute_inline(). How many additions does an element of C cost
# now? Count them in the printed nest.
