"""Operators that move elements: other shapes and orders, joined and split tensors, slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.arrays import joining, rearranging, shaping
from schedlang.arrays.elementwise import array as broadcasted
from schedlang.arrays.shapes import axis_number, extent
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, cast, const, select
from schedlang.signatures import public
from schedlang.tvm.tir import te_dtype
from schedlang.tvm.topi.checks import (
    check_numbers,
    check_same,
    check_tensor,
)

# TVM has it in this module
from schedlang.tvm.topi.gathering import one_hot as one_hot
from schedlang.tvm.topi.rules import integers, listed, one_of, operator, tensor
from schedlang.tvm.topi.stages import compute, names_of_user, stage_of


def _of_array(name: str, function: Callable[..., Any], source: Any, *args: Any) -> Tensor:
    """Return ``function(source, *args)`` of arrays as a stage; its errors name ``topi.<name>``."""
    check_tensor(f"topi.{name}", source, "a")
    with names_of_user(f"np.{function.__name__}", f"topi.{name}"):
        return stage_of(function(source, *args), source)


@operator(a=tensor())
def expand_dims(a: Any, axis: int, num_newaxis: int = 1) -> Tensor:
    """Return ``a`` with ``num_newaxis`` dimensions of extent 1 before dimension ``axis``.

    >>> import schedlang as sl
    >>> expand_dims(sl.placeholder((3, 4), name="A"), 1, 2)
    Tensor(expand_dims: float32[3, 1, 1, 4])
    """
    (count,) = check_numbers("topi.expand_dims", num_newaxis, "num_newaxis", (1,), 1)
    at = axis_number(axis, a.ndim + 1, "topi.expand_dims")
    return _of_array("expand_dims", shaping.expand_dims, a, tuple(range(at, at + count)))


@public
def transpose(a: Any, axes: Any = None) -> Tensor:
    """Return ``a`` with its dimensions reversed, or in the order ``axes``.

    >>> import schedlang as sl
    >>> transpose(sl.placeholder((3, 4, 5), name="A"), (0, 2, 1))
    Tensor(transpose: float32[3, 5, 4])
    """
    return _of_array("transpose", shaping.transpose, a, axes)


@operator(a=tensor())
def flip(a: Any, axis: int = 0) -> Tensor:
    """Return ``a`` with dimension ``axis`` in reverse.

    >>> import schedlang as sl
    >>> flip(sl.placeholder((3, 4), name="A"), 1)
    Tensor(flip: float32[3, 4])
    """
    along = axis_number(axis, a.ndim, "topi.flip")
    last = as_expr(a.shape[along]) - 1 if a.ndim else 0
    return compute(
        "flip", a.shape, lambda *i: a.element((*i[:along], last - i[along], *i[along + 1 :]))
    )


@operator(a=tensor(), seq_lengths=integers("batch"))
def reverse_sequence(a: Any, seq_lengths: Any, seq_axis: int = 1, batch_axis: int = 0) -> Tensor:
    """Return ``a`` with the first ``seq_lengths[b]`` elements along ``seq_axis`` in reverse.

    b is the index of dimension ``batch_axis``. Lengths beyond the extent count as the extent, and
    lengths below 1 as 1.

    >>> import schedlang as sl
    >>> n = sl.placeholder((3,), "int32", name="n")
    >>> reverse_sequence(sl.placeholder((3, 5), name="A"), n)
    Tensor(reverse_sequence: float32[3, 5])
    """
    asked = "topi.reverse_sequence"
    along = axis_number(seq_axis, a.ndim, asked, "seq_axis")
    batch = axis_number(batch_axis, a.ndim, asked, "batch_axis")
    if along == batch:
        raise ComputeError(
            f"{asked}: seq_axis and batch_axis are both {along}; give two dimensions"
        )
    check_same(
        asked,
        seq_lengths.shape[0],
        "the number of seq_lengths",
        a.shape[batch],
        f"dimension {batch} of {a.name}",
    )
    size = a.shape[along]

    def element(*i: Axis) -> Expr:
        length = cast(seq_lengths[i[batch]], "int64")
        length = call("max", call("min", length, size), 1)
        place = select(i[along] < length, length - 1 - i[along], i[along])
        # elements of a tensor have no known range: the bounds prove the read
        place = call("max", call("min", place, as_expr(size) - 1), 0)
        return a.element((*i[:along], place, *i[along + 1 :]))

    return compute("reverse_sequence", a.shape, element)


@public
def reshape(a: Any, newshape: Any) -> Tensor:
    """Return ``a`` in row-major order with shape ``newshape``; one extent may be -1.

    >>> import schedlang as sl
    >>> reshape(sl.placeholder((3, 4), name="A"), (2, -1))
    Tensor(reshape: float32[2, 6])
    """
    return _of_array("reshape", shaping.reshape, a, newshape)


@public
def squeeze(a: Any, axis: Any = None) -> Tensor:
    """Return ``a`` without its dimensions of extent 1, or without those that ``axis`` names.

    >>> import schedlang as sl
    >>> squeeze(sl.placeholder((3, 1, 4), name="A"))
    Tensor(squeeze: float32[3, 4])
    """
    return _of_array("squeeze", shaping.squeeze, a, axis)


@operator(a_tuple=listed)
def concatenate(a_tuple: Any, axis: int = 0) -> Tensor:
    """Return tensors one after another along dimension ``axis``.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((3, 4), name="A"), sl.placeholder((2, 4), name="B")
    >>> concatenate((A, B))
    Tensor(concatenate: float32[5, 4])
    """
    with names_of_user("np.concatenate", "topi.concatenate"):
        return joining.concatenate(a_tuple, axis)


@operator(tensors=listed)
def stack(tensors: Any, axis: int = 0) -> Tensor:
    """Return tensors of one shape along a new dimension ``axis``.

    >>> import schedlang as sl
    >>> A = sl.placeholder((3, 4), name="A")
    >>> stack([A, A], 1)
    Tensor(stack: float32[3, 2, 4])
    """
    with names_of_user("np.stack", "topi.stack"):
        return joining.stack(tensors, axis)


@operator(ary=tensor())
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Return equal parts along dimension ``axis``, or the parts between ascending indices.

    >>> import schedlang as sl
    >>> A = sl.placeholder((6, 4), name="A")
    >>> [part.shape for part in split(A, 3)], [part.shape for part in split(A, [1, 4])]
    ([(2, 4), (2, 4), (2, 4)], [(1, 4), (3, 4), (2, 4)])
    """
    asked = "topi.split"
    if isinstance(indices_or_sections, np.ndarray):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (list, tuple)):
        places = check_numbers(
            asked, indices_or_sections, "indices_or_sections", (len(indices_or_sections),), 0
        )
        size = ary.shape[axis_number(axis, ary.ndim, asked)]
        beyond = isinstance(size, int) and any(place > size for place in places)
        if beyond or list(places) != sorted(places):
            raise ComputeError(
                f"{asked}: indices_or_sections={indices_or_sections} must ascend, up to {size}"
            )
    with (
        names_of_user("np.split", asked),
        names_of_user("np.array_split", asked),
        names_of_user("np.array_split makes", "a list of indices makes"),
    ):
        parts = joining.split(ary, indices_or_sections, axis)
    return [stage_of(part, ary) for part in parts]


