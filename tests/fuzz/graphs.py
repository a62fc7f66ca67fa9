"""Random computations, written as the Python that makes them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

import schedlang as sl
from tests.fuzz.externs import random_extern
from tests.fuzz.ragged import ragged_range
from tests.fuzz.scans import random_scan
from tests.fuzz.scatters import random_scatter
from tests.fuzz.values import (
    COMPLEX,
    HAS_BFLOAT,
    INTEGERS,
    MOST_POINTS,
    MOST_SIZE,
    SMALL,
    Ax,
    Graph,
    Made,
    combine,
    condition_of,
    extent_of,
    lead_of,
    need,
    operand,
    placeholder,
    rounds,
    value_of,
)

# sums of bfloat16 are too coarse to be compared, and so is what is chosen by them
_COARSE = {"sum", "prod", "custom", "argmax", "argmin", "pair reducer", "reductions together",
           "scan", "scan of two states"}  # fmt: skip
# the share of reduction axes that are ragged, where they can be
RAGGED = 0.22


def random_graph(
    rng: Random, symbolic: float = 0.18, complexes: float = 0.0, externs: float = 0.0,
    scans: float = 0.0,
) -> Graph:  # fmt: skip
    """Return a computation of one to six stages; a share ``symbolic`` has symbolic sizes.

    A share ``complexes`` has complex numbers. A share ``externs`` of the stages are functions, and
    a share ``scans`` of the others are scans, besides those that are drawn in any case.
    """
    # drawn from the seed without a draw, so that cases of other dtypes stay as they are
    odd_seed = rng.getstate()[1][1] % 2
    complex_seed = rng.getstate()[1][2] / 2**32
    g = Graph(rng)
    _mode(g, symbolic)
    if complex_seed < complexes:
        g.special, g.dtypes = "", COMPLEX
    placeholder(g, rng.choice((1, 2, 2, 2, 3)), rng.choice(g.dtypes))
    count = rng.choice((1, 2, 2, 3, 3, 4, 5, 6))
    while sum(not t.inner for t in g.tensors) - len(g.inputs) < count:
        if externs and g.chance(externs):
            random_extern(g)
            continue
        if scans and g.chance(scans):
            random_scan(g, rows_first=True)
            continue
        kind = rng.random()
        if kind < 0.38:
            _pointwise(g)
        elif kind < 0.54:
            _stencil(g)
        elif kind < 0.82:
            _reduction(g)
        elif kind < 0.88:
            _tuple(g)
        elif kind < 0.9:
            _padded(g)
        elif kind < 0.92 and g.sizes:
            _strided(g)
        elif kind < 0.92:
            _continued(g)
        elif kind < 0.96:
            _pair_reduction(g)
        elif kind < 0.98:
            random_scan(g)
        else:
            random_scatter(g)
    if odd_seed and not g.kinds & _COARSE and HAS_BFLOAT:
        _use_bfloat(g)
    made = [t for t in g.tensors if t not in g.inputs and not t.inner]
    g.outputs = [made[-1].name]
    for t in made[:-1]:
        if g.chance(0.12):
            g.outputs.append(t.name)
    return g


def _use_bfloat(g: Graph) -> None:
    """Put bfloat16 in place of float16."""
    g.lines = [line.replace('"float16"', '"bfloat16"') for line in g.lines]
    for tensors in (g.tensors, g.inputs):
        tensors[:] = [
            replace(t, dtype="bfloat16") if t.dtype == "float16" else t for t in tensors
        ]


def _mode(g: Graph, symbolic: float) -> None:
    """Draw the symbolic sizes, the dtypes and the special values of the computation."""
    rng = g.rng
    if g.chance(symbolic):
        for name in ("n", "m")[: rng.choice((1, 1, 2))]:
            g.sizes[name] = rng.choice((0, 1, 1, 2, 3, 5, 7, 8, 12, 13))
            g.least[name] = 0
            g.lines.append(f'{name} = sl.var("{name}")')
    if g.chance(0.1):
        g.scalars.append("alpha")
        g.lines.append('alpha = sl.var("alpha", dtype="float32")')
    if g.chance(0.06):
        g.extents = SMALL
    if g.chance(0.15):
        g.special = rng.choice(("NaN and infinities", "integer limits"))
        if g.special == "integer limits":
            # as floats they would overflow, and results would depend on the order of sums
            g.dtypes = INTEGERS


def _axes_for(g: Graph, lead: Made) -> list[Ax]:
    """Return axes for a new tensor: those of ``lead``, some shorter, moved, dropped or added."""
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
        text, size = extent_of(g)
        axes.insert(rng.randrange(len(axes) + 1), Ax("l", text, size))
    while np.prod([a.size for a in axes] or [1]) > MOST_POINTS:
        axes.pop()
    return axes


def _dtype(g: Graph, lead: Made) -> str:
    return lead.dtype if g.chance(0.8) else g.rng.choice(g.dtypes)


def _emit(g: Graph, letter: str, axes: list[Ax], body: str, dtype: str, exact: bool) -> Made:
    name = g.name(letter)
    shape, names = "".join(a.text + ", " for a in axes), ", ".join(a.name for a in axes)
    g.lines.append(f'{name} = sl.compute(({shape}), lambda {names}: {body}, name="{name}")')
    made = Made(name, tuple(a.text for a in axes), tuple(a.size for a in axes), dtype, exact)
    g.tensors.append(made)
    return made


def _strided(g: Graph) -> None:
    """Combine every other element with its neighbour, along a dimension of symbolic size."""
    lead = lead_of(g)
    along = [k for k, text in enumerate(lead.shape) if not text.isdigit()]
    if not along:
        return
    k = g.rng.choice(along)
    text = f"(({lead.shape[k]})//2)"
    axes = [Ax(n, t, s) for n, t, s in zip("ijkl", lead.shape, lead.size)]
    axes[k] = Ax(axes[k].name, text, lead.size[k] // 2)
    places = [a.name for a in axes]
    taps = []
    for shift in (0, 1):
        places[k] = f"{axes[k].name}*2 + {shift}"
        taps.append(f"{lead.name}[{', '.join(places)}]")
    op = "|" if lead.dtype == "bool" else "+"
    _emit(g, "V", axes, f" {op} ".join(taps), lead.dtype, lead.exact)


def _pointwise(g: Graph) -> None:
    lead = lead_of(g)
    axes, dtype = _axes_for(g, lead), _dtype(g, lead)
    text, exact = value_of(g, axes, dtype, lead, g.rng.choice((1, 2, 2, 3, 3, 4)))
    _emit(g, "P", axes, text, dtype, exact)


def _stencil(g: Graph) -> None:
    """Combine several neighbours along one dimension, which sliding windows are for."""
    lead = lead_of(g)
    wide = [k for k, (t, s) in enumerate(zip(lead.shape, lead.size)) if t.isdigit() and s > 2]
    if not wide:
        return
    # mostly the outermost dimension: along inner ones windows hardly overlap
    along, taps = g.rng.choice(wide[:1] * 3 + wide), g.rng.choice((2, 3, 3, 4))
    if lead.size[along] <= taps:
        return
    axes = [Ax(n, t, s) for n, t, s in zip("ijkl", lead.shape, lead.size)]
    if lead in g.inputs and g.chance(0.7):
        # only a stage can slide, not an input
        text, exact = value_of(g, axes, lead.dtype, lead, 2)
        lead = _emit(g, "P", axes, text, lead.dtype, exact)
    size = lead.size[along] - taps + 1
    axes[along] = Ax("ijkl"[along], str(size), size)
    names = [a.name for a in axes]
    reads = [", ".join(n + (f" + {c}" if k == along and c else "") for k, n in enumerate(names))
             for c in range(taps)]  # fmt: skip
    text = f"{lead.name}[{reads[0]}]"
    for at in reads[1:]:
        text = combine(g, text, f"{lead.name}[{at}]", lead.dtype, axes)
    g.kinds.add("stencil")
    _emit(g, "T", axes, text, lead.dtype, lead.exact and not rounds(lead.dtype))


def _tuple(g: Graph) -> None:
    lead = lead_of(g)
    axes = _axes_for(g, lead)
    kinds = [_dtype(g, lead) for _ in range(g.rng.choice((2, 2, 3)))]
    parts = [value_of(g, axes, t, lead, 2) for t in kinds]
    g.kinds.add("tuple")
    _several(g, axes, f"({', '.join(p for p, _ in parts)})", kinds, [e for _, e in parts])


def _several(g: Graph, axes: list[Ax], body: str, kinds: list[str], exact: list[bool]) -> None:
    name = g.name("M")
    names = [f"{name}_v{k}" for k in range(len(kinds))]
    shape = "".join(a.text + ", " for a in axes)
    listed = ", ".join(a.name for a in axes)
    made = f'sl.compute(({shape}), lambda {listed}: {body}, name="{name}")'
    g.lines.append(f"{', '.join(names)} = {made}")
    for n, t, e in zip(names, kinds, exact):
        g.tensors.append(Made(n, tuple(a.text for a in axes), tuple(a.size for a in axes), t, e))


def _padded(g: Graph) -> None:
    """Read beyond the edges of a tensor under a condition, as padding does."""
    lead = lead_of(g)
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
    inside = f"{lead.name}[{', '.join(index)}]"
    body = f'sl.if_then_else({" & ".join(conds)}, {inside}, sl.const({zero}, "{lead.dtype}"))'
    g.kinds.add("padding by a condition")
    _emit(g, "Q", axes, body, lead.dtype, lead.exact and not rounds(lead.dtype))


def _continued(g: Graph) -> None:
    """Pad a tensor by ``sl.pad``."""
    rng = g.rng
    lead = lead_of(g)
    if not lead.shape or 0 in lead.size:
        return
    mode = rng.choice(("constant", "edge", "reflect", "wrap"))
    most = [2 if mode != "reflect" or not t.isdigit() else s - 1
            for t, s in zip(lead.shape, lead.size)]  # fmt: skip
    before, after = ([rng.randrange(min(m, 2) + 1) for m in most] for _ in range(2))
    for text, low, high in zip(lead.shape, before, after):
        if not text.isdigit() and mode != "constant" and low + high:
            # "edge" and "wrap" need an element, and "reflect" enough elements to mirror
            need(g, text, max(low, high) + 1 if mode == "reflect" else 1)
    parts = zip(lead.shape, lead.size, before, after)
    grown = [(str(n + b + a) if t.isdigit() else f"{t} + {b + a}" if b + a else t, n + b + a)
             for t, n, b, a in parts]  # fmt: skip
    if np.prod([n for _, n in grown]) > MOST_POINTS:
        return
    name = g.name("E")
    g.lines.append(f'{name} = sl.pad({lead.name}, {before}, {after}, "{mode}", name="{name}")')
    shape, size = tuple(t for t, _ in grown), tuple(n for _, n in grown)
    g.tensors.append(Made(name, shape, size, lead.dtype,
                          lead.exact and not rounds(lead.dtype)))  # fmt: skip
    g.kinds.add(f"pad {mode}")


def _reduced(g: Graph) -> tuple[Made, list[Ax], list[Ax], list[str]] | None:
    """Return a tensor, data axes and new reduction axes, or ``None`` if too large.

    The last part has the text that makes the ragged axes, for the function of an element.
    """
    lead = lead_of(g)
    data, reduce = [], []
    for letter, text, size in zip("ijkl", lead.shape, lead.size):
        if g.chance(0.45) and len(reduce) < 2:
            reduce.append((text, size))
        else:
            data.append(Ax(letter, text, size))
    if not reduce:
        reduce.append((str(w := g.rng.choice((2, 3, 5))), w))
    if len(data) < 2 and g.chance(0.3):
        text, size = extent_of(g)
        data.append(Ax("l", text, size))
    if g.chance(0.3) and data and data[0].text.isdigit() and data[0].size > 3:
        data[0] = Ax(data[0].name, str(data[0].size - 2), data[0].size - 2)
    axes: list[Ax] = []
    inside: list[str] = []
    for text, size in reduce:
        name = g.name("r")
        # drawn apart, so that the other computations of a seed stay as they are
        lot = Random(g.source)
        ends = ragged_range(g, lot, data, axes, text, size) if lot.random() < RAGGED else ""
        if ends:
            inside.append(f'{name} := sl.reduce_axis(({ends}), name="{name}")')
        elif text.isdigit() and size > 2 and g.chance(0.2):
            g.lines.append(f'{name} = sl.reduce_axis((1, {size}), name="{name}")')
        else:
            g.lines.append(f'{name} = sl.reduce_axis({text}, name="{name}")')
        axes.append(Ax(name, text, size))
    points = np.prod([a.size for a in (*data, *axes)])
    return None if points > 4 * MOST_POINTS else (lead, data, axes, inside)


def _with_axes(inside: list[str], body: str) -> str:
    """Return the element ``body`` after the statements that make its ragged axes."""
    return f"({', '.join(inside)}, {body})[-1]" if inside else body


def _terms(reduce: list[Ax]) -> int:
    """Return the largest number of terms that a reduction has at any sizes of a call."""
    return int(np.prod([max(r.size, 1 if r.text.isdigit() else MOST_SIZE) for r in reduce]))


def _reduction(g: Graph) -> None:
    parts = _reduced(g)
    if parts is None:
        return
    lead, data, reduce, inside = parts
    axes = [*data, *reduce]
    dtype = _dtype(g, lead)
    # with special values prefer max and min, which show where NaN and infinities are
    often = ("max", "min") if g.special else ("sum", "sum")
    kind = g.rng.choice((*often, *often, "max", "min", "prod", "argmax", "argmin", "custom"))
    if kind in ("sum", "prod", "custom") and dtype == "bool":
        kind = "max"
    if dtype.startswith("complex"):
        # they have no order and no reducers of the user's, and a product of many may overflow
        kind = "sum"
    terms = _terms(reduce)
    if kind == "prod" and (dtype == "float16" or (g.special and dtype[0] == "f" and terms > 30)):
        # it may overflow or underflow, and results would depend on the order of the factors
        kind = "sum"
    a, exact = operand(g, axes, dtype, lead)
    if g.chance(0.6):
        b, exact_too = operand(g, axes, dtype)
        product = dtype != "bool" and kind in ("sum", "custom") and g.chance(0.7)
        both = exact and exact_too
        a = f"{a} * {b}" if product else combine(g, a, b, dtype, axes, both)
        exact = exact and exact_too and not (g.special and dtype.startswith("float"))
    whole = exact and not rounds(dtype)
    if kind.startswith("arg"):
        if not exact or any(r.text == "0" for r in reduce):
            return
        body, dtype = f"sl.{kind}({a}, axis=[{', '.join(r.name for r in reduce)}])", "int64"
        g.kinds.add(kind)
        _emit(g, "G", data, _with_axes(inside, body), dtype, False)
        return
    if kind in ("max", "min") and any(r.text == "0" for r in reduce):
        return
    if kind == "prod" and dtype.startswith("float"):
        # keep products finite in any order: 0 times an overflow would be NaN
        a = f"sl.max(sl.min({a}, 4), -4)"
    if kind == "prod":
        g.terms *= 2
        g.denormals = g.denormals and not dtype.startswith("float")
    g.terms = max(g.terms, terms * 2)
    more = ""
    if g.chance(0.3):
        g.kinds.add("where=")
        more += f", where={condition_of(g, axes)}"
    if g.chance(0.2):
        g.kinds.add("init=")
        start = "True" if dtype == "bool" else g.rng.choice(("2", "3", "1"))
        if data and dtype not in ("bool", "int8", "uint8") and g.chance(0.3):
            start = f"{data[0].name} + 1"
        elif data and (kind != "prod" or not dtype.startswith("float")) and g.count % 2:
            start, exact_too = operand(g, data, dtype)
            whole, exact = whole and exact_too, exact and exact_too
            g.kinds.add("init= of a tensor")
        more += f", init={start}"
    if kind == "custom":
        g.lines.append(
            f"{kind}{g.count} = sl.comm_reducer(lambda x, y: x + y, lambda t: sl.const(0, t), "
            'name="add")'
        )
        call = f"{kind}{g.count}({a}"
    else:
        call = f"sl.{kind}({a}"
    body = f"{call}, axis=[{', '.join(r.name for r in reduce)}]{more})"
    g.kinds.add(kind)
    _emit(g, "R", data, _with_axes(inside, body), dtype, whole)


def _pair_reduction(g: Graph) -> None:
    """Reduce pairs by a custom reducer: a sum and a maximum, or te's argmax."""
    parts = _reduced(g)
    if parts is None:
        return
    lead, data, reduce, inside = parts
    axes = [*data, *reduce]
    allowed = set(g.dtypes)
    first = g.rng.choice([t for t in ("float32", "int32", "float64", "int8") if t in allowed])
    second = g.rng.choice([t for t in ("float32", "int32") if t in allowed])
    a, exact_a = operand(g, axes, first, lead)
    b, exact_b = operand(g, axes, second)
    lowest = "float('-inf')" if second == "float32" else "-2**31"
    g.terms = max(g.terms, _terms(reduce) * 2)
    name = g.name("red")
    g.lines.append(
        f"{name} = sl.comm_reducer(lambda x, y: (x[0] + y[0], sl.max(x[1], y[1])), "
        f'lambda t, u: (sl.const(0, t), sl.const({lowest}, u)), name="{name}")'
    )
    g.kinds.add("pair reducer")
    if second == "int32" and exact_b and g.count % 2:
        # te's argmax: the first of several equal values wins if the schedule keeps their order
        position = reduce[0].name
        for r in reduce[1:]:
            position = f"({position})*{r.text} + {r.name}"
        a, first, exact_a = f'sl.cast({position}, "int32")', "int32", False
        g.lines[-1] = (
            f"{name} = sl.comm_reducer(lambda x, y: tuple(sl.select(x[1] >= y[1], p, q) "
            f'for p, q in zip(x, y)), lambda t, u: (-1, {lowest}), name="{name}")'
        )
        g.kinds.add("ties")
    where = f", where={condition_of(g, axes)}" if g.chance(0.2) else ""
    over = f"axis=[{', '.join(r.name for r in reduce)}]{where}"
    body = f"{name}(({a}, {b}), {over})"
    if g.count % 3 == 0 and not any(r.text == "0" for r in reduce):
        # two reductions in one loop; only the second of argmin's outputs is hidden
        g.lines.pop()
        g.kinds = g.kinds - {"ties", "pair reducer"} | {"reductions together"}
        pair = f"sl.sum({a}, {over})", f"sl.max({b}, {over})"
        if exact_b and second == "int32" and g.count % 2:
            pair, first, second = (f"sl.argmin({b}, {over})", pair[1]), "int64", second
            exact_a = False
        body = f"({', '.join(pair)})"
    whole = [exact_a and first[0] == "i", exact_b and second[0] == "i"]
    _several(g, data, _with_axes(inside, body), [first, second], whole)


def build(g: Graph) -> dict[str, Any]:
    """Run the text of ``g`` and return the names that it binds."""
    space: dict[str, Any] = {"sl": sl, "np": np}
    exec(g.source, space)
    return space
