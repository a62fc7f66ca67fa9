"""Functions with the points where their formula changes, for tests of derivatives there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

import schedlang as sl
from schedlang import topi
from schedlang.frontend.onnx.operators import activations

Point = tuple[float, ...]


@dataclass(frozen=True)
class Seam:
    """A function of arrays, the same one in mpmath, and points where its formula may change.

    At the points and on both sides of them, its derivatives are those of ``exact``. ``jumps`` are
    points where the function itself jumps: there its derivatives are the common limits from both
    sides along the first argument. ``second`` says whether it has second derivatives.
    """

    ours: Callable[..., Any]
    exact: Callable[..., Any]
    points: Sequence[Point]
    jumps: Sequence[Point] = ()
    second: bool = True


def _pair(values: Sequence[float]) -> list[Point]:
    return [(a, b) for a in values for b in values]


def _hypot(x: Any, y: Any) -> Any:
    return mpmath.sqrt(x * x + y * y)


def _logaddexp(x: Any, y: Any) -> Any:
    return mpmath.log(mpmath.exp(x) + mpmath.exp(y))


def _logaddexp2(x: Any, y: Any) -> Any:
    return mpmath.log(mpmath.mpf(2) ** x + mpmath.mpf(2) ** y, 2)


def _fmod(x: Any, y: Any) -> Any:
    quotient = mpmath.re(x) / mpmath.re(y)
    whole = mpmath.floor(quotient) if quotient > 0 else mpmath.ceil(quotient)
    return x - whole * y


def _mod(x: Any, y: Any) -> Any:
    return x - mpmath.floor(mpmath.re(x) / mpmath.re(y)) * y


def _sinc(x: Any) -> Any:
    return mpmath.mpf(1) if x == 0 else mpmath.sin(mpmath.pi * x) / (mpmath.pi * x)


def _softplus(x: Any) -> Any:
    return mpmath.log1p(mpmath.exp(x))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


_SIDES = [(0.0,), (1.0,), (-1.0,)]
_ZERO = [(0.0,)]
_POSITIVE = [(1.0,), (0.25,), (2.0,)]
_EQUAL = [(0.0, 0.0), (1.5, 1.5), (-2.0, -2.0), (40.0, 40.0), (0.0, 3.0), (3.0, -3.0)]

# ufuncs, by the name in NumPy
UFUNCS: dict[str, Seam] = {
    "exp": Seam(np.exp, mpmath.exp, _SIDES),
    "exp2": Seam(np.exp2, lambda x: mpmath.mpf(2) ** x, _SIDES),
    "log": Seam(np.log, mpmath.log, _POSITIVE),
    "log2": Seam(np.log2, lambda x: mpmath.log(x, 2), _POSITIVE),
    "log10": Seam(np.log10, mpmath.log10, _POSITIVE),
    "log1p": Seam(np.log1p, mpmath.log1p, [(0.0,), (-0.5,), (1.0,)]),
    "expm1": Seam(np.expm1, mpmath.expm1, _SIDES),
    "sqrt": Seam(np.sqrt, mpmath.sqrt, _POSITIVE),
    "sin": Seam(np.sin, mpmath.sin, _SIDES),
    "cos": Seam(np.cos, mpmath.cos, _SIDES),
    "tan": Seam(np.tan, mpmath.tan, _SIDES),
    "sinh": Seam(np.sinh, mpmath.sinh, _SIDES),
    "cosh": Seam(np.cosh, mpmath.cosh, _SIDES),
    "tanh": Seam(np.tanh, mpmath.tanh, _SIDES),
    "arcsin": Seam(np.arcsin, mpmath.asin, [(0.0,), (0.5,)]),
    "arccos": Seam(np.arccos, mpmath.acos, [(0.0,), (0.5,)]),
    "arctan": Seam(np.arctan, mpmath.atan, _SIDES),
    "arcsinh": Seam(np.arcsinh, mpmath.asinh, _SIDES),
    "arccosh": Seam(np.arccosh, mpmath.acosh, [(1.5,), (3.0,)]),
    "arctanh": Seam(np.arctanh, mpmath.atanh, [(0.0,), (0.5,)]),
    "arctan2": Seam(np.arctan2, mpmath.atan2, [(0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (1.0, 1.0),
                                               (1.0, -1.0), (2.0, -2.0)]),
    "floor": Seam(np.floor, mpmath.floor, [(0.5,), (-0.5,)], [(0.0,), (1.0,), (-3.0,)]),
    "ceil": Seam(np.ceil, mpmath.ceil, [(0.5,), (-0.5,)], [(0.0,), (1.0,), (-3.0,)]),
    "trunc": Seam(np.trunc, lambda x: mpmath.sign(x) * mpmath.floor(abs(x)), [(0.0,), (0.5,)],
                  [(1.0,), (-3.0,)]),
    "rint": Seam(np.rint, mpmath.nint, [(0.0,), (1.0,)], [(0.5,), (-1.5,)]),
    "hypot": Seam(np.hypot, _hypot, [(3.0, 3.0), (-3.0, 3.0), (3.0, -3.0), (0.0, 3.0), (-2.0, 0.0),
                                     (1e-200, 1e-200)]),
    "logaddexp": Seam(np.logaddexp, _logaddexp, _EQUAL),
    "logaddexp2": Seam(np.logaddexp2, _logaddexp2, _EQUAL),
    "fmod": Seam(np.fmod, _fmod, [(0.0, 3.0), (0.0, -3.0), (2.0, 3.0), (-2.0, 3.0), (2.0, -3.0)],
                 [(3.0, 3.0), (-3.0, 3.0), (6.0, -3.0), (-6.0, -2.0)]),
    "remainder": Seam(np.remainder, _mod, [(2.0, 3.0), (-2.0, 3.0), (2.0, -3.0)],
                      [(0.0, 3.0), (3.0, 3.0), (-3.0, 3.0), (6.0, -3.0)]),
    "floor_divide": Seam(np.floor_divide, lambda x, y: mpmath.floor(mpmath.re(x) / mpmath.re(y)),
                         [(2.0, 3.0), (-2.0, 3.0)], [(0.0, 3.0), (3.0, 3.0), (-6.0, 2.0)]),
    "power": Seam(np.power, lambda x, y: x**y, [(1.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.5, 2.0),
                                                (1.0, 1.0), (2.0, -1.0)]),
    "float_power": Seam(np.float_power, lambda x, y: x**y, [(1.0, 0.0), (2.0, 0.0), (2.0, 1.0)]),
    "divide": Seam(np.divide, lambda x, y: x / y, [(0.0, 2.0), (1.0, 1.0), (-1.0, -1.0)]),
    "multiply": Seam(np.multiply, lambda x, y: x * y, _pair((0.0, 1.0))),
    "add": Seam(np.add, lambda x, y: x + y, _pair((0.0, 1.0))),
    "subtract": Seam(np.subtract, lambda x, y: x - y, _pair((0.0, 1.0))),
    "negative": Seam(np.negative, lambda x: -x, _SIDES),
    "positive": Seam(np.positive, lambda x: x, _SIDES),
    "conjugate": Seam(np.conjugate, lambda x: x, _SIDES),
    "square": Seam(np.square, lambda x: x * x, _SIDES),
    "reciprocal": Seam(np.reciprocal, lambda x: 1 / x, [(1.0,), (-1.0,)]),
    "sign": Seam(np.sign, mpmath.sign, [(1.0,), (-1.0,)], _ZERO),
    "copysign": Seam(np.copysign, lambda x, y: abs(x) * mpmath.sign(y),
                     [(1.0, 2.0), (-1.0, 2.0), (1.0, -2.0), (-3.0, -3.0)]),
    "heaviside": Seam(np.heaviside, lambda x, y: mpmath.mpf(x > 0), [(1.0, 1.0), (-1.0, 1.0)]),
    "deg2rad": Seam(np.deg2rad, mpmath.radians, _SIDES),
    "radians": Seam(np.radians, mpmath.radians, _SIDES),
    "rad2deg": Seam(np.rad2deg, mpmath.degrees, _SIDES),
    "degrees": Seam(np.degrees, mpmath.degrees, _SIDES),
}  # fmt: skip


def _constant(power: float) -> Seam:
    points = [(1.0,), (-1.0,), (0.0,)] if power in (0, 1, 2, 3, 4) else [(1.0,), (0.5,)]
    return Seam(lambda x: x**power, lambda x: x**power, points)


# functions of another kind
OTHERS: dict[str, Seam] = {
    **{f"x**{p}": _constant(p) for p in (0, 1, 2, 3, 4, -1, -2, 0.5, 1.5, 2.5, -0.5)},
    "rsqrt": Seam(sl.rsqrt, lambda x: 1 / mpmath.sqrt(x), _POSITIVE),
    "sigmoid": Seam(sl.sigmoid, _sigmoid, [(0.0,), (20.0,), (-20.0,)]),
    "erf": Seam(sl.erf, mpmath.erf, _SIDES),
    "erfc": Seam(sl.erfc, mpmath.erfc, [*_SIDES, (6.0,)]),
    "sinc": Seam(np.sinc, _sinc, [(0.0,), (0.03 / np.pi,), (-0.03 / np.pi,), (1.0,), (-2.0,)]),
    "nan_to_num": Seam(np.nan_to_num, lambda x: x, _SIDES),
    "fix": Seam(np.fix, lambda x: mpmath.sign(x) * mpmath.floor(abs(x)), [(0.0,)], [(2.0,)]),
    "round": Seam(lambda x: np.round(x, 1), lambda x: mpmath.nint(x * 10) / 10, [(0.0,), (1.0,)],
                  [(0.25,)]),
    "topi.round": Seam(topi.round, mpmath.nint, [(0.0,), (1.0,)], [(0.5,), (-0.5,), (2.5,)]),
    "topi.mod": Seam(topi.mod, _fmod, [(0.0, 3.0), (2.0, 3.0), (-2.0, 3.0)], [(3.0, 3.0)]),
    "softplus": Seam(lambda x: topi.nn.softplus(x, threshold=50.0), _softplus, _SIDES),
    "softplus, beta 2": Seam(
        lambda x: topi.nn.softplus(x, 2.0, 90.0), lambda x: _softplus(2 * x) / 2, _SIDES
    ),
    "softplus of ONNX": Seam(activations.softplus, _softplus, _SIDES),
    "log_sigmoid": Seam(topi.nn.log_sigmoid, lambda x: -_softplus(-x), _SIDES),
    "mish": Seam(topi.nn.mish, lambda x: x * mpmath.tanh(_softplus(x)), _SIDES),
    "silu": Seam(topi.nn.silu, lambda x: x * _sigmoid(x), _SIDES),
    "gelu": Seam(topi.nn.gelu, lambda x: x / 2 * (1 + mpmath.erf(x / mpmath.sqrt(2))), _SIDES),
    "gelu_tanh": Seam(
        topi.nn.gelu_tanh,
        lambda x: x / 2 * (
            1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + x**3 * mpmath.mpf("0.044715")))
        ), _SIDES,
    ),
    # the first derivative of these has no seam
    "elu": Seam(topi.nn.elu, lambda x: x if x > 0 else mpmath.expm1(x), _ZERO, second=False),
    "softsign": Seam(lambda x: x / (np.abs(x) + 1), lambda x: x / (abs(x) + 1), _ZERO,
                     second=False),
    "x abs(x)": Seam(lambda x: x * np.abs(x), lambda x: x * abs(x), _ZERO, second=False),
}  # fmt: skip


@dataclass(frozen=True)
class Kink:
    """A function of arrays at a point where its derivatives differ: the documents choose one.

    ``chosen`` are the derivatives by each argument.
    """

    ours: Callable[..., Any]
    point: Point
    chosen: Point


INFINITY = float("inf")
KINKS: dict[str, list[Kink]] = {
    "absolute": [Kink(np.abs, (0.0,), (0.0,))],
    "fabs": [Kink(np.fabs, (0.0,), (0.0,))],
    "copysign": [Kink(np.copysign, (0.0, 2.0), (0.0, 0.0))],
    "maximum": [Kink(np.maximum, (1.0, 1.0), (0.5, 0.5)), Kink(np.maximum, (0.0, 0.0), (0.5, 0.5))],
    "minimum": [Kink(np.minimum, (1.0, 1.0), (0.5, 0.5))],
    "fmax": [Kink(np.fmax, (1.0, 1.0), (0.5, 0.5)), Kink(np.fmax, (np.nan, 1.0), (0.0, 1.0))],
    "fmin": [Kink(np.fmin, (1.0, 1.0), (0.5, 0.5)), Kink(np.fmin, (1.0, np.nan), (1.0, 0.0))],
    "relu": [Kink(topi.nn.relu, (0.0,), (0.0,))],
    "clip": [Kink(lambda x: np.clip(x, -1.0, 2.0), (p,), (0.0,)) for p in (-1.0, 2.0)],
    "heaviside": [Kink(np.heaviside, (0.0, 1.0), (0.0, 1.0))],
    "hypot": [Kink(np.hypot, (0.0, 0.0), (0.0, 0.0))],
    "logaddexp": [Kink(np.logaddexp, (-INFINITY, 1.0), (0.0, 1.0)),
                  Kink(np.logaddexp, (1.0, -INFINITY), (1.0, 0.0))],
    "power": [
        Kink(np.power, (0.0, 0.0), (0.0, 0.0)), Kink(np.power, (0.0, 1.0), (1.0, 0.0)),
        Kink(np.power, (0.0, 2.0), (0.0, 0.0)), Kink(np.power, (0.0, 0.5), (INFINITY, 0.0)),
    ],
    "arctan2": [Kink(np.arctan2, (0.0, 0.0), (0.0, 0.0))],
    "sqrt": [Kink(np.sqrt, (0.0,), (INFINITY,))],
}  # fmt: skip