@operator(a=tensor(), slice_mode=one_of("end", "size"))
def strided_slice(
    a: Any,
    begin: Sequence[Any],
    end: Sequence[Any],
    strides: Any = None,
    axes: Any = None,
    slice_mode: str = "end",
    assume_inbound: bool = True,
) -> Tensor:
    """Return ``a[begin:end:strides]`` of the first dimensions, or of the ones in ``axes``.

    The numbers have the meaning of Python's slices: negative ones count from the end, and ends
    beyond a dimension are cut. ``None`` is the default end, ``strides`` are 1 by default. With
    ``slice_mode="size"``, ``end`` is the number of elements, -1 for all that are left, and strides
    have no effect. ``assume_inbound`` never has an effect.

    >>> import schedlang as sl
    >>> strided_slice(sl.placeholder((8, 9), name="A"), [1, -1], [8, 0], [2, -2])
    Tensor(slice: float32[4, 4])
    """
    asked = "topi.strided_slice"
    for ends, what in ((begin, "begin"), (end, "end")):
        if not isinstance(ends, (list, tuple)):
            raise ComputeTypeError(
                f"{asked}: {what} must be a list with a number for each dimension, since the shape "
                "of the result may not depend on data"
            )
    steps = [1] * len(begin) if strides is None else list(strides)
    if len(steps) == 1 and len(begin) > 1:
        steps *= len(begin)
    named = range(len(begin)) if axes is None else axes
    dims = [axis_number(k, a.ndim, asked, "axes") for k in named]
    if not len(begin) == len(end) == len(steps) == len(dims) or len(begin) > a.ndim:
        raise ComputeError(
            f"{asked}: begin={list(begin)}, end={list(end)}, strides={steps} and axes must have "
            f"the same length, of at most the {a.ndim} dimensions of {a.name}"
        )
    items = [slice(None)] * a.ndim
    for k, first, last, step in zip(dims, begin, end, steps):
        if slice_mode == "size":
            if isinstance(last, int) and last < -1:
                raise ComputeError(f"{asked}: the size {last} must be -1 or more")
            first = 0 if first is None else first
            rest = isinstance(last, int) and last == -1
            # a start that counts from the end, with a stop at the end or beyond it
            if isinstance(first, int) and isinstance(last, int) and first < 0 <= first + last:
                rest = True
            items[k] = slice(first, None if rest else as_expr(first) + last)
        else:
            items[k] = slice(first, last, step)
    with names_of_user(a.name + "[", f"{asked} as {a.name}["):
        part: Any = a[tuple(items)]
    return stage_of(part, a)


