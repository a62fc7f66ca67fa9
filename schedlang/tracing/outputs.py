"""Results of calls in an array that a traced function names (``out=``), and of the function."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr.nodes import Expr
from schedlang.language.construct import as_expr
from schedlang.tracing.items import assigned_value, index_of, plain
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.trace import Value, current
from schedlang.tracing.unknown import refuse_numpy_target
from schedlang.tracing.updates import update_at


def into(out: Any, result: Any, where: Any = True) -> Any:
    """Write ``result`` into the array that ``out=`` gives, ``where`` a mask holds, and return that.

    Raises ``ComputeTypeError`` for an array that is not of the trace, and ``ComputeError`` for a
    result that does not fit.
    """
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not is_traced(target):
        refuse_numpy_target()
    target.check_written()
    check_in_place(np.dtype(result.dtype), target.dtype)
    shape = result.shape if isinstance(result, Tensor) else ()
    if len(shape) > target.ndim:
        raise ComputeError(
            f"a result of shape {shape} into an array of shape {target.shape}: it has more "
            "dimensions; write x = ..."
        )
    # NumPy's types do not know np.where of tensors
    merge: Any = np.where
    target[...] = result if where is True else merge(plain(where), result, target.value)
    return target


def check_in_place(given: np.dtype, kind: np.dtype) -> None:
    """Raise ``ComputeTypeError`` for a result that NumPy does not convert to ``kind`` in place."""
    if not np.can_cast(given, kind, "same_kind"):
        name = _assigned_name()
        raise ComputeTypeError(
            f"a result of {given} into {name or 'an array'} of {kind}: NumPy does not convert it "
            f"in place; write {name or 'x'} = ..., or convert it with .astype({str(kind)!r})"
        )


def copy_to(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Compute ``np.copyto(dst, src)``, which changes ``dst``.

    Raises ``ComputeTypeError`` for a conversion that ``casting`` excludes.
    """
    kind = getattr(src, "dtype", None)
    if kind is not None and not np.can_cast(kind, dst.dtype, casting):
        raise ComputeTypeError(
            f"np.copyto of {kind} into an array of {dst.dtype}: NumPy does not convert it; write "
            f"x[...] = values, or convert it with .astype({str(dst.dtype)!r})"
        )
    dst[...] = src if where is True else np.where(where, src, dst)


def update_in_place(ufunc: Any, target: Any, item: Any, *values: Any) -> None:
    """Compute ``ufunc.at(target, item, value)``, which changes ``target``."""
    if not is_traced(target):
        raise ComputeTypeError(
            f"np.{ufunc.__name__}.at({type(target).__name__}, ...): in a traced function, it "
            "changes an array of the trace, such as np.zeros_like(x)"
        )
    target.check_written()
    target.assign(update_at(ufunc, target.value, index_of(item), *map(assigned_value, values)))


def _assigned_name() -> str:
    """Return the variable that the user's statement assigns to, or ``""``."""
    place = current().place()
    return "" if place is None else place.target


def value_of(leaf: Any, title: str) -> Value:
    """Return the value of a leaf of what a function returns; raise for what has none."""
    result = plain(leaf)
    if isinstance(result, (Tensor, Expr)):
        return result
    try:
        return as_expr(result)
    except ComputeTypeError:
        raise ComputeTypeError(
            f"{title} returns {type(leaf).__name__}: a traced function returns arrays and numbers, "
            "and tuples, lists and dicts of them"
        ) from None
