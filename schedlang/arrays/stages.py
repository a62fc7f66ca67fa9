"""Stages of operations on arrays: their axes, the reads of their operands, and views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.operands import Operand, operand
from schedlang.arrays.shapes import is_one
from schedlang.compute.define import define
from schedlang.compute.read import Read
from schedlang.compute.reduce import Reduction
from schedlang.compute.tensor import ComputeOp, Extent, Shape, Tensor
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.expr.visit import rewrite
from schedlang.index.simplify import simplify
from schedlang.language.construct import as_expr, settle

LETTERS = "ijklmn"


def axis_names(ndim: int) -> list[str]:
    """Return names for the axes of an array: ``i``, ``j``, ..., or ``i0``, ``i1``, ... for many."""
    return list(LETTERS[:ndim]) if ndim <= len(LETTERS) else [f"i{k}" for k in range(ndim)]


def data_axes(shape: Shape, names: Sequence[str] | None = None) -> tuple[Axis, ...]:
    """Return an axis for each dimension of ``shape``."""
    return tuple(Axis(n, e) for n, e in zip(names or axis_names(len(shape)), shape))


def stage(word: str, axes: tuple[Axis, ...], value: Any) -> Tensor:
    """Return the tensor whose element over ``axes`` is ``value``, named after ``word``.

    A weak value gets NumPy's default dtype, float64 or int64.
    """
    checked = value if isinstance(value, Reduction) else settle(as_expr(value), "float64")
    tensor: Tensor = define(automatic_name(word), axes, checked)
    mark_automatic(tensor)
    return tensor


def each(word: str, shape: Shape, element: Callable[..., Any]) -> Tensor:
    """Return the tensor of ``shape`` whose element at its axes is ``element(*axes)``."""
    axes = data_axes(shape)
    return stage(word, axes, element(*axes))


def view(
    word: str,
    source: Tensor,
    shape: Shape,
    indices: Callable[..., Sequence[Any]],
    names: Sequence[str] | None = None,
) -> Tensor:
    """Return the view of ``source`` whose element at its axes is at ``indices(*axes)`` of it.

    Other operations on arrays read ``source`` itself, so that a view costs nothing.
    """
    axes = data_axes(shape, names)
    tensor: Tensor = define(automatic_name(word), axes, read(source, indices(*axes)))
    mark_automatic(tensor, view=True)
    return tensor


def tensor_of(value: Any, asked: str) -> Tensor:
    """Return ``value`` as a tensor; a number or an element becomes a 0-d tensor."""
    result = operand(value, asked)
    return result if isinstance(result, Tensor) else stage("scalar", (), result)


def read(tensor: Tensor, indices: Sequence[Any]) -> Read:
    """Return the read of an element. If ``tensor`` is a view, the read is of the view's source.

    The indices must lie within the shape of ``tensor``: only the indices of its source are checked.
    """
    element: Read = tensor.element(tuple(as_expr(v) for v in indices))
    return through(element)


def through(element: Read) -> Read:
    """Return a read of a view as a read of its source, and any other read unchanged."""
    op = element.tensor.op
    if not isinstance(op, ComputeOp) or not op.view:
        return element
    (source,) = op.body
    assert isinstance(source, Read)
    values = dict(zip(op.axis, element.indices))

    def swap(node: Expr) -> Expr | None:
        return values.get(node) if isinstance(node, Axis) else None

    moved = tuple(_moved(index, swap) for index in source.indices)
    return Read(source.tensor, moved, element.dtype)


def _moved(index: Expr, swap: Callable[[Expr], Expr | None]) -> Expr:
    changed = rewrite(index, swap)
    if changed is index or isinstance(changed, (Axis, Const)):
        return changed
    return simplify(changed)


def element(value: Operand, indices: Sequence[Any], shape: Sequence[Extent]) -> Expr:
    """Return the element of ``value``, broadcast to ``shape``, at ``indices`` of that shape."""
    if not isinstance(value, Tensor):
        return value
    skipped = len(shape) - value.ndim
    at = [
        0 if is_one(own) and not is_one(full) else index
        for own, full, index in zip(value.shape, shape[skipped:], indices[skipped:])
    ]
    return read(value, at)