@public
def repeat(a: Any, repeats: int, axis: int) -> Tensor:
    """Return ``a`` with each index of dimension ``axis`` repeated in place.

    >>> import schedlang as sl
    >>> repeat(sl.placeholder((3, 4), name="A"), 2, 0)
    Tensor(repeat: float32[6, 4])
    """
    return _of_array("repeat", rearranging.repeat, a, repeats, axis)


@public
def tile(a: Any, reps: Any) -> Tensor:
    """Return ``a`` repeated whole, ``reps`` times along each dimension.

    >>> import schedlang as sl
    >>> tile(sl.placeholder((3, 4), name="A"), (2, 1))
    Tensor(tile: float32[6, 4])
    """
    return _of_array("tile", rearranging.tile, a, reps)


@operator(a_tuple=listed, indexing=one_of("ij", "xy"))
def meshgrid(a_tuple: Any, indexing: str) -> list[Tensor]:
    """Return the coordinates of a grid along each dimension, from vectors.

    >>> import schedlang as sl
    >>> x, y = sl.placeholder((3,), name="x"), sl.placeholder((4,), name="y")
    >>> [grid.shape for grid in meshgrid((x, y), "ij")]
    [(3, 4), (3, 4)]
    """
    for k, vector in enumerate(a_tuple):
        check_tensor("topi.meshgrid", vector, f"a_tuple[{k}]")
    grids = shaping.meshgrid(*a_tuple, indexing=indexing)
    return [stage_of(grid, *a_tuple) for grid in grids]


@operator(data=tensor())
def trilu(data: Any, k: int, upper: bool) -> Tensor:
    """Return the part of matrices above (``upper``) or below diagonal ``k``, zeros elsewhere.

    >>> import schedlang as sl
    >>> trilu(sl.placeholder((4, 4), name="A"), 0, True)
    Tensor(triu: float32[4, 4])
    """
    with names_of_user("np.triu" if upper else "np.tril", "topi.trilu"):
        return rearranging.triangle(data, k, bool(upper))


