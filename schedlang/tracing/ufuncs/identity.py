"""The start of a ufunc's reduction, and whether NumPy may reduce several axes at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schedlang.compute.operations import ComputeOp
from schedlang.compute.read import Read
from schedlang.compute.reference import reference
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.dtypes import array_dtype
from schedlang.expr.nodes import Binary, Call, Expr

# values of which sums and products are exact in all dtypes that hold them
_SAMPLES = (1, 2, 3, 5, 2, 0, 4, 3, 9, 7, -1, -4, -3, -8, -2, 6)
# and for floats
_FRACTIONS = (0.5, -1.5, 0.25, -0.75)
# where NumPy's own reductions start; reductions by min and max have no number to start with
KNOWN = {"+": 0, "*": 1, "&": -1, "|": 0, "^": 0}
REORDERED = ("min", "max")


class Identity(NamedTuple):
    """The number with which a reduction starts, if any, and whether its order is free."""

    value: Any = None
    reorderable: bool = False


def known_identity(inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Identity:
    """Return the identity of an operation that is associative, as ``x + y`` is."""
    if len(inputs) != 2 or len(outputs) != 1:  # noqa: PLR2004
        return Identity()
    op = outputs[0].op
    if not isinstance(op, ComputeOp) or not _of_both(op.body[0], inputs):
        return Identity()
    body = op.body[0]
    name = body.op if isinstance(body, Binary) else body.fn if isinstance(body, Call) else ""
    if name in KNOWN:
        return Identity(KNOWN[name], True)
    return Identity(None, name in REORDERED)


def _of_both(body: Expr, inputs: tuple[Tensor, ...]) -> bool:
    operands = body.children
    read = [v.tensor for v in operands if isinstance(v, Read)]
    return len(operands) == len(read) == len(inputs) and set(read) == set(inputs)


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a number of Python's or NumPy's, or a bool."""
    return isinstance(value, (bool, int, float, complex, np.bool_, np.number))


def has_number(dtype: str, value: Any) -> bool:
    """Return whether a dtype has the number ``value``; NumPy asks this for each loop.

    >>> has_number("float32", float("inf")), has_number("int32", float("inf"))
    (True, False)
    """
    try:
        return bool(np.dtype(array_dtype(dtype)).type(value) == value)
    except (OverflowError, TypeError, ValueError):
        return False


def checked_identity(
    name: str, value: Any, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]
) -> Identity:
    """Return the identity that the user gives, after tests on numbers of both signs and NaN."""
    asked = f"sl.ufunc({name}, identity={value!r})"
    if not is_number(value):
        raise ComputeTypeError(explain(asked, "the identity is a number"))
    if len(inputs) != 2 or len(outputs) != 1:  # noqa: PLR2004
        raise ComputeError(
            explain(
                asked,
                f"a reduction combines two values to one, and {name} takes {len(inputs)} and "
                f"returns {len(outputs)}",
                "Leave out identity=.",
            )
        )
    run, kind = reference(outputs[0]), array_dtype(inputs[0].dtype)

    def combined(a: Any, b: Any) -> Any:
        return run(a.astype(kind), b.astype(kind)).astype(kind)

    x = _samples(np.dtype(kind))
    y, z = np.roll(x, 1), np.roll(x, 3)
    start = np.full(x.shape, np.dtype(kind).type(value))
    # what a law says, two calls that give the same by it, and their numbers
    neutral = f"{value!r} is not neutral"
    laws = (
        (neutral, "{f}({e!r}, {0})", "{0}", (x,), combined(start, x), x),
        ("the operation is not commutative", "{f}({0}, {1})", "{f}({1}, {0})", (x, y),
         combined(x, y), combined(y, x)),
        ("the operation is not associative", "{f}({f}({0}, {1}), {2})", "{f}({0}, {f}({1}, {2}))",
         (x, y, z), combined(combined(x, y), z), combined(x, combined(y, z))),
    )  # fmt: skip
    for why, first, second, operands, one, other in laws:
        same = np.isclose(one, other, rtol=1e-2 if kind == np.float16 else 1e-5, equal_nan=True)
        if not same.all():
            at = int(np.flatnonzero(~same)[0])
            numbers = [v[at] for v in operands]
            call, by_law = (text.format(*numbers, f=name, e=value) for text in (first, second))
            is_other = f"not {by_law}" if why == neutral else f"{by_law} is {other[at]}"
            hint = (
                "With identity=, NumPy reduces in any order. Leave it out: reduce and accumulate "
                "then run from the first element to the last."
            )
            if why == neutral:
                hint += (
                    f" To start a reduction at {value!r} all the same, write "
                    f"{name}.reduce(x, initial={value!r})."
                )
            raise ComputeError(explain(asked, f"{why}: {call} is {one[at]}, and {is_other}", hint))
    return Identity(value, True)


def _samples(dtype: np.dtype[Any]) -> Any:
    """Return numbers of a dtype: of both signs if it has them, fractions, and NaN."""
    values: list[float] = [v for v in _SAMPLES if v >= 0 or dtype.kind != "u"]
    if dtype.kind in "fc":
        values += [*_FRACTIONS, np.nan]
    return np.array(values).astype(dtype)
