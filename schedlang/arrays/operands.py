"""The operands of operations on arrays: tensors, and numbers and elements as 0-d arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Union

import numpy as np

from schedlang.compute.partial_index import Row
from schedlang.compute.reduce import Reduction
from schedlang.compute.tensor import Shape, Tensor
from schedlang.compute.torch_tensors import is_tensor
from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import axes_in
from schedlang.language.construct import as_expr

Operand = Union[Tensor, Expr]


def operand(value: Any, asked: str) -> Operand:
    """Return ``value`` as an operand of ``asked``: a tensor, or an expression without axes.

    A 0-d tensor stays a tensor. Raises :class:`ComputeTypeError` for an element of a computation
    (an expression with axes), and for values that are not numbers.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (Row, Reduction)):
        value.refuse()
    if isinstance(value, Expr):
        axis = axis_in(value)
        if axis is not None:
            raise ComputeTypeError(
                explain(
                    f"{asked} of {value}",
                    f"{value} is one element of a computation over {axis.name}, not an array",
                    "Inside of sl.compute, index the arrays, and reduce with sl.sum(..., axis=k), "
                    "where k = sl.reduce_axis(extent). Outside, work on whole arrays.",
                )
            )
        return value
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return as_expr(value.dtype.type(value))
        raise ComputeTypeError(
            explain(
                f"{asked} with a NumPy array of shape {value.shape}",
                "its values are data, which a computation takes as an input",
                _instead_of(value),
            )
        )
    if is_tensor(value):
        shape, kind = tuple(value.shape), str(value.dtype).removeprefix("torch.")
        raise ComputeTypeError(
            explain(
                f"{asked} with a PyTorch tensor of shape {shape}",
                "its values are data, which a computation takes as an input",
                f'Declare it, X = sl.placeholder({shape}, {kind!r}, name="X"), compute with X, and '
                "pass the tensor to the kernel; a function under @sl.jit takes it as an argument.",
            )
        )
    if isinstance(value, (list, tuple)):
        raise ComputeTypeError(
            explain(
                f"{asked} with a {type(value).__name__}",
                "an operand is a tensor or a number",
                "For tensors in a row, write np.stack([A, B]); for data, declare an input by "
                "sl.placeholder.",
            )
        )
    return as_expr(value)


def _instead_of(array: np.ndarray) -> str:
    """Return what to write instead of an array with known elements."""
    hint = (
        f"Declare it, X = sl.placeholder({array.shape}, {str(array.dtype)!r}, "
        'name="X"), compute with X, and pass the array to the kernel. A function under @sl.jit '
        "passes such arrays itself."
    )
    if array.size and array.dtype.kind in "biufc" and (array == array.flat[0]).all():
        number = array.flat[0].item()
        hint += (
            f"\nIts elements are all {number}: np.full({array.shape}, {number}, "
            f"{str(array.dtype)!r}, like=A) is a stage, where A is a tensor."
        )
    return hint


def shape_of(value: Operand) -> Shape:
    """Return the shape of an operand, ``()`` for an expression."""
    return value.shape if isinstance(value, Tensor) else ()


def axis_in(value: Expr) -> Axis | None:
    """Return an axis in ``value``, or ``None`` if there is none."""
    return next(iter(axes_in([value])), None)


def whole(values: Iterable[Any]) -> Tensor | None:
    """Return the first tensor of one dimension or more, or ``None``."""
    return next((v for v in values if isinstance(v, Tensor) and v.ndim), None)
