"""Lesson 11: count what each placement of a stage costs: loads, stores, calls and storage.

Halide's tutorial counts one example by hand: lesson 8, "Scheduling multi-stage pipelines"
(https://halide-lang.org/tutorials/tutorial_lesson_08_scheduling_2.html). A producer takes a sine,
and a consumer averages four neighbours of it. We count the same placements exactly, print them
beside Halide's numbers, and say why some differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl


@dataclass(frozen=True)
class Cost:
    """Elements loaded and stored, calls of sin, and floats of storage that live at one time."""

    loads: int
    stores: int
    sines: int
    floats: int


@dataclass(frozen=True)
class Placement:
    """A schedule of the consumer of ``size`` rows and columns, and what Halide's lesson counts.

    ``steps`` takes the schedule and the two stages' tensors. ``differs`` gives our number and the
    reason for each that is not Halide's.
    """

    name: str
    size: int
    steps: Callable[[Any, Any, Any], None]
    halide: Cost
    differs: Mapping[str, tuple[int, str]]


def pipeline(size: int) -> tuple[Any, Any]:
    """Return producer and consumer: one element more in each direction, and the average of four."""
    P = sl.compute((size + 1, size + 1), lambda y, x: sl.sin(x * y), name="producer")
    C = sl.compute(
        (size, size),
        lambda y, x: (P[y, x] + P[y + 1, x] + P[y, x + 1] + P[y + 1, x + 1]) / 4,
        name="consumer",
    )
    return P, C


def inline(s: Any, P: Any, C: Any) -> None:
    s[P].compute_inline()


def root(s: Any, P: Any, C: Any) -> None:
    s[P].compute_root()


def at_y(s: Any, P: Any, C: Any) -> None:
    s[P].compute_at(s[C], C.op.axis[0])


def stored_at_root_computed_at_y(s: Any, P: Any, C: Any) -> None:
    s[P].compute_at(s[C], C.op.axis[0])
    s[P].store_root()


def stored_at_root_computed_at_x(s: Any, P: Any, C: Any) -> None:
    s[P].compute_at(s[C], C.op.axis[1])
    s[P].store_root()


def tiles(s: Any, P: Any, C: Any) -> None:
    _, x_outer, _, _ = s[C].tile(*C.op.axis, 4, 4)
    s[P].compute_at(s[C], x_outer)


def mixed(s: Any, P: Any, C: Any) -> None:
    y, x = C.op.axis
    strip, row = s[C].split(y, factor=16)
    s[C].parallel(strip)
    s[C].vectorize(s[C].split(x, factor=4)[1])
    s[P].compute_at(s[C], row)
    s[P].store_at(s[C], strip)
    s[P].vectorize(s[P].split(P.op.axis[1], factor=4)[1])


REGISTER = "the lesson leaves out one of four values, which may still be in a register"
LAST_VECTOR = "Halide moves the last vector of a row left and computes 3 values again; ours is cut"

# the first five from the lesson's table, the last two from its equivalent C
PLACEMENTS = (
    Placement("inline", 4, inline, Cost(0, 16, 64, 0), {}),
    Placement("compute_root", 4, root, Cost(64, 41, 25, 25), {}),
    Placement("compute_at y", 4, at_y, Cost(64, 56, 40, 10), {}),
    Placement(
        "store_root, compute_at y", 4, stored_at_root_computed_at_y, Cost(64, 41, 25, 10), {}
    ),
    Placement(
        "store_root, compute_at x", 4, stored_at_root_computed_at_x, Cost(48, 41, 25, 10),
        {"loads": (64, REGISTER)},
    ),
    Placement("4x4 tiles of 8x8", 8, tiles, Cost(256, 164, 100, 25), {}),
    Placement(
        "strips, vectors, threads", 160, mixed, Cost(102_400, 53_480, 27_880, 322),
        {"stores": (52_970, LAST_VECTOR), "sines": (27_370, LAST_VECTOR)},
    ),
)  # fmt: skip


def counted(placement: Placement) -> tuple[Any, Cost]:
    """Return the kernel of a placement and its cost, after a check of its result."""
    P, C = pipeline(placement.size)
    s = sl.schedule(C)
    placement.steps(s, P, C)
    f = sl.build(s, [C])
    total = f.counters(caches=False).total
    at = np.arange(placement.size + 1, dtype="float32")
    sines = np.sin(at[:, None] * at)
    mean = (sines[:-1, :-1] + sines[1:, :-1] + sines[:-1, 1:] + sines[1:, 1:]) / 4
    np.testing.assert_allclose(f(), mean, atol=1e-5)
    return f, Cost(total.loads, total.stores, total.calls["sin"], total.peak_bytes // 4)


def main() -> None:
    print(f"{'placement':28}{'loads':>9}{'stores':>9}{'sines':>9}{'floats':>9}")
    for placement in PLACEMENTS:
        _, cost = counted(placement)
        numbers = "".join(f"{n:9,}" for n in vars(cost).values())
        print(f"{placement.name:28}{numbers}")
        for field, (ours, why) in placement.differs.items():
            assert getattr(cost, field) == ours
            print(f"    {field}: {ours:,}, not {getattr(placement.halide, field):,}: {why}")
        same = {k: v for k, v in vars(placement.halide).items() if k not in placement.differs}
        assert all(getattr(cost, field) == n for field, n in same.items()), placement.name

    # The same numbers, line by line. A loop's line has the counts of all that it does.
    f, _ = counted(PLACEMENTS[2])
    print("\ncompute_at y, line by line\n")
    print(f.counters(caches=False))


if __name__ == "__main__":
    main()

# Exercise: compute the producer at x instead of y, without store_root. Predict the four numbers,
# then count them.
