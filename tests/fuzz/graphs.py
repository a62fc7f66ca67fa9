"""Random computations, written as the Python that makes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import schedlang as sl

EXTENTS = (1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17)
DTYPES = ("float32",) * 6 + ("float64", "float16", "int32", "int32", "int64", "int8", "uint8", "int16",
                             "bool")  # fmt: skip
MOST_POINTS = 700


@dataclass(frozen=True)
class Made:
    """A tensor of the computation: its Python name, shape as text and as numbers."""

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
    """The text so far and what it binds; ``data`` gives the values of each input."""

    rng: Random
    lines: list[str] = field(default_factory=list)
    tensors: list[Made] = field(default_factory=list)
    inputs: list[Made] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
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


def random_graph(rng: Random) -> Graph:
    """A computation of one to six stages."""
    g = Graph(rng)
    if g.chance(0.18):
        for name in ("n", "m")[: rng.choice((1, 1, 2))]:
            g.sizes[name] = rng.choice((1, 2, 3, 5, 7, 8, 12, 13))
            g.lines.append(f'{name} = sl.var("{name}")')
    if g.chance(0.1):
        g.scalars.append("alpha")
        g.lines.append('alpha = sl.var("alpha", dtype="float32")')
    _placeholder(g, rng.choice((1, 2, 2, 2, 3)), rng.choice(DTYPES))
    count = rng.choice((1, 2, 2, 3, 3, 4, 5, 6))
    while sum(not t.inner for t in g.tensors) - len(g.inputs) < count:
        kind = rng.random()
        if kind < 0.4:
            _pointwise(g)
        elif kind < 0.5:
            _stencil(g)
        elif kind < 0.82:
            _reduction(g)
        elif kind < 0.88:
            _tuple(g)
        elif kind < 0.92:
            _padded(g)
        elif kind < 0.96:
            _pair_reduction(g)
        else:
            _scan(g)
    made = [t for t in g.tensors if t not in g.inputs and not t.inner]
    g.outputs = [made[-1].name]
    for t in made[:-1]:
        if g.chance(0.12):
            g.outputs.append(t.name)
    return g


def _extent(g: Graph) -> tuple[str, int]:
    if g.sizes and g.chance(0.5):
        name = g.rng.choice(list(g.sizes))
        return name, g.sizes[name]
    if g.chance(0.02):
        return "0", 0
    size = g.rng.choice(EXTENTS)
    return str(size), size


def _shape(g: Graph, ndim: int) -> list[tuple[str, int]]:
    while True:
        shape = [_extent(g) for _ in range(ndim)]
        if np.prod([s for _, s in shape] or [1]) <= MOST_POINTS:
            return shape


def _placeholder(
    g: Graph, ndim: int, dtype: str, shape: list[tuple[str, int]] | None = None,
    values: tuple[int, int] | None = None,
) -> Made:  # fmt: skip
    shape = _shape(g, ndim) if shape is None else shape
    made = Made(g.name("X"), tuple(t for t, _ in shape), tuple(s for _, s in shape), dtype, True)
    g.lines.append(f'{made.name} = sl.placeholder(({"".join(t + ", " for t in made.shape)}), "{dtype}", '
                   f'name="{made.name}")')  # fmt: skip
    g.tensors.append(made)
    g.inputs.append(made)
    if values is not None:
        g.ranges[made.name] = values
    return made


def _lead(g: Graph) -> Made:
    """A tensor to compute from: a recent one, for long chains."""
    usable = [t for t in g.tensors if not t.inner]
    made = [t for t in usable if t not in g.inputs]
    if made and g.chance(0.75):
        return made[-1] if g.chance(0.7) else g.rng.choice(made)
    return g.rng.choice(usable)


def _index(g: Graph, axes: list[Ax], text: str, size: int) -> str | None:
    """An index expression within ``0..size`` for all values of ``axes``."""
    rng = g.rng
    symbolic = not text.isdigit()
    options: list[str] = []
    for a in axes:
        if a.text == text:
            options += [a.name] * 6 + [f"{text} - 1 - {a.name}"]
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
            options += [f"sl.min({a.name} + {c}, {size - 1})", f"sl.max(sl.min({a.name} - {c}, {size - 1}), 0)"]
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
            table = _placeholder(g, 1, "int32", [(a.text, a.size)], (0, size))
            return f"{table.name}[{a.name}]"
    return rng.choice(options) if options else None


def _read(g: Graph, t: Made, axes: list[Ax]) -> str | None:
    parts = []
    rest = list(axes)
    for text, size in zip(t.shape, t.size):
        pool = rest if rest and g.chance(0.8) else axes
        index = _index(g, pool, text, size)
        if index is None:
            return None
        rest = [a for a in rest if a.name not in index]
        parts.append(index)
    return f"{t.name}[{', '.join(parts)}]" if parts else f"{t.name}[()]"


def _operand(g: Graph, axes: list[Ax], dtype: str, lead: Made | None = None) -> tuple[str, bool]:
    """A value of ``dtype``: a read, now and then of a new input; whether it is exact."""
    for _ in range(8):
        t = lead or _lead(g)
        lead = None
        if g.chance(0.2) and axes:
            picked = g.rng.sample(axes, min(len(axes), g.rng.choice((1, 1, 2))))
            t = _placeholder(g, 0, g.rng.choice((dtype, dtype, g.rng.choice(DTYPES))),
                             [(a.text, a.size) for a in picked])  # fmt: skip
        text = _read(g, t, axes)
        if text is not None:
            return (text if t.dtype == dtype else _cast(g, text, t, dtype)), t.exact
    return f'sl.const({"True" if dtype == "bool" else 1}, "{dtype}")', True


def _cast(g: Graph, text: str, t: Made, dtype: str) -> str:
    """``text`` in ``dtype``; floats on their way to integers stay small."""
    if dtype == "bool":
        return f"({text} > 0)" if t.exact and t.dtype != "bool" else f"({text} == {text})"
    if t.dtype.startswith("float") and not dtype.startswith("float"):
        if not t.exact:
            return f'sl.cast({text} == {text}, "{dtype}")'
        return f'sl.cast(sl.max(sl.min({text}, 50), 0), "{dtype}")'
    return f'sl.cast({text}, "{dtype}")'


def _condition(g: Graph, axes: list[Ax]) -> str:
    rng = g.rng
    if not axes:
        return "sl.const(True)"
    a = rng.choice(axes)
    c = rng.randrange(max(1, a.size))
    forms = [f"{a.name} < {c + 1}", f"{a.name} >= {c}", f"({a.name} % 2) == 0", f"{a.name} != {c}"]
    if len(axes) > 1:
        b = rng.choice(axes)
        forms += [f"{a.name} <= {b.name}", f"{a.name} + {b.name} < {c + 2}", f"({a.name} == {c}) | ({b.name} > 0)",
                  f"({a.name} >= {c}) & ({b.name} < 2)"]  # fmt: skip
    return f"({rng.choice(forms)})"


def _combine(g: Graph, a: str, b: str, dtype: str, axes: list[Ax]) -> str:
    rng = g.rng
    if dtype == "bool":
        return rng.choice((f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"({a} == {b})"))
    common = [f"({a} + {b})"] * 4 + [f"({a} - {b})"] * 2 + [f"sl.max({a}, {b})", f"sl.min({a}, {b})"]
    common += [f"sl.select({_condition(g, axes)}, {a}, {b})", f"sl.if_then_else({_condition(g, axes)}, {a}, {b})"]
    if dtype.startswith("float"):
        return rng.choice((*common, f"({a} * {b})", f"({a} * 0.5 + {b})"))
    return rng.choice((*common, f"({a} * {b})", f"({a} & {b})", f"({a} ^ {b})"))


def _unary(g: Graph, a: str, dtype: str, exact: bool, axes: list[Ax]) -> tuple[str, bool]:
    rng = g.rng
    if dtype == "bool":
        return f"(~{a})", exact
    if dtype.startswith("float"):
        text = rng.choice((f"sl.tanh({a})", f"sl.exp(sl.min({a}, 1.0))", f"sl.abs({a})", f"(-{a})",
                           f"sl.sqrt(sl.abs({a}))", f"np.exp(-sl.abs({a}))", f"sl.sigmoid({a})", f"({a} * 0.5)",
                           f"({a} / 2)"))  # fmt: skip
        return text, False
    forms = [f"({a} // 3)", f"({a} % 5)", f"({a} >> 1)", f"({a} + 100)", f"sl.abs({a})"]
    if axes and dtype not in ("int8", "uint8"):
        forms.append(f"({a} + {rng.choice(axes).name})")
    return rng.choice(forms), exact


def _value(g: Graph, axes: list[Ax], dtype: str, lead: Made | None, operands: int) -> tuple[str, bool]:
    text, exact = _operand(g, axes, dtype, lead)
    for _ in range(operands - 1):
        more, exact_too = _operand(g, axes, dtype, lead if g.chance(0.6) else None)
        text, exact = _combine(g, text, more, dtype, axes), exact and exact_too
    if g.chance(0.3):
        text, exact = _unary(g, text, dtype, exact, axes)
    if g.scalars and dtype == "float32" and g.chance(0.4):
        text = f"({text} * alpha)"
    # rounding may differ between schedules: only whole numbers may meet a threshold later
    return text, exact and not dtype.startswith("float")


def _axes_for(g: Graph, lead: Made) -> list[Ax]:
    """Axes for a new tensor: those of ``lead``, some shorter, some moved, dropped or added."""
    rng = g.rng
    axes = []
    for letter, text, size in zip("ijkl", lead.shape, lead.size):
        change = rng.random()
        if change < 0.3 and text.isdigit() and size > 1:
            size = max(1, size - rng.choice((1, 2, 2, 4)))
            text = str(size)
        elif change < 0.36 and text.isdigit() and size > 1:
            size = -(-size // 2)
            text = str(size)
        elif change < 0.42:
            continue
        axes.append(Ax(letter, text, size))
    if g.chance(0.25):
        rng.shuffle(axes)
    if len(axes) < 3 and g.chance(0.12):
        text, size = _extent(g)
        axes.insert(rng.randrange(len(axes) + 1), Ax("l", text, size))
    while np.prod([a.size for a in axes] or [1]) > MOST_POINTS:
        axes.pop()
    return axes


def _dtype(g: Graph, lead: Made) -> str:
    return lead.dtype if g.chance(0.8) else g.rng.choice(DTYPES)


def _emit(g: Graph, letter: str, axes: list[Ax], body: str, dtype: str, exact: bool) -> Made:
    name = g.name(letter)
    shape = "".join(a.text + ", " for a in axes)
    g.lines.append(f'{name} = sl.compute(({shape}), lambda {", ".join(a.name for a in axes)}: {body}, name="{name}")')
    made = Made(name, tuple(a.text for a in axes), tuple(a.size for a in axes), dtype, exact)
    g.tensors.append(made)
    return made


def _pointwise(g: Graph) -> None:
    lead = _lead(g)
    axes, dtype = _axes_for(g, lead), _dtype(g, lead)
    text, exact = _value(g, axes, dtype, lead, g.rng.choice((1, 2, 2, 3, 3, 4)))
    _emit(g, "P", axes, text, dtype, exact)


def _stencil(g: Graph) -> None:
    """Several neighbours along one dimension: what sliding windows are for."""
    lead = _lead(g)
    wide = [k for k, (t, s) in enumerate(zip(lead.shape, lead.size)) if t.isdigit() and s > 2]
    if not wide:
        return
    along, taps = g.rng.choice(wide), g.rng.choice((2, 3, 3))
    axes = [Ax(n, t, s) for n, t, s in zip("ijkl", lead.shape, lead.size)]
    size = lead.size[along] - taps + 1
    axes[along] = Ax("ijkl"[along], str(size), size)
    names = [a.name for a in axes]
    reads = [", ".join(n + (f" + {c}" if k == along and c else "") for k, n in enumerate(names))
             for c in range(taps)]  # fmt: skip
    text = f"{lead.name}[{reads[0]}]"
    for at in reads[1:]:
        text = _combine(g, text, f"{lead.name}[{at}]", lead.dtype, axes)
    _emit(g, "T", axes, text, lead.dtype, lead.exact and not lead.dtype.startswith("float"))


def _tuple(g: Graph) -> None:
    lead = _lead(g)
    axes = _axes_for(g, lead)
    kinds = [_dtype(g, lead) for _ in range(g.rng.choice((2, 2, 3)))]
    parts = [_value(g, axes, t, lead, 2) for t in kinds]
    _several(g, axes, f"({', '.join(p for p, _ in parts)})", kinds, [e for _, e in parts])


def _several(g: Graph, axes: list[Ax], body: str, kinds: list[str], exact: list[bool]) -> None:
    name = g.name("M")
    names = [f"{name}_v{k}" for k in range(len(kinds))]
    shape = "".join(a.text + ", " for a in axes)
    g.lines.append(f"{', '.join(names)} = sl.compute(({shape}), lambda {', '.join(a.name for a in axes)}: "
                   f'{body}, name="{name}")')  # fmt: skip
    for n, t, e in zip(names, kinds, exact):
        g.tensors.append(Made(n, tuple(a.text for a in axes), tuple(a.size for a in axes), t, e))


def _padded(g: Graph) -> None:
    """A read that leaves its tensor behind a condition, as padding has it."""
    lead = _lead(g)
    if not lead.shape:
        return
    before, after = g.rng.choice((0, 1, 2)), g.rng.choice((0, 1, 2))
    axes, conds, index = [], [], []
    for letter, text, size in zip("ijkl", lead.shape, lead.size):
        if g.chance(0.3):
            axes.append(Ax(letter, text, size))
            index.append(letter)
            continue
        wide = size + before + after
        axes.append(Ax(letter, str(wide) if text.isdigit() else f"{text} + {before + after}", wide))
        conds += [f"({letter} >= {before})", f"({letter} < {text} + {before})"]
        index.append(f"{letter} - {before}" if before else letter)
    if np.prod([a.size for a in axes]) > MOST_POINTS or not conds:
        return
    zero = "False" if lead.dtype == "bool" else "0"
    body = f"sl.if_then_else({' & '.join(conds)}, {lead.name}[{', '.join(index)}], sl.const({zero}, \"{lead.dtype}\"))"
    _emit(g, "Q", axes, body, lead.dtype, lead.exact and not lead.dtype.startswith("float"))


def _reduced(g: Graph) -> tuple[Made, list[Ax], list[Ax]] | None:
    """A tensor, data axes and reduction axes (which are declared)."""
    lead = _lead(g)
    data, reduce = [], []
    for letter, text, size in zip("ijkl", lead.shape, lead.size):
        if g.chance(0.45) and len(reduce) < 2:
            reduce.append((text, size))
        else:
            data.append(Ax(letter, text, size))
    if not reduce:
        reduce.append((str(w := g.rng.choice((2, 3, 5))), w))
    if len(data) < 2 and g.chance(0.3):
        text, size = _extent(g)
        data.append(Ax("l", text, size))
    if g.chance(0.3) and data and data[0].text.isdigit() and data[0].size > 3:
        data[0] = Ax(data[0].name, str(data[0].size - 2), data[0].size - 2)
    axes = []
    for text, size in reduce:
        name = g.name("r")
        if text.isdigit() and size > 2 and g.chance(0.2):
            g.lines.append(f'{name} = sl.reduce_axis((1, {size}), name="{name}")')
        else:
            g.lines.append(f'{name} = sl.reduce_axis({text}, name="{name}")')
        axes.append(Ax(name, text, size))
    points = np.prod([a.size for a in (*data, *axes)])
    return None if points > 4 * MOST_POINTS else (lead, data, axes)


def _reduction(g: Graph) -> None:
    parts = _reduced(g)
    if parts is None:
        return
    lead, data, reduce = parts
    axes = [*data, *reduce]
    dtype = _dtype(g, lead)
    kind = g.rng.choice(("sum", "sum", "sum", "sum", "max", "min", "prod", "argmax", "argmin", "custom"))
    if kind in ("sum", "prod", "custom") and dtype == "bool":
        kind = "max"
    a, exact = _operand(g, axes, dtype, lead)
    if g.chance(0.6):
        b, exact_too = _operand(g, axes, dtype)
        product = dtype != "bool" and kind in ("sum", "custom") and g.chance(0.7)
        a = f"{a} * {b}" if product else _combine(g, a, b, dtype, axes)
        exact = exact and exact_too
    whole = exact and not dtype.startswith("float")
    if kind.startswith("arg"):
        if not exact or any(r.size == 0 for r in reduce):
            return
        body, dtype = f"sl.{kind}({a}, axis=[{', '.join(r.name for r in reduce)}])", "int64"
        _emit(g, "G", data, body, dtype, False)
        return
    if kind in ("max", "min") and any(r.size == 0 for r in reduce):
        return
    if kind == "prod":
        g.terms *= 2
    g.terms = max(g.terms, int(np.prod([max(r.size, 1) for r in reduce])) * 2)
    more = ""
    if g.chance(0.3):
        more += f", where={_condition(g, axes)}"
    if g.chance(0.2):
        start = "True" if dtype == "bool" else g.rng.choice(("2", "3", "1"))
        if data and dtype not in ("bool", "int8", "uint8") and g.chance(0.3):
            start = f"{data[0].name} + 1"
        more += f", init={start}"
    if kind == "custom":
        g.lines.append(f'{kind}{g.count} = sl.comm_reducer(lambda x, y: x + y, lambda t: sl.const(0, t), name="add")')
        call = f"{kind}{g.count}({a}"
    else:
        call = f"sl.{kind}({a}"
    body = f"{call}, axis=[{', '.join(r.name for r in reduce)}]{more})"
    _emit(g, "R", data, body, dtype, whole)


def _pair_reduction(g: Graph) -> None:
    """A tuple reducer of one's own: a sum and a maximum together."""
    parts = _reduced(g)
    if parts is None:
        return
    lead, data, reduce = parts
    axes = [*data, *reduce]
    first = g.rng.choice(("float32", "int32", "float64", "int8"))
    second = g.rng.choice(("float32", "int32"))
    a, exact_a = _operand(g, axes, first, lead)
    b, exact_b = _operand(g, axes, second)
    lowest = "float('-inf')" if second == "float32" else "-2**31"
    g.terms = max(g.terms, int(np.prod([max(r.size, 1) for r in reduce])) * 2)
    name = g.name("red")
    g.lines.append(f"{name} = sl.comm_reducer(lambda x, y: (x[0] + y[0], sl.max(x[1], y[1])), "
                   f'lambda t, u: (sl.const(0, t), sl.const({lowest}, u)), name="{name}")')  # fmt: skip
    where = f", where={_condition(g, axes)}" if g.chance(0.2) else ""
    body = f"{name}(({a}, {b}), axis=[{', '.join(r.name for r in reduce)}]{where})"
    whole = [exact_a and first[0] == "i", exact_b and second[0] == "i"]
    _several(g, data, body, [first, second], whole)


