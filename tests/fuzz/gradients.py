"""Gradients of random computations, compared with differences of their results.

    python -m tests.fuzz.gradients --cases 1000 --seed 1

Every fifth case adds a random index map, whose gradient is compared with the sum over all
iterations. Each case adds a random function at points where its formula changes, whose first and
second derivatives are compared with limits by mpmath. If PyTorch is installed, its gradients are
compared, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.errors import BoundsError
from schedlang.expr.evaluate import evaluate
from tests.fuzz.gradient_checks import check_graph
from tests.fuzz.gradient_seams import check_seams


class RandomMap:
    """A sum of products of ``A`` at random indices and of ``B`` at each iteration.

    The indices are affine in data and reduction axes, with quotients, remainders, ``min`` and
    ``max``. ``A`` has the extents that they reach, or fewer and a guard.
    """

    def __init__(self, seed: int) -> None:
        rng = self.rng = Random(seed)
        shape = tuple(rng.choice((1, 2, 3, 4, 5, 7)) for _ in range(rng.randint(1, 3)))
        lows = [rng.choice((0, 0, 0, 1, 2)) for _ in range(rng.randint(0, 2))]
        reduced = [
            sl.reduce_axis((lo, lo + rng.choice((1, 2, 3, 4, 6))), name=f"r{k}")
            for k, lo in enumerate(lows)
        ]
        self.shape, self.reduced = shape, reduced
        self.count = rng.randint(1, 3)
        self.form = rng.random()
        self.made: Any = None

    def build(self) -> tuple[sl.Tensor, sl.Tensor, sl.Tensor, Any]:
        """Return ``A``, ``B``, the result, and a function that gives the gradient by ``A``."""
        rng, reduced = self.rng, self.reduced
        domain = (*self.shape, *(int(a.extent) for a in reduced))
        B = sl.placeholder(domain, "float64", name="B")
        probe = [sl.reduce_axis(n, name=f"p{k}") for k, n in enumerate(self.shape)]
        axes = [*probe, *reduced]
        state = rng.getstate()
        indices = [self._index(axes) for _ in range(self.count)]
        condition = self._condition(axes)
        points = self._points(axes)
        values = [np.broadcast_to(evaluate(i, points), domain) for i in indices]
        kept = np.ones(domain, bool) if condition is None else np.broadcast_to(
            evaluate(condition, points), domain)  # fmt: skip
        lows = [int(v.min()) for v in values]
        shape = tuple(int(v.max()) - low + 1 for v, low in zip(values, lows))
        guarded = rng.random() < 0.3
        cut = rng.randint(1, 2) if guarded else 0
        shape = tuple(max(n - cut, 1) for n in shape)
        A = sl.placeholder(shape, "float64", name="A")
        after = rng.getstate()

        def body(*data: sl.Axis) -> Any:
            rng.setstate(state)
            own = [*data, *reduced]
            at = [self._index(own) - low for low in lows]
            where = self._condition(own)
            read = A[tuple(at)]
            if guarded:
                inside = sl.all(*((i >= 0) & (i < n) for i, n in zip(at, shape)))
                read = sl.if_then_else(inside, read, 0.0)
            weight = B[(*data, *(r - r.lo for r in reduced))]
            if not reduced:
                return read * weight if where is None else sl.select(where, read * weight, 0.0)
            return sl.sum(read * weight, axis=reduced, where=where)

        C = sl.compute(self.shape, body, name="C")
        rng.setstate(after)

        def expected(b: np.ndarray, head: np.ndarray) -> np.ndarray:
            inside = kept.copy()
            at = [v - low for v, low in zip(values, lows)]
            for v, n in zip(at, shape):
                inside &= (v >= 0) & (v < n)
            total = np.zeros(shape)
            flow = head.reshape(*head.shape, *(1,) * len(reduced)) * b
            np.add.at(total, tuple(v[inside] for v in at), flow[inside])
            return total

        return A, B, C, expected

    def _points(self, axes: list[sl.Axis]) -> dict[Any, Any]:
        made = {}
        for k, axis in enumerate(axes):
            shape = [1] * len(axes)
            shape[k] = int(axis.extent)
            made[axis] = (np.arange(int(axis.extent)) + int(axis.lo)).reshape(shape)
        return made

    def _affine(self, axes: list[sl.Axis]) -> Any:
        rng = self.rng
        chosen = rng.sample(axes, min(len(axes), rng.choice((1, 1, 2, 2, 3))))
        total: Any = 0
        for axis in chosen:
            total = total + axis * rng.choice((1, 1, 1, 2, 2, 3, 4, -1, -2))
        return total + rng.randint(-2, 3)

    def _index(self, axes: list[sl.Axis]) -> Any:
        rng = self.rng
        form = rng.random()
        if form < 0.08:
            return sl.const(1) * 1 + rng.randint(0, 1) + axes[0] * 0
        value = self._affine(axes)
        if form < 0.62:
            return value
        if form < 0.74:
            return value // rng.choice((2, 3, 4))
        if form < 0.86:
            return value % rng.choice((2, 3, 4))
        if form < 0.92:
            return sl.max(sl.min(value, rng.randint(1, 4)), rng.randint(-1, 1))
        return sl.max(value, self._affine(axes))

    def _condition(self, axes: list[sl.Axis]) -> Any:
        rng = self.rng
        form = rng.random()
        if form < 0.6:
            return None
        value = self._affine(axes)
        if form < 0.75:
            return value % 2 == rng.randint(0, 1)
        if form < 0.9:
            return value <= self._affine(axes)
        return (value > 1) | (self._affine(axes) == 2)


def check(seed: int, kernel: bool = False) -> str:
    """Return what is wrong with the gradient of a random map; "" if nothing is.

    With ``kernel``, it is also lowered, and run without compilation.
    """
    try:
        A, B, C, expected = RandomMap(seed).build()
    except BoundsError:
        # the indices of a guarded read may all be out of bounds
        return ""
    head = sl.placeholder(C.shape, "float64", name="head")
    by = sl.gradient(C, A, head)
    rng = np.random.default_rng(seed)
    arrays = {"B": rng.normal(size=B.shape), "head": rng.normal(size=C.shape)}
    wanted = expected(arrays["B"], arrays["head"])
    f = sl.reference(by)
    named = {t.name: arrays[t.name] for t in f.inputs}
    where = f"case {seed}: {C.op.body[0]} where {C.op.where}, A{A.shape}"
    if not np.allclose(f(**named), wanted):
        return f"{where}: the gradient is wrong\n{sl.schedule(by)}"
    if kernel and not np.allclose(sl.build(sl.schedule(by), target="python")(**named), wanted):
        return f"{where}: the kernel is wrong\n{sl.schedule(by)}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.gradients", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--no-torch", action="store_true", help="compare with differences alone")
    options = parser.parse_args()
    torch = None if options.no_torch else _torch()
    counts: Counter[str] = Counter()
    started = time.monotonic()
    for seed in range(options.seed, options.seed + options.cases):
        try:
            wrong = check_graph(seed, counts, torch) or check_seams(seed, counts)
        except Exception:
            print(f"case {seed} raised an error")
            raise
        if not wrong and seed % 5 == 0:
            wrong = check(seed // 5, kernel=seed % 25 == 0)
            counts["index maps"] += 1
        if wrong:
            print(wrong)
            return 1
    print(f"{options.cases} cases are right, in {time.monotonic() - started:.0f} s")
    print(", ".join(f"{n} {what}" for what, n in counts.most_common()))
    return 0


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    return torch


if __name__ == "__main__":
    sys.exit(main())
