"""Random functions at points where their formulas change, with derivatives by mpmath.

Inputs are small numbers that are often equal, 0, or multiples of each other. What is compared is
computed from them exactly, so that it is equal in floats where it is equal in mathematics. Sides of
choices that are not chosen may be infinite or NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import mpmath
import numpy as np

import schedlang as sl

NUMBERS = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 2.0, 3.0)
STEP = mpmath.mpf(10) ** -25
DIGITS = 110

# an exact function takes the point that is looked at, where it decides, and a point near to it
Exact = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Node:
    """A function of arrays or elements, the same one in mpmath, and its formula."""

    ours: Callable[[Sequence[Any]], Any]
    exact: Exact
    text: str

    def at(self, point: Any) -> Any:
        """Return the exact value at ``point``."""
        return self.exact(point, point)


def _unary(text: str, ours: Any, exact: Any, a: Node) -> Node:
    return Node(lambda x: ours(a.ours(x)), lambda p, x: exact(a.exact(p, x)), f"{text}({a.text})")


def _binary(text: str, ours: Any, exact: Any, a: Node, b: Node) -> Node:
    return Node(
        lambda x: ours(a.ours(x), b.ours(x)),
        lambda p, x: exact(a.exact(p, x), b.exact(p, x)), f"{text}({a.text}, {b.text})",
    )  # fmt: skip


def _decided(text: str, ours: Any, pick: Any, *nodes: Node) -> Node:
    """Return a function whose formula ``pick`` chooses by the exact values of ``nodes``."""

    def exact(p: Any, x: Any) -> Any:
        return pick(*(n.at(p) for n in nodes))(*(n.exact(p, x) for n in nodes))

    listed = ", ".join(n.text for n in nodes)
    return Node(lambda x: ours(*(n.ours(x) for n in nodes)), exact, f"{text}({listed})")


def _abs(v: Any) -> Any:
    return (lambda a: a * mpmath.sign(v)) if v else (lambda a: mpmath.mpf(0))


def _extreme(sign: int) -> Any:
    """Return the formula of the larger of two, or the smaller: equal ones count half each."""

    def pick(v: Any, w: Any) -> Any:
        if v == w:
            return lambda a, b: (a + b) / 2
        return (lambda a, b: a) if (v - w) * sign > 0 else (lambda a, b: b)

    return pick


def _bounded(v: Any) -> Any:
    """Return the formula of ``max(v, 0)``, which is flat at 0."""
    return (lambda a: a) if v > 0 else (lambda a: mpmath.mpf(0))


def _fmod(v: Any, w: Any) -> Any:
    whole = mpmath.floor(abs(v / w)) * mpmath.sign(v / w)
    return lambda a, b: a - whole * b


def _mod(v: Any, w: Any) -> Any:
    whole = mpmath.floor(v / w)
    return lambda a, b: a - whole * b


def _length(*values: Any) -> Any:
    zero = not any(values)
    return lambda *a: mpmath.mpf(0) if zero else mpmath.sqrt(sum(x * x for x in a))


def _sinc(v: Any) -> Any:
    pi = mpmath.pi
    if v:
        return lambda a: mpmath.sin(pi * a) / (pi * a)
    return lambda a: 1 - (pi * a) ** 2 / 6 + (pi * a) ** 4 / 120


def _log_of_sum(base: Any) -> Any:
    return lambda a, b: mpmath.log(base() ** a + base() ** b) / mpmath.log(base())


class RandomSeams:
    """A random function ``root`` of ``count`` inputs."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.count = self.rng.randint(1, 3)
        self.form = self.rng.choice(("lambda", "lambda", "arrays", "traced", "traced"))
        self.root = self.value(self.rng.randint(2, 4))

    def exact_value(self, depth: int) -> Node:
        """Return a function that floats compute exactly."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            k = rng.randrange(self.count)
            return Node(lambda x: x[k], lambda p, x: x[k], f"x{k}")
        a = self.exact_value(depth - 1)
        number = rng.choice((1.0, 2.0, -1.0, 0.5))
        forms: list[Callable[[], Node]] = [
            lambda: _unary(f"{number} + ", lambda v: v + number, lambda v: v + number, a),
            lambda: _unary(f"{number} * ", lambda v: v * number, lambda v: v * number, a),
            lambda: _unary("square", np.square, lambda v: v * v, a),
            lambda: _decided("abs", np.abs, _abs, a),
            lambda: _decided("relu", lambda v: np.maximum(v, 0.0), _bounded, a),
        ]
        b = self.exact_value(depth - 1)
        forms += [
            lambda: _binary("add", np.add, lambda v, w: v + w, a, b),
            lambda: _binary("subtract", np.subtract, lambda v, w: v - w, a, b),
            lambda: _binary("multiply", np.multiply, lambda v, w: v * w, a, b),
            lambda: _decided("maximum", np.maximum, _extreme(1), a, b),
            lambda: _decided("minimum", np.minimum, _extreme(-1), a, b),
        ]
        return rng.choice(forms)()

    def seam(self) -> Node:
        """Return a function with another formula on both sides of a seam, of exact operands."""
        a, b = self.exact_value(1), self.exact_value(1)
        step = self.rng.choice((1.0, 2.0, 3.0, -2.0))
        fixed = Node(lambda x: step, lambda p, x: mpmath.mpf(step), str(step))
        forms: list[Callable[[], Node]] = [
            lambda: _binary("logaddexp", np.logaddexp, _log_of_sum(_e), a, b),
            lambda: _binary("logaddexp2", np.logaddexp2, _log_of_sum(_two), a, b),
            lambda: _decided("hypot", np.hypot, _length, a, b),
            lambda: _decided("fmod", np.fmod, _fmod, a, fixed),
            lambda: _decided("remainder", np.remainder, _mod, a, fixed),
            lambda: _unary("exp", np.exp, mpmath.exp, a),
            lambda: _unary("tanh", np.tanh, mpmath.tanh, a),
            lambda: _unary("sin", np.sin, mpmath.sin, a),
            lambda: a,
        ]
        if self.form != "lambda":
            forms += [
                lambda: _decided("norm", _norm, _length, a, b, a),
                lambda: _decided("sinc", np.sinc, _sinc, a),
            ]
        if self.form == "arrays":
            forms += [
                lambda: _unary("softplus", sl.topi.nn.softplus, _softplus, a),
                lambda: _unary("log_sigmoid", sl.topi.nn.log_sigmoid,
                               lambda v: -_softplus(-v), a),
            ]  # fmt: skip
        return self.rng.choice(forms)()

    def singular(self, depth: int) -> Node:
        """Return a choice with a side that is finite only where it is chosen."""
        a, other = self.exact_value(2), self.value(depth - 1)
        b = self.value(depth - 1)
        third = mpmath.mpf("0.3")
        text, ours, exact = self.rng.choice([
            ("sqrt", np.sqrt, mpmath.sqrt), ("log", np.log, mpmath.log),
            ("1/", lambda v: 1 / v, lambda v: 1 / v), ("power", lambda v: v**0.3,
                                                       lambda v: v**third),
            ("1/sqrt", lambda v: 1 / np.sqrt(v), lambda v: 1 / mpmath.sqrt(v)),
            ("exp(1/)", lambda v: np.exp(0.1 / v), lambda v: mpmath.exp(mpmath.mpf(0.1) / v)),
        ])  # fmt: skip
        side = _unary(text, ours, exact, a)
        if self.rng.random() < 0.5:
            side = _binary("multiply", np.multiply, lambda v, w: v * w, side, b)
        return _choice(a, side, other)

    def value(self, depth: int) -> Node:
        rng = self.rng
        if depth == 0:
            return self.seam()
        if rng.random() < 0.35:
            return self.singular(depth)
        a = self.value(depth - 1)
        if rng.random() < 0.3:
            return rng.choice((
                lambda: _unary("tanh", np.tanh, mpmath.tanh, a),
                lambda: _unary("sin", np.sin, mpmath.sin, a),
                lambda: _unary("0.5 * ", lambda v: v * 0.5, lambda v: v / 2, a),
            ))()  # fmt: skip
        b = self.value(rng.randint(0, depth - 1))
        return rng.choice((
            lambda: _binary("add", np.add, lambda v, w: v + w, a, b),
            lambda: _binary("subtract", np.subtract, lambda v, w: v - w, a, b),
            lambda: _binary("multiply", np.multiply, lambda v, w: v * w, a, b),
            lambda: _choice(self.exact_value(1), a, b),
        ))()  # fmt: skip


def _e() -> Any:
    return mpmath.exp(1)


def _two() -> Any:
    return mpmath.mpf(2)


def _softplus(v: Any) -> Any:
    return mpmath.log1p(mpmath.exp(v))


def _norm(*values: Any) -> Any:
    return np.linalg.norm(np.stack(values), axis=0)


def _choice(a: Node, side: Node, other: Node) -> Node:
    """Return ``side`` where ``a`` is positive, else ``other``; mpmath computes that one alone."""
    return Node(
        lambda x: np.where(a.ours(x) > 0, side.ours(x), other.ours(x)),
        lambda p, x: (side if a.at(p) > 0 else other).exact(p, x),
        f"where({a.text} > 0, {side.text}, {other.text})",
    )


def _result(seams: RandomSeams, xs: Sequence[sl.Tensor]) -> sl.Tensor:
    """Return the function of all elements of ``xs``."""
    if seams.form == "lambda":
        made: Any = sl.compute(xs[0].shape, lambda i: seams.root.ours([x[i] for x in xs]), "y")
    elif seams.form == "traced":
        made = sl.trace(lambda *args: seams.root.ours(args) * 1.0, *xs)
    else:
        made = seams.root.ours(xs) * 1.0
    return made


def _derivative(function: Any, point: Any, places: Sequence[int]) -> Any:
    """Return a central difference of ``function`` by the inputs ``places``, one after another."""
    if not places:
        return function(point)
    k, *rest = places
    ends = []
    for sign in (1, -1):
        moved = list(point)
        moved[k] = moved[k] + sign * STEP
        ends.append(_derivative(function, moved, rest))
    return (ends[0] - ends[1]) / (2 * STEP)


def check_seams(seed: int, counts: Counter[str] | None = None) -> str:
    """Return what is wrong with the derivatives of a random function; "" if nothing is."""
    counts = Counter() if counts is None else counts
    seams = RandomSeams(seed)
    rng = Random(seed + 1)
    points = [[rng.choice(NUMBERS) for _ in range(seams.count)] for _ in range(4)]
    names = [f"x{k}" for k in range(seams.count)]
    xs = [sl.placeholder((len(points),), "float64", name=name) for name in names]
    y = _result(seams, xs)
    axis = sl.reduce_axis(len(points), name="s")
    loss = sl.compute((), lambda: sl.sum(y[axis], axis=axis), name="loss")
    known = set(sl.reference(y).inputs)
    used = [k for k, x in enumerate(xs) if x in known]
    if not used:
        return ""
    first = sl.gradient(loss, [xs[k] for k in used])
    orders = [[k] for k in used]
    kernel = rng.random() < 0.2
    if not kernel and rng.random() < 0.3:
        counts["second derivatives at seams"] += 1
        outputs = list(first)
        for by, k in zip(first, used):
            m = sl.reduce_axis(len(points), name="m")
            total = sl.compute((), lambda by=by, m=m: sl.sum(by[m], axis=m), name="total")
            outputs += sl.gradient(total, [xs[j] for j in used])
            orders += [[k, j] for j in used]
    else:
        outputs = list(first)
    counts["seams"] += 1
    f = sl.reference([y, *outputs])
    columns = dict(zip(names, np.ascontiguousarray(np.array(points).T)))
    with np.errstate(all="ignore"):
        values, *found = f(**{t.name: columns[t.name] for t in f.inputs})
        if kernel:
            run = sl.build(sl.schedule([y, *outputs]), target="python")
            again = run(**{t.name: columns[t.name] for t in f.inputs})
            if not all(np.allclose(a, b, 1e-9, equal_nan=True) for a, b in zip(again[1:], found)):
                return f"seams {seed}: the kernel differs: {seams.root.text}"
    for n, point in enumerate(points):
        with mpmath.workdps(DIGITS):
            base = [mpmath.mpf(v) for v in point]
            if not _near(values[n], seams.root.at(base)):
                return f"seams {seed}: {seams.root.text} at {point} is {values[n]}"
            near = partial(seams.root.exact, base)
            wanted = [_derivative(near, base, order) for order in orders]
        for order, value, expected in zip(orders, found, wanted):
            if not _near(value[n], expected):
                return (
                    f"seams {seed}, {seams.form}: {seams.root.text} at {point} has by {order} the "
                    f"derivative {value[n]}, and not {float(expected)}\n{sl.schedule(y)}"
                )
    return ""


def _near(value: float, expected: Any) -> bool:
    wanted = float(expected)
    return bool(np.isclose(value, wanted, rtol=1e-7, atol=1e-9 * (1 + abs(wanted))))


__all__ = ["check_seams"]
