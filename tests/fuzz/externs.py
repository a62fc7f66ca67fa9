"""Random functions of users: neighbours, sums and running sums, by numba, C, or NumPy.

A function is written twice. NumPy's form is the oracle, which computes a whole array. The other one
computes boxes in kernels: loops of numba or of C, or NumPy's form again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from schedlang.codegen.c_externs import C_TYPES
from tests.fuzz.values import MOST_POINTS, MOST_SIZE, Graph, Made, lead_of, placeholder, rounds

HOW = ("numba", "numba", "C", "C", "numpy")
WHOLE = 0.2
LETTERS = "yxzw"


@dataclass(frozen=True)
class Dim:
    """A dimension of the input: ``kind`` says what a function does along it.

    ``"same"`` keeps it, ``"near"`` combines ``taps`` neighbours, ``"sum"`` adds it up, ``"scan"``
    makes running sums. ``text`` and ``size`` are the extent of the output.
    """

    kind: str
    text: str
    size: int
    taps: int = 1


@dataclass(frozen=True)
class Function:
    """A function of an array ``a``, maybe of another ``b``, with one or two outputs.

    ``dims`` are those of ``a``, and ``order`` lists the dimensions of the outputs among them.
    """

    name: str
    dtype: str
    dims: tuple[Dim, ...]
    order: tuple[int, ...]
    has_b: bool
    count: int

    @property
    def arrays(self) -> list[str]:
        return ["a", *["b"] * self.has_b, *(f"out{k}" for k in range(self.count))]

    @property
    def scanned(self) -> int | None:
        """The dimension of the outputs with running sums."""
        return next((k for k, d in enumerate(self.order) if self.dims[d].kind == "scan"), None)

    @property
    def taps(self) -> list[tuple[int, ...]]:
        """The offsets of each element of ``a`` that is combined; every second one is subtracted."""
        return list(product(*(range(d.taps) for d in self.dims)))

    def sign(self, k: int) -> str:
        return "^" if self.dtype == "bool" else "+-"[k % 2]


def random_extern(g: Graph) -> None:
    """Add a stage that a function computes, for whole arrays or for boxes."""
    rng, lead = g.rng, lead_of(g)
    if lead.dtype not in C_TYPES or not lead.shape or np.prod(lead.size) > MOST_POINTS:
        return
    dims = tuple(_dim(g, text, size) for text, size in zip(lead.shape, lead.size))
    if sum(d.kind == "scan" for d in dims) > 1:
        dims = tuple(Dim("same", d.text, d.size) if d.kind == "scan" else d for d in dims)
    order = [k for k, d in enumerate(dims) if d.kind != "sum"]
    if g.chance(0.3):
        rng.shuffle(order)
    made = Function(
        g.name("F"), lead.dtype, dims, tuple(order), g.chance(0.3), rng.choice((1, 1, 1, 2))
    )
    shape = [(dims[k].text, dims[k].size) for k in order]
    inputs = [lead.name]
    if made.has_b:
        inputs.append(placeholder(g, 0, lead.dtype, shape).name)
    how = rng.choice(HOW)
    g.lines.append(numpy_text(made))
    g.lines.append({"numba": numba_text, "C": c_text, "numpy": alias_text}[how](made))
    extents = f"({''.join(f'{text}, ' for text, _ in shape)})"
    names = [made.name] if made.count == 1 else [f"{made.name}_v{k}" for k in range(made.count)]
    boxes = "" if g.chance(WHOLE) else boxes_text(made)
    g.lines.append(
        f"{', '.join(names)} = sl.extern({extents if made.count == 1 else [extents, extents]}, "
        f'[{", ".join(inputs)}], {made.name}_call, name="{made.name}"{boxes})'.replace("'", "")
    )
    terms = [MOST_SIZE if d.kind in ("sum", "scan") else d.taps for d in dims]
    g.terms = max(g.terms, 2 * int(np.prod(terms)))
    g.kinds |= {"extern", f"extern by {how}", *(f"extern: {d.kind}" for d in dims)}
    g.kinds |= {"extern of whole arrays"} if not boxes else set()
    exact = lead.exact and not rounds(lead.dtype)
    texts, sizes = tuple(t for t, _ in shape), tuple(s for _, s in shape)
    g.tensors += [Made(name, texts, sizes, lead.dtype, exact) for name in names]


def _dim(g: Graph, text: str, size: int) -> Dim:
    kind = g.rng.choice(("same", "same", "near", "near", "sum", "scan"))
    taps = g.rng.choice((2, 3))
    if kind == "near" and text.isdigit() and size >= taps:
        return Dim("near", str(size - taps + 1), size - taps + 1, taps)
    return Dim("same" if kind == "near" else kind, text, size)


def boxes_text(f: Function) -> str:
    """Return ``reads=``, and ``writes=`` if the function writes whole rows."""
    letters = LETTERS[: len(f.order)]
    asked = {d: letters[k] for k, d in enumerate(f.order)}
    places = []
    for k, dim in enumerate(f.dims):
        more = f" + {dim.taps - 1}" if dim.taps > 1 else ""
        letter = asked.get(k)
        whole = dim.kind in ("sum", "scan")
        places.append(":" if whole else f"{letter}.start : {letter}.stop{more}")
    read = f"np.s_[{', '.join(places)}]"
    written = ["slice(None)" if f.scanned == k else a for k, a in enumerate(letters)]
    both = "".join(f"{place}, " for place in written)
    if f.has_b:
        read = f"[{read}, ({both})]"
    given = ", ".join(letters)
    writes = f", writes=lambda {given}: ({both})" if f.scanned is not None else ""
    return f", reads=lambda {given}: {read}{writes}"


def numpy_text(f: Function) -> str:
    """Return the definition of NumPy's form."""
    lines = [f"def {f.name}_numpy({', '.join(f.arrays)}):"]
    ends = [f"a.shape[{k}] - {d.taps - 1}" for k, d in enumerate(f.dims)]
    parts = []
    for k, tap in enumerate(f.taps):
        cut = ", ".join(f"{t} : {end} + {t}" for t, end in zip(tap, ends))
        parts.append(f"{f.sign(k) if k else ''} a[{cut}]")
    lines.append(f"total = {' '.join(parts).strip()}")
    add = "np.logical_xor" if f.dtype == "bool" else "np.add"
    dtype = f.dtype if f.dtype != "bool" else "bool"
    for k in reversed(range(len(f.dims))):
        if f.dims[k].kind == "scan":
            lines.append(f'total = {add}.accumulate(total, axis={k}, dtype="{dtype}")')
    sums = tuple(k for k, d in enumerate(f.dims) if d.kind == "sum")
    for k in reversed(sums):
        lines.append(f'total = {add}.reduce(total, axis={k}, dtype="{dtype}")')
    left = [k for k in range(len(f.dims)) if k not in sums]
    if len(left) > 1:
        lines.append(f"total = total.transpose({tuple(left.index(k) for k in f.order)})")
    lines.append(f"out0[...] = total{' ^ b' * f.has_b if f.dtype == 'bool' else ' + b' * f.has_b}")
    if f.count > 1:
        lines.append(f"out1[...] = {'~out0' if f.dtype == 'bool' else 'out0 + out0'}")
    return "\n    ".join(lines)