@operator(data=tensor())
def sliding_window(
    data: Any, axis: int, window_shape: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """Return the windows of ``data`` over its dimensions from ``axis`` on.

    The result is ``[dimensions before axis, windows along each, elements of a window]``.

    >>> import schedlang as sl
    >>> sliding_window(sl.placeholder((2, 8, 9), name="A"), 1, [3, 4], [2, 1])
    Tensor(sliding_window: float32[2, 3, 6, 3, 4])
    """
    asked = "topi.sliding_window"
    first = axis_number(axis, data.ndim, asked)
    count = data.ndim - first
    sizes = check_numbers(asked, list(window_shape), "window_shape", (count,), 1)
    steps = check_numbers(asked, list(strides), "strides", (count,), 1)
    counts = []
    for k, (size, step) in enumerate(zip(sizes, steps)):
        length = data.shape[first + k]
        if isinstance(length, int) and length < size:
            raise ComputeError(
                f"{asked}: a window of {size} does not fit in the {length} elements of dimension "
                f"{first + k} of {data.name}"
            )
        counts.append(extent((as_expr(length) - size) // step + 1))
    return compute(
        "sliding_window",
        (*data.shape[:first], *counts, *sizes),
        lambda *i: data.element(
            (*i[:first], *(i[first + k] * step + i[data.ndim + k] for k, step in enumerate(steps)))
        ),
    )


@operator(array=tensor())
def shape(array: Any, dtype: str = "int32") -> Tensor:
    """Return the shape of ``array`` as a vector.

    >>> import schedlang as sl
    >>> shape(sl.placeholder((3, sl.var("n")), name="A"))
    Tensor(shape: int32[2])
    """
    kind = te_dtype(dtype)

    def element(i: Axis) -> Expr:
        extent: Expr = const(0, kind)
        for k, size in reversed(list(enumerate(array.shape))):
            extent = select(i.equal(k), cast(size, kind), extent)
        return extent

    return compute("shape", (array.ndim,), element)


@operator(array=tensor())
def ndarray_size(array: Any, dtype: str = "int32") -> Tensor:
    """Return the number of elements of ``array`` as a 0-d tensor.

    >>> import schedlang as sl
    >>> ndarray_size(sl.placeholder((3, 4), name="A"))
    Tensor(ndarray_size: int32[])
    """
    return compute("ndarray_size", (), lambda: cast(array.size, te_dtype(dtype)))


@operator(data=tensor(), valid_length=integers("batch"))
def sequence_mask(data: Any, valid_length: Any, mask_value: Any = 0, axis: int = 0) -> Tensor:
    """Return ``data`` with ``mask_value`` after the first ``valid_length[b]`` elements of ``axis``.

    ``axis`` is 0 or 1, and the other of the two is the batch b.

    >>> import schedlang as sl
    >>> n = sl.placeholder((3,), "int32", name="n")
    >>> sequence_mask(sl.placeholder((5, 3), name="A"), n)
    Tensor(sequence_mask: float32[5, 3])
    """
    asked = "topi.sequence_mask"
    if isinstance(axis, bool) or axis not in (0, 1) or data.ndim < 2:
        raise ComputeError(
            f"{asked}: axis={axis} must be 0 or 1 of a tensor of two dimensions or more; "
            f"{data.name} has shape {shape_text(data.shape)}"
        )
    check_same(
        asked,
        valid_length.shape[0],
        "the number of valid_length",
        data.shape[1 - axis],
        f"dimension {1 - axis} of {data.name}",
    )
    filler = cast(as_expr(mask_value), data.dtype)
    return compute(
        "sequence_mask",
        data.shape,
        lambda *i: select(i[axis] < valid_length[i[1 - axis]], data[i], filler),
    )


@public
def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Return ``x`` where ``condition`` is not 0, else ``y``; all three broadcast.

    >>> import schedlang as sl
    >>> A, c = sl.placeholder((3, 4), name="A"), sl.placeholder((4,), "bool", name="c")
    >>> where(c, A, 0)
    Tensor(where: float32[3, 4])
    """

    def value(chosen: Expr, left: Expr, right: Expr) -> Expr:
        return select(chosen if chosen.dtype == "bool" else chosen != 0, left, right)

    return broadcasted("where", value, condition, x, y, asked="topi.where")
