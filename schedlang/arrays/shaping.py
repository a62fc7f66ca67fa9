"""Views of other shapes: transposed, reshaped, broadcast, with dimensions added or left out."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from schedlang.arrays.shapes import (
    at_least_0,
    axis_number,
    axis_numbers,
    broadcast,
    extent,
    is_one,
    multiples_that_fit,
    same,
    size_of,
    smallest,
    unfit,
)
from schedlang.arrays.stages import axis_names, tensor_of, view
from schedlang.compute.tensor import Shape, Tensor, check_extent, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr


def permute(source: Tensor, order: Sequence[int], word: str = "transpose") -> Tensor:
    """Return the view whose dimension ``k`` is dimension ``order[k]`` of ``source``."""
    if list(order) == list(range(source.ndim)):
        return source
    names = axis_names(source.ndim)
    back = [list(order).index(k) for k in range(source.ndim)]
    return view(
        word,
        source,
        tuple(source.shape[k] for k in order),
        lambda *axes: [axes[k] for k in back],
        [names[k] for k in order],
    )


def transpose(a: Any, axes: Any = None) -> Tensor:
    """Return ``np.transpose``: the dimensions reversed, or in the order ``axes``."""
    source = tensor_of(a, "np.transpose")
    if axes is None:
        return permute(source, range(source.ndim)[::-1])
    order = axis_numbers(axes, source.ndim, "np.transpose", "axes")
    if len(order) != source.ndim:
        raise ComputeError(
            f"np.transpose of {source.name}: axes={axes} has {len(order)} entries, but "
            f"{source.name} has {source.ndim} dimensions; name each once"
        )
    return permute(source, order)


def matrix_transpose(a: Any) -> Tensor:
    """Return ``np.matrix_transpose``: the last two dimensions swapped."""
    source = tensor_of(a, "np.matrix_transpose")
    if source.ndim < 2:
        raise ComputeError(
            f"np.matrix_transpose of {source.name}: it has {source.ndim} "
            f"dimension{'s' * (source.ndim != 1)}, and a matrix two or more"
        )
    return swapaxes(source, -1, -2)


def swapaxes(a: Any, axis1: Any, axis2: Any) -> Tensor:
    """Return ``np.swapaxes``."""
    source = tensor_of(a, "np.swapaxes")
    first = axis_number(axis1, source.ndim, "np.swapaxes", "axis1")
    second = axis_number(axis2, source.ndim, "np.swapaxes", "axis2")
    order = list(range(source.ndim))
    order[first], order[second] = order[second], order[first]
    return permute(source, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """Return ``np.moveaxis``."""
    tensor = tensor_of(a, "np.moveaxis")
    start = axis_numbers(_given(source), tensor.ndim, "np.moveaxis", "source")
    end = axis_numbers(_given(destination), tensor.ndim, "np.moveaxis", "destination")
    if len(start) != len(end):
        raise ComputeError(
            f"np.moveaxis of {tensor.name}: source={source} and destination={destination} must "
            "name the same number of dimensions"
        )
    order = [k for k in range(tensor.ndim) if k not in start]
    for to, origin in sorted(zip(end, start)):
        order.insert(to, origin)
    return permute(tensor, order)


def _given(axes: Any) -> Any:
    """Return ``axes``; ``None``, which elsewhere means all, is refused as no integer."""
    return (axes,) if axes is None else axes


def rollaxis(a: Any, axis: Any, start: int = 0) -> Tensor:
    """Return ``np.rollaxis``."""
    source = tensor_of(a, "np.rollaxis")
    moved = axis_number(axis, source.ndim, "np.rollaxis")
    to = start + source.ndim if start < 0 else start
    return moveaxis(source, moved, to - 1 if moved < to else to)


def expand_dims(a: Any, axis: Any) -> Tensor:
    """Return ``np.expand_dims``."""
    source = tensor_of(a, "np.expand_dims")
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    new = axis_numbers(axis, source.ndim + count, "np.expand_dims")
    names, old = axis_names(source.ndim), iter(range(source.ndim))
    sources = [None if k in new else next(old) for k in range(source.ndim + count)]
    return view(
        "expand_dims",
        source,
        tuple(1 if k is None else source.shape[k] for k in sources),
        lambda *axes: [axis for axis, k in zip(axes, sources) if k is not None],
        [f"n{at}" if k is None else names[k] for at, k in enumerate(sources)],
    )


def squeeze(a: Any, axis: Any = None) -> Tensor:
    """Return ``np.squeeze``: without the dimensions of extent 1."""
    source = tensor_of(a, "np.squeeze")
    if axis is None:
        gone = tuple(k for k, e in enumerate(source.shape) if is_one(e))
    else:
        gone = axis_numbers(axis, source.ndim, "np.squeeze")
        long = next((k for k in gone if not is_one(source.shape[k])), None)
        if long is not None:
            raise ComputeError(
                f"np.squeeze of {source.name}: dimension {long} has extent {source.shape[long]}; "
                "only dimensions of extent 1 can be left out"
            )
    names = axis_names(source.ndim)
    dimensions = [k for k in range(source.ndim) if k not in gone]
    if not gone:
        return source
    return view(
        "squeeze",
        source,
        tuple(source.shape[k] for k in dimensions),
        lambda *axes: [
            axes[dimensions.index(k)] if k in dimensions else 0 for k in range(source.ndim)
        ],
        [names[k] for k in dimensions],
    )


def broadcast_to(a: Any, shape: Any) -> Tensor:
    """Return ``np.broadcast_to``."""
    source = tensor_of(a, "np.broadcast_to")
    target = extents(shape, "np.broadcast_to")
    common = broadcast([source.shape, target], f"np.broadcast_to of {source.name}")
    if len(common) != len(target) or not all(map(same, common, target)):
        raise ComputeError(
            explain(
                f"np.broadcast_to({source.name}, {shape_text(target)})",
                f"{source.name} of shape {shape_text(source.shape)} does not broadcast to it",
                "A dimension of extent 1 stretches, and new ones come first.",
            )
        )
    skipped = len(target) - source.ndim
    return view(
        "broadcast",
        source,
        target,
        lambda *axes: [
            0 if is_one(own) else axis for own, axis in zip(source.shape, axes[skipped:])
        ],
    )


def broadcast_arrays(*args: Any) -> tuple[Tensor, ...]:
    """Return ``np.broadcast_arrays``: views of one shape."""
    tensors = [tensor_of(a, "np.broadcast_arrays") for a in args]
    shape = broadcast([t.shape for t in tensors], "np.broadcast_arrays")
    return tuple(broadcast_to(t, shape) for t in tensors)


def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Tensor]:
    """Return ``np.meshgrid``: views of vectors along the dimensions of a grid."""
    if indexing not in ("xy", "ij"):
        raise ComputeError(f"np.meshgrid: indexing={indexing!r} is neither 'xy' nor 'ij'")
    vectors = [ravel(v) for v in xi]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    grids = [
        reshape(v, [v.shape[0] if d == order[k] else 1 for d in range(len(vectors))])
        for k, v in enumerate(vectors)
    ]
    return grids if sparse else list(broadcast_arrays(*grids))


def extents(shape: Any, asked: str) -> Shape:
    """Return a shape as a tuple of extents; one extent stands for a 1-d shape."""
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(check_extent(v, f"dimension {k} of {asked}") for k, v in enumerate(items))


def reshape(a: Any, shape: Any, copy: bool | None = None) -> Tensor:
    """Return ``np.reshape`` in row-major order; one extent may be -1.

    With symbolic sizes, the two shapes must have provably equal numbers of elements. ``copy`` has
    no effect, since tensors are never written to.
    """
    source = tensor_of(a, "np.reshape")
    asked = f"np.reshape of {source.name}"
    target = _complete(source, shape, asked)
    if not same(size_of(source.shape), size_of(target)):
        raise _other_size(source, target, asked)
    if len(target) == source.ndim and all(map(same, source.shape, target)):
        return source
    groups = _groups(source.shape, target)

    def indices(*axes: Axis) -> list[Any]:
        positions: list[Any] = []
        for old, new in groups:
            positions += _within(source.shape[old], axes[new], target[new])
        return positions

    return view("reshape", source, target, indices)


def _complete(source: Tensor, shape: Any, asked: str) -> Shape:
    items = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    unknown = [k for k, v in enumerate(items) if not isinstance(v, Expr) and v == -1]
    if len(unknown) > 1:
        raise ComputeError(f"{asked} to {tuple(items)}: only one extent may be -1")
    static = [v for k, v in enumerate(items) if k not in unknown]
    checked = list(extents(static, asked))
    if unknown:
        sizes = size_of(source.shape), size_of(checked)
        whole, part = map(to_lin, sizes)
        if not _divisible(whole, part):
            written = ", ".join("-1" if k in unknown else str(v) for k, v in enumerate(items))
            raise unfit(
                f"{asked} to ({written})",
                f"{sizes[0]} elements are not provably a multiple of {sizes[1]}",
                "Give every extent, for as many elements as in an array of shape "
                f"{shape_text(source.shape)}.",
                multiples_that_fit(sizes, _divisible),
            )
        checked.insert(unknown[0], extent(to_expr(floordiv(whole, part, Ranges()))))
    return tuple(checked)


def _divisible(whole: Lin, part: Lin) -> bool:
    return part.const != 0 and mod(whole, part, Ranges()).const == 0


def _other_size(source: Tensor, wanted: Shape, asked: str) -> ComputeError:
    sizes = size_of(source.shape), size_of(wanted)
    is_static = all(isinstance(s, int) for s in sizes)
    return unfit(
        f"{asked} of shape {shape_text(source.shape)} to {shape_text(wanted)}",
        f"they have {sizes[0]} and {sizes[1]} elements"
        + ("" if is_static else ", which are not known to be equal"),
        "Give extents with the same product; -1 stands for what is left.",
        multiples_that_fit(sizes, operator.eq),
    )


def _groups(old: Shape, new: Shape) -> list[tuple[slice, slice]]:
    """Return runs of dimensions of both shapes with equal products, as short as possible."""
    groups: list[tuple[slice, slice]] = []
    i = j = first_i = first_j = 0
    left, right = to_lin(1), to_lin(1)
    while i < len(old) or j < len(new):
        # add to the side with the smaller product, if that is known
        smaller = left.const is not None and right.const is not None and left.const <= right.const
        empty = i == first_i and j == first_j
        if i < len(old) and j < len(new) and empty:
            left, right, i, j = left * to_lin(old[i]), right * to_lin(new[j]), i + 1, j + 1
        elif i < len(old) and (j == len(new) or smaller or _divides(left, right)):
            left, i = left * to_lin(old[i]), i + 1
        elif j < len(new):
            right, j = right * to_lin(new[j]), j + 1
        else:
            left, i = left * to_lin(old[i]), i + 1
        if left == right and left.const != 0:
            groups.append((slice(first_i, i), slice(first_j, j)))
            first_i, first_j, left, right = i, j, to_lin(1), to_lin(1)
    if first_i < len(old) or first_j < len(new):
        groups.append((slice(first_i, len(old)), slice(first_j, len(new))))
    return groups


def _divides(part: Lin, whole: Lin) -> bool:
    return _divisible(whole, part) and part != whole


def _within(old: Shape, axes: Sequence[Axis], new: Shape) -> list[Any]:
    """Return the indices of dimensions ``old`` at the element that ``axes`` of ``new`` number."""
    if len(old) == len(new) == 1:
        return [axes[0]]
    if to_lin(size_of(old)).const == 0:
        return [0] * len(old)
    flat: Expr = as_expr(0)
    for axis, size in zip(axes, new):
        if not is_one(size):
            flat = axis if to_lin(flat).const == 0 else flat * size + axis
    indices: list[Any] = []
    rest = flat
    for k in range(len(old)):
        stride = size_of(old[k + 1 :])
        if is_one(old[k]):
            indices.append(0)
        elif k == len(old) - 1 or is_one(stride):
            indices.append(rest)
        else:
            indices.append(rest // stride)
            rest = rest % stride
    return indices


def ravel(a: Any) -> Tensor:
    """Return ``np.ravel``: all elements in one dimension, row by row."""
    source = tensor_of(a, "np.ravel")
    return reshape(source, (size_of(source.shape),))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return ``np.diagonal`` of the dimensions ``axis1`` and ``axis2``, as the last dimension."""
    source = tensor_of(a, "np.diagonal")
    first, second = axis_numbers((axis1, axis2), source.ndim, "np.diagonal", "(axis1, axis2)")
    if isinstance(offset, bool) or not hasattr(offset, "__index__"):
        raise ComputeTypeError(f"np.diagonal: offset={offset!r} must be an integer")
    down, right = max(-offset, 0), max(offset, 0)
    ends = (
        as_expr(e) - gone
        for e, gone in zip((source.shape[first], source.shape[second]), (down, right))
    )
    length = at_least_0(smallest(*(extent(e) for e in ends)))
    rest = [k for k in range(source.ndim) if k not in (first, second)]

    def indices(*axes: Axis) -> list[Any]:
        at = axes[-1]
        positions: dict[int, Any] = dict(zip(rest, axes))
        positions[first] = at + down if down else at
        positions[second] = at + right if right else at
        return [positions[k] for k in range(source.ndim)]

    return view("diagonal", source, (*(source.shape[k] for k in rest), length), indices)
