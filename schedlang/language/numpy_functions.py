"""NumPy's functions on elements that have no form there: what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

from schedlang.errors import ComputeTypeError, explain

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
    "copy": "Write sl.compute(A.shape, lambda *i: A[i]).",
}  # fmt: skip


def name_of(function: Any) -> str:
    """Return the name of a NumPy function as written after ``np.``."""
    module = str(getattr(function, "__module__", "")).removeprefix("numpy").lstrip(".")
    name = str(getattr(function, "__name__", function))
    return f"{module}.{name}" if module in ("linalg", "fft", "random") else name


def refuse_numpy(name: str, what: str, note: str = "") -> NoReturn:
    """Raise for ``np.<name>`` of an element, with a hint at what to write instead.

    ``what`` describes the element in the message, and ``note`` follows the hint.
    """
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
            f"{hint}\n{note}" if note else hint,
        )
    )
