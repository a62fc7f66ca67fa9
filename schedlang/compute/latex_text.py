"""Expressions as LaTeX, with operands in the order of the program text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Union

from schedlang.compute.read import Read
from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.expr.functions import FUNCTIONS, OPERAND
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary, Var
from schedlang.expr.operators import BITS, COMPARISON, OPERATORS
from schedlang.expr.printer import complex_number
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.language.construct import binary

GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split()
)
# a longer part is replaced by dots, since a shared part is written at each of its uses
LONGEST = 4000
DOTS = r"\cdots"


class Written(IntEnum):
    """The precedence of a text, which gets parentheses where its place requires a higher one."""

    CHOICE = 0
    LOGIC = 1
    COMPARED = 2
    REMAINDER = 3
    SUM = 4
    PRODUCT = 5
    SIGNED = 6
    ATOM = 7


Piece = tuple[str, Written]


class Names:
    """The names of tensors and of a stage's axes, where equal names of axes get primes."""

    def __init__(self, tensors: Mapping[Tensor, str], axes: Sequence[Axis] = ()) -> None:
        self.tensors = tensors
        self.axes: dict[Axis, str] = {}
        for axis in axes:
            name = self.spelled(axis.name)
            while name in self.axes.values():
                name += "'"
            self.axes[axis] = name

    def leaf(self, node: Axis | Var) -> str:
        """Return the name of an axis or a size."""
        own = self.axes.get(node) if isinstance(node, Axis) else None
        return own or self.spelled(node.name)

    @staticmethod
    def plain(name: str) -> str:
        return name.replace("_", r"\_")

    @classmethod
    def spelled(cls, name: str, subscripts: bool = True) -> str:
        r"""Return ``name`` as LaTeX: a letter, a Greek letter, a numbered letter or upright text.

        >>> Names.spelled("A"), Names.spelled("alpha"), Names.spelled("row_max")
        ('A', '\\alpha', '\\mathrm{row\\_max}')
        >>> Names.spelled("i0"), Names.spelled("W1", subscripts=False)
        ('i_{0}', '\\mathrm{W1}')
        """
        if len(name) == 1:
            return name
        if name in GREEK:
            return f"\\{name}"
        numbered = re.fullmatch(r"([A-Za-z])(\d+)", name)
        if numbered and subscripts:
            return f"{numbered[1]}_{{{numbered[2]}}}"
        return rf"\mathrm{{{cls.plain(name)}}}"


def in_brackets(text: str) -> str:
    return rf"\left({text}\right)"


def join(parts: Sequence[str]) -> str:
    """Return a single part unchanged, and several as a tuple in parentheses."""
    return parts[0] if len(parts) == 1 else in_brackets(", ".join(parts))


def range_text(axis: Axis, names: Names) -> str:
    r"""Return the range of ``axis``, such as ``0 \leq k < n``."""
    end: Union[Expr, int, Lin] = to_lin(axis.lo) + to_lin(axis.extent)
    start, end = (axis.lo, end) if axis.bounds is None else axis.bounds
    return rf"{expression(start, names)} \leq {names.leaf(axis)} < {expression(end, names)}"


def first_and_last(axis: Axis) -> tuple[Union[Expr, int], Union[Expr, Lin]]:
    """Return the first and the last value of ``axis``."""
    if axis.bounds is None:
        return axis.lo, to_lin(axis.lo) + to_lin(axis.extent) - 1
    start, end = axis.bounds
    if not isinstance(end, Expr) or end.weak:
        return start, to_lin(end) - 1
    return start, binary("-", end, 1)


def expression(value: Union[Expr, int, Lin], names: Names, least: Written = Written.CHOICE) -> str:
    """Return ``value`` as LaTeX, in parentheses if its precedence is below ``least``."""
    if isinstance(value, Lin):
        value = to_expr(value)
    if isinstance(value, int):
        return str(value)
    pieces: dict[int, Piece] = {}
    for node in postorder([value]):
        text, level = _piece(node, pieces, names)
        if len(text) > LONGEST and node is not value:
            text, level = DOTS, Written.ATOM
        pieces[id(node)] = text, level
    return _parenthesized(pieces[id(value)], least)


def _parenthesized(piece: Piece, least: Written) -> str:
    return piece[0] if piece[1] >= least else in_brackets(piece[0])


def _piece(node: Expr, done: Mapping[int, Piece], names: Names) -> Piece:
    parts = [done[id(child)] for child in node.children]
    if isinstance(node, (Axis, Var)):
        return names.leaf(node), Written.ATOM
    if isinstance(node, Const):
        return _number(node)
    if isinstance(node, Read):
        name = names.tensors.get(node.tensor) or names.spelled(node.tensor.name, subscripts=False)
        indices = ",".join(text for text, _ in parts)
        return (f"{name}_{{{indices}}}" if parts else name), Written.ATOM
    if isinstance(node, Cast):
        if _is_exact(node):
            return parts[0]
        return rf"\operatorname{{{node.dtype}}}{in_brackets(parts[0][0])}", Written.ATOM
    if isinstance(node, Unary):
        if node.op == "-":
            return f"-{_parenthesized(parts[0], Written.PRODUCT)}", Written.SUM
        sign = r"\neg" if node.dtype == "bool" else r"\sim"
        return f"{sign} {_parenthesized(parts[0], Written.ATOM)}", Written.SIGNED
    if isinstance(node, Binary):
        return _binary(node, parts[0], parts[1])
    if isinstance(node, Call):
        return _call(node, parts)
    assert isinstance(node, Select)
    return _choice(node, done), Written.CHOICE


