"""Expressions as text, with Python's operator precedences and the fewest parentheses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedlang.expr.nodes import (
    ArrayRead,
    Axis,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
    Var,
)
from schedlang.expr.operators import COMPARISONS, OPERATORS
from schedlang.expr.visit import postorder

PRECEDENCE = {symbol: row.binds for symbol, row in OPERATORS.items()}
# operators that are written in parentheses as their own left operand
_UNCHAINED = (*COMPARISONS, "**")
UNARY = 10
ATOM = 12
LOWEST = 0
LONGEST = 2000
# operations in each other that are printed without a walk over shared parts
SHALLOW = 4
_CONDITIONAL = 1


def paren(text_: str, precedence: int, least: int) -> str:
    return text_ if precedence >= least else f"({text_})"


def binary_text(
    op: str, left: tuple[str, int], right: tuple[str, int], tight: bool = False
) -> tuple[str, int]:
    """Return ``left op right`` and its precedence; each operand is a text and its precedence."""
    level = PRECEDENCE[op]
    same = level + 1 if op in _UNCHAINED else level
    a = paren(left[0], left[1], same)
    b = paren(right[0], right[1], level if op == "**" else level + 1)
    return (f"{a}{op}{b}" if tight else f"{a} {op} {b}"), level


def number(value: object) -> str:
    """Return a literal that Python reads as the same number."""
    if isinstance(value, float):
        if value != value:
            return "nan"
        if value in (float("inf"), float("-inf")):
            return "inf" if value > 0 else "-inf"
        short = repr(int(value)) if value.is_integer() and abs(value) < 1e6 else repr(value)
        return "-0.0" if value == 0 and str(value)[0] == "-" else short
    if isinstance(value, complex):
        return complex_number(value)
    return repr(value)


def complex_number(value: complex) -> str:
    """Return a complex literal, as ``1j`` or ``(1 + 2j)``."""
    im = number(abs(value.imag)) + "j"
    if value.real == 0:
        return f"-{im}" if value.imag < 0 else im
    return f"({number(value.real)} {'-' if value.imag < 0 else '+'} {im})"


def is_index(node: Expr) -> bool:
    return node.weak and node.dtype == "int64"


def shorten(node: Expr, printed: str) -> str | None:
    """Return ``(...)`` for a part that is too long to read, else ``None``.

    A shared part is printed at each of its uses, so the text could grow exponentially.
    """
    return "(...)" if len(printed) > LONGEST else None


def text(
    root: Expr,
    name: Callable[[Expr], str] | None = None,
    named: Callable[[Expr, str], str | None] = shorten,
) -> str:
    """Return ``root`` as one line.

    ``name`` prints axes and variables. ``named`` may replace the text of a part, such as by the
    name of a temporary.
    """
    printed: dict[int, tuple[str, int]] = {}
    if named is shorten:
        short = _shallow(root, name, SHALLOW)
        if short is not None and len(short[0]) <= LONGEST:
            return short[0]
    for node in postorder([root]):
        printed[id(node)] = _print(node, printed, name)
        if node is not root:
            other = named(node, printed[id(node)][0])
            if other is not None:
                printed[id(node)] = other, ATOM
    return printed[id(root)][0]


def _shallow(node: Expr, name: Callable[[Expr], str] | None, depth: int) -> tuple[str, int] | None:
    """Return the text of arithmetic that is nested at most ``depth`` deep; most indices are such.

    Return ``None`` for any other expression.
    """
    if isinstance(node, Binary):
        left = _shallow(node.a, name, depth - 1) if depth else None
        right = None if left is None else _shallow(node.b, name, depth - 1)
        return None if left is None or right is None else _binary(node, left, right)
    return _leaf(node, name)


def _leaf(node: Expr, name: Callable[[Expr], str] | None) -> tuple[str, int] | None:
    """Return the text of an axis, a variable or a constant."""
    if isinstance(node, (Axis, Var)):
        return (name(node) if name else node.name), ATOM
    if isinstance(node, Const):
        literal = number(node.value)
        return literal, UNARY if literal.startswith("-") else ATOM
    return None


def _binary(node: Binary, left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
    tight = node.op in ("*", "//", "%", "/", "**") and is_index(node)
    return binary_text(node.op, left, right, tight)


def index_text(indices: Sequence[Expr], done: dict[int, tuple[str, int]]) -> str:
    """Return indices as text, without their conversions to int64."""
    plain = [i.a if isinstance(i, Cast) and i.dtype == "int64" else i for i in indices]
    return ", ".join(done[id(i)][0] for i in plain) or "()"


def _print(
    node: Expr, done: dict[int, tuple[str, int]], name: Callable[[Expr], str] | None
) -> tuple[str, int]:
    if isinstance(node, Binary):
        return _binary(node, done[id(node.a)], done[id(node.b)])
    leaf = _leaf(node, name)
    if leaf is not None:
        return leaf
    if isinstance(node, Unary):
        inner, level = done[id(node.a)]
        return f"{node.op}{paren(inner, level, UNARY)}", UNARY
    if isinstance(node, Cast):
        if is_index(node.a) and node.dtype == "int64":
            return done[id(node.a)]
        return f"{node.dtype}({done[id(node.a)][0]})", ATOM
    if isinstance(node, Call):
        return f"{node.fn}({', '.join(done[id(a)][0] for a in node.args)})", ATOM
    if isinstance(node, Select):
        parts = [done[id(c)][0] for c in (node.cond, node.a, node.b)]
        if not node.lazy:
            return f"select({', '.join(parts)})", ATOM
        operands = [paren(*done[id(c)], 2) for c in (node.a, node.cond, node.b)]
        return f"{operands[0]} if {operands[1]} else {operands[2]}", _CONDITIONAL
    if isinstance(node, ArrayRead):
        return f"{node.source}[{index_text(node.indices, done)}]", ATOM
    raise TypeError(f"no text for {type(node).__name__}")
