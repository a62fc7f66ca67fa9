"""Operators that read at indices from a tensor, and tensors made from indices."""

from __future__ import annotations

from typing import Any

from schedlang.arrays import scans
from schedlang.arrays.creation import arange as evenly_spaced
from schedlang.arrays.shapes import axis_number, broadcast
from schedlang.arrays.shaping import extents, ravel
from schedlang.arrays.stages import element as broadcast_element
from schedlang.compute.math import if_then_else
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, cast, const, select
from schedlang.signatures import public
from schedlang.tvm.tir import te_dtype
from schedlang.tvm.topi.checks import (
    check_index,
    check_numbers,
    check_same,
    check_tensor,
)
from schedlang.tvm.topi.rules import integers, one_of, operator, tensor
from schedlang.tvm.topi.stages import compute, names_of_user, stage_of

MODES = ("clip", "wrap", "fast")


@operator(a=tensor(), indices=integers(), mode=one_of(*MODES))
def take(
    a: Any, indices: Any, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> Tensor:
    """Return the elements of ``a`` at ``indices`` along ``axis``, by default of ``a`` flattened.

    ``mode="clip"`` reads the first or last element for an index out of range, ``"wrap"`` counts
    around, and ``"fast"`` promises that there is none. ``a`` and ``indices`` share their first
    ``batch_dims`` dimensions.

    >>> import numpy as np, schedlang as sl
    >>> A, i = sl.placeholder((3,), name="A"), sl.placeholder((2,), "int32", name="i")
    >>> sl.reference(take(A, i))(np.array([5, 6, 7], "float32"), np.array([2, 9], "int32"))
    array([7., 7.], dtype=float32)
    """
    asked = "topi.take"
    source = a if axis is not None else ravel(a)
    along = axis_number(0 if axis is None else axis, source.ndim, asked)
    (batch,) = check_numbers(asked, batch_dims, "batch_dims", (1,), 0)
    if batch > min(along, indices.ndim):
        raise ComputeError(
            f"{asked}: batch_dims={batch} must be at most axis={along} and the {indices.ndim} "
            f"dimensions of indices {indices.name}"
        )
    for k in range(batch):
        check_same(
            asked,
            a.shape[k],
            f"dimension {k} of {a.name}",
            indices.shape[k],
            f"dimension {k} of indices {indices.name}",
        )
    inner = indices.ndim - batch
    if _is_empty(source.shape[along]) and not any(map(_is_empty, indices.shape)):
        raise ComputeError(
            f"{asked} of {a.name} of shape {shape_text(a.shape)}: there is no element to take"
            + ("" if axis is None else f" along axis={axis}")
        )
    shape = (*source.shape[:along], *indices.shape[batch:], *source.shape[along + 1 :])

    def element(*i: Axis) -> Expr:
        at = (*i[:batch], *i[along : along + inner])
        chosen = indices.element(at) if at else indices.as_scalar()
        place = _placed(chosen, source.shape[along], mode)
        return source.element((*i[:along], place, *i[along + inner :]))

    return compute("take", shape, element)


def _is_empty(size: Extent) -> bool:
    return isinstance(size, int) and size == 0


def _placed(index: Expr, size: Extent, mode: str) -> Expr:
    """Return ``index`` in a dimension of ``size``, out of range as ``mode`` says."""
    wide = cast(index, "int64")
    if mode == "clip":
        return call("max", call("min", wide, as_expr(size) - 1), 0)
    return wide % size if mode == "wrap" else wide


@operator(data=tensor(), indices=integers())
def gather(data: Any, axis: int, indices: Any) -> Tensor:
    """Return, for each of the ``indices``, the element of ``data`` there along ``axis``.

    ``indices`` has the shape of ``data`` but for ``axis``. Its values must lie in the dimension;
    ``target="python"`` checks them.

    >>> import schedlang as sl
    >>> i = sl.placeholder((3, 2), "int32", name="i")
    >>> gather(sl.placeholder((3, 4), name="A"), 1, i)
    Tensor(gather: float32[3, 2])
    """
    asked = "topi.gather"
    along = axis_number(axis, data.ndim, asked)
    if indices.ndim != data.ndim:
        raise ComputeError(
            f"{asked}: indices {indices.name} of shape {shape_text(indices.shape)} must have the "
            f"{data.ndim} dimensions of {data.name}"
        )
    for k in range(data.ndim):
        if k != along:
            check_same(
                asked,
                data.shape[k],
                f"dimension {k} of {data.name}",
                indices.shape[k],
                f"dimension {k} of indices {indices.name}",
            )
    return compute(
        "gather",
        indices.shape,
        lambda *i: data.element((*i[:along], cast(indices[i], "int64"), *i[along + 1 :])),
    )


@operator(a=tensor(), indices=integers())
def gather_nd(a: Any, indices: Any, batch_dims: int = 0) -> Tensor:
    """Return ``a[indices[0, ...], indices[1, ...], ...]``: m indices for m dimensions.

    ``indices`` is ``[m, ...]`` for the m dimensions of ``a`` after the first ``batch_dims``, which
    ``indices`` has after its first dimension, too. The values must lie in the dimensions;
    ``target="python"`` checks them.

    >>> import schedlang as sl
    >>> i = sl.placeholder((2, 5), "int32", name="i")
    >>> gather_nd(sl.placeholder((3, 4, 6), name="A"), i)
    Tensor(gather_nd: float32[5, 6])
    """
    asked = "topi.gather_nd"
    (batch,) = check_numbers(asked, batch_dims, "batch_dims", (1,), 0)
    count = indices.shape[0] if indices.ndim else None
    if not isinstance(count, int) or batch + count > a.ndim or batch > indices.ndim - 1:
        raise ComputeError(
            f"{asked}: indices {indices.name} of shape {shape_text(indices.shape)} must have a "
            f"first dimension of at most {a.ndim - batch}, the dimensions of {a.name} after "
            f"batch_dims={batch}"
        )
    for k in range(batch):
        check_same(
            asked,
            a.shape[k],
            f"dimension {k} of {a.name}",
            indices.shape[k + 1],
            f"dimension {k + 1} of indices {indices.name}",
        )
    places = indices.ndim - 1
    rest = a.shape[batch + count :]

    def element(*i: Axis) -> Expr:
        read = [cast(indices.element((k, *i[:places])), "int64") for k in range(count)]
        return a.element((*i[:batch], *read, *i[places:]))

    return compute("gather_nd", (*indices.shape[1:], *rest), element)


@operator(data=tensor())
def adv_index(data: Any, indices: Any) -> Tensor:
    """Return ``data[indices[0], indices[1], ...]`` with NumPy's meaning; index tensors broadcast.

    >>> import schedlang as sl
    >>> i = sl.placeholder((5,), "int32", name="i")
    >>> adv_index(sl.placeholder((3, 4, 6), name="A"), [i, i])
    Tensor(adv_index: float32[5, 6])
    """
    asked = "topi.adv_index"
    if not isinstance(indices, (list, tuple)) or not 0 < len(indices) <= data.ndim:
        raise ComputeError(
            f"{asked}: indices must be a list of at most {data.ndim} tensors, the dimensions of "
            f"{data.name}"
        )
    for k, index in enumerate(indices):
        check_tensor(asked, index, f"indices[{k}]")
        check_index(asked, index, f"indices[{k}]")
    common = broadcast([t.shape for t in indices], f"{asked} with indices")

    def element(*i: Axis) -> Expr:
        own = i[: len(common)]
        read = []
        for index, size in zip(indices, data.shape):
            value = cast(broadcast_element(index, own, common), "int64")
            read.append(select(value < 0, value + size, value))
        return data.element((*read, *i[len(common) :]))

    return compute("adv_index", (*common, *data.shape[len(indices) :]), element)


@operator(indices=integers())
def one_hot(
    indices: Any, on_value: Any, off_value: Any, depth: int, axis: int, dtype: Any
) -> Tensor:
    """Return ``on_value`` where the index along the new dimension ``axis`` is in ``indices``.

    Elsewhere it is ``off_value``, also for an index that is not in ``0..depth``. Both are numbers
    or 0-d tensors, cast to ``dtype``; ``axis=-1`` is a new last dimension.

    >>> import numpy as np, schedlang as sl
    >>> i = sl.placeholder((2,), "int32", name="i")
    >>> sl.reference(one_hot(i, 1, 0, 3, -1, "int32"))(np.array([2, 0], "int32"))
    array([[0, 0, 1],
           [1, 0, 0]], dtype=int32)
    """
    asked = "topi.one_hot"
    (count,) = check_numbers(asked, depth, "depth", (1,), 1)
    along = axis_number(axis, indices.ndim + 1, asked)
    kind = te_dtype(dtype)
    on, off = (
        cast(v.as_scalar() if isinstance(v, Tensor) else as_expr(v), kind)
        for v in (on_value, off_value)
    )

    def element(*i: Axis) -> Expr:
        rest = (*i[:along], *i[along + 1 :])
        index = indices[rest] if rest else indices.as_scalar()
        return select(cast(index, "int64").equal(i[along]), on, off)

    shape = (*indices.shape[:along], count, *indices.shape[along:])
    return compute("one_hot", shape, element)


@operator(indices=integers())
def unravel_index(indices: Any, shape: Any) -> Tensor:
    """Return the coordinates, ``[dimensions, ...]``, of flat ``indices`` into a ``shape``.

    ``shape`` is a tuple of extents (TVM takes a tensor).

    >>> import numpy as np, schedlang as sl
    >>> i = sl.placeholder((3,), "int32", name="i")
    >>> sl.reference(unravel_index(i, (7, 6)))(np.array([22, 41, 37], "int32"))
    array([[3, 6, 6],
           [4, 5, 1]], dtype=int32)
    """
    asked = "topi.unravel_index"
    if not isinstance(shape, (list, tuple)) or not shape:
        raise ComputeTypeError(f"{asked}: shape={shape!r} must be a tuple of one extent or more")
    sizes = extents(shape, asked)

    def element(k: Axis, *i: Axis) -> Expr:
        rest: Expr = cast(indices[i] if i else indices.as_scalar(), "int64")
        coordinate: Expr = as_expr(0)
        for number in range(len(sizes) - 1, -1, -1):
            part = rest % sizes[number] if number else rest
            coordinate = select(k.equal(number), part, coordinate)
            rest = rest // sizes[number]
        return cast(coordinate, indices.dtype)

    return compute("unravel_index", (len(sizes), *indices.shape), element)


@public
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "float32") -> Tensor:
    """Return ``start``, ``start + step``, ... up to ``stop``, which is excluded.

    ``arange(n)`` starts at 0.

    >>> import schedlang as sl
    >>> sl.reference(arange(1, 6, 2, "int32"))()
    array([1, 3, 5], dtype=int32)
    """
    bounds = (0, start, step) if stop is None else (start, stop, step)
    with names_of_user("np.arange", "topi.arange"):
        return stage_of(evenly_spaced(*bounds, dtype=te_dtype(dtype)))