def _number(node: Const) -> Piece:
    value = node.value
    if isinstance(value, bool) or node.dtype == "bool":
        return (r"\mathrm{true}" if value else r"\mathrm{false}"), Written.ATOM
    if isinstance(value, float):
        if value != value:
            return r"\mathrm{NaN}", Written.ATOM
        if value in (float("inf"), float("-inf")):
            return (r"\infty", Written.ATOM) if value > 0 else (r"-\infty", Written.SUM)
        text = repr(int(value)) if value.is_integer() and abs(value) < 1e6 else repr(value)
    elif isinstance(value, complex):
        return complex_number(value), Written.SIGNED
    else:
        text = repr(int(value))
    digits, _, power = text.partition("e")
    if power:
        return rf"{digits} \cdot 10^{{{int(power)}}}", Written.PRODUCT
    return text, Written.SUM if text.startswith("-") else Written.ATOM


def _is_exact(node: Cast) -> bool:
    """Return whether a conversion keeps every value, or makes an index."""
    if node.a.weak or node.dtype == "int64":
        return dtypes.kind(node.a.dtype) in "iub" or node.a.weak
    return dtypes.can_cast(node.a.dtype, node.dtype, "safe")


def _binary(node: Binary, a: Piece, b: Piece) -> Piece:
    row = OPERATORS[node.op]
    if row.kind == COMPARISON:
        sides = [_parenthesized(p, Written.REMAINDER) for p in (a, b)]
        return f"{sides[0]} {row.latex} {sides[1]}", Written.COMPARED
    if row.kind == BITS:
        sign = row.logic if node.dtype == "bool" else row.latex
        least = Written.COMPARED if node.dtype == "bool" else Written.ATOM
        same = isinstance(node.a, Binary) and node.a.op == node.op and a[1] is Written.LOGIC
        left = a[0] if same else _parenthesized(a, least)
        return f"{left} {sign} {_parenthesized(b, least)}", Written.LOGIC
    if node.op == "+":
        return f"{_parenthesized(a, Written.SUM)} + {_after(b, Written.SUM)}", Written.SUM
    if node.op == "-":
        return f"{_parenthesized(a, Written.SUM)} - {_after(b, Written.PRODUCT)}", Written.SUM
    if node.op == "*":
        left, right = _parenthesized(a, Written.PRODUCT), _parenthesized(b, Written.SIGNED)
        # a factor that starts with a digit or a fraction needs a sign before it
        dot = r" \cdot " if right[0].isdigit() or right.startswith(r"\frac") else " "
        return f"{left}{dot}{right}", Written.PRODUCT
    if node.op == "/":
        return rf"\frac{{{a[0]}}}{{{b[0]}}}", Written.SIGNED
    if node.op == "//":
        return rf"\left\lfloor \frac{{{a[0]}}}{{{b[0]}}} \right\rfloor", Written.ATOM
    if node.op == "%":
        sides = [_parenthesized(p, Written.SIGNED) for p in (a, b)]
        return r" \;\mathrm{mod}\; ".join(sides), Written.REMAINDER
    base = _parenthesized(a, Written.ATOM)
    # a base that is a power or a fraction needs parentheses
    simple = isinstance(node.a, (Read, Axis, Var, Const)) and a[1] is Written.ATOM
    return f"{base if simple else in_brackets(a[0])}^{{{b[0]}}}", Written.SIGNED


def _after(piece: Piece, least: Written) -> str:
    """Return the operand after a sign, in parentheses if it starts with a sign itself."""
    return in_brackets(piece[0]) if piece[0].startswith("-") else _parenthesized(piece, least)


def _call(node: Call, parts: Sequence[Piece]) -> Piece:
    row = FUNCTIONS[node.fn]
    if OPERAND in row.latex:
        return row.latex.replace(OPERAND, parts[0][0]), Written[row.latex_level]
    plain = node.fn.replace("_", r"\_")
    spelled = row.latex or rf"\operatorname{{{plain}}}"
    return f"{spelled}{in_brackets(', '.join(text for text, _ in parts))}", Written.ATOM


def _choice(node: Select, done: Mapping[int, Piece]) -> str:
    """Return a chain of choices as a ``cases`` environment."""
    rows = []
    current: Expr = node
    while isinstance(current, Select):
        value, cond = done[id(current.a)][0], done[id(current.cond)][0]
        rows.append(rf"{value} & \text{{if }} {cond}")
        current = current.b
    rows.append(rf"{done[id(current)][0]} & \text{{otherwise}}")
    listed = r" \\ ".join(rows)
    return rf"\begin{{cases}} {listed} \end{{cases}}"
