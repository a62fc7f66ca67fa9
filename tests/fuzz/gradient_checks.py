"""The checks of the gradients of random computations: differences, kernels, PyTorch."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.errors import BoundsError
from tests.fuzz.gradient_graphs import RandomGraph

STEP = 1e-4
# points that are drawn before a case counts as one of kinks
MOST_POINTS = 4


def check_graph(seed: int, counts: Counter[str] | None = None, torch: Any = None) -> str:
    """Return what is wrong with the gradients of a random computation; "" if nothing is.

    They are compared with differences of the result in two random directions of all inputs at once.
    Some are also run as kernels, without compilation, and some differentiated again; with
    ``torch``, those that PyTorch can run are compared with its gradients. ``counts`` counts what
    the cases had.
    """
    counts = Counter() if counts is None else counts
    try:
        graph = RandomGraph(seed)
    except BoundsError:
        counts["out of bounds"] += 1
        return ""
    known = set(sl.reference(graph.y).inputs)
    xs = [x for x in graph.inputs if x in known]
    rng = Random(seed + 1)
    if not xs:
        counts["no input"] += 1
        return ""
    chosen = [x for x in xs if rng.random() < 0.7] or xs
    problem = _Problem(graph, chosen, rng.random() < 0.3)
    counts.update(graph.kinds)
    wrong = problem.differs(counts)
    if not wrong and rng.random() < 0.2:
        wrong = problem.kernel_differs()
        counts["kernels"] += 1
    if not wrong and rng.random() < 0.15:
        wrong = problem.second_differs(counts)
    if not wrong and torch is not None and graph.plain:
        wrong = problem.torch_differs(torch, counts)
    return f"case {seed}: {wrong}\n{sl.schedule(graph.y)}" if wrong else ""


class _Problem:
    """A result, the inputs to differentiate it by, and its gradients."""

    def __init__(self, graph: RandomGraph, xs: list[sl.Tensor], total: bool) -> None:
        self.graph, self.xs = graph, xs
        self.y = graph.y
        if total and self.y.ndim:
            axes = [sl.reduce_axis(n, name=f"s{k}") for k, n in enumerate(self.y.shape)]
            self.y = sl.compute(
                (), lambda: sl.sum(sl.sin(graph.y[tuple(axes)]), axis=axes), name="loss"
            )
        # a result of one element needs no head
        plain = not self.y.ndim
        self.head = None if plain else sl.placeholder(self.y.shape, "float64", name="head")
        self.made = sl.gradient(self.y, xs, self.head)

    def point(self, k: int) -> dict[str, np.ndarray]:
        """Return arrays for all inputs and the head: the ``k``-th of a sequence."""
        rng = np.random.default_rng([k, len(self.graph.inputs)])
        arrays = dict(self.graph.arrays)
        for x in self.graph.inputs:
            arrays[x.name] = rng.normal(size=x.shape)
        arrays["head"] = rng.normal(size=self.y.shape) if self.head is not None else np.ones(())
        return arrays

    def differs(self, counts: Counter[str]) -> str:
        return _compared(self.y, self.head, self.xs, self.made, self.point, counts)

    def kernel_differs(self) -> str:
        arrays = self.point(0)
        expected = _values(self.made, arrays)
        f = sl.build(sl.schedule(self.made), target="python")
        found = f(**{t.name: arrays[t.name] for t in f.signature.inputs if t.name in arrays})
        found = found if isinstance(found, tuple) else (found,)
        for x, a, b in zip(self.xs, found, expected):
            if not np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True):
                return f"the kernel of the gradient by {x.name} is wrong"
        return ""

    def second_differs(self, counts: Counter[str]) -> str:
        """Compare the gradient of a sum of functions of the gradients."""
        parts = []
        for n, by in enumerate(self.made):
            axes = [sl.reduce_axis(extent, name=f"q{k}") for k, extent in enumerate(by.shape)]
            value = sl.sin(by[tuple(axes)])
            curved = sl.sum(value, axis=axes) if axes else value
            parts.append(sl.compute((), lambda curved=curved: curved, name=f"part{n}"))
        total = sl.compute(
            (), lambda: sum((p[()] for p in parts), sl.const(0.0, "float64")), name="total"
        )
        known = set(sl.reference(total).inputs)
        xs = [x for x in self.xs if x in known]
        if not xs:
            return ""
        counts["second gradients"] += 1
        again = sl.gradient(total, xs)
        wrong = _compared(total, None, xs, again, self.point, counts)
        return f"second order: {wrong}" if wrong else ""

    def torch_differs(self, torch: Any, counts: Counter[str]) -> str:
        from tests.fuzz.torch_values import gradients

        arrays = self.point(0)
        theirs = gradients(self.y, self.xs, arrays, torch)
        if theirs is None:
            return ""
        counts["torch"] += 1
        for x, ours, other in zip(self.xs, _values(self.made, arrays), theirs):
            if np.isfinite(other).all() and not np.allclose(ours, other, rtol=1e-6, atol=1e-8):
                return f"the gradient by {x.name} is not that of torch\n{ours}\n{other}"
        return ""


def _values(outputs: list[sl.Tensor], arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    f = sl.reference(outputs)
    found = f(**{t.name: arrays[t.name] for t in f.inputs})
    return found if isinstance(found, tuple) else (found,)


def _compared(
    y: sl.Tensor, head: sl.Tensor | None, xs: list[sl.Tensor], made: list[sl.Tensor],
    point: Any, counts: Counter[str],
) -> str:  # fmt: skip
    """Compare ``made`` with differences of ``y`` at a point where it has no kink."""
    for k in range(MOST_POINTS):
        arrays = point(k)
        rng = np.random.default_rng([7, k])
        ways = [{x.name: rng.normal(size=x.shape) for x in xs} for _ in range(2)]
        weights = arrays["head"] if head is not None else np.ones(())
        with np.errstate(all="ignore"):
            scale = float(np.abs(_values([y], arrays)[0] * weights).sum())
            expected = [_differences(y, weights, arrays, way) for way in ways]
            if any(e is None for e in expected) or not np.isfinite(scale) or scale > 1e8:
                continue
            found = _values(made, arrays)
        for way, wanted in zip(ways, expected):
            terms = [by * way[x.name] for x, by in zip(xs, found)]
            got = sum(float(t.sum()) for t in terms)
            size = sum(float(np.abs(t).sum()) for t in terms)
            tolerance = 1e-6 * (size + abs(wanted)) + 1e-9 * (1 + scale)
            if not abs(got - wanted) <= tolerance:
                return f"by {', '.join(x.name for x in xs)}: {got}, but differences give {wanted}"
        counts["compared"] += 1
        return ""
    counts["kinks"] += 1
    return ""


def _differences(
    y: sl.Tensor, weights: np.ndarray, arrays: dict[str, np.ndarray], way: dict[str, np.ndarray]
) -> float | None:
    """Return the derivative of the weighted sum of ``y`` along ``way``; ``None`` at a kink.

    Two central differences give one of fourth order. At a kink, they differ.
    """
    slopes = []
    for step in (STEP, STEP / 2):
        ends = []
        for sign in (1, -1):
            moved = {n: arrays[n] + sign * step * w for n, w in way.items()}
            ends.append(float((_values([y], {**arrays, **moved})[0] * weights).sum()))
        slopes.append((ends[0] - ends[1]) / (2 * step))
    coarse, fine = slopes
    if not np.isfinite(coarse + fine) or abs(coarse - fine) > 1e-5 * (1 + abs(fine)):
        return None
    return fine + (fine - coarse) / 3


__all__ = ["check_graph"]
