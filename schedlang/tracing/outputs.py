"""Results of calls in an array that a traced function names (``out=``), and of the function."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.shapes import same_shape
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Const, Expr
from schedlang.language.construct import as_expr
from schedlang.tracing.items import assigned_value, index_of, plain
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.stores import check_copied, check_in_place
from schedlang.tracing.trace import Value
from schedlang.tracing.unknown import refuse_numpy_target
from schedlang.tracing.updates import update_at

# functions that repeat a result in an array that is larger
_BROADCAST = (np.clip, np.einsum, np.outer)
# functions that compute in a dtype that holds the elements of the array that ``out=`` gives, too
_WIDENED = (np.sum, np.prod, np.cumsum, np.cumprod, np.nansum, np.nanprod)
_FOLDING = (*_WIDENED, np.max, np.min, np.mean)
_FOLDS = ("reduce", "accumulate")


def for_out(
    function: Any, method: str, given: Any, out: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the options of a call, with the dtype in which it computes what goes ``into`` out.

    Its first argument is ``given``.
    """
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    folds = method in _FOLDS and not function.__name__.startswith("logical")
    if not is_traced(target) or not (folds or function in _WIDENED) or target.dtype == bool:
        return options
    if options.get("dtype") is not None or not is_traced(given):
        return options
    return {**options, "dtype": np.promote_types(given.dtype, target.dtype)}


def into(out: Any, result: Any, function: Any, method: str = "", where: Any = True) -> Any:
    """Write ``result`` into the array that ``out=`` gives, ``where`` a mask holds, and return that.

    ``function`` made the result, or the ``method`` of a ufunc. Raises ``ComputeTypeError`` for an
    array that is not of the trace, and ``ComputeError`` for a result that does not fit.
    """
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not is_traced(target):
        refuse_numpy_target()
    target.check_written()
    asked = f"np.{function.__name__}{f'.{method}' if method in _FOLDS else ''}"
    if method in _FOLDS or function in _FOLDING:
        _check_fold(asked, np.dtype(result.dtype), target.dtype)
    check_in_place(np.dtype(result.dtype), target.dtype)
    shape = result.shape if isinstance(result, Tensor) else ()
    broadcasts = function in _BROADCAST or (method and method not in _FOLDS)
    # the dimensions of a product of matrices are never repeated, only those that lead
    count = len(shape) if getattr(function, "signature", None) else 0 if broadcasts else target.ndim
    if not same_shape(target.extents[target.ndim - count :], shape[len(shape) - count :]):
        raise ComputeError(
            f"{asked}(..., out=) of an array of shape {shape_text(target.extents)}: the result has "
            f"shape {shape_text(shape)}, and NumPy repeats it in no larger array; write x[...] = "
            f"{asked}(...)"
        )
    if len(shape) > target.ndim:
        raise ComputeError(
            f"a result of shape {shape} into an array of shape {target.extents}: it has more "
            "dimensions; write x = ..."
        )
    # NumPy's types do not know np.where of tensors
    merge: Any = np.where
    target[...] = result if where is True else merge(plain(where), result, target.value)
    return target


def _check_fold(asked: str, given: np.dtype, kind: np.dtype) -> None:
    """Raise ``ComputeTypeError`` for a fold that NumPy converts to ``kind`` while it computes."""
    if not np.can_cast(given, kind, "same_kind"):
        raise ComputeTypeError(
            explain(
                f"{asked}(..., out=) of {given} into an array of {kind}",
                "NumPy converts intermediate results, in an order of its own",
                f"Convert the result: x[...] = {asked}(...).",
            )
        )


def copy_to(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Compute ``np.copyto(dst, src)``, which changes ``dst``.

    Raises ``ComputeTypeError`` for a conversion that ``casting`` excludes.
    """
    check_copied(src, dst.dtype, casting)
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


def value_of(leaf: Any, title: str) -> Value:
    """Return the value of a leaf of what a function returns; raise for what has none."""
    result = plain(leaf)
    if not isinstance(result, Tensor) and _is_beyond_int64(result):
        raise ComputeTypeError(
            explain(
                f"{title} returns {result}",
                "a kernel returns integers of Python as int64, which holds "
                f"{-(2**63)}..{2**63 - 1}",
                "Return a float, or compute this integer outside of the function.",
            )
        )
    if isinstance(result, (Tensor, Expr)):
        return result
    try:
        return as_expr(result)
    except ComputeTypeError:
        raise ComputeTypeError(
            f"{title} returns {type(leaf).__name__}: a traced function returns arrays and numbers, "
            "and tuples, lists and dicts of them"
        ) from None


def _is_beyond_int64(value: Any) -> bool:
    """Return whether a value is a known integer of Python that int64 does not hold."""
    if isinstance(value, Const) and value.weak:
        value = value.value
    return type(value) is int and not -(2**63) <= value < 2**63
