"""The binary operators of the language: a row says what each one is."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.expr.special_values import power

ARITHMETIC, BITS, COMPARISON = "arithmetic", "bits", "comparison"


@dataclass(frozen=True)
class Operator:
    """A binary operator.

    Python's method is ``__<method>__``. NumPy's function is ``ufunc``, after which stages are
    named, or one of ``others``; ``logical`` is the one that takes operands as truth values. The
    operator binds as ``binds`` in Python, and as ``in_c`` in C.

    Kernels call the intrinsic ``called`` where numba's operator differs from NumPy's, and
    ``wrapping`` for int64, of which numba assumes that it does not overflow.

    ``latex`` is the sign in LaTeX, and ``logic`` that between bools. A comparison holds where its
    ``negated`` one does not, and where its ``mirrored`` one holds for exchanged operands.
    """

    symbol: str
    method: str
    ufunc: str
    kind: str
    binds: int
    in_c: int = 0
    others: tuple[str, ...] = ()
    logical: str = ""
    called: str = ""
    wrapping: str = ""
    latex: str = ""
    logic: str = ""
    negated: str = ""
    mirrored: str = ""

    @property
    def of_python(self) -> Callable[[Any, Any], Any]:
        """The operator as a function."""
        named = f"{self.method}_" if self.method in ("and", "or") else self.method
        return getattr(operator, named)

    @property
    def of_numpy(self) -> Callable[[Any, Any], Any]:
        """The value of the operator on NumPy values."""
        return power if self.symbol == "**" else getattr(np, self.ufunc)


_ROWS = (
    Operator("+", "add", "add", ARITHMETIC, 8, 9, wrapping="add"),
    Operator("-", "sub", "subtract", ARITHMETIC, 8, 9, wrapping="subtract"),
    Operator("*", "mul", "multiply", ARITHMETIC, 9, 10, wrapping="multiply"),
    Operator("/", "truediv", "divide", ARITHMETIC, 9, 10, others=("true_divide",)),
    Operator("//", "floordiv", "floor_divide", ARITHMETIC, 9, called="floordiv"),
    Operator("%", "mod", "remainder", ARITHMETIC, 9, others=("mod",), called="mod"),
    Operator("**", "pow", "power", ARITHMETIC, 11, called="power"),
    Operator(
        "&", "and", "bitwise_and", BITS, 6, 5, logical="logical_and",
        latex=r"\;\mathrm{and}\;", logic=r"\wedge",
    ),
    Operator(
        "|", "or", "bitwise_or", BITS, 4, 3, logical="logical_or", latex=r"\;\mathrm{or}\;",
        logic=r"\vee",
    ),
    Operator(
        "^", "xor", "bitwise_xor", BITS, 5, 4, logical="logical_xor", latex=r"\oplus",
        logic=r"\oplus",
    ),
    Operator("<<", "lshift", "left_shift", BITS, 7, called="left_shift", latex=r"\ll"),
    Operator(">>", "rshift", "right_shift", BITS, 7, called="right_shift", latex=r"\gg"),
    Operator("<", "lt", "less", COMPARISON, 3, 7, latex="<", negated=">=", mirrored=">"),
    Operator("<=", "le", "less_equal", COMPARISON, 3, 7, latex=r"\leq", negated=">", mirrored=">="),
    Operator(">", "gt", "greater", COMPARISON, 3, 7, latex=">", negated="<=", mirrored="<"),
    Operator(
        ">=", "ge", "greater_equal", COMPARISON, 3, 7, latex=r"\geq", negated="<", mirrored="<=",
    ),
    Operator("==", "eq", "equal", COMPARISON, 3, 6, latex="=", negated="!=", mirrored="=="),
    Operator("!=", "ne", "not_equal", COMPARISON, 3, 6, latex=r"\neq", negated="==", mirrored="!="),
)  # fmt: skip
OPERATORS = {row.symbol: row for row in _ROWS}
COMPARISONS = tuple(row.symbol for row in _ROWS if row.kind == COMPARISON)
