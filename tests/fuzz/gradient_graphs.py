"""Random computations of several stages, all of floats, whose gradients are to be checked.

Each stage reads the ones before it and new inputs at random indices: affine ones, quotients,
remainders, clamped ones, and elements of tables. Functions are smooth where they can be, and their
values small, so that differences of results are accurate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.gradient.ragged import replace_axes

DTYPE = "float64"
SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 7)
# the most points of the domain of a stage
MOST_POINTS = 400


def _product() -> Any:
    return sl.comm_reducer(
        lambda a, b: a * b, lambda t: 1.0, "custom_product", gradient="fold", trusted=True
    )


def _log_sum() -> Any:
    def combine(a: Any, b: Any) -> Any:
        top = sl.max(a[0], b[0])
        return top, a[1] * sl.exp(a[0] - top) + b[1] * sl.exp(b[0] - top)

    return sl.comm_reducer(
        combine, lambda t, u: (-1e30, 0.0), "log_sum", gradient="fold", trusted=True
    )


class RandomGraph:
    """A random result ``y``, its float ``inputs`` and the ``arrays`` of its tables, by name.

    ``kinds`` names what it has. ``plain`` says that it has no recurrence and no custom combiner.
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.inputs: list[sl.Tensor] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.stages: list[sl.Tensor] = []
        self.kinds: set[str] = set()
        self.plain = True
        self._count = 0
        makers: list[Callable[[], Any]] = [
            self.elementwise, self.elementwise, self.reduction, self.reduction, self.reduction,
            self.window, self.joint, self.scatter, self.copy, self.recurrence, self.custom,
            self.several,
        ]  # fmt: skip
        for _ in range(self.rng.choice((1, 1, 2, 2, 3, 4))):
            made = self.rng.choice(makers)()
            self.stages += made if isinstance(made, (tuple, list)) else [made]
        self.y = self.stages[-1]

    # sizes, names and leaves

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def extent(self) -> int:
        return 0 if self.chance(0.015) else self.rng.choice(SIZES)

    def shape(self, most: int = 3) -> tuple[int, ...]:
        return tuple(self.extent() for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3)[: most + 3])))

    def input(self, shape: Sequence[int]) -> sl.Tensor:
        made = sl.placeholder(tuple(shape), DTYPE, name=self.name("X"))
        self.inputs.append(made)
        return made

    def table(self, shape: Sequence[int], low: int, high: int) -> sl.Tensor:
        """Return an input of integers in ``low..high``, ``high`` excluded."""
        dtype = self.rng.choice(("int64", "int32", "int8"))
        made = sl.placeholder(tuple(shape), dtype, name=self.name("I"))
        self.arrays[made.name] = self.numbers.integers(low, high, tuple(shape)).astype(dtype)
        return made

    def reduce_axes(self, points: int, most: int = 2) -> list[sl.Axis]:
        axes = []
        for _ in range(self.rng.randint(1, most)):
            n = self.extent()
            if points * n > MOST_POINTS:
                n = 1
            points *= max(n, 1)
            low = self.rng.choice((0, 0, 0, 1, -2))
            axes.append(sl.reduce_axis((low, low + n), name=self.name("r")))
        return axes

    # indices

    def index(self, axes: Sequence[sl.Axis], n: int) -> Any:
        """Return an index in ``0..n`` over ``axes``; ``None`` if there is no such index."""
        rng = self.rng
        empty = any(axis.extent == 0 for axis in axes)
        if n == 0:
            return next(a - a.lo for a in axes if a.extent == 0) if empty else None
        if not axes or self.chance(0.06):
            return sl.const(rng.randrange(n))
        axis = rng.choice(axes)
        if self.chance(0.08) and axis.extent and isinstance(axis.extent, int):
            return self.table((axis.extent,), 0, n)[axis - axis.lo]
        value: Any = axis
        low = high = int(axis.lo)
        high += max(int(axis.extent) - 1, 0)
        if self.chance(0.15):
            value, low, high = -value, -high, -low
        if self.chance(0.3):
            step = rng.choice((2, 2, 3))
            value, low, high = value * step, low * step, high * step
        if len(axes) > 1 and self.chance(0.3):
            other = rng.choice(axes)
            value, low = value + other, low + int(other.lo)
            high += int(other.lo) + max(int(other.extent) - 1, 0)
        width = high - low
        if width < n:
            return value + (rng.randint(0, n - 1 - width) - low)
        form = rng.random()
        if form < 0.35:
            return (value - low) // -(-(width + 1) // n)
        if form < 0.7:
            return (value - low + rng.randint(0, 2)) % n
        return sl.max(sl.min(value - low - rng.randint(0, 1), n - 1), 0)

    def read(self, axes: Sequence[sl.Axis]) -> Any:
        """Return an element of an earlier stage or of an input."""
        rng = self.rng
        known = [*self.stages, *self.stages, *self.inputs]
        for _ in range(4):
            if known and self.chance(0.65):
                tensor = rng.choice(known)
            else:
                own = [a for a in axes if self.chance(0.7)][:3]
                if self.chance(0.6):
                    tensor = self.input([int(a.extent) for a in own])
                    return tensor[tuple(a - a.lo for a in own)]
                tensor = self.input(self.shape(2))
            places = [self.index(axes, int(n)) for n in tensor.shape]
            if None in places:
                continue
            value = tensor[tuple(places)]
            if self.chance(0.08) and tensor.ndim and tensor.shape[0]:
                # a read beyond the tensor, under a condition
                at = places[0] + rng.choice((-1, 1))
                inside = (at >= 0) & (at < tensor.shape[0])
                value = sl.if_then_else(inside, tensor[(at, *places[1:])], 0.5)
                self.kinds.add("guarded read")
            return value
        return self.input(())[()]

    # values

    def condition(self, axes: Sequence[sl.Axis]) -> Any:
        rng = self.rng
        if not axes:
            return self.table((), 0, 2)[()] > 0
        a, b = rng.choice(axes), rng.choice(axes)
        form = rng.random()
        if form < 0.3:
            return a <= b + rng.randint(-1, 1)
        if form < 0.5:
            return a % 2 == rng.randint(0, 1)
        if form < 0.7:
            return a != a.lo + rng.randint(0, 2)
        if form < 0.85 and int(a.extent):
            return self.table((int(a.extent),), -1, 2)[a - a.lo] >= 0
        return (a > 1) | (b < 1)

    def value(self, axes: Sequence[sl.Axis], depth: int | None = None) -> Any:
        """Return a random expression of floats over ``axes``."""
        rng = self.rng
        depth = rng.choice((0, 1, 1, 2, 2, 3)) if depth is None else depth
        if depth == 0:
            return self.read(axes)
        a = self.value(axes, depth - 1)
        if self.chance(0.4):
            return self.function(a)
        b = self.value(axes, rng.randint(0, depth - 1))
        forms: list[Callable[[], Any]] = [
            lambda: a + b, lambda: a - b, lambda: a * b, lambda: a * b, lambda: a * 0.5 + b,
            lambda: a / (b * b + 1), lambda: sl.max(a, b), lambda: sl.min(a, b),
            lambda: sl.select(self.condition(axes), a, b),
            lambda: sl.if_then_else(self.condition(axes), a, b),
            lambda: sl.select(a > b, a * 2, b), lambda: sl.atan2(a, b * b + 0.5),
            lambda: (a * a + 0.5) ** sl.tanh(b), lambda: a * sl.floor(b),
            lambda: sl.select(a == a, a, b),
        ]  # fmt: skip
        return rng.choice(forms)()

    def function(self, a: Any) -> Any:
        forms: list[Callable[[], Any]] = [
            lambda: sl.tanh(a), lambda: sl.sin(a), lambda: sl.exp(sl.min(a, 1.0)),
            lambda: sl.sigmoid(a), lambda: sl.log(a * a + 1), lambda: sl.sqrt(a * a + 0.5),
            lambda: sl.rsqrt(a * a + 0.5), lambda: sl.erf(a), lambda: a * a, lambda: -a,
            lambda: sl.abs(a), lambda: sl.max(a, 0.0), lambda: a**3 * 0.2, lambda: sl.cos(a),
            lambda: sl.log1p(a * a), lambda: sl.expm1(sl.min(a, 1.0)), lambda: a % 1.5,
            lambda: sl.cosh(sl.tanh(a)), lambda: 1 / (a * a + 1), lambda: sl.max(sl.min(a, 1), -1),
        ]  # fmt: skip
        return self.rng.choice(forms)()

    # stages

    def elementwise(self) -> Any:
        self.kinds.add("elementwise")
        return sl.compute(self.shape(), lambda *i: self.value(i), name=self.name("E"))

    def several(self) -> Any:
        self.kinds.add("several outputs")
        shape = self.shape()
        return sl.compute(
            shape, lambda *i: (self.value(i), self.value(i)), name=self.name("V")
        )

    def _domain(self, data: Sequence[sl.Axis]) -> list[sl.Axis]:
        """Return reduction axes, some of them ragged."""
        points = int(np.prod([int(a.extent) for a in data], dtype=int))
        axes = self.reduce_axes(points)
        for k, axis in enumerate(axes):
            others = [*data, *axes[:k]]
            n = int(axis.extent)
            if not self.chance(0.25) or not others or n == 0:
                continue
            axes[k] = self._ragged(self.rng.choice(others), n, axis.name)
        return axes

    def _ragged(self, outer: sl.Axis, n: int, name: str) -> sl.Axis:
        rng, rows = self.rng, int(outer.extent)
        form = rng.random()
        self.kinds.add("triangular range")
        if form < 0.25:
            return sl.reduce_axis((0, sl.min(outer - outer.lo + 1, n)), name=name)
        if form < 0.4:
            return sl.reduce_axis((sl.max(sl.min(outer, n), 0), n), name=name)
        if form < 0.55:
            start = sl.max(sl.min(outer - 1, n), 0)
            return sl.reduce_axis((start, sl.min(start + 2, n)), name=name)
        self.kinds.remove("triangular range")
        self.kinds.add("range of elements")
        at = outer - outer.lo
        if form < 0.7:
            stop = sl.assume(self.table((rows,), 0, n + 1), within=(0, n))
            return sl.reduce_axis((0, stop[at]), name=name)
        starts = self.table((rows + 1,), 0, n + 1)
        if form < 0.9:
            self.kinds.add("segments")
            self.arrays[starts.name].sort()
            sl.assume(starts, monotonic=True, within=(0, n))
        else:
            sl.assume(starts, within=(0, n))
        return sl.reduce_axis((starts[at], starts[at + 1]), name=name)

    def _start(self, data: Sequence[sl.Axis]) -> Any:
        return self.rng.choice((0.5, -1.5)) if self.chance(0.5) else self.read(data)

    def reduction(self) -> Any:
        rng = self.rng
        kind = rng.choice(("sum", "sum", "sum", "max", "min", "prod"))
        self.kinds.add(kind)

        def body(*data: sl.Axis) -> Any:
            axes = self._domain(data)
            where = self.condition([*data, *axes]) if self.chance(0.25) else None
            value = self.value([*data, *axes])
            if kind == "prod":
                value = value if self.chance(0.4) else value + 1
            # the largest of no elements would be infinite
            needs = kind in ("max", "min") and (
                where is not None or any(a.bounds or a.extent == 0 for a in axes)
            )
            init = self._start(data) if needs or self.chance(0.2) else None
            return getattr(sl, kind)(value, axis=axes, where=where, init=init)

        return sl.compute(self.shape(2), body, name=self.name("R"))

    def joint(self) -> Any:
        """Return several reductions of one loop."""
        self.kinds.add("joint reductions")
        count = self.rng.randint(2, 3)
        kinds = [self.rng.choice(("sum", "sum", "prod", "max", "min")) for _ in range(count)]

        def body(*data: sl.Axis) -> Any:
            axes = self._domain(data)
            where = self.condition([*data, *axes]) if self.chance(0.2) else None
            return tuple(
                getattr(sl, kind)(
                    self.value([*data, *axes], 1), axis=axes, where=where,
                    init=self._start(data) if kind in ("max", "min") or self.chance(0.2) else None,
                ) for kind in kinds
            )  # fmt: skip

        return sl.compute(self.shape(2), body, name=self.name("J"))

    def custom(self) -> Any:
        self.kinds.add("custom reducer")
        self.plain = False

        def body(*data: sl.Axis) -> Any:
            axes = self._domain(data)
            where = self.condition([*data, *axes]) if self.chance(0.2) else None
            own = [*data, *axes]
            if self.chance(0.5):
                return _product()(sl.tanh(self.value(own, 1)) + 0.7, axis=axes, where=where)
            one = sl.const(1.0, DTYPE)
            return _log_sum()((sl.tanh(self.value(own, 1)), one), axis=axes, where=where)

        made = sl.compute(self.shape(1), body, name=self.name("F"))
        return made[1] if isinstance(made, tuple) else made

    def window(self) -> Any:
        """Return a convolution or a pooling of one or two dimensions."""
        rng = self.rng
        self.kinds.add("window")
        ndim = rng.choice((1, 1, 2))
        sizes, taps, outs, steps = [], [], [], []
        for _ in range(ndim):
            k, step, gap = rng.randint(1, 3), rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2))
            out = rng.randint(1, 5)
            sizes.append((out - 1) * step + (k - 1) * gap + 1 + rng.choice((0, 0, 1)))
            taps.append(k)
            outs.append(out)
            steps.append((step, gap))
        pads = [rng.choice((0, 0, 1)) if n > 2 else 0 for n in sizes]
        channels, filters = rng.choice((1, 2, 3)), rng.choice((1, 2))
        X = self.input((channels, *(n - 2 * p for n, p in zip(sizes, pads))))
        if self.chance(0.4):
            E = sl.compute(X.shape, lambda *i: self.function(X[i]), name=self.name("A"))
            self.stages.append(E)
            X = E
        if any(pads):
            X = sl.pad(X, (0, *pads), name=self.name("P"))
        axes = [sl.reduce_axis(k, name=self.name("t")) for k in taps]

        def at(place: Sequence[Any]) -> list[Any]:
            return [p * step + a * gap for p, a, (step, gap) in zip(place, axes, steps)]

        if self.chance(0.3):
            return sl.compute(
                (channels, *outs), lambda c, *p: sl.max(X[(c, *at(p))], axis=axes),
                name=self.name("M"),
            )  # fmt: skip
        if self.chance(0.3):
            W = self.input((channels, *taps))
            return sl.compute(
                (channels, *outs), lambda c, *p: sl.sum(X[(c, *at(p))] * W[(c, *axes)], axis=axes),
                name=self.name("D"),
            )  # fmt: skip
        c = sl.reduce_axis(channels, name=self.name("c"))
        W = self.input((filters, channels, *taps))
        return sl.compute(
            (filters, *outs),
            lambda f, *p: sl.sum(X[(c, *at(p))] * W[(f, c, *axes)], axis=(c, *axes)),
            name=self.name("C"),
        )  # fmt: skip

    def scatter(self) -> Any:
        self.kinds.add("scatter")
        domain = [a for a in self.reduce_axes(1) if a.extent] or [sl.reduce_axis(2, name="u")]
        if len(domain) > 1 and self.chance(0.3):
            domain[1] = self._ragged(domain[0], int(domain[1].extent), domain[1].name)
        shape = [self.rng.choice(SIZES) for _ in range(self.rng.randint(1, 2))]
        places = [self.index(domain, n) for n in shape]
        value = self.value(domain)
        where = self.condition(domain) if self.chance(0.25) else None
        init = self.input(shape) if self.chance(0.3) else None
        at: dict[sl.Axis, Any] = {}

        def moved(root: Any, axes: Sequence[sl.Axis]) -> Any:
            at.update(zip(domain, axes))
            return replace_axes(root, at)

        return sl.scatter(
            tuple(shape), tuple(domain),
            lambda *i: (tuple(moved(p, i) for p in places), moved(value, i)), init=init,
            where=None if where is None else lambda *i: moved(where, i), name=self.name("H"),
        )  # fmt: skip

    def copy(self) -> Any:
        """Return a stage that moves elements: padding, slices, reshapes, joins."""
        rng = self.rng
        self.kinds.add("copy")
        tensor = rng.choice([*self.stages, self.input(self.shape() or (3,))])
        if not tensor.ndim or 0 in tensor.shape:
            return self.elementwise()
        sizes = [int(n) for n in tensor.shape]
        form = rng.random()
        if form < 0.2:
            modes = ["constant", "edge", "wrap"]
            low = [rng.randint(0, min(n, 2)) for n in sizes]
            high = [rng.randint(0, min(n, 2)) for n in sizes]
            return sl.pad(tensor, low, high, mode=rng.choice(modes), name=self.name("P"))
        if form < 0.4:
            picks = tuple(slice(None, None, rng.choice((1, 2, -1))) for _ in sizes)
            return tensor[picks] * 1.0
        if form < 0.55:
            return np.concatenate([tensor, tensor], axis=rng.randrange(len(sizes)))
        if form < 0.7:
            return tensor.reshape((-1,)) * 0.5
        if form < 0.85:
            return np.transpose(tensor) + 0.0
        return np.cumsum(tensor, axis=rng.randrange(len(sizes)))

    def recurrence(self) -> Any:
        rng = self.rng
        self.kinds.add("recurrence")
        self.plain = False
        rows, width, first = rng.randint(3, 5), rng.choice((1, 2, 3)), rng.choice((1, 1, 2))
        X = self.input((rows, width))
        S = sl.placeholder((rows, width), DTYPE, name=self.name("S"))
        init = sl.compute((first, width), lambda t, i: self.function(X[t, i]), name=self.name("N"))
        w = self.input((width, width))
        back = rng.randint(1, first)

        def mixed(t: Any, j: Any) -> Any:
            m = sl.reduce_axis(width, name="m")
            if self.chance(0.3):
                m = sl.reduce_axis((0, sl.min(j + 1, width)), name="m")
            return sl.sum(S[t - back, m] * w[m, j], axis=m)

        form = rng.random()
        if form < 0.5:
            R = sl.compute((rows, width), mixed, name=self.name("Q"))
            update = lambda t, i: sl.tanh(R[t, i] + X[t, i]) * self.value((i,), 1)  # noqa: E731
        elif form < 0.75:
            def update(t: Any, i: Any) -> Any:
                m = sl.reduce_axis(width, name="m")
                return sl.sum(sl.tanh(S[t - back, m]) * w[m, i], axis=m, init=X[t, i])
        else:
            update = lambda t, i: (  # noqa: E731
                sl.tanh(S[t - 1, i] + S[t - back, width - 1 - i] * X[t, i]) * w[0, i]
            )
        step = sl.compute((rows, width), update, name=self.name("U"))
        made = sl.scan(init, step, S, name=self.name("L"))
        if self.chance(0.4):
            self.stages.append(made)
            return self.elementwise()
        return made


__all__ = ["RandomGraph"]
