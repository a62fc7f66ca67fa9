"""Random NumPy expressions over the names of a program, each with the value that it has there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from tests.fuzz import program_forms as forms

OFFSETS = ("", "", "", " - 1", " + 1", " - 2")
SMALL = ("0.5", "0.25", "2", "-1", "3", "1.5")
DTYPES = (
    "float32", "float64", "int32", "int64", "uint8", "complex128", "int8", "int16", "uint16",
    "uint32", "uint64", "complex64", "bool",
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
            if isinstance(v, (int, float, np.number)) and n not in {*self.indices, *self.fixed}
        ]

    def zeros(self) -> list[str]:
        return [n for n, v in self.names.items() if isinstance(v, np.ndarray) and not v.ndim]

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
                                    f"{i} - 1:{i} + 1", f"{i}:-1", f":{i}:2", f"{i}::2", f"{i}::-1",
                                    f"{i} - 2:{i}", f"-{i} - 1:", f":{i} - 1"])  # fmt: skip
        return self.rng.choice([":", ":", "1:", ":-1", "::2", "::-1", "1:-1", ":2", "-2:", "1::2",
                                "::-2", ":0:-1", "-2::-1", "3:1:-1", "2:2"])  # fmt: skip

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
        kinds = {"element": 8, "name": 4, "constant": 2, "index": 2 * bool(self.indices), "sum": 2,
                 "both": 4 * (depth > 0), "choice": depth > 0}  # fmt: skip
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        if kind == "element":
            return self.element()
        if kind == "name":
            return self.one_of(self.numbers())
        if kind == "constant":
            return self.rng.choice(SMALL)
        if kind == "index":
            return self.one_of(self.indices)
        if kind == "sum":
            form = self.rng.choice(forms.SUMS)
            return form.format(self.item(self.array(), 0.8))
        a, b = self.number(0), self.number(0)
        if kind == "choice":
            test = self.rng.choice(COMPARES).format(a, b)
            return f"({a} if {test} else {b})"
        form = self.rng.choice(
            forms.TWO_NUMBERS)
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
        form = self.rng.choice(forms.MASKS)
        return form.format(name)

    def view(self, depth: int = 1) -> str:
        """Return a view of an array, or what may be one."""
        name = self.array()
        form = self.rng.choice(forms.RESHAPES)
        text = self.item(name, 0.8) if self.likes(0.5) else form.format(name)
        if depth and self.likes(0.3):
            text = self.rng.choice(forms.RESHAPES).format(text)
        return text

    def gathered(self) -> str:
        name, g = self.array(), self.one_of(sorted(self.gathers))
        h = self.rng.choice(sorted(self.gathers))
        form = self.rng.choice(forms.GATHERS)
        return form.format(name, g, h)

    def new(self) -> str:
        """Return a new array."""
        n = f"len({self.array()})" if self.likes(0.5) else str(self.rng.choice(self.sizes))
        dtype = f", dtype='{self.rng.choice(DTYPES)}'" if self.likes(0.4) else ""
        form, m = self.rng.choice(forms.NEW), self.rng.choice(self.sizes)
        return form.format(n=n, m=m, dtype=dtype, a=self.array(), t=self.number(0))

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
            form = self.rng.choice(forms.MASKED)
            return form.format(name, mask)
        first = self.wide(depth - 1)
        if first.startswith("-") or " " in first:
            first = f"({first})"
        if kind == "unary":
            return self.rng.choice(forms.UNARY).format(first)
        if kind == "cast":
            return f"{first}.astype({self.rng.choice(DTYPES)!r})"
        if kind == "reduction":
            axis = self.rng.choice(["axis=0", "axis=-1", "axis=1", ""])
            keeps = self.rng.choice(["", ", keepdims=True"]) if axis else ""
            form = self.rng.choice(forms.REDUCTIONS)
            text = form.format(first, a=axis + keeps, i=axis)
            return text.replace(", )", ")").replace(", ,", ",")
        if kind == "host":
            vector = self.array(lambda a: a.ndim == 1 and a.dtype.kind == "f")
            integers = self.array(lambda a: a.ndim == 1 and a.dtype.kind == "i")
            square = self.array(lambda a: a.ndim == 2 and a.shape == a.T.shape)
            return self.rng.choice(forms.HOST).format(m=square, v=vector, x=integers)
        second = self.partner(first) if self.likes(0.8) else self.wide(depth - 1)
        if second.startswith("-") or " " in second:
            second = f"({second})"
        if kind == "compare":
            return self.rng.choice(COMPARES).format(first, second)
        binary = forms.PRODUCTS if kind == "product" else forms.BINARY
        return self.rng.choice(binary).format(first, second)

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