def alias_text(f: Function) -> str:
    return f"{f.name}_call = {f.name}_numpy"


def _loops(f: Function) -> list[int]:
    """Return the dimensions of the outputs from outer to inner: a running sum is innermost."""
    return sorted(range(len(f.order)), key=lambda k: k == f.scanned)


def _terms(f: Function, element: Any) -> list[tuple[str, str]]:
    """Return the sign and the text of each element that is combined."""
    place = {d: f"i{k}" for k, d in enumerate(f.order)}
    terms = []
    for k, tap in enumerate(f.taps):
        index = [place.get(d, f"r{d}") + (f" + {t}" if t else "") for d, t in enumerate(tap)]
        terms.append((f.sign(k), element(index)))
    return terms


def numba_text(f: Function) -> str:
    """Return the definition of the form in loops, for numba."""
    lines = [
        "from numba import njit",
        f"@njit\ndef {f.name}_call({', '.join(f.arrays)}):",
        "    total = np.zeros(1, a.dtype)",
    ]
    at = ", ".join(f"i{k}" for k in range(len(f.order))) or "()"
    depth = 1
    for k in _loops(f):
        if k == f.scanned:
            lines.append(f"{'    ' * depth}total[0] = 0")
        lines.append(f"{'    ' * depth}for i{k} in range(out0.shape[{k}]):")
        depth += 1
    inside = "    " * depth
    if f.scanned is None:
        lines.append(f"{inside}total[0] = 0")
    for d, dim in enumerate(f.dims):
        if dim.kind == "sum":
            lines.append(f"{'    ' * depth}for r{d} in range(a.shape[{d}]):")
            depth += 1
    for sign, text in _terms(f, lambda index: f"a[{', '.join(index)}]"):
        lines.append(f"{'    ' * depth}total[0] {sign}= {text}")
    plus = "^" if f.dtype == "bool" else "+"
    lines.append(f"{inside}out0[{at}] = total[0]{f' {plus} b[{at}]' * f.has_b}")
    if f.count > 1:
        twice = f"not out0[{at}]" if f.dtype == "bool" else f"out0[{at}] + out0[{at}]"
        lines.append(f"{inside}out1[{at}] = {twice}")
    return "\n".join(lines)


