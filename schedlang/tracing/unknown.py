"""What NumPy's arrays have and traced ones have not: elements that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.trace import current


def _refusing(what: str, hint: str) -> Callable[..., NoReturn]:
    """Return a method that raises ``ComputeTypeError`` with the user's line."""

    def method(self: Any, *_: Any, **__: Any) -> NoReturn:
        trace = current()
        place = trace.place()
        where = "" if place is None else f" at line {place.line}, `{place.text}`"
        raise ComputeTypeError(
            explain(
                f"{what} of an array of shape {self.shape} in {trace.title}{where}",
                "its elements are unknown while the function is traced",
                hint,
            )
        )

    return method


UNKNOWN = {
    "__bool__": _refusing(
        "the truth value", "Choose with np.where(condition, a, b) instead of if; an argument that "
        "decides what the function does is a Python number or is named in static_argnames."),
    "__float__": _refusing(
        "float()", "Convert with .astype(np.float32); use np.sqrt for math.sqrt."),
    "__complex__": _refusing("complex()", "Convert with .astype(np.complex128)."),
    "__int__": _refusing("int()", "Convert with .astype(np.int64)."),
    "__index__": _refusing(
        "an integer", "A shape, a range or a step must be known when the function is traced: pass "
        "it as a Python int, or name it in static_argnames."),
    "item": _refusing(".item()", "Leave .item() out: a 0-d array is used like a number."),
    "tolist": _refusing(
        ".tolist()", "Return the array, and convert what the function returned."),
    "__array__": _refusing(
        "a NumPy array", "Assign to an array of the trace: make it with np.zeros_like(x), or with "
        "np.zeros(shape, dtype, like=x), where x is an argument."),
}  # fmt: skip


__all__ = ["UNKNOWN"]
