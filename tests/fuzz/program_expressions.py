"""Random NumPy expressions over the names of a program, each with the value that it has there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

OFFSETS = ("", "", "", " - 1", " + 1", " - 2")
SMALL = ("0.5", "0.25", "2", "-1", "3", "1.5")
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "complex128")
UNARY = (
    "-{0}", "np.abs({0})", "{0} * 0.5", "{0} + 1", "2 - {0}", "{0} ** 2", "np.square({0})",
    "np.sign({0})", "np.floor({0})", "np.clip({0}, -1, 2)", "np.clip({0}, None, 1)", "{0} // 2",
    "{0} % 3", "np.negative({0})", "np.where({0} > 0, {0}, 0)", "np.where({0} > 1, 0.5, {0})",
    "np.maximum({0}, 0)", "np.minimum({0}, 1.5)", "{0}.copy()", "np.copy({0})", "{0}.conj()",
    "np.roll({0}, 1)", "np.cumsum({0})", "np.cumsum({0}, axis=-1)", "np.diff({0})",
    "np.maximum.accumulate({0})", "np.sqrt(np.abs({0}))", "np.tanh({0})", "np.exp(-np.abs({0}))",
    "np.sin({0})", "1 / (np.abs({0}) + 1)", "np.sort({0}, axis=-1)", "np.argsort({0}, kind='stable')",
    "np.round({0})", "np.isfinite({0})", "np.concatenate([{0}, {0}])", "np.stack([{0}, {0} + 1])",
    "np.repeat({0}, 2, axis=0)", "np.tile({0}, 2)", "np.pad({0}, 1)", "np.outer({0}, {0})",
    "np.tril({0})", "np.triu({0}, 1)", "np.nan_to_num({0})", "+{0}", "~{0}", "{0} & 3", "{0} << 1",
    "scaled({0}, 0.5)", "np.take({0}, [0, -1], axis=0)", "np.append({0}, 1)", "np.insert({0}, 0, 1)",
    "np.convolve({0}, [1, 2])", "np.angle({0} + 0j)", "np.heaviside({0}, 0.5)", "np.hypot({0}, 1)",
    "np.float32(2) * {0}", "{0} * np.float64(0.5)", "np.int64(3) + {0}", "divmod({0}, 2)[1]",
)  # fmt: skip
BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "np.maximum({0}, {1})", "np.minimum({0}, {1})",
    "np.where({0} > {1}, {0}, {1})", "np.where({0} < {1}, {1}, 0)", "{0} * 0.5 + {1} * 0.25",
    "{0} / (np.abs({1}) + 1)", "np.add({0}, {1})", "np.subtract({1}, {0})", "{0} // ({1} ** 2 + 1)",
    "np.add.outer({0}, {1})", "np.where({1} == 1, {0}, -{0})", "{0} & {1}", "{0} | {1}",
    "{0} ^ {1}", "np.logical_and({0} > 0, {1} > 0)", "np.hypot({0}, {1})", "{0} % (np.abs({1}) + 1)",
    "np.add({0}, {1}, dtype='float64')", "np.multiply({0}, {1}, where={0} > 0, out=np.zeros_like({0}))",
    "np.select([{0} > 1, {1} > 1], [{0}, {1}], 0)", "np.choose(({0} > 0).astype(int), [{0}, {1}])",
    "np.copysign({0}, {1})", "np.fmax({0}, {1})", "np.arctan2({0}, {1})",
)  # fmt: skip
PRODUCTS = (
    "{0} @ {1}", "np.dot({0}, {1})", "np.inner({0}, {1})", "np.matmul({0}, {1}.T)", "{0}.T @ {1}",
    "np.einsum('ij,j->i', {0}, {1})", "np.einsum('i,i->', {0}, {1})", "np.outer({0}, {1})",
    "np.einsum('ij,kj->ik', {0}, {1})", "np.tensordot({0}, {1}, axes=1)", "np.vdot({0}, {1})",
    "np.kron({0}, {1})", "np.cross({0}, {1})",
)  # fmt: skip
REDUCTIONS = (
    "{0}.sum({a})", "np.sum({0}, {a})", "{0}.max({a})", "np.min({0}, {a})", "{0}.mean({a})",
    "np.prod({0} * 0.5, {a})", "({0} > 0).any({a})", "np.all({0} > -1, {a})", "{0}.argmax({i})",
    "np.argmin({0}, {i})", "np.count_nonzero({0} > 0, {i})", "{0}.std({a})", "np.var({0}, {a})",
    "np.sum({0}, {a}, where={0} > 0)", "np.ptp({0}, {i})", "np.max({0}, {a}, initial=0)",
    "np.median({0}, {i})", "np.linalg.norm({0})", "np.add.reduce({0}, {i})", "np.sum({0}, dtype='float64')",
    "np.nansum({0}, {i})", "np.average({0}, {i})",
)  # fmt: skip
HOST = (
    "np.linalg.solve({m} @ {m}.T + 9 * np.eye(len({m})), {m})", "np.linalg.inv(np.eye(len({m})) * 9 + 0.5)",
    "np.linalg.cholesky({m} @ {m}.T + 9 * np.eye(len({m})))", "np.sort({v})", "np.unique({v}).sum()",
    "np.searchsorted(np.sort({v}), {v})", "np.linalg.det(np.eye(len({m})) * 3)", "np.percentile({v}, 50)",
    "np.interp({v}, [0, 1, 2], [1, 3, 2])", "np.bincount({x} % 4, minlength=4)", "np.fft.fft({v})",
)  # fmt: skip
RESHAPES = (
    "{0}.T", "{0}.ravel()", "{0}.reshape(-1)", "{0}.reshape(-1, 1)", "{0}.reshape({0}.shape[::-1])",
    "{0}.flatten()", "{0}.swapaxes(0, 1)", "np.moveaxis({0}, 0, -1)", "{0}[::-1]", "{0}[..., ::-1]",
    "np.flip({0})", "np.diagonal({0})", "np.diag({0})", "{0}[None]", "{0}[:, None]", "{0}[..., None]",
    "np.expand_dims({0}, 0)", "np.squeeze({0})", "{0}[1:]", "{0}[:-1]", "{0}[::2]", "{0}[1::2]",
    "{0}[:, 1:]", "{0}[:, ::2]", "{0}[1:, :-1]", "{0}[..., 0]", "{0}[0]", "{0}[-1]", "{0}[:, -1]",
    "{0}[-2::-1]", "{0}[:, ::-1]", "{0}[:2]", "np.atleast_2d({0})", "np.rot90({0})",
    "np.einsum('ii->i', {0})", "np.split({0}, [1])[1]", "{0}.real", "{0}.imag", "{0}[...]",
    "{0}.transpose(1, 0)", "np.broadcast_to({0}, (2, *{0}.shape))", "np.fliplr({0})",
    "np.array_split({0}, 2)[0]", "{0}.reshape(2, -1)", "{0}.T.reshape(-1)", "{0}[::2].ravel()",
    "np.trace({0}) + {0}", "{0}.view()", "np.asarray({0})", "{0}.squeeze()", "np.ascontiguousarray({0})",
)  # fmt: skip
COMPARES = ("{0} > {1}", "{0} < {1}", "{0} >= {1}", "{0} <= {1}", "{0} != {1}")


class Dropped(Exception):
    """A part that cannot be written with the names that there are."""


class Scope:
    """The names of a program at one of its lines, with their values there.

    ``indices`` are the integers that loops around the line count, ``gathers`` the arrays of
    integers that are indices of any dimension, and ``fixed`` the names that nothing assigns to.
    """

    def __init__(self, rng: Random, helpers: dict[str, Any]) -> None:
        self.rng, self.helpers = rng, helpers
        self.names: dict[str, Any] = {}
        self.indices: list[str] = []
        self.gathers: set[str] = set()
        self.fixed: set[str] = set()
        self.sizes: tuple[int, ...] = ()

    # values

    def value(self, text: str) -> Any:
        return eval(text, {**self.helpers, **self.names})

    def arrays(self, test: Callable[[np.ndarray], bool] = lambda a: True) -> list[str]:
        return [
            n
            for n, v in self.names.items()
            if isinstance(v, np.ndarray) and v.ndim and n not in self.gathers and test(v)
        ]

    def numbers(self) -> list[str]:
        return [
            n
            for n, v in self.names.items()
            if n not in self.indices and isinstance(v, (int, float, np.number)) and n not in self.fixed
        ]

    def one_of(self, options: Sequence[str]) -> str:
        if not options:
            raise Dropped
        return self.rng.choice(options)

    def likes(self, chance: float) -> bool:
        return self.rng.random() < chance

    # parts

    def array(self, test: Callable[[np.ndarray], bool] = lambda a: True) -> str:
        return self.one_of(self.arrays(test))

    def index(self, extent: int) -> str:
        """Return an index of one dimension: a loop's with an offset, or a number."""
        if self.indices and self.likes(0.8):
            i = self.rng.choice(self.indices) + self.rng.choice(OFFSETS)
            if self.likes(0.06):
                i = f"-1 - {self.rng.choice(self.indices)}"
            elif self.likes(0.06):
                i = f"{self.rng.choice(self.indices)} // 2"
            elif self.likes(0.05) and len(self.indices) > 1:
                i = f"{self.indices[0]} - {self.indices[-1]}"
            return i
        return str(self.rng.choice([0, 0, 1, -1, extent // 2]))

    def span(self) -> str:
        """Return a slice, whose ends may be indices of loops."""
        if self.indices and self.likes(0.35):
            i = self.rng.choice(self.indices)
            return self.rng.choice([f":{i}", f"{i}:", f"{i} + 1:", f"{i}:{i} + 2", f":{i} + 1",
                                    f"{i} - 1:{i} + 1"])  # fmt: skip
        return self.rng.choice([":", ":", "1:", ":-1", "::2", "::-1", "1:-1", ":2", "-2:", "1::2"])

    def item(self, name: str, whole: float = 0.4) -> str:
        """Return an index of an array by numbers and slices, and a few of other kinds."""
        shape = self.names[name].shape
        parts = []
        for extent in shape:
            parts.append(self.span() if self.likes(whole) else self.index(extent))
        while len(parts) > 1 and parts[-1] == ":":
            parts.pop()
        if self.likes(0.04):
            parts.insert(0, "...")
            if len(parts) > 2:
                del parts[1]
        if self.likes(0.03):
            parts.append("None")
        return f"{name}[{', '.join(parts)}]"

    def element(self) -> str:
        name = self.array()
        return self.item(name, 0.0)

    def number(self, depth: int = 1) -> str:
        """Return a number: an element, a name, a reduction of a slice, or arithmetic of these."""
        kind = self.rng.choices(["element", "name", "constant", "index", "sum", "both", "choice"],
                                [8, 4, 2, 2 * bool(self.indices), 2, 4 * (depth > 0), depth > 0])[0]  # fmt: skip
        if kind == "element":
            return self.element()
        if kind == "name":
            return self.one_of(self.numbers())
        if kind == "constant":
            return self.rng.choice(SMALL)
        if kind == "index":
            return self.one_of(self.indices)
        if kind == "sum":
            form = self.rng.choice(["{0}.sum()", "np.max({0})", "{0}.min()", "np.sum({0})", "{0}.mean()"])
            return form.format(self.item(self.array(), 0.8))
        a, b = self.number(0), self.number(0)
        if kind == "choice":
            test = self.rng.choice(COMPARES).format(a, b)
            return f"({a} if {test} else {b})"
        form = self.rng.choice(
            ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} * 0.5 + {1} * 0.25", "max({0}, {1})",
             "min({0}, {1})", "abs({0})", "np.maximum({0}, {1})", "capped({0})", "{0} / 2", "-{0}",
             "np.abs({0})", "{0} ** 2", "float({0})", "np.sqrt(abs({0}))", "int({0})"])  # fmt: skip
        return form.format(a, b)

    def test(self, depth: int = 1) -> str:
        """Return a condition on elements, numbers or indices."""
        if self.indices and self.likes(0.25):
            i = self.rng.choice(self.indices)
            return self.rng.choice([f"{i} > 1", f"{i} % 2 == 0", f"{i} == 0", f"{i} < 2"])
        if depth and self.likes(0.15):
            joined = self.rng.choice(["{0} and {1}", "{0} or {1}", "not {0}"])
            return joined.format(self.test(0), self.test(0))
        right = self.number(0) if self.likes(0.5) else self.rng.choice(["0", "0.5", "1", "-1"])
        return self.rng.choice(COMPARES).format(self.number(0), right)

    def mask(self, name: str) -> str:
        """Return a mask of the shape of an array, or of its rows."""
        shape = self.value(name).shape
        ready = [n for n in self.arrays(lambda a: a.dtype == bool and a.shape == shape[: a.ndim])]
        if ready and self.likes(0.4):
            return self.rng.choice(ready)
        if self.likes(0.2) and len(shape) > 1:
            return f"{name}[:, 0] > {self.rng.choice(['0', '1'])}"
        form = self.rng.choice(["{0} > 0", "{0} < 1", "{0} == 1", "({0} > 0) & ({0} < 2)",
                                "~({0} > 0.5)", "np.abs({0}) >= 1"])  # fmt: skip
        return form.format(name)

    def view(self, depth: int = 1) -> str:
        """Return a view of an array, or what may be one."""
        name = self.array()
        text = self.item(name, 0.8) if self.likes(0.5) else self.rng.choice(RESHAPES).format(name)
        if depth and self.likes(0.3):
            text = self.rng.choice(RESHAPES).format(text)
        return text

    def gathered(self) -> str:
        name, g = self.array(), self.one_of(sorted(self.gathers))
        h = self.rng.choice(sorted(self.gathers))
        form = self.rng.choice(["{0}[{1}]", "{0}[:, {1}]", "{0}[{1}, 0]", "{0}[{1}, {2}]", "{0}[{1}][{2}]",
                                "np.take({0}, {1}, axis=-1)", "{0}[[0, -1]]", "{0}[{1}[:, None], {2}]",
                                "{0}[0, {1}]", "{0}[{1}[0]]"])  # fmt: skip
        return form.format(name, g, h)

    def new(self) -> str:
        """Return a new array."""
        n = self.rng.choice(self.sizes)
        if self.likes(0.5):
            names = self.arrays()
            n_text = f"len({self.one_of(names)})"
        else:
            n_text = str(n)
        m = self.rng.choice(self.sizes)
        dtype = self.rng.choice(["", "", f", dtype='{self.rng.choice(DTYPES)}'", ", dtype=np.float32"])
        return self.rng.choice([
            f"np.zeros({n_text}{dtype})", f"np.zeros(({n_text}, {m}){dtype})", f"np.ones({n_text}{dtype})",
            f"np.full(({m}, {n_text}), 1.5{dtype})", f"np.eye({n_text}{dtype})", f"np.arange({n_text})",
            f"np.arange({n_text}, dtype='float64') * 0.5", f"np.linspace(0, 1, {n_text})",
            f"np.zeros_like({self.array()})", f"np.ones_like({self.array()})", "np.array([1.0, 0.5, -2.0])",
            f"np.full_like({self.array()}, 2)", f"np.identity({n_text})", f"np.arange({n} * {m}).reshape({n}, {m})",
            f"np.empty_like({self.array()}) * 0", f"np.zeros({self.array()}.shape{dtype})",
        ])  # fmt: skip

    def wide(self, depth: int = 2) -> str:
        """Return an array, by operations on arrays."""
        kinds = ["name", "view", "unary", "binary", "product", "reduction", "gather", "new", "host",
                 "cast", "compare", "number", "masked"]  # fmt: skip
        weights = [3, 5, 6, 8, 2, 3, 2, 1, 0.6, 1, 1, 1, 1]
        if not depth:
            kinds, weights = kinds[:2], weights[:2]
        kind = self.rng.choices(kinds, weights)[0]
        if kind == "name":
            return self.array()
        if kind == "view":
            return self.view()
        if kind == "number":
            return self.number()
        if kind == "new":
            return self.new()
        if kind == "gather":
            return self.gathered()
        if kind == "masked":
            name = self.array()
            mask = self.mask(name)
            form = self.rng.choice(["{0}[{1}].sum()", "np.where({1}, {0}, 0)", "{0}[{1}].max(initial=0)",
                                    "np.where({1}, {0}, {0}[::-1])", "{0}[{1}].mean()", "{0}[{1}]",
                                    "np.mean({0}[{1}])", "np.flatnonzero({1}).sum()"])  # fmt: skip
            return form.format(name, mask)
        first = self.wide(depth - 1)
        if first.startswith("-") or " " in first:
            first = f"({first})"
        if kind == "unary":
            return self.rng.choice(UNARY).format(first)
        if kind == "cast":
            return f"{first}.astype({self.rng.choice(DTYPES)!r})"
        if kind == "reduction":
            axis = self.rng.choice(["axis=0", "axis=-1", "axis=1", ""])
            keeps = self.rng.choice(["", ", keepdims=True"]) if axis else ""
            form = self.rng.choice(REDUCTIONS)
            return form.format(first, a=axis + keeps, i=axis).replace(", )", ")").replace(", ,", ",")
        if kind == "host":
            return self.rng.choice(HOST).format(
                m=self.array(lambda a: a.ndim == 2 and a.shape[0] == a.shape[1] and a.dtype.kind == "f"),
                v=self.array(lambda a: a.ndim == 1 and a.dtype.kind == "f"),
                x=self.array(lambda a: a.ndim == 1 and a.dtype.kind == "i"),
            )
        second = self.partner(first) if self.likes(0.8) else self.wide(depth - 1)
        if second.startswith("-") or " " in second:
            second = f"({second})"
        if kind == "compare":
            return self.rng.choice(COMPARES).format(first, second)
        return self.rng.choice(PRODUCTS if kind == "product" else BINARY).format(first, second)

    def partner(self, text: str) -> str:
        """Return an array or a number that broadcasts with a value, and does not enlarge it."""
        shape = np.shape(self.value(text))

        def fits(a: np.ndarray) -> bool:
            try:
                return np.broadcast_shapes(a.shape, shape) == shape
            except ValueError:
                return False

        for _ in range(4):
            candidate = self.number(0) if self.likes(0.25) else self.view(0)
            try:
                if fits(np.asarray(self.value(candidate))):
                    return candidate
            except Exception:  # noqa: BLE001 - any error of NumPy says that it does not fit
                continue
        return self.one_of(self.arrays(fits))


__all__ = ["Dropped", "Scope"]