@public
def cumsum(data: Any, axis: Any = None, dtype: Any = None, exclusive: Any = None) -> Tensor:
    """Return running sums along ``axis``, by default of ``data`` flattened.

    The dtype is the dtype of ``data`` unless ``dtype`` is given. With ``exclusive`` an element does
    not count in its own sum. It is a scan, whose axis is not parallel.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), "int32", name="A")
    >>> sl.reference(cumsum(A))(np.array([1, 2, 3], "int32"))
    array([1, 3, 6], dtype=int32)
    """
    return _running("cumsum", "add", 0, data, axis, dtype, exclusive)


@public
def cumprod(data: Any, axis: Any = None, dtype: Any = None, exclusive: Any = None) -> Tensor:
    """Return running products along ``axis``, or of all elements in a row; see :func:`cumsum`.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), "int32", name="A")
    >>> sl.reference(cumprod(A, exclusive=True))(np.array([2, 3, 4], "int32"))
    array([1, 2, 6], dtype=int32)
    """
    return _running("cumprod", "multiply", 1, data, axis, dtype, exclusive)


def _running(
    name: str, form: str, first: int, data: Any, axis: Any, dtype: Any, exclusive: Any
) -> Tensor:
    asked = f"topi.{name}"
    check_tensor(asked, data, "data")
    kind = te_dtype(dtype) if dtype is not None else data.dtype
    if kind == "bool":
        raise ComputeTypeError(f"{asked} of {data.name}: give dtype=, since it is of bools")
    folded = scans.running_fold(form, data, axis, kind, asked)
    if not exclusive:
        return stage_of(folded)
    along = axis_number(0 if axis is None else axis, folded.ndim, asked)
    start = const(first, kind)

    def element(*i: Axis) -> Expr:
        before = folded.element((*i[:along], i[along] - 1, *i[along + 1 :]))
        return if_then_else(i[along] >= 1, before, start)

    return compute(f"{name}_exclusive", folded.shape, element)
