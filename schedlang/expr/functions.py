"""The math functions of the language: a row says what each one is, and each layer derives its part.

A new function is one row and its tests; with ``own_cpu`` it also needs code, which the docstring of
:class:`Function` names. ``docs/inside/architecture.md`` lists all files. These read the row:
``language/calls.py`` (dtypes), ``compute/functions.py`` and ``tvm/topi/functions.py`` (the
functions of users), ``language/ufuncs.py`` (NumPy's name), ``expr/evaluate.py`` (values),
``compute/latex_text.py``, ``expr/symbolic.py`` and ``gradient/functions.py`` (sympy),
``gradient/finite.py``, ``machine/select/expressions.py`` (the intrinsic's name),
``intrinsics/dialect.py`` (the names), ``intrinsics/cpu/vmath.py`` and ``intrinsics/twins/math.py``,
the modules of ``intrinsics/`` that end with ``definitions(...)``, ``codegen/c_values.py`` (C), and
``autotune/costs/arithmetic.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from schedlang.expr.operators import registrations
from schedlang.expr.special_values import maximum, minimum, saturate, tf32

# the names of saturating casts begin so
SATURATED = "saturated_"
# the places of the operands in the LaTeX of a call
OPERAND = "@"


@dataclass(frozen=True)
class Function:
    """A math function.

    ``rule`` says which dtype the result has: ``"float"`` a float dtype, ``"same"`` the dtype of the
    operand, ``"whole"`` as well, and integers are returned as they are, ``"common"`` the promoted
    dtype of two operands, ``"test"`` bool, ``"bits"`` and ``"saturated"`` the dtype in the
    function's name, ``"count"`` uint8, ``"part"`` the dtype of a part of a complex number,
    ``"single"`` float32, of which the operand is. A ``complex`` function takes complex operands,
    too.

    ``returns`` continues the sentence "Return ..." of the user's function ``sl.<name>``. Without
    it, that function is written by hand, or there is none. NumPy's value comes from ``value`` if
    it is given, else from ``ufunc``, else from the function ``library`` of Python's ``math`` in
    float64.

    Kernels call the intrinsic ``name``, or ``intrinsic``. LLVM computes it as ``llvm`` says: the
    module under ``intrinsics/`` that has the rule, and the rule with what it takes before the
    operands. A function of C's math library is computed by it, as ``library``: on a CPU in float64,
    on a GPU by ``device`` of libdevice, by default under the same name. It is ``close`` if
    libdevice's float32 function is within 2 units in the last place; others are computed in
    float64. Numba must compile the function of Python's ``math``, which must have a value for
    every number. A few instructions of LLVM have their rule in ``intrinsics/elementary.py``, and
    ``codegen/c_helpers.h`` says the same in C.

    A function with ``own_cpu`` has an intrinsic for CPUs that is written by hand, in
    ``intrinsics/cpu/vmath.py``, for the sake of speed or accuracy; ``COMPILED`` there lists its
    Python functions, and ``codegen/c_math.py`` translates the float32 ones for vectors in C.
    Without a ``library``, it also needs an intrinsic in ``intrinsics/gpu/libdevice.py``, a
    function in ``codegen/c_helpers.h``, and its true value in ``tests/exhaustive_math.py``.

    ``sympy`` is the function in sympy, over ``x0`` and ``x1``, from which the derivative follows.
    ``known`` is a part of the derivative that sympy returns, and what to write in its place, in
    terms of the value ``y``: ``1/cosh(x)``, which sympy calls ``sech(x0)``, has the derivative
    ``-sech(x0)*tanh(x0)``, and ``("sech(x0)", "y")`` makes it ``-y*tanh(x0)``.

    Its value and its derivative are ``finite`` for all finite operands (``"everywhere"``), or for
    positive ones (``"above 0"``). A ``never_negative`` value is 0 or more. A ``cheap`` function
    takes a cycle for a vector.

    ``latex`` is the function's name in LaTeX, or the whole call with :data:`OPERAND` in the place
    of the operand, which then has the precedence ``latex_level``.
    """

    name: str
    rule: str
    returns: str = ""
    arity: int = 1
    complex: bool = False
    ufunc: str = ""
    value: Callable[..., Any] | None = None
    intrinsic: str = ""
    llvm: str = ""
    library: str = ""
    device: str = ""
    close: bool = False
    own_cpu: bool = False
    sympy: str = ""
    known: tuple[str, str] | None = None
    finite: str = ""
    never_negative: bool = False
    cheap: bool = False
    latex: str = ""
    latex_level: str = "ATOM"

    @property
    def called(self) -> str:
        """The name of the intrinsic; kernels compute with the parts of complex numbers alone."""
        return "" if self.name in ("real", "imag", "conj") else self.intrinsic or self.name

    @property
    def spelled(self) -> str:
        """The function as users write it, of NumPy if it is there."""
        return f"np.{self.ufunc}" if self.ufunc else f"sl.{self.name}"

    def of_numpy(self, *operands: Any) -> Any:
        """Return the value of the function on NumPy values."""
        if self.value is not None:
            return self.value(*operands)
        if self.ufunc:
            return getattr(np, self.ufunc)(*operands)
        return _in_float64(partial(_each, getattr(math, self.library)), *operands)


def _in_float64(f: Callable[..., Any], x: Any) -> Any:
    """Return ``f(x)``, computed in float64 and rounded to the dtype of ``x``."""
    array = np.asarray(x)
    return f(array.astype(np.float64)).astype(array.dtype)[()]


def _each(f: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    return np.fromiter(map(f, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def _inverse_root(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / np.sqrt(x))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # a power of a negative number does not overflow
    power = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, power) / (1.0 + power))


def _bits(dtype: str, x: Any) -> Any:
    return np.asarray(x).view(dtype)[()]


_WIDTHS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_ROWS = (
    Function(
        "exp", "float", "e to the power ``x``", complex=True, ufunc="exp", library="exp",
        close=True, own_cpu=True, sympy="exp(x0)", known=("exp(x0)", "y"), never_negative=True,
        latex=r"\exp",
    ),
    Function(
        "exp2", "float", "2 to the power ``x``", ufunc="exp2", library="exp2", close=True,
        llvm="cpu/libm: power_of_two", sympy="2**x0", known=("2**x0", "y"), never_negative=True,
        latex="2^{@}", latex_level="SIGNED",
    ),
    Function(
        "expm1", "float", "``exp(x) - 1``, exact near 0", ufunc="expm1", library="expm1",
        close=True, sympy="exp(x0) - 1", known=("exp(x0)", "y + 1"),
        latex=r"\exp\left(@\right) - 1", latex_level="SUM",
    ),
    Function(
        "log", "float", "the natural logarithm of ``x``", ufunc="log", library="log", close=True,
        own_cpu=True, sympy="log(x0)", finite="above 0", latex=r"\log",
    ),
    Function(
        "log2", "float", "the logarithm of ``x`` to base 2", ufunc="log2", library="log2",
        close=True, sympy="log(x0)/log(2)", finite="above 0", latex=r"\log_{2}",
    ),
    Function(
        "log10", "float", "the logarithm of ``x`` to base 10", ufunc="log10", library="log10",
        close=True, sympy="log(x0)/log(10)", finite="above 0", latex=r"\log_{10}",
    ),
    Function(
        "log1p", "float", "``log(1 + x)``, exact near 0", ufunc="log1p", library="log1p",
        close=True, sympy="log(1 + x0)", latex=r"\log\left(1 + @\right)",
    ),
    Function(
        "sqrt", "float", "the square root of ``x``", ufunc="sqrt",
        llvm="elementary: elementwise, is_float, emit_sqrt", sympy="sqrt(x0)",
        known=("x0", "y**2"), finite="above 0", latex=r"\sqrt{@}",
    ),
    Function(
        "rsqrt", "float", "``1 / sqrt(x)``", value=partial(_in_float64, _inverse_root),
        llvm="elementary: elementwise, is_float, emit_rsqrt",
        sympy="1/sqrt(x0)", known=("x0", "y**-2"), finite="above 0", latex=r"\frac{1}{\sqrt{@}}",
        latex_level="SIGNED",
    ),
    Function(
        "sin", "float", "the sine of ``x`` in radians", ufunc="sin", library="sin", close=True,
        sympy="sin(x0)", finite="everywhere", latex=r"\sin",
    ),
    Function(
        "cos", "float", "the cosine of ``x`` in radians", ufunc="cos", library="cos", close=True,
        sympy="cos(x0)", finite="everywhere", latex=r"\cos",
    ),
    Function(
        "tan", "float", "the tangent of ``x`` in radians", ufunc="tan", library="tan",
        sympy="tan(x0)", known=("tan(x0)", "y"), latex=r"\tan",
    ),
    Function(
        "asin", "float", "the inverse sine of ``x``", ufunc="arcsin", library="asin",
        sympy="asin(x0)", latex=r"\arcsin",
    ),
    Function(
        "acos", "float", "the inverse cosine of ``x``", ufunc="arccos", library="acos",
        sympy="acos(x0)", latex=r"\arccos",
    ),
    Function(
        "atan", "float", "the inverse tangent of ``x``", ufunc="arctan", library="atan",
        close=True, sympy="atan(x0)", finite="everywhere", latex=r"\arctan",
    ),
    Function(
        "sinh", "float", "the hyperbolic sine of ``x``", ufunc="sinh", library="sinh",
        sympy="sinh(x0)", latex=r"\sinh",
    ),
    Function(
        "cosh", "float", "the hyperbolic cosine of ``x``", ufunc="cosh", library="cosh",
        sympy="cosh(x0)", latex=r"\cosh",
    ),
    Function(
        "tanh", "float", "the hyperbolic tangent of ``x``", ufunc="tanh", library="tanh",
        close=True, own_cpu=True, sympy="tanh(x0)", known=("tanh(x0)", "y"), finite="everywhere",
        latex=r"\tanh",
    ),
    Function(
        "asinh", "float", "the inverse hyperbolic sine of ``x``", ufunc="arcsinh",
        library="asinh", sympy="asinh(x0)", finite="everywhere",
    ),
    Function(
        "acosh", "float", "the inverse hyperbolic cosine of ``x``", ufunc="arccosh",
        library="acosh", sympy="acosh(x0)",
    ),
    Function(
        "atanh", "float", "the inverse hyperbolic tangent of ``x``", ufunc="arctanh",
        library="atanh", sympy="atanh(x0)",
    ),
    Function(
        "sigmoid", "float", "``1 / (1 + exp(-x))``", value=partial(_in_float64, _sigmoid),
        own_cpu=True, sympy="1/(1 + exp(-x0))", known=("exp(-x0)", "1/y - 1"),
        finite="everywhere", never_negative=True, latex=r"\sigma",
    ),
    Function(
        "erf", "float", "the error function of ``x``", library="erf", close=True, own_cpu=True,
        sympy="erf(x0)", finite="everywhere",
    ),
    Function(
        "erfc", "float", "``1 - erf(x)``, exact where it is near 0", library="erfc",
        sympy="erfc(x0)", finite="everywhere", never_negative=True,
    ),
    Function(
        "atan2", "float", arity=2, ufunc="arctan2", library="atan2", sympy="atan2(x0, x1)",
    ),
    Function(
        "abs", "same", "the magnitude of ``x``", complex=True, ufunc="absolute",
        intrinsic="absolute", sympy="Abs(x0)", finite="everywhere", never_negative=True,
        cheap=True, latex=r"\left| @ \right|",
    ),
    Function(
        "floor", "whole", "the largest integer at most ``x``; integers stay as they are",
        ufunc="floor", llvm="elementary: rounding, 'floor'", sympy="floor(x0)", finite="everywhere",
        latex=r"\left\lfloor @ \right\rfloor",
    ),
    Function(
        "ceil", "whole", "the smallest integer at least ``x``", ufunc="ceil",
        llvm="elementary: rounding, 'ceil'",
        sympy="ceiling(x0)", finite="everywhere", latex=r"\left\lceil @ \right\rceil",
    ),
    Function(
        "trunc", "whole", "``x`` rounded toward zero", ufunc="trunc",
        llvm="elementary: rounding, 'trunc'", device="trunc",
        finite="everywhere",
    ),
    Function(
        "round", "whole", "``x`` rounded to an integer, ties to even", ufunc="rint",
        intrinsic="round_even", llvm="elementary: rounding, 'rint'", device="rint",
        finite="everywhere",
    ),
    Function(
        "conj", "same", "the complex conjugate of ``x``", complex=True, ufunc="conjugate",
    ),
    Function("real", "part", "the real part of ``x``", complex=True, ufunc="real"),
    Function(
        "imag", "part", "the imaginary part of ``x``, which is 0 for a real number", complex=True,
        ufunc="imag",
    ),
    Function("isnan", "test", "whether ``x`` is NaN", complex=True, ufunc="isnan",
             llvm="predicates: predicate, emit_isnan"),
    Function("isinf", "test", "whether ``x`` is infinite", complex=True, ufunc="isinf",
             llvm="predicates: predicate, emit_isinf"),
    Function(
        "isfinite", "test", "whether ``x`` is neither infinite nor NaN", complex=True,
        ufunc="isfinite", llvm="predicates: predicate, emit_isfinite",
    ),
    Function(
        "min", "common", arity=2, ufunc="minimum", value=minimum, intrinsic="minimum",
        sympy="Min(x0, x1)", finite="everywhere", cheap=True, latex=r"\min",
    ),
    Function(
        "max", "common", arity=2, ufunc="maximum", value=maximum, intrinsic="maximum",
        sympy="Max(x0, x1)", finite="everywhere", cheap=True, latex=r"\max",
    ),
    Function(
        "popcount", "count", ufunc="bitwise_count", llvm="saturated: counted", cheap=True,
    ),
    # reinterpret the bits of an operand of the same size
    *(Function(f"bits_{t}", "bits", value=partial(_bits, t), cheap=True,
               llvm=f"bits: reinterpreted, types.{source}, types.{t}, {scalar}")
      for source, t, scalar in (
          ("float32", "int32", "ir.IntType(32)"), ("float64", "int64", "ir.IntType(64)"),
          ("int32", "float32", "ir.FloatType()"), ("int64", "float64", "ir.DoubleType()"))),
    # a float32 with the 11 bits of mantissa that the nearest TF32 has, ties away from 0
    Function("tf32", "single", value=tf32, llvm="bits: nearest_tf32", cheap=True),
    # the nearest integer of a dtype, floats truncated toward zero and NaN as 0
    *(Function(f"{SATURATED}{t}", "saturated", value=partial(saturate, dtype=t), cheap=True,
               llvm=f"saturated: saturating, types.{t}")
      for t in _WIDTHS),
)  # fmt: skip
FUNCTIONS = {f.name: f for f in _ROWS}
# by the names that kernels call them by
INTRINSICS = {f.called: f for f in _ROWS if f.called}


def definitions(module: str) -> dict[str, str]:
    """Return what a module under ``intrinsics/`` defines from rows, as text by name.

    >>> definitions("cpu/libm")["log1p"]
    "log1p = intrinsic_of('log1p', 1, libm, math.log1p)"
    """
    if module == "operators":
        return registrations()
    start = f"{module}: "
    rules = {f: f.llvm.removeprefix(start) for f in _ROWS if f.llvm.startswith(start)}
    if module == "cpu/libm":
        others = (f for f in _ROWS if f.library and not f.own_cpu and not f.llvm)
        rules |= {f: f"libm, math.{f.library}" for f in others}
    elif module == "gpu/libdevice":
        rules = {
            f: f"libdevice, {name!r}, {f.close}" for f in _ROWS if (name := f.device or f.library)
        }
    return {
        f.called: f"{f.called} = intrinsic_of({f.called!r}, {f.arity}, {rule})"
        for f, rule in rules.items()
    }
