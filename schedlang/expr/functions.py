"""The math functions of the language: their names, their dtypes and their ufuncs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Function:
    """A math function.

    ``rule`` says which dtype the result has: ``"float"`` a float dtype, ``"same"`` that of the
    operand, ``"common"`` the promoted dtype of two operands, ``"test"`` bool, ``"bits"`` and
    ``"saturated"`` the dtype in the function's name, ``"count"`` uint8, ``"part"`` that of a part
    of a complex number.
    """

    name: str
    arity: int
    rule: str
    ufunc: str


# the names of saturating casts begin so
SATURATED = "saturated_"
FUNCTIONS = {
    f.name: f
    for f in (
        *(Function(n, 1, "float", n) for n in (
            "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "sin", "cos", "tan",
            "sinh", "cosh", "tanh")),
        Function("asin", 1, "float", "arcsin"),
        Function("acos", 1, "float", "arccos"),
        Function("atan", 1, "float", "arctan"),
        Function("rsqrt", 1, "float", ""),
        Function("sigmoid", 1, "float", ""),
        Function("erf", 1, "float", ""),
        Function("floor", 1, "same", "floor"),
        Function("ceil", 1, "same", "ceil"),
        Function("trunc", 1, "same", "trunc"),
        Function("round", 1, "same", "rint"),
        Function("abs", 1, "same", "absolute"),
        Function("isnan", 1, "test", "isnan"),
        Function("isinf", 1, "test", "isinf"),
        Function("isfinite", 1, "test", "isfinite"),
        # reinterpret the bits of an operand of the same size
        *(Function(f"bits_{t}", 1, "bits", "") for t in ("int32", "int64", "float32", "float64")),
        # the nearest integer of a dtype, floats truncated toward zero and NaN as 0
        *(Function(f"{SATURATED}{t}", 1, "saturated", "") for t in (
            "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
        Function("real", 1, "part", "real"),
        Function("imag", 1, "part", "imag"),
        Function("conj", 1, "same", "conjugate"),
        Function("popcount", 1, "count", "bitwise_count"),
        Function("min", 2, "common", "minimum"),
        Function("max", 2, "common", "maximum"),
        Function("atan2", 2, "float", "arctan2"),
    )
}  # fmt: skip
