"""``np.add.at`` and its like in traced functions: every update of an element counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.gathering import is_array
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Const, Expr
from schedlang.language.construct import as_expr
from schedlang.tracing.indexing import assign_elements, assign_under, select, update
from schedlang.tracing.trace import Value

# how a scatter combines the updates of a ufunc; the second table is for bools
_COMBINED = {
    "add": "sum", "subtract": "sum", "multiply": "prod", "maximum": "max", "minimum": "min",
}  # fmt: skip
_OF_BOOLS = {
    "add": "any", "maximum": "any", "logical_or": "any", "bitwise_or": "any",
    "multiply": "all", "minimum": "all", "logical_and": "all", "bitwise_and": "all",
}  # fmt: skip


def update_at(ufunc: Any, base: Value, item: Any, *values: Any) -> Value:
    """Return ``base`` after ``ufunc.at(base, item, value)``.

    Raises :class:`~schedlang.errors.ComputeTypeError` for a ufunc whose updates a scatter does not
    combine, and for a value that ``base`` cannot hold.
    """
    asked = f"np.{ufunc.__name__}.at"
    if len(values) != 1:
        raise ComputeTypeError(
            f"{asked} takes an array, an index and one value, got {len(values)} values; for a "
            "function of one operand, write x[idx] = f(x[idx])"
        )
    value = values[0] if isinstance(values[0], (Tensor, Expr)) else as_expr(values[0])
    if _kind(value.dtype) > _kind(base.dtype):
        raise ComputeTypeError(
            f"{asked}: a value of {value.dtype} into an array of {base.dtype}; convert it with "
            f".astype({base.dtype!r})"
        )
    if isinstance(item, tuple) and len(item) == 1:
        (item,) = item
    items = item if isinstance(item, tuple) else (item,)
    if isinstance(item, Tensor) and item.dtype == "bool":
        if isinstance(value, Tensor) and value.ndim:
            raise ComputeTypeError(
                f"{asked} with a mask and an array of shape {shape_text(value.shape)}: how many "
                "elements the mask selects depends on its values; give a number, or write x[...] = "
                "np.where(mask, f(x, values), x)"
            )
        return assign_under(base, item, ufunc(base, value))
    if not isinstance(base, Tensor) or not any(is_array(i) for i in items):
        return assign_elements(base, item, ufunc(select(base, item), value))
    combine = (_OF_BOOLS if base.dtype == "bool" else _COMBINED).get(ufunc.__name__)
    if combine is None:
        raise ComputeTypeError(
            explain(
                f"{asked} of an array of {base.dtype}",
                f"the updates of one element have no combiner for np.{ufunc.__name__}",
                f"It has one for {', '.join(_OF_BOOLS if base.dtype == 'bool' else _COMBINED)}. "
                "Outside of a traced function, sl.scatter takes one made by sl.comm_reducer.",
            )
        )
    if combine in ("max", "min") and not _fits(value, base.dtype):
        raise ComputeTypeError(
            f"{asked}: a value of {value.dtype} into an array of {base.dtype}, which may not hold "
            f"it; convert it with .astype({base.dtype!r})"
        )
    if ufunc is np.subtract:
        # not 0 - value, which is 0.0 for 0.0 and would make a -0.0 positive
        value = -value.astype(base.dtype)
    return update(base, items, value, combine)


def _fits(value: Tensor | Expr, dtype: str) -> bool:
    """Return whether integers of ``dtype`` hold a value, which is true of other numbers."""
    if not dtypes.is_integer(value.dtype) or not dtypes.is_integer(dtype):
        return True
    if isinstance(value, Const):
        return bool(np.iinfo(dtype).min <= value.value <= np.iinfo(dtype).max)
    return bool(np.can_cast(value.dtype, dtype))


def _kind(dtype: str) -> int:
    """Return the place of a dtype among bools, integers, floats and complex numbers."""
    if dtype == "bool":
        return 0
    return 1 if dtypes.is_integer(dtype) else 3 if dtypes.is_complex(dtype) else 2
