"""NumPy's functions on expressions and tensors: a few are supported, others raise with a hint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.nodes import Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, select

_SUM = 'k = sl.reduce_axis(n, name="k"), and sl.sum({}, axis=k) inside sl.compute'
_PRODUCT = "Write the sum of products: " + _SUM.format("A[i, k] * B[k, j]") + "."
_REDUCED = {
    "sum": "sl.sum", "prod": "sl.prod", "max": "sl.max", "amax": "sl.max", "min": "sl.min",
    "amin": "sl.min", "any": "sl.any", "all": "sl.all", "argmax": "sl.argmax",
    "argmin": "sl.argmin", "mean": "sl.sum", "average": "sl.sum", "var": "sl.sum", "std": "sl.sum",
    "count_nonzero": "sl.sum", "linalg.norm": "sl.sum", "trace": "sl.sum",
}  # fmt: skip
_HINTS = {
    **dict.fromkeys(("einsum", "dot", "vdot", "inner", "outer", "tensordot", "kron", "convolve",
                     "correlate", "linalg.multi_dot"), _PRODUCT),
    **dict.fromkeys(("transpose", "swapaxes", "moveaxis", "flip", "roll", "reshape", "ravel",
                     "squeeze", "expand_dims", "broadcast_to", "take", "repeat", "tile", "diagonal",
                     "rot90", "fliplr", "flipud"),
                    "Read the tensor at other indices: sl.compute(shape, lambda i, j: A[j, i])."),
    **dict.fromkeys(("concatenate", "stack", "vstack", "hstack"),
                    "Choose by the index: sl.compute(shape, lambda i: sl.if_then_else(i < n, A[i], "
                    "B[i - n]))."),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "empty_like"),
                    "Write sl.compute(A.shape, lambda *i: sl.const(0, A.dtype))."),
    **dict.fromkeys(("cumsum", "cumprod"), "Write the recurrence: sl.scan(init, update, state)."),
    "pad": "Write sl.pad(A, before, after, mode=...).",
    "where": "Write sl.select(cond, a, b) per element inside sl.compute.",
    "clip": "Write sl.min(sl.max(A[i], low), high) per element inside sl.compute.",
    "copy": "Write sl.compute(A.shape, lambda *i: A[i]).",
}  # fmt: skip


def _where(cond: Any, x: Any, y: Any) -> Expr:
    return select(cond, x, y)


def _clip(x: Any, low: Any = None, high: Any = None) -> Expr:
    value = as_expr(x)
    value = value if low is None else call("max", value, low)
    return value if high is None else call("min", value, high)


def _round(x: Any, decimals: int = 0) -> Expr:
    if decimals:
        raise ComputeTypeError(
            f"np.round({x}, {decimals}): only rounding to integral values is supported; write "
            f"sl.round({x} * {10 ** abs(decimals)}) and scale it back"
        )
    return call("round", x)


def _angle(z: Any, deg: bool = False) -> Expr:
    if deg:
        raise ComputeTypeError(f"np.angle({z}, deg=True): only radians are supported; scale them")
    return call("atan2", call("imag", z), call("real", z))


_FORMS: dict[str, Callable[..., Expr]] = {
    "real": lambda z: call("real", z), "imag": lambda z: call("imag", z), "angle": _angle,
    "where": _where, "clip": _clip, "round": _round, "around": _round,
}  # fmt: skip


def name_of(function: Any) -> str:
    """Return the name of a NumPy function as written after ``np.``."""
    module = str(getattr(function, "__module__", "")).removeprefix("numpy").lstrip(".")
    name = str(getattr(function, "__name__", function))
    return f"{module}.{name}" if module in ("linalg", "fft", "random") else name


def apply_numpy(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], what: str, element: bool
) -> Any:
    """Return the expression for a NumPy ``function``; raise if it is not supported.

    ``what`` describes the operand in the error message. ``element`` says that the operand is an
    expression and not a whole tensor.
    """
    name = name_of(function)
    form = _FORMS.get(name)
    if element and form is not None:
        try:
            return form(*args, **kwargs)
        except TypeError as error:
            if isinstance(error, ComputeTypeError):
                raise
    refuse_numpy(name, what)


def refuse_numpy(name: str, what: str) -> NoReturn:
    """Raise for ``np.<name>`` of ``what``, with a hint at what to write instead."""
    hint = _HINTS.get(name, "Write what it computes per element inside sl.compute.")
    if name in _REDUCED:
        reduce = _REDUCED[name]
        hint = (
            f'Reduce over an axis: k = sl.reduce_axis(n, name="k"), and {reduce}(A[i, k], axis=k)'
        )
        hint += " inside sl.compute"
        hint += "." if reduce.endswith(name) else "; compute the rest in the next stage."
    raise ComputeTypeError(
        explain(
            f"np.{name} of {what}",
            f"NumPy works on arrays, but {what} describes a computation and has no values yet",
            hint,
        )
    )  # fmt: skip
