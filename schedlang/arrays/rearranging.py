"""Elements in another place: repeated, tiled, rolled, flipped, padded, on or off a diagonal."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from schedlang.arrays.elementwise import array
from schedlang.arrays.joining import concatenate
from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.operands import operand
from schedlang.arrays.shapes import axis_number, axis_numbers, extent, is_one
from schedlang.arrays.shaping import broadcast_to, diagonal, ravel, reshape, swapaxes
from schedlang.arrays.stages import (
    data_axes,
    each,
    read,
    stage,
    tensor_of,
    through,
    view,
)
from schedlang.compute import boundary
from schedlang.compute.define import define
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Tensor, check_extent
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import rewrite
from schedlang.language.construct import as_expr, binary, cast, const, select


def flip(m: Any, axis: Any = None, word: str = "flip") -> Tensor:
    """Return ``np.flip``: a view with the order along ``axis`` reversed."""
    source = tensor_of(m, "np.flip")
    flipped = axis_numbers(axis, source.ndim, "np.flip")
    return view(
        word,
        source,
        source.shape,
        lambda *axes: [
            as_expr(e) - 1 - a if k in flipped else a
            for k, (a, e) in enumerate(zip(axes, source.shape))
        ],
    )


def flipud(m: Any) -> Tensor:
    """Return ``np.flipud``."""
    return flip(m, 0)


def fliplr(m: Any) -> Tensor:
    """Return ``np.fliplr``."""
    return flip(m, 1)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """Return ``np.rot90``: a view turned ``k`` quarters, from ``axes[0]`` to ``axes[1]``."""
    source = tensor_of(m, "np.rot90")
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise ComputeError(f"np.rot90: axes={axes} must name two dimensions")
    first, second = axis_numbers(axes, source.ndim, "np.rot90", "axes")
    turns = k % 4
    if turns == 0:
        return source
    if turns == 2:
        return flip(source, (first, second))
    if turns == 1:
        return swapaxes(flip(source, second), first, second)
    return flip(swapaxes(source, first, second), second)


def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """Return ``np.roll``: elements moved by ``shift``; those beyond the end return at the start."""
    source = tensor_of(a, "np.roll")
    if axis is None:
        flat = roll(ravel(source), shift, 0)
        return flat if source.ndim == 1 else reshape(flat, source.shape)
    axes = [
        axis_number(k, source.ndim, "np.roll")
        for k in (axis if isinstance(axis, (tuple, list)) else (axis,))
    ]
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    axes = axes * len(shifts) if len(axes) == 1 else axes
    if len(shifts) != len(axes):
        raise ComputeError(f"np.roll: shift={shift} and axis={axis} differ in length")
    moved: dict[int, Any] = {}
    for k, by in zip(axes, shifts):
        _index(by, "np.roll: shift")
        moved[k] = moved.get(k, 0) + by
    for k, by in list(moved.items()):
        length = source.shape[k]
        if isinstance(length, int) and isinstance(by, int):
            moved[k] = by % length if length else 0

    def indices(*at: Axis) -> Expr:
        return read(
            source,
            [
                (i - moved[k]) % source.shape[k] if k in moved and not _is_zero(moved[k]) else i
                for k, i in enumerate(at)
            ],
        )

    return each("roll", source.shape, indices)


def _is_zero(value: Any) -> bool:
    return isinstance(value, int) and value == 0


def _index(value: Any, what: str) -> None:
    """Raise unless ``value`` is an integer or an expression over sizes."""
    if isinstance(value, Expr) and value.weak and dtypes.is_integer(value.dtype):
        return
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ComputeTypeError(f"{what}={value!r} must be an integer")


def repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    """Return ``np.repeat``: each element ``repeats`` times, one after another."""
    source = tensor_of(a, "np.repeat")
    if axis is None or not source.ndim:
        source, axis = ravel(source), axis or 0
    along = axis_number(axis, source.ndim, "np.repeat")
    if isinstance(repeats, (Tensor, np.ndarray, list, tuple)):
        raise ComputeTypeError(
            explain(
                "np.repeat with a number of repeats for each element",
                "the shape of the result would depend on data",
                "Give one number, or compute which element stands at each place, and "
                "np.take(A, places).",
            )
        )
    (times,) = _extents((repeats,), "np.repeat: repeats")
    shape = [*source.shape]
    shape[along] = extent(as_expr(shape[along]) * times)
    return each(
        "repeat",
        tuple(shape),
        lambda *at: read(source, [i // times if k == along else i for k, i in enumerate(at)]),
    )


def _extents(values: Any, what: str) -> tuple[Any, ...]:
    return tuple(check_extent(v, what) for v in values)


def tile(A: Any, reps: Any) -> Tensor:
    """Return ``np.tile``: the whole array ``reps`` times along each dimension."""
    source = tensor_of(A, "np.tile")
    times = _extents(reps if isinstance(reps, (tuple, list)) else (reps,), "np.tile: reps")
    ndim = max(source.ndim, len(times))
    times = (*(1,) * (ndim - len(times)), *times)
    own = (*(1,) * (ndim - source.ndim), *source.shape)
    shape = tuple(extent(as_expr(e) * t) for e, t in zip(own, times))
    skipped = ndim - source.ndim

    def value(*at: Axis) -> Expr:
        return read(
            source,
            [
                i if is_one(t) else 0 if is_one(e) else i % e
                for i, e, t in zip(at[skipped:], source.shape, times[skipped:])
            ],
        )

    return each("tile", shape, value)


def pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Tensor:
    """Return ``np.pad`` in the modes ``constant``, ``edge``, ``reflect`` and ``wrap``."""
    source = tensor_of(array, "np.pad")
    if callable(mode) or mode not in boundary.MODES:
        raise ComputeError(
            explain(
                f"np.pad(mode={mode!r})",
                f"the modes are {', '.join(boundary.MODES)}",
                "Write the index in sl.compute, and guard it with sl.if_then_else.",
            )
        )
    widths = _widths(pad_width, source)
    values = _fill(constant_values) if mode == "constant" else None
    tensor = boundary.pad(
        source,
        [w[0] for w in widths],
        [w[1] for w in widths],
        mode,
        None
        if values is None
        else cast(values, source.dtype)
        if isinstance(values, Expr)
        else const(np.dtype(source.dtype).type(values)),
        name=automatic_name("pad"),
    )
    op = tensor.op
    if isinstance(op, ComputeOp) and any(t is source for t in op.input_tensors):
        # its indices lie within the view that is padded
        body = rewrite(op.body[0], lambda node: through(node) if isinstance(node, Read) else None)
        tensor = define(op.name, op.axis, body)
    mark_automatic(tensor)
    return tensor


def _fill(value: Any) -> Any:
    items = value
    while isinstance(items, (tuple, list)):
        if len(items) != 1 and any(v != items[0] for v in items):
            raise ComputeTypeError(
                f"np.pad: constant_values={value} must be one number; pad each side with a call "
                "of its own"
            )
        items = items[0]
    fill = operand(items, "np.pad with constant_values=")
    if isinstance(fill, Tensor):
        return fill.as_scalar()
    return items if not isinstance(items, Expr) else fill


def _widths(widths: Any, source: Tensor) -> list[tuple[Any, Any]]:
    """Return the width before and after each dimension, from any of NumPy's forms."""
    if isinstance(widths, dict):
        pairs: list[tuple[Any, Any]] = [(0, 0)] * source.ndim
        for k, width in widths.items():
            pair = width if isinstance(width, (tuple, list)) else (width, width)
            pairs[axis_number(k, source.ndim, "np.pad", "pad_width")] = (pair[0], pair[1])
        return pairs
    if isinstance(widths, np.ndarray):
        widths = widths.tolist()
    if not isinstance(widths, (tuple, list)):
        return [(widths, widths)] * source.ndim
    items = list(widths)
    if items and not isinstance(items[0], (tuple, list)):
        if len(items) == 1:
            return [(items[0], items[0])] * source.ndim
        if len(items) == 2:
            return [(items[0], items[1])] * source.ndim
    nested = [tuple(v) if isinstance(v, (tuple, list)) else (v,) for v in items]
    nested = [(v[0], v[0]) if len(v) == 1 else v for v in nested]
    if len(nested) == 1:
        nested = nested * source.ndim
    if len(nested) != source.ndim or any(len(v) != 2 for v in nested):
        raise ComputeError(
            f"np.pad of {source.name}: pad_width={widths} is not a pair (before, after) for each "
            f"of the {source.ndim} dimensions"
        )
    return [(v[0], v[1]) for v in nested]