def _scan(g: Graph) -> None:
    """A recurrence, with one or two states and now and then a step in between."""
    rng = g.rng
    steps, width = rng.choice((2, 3, 5, 7)), rng.choice((1, 3, 4, 7))
    dtype = rng.choice(("float32", "int32", "int8"))
    x = _placeholder(g, 2, dtype, [(str(steps), steps), (str(width), width)])
    rows = 2 if steps > 2 and g.chance(0.3) else 1
    count = rng.choice((1, 1, 2))
    states, inits, updates = [], [], []
    for _ in range(count):
        state = g.name("S")
        g.lines.append(f'{state} = sl.placeholder(({steps}, {width}), "{dtype}", name="{state}")')
        init = g.name("I")
        g.lines.append(f'{init} = sl.compute(({rows}, {width}), lambda t, i: {x.name}[t, i], name="{init}")')
        states.append(state)
        inits.append(init)
    for k in range(count):
        before = f"{states[k]}[t - 1, i]"
        if count > 1:
            before = f"({before} + {states[1 - k]}[t - 1, {width - 1} - i])"
        if rows == 2 and g.chance(0.5):
            before = f"({before} + {states[k]}[t - 2, i])"
        if g.chance(0.4):
            mid = g.name("D")
            g.lines.append(f'{mid} = sl.compute(({steps}, {width}), lambda t, i: {before} + {x.name}[t, i], name="{mid}")')
            reads = f"{mid}[t, i]" if g.chance(0.5) else f"{mid}[t, {width - 1} - i] + {mid}[t, i]"
        else:
            reads = before
        if dtype == "float32":
            reads = f"({reads}) * 0.5"
        update = g.name("U")
        g.lines.append(f'{update} = sl.compute(({steps}, {width}), lambda t, i: {reads} + {x.name}[t, i], name="{update}")')
        updates.append(update)
    name = g.name("N")
    exact = dtype != "float32"
    made = [name] if count == 1 else [f"{name}_v{k}" for k in range(count)]
    join = [f"[{', '.join(v)}]" if count > 1 else v[0] for v in (inits, updates, states)]
    g.lines.append(f'{", ".join(made)} = sl.scan({", ".join(join)}, inputs=[{x.name}], name="{name}")')
    for n in made:
        g.tensors.append(Made(n, (str(steps), str(width)), (steps, width), dtype, exact))


def build(g: Graph) -> dict[str, Any]:
    """The names that the text of ``g`` binds."""
    space: dict[str, Any] = {"sl": sl, "np": np}
    exec(g.source, space)
    return space


def arrays(g: Graph, seed: int) -> dict[str, np.ndarray]:
    """Values for the inputs: small exact numbers, integers now and then near their limits."""
    rng = np.random.default_rng(seed)
    made = {}
    for t in g.inputs:
        if t.name in g.ranges:
            values = rng.integers(*g.ranges[t.name], size=t.size)
        elif t.dtype == "bool":
            values = rng.integers(0, 2, size=t.size)
        elif t.dtype.startswith("float"):
            values = rng.integers(-8, 9, size=t.size) / 4
        elif t.dtype in ("int8", "uint8"):
            info = np.iinfo(t.dtype)
            values = rng.integers(info.min, info.max, size=t.size, endpoint=True)
        else:
            values = rng.integers(-9, 10, size=t.size)
        made[t.name] = np.asarray(values).astype(t.dtype)
    return made
