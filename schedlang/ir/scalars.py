"""The operations of the interpreter: checked accesses, and arithmetic on scalars."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from schedlang.errors import VerifyError
from schedlang.expr.bfloat import round_to_bfloat16
from schedlang.expr.evaluate import apply_function
from schedlang.expr.special_values import convert_dtype, power

MOST_DIMENSIONS = 12


def outside(memory: Any, index: tuple[Any, ...], what: str) -> None:
    raise VerifyError(
        f"{what} {memory.name}{[int(i) for i in index]} of shape {list(memory.shape)}"
    )


def refuse_unwritten(memory: Any, index: tuple[Any, ...]) -> None:
    raise VerifyError(f"{memory.name}{[int(i) for i in index]} is read before it is written")


def _accessors(ndim: int) -> dict[str, Any]:
    """Return ``load``, ``store``, ``final`` and ``touch`` for buffers of ``ndim`` dimensions."""
    names = [f"i{k}" for k in range(ndim)]
    listed = "".join(f", {n}" for n in names)
    index = f"({''.join(n + ', ' for n in names)})"
    inside = " and ".join(f"0 <= {n} < s[{k}]" for k, n in enumerate(names)) or "True"
    flat = " + ".join(f"{n}*t[{k}]" for k, n in enumerate(names)) or "0"
    start = f"""
    s = m.shape
    if not ({inside}): outside(m, {index}, WHAT)
    t = m.strides
    k = {flat}
"""
    text = f"""
def load{ndim}(m{listed}):{start.replace("WHAT", "'reads'")}
    v = m.data[k]
    if v is None: unwritten(m, {index})
    m.count[0] += 1
    return v
def store{ndim}(m{listed}, v):{start.replace("WHAT", "'writes'")}
    m.data[k] = v
    m.count[1] += 1
def final{ndim}(m{listed}, v):{start.replace("WHAT", "'writes'")}
    m.data[k] = v
    m.count[1] += 1
    if m.final is not None: m.final[k] += 1
def touch{ndim}(m{listed}):
    if not m.data: return{start.replace("WHAT", "'prefetches'")}
"""
    # messages leave out the lines of modules of schedlang
    space: dict[str, Any] = {
        "__name__": __name__,
        "outside": outside,
        "unwritten": refuse_unwritten,
    }
    exec(text, space)
    return {n: space[n] for n in (f"{w}{ndim}" for w in ("load", "store", "final", "touch"))}


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two scalars, the first of zeros; NaN wins."""
    return a if a != a or not (b < a or b != b) else b


def larger(a: Any, b: Any) -> Any:
    return a if a != a or not (b > a or b != b) else b


def index_div(a: int, b: int) -> int:
    """Return ``a // b``, or 0 for a division by zero, which is NumPy's result."""
    return a // b if b else 0


def index_mod(a: int, b: int) -> int:
    return a % b if b else 0


@cache
def caster(dtype: str) -> Callable[[Any], Any]:
    """Return a function that converts a scalar to ``dtype`` by the rules of ``astype``."""
    if dtype == "bool":
        return bool
    if dtype == "bfloat16":
        return round_to_bfloat16
    kind = np.dtype(dtype)
    if kind.kind in "fc":
        return kind.type

    def integer(value: Any) -> Any:
        if isinstance(value, (bool, int)):
            value = np.int64(value)
        return convert_dtype(value, dtype)

    return integer


@cache
def caller(fn: str) -> Callable[..., Any]:
    """Return the math function ``fn`` for scalars."""
    if fn in ("min", "max"):
        return smaller if fn == "min" else larger
    if fn == "isnan":
        return lambda x: x != x
    if fn == "rounded":
        # each scalar operation rounds already
        return lambda x: x
    return lambda *args: apply_function(fn, *args)


@cache
def powers(dtype: str) -> Callable[[Any, Any], Any]:
    """Return the power of scalars of ``dtype``."""
    return power_in_bfloat16 if dtype == "bfloat16" else power


def power_in_bfloat16(a: Any, b: Any) -> Any:
    return round_to_bfloat16(power(a, b))


HELPERS: dict[str, Any] = {"index_div": index_div, "index_mod": index_mod}
for _ndim in range(MOST_DIMENSIONS + 1):
    HELPERS.update(_accessors(_ndim))
