"""Arrays joined along a dimension, and split along one."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from schedlang.arrays.shapes import axis_number, extent, multiples_that_fit, same, unfit
from schedlang.arrays.shaping import expand_dims, moveaxis, ravel, reshape
from schedlang.arrays.stages import axis_names, read, stage, tensor_of
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import as_expr, cast, select


def concatenate(arrays: Any, axis: Any = 0, dtype: Any = None) -> Tensor:
    """Return ``np.concatenate``: ``arrays`` one after another along ``axis``."""
    return _joined("concatenate", _listed(arrays, "np.concatenate"), axis, dtype, "np.concatenate")


def _listed(arrays: Any, asked: str) -> list[Tensor]:
    if isinstance(arrays, Tensor):
        length = arrays.shape[0] if arrays.ndim else None
        if not isinstance(length, int):
            raise ComputeTypeError(
                f"{asked}({arrays.name}): give a list of tensors; {arrays.name} is one"
            )
        return [tensor_of(arrays[k], asked) for k in range(length)]
    if not isinstance(arrays, (list, tuple)):
        raise ComputeTypeError(f"{asked}({type(arrays).__name__}): give a list of tensors")
    if not arrays:
        raise ComputeError(f"{asked}([]): give at least one tensor")
    return [tensor_of(v, asked) for v in arrays]


def _joined(word: str, arrays: Sequence[Tensor], axis: Any, dtype: Any, asked: str) -> Tensor:
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    first = arrays[0]
    if not first.ndim:
        raise ComputeError(
            f"{asked}: {first.name} is 0-d and cannot be joined; write np.stack for scalars"
        )
    along = axis_number(axis, first.ndim, asked)
    for other in arrays[1:]:
        pairs = enumerate(zip(first.shape, other.shape))
        unequal = [pair for k, pair in pairs if k != along and not same(*pair)]
        alike = other.ndim == first.ndim
        if unequal or not alike:
            raise unfit(
                f"{asked} of shapes {shape_text(first.shape)} and {shape_text(other.shape)}",
                f"all dimensions but {along} must be equal",
                f"{first.name} and {other.name} differ there.",
                multiples_that_fit(unequal[0], operator.eq) if alike else {},
            )
    starts = _starts([a.shape[along] for a in arrays])
    shape = [*first.shape]
    shape[along] = starts[-1]
    kind = _common(arrays) if dtype is None else dtypes.canonical(dtype)
    axes = tuple(Axis(n, e) for n, e in zip(axis_names(first.ndim), shape))
    return stage(word, axes, _choice(arrays, starts, axes, along, kind))


def _starts(lengths: Sequence[Extent]) -> list[Extent]:
    """Return where each array starts, and the end of the last."""
    starts: list[Extent] = [0]
    for length in lengths:
        starts.append(extent(as_expr(starts[-1]) + length))
    return starts


def _choice(
    arrays: Sequence[Tensor], starts: Sequence[Extent], axes: Sequence[Axis], along: int, kind: str
) -> Expr:
    """Return the element at ``axes`` of the array in whose part the index lies."""
    chosen: Expr | None = None
    for tensor, start, stop in reversed(list(zip(arrays, starts, starts[1:]))):
        at: list[Any] = list(axes)
        if not (isinstance(start, int) and start == 0):
            at[along] = axes[along] - start
        value = cast(read(tensor, at), kind)
        chosen = value if chosen is None else select(axes[along] < stop, value, chosen, lazy=True)
    assert chosen is not None
    return chosen


def _common(arrays: Sequence[Tensor]) -> str:
    dtype = arrays[0].dtype
    for other in arrays[1:]:
        dtype, _ = dtypes.promote(dtype, False, other.dtype, False)
    return dtype


def stack(arrays: Any, axis: Any = 0, dtype: Any = None) -> Tensor:
    """Return ``np.stack``: ``arrays`` along a new dimension ``axis``."""
    return _stacked("stack", _listed(arrays, "np.stack"), axis, dtype, "np.stack")


def _stacked(word: str, arrays: Sequence[Tensor], axis: Any, dtype: Any, asked: str) -> Tensor:
    first = arrays[0]
    for other in arrays[1:]:
        if other.ndim != first.ndim or not all(map(same, first.shape, other.shape)):
            raise ComputeError(
                f"{asked} of shapes {shape_text(first.shape)} and {shape_text(other.shape)}: all "
                "shapes must be equal; np.concatenate joins arrays of different lengths"
            )
    along = axis_number(axis, first.ndim + 1, asked)
    return _joined(word, [expand_dims(a, along) for a in arrays], along, dtype, asked)


def _at_least(tensor: Tensor, ndim: int) -> Tensor:
    """Return ``tensor`` with new first dimensions, so that it has ``ndim`` or more."""
    missing = ndim - tensor.ndim
    return expand_dims(tensor, tuple(range(missing))) if missing > 0 else tensor


def vstack(arrays: Any, dtype: Any = None) -> Tensor:
    """Return ``np.vstack``: rows below one another."""
    listed = [_at_least(a, 2) for a in _listed(arrays, "np.vstack")]
    return _joined("vstack", listed, 0, dtype, "np.vstack")


def hstack(arrays: Any, dtype: Any = None) -> Tensor:
    """Return ``np.hstack``: arrays side by side."""
    listed = [_at_least(a, 1) for a in _listed(arrays, "np.hstack")]
    return _joined("hstack", listed, 0 if listed[0].ndim == 1 else 1, dtype, "np.hstack")


def dstack(arrays: Any) -> Tensor:
    """Return ``np.dstack``: arrays along the third dimension."""
    listed = [atleast_3d(a) for a in _listed(arrays, "np.dstack")]
    return _joined("dstack", listed, 2, None, "np.dstack")


def column_stack(arrays: Any) -> Tensor:
    """Return ``np.column_stack``: vectors as columns."""
    listed = _listed(arrays, "np.column_stack")
    listed = [a if a.ndim > 1 else reshape(a, (-1, 1)) for a in listed]
    return _joined("column_stack", listed, 1, None, "np.column_stack")


def append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    """Return ``np.append``: ``values`` after ``arr``; without ``axis``, all elements in a row."""
    listed = [tensor_of(v, "np.append") for v in (arr, values)]
    return _joined("append", listed, axis, None, "np.append")


def atleast_1d(*arrays: Any) -> Any:
    """Return ``np.atleast_1d``."""
    return _each(arrays, lambda a: _at_least(a, 1), "np.atleast_1d")


def atleast_2d(*arrays: Any) -> Any:
    """Return ``np.atleast_2d``."""
    return _each(arrays, lambda a: _at_least(a, 2), "np.atleast_2d")


def atleast_3d(*arrays: Any) -> Any:
    """Return ``np.atleast_3d``: a matrix gets a last dimension."""
    return _each(arrays, lambda a: _at_least(a, 2)[..., None] if a.ndim < 3 else a, "np.atleast_3d")


def _each(arrays: Sequence[Any], function: Any, asked: str) -> Any:
    results = tuple(function(tensor_of(a, asked)) for a in arrays)
    return results[0] if len(results) == 1 else results


def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Tensor]:
    """Return ``np.array_split``: views of parts; the first parts are longer by one."""
    source = tensor_of(ary, "np.array_split")
    along = axis_number(axis, source.ndim, "np.array_split")
    length = source.shape[along]
    if isinstance(indices_or_sections, (list, tuple)):
        ends = [0, *indices_or_sections, None]
        return [_part(source, along, a, b) for a, b in zip(ends, ends[1:])]
    count = _sections(indices_or_sections, "np.array_split")
    if not isinstance(length, int):
        raise _unknown_length("np.array_split", source, length)
    size, longer = divmod(length, count)
    ends = [0]
    for k in range(count):
        ends.append(ends[-1] + size + (k < longer))
    return [_part(source, along, a, b) for a, b in zip(ends, ends[1:])]


def _sections(given: Any, asked: str) -> int:
    if isinstance(given, bool) or not hasattr(given, "__index__") or int(given) < 1:
        raise ComputeError(f"{asked}: {given} is not a number of parts of 1 or more, or a list")
    return int(given)


def _unknown_length(asked: str, source: Tensor, length: Extent) -> ComputeError:
    return ComputeError(
        explain(
            f"{asked} of {source.name} of shape {shape_text(source.shape)}",
            f"{length} elements have no known number of equal parts",
            f"Give the indices at which to split, or slice: {source.name}[:m].",
        )
    )


def _part(source: Tensor, along: int, start: Any, stop: Any) -> Tensor:
    return source[(slice(None),) * along + (slice(start, stop),)]


def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Tensor]:
    """Return ``np.split``: views of equal parts, or of the parts between indices."""
    source = tensor_of(ary, "np.split")
    along = axis_number(axis, source.ndim, "np.split")
    length = source.shape[along]
    if not isinstance(indices_or_sections, (list, tuple)):
        count = _sections(indices_or_sections, "np.split")
        if isinstance(length, int) and length % count:
            raise ComputeError(
                f"np.split of {source.name}: {length} elements do not divide into {count} equal "
                "parts; np.array_split makes unequal ones"
            )
    return array_split(source, indices_or_sections, along)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """Return ``np.vsplit``."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """Return ``np.hsplit``."""
    source = tensor_of(ary, "np.hsplit")
    return split(source, indices_or_sections, 1 if source.ndim > 1 else 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """Return ``np.dsplit``."""
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, axis: Any = 0) -> tuple[Tensor, ...]:
    """Return ``np.unstack``: a view of each index of a dimension."""
    source = tensor_of(x, "np.unstack")
    along = axis_number(axis, source.ndim, "np.unstack")
    length = source.shape[along]
    if not isinstance(length, int):
        raise _unknown_length("np.unstack", source, length)
    rows = moveaxis(source, along, 0)
    return tuple(tensor_of(rows[k], "np.unstack") for k in range(length))