def c_text(f: Function) -> str:
    """Return the text of the form in loops, for C."""
    kind = C_TYPES[f.dtype]
    outs = f.arrays[1 + f.has_b :]
    given = [f"const {kind} *{n}" for n in f.arrays[: 1 + f.has_b]] + [f"{kind} *{n}" for n in outs]
    ranks = [len(f.dims), *[len(f.order)] * (len(f.arrays) - 1)]
    first = dict(zip(f.arrays, np.cumsum([0, *(2 * r for r in ranks)]).tolist()))

    def element(array: str, index: Sequence[str]) -> str:
        steps = first[array] + len(index)
        at = " + ".join(f"({i}) * s[{steps + k}]" for k, i in enumerate(index))
        return f"{array}[{at or 0}]"

    def loop(depth: int, name: str, extent: int) -> str:
        return f"{'    ' * depth}for (int64_t {name} = 0; {name} < s[{extent}]; {name}++) {{"

    lines, depth = [f"    {kind} total = 0;"], 1
    for k in _loops(f):
        if k == f.scanned:
            lines.append(f"{'    ' * depth}total = 0;")
        lines.append(loop(depth, f"i{k}", first["out0"] + k))
        depth += 1
    around, inside = depth, "    " * depth
    if f.scanned is None:
        lines.append(f"{inside}total = 0;")
    for d, dim in enumerate(f.dims):
        if dim.kind == "sum":
            lines.append(loop(depth, f"r{d}", d))
            depth += 1
    for sign, text in _terms(f, lambda index: element("a", index)):
        lines.append(f"{'    ' * depth}total = ({kind})(total {sign} {text});")
    lines += [f"{'    ' * k}}}" for k in reversed(range(around, depth))]
    at = [f"i{k}" for k in range(len(f.order))]
    plus = "^" if f.dtype == "bool" else "+"
    more = f" {plus} {element('b', at)}" if f.has_b else ""
    lines.append(f"{inside}{element('out0', at)} = ({kind})(total{more});")
    if f.count > 1:
        first_out = element("out0", at)
        twice = f"!{first_out}" if f.dtype == "bool" else f"({kind})({first_out} + {first_out})"
        lines.append(f"{inside}{element('out1', at)} = {twice};")
    lines += [f"{'    ' * k}}}" for k in reversed(range(1, around))]
    body = "\n".join([f"int {f.name}({', '.join(given)}, const int64_t *s) {{", *lines])
    return f'{f.name}_call = """{body}\n    return 0;\n}}"""'


def by_numpy(g: Graph) -> Graph:
    """Return the same computation, whose functions are NumPy's."""
    return replace(g, lines=[line.replace("_call, name=", "_numpy, name=") for line in g.lines])


__all__ = ["by_numpy", "random_extern"]
