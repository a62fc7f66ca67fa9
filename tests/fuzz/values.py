"""Random expressions over tensors and axes, as Python text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from random import Random

import numpy as np

from tests.fuzz.specials import special_pair

EXTENTS = (1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17)
SMALL = (0, 0, 1, 1, 1, 2, 3)
INTEGERS = (
    "int32", "int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip
HAS_BFLOAT = find_spec("ml_dtypes") is not None
DTYPES = ("float32",) * 7 + ("float64", "float16", *INTEGERS)
# those of a computation with complex numbers
COMPLEX = ("complex64",) * 4 + ("complex128", "float32", "float64", "int32")
MOST_POINTS = 700
MOST_SIZE = 20


@dataclass(frozen=True)
class Made:
    """A tensor of the computation: its Python name, and its shape as text and as numbers."""

    name: str
    shape: tuple[str, ...]
    size: tuple[int, ...]
    dtype: str
    exact: bool = False
    inner: bool = False


@dataclass(frozen=True)
class Ax:
    """An axis that may stand in an index."""

    name: str
    text: str
    size: int


@dataclass
class Graph:
    """The text of a computation so far and the names that it binds.

    ``ranges`` bounds the values of some inputs. ``sizes`` holds the value of each symbolic size
    and ``least`` its minimum. ``special`` says whether inputs hold NaN and infinities, or the
    limits of their integers. ``kinds`` names the features of the computation. ``refused`` holds
    statements that must raise an error or warn.
    """

    rng: Random
    special: str = ""
    dtypes: tuple[str, ...] = DTYPES
    extents: tuple[int, ...] = EXTENTS
    lines: list[str] = field(default_factory=list)
    tensors: list[Made] = field(default_factory=list)
    inputs: list[Made] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    denormals: bool = True
    scalars: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    count: int = 0
    terms: int = 1

    @property
    def source(self) -> str:
        return "\n".join(self.lines) + "\n"

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def chance(self, p: float) -> bool:
        return self.rng.random() < p


def extent_of(g: Graph) -> tuple[str, int]:
    if g.sizes and g.chance(0.5):
        name = g.rng.choice(list(g.sizes))
        return name, g.sizes[name]
    size = 0 if g.chance(0.02) else g.rng.choice(g.extents)
    return str(size), size


def need(g: Graph, extent: str, least: int) -> None:
    """Require that ``extent`` (a number, a size, or a size plus a number) is ``least`` or more."""
    name, *more = extent.split(" + ")
    if name in g.least:
        g.least[name] = max(g.least[name], least - sum(map(int, more)))
        g.sizes[name] = max(g.sizes[name], g.least[name])


def shape_of(g: Graph, ndim: int) -> list[tuple[str, int]]:
    while True:
        shape = [extent_of(g) for _ in range(ndim)]
        if np.prod([s for _, s in shape] or [1]) <= MOST_POINTS:
            return shape


def placeholder(
    g: Graph, ndim: int, dtype: str, shape: list[tuple[str, int]] | None = None,
    values: tuple[int, int] | None = None,
) -> Made:  # fmt: skip
    shape = shape_of(g, ndim) if shape is None else shape
    made = Made(g.name("X"), tuple(t for t, _ in shape), tuple(s for _, s in shape), dtype, True)
    text = "".join(t + ", " for t in made.shape)
    g.lines.append(f'{made.name} = sl.placeholder(({text}), "{dtype}", name="{made.name}")')
    g.tensors.append(made)
    g.inputs.append(made)
    if values is not None:
        g.ranges[made.name] = values
    return made


def lead_of(g: Graph) -> Made:
    """Pick a tensor to compute from, mostly a recent one, which makes long chains."""
    usable = [t for t in g.tensors if not t.inner]
    made = [t for t in usable if t not in g.inputs]
    if made and g.chance(0.75):
        return made[-1] if g.chance(0.7) else g.rng.choice(made)
    return g.rng.choice(usable)


def index_of(g: Graph, axes: list[Ax], text: str, size: int) -> str | None:
    """Return an index expression within ``0..size`` for all values of ``axes``, or ``None``."""
    rng = g.rng
    symbolic = not text.isdigit()
    options: list[str] = []
    for a in axes:
        if a.text == text:
            options += [a.name] * 6 + [f"{text} - 1 - {a.name}"]
            if symbolic:
                # in bounds: where an iteration runs, the size is at least 1
                options += [
                    f"sl.min({a.name} + {rng.choice((1, 2))}, {text} - 1)",
                    f"sl.min(sl.max({a.name} - 1, 0), {text} - 1)",
                    f"sl.min({a.name}*2, {text} - 1)",
                ]
        if symbolic or not a.text.isdigit():
            if not symbolic and size > 0:
                options += [f"{a.name} % {size}", f"sl.min({a.name}, {size - 1})"]
            continue
        room = size - a.size
        if room >= 0:
            options += [a.name] * 2
            options += [f"{a.name} + {c}" for c in {0, 1, 2, room} if 0 < c <= room] * 2
            options.append(f"{size - 1} - {a.name}")
        if 2 * (a.size - 1) < size:
            options.append(f"{a.name}*2")
        for k in (2, 3):
            if (a.size - 1) // k < size:
                options.append(f"{a.name}//{k}")
        if size > 0:
            options.append(f"{a.name} % {size}")
            c = rng.choice((1, 2))
            options += [
                f"sl.min({a.name} + {c}, {size - 1})",
                f"sl.max(sl.min({a.name} - {c}, {size - 1}), 0)",
            ]
    if len(axes) > 1 and size > 0 and not symbolic:
        a, b = rng.sample(axes, 2)
        options.append(f"({a.name}*{rng.choice((1, 2, 3))} + {b.name}) % {size}")
        if a.text.isdigit() and b.text.isdigit() and (a.size - 1) * b.size + b.size <= size:
            options += [f"{a.name}*{b.size} + {b.name}"] * 2
        if a.text.isdigit() and b.text.isdigit() and a.size + b.size - 1 <= size:
            options += [f"{a.name} + {b.name}"] * 3
    if size > 0 and not symbolic:
        options.append(str(rng.randrange(size)))
        fixed = [a for a in axes if a.size > 0]
        if fixed and g.chance(0.06):
            a = rng.choice(fixed)
            kind = rng.choice(("int32", "int32", "int64", "uint8"))
            table = placeholder(g, 1, kind, [(a.text, a.size)], (0, size))
            g.kinds.add("gather")
            return f"{table.name}[{a.name}]"
    return rng.choice(options) if options else None


def read(g: Graph, t: Made, axes: list[Ax]) -> str | None:
    parts = []
    rest = list(axes)
    for text, size in zip(t.shape, t.size):
        pool = rest if rest and g.chance(0.8) else axes
        index = index_of(g, pool, text, size)
        if index is None:
            return None
        rest = [a for a in rest if a.name not in index]
        parts.append(index)
    return f"{t.name}[{', '.join(parts)}]" if parts else f"{t.name}[()]"


def operand(g: Graph, axes: list[Ax], dtype: str, lead: Made | None = None) -> tuple[str, bool]:
    """Return a read as a value of ``dtype``, sometimes of a new input, and whether it is exact."""
    for _ in range(8):
        t = lead or lead_of(g)
        lead = None
        if g.chance(0.2) and axes:
            picked = g.rng.sample(axes, min(len(axes), g.rng.choice((1, 1, 2))))
            t = placeholder(g, 0, g.rng.choice((dtype, dtype, g.rng.choice(g.dtypes))),
                             [(a.text, a.size) for a in picked])  # fmt: skip
        text = read(g, t, axes)
        if text is not None:
            return (text if t.dtype == dtype else cast(g, text, t, dtype)), t.exact
    return f'sl.const({"True" if dtype == "bool" else 1}, "{dtype}")', True


def rounds(dtype: str) -> bool:
    """Return whether results of ``dtype`` are rounded, and depend on the order of operations."""
    return dtype.startswith(("float", "complex"))


def cast(g: Graph, text: str, t: Made, dtype: str) -> str:
    """Convert ``text`` to ``dtype``; clamp floats to small values before they become integers."""
    if t.dtype.startswith("complex") and not dtype.startswith("complex"):
        part = f"sl.{g.rng.choice(('real', 'imag'))}({text})"
        return cast(g, part, replace(t, dtype="float64"), dtype)
    if dtype == "bool":
        return f"({text} > 0)" if t.exact and t.dtype != "bool" else f"({text} == {text})"
    if t.dtype.startswith("float") and not dtype.startswith("float"):
        if not t.exact:
            return f'sl.cast({text} == {text}, "{dtype}")'
        if g.special:
            # NaN and infinities, and negative numbers as unsigned ones
            return f'sl.cast({text}, "{dtype}")'
        return f'sl.cast(sl.max(sl.min({text}, 50), 0), "{dtype}")'
    return f'sl.cast({text}, "{dtype}")'


def condition_of(g: Graph, axes: list[Ax]) -> str:
    rng = g.rng
    if not axes:
        return "sl.const(True)"
    a = rng.choice(axes)
    c = rng.randrange(max(1, a.size))
    forms = [f"{a.name} < {c + 1}", f"{a.name} >= {c}", f"({a.name} % 2) == 0", f"{a.name} != {c}"]
    forms += [f"({a.name} % -3) < 0", f"({a.name} // -2) >= -{c}"]
    if len(axes) > 1:
        b = rng.choice(axes)
        forms += [f"{a.name} <= {b.name}", f"{a.name} + {b.name} < {c + 2}"]
        forms += [f"({a.name} == {c}) | ({b.name} > 0)", f"({a.name} >= {c}) & ({b.name} < 2)"]
    return f"({rng.choice(forms)})"


def combine(
    g: Graph, a: str, b: str, dtype: str, axes: list[Ax], exact: bool = False
) -> str:  # fmt: skip
    rng = g.rng
    if dtype == "bool":
        return rng.choice((f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"({a} == {b})"))
    ordered = not dtype.startswith("complex")
    if g.special and ordered and g.chance(0.3):
        g.kinds.add("special operation")
        return special_pair(rng, a, b, dtype, exact)
    common = [f"({a} + {b})"] * 4 + [f"({a} - {b})"] * 2
    common += [f"sl.max({a}, {b})", f"sl.min({a}, {b})"] if ordered else [f"sl.conj({a}) * {b}"]
    if g.special:
        common += common[-2:] * 2
    common += [
        f"sl.select({condition_of(g, axes)}, {a}, {b})",
        f"sl.if_then_else({condition_of(g, axes)}, {a}, {b})",
    ]
    if exact and ordered:
        # the condition tests an operand of the choice
        common += [f"sl.if_then_else({a} > {b}, {a}, 0)", f"sl.select({a} > 0, {a}, {b})"]
    made = _one_of(g, common, a, b, dtype)
    g.kinds |= {k for k in ("select", "if_then_else") if made.startswith(f"sl.{k}(")}
    return made


def _one_of(g: Graph, common: list[str], a: str, b: str, dtype: str) -> str:
    rng = g.rng
    if dtype.startswith("complex"):
        return rng.choice((*common, f"({a} * {b})", f"({a} * (0.5 - 1j) + {b})"))
    if dtype.startswith("float"):
        return rng.choice((*common, f"({a} * {b})", f"({a} * 0.5 + {b})"))
    return rng.choice((*common, f"({a} * {b})", f"({a} & {b})", f"({a} ^ {b})"))


def unary(g: Graph, a: str, dtype: str, exact: bool, axes: list[Ax]) -> tuple[str, bool]:
    rng = g.rng
    if dtype == "bool":
        return f"(~{a})", exact
    if dtype.startswith("complex"):
        whole = (f"sl.conj({a})", f"(-{a})", f"({a} * 1j)", f"({a} / (2 - 1j))", f"({a}) ** 2")
        turn = f"np.exp(1j * sl.real({a}))"
        parts = (f"sl.abs({a})", f"(sl.real({a}) - sl.imag({a}))", turn)
        made = rng.choice((*whole, *parts))
        return (made if made in whole else f'sl.cast({made}, "{dtype}")'), False
    if dtype.startswith("float"):
        smooth = (f"sl.tanh({a})", f"sl.exp(sl.min({a}, 1.0))", f"sl.sqrt(sl.abs({a}))")
        more = (f"np.exp(-sl.abs({a}))", f"sl.sigmoid({a})", f"sl.abs({a})", f"(-{a})")
        rare = [f"sl.log1p(sl.abs({a}))", f"sl.erf({a})"]
        if exact:
            # discontinuous functions need operands without rounding
            rare += [f"sl.floor({a})", f"sl.ceil({a})", f"sl.round({a})", f"sl.trunc({a})"]
        return rng.choice((*smooth, *more, f"({a} * 0.5)", f"({a} / 2)", rng.choice(rare))), False
    forms = [f"({a} // 3)", f"({a} % 5)", f"({a} >> 1)", f"({a} + 100)", f"sl.abs({a})"]
    if axes and dtype not in ("int8", "uint8"):
        forms.append(f"({a} + {rng.choice(axes).name})")
    return rng.choice(forms), exact


def value_of(
    g: Graph, axes: list[Ax], dtype: str, lead: Made | None, operands: int
) -> tuple[str, bool]:
    text, exact = operand(g, axes, dtype, lead)
    for _ in range(operands - 1):
        more, exact_too = operand(g, axes, dtype, lead if g.chance(0.6) else None)
        exact = exact and exact_too
        text = combine(g, text, more, dtype, axes, exact)
    if g.chance(0.3):
        text, exact = unary(g, text, dtype, exact, axes)
    if g.scalars and dtype == "float32" and g.chance(0.4):
        text = f"({text} * alpha)"
    # rounding may differ between schedules, so only integers may be compared with a threshold
    return text, exact and not rounds(dtype)
