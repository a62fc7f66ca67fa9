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

    LLVM computes vectors by the rule ``llvm``: the dtypes, whether the result is a mask, and what
    writes the code. Kernels call the intrinsic ``called`` where numba's operator differs from
    NumPy's, and ``wrapping`` for int64, which numba assumes not to overflow.

    ``latex`` is the sign in LaTeX, and ``logic`` the sign between bools. A comparison holds where
    its ``negated`` one does not, and where its ``mirrored`` one holds for exchanged operands.

    A ``slow`` operator takes as many cycles as a division. On complex numbers it is ``on_parts``
    operations on their real and imaginary parts.
    """

    symbol: str
    method: str
    ufunc: str
    kind: str
    binds: int
    in_c: int = 0
    llvm: str = ""
    others: tuple[str, ...] = ()
    logical: str = ""
    called: str = ""
    wrapping: str = ""
    latex: str = ""
    logic: str = ""
    negated: str = ""
    mirrored: str = ""
    slow: bool = False
    on_parts: int = 2

    @property
    def named(self) -> str:
        """The name in Python's module ``operator``."""
        return f"{self.method}_" if self.method in ("and", "or") else self.method

    @property
    def of_python(self) -> Callable[[Any, Any], Any]:
        """The operator as a function."""
        return getattr(operator, self.named)

    @property
    def of_numpy(self) -> Callable[[Any, Any], Any]:
        """The value of the operator on NumPy values."""
        return power if self.symbol == "**" else getattr(np, self.ufunc)


def _comparison(
    symbol: str, method: str, ufunc: str, in_c: int, latex: str, negated: str, mirrored: str
) -> Operator:
    rule = f"is_any, True, comparing({symbol!r})"
    return Operator(
        symbol,
        method,
        ufunc,
        COMPARISON,
        3,
        in_c,
        rule,
        latex=latex,
        negated=negated,
        mirrored=mirrored,
    )


_ROWS = (
    Operator("+", "add", "add", ARITHMETIC, 8, 9, "is_number, False, emit_add", wrapping="add"),
    Operator(
        "-", "sub", "subtract", ARITHMETIC, 8, 9, "is_number, False, emit_sub",
        wrapping="subtract",
    ),
    Operator(
        "*", "mul", "multiply", ARITHMETIC, 9, 10, "is_number, False, emit_mul",
        wrapping="multiply", on_parts=6,
    ),
    Operator(
        "/", "truediv", "divide", ARITHMETIC, 9, 10, "is_float, False, emit_div",
        others=("true_divide",), slow=True, on_parts=11,
    ),
    Operator(
        "//", "floordiv", "floor_divide", ARITHMETIC, 9, 0, "is_number, False, emit_floordiv",
        called="floordiv", slow=True,
    ),
    Operator(
        "%", "mod", "remainder", ARITHMETIC, 9, 0, "is_number, False, emit_mod", others=("mod",),
        called="mod", slow=True,
    ),
    Operator("**", "pow", "power", ARITHMETIC, 11, called="power"),
    Operator(
        "&", "and", "bitwise_and", BITS, 6, 5, "is_bits, False, emit_and", logical="logical_and",
        latex=r"\;\mathrm{and}\;", logic=r"\wedge",
    ),
    Operator(
        "|", "or", "bitwise_or", BITS, 4, 3, "is_bits, False, emit_or", logical="logical_or",
        latex=r"\;\mathrm{or}\;", logic=r"\vee",
    ),
    Operator(
        "^", "xor", "bitwise_xor", BITS, 5, 4, "is_bits, False, emit_xor", logical="logical_xor",
        latex=r"\oplus", logic=r"\oplus",
    ),
    Operator(
        "<<", "lshift", "left_shift", BITS, 7, 0, "is_integer, False, emit_lshift",
        called="left_shift", latex=r"\ll",
    ),
    Operator(
        ">>", "rshift", "right_shift", BITS, 7, 0, "is_integer, False, emit_rshift",
        called="right_shift", latex=r"\gg",
    ),
    _comparison("<", "lt", "less", 7, "<", ">=", ">"),
    _comparison("<=", "le", "less_equal", 7, r"\leq", ">", ">="),
    _comparison(">", "gt", "greater", 7, ">", "<=", "<"),
    _comparison(">=", "ge", "greater_equal", 7, r"\geq", "<", "<="),
    _comparison("==", "eq", "equal", 6, "=", "!=", "=="),
    _comparison("!=", "ne", "not_equal", 6, r"\neq", "==", "!="),
)  # fmt: skip
OPERATORS = {row.symbol: row for row in _ROWS}
COMPARISONS = tuple(row.symbol for row in _ROWS if row.kind == COMPARISON)
# the arithmetic of indices, whose results are integers
ON_INDICES = ("+", "-", "*", "//", "%")


def registrations() -> dict[str, str]:
    """Return the statements of ``intrinsics/operators.py`` that define operators of vectors.

    >>> registrations()["iadd"]
    'vec_operator(operator.iadd, is_number, False, emit_add)'
    """
    names = {
        name: row.llvm
        for row in _ROWS
        if row.llvm
        for name in (row.named, *((f"i{row.method}",) if row.kind != COMPARISON else ()))
    }
    return {name: f"vec_operator(operator.{name}, {rule})" for name, rule in names.items()}