def fftshift(x: Any, axes: Any = None, back: bool = False) -> Tensor:
    """Return ``np.fft.fftshift``: the element of frequency 0 in the middle; ``back`` undoes it."""
    source = tensor_of(x, "np.fft.fftshift")
    numbers = axis_numbers(axes, source.ndim, "np.fft.fftshift", "axes")
    halves = [extent(as_expr(source.shape[k]) // 2) for k in numbers]
    shifts = [extent(as_expr(h) * -1) for h in halves] if back else halves
    return roll(source, tuple(shifts), numbers) if numbers else source


def diff(a: Any, n: int = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Return ``np.diff``: each element less the one before it, ``n`` times."""
    source = tensor_of(a, "np.diff")
    if isinstance(n, bool) or not hasattr(n, "__index__") or n < 0:
        raise ComputeError(f"np.diff: n={n!r} must be an integer of 0 or more")
    along = axis_number(axis, source.ndim, "np.diff")
    parts = [_edge(v, source, along) for v in (prepend, source, append) if v is not None]
    if len(parts) > 1:
        source = concatenate(parts, along)
    op = partial(binary, "!=" if source.dtype == "bool" else "-")
    before = (slice(None),) * along
    for _ in range(n):
        source = array(
            "diff", op, source[before + (slice(1, None),)], source[before + (slice(None, -1),)]
        )
    return source


def _edge(value: Any, source: Tensor, along: int) -> Tensor:
    """Return what stands before or after ``source``: a scalar is one element thick."""
    if value is source:
        return source
    edge = tensor_of(value, "np.diff")
    if edge.ndim:
        return edge
    return broadcast_to(edge, [1 if k == along else e for k, e in enumerate(source.shape)])


def triangle(m: Any, k: int = 0, upper: bool = False) -> Tensor:
    """Return ``np.tril`` or ``np.triu``: zeros on one side of the diagonal ``k``."""
    asked = "np.triu" if upper else "np.tril"
    source = tensor_of(m, asked)
    _index(k, f"{asked}: k")
    if source.ndim == 1:
        source = broadcast_to(source, (source.shape[0], source.shape[0]))
    if source.ndim < 1:
        raise ComputeError(f"{asked} of {source.name}: a scalar has no triangle")
    axes = data_axes(source.shape)
    row, column = axes[-2:]
    inside = column >= row + k if upper else column <= row + k
    value = select(inside, read(source, axes), const(0, source.dtype))
    return stage("triu" if upper else "tril", axes, value)


def diag(v: Any, k: int = 0) -> Tensor:
    """Return ``np.diag``: a matrix with the diagonal ``v``, or the diagonal of a matrix."""
    source = tensor_of(v, "np.diag")
    if source.ndim == 2:
        return diagonal(source, k)
    if source.ndim != 1:
        raise ComputeError(f"np.diag of {source.name}: it takes a vector or a matrix")
    _index(k, "np.diag: k")
    size = extent(as_expr(source.shape[0]) + abs(k))

    def value(i: Axis, j: Axis) -> Expr:
        place = i if k >= 0 else j
        return select(binary("==", j, i + k), read(source, [place]), const(0, source.dtype), True)

    return each("diag", (size, size), value)
