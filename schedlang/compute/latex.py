"""A computation as LaTeX, for ``C.latex()`` and for tensors in Jupyter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import operations
from schedlang.compute.joint import alone, shown_outputs
from schedlang.compute.latex_text import (
    DOTS,
    Names,
    Written,
    expression,
    first_and_last,
    in_brackets,
    join,
    range_text,
)
from schedlang.compute.ragged import without_ranges
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.markup.bundle import mime_bundle
from schedlang.markup.fragment import fragment
from schedlang.markup.text import escape

# longer LaTeX is hard to read, so Jupyter shows plain text
MOST_LINES, MOST_LETTERS = 40, 8000
_FOLDED = {"sum": r"\sum", "prod": r"\prod"}
_NAMED = {"min": r"\min", "max": r"\max", "argmin": r"\arg\min", "argmax": r"\arg\max"}


def latex(tensor: Tensor, ranges: bool = False) -> str:
    r"""Return the computation behind ``tensor`` as LaTeX for math mode.

    One stage gives one equation; several give an ``aligned`` environment, producers first. Sums
    have limits, and choices are ``cases``. Operands keep the order of the program text. Conversions
    that keep every value are left out. With ``ranges``, each equation gives the ranges of its axes.
    Inputs are not listed; for an input itself, its shape is returned. Different tensors or axes of
    one name get different symbols. Jupyter shows plain text for a computation of more than 40
    stages, or one that is too long. ``sympy.sympify`` converts a single expression.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((8, 2), name="B")
    >>> k = sl.reduce_axis(8, name="k")
    >>> C = sl.compute((4, 2), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> print(C.latex())
    C_{i,j} = \sum_{k=0}^{7} A_{i,k} B_{k,j}
    >>> import sympy
    >>> v = sl.var("v", dtype="float32")
    >>> print(sympy.diff(sl.exp(v) * v, v))
    v*exp(v) + exp(v)
    """
    lines = _lines(tensor, ranges)
    if len(lines) == 1:
        return " ".join(lines[0])
    body = " \\\\\n".join(f"{left} &{right}" for left, right in lines)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"


def repr_latex(tensor: Tensor) -> str | None:
    """Return LaTeX for Jupyter; ``None`` asks for plain text if the LaTeX is too long to read."""
    ops = operations([tensor])
    if sum(not isinstance(op, PlaceholderOp) for op in ops) > MOST_LINES:
        return None
    text = latex(tensor)
    if len(text) > MOST_LETTERS or DOTS in text:
        return None
    return f"$\\displaystyle {text}$"


def _lines(tensor: Tensor, ranges: bool) -> list[tuple[str, str]]:
    """Return the left side of each equation, and its right side with the sign before it."""
    ops = operations([tensor])
    names = _tensor_names(ops, tensor)
    if isinstance(tensor.op, PlaceholderOp):
        extents = r" \times ".join(expression(e, Names(names)) for e in tensor.shape)
        power = f"^{{{extents}}}" if tensor.shape else ""
        return [(names[tensor], rf"\in \mathrm{{{tensor.dtype}}}{power}")]
    lines = []
    for op in ops:
        if isinstance(op, PlaceholderOp):
            continue
        left, right, local = _equation(op, names)
        if ranges and op.axis:
            runs = r",\; ".join(range_text(a, local) for a in op.axis)
            right = rf"{right} \qquad {runs}"
        lines.append((left, f"= {right}"))
    return lines


def _tensor_names(ops: Sequence[Operation], tensor: Tensor) -> dict[Tensor, str]:
    """Return a unique name for each tensor; the states of a scan have the names of its outputs."""
    used: set[str] = set()
    names: dict[Tensor, str] = {}
    outputs = [t for op in ops if not isinstance(op, PlaceholderOp) for t in op.outputs]
    inputs = [t for op in ops for t in op.input_tensors]
    for each in dict.fromkeys((tensor, *outputs, *inputs)):
        name, count = each.name, 0
        while name in used:
            count += 1
            name = f"{each.name}_{count}"
        used.add(name)
        names[each] = Names.spelled(name, subscripts=False)
    for op in ops:
        if isinstance(op, ScanOp):
            names.update(zip(op.state, (names[t] for t in op.outputs)))
    return names


def _equation(
    op: ComputeOp | ScanOp | ExternOp, names: Mapping[Tensor, str]
) -> tuple[str, str, Names]:
    if isinstance(op, ScanOp):
        return _scan(op, names)
    if isinstance(op, ExternOp):
        given = ", ".join(names[t] for t in op.inputs)
        called = Names.spelled(op.function.name, subscripts=False)
        return join([names[t] for t in op.outputs]), f"{called}({given})", Names(names)
    local = Names(names, (*op.axis, *op.reduce_axis))
    outputs = shown_outputs(op)
    left = join([_element(names[t], op.axis, local) for t in outputs])
    if op.reducer is None:
        values = [expression(v, local) for v in op.body]
        return left, join(values[: len(outputs)] if len(values) > 1 else values), local
    return left, _reduction(op, local, len(outputs)), local


def _element(name: str, axes: Sequence[Axis], names: Names) -> str:
    return f"{name}_{{{','.join(names.leaf(a) for a in axes)}}}" if axes else name


def _reduction(op: ComputeOp, names: Names, outputs: int) -> str:
    if op.combiner.parts:
        return join([_reduction(alone(op, p), names, p.visible) for p in op.combiner.parts])
    kind = op.combiner.name
    runs = [range_text(a, names) for a in op.reduce_axis]
    # the updates of an element are those whose index is its own
    meets = [
        f"{expression(index, names)} = {names.leaf(axis)}"
        for axis, index in zip(op.axis, op.destination or op.axis)
        if index is not axis
    ]
    runs += meets
    where = without_ranges(op.where, len(op.limits))
    if where is not None:
        runs.append(expression(where, names))
    below = r",\; ".join(runs)
    start = [] if op.init is None else [expression(v, names) for v in op.init]
    if kind in _FOLDED and len(op.body) == 1:
        sign = _FOLDED[kind]
        if where is None and not meets:
            signs = " ".join(_limits(sign, a, names) for a in op.reduce_axis)
        else:
            signs = f"{sign}_{{{below}}}"
        factor = expression(op.body[0], names, Written.PRODUCT)
        folded = f"{signs} {factor}"
        if not start or op.init is None or _neutral(op.init[0], kind):
            return folded
        first = expression(op.init[0], names, Written.SUM if kind == "sum" else Written.PRODUCT)
        return f"{first} + {folded}" if kind == "sum" else rf"{first} \cdot {folded}"
    if kind in ("argmin", "argmax") and len(op.body) == 2 and outputs == 1:
        return f"{_NAMED[kind]}_{{{below}}} {expression(op.body[1], names, Written.PRODUCT)}"
    values = [expression(v, names) for v in op.body]
    spelled = _NAMED.get(kind) or rf"\operatorname{{{Names.plain(kind)}}}"
    if len(values) == 1 and kind in _NAMED:
        value = expression(op.body[0], names, Written.PRODUCT)
        folded = f"{spelled}_{{{below}}} {value}"
    else:
        folded = f"{spelled}_{{{below}}} {in_brackets(', '.join(values))}"
    if not start:
        return folded
    first = join(start)
    return f"{spelled.split('_')[0]} {in_brackets(f'{first}, {folded}')}"


def _neutral(start: Expr, kind: str) -> bool:
    return isinstance(start, Const) and start.value == (0 if kind == "sum" else 1)


def _limits(sign: str, axis: Axis, names: Names) -> str:
    start, last = first_and_last(axis)
    low = expression(start, names)
    return f"{sign}_{{{names.leaf(axis)}={low}}}^{{{expression(last, names)}}}"


def _scan(op: ScanOp, names: Mapping[Tensor, str]) -> tuple[str, str, Names]:
    axes = op.update[0].op.axis
    local = Names(names, axes)
    rows = expression(op.init[0].shape[0], local)
    left = join([_element(names[t], axes, local) for t in op.outputs])
    early = join([_element(names[t], axes, local) for t in op.init])
    later = join([_element(names[t], axes, local) for t in op.update])
    time = local.leaf(axes[0])
    cases = rf"{early} & \text{{if }} {time} < {rows} \\ {later} & \text{{otherwise}}"
    return left, rf"\begin{{cases}} {cases} \end{{cases}}", local


def repr_html(tensor: Tensor) -> str:
    """Return a tensor as HTML: its name, dtype and shape, and its computation as mathematics."""
    head = fragment(f'<div class="head">{escape(repr(tensor))}</div>')
    return head + escape(repr_latex(tensor) or "")


def repr_mimebundle(tensor: Tensor, include: Any = None, exclude: Any = None) -> dict[str, str]:
    """Return a tensor as HTML and as text."""
    return mime_bundle(repr_html(tensor), repr(tensor))


_METHODS = {
    "latex": latex,
    "_repr_latex_": repr_latex,
    "_repr_html_": repr_html,
    "_repr_mimebundle_": repr_mimebundle,
}
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)

__all__ = ["latex", "repr_html", "repr_latex"]
