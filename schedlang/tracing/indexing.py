"""Elements of an array by NumPy's indices, and an array in which some of them are replaced.

A part of an index is a slice, an integer or, for an element that only the call knows, an integer
expression without axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from schedlang.arrays.gathering import gather, is_array, places
from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.shapes import is_one, same, same_shape
from schedlang.arrays.slices import items_text, slice_elements
from schedlang.arrays.stages import each, tensor_of
from schedlang.compute.math import all as all_of
from schedlang.compute.math import if_then_else
from schedlang.compute.scatter import scatter
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Binary, Call, Const, Expr, Unary, Var
from schedlang.index.conditions import facts_of
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import simplify, to_lin
from schedlang.language.construct import as_expr, cast
from schedlang.tracing.choice import choice
from schedlang.tracing.spans import ranges_of_loops, slice_of
from schedlang.tracing.spread import spread
from schedlang.tracing.trace import Region, current
from schedlang.tracing.unsized import selected_places

Extent = Union[int, Expr]
# NumPy's functions on tensors; NumPy's types do not know these calls
numpy: Any = np


@dataclass(frozen=True)
class Part:
    """One dimension of an index: ``extent`` elements from ``start`` on, ``step`` apart.

    ``extent`` is ``None`` for a single element, whose dimension the result lacks. A dimension that
    ``None`` has ``added`` is not one of the array.
    """

    start: Any
    extent: Extent | None
    step: int = 1
    whole: bool = False
    added: bool = False


def select(base: Any, item: Any, under: Sequence[Expr] = ()) -> Any:
    """Return ``base[item]``, a tensor, or an expression if it is one element.

    The result matters only where the conditions ``under`` hold: elsewhere, indices may lie outside
    of ``base``.
    """
    items = item if isinstance(item, tuple) else (item,)
    if not isinstance(base, Tensor):
        base = tensor_of(base, "an index of a 0-d array")
    if any(is_array(i) for i in items):
        title = f"{base.name}[{items_text(items)}]"
        return gather(base, items, title, lambda k, i: _index(base, k, i))
    if not any(isinstance(i, Expr) or _has_expression(i) for i in items):
        if all(isinstance(i, (int, np.integer)) for i in items):
            # NumPy's words for a place outside
            _parts(base, items)
        return base[item]
    known = _assigned(base, items, under)
    if known is not None:
        return known
    parts = _parts(base, items, under)
    shape = tuple(p.extent for p in parts if p.extent is not None)
    tests = () if in_bounds(base, parts) else under

    def element(*axes: Axis) -> Any:
        rest, at = iter(axes), []
        for p in parts:
            place = as_expr(p.start) if p.extent is None else p.start + next(rest) * p.step
            at += [] if p.added else [place]
        read = base[tuple(at)]
        return if_then_else(all_of(*tests), read, Const(0, read.dtype)) if tests else read

    return each("part", shape, element) if shape else element()


def _has_expression(item: Any) -> bool:
    ends = (item.start, item.stop) if isinstance(item, slice) else ()
    return any(isinstance(end, Expr) for end in ends)


def _assigned(base: Tensor, items: Sequence[Any], under: Sequence[Expr]) -> Any:
    """Return ``base[items]`` where an assignment tells it, as a value or an element from before."""
    region = current().regions.get(base)
    if region is None:
        return None
    item = items if len(items) > 1 else items[0]
    if any(is_negation(a, b) for a in region.under for b in under):
        return select(region.base, item, under)
    parts, written = parts_of(base, items, under), parts_of_region(region)
    ranges = ranges_of_loops()
    if any(_apart(p, q, ranges) for p, q in zip(parts, written)):
        return select(region.base, item, under)
    is_single = all(p.extent is None for p in _parts(base, items, under))
    if not is_single or not isinstance(region.value, Expr):
        return None
    same_place = all(
        q.extent is None and to_lin(p.start, ranges=ranges) == to_lin(q.start, ranges=ranges)
        for p, q in zip(parts, written)
    )
    if not same_place:
        return None
    value = cast(region.value, base.dtype)
    unsure = [test for test in region.under if not any(test is known for known in under)]
    if not unsure:
        return value
    return choice(all_of(*unsure), value, select(region.base, item, under))


def is_negation(a: Expr, b: Expr) -> bool:
    """Return whether one of two tests is the negation of the other."""
    return any(isinstance(x, Unary) and x.op == "~" and x.a is y for x, y in ((a, b), (b, a)))


def _apart(p: Part, q: Part, ranges: Ranges) -> bool:
    """Return whether two single elements of a dimension are different ones."""
    if p.extent is not None or q.extent is not None:
        return False
    distance = (to_lin(p.start, ranges=ranges) - to_lin(q.start, ranges=ranges)).const
    return distance is not None and distance != 0


def in_bounds(base: Tensor, parts: Sequence[Part]) -> bool:
    """Return whether the single indices among ``parts`` are proved to lie within ``base``."""
    return not unproven(base, [p for p in parts if not p.added])


def unproven(
    base: Tensor, parts: Sequence[Part], under: Sequence[Expr] = ()
) -> list[tuple[Expr, Extent]]:
    """Return the single indices among ``parts`` that may lie outside, each with its extent.

    The conditions ``under`` hold.
    """
    ranges = _ranges_under(under)
    unknown = []
    for part, extent in zip(parts, base.shape):
        if part.extent is None and isinstance(part.start, Expr):
            at = to_lin(part.start, ranges=ranges)
            if not ranges.nonneg(at) or not ranges.nonneg(to_lin(extent) - at - 1):
                unknown.append((part.start, extent))
    return unknown


def _ranges_under(under: Sequence[Expr]) -> Ranges:
    """Return what the loops around and the conditions ``under`` say about indices."""
    ranges = ranges_of_loops()
    for test in under:
        ranges = ranges.assuming(facts_of(test, True, ranges))
    return ranges


def _assign_scalar(base: Expr, items: Sequence[Any], new: Expr) -> Expr:
    """Return the value of a 0-d array after an assignment by ``...``, ``()`` or a 0-d mask."""
    indices = [i for i in items if i is not Ellipsis]
    if not indices:
        return new
    if len(indices) == 1 and isinstance(indices[0], Expr) and indices[0].dtype == "bool":
        return if_then_else(indices[0], new, base)
    raise BoundsError(
        f"x[{items_text(items)}] = ... of a 0-d array: it has no dimension to index; write "
        "x[...] = v"
    )


def update(base: Tensor, items: Sequence[Any], value: Any, combine: str = "last") -> Tensor:
    """Return ``base`` after ``base[items] = value``, where some items are arrays of integers.

    If several values go to one element, the last of them in row-major order remains; with another
    ``combine`` of :func:`~schedlang.scatter`, each is combined with the old value. Raises
    ``ComputeError`` if ``value`` does not broadcast to the elements.
    """
    title = f"{base.name}[{items_text(items)}]"
    elements = places(base, items, title, lambda k, i: _index(base, k, i))
    source = spread(value, elements.shape, f"{title} = ...")
    result: Tensor = scatter(
        base,
        elements.shape,
        lambda *k: (tuple(elements.at(k)), cast(source(k), base.dtype)),
        combine,
        name=automatic_name("assigned"),
    )
    mark_automatic(result)
    return result


def check_mask(base: Any, mask: Tensor) -> Tensor:
    """Return ``mask`` in the shape of ``base``; raise unless it has the first dimensions of it."""
    shape = base.shape if isinstance(base, Tensor) else ()
    if not same_shape(mask.shape, shape[: mask.ndim]):
        _check_shape(mask, shape, "of the array", ", or of its first dimensions")
    if mask.ndim == len(shape):
        return mask
    return each("mask", shape, lambda *i: mask[i[: mask.ndim]])


def _check_shape(mask: Tensor, shape: Sequence[Extent], whose: str, other: str = "") -> None:
    if not same_shape(mask.shape, shape):
        raise ComputeError(
            f"x[mask]: the mask has shape {shape_text(mask.shape)}, but must have the shape "
            f"{whose}, {shape_text(shape)}{other}"
        )


def assign_under(base: Any, mask: Tensor, values: Any) -> Tensor:
    """Return ``base`` with the elements of ``values`` where ``mask`` holds."""
    full = check_mask(base, mask)
    return each(
        "assigned",
        base.shape,
        lambda *i: if_then_else(full[i], cast(values[i], base.dtype), base[i]),
    )


def assign_diagonal(base: Tensor, places: Sequence[int], value: Tensor) -> Tensor:
    """Return ``base`` with ``value`` where all dimensions in the same place have one index.

    ``places`` has the dimension of ``value`` for each dimension of ``base``.
    """

    def element(*axes: Axis) -> Any:
        at: dict[int, Axis] = {}
        tests = [
            axis == at[k] for axis, k in zip(axes, places) if at.setdefault(k, axis) is not axis
        ]
        new = value[tuple(at[k] for k in range(len(at)))]
        return if_then_else(all_of(*tests), cast(new, base.dtype), base[axes])

    return each("assigned", base.shape, element)


def assign_elements(base: Any, item: Any, value: Any, under: Sequence[Expr] = ()) -> Any:
    """Return ``base`` after ``base[item] = value``, in the dtype of ``base``.

    The assignment happens where the conditions ``under`` hold; with conditions, ``item`` consists
    of slices and integers. Elsewhere its indices may lie outside of ``base``.

    Raises ``ComputeError`` if ``value`` does not broadcast to the elements.
    """
    items = item if isinstance(item, tuple) else (item,)
    if isinstance(base, Tensor) and not base.ndim:
        base = base[()]
    if not isinstance(base, Tensor):
        return _assign_scalar(base, items, cast(as_expr(value), base.dtype))
    if any(isinstance(i, Tensor) and i.dtype == "bool" for i in items):
        return _assign_masked(base, items, value)
    if any(is_array(i) for i in items):
        return update(base, items, value)
    parts = _parts(base, items, under)
    shape = tuple(p.extent for p in parts if p.extent is not None)
    source = spread(value, shape, f"{base.name}[{items_text(items)}] = ...")
    is_like = isinstance(value, Tensor) and value.dtype == base.dtype and value.ndim == base.ndim
    if is_like and not under:
        if all(p.whole for p in parts) and all(map(same, value.shape, base.shape)):
            return value

    def element(*axes: Axis) -> Any:
        tests, at = [*under], []
        rest = iter(axes)
        for p in parts:
            inside, place = ([], 0) if p.added else _place(p, next(rest))
            tests += inside
            if p.extent is not None:
                at.append(place)
        new = cast(source(at), base.dtype)
        return if_then_else(all_of(*tests), new, base[axes]) if tests else new

    result = each("assigned", base.shape, element)
    new = value if isinstance(value, Tensor) else as_expr(value)
    if not any(i is None for i in items):
        current().regions[result] = Region(base, items, new, tuple(under))
    return result


def _place(p: Part, i: Axis) -> tuple[list[Any], Any]:
    """Return the tests that index ``i`` is in a part, and its place there."""
    if p.whole:
        return [], i
    if p.extent is None:
        return [i == p.start], 0
    first, last = p.start, p.start + p.step * (p.extent - 1)
    low, high = (first, last) if p.step > 0 else (last, first)
    tests = []
    if not isinstance(low, int) or low > 0:
        tests.append(i >= low)
    if not _reaches_end(high, i.extent):
        tests.append(i <= high)
    if p.step in (1, -1):
        return tests, (i - first) * p.step
    tests.append((i - low) % abs(p.step) == 0)
    return tests, (i - first) // p.step if p.step > 0 else (first - i) // -p.step


def _reaches_end(last: Any, extent: Any) -> bool:
    return isinstance(last, int) and isinstance(extent, int) and last >= extent - 1


def _assign_masked(base: Tensor, items: Sequence[Any], value: Any) -> Tensor:
    mask = items[0]
    if len(items) > 1:
        return _assign_under_one_of(base, items, value)
    full = check_mask(base, mask)
    # the elements that a mask selects come first; what follows has the shape of the base
    inside = (1, *base.shape[mask.ndim :])
    repeats = not isinstance(value, Tensor) or value.ndim < len(inside) or is_one(value.shape[0])
    if not repeats:
        return update(base, selected_places(mask), value)
    source = spread(value, inside, f"{base.name}[mask] = ...")
    return each(
        "assigned",
        base.shape,
        lambda *i: if_then_else(full[i], cast(source((0, *i[mask.ndim :])), base.dtype), base[i]),
    )


def _assign_under_one_of(base: Tensor, items: Sequence[Any], value: Any) -> Tensor:
    """Return ``base`` after the assignment of a number where a mask beside slices holds."""
    masks = [k for k, i in enumerate(items) if is_array(i)]
    if len(masks) > 1 or (isinstance(value, Tensor) and value.ndim):
        raise ComputeTypeError(
            explain(
                f"{base.name}[{items_text(items)}] = ...",
                "a mask stands beside other indices",
                "Assign a number, assign through one mask of the shape of the array, x[mask] = "
                "value, or choose: x[...] = np.where(mask, value, x).",
            )
        )
    (at,) = masks
    mask = items[at]
    whole = (*items[:at], *[slice(None)] * mask.ndim, *items[at + 1 :])
    parts = _parts(base, whole)
    if any(i is Ellipsis for i in items[:at]):
        at += len(parts) - len(whole)
    first = sum(p.extent is not None for p in parts[:at])
    last = first + mask.ndim
    before = select(base, whole)
    _check_shape(mask, before.shape[first:last], "of the dimensions that it stands for")
    number = cast(as_expr(value), base.dtype)
    chosen = each(
        "chosen",
        before.shape,
        lambda *i: if_then_else(mask[i[first:last]], number, before[i]),
    )
    return assign_elements(base, whole, chosen)


def parts_of(base: Tensor, item: Any, under: Sequence[Expr] = ()) -> list[Part]:
    """Return the parts of an index of slices and integers, one for each dimension of ``base``.

    They matter only where the conditions ``under`` hold.
    """
    parts = _parts(base, item if isinstance(item, tuple) else (item,), under)
    return [p for p in parts if not p.added]


def parts_of_region(region: Region) -> list[Part]:
    """Return the parts of the index of an assignment."""
    return parts_of(region.base, region.item, region.under)


def _parts(base: Tensor, items: Sequence[Any], under: Sequence[Expr] = ()) -> list[Part]:
    """Return the parts of an index: one for each dimension of ``base``, and for each ``None``."""
    count = sum(i is not Ellipsis and i is not None for i in items)
    if count > base.ndim or sum(i is Ellipsis for i in items) > 1:
        raise BoundsError(
            f"{base.name}[{items_text(items)}]: {base.name} of shape {shape_text(base.shape)} has "
            f"{base.ndim} dimensions"
        )
    full = [slice(None)] * (base.ndim - count)
    spread: list[Any] = []
    for i in items:
        spread += full if i is Ellipsis else [i]
    if not any(i is Ellipsis for i in items):
        spread += full
    dims = iter(enumerate(base.shape))
    added = Part(0, 1, added=True)
    return [added if i is None else _part(base, *next(dims), i, under) for i in spread]


def _part(base: Tensor, dim: int, extent: Extent, item: Any, under: Sequence[Expr]) -> Part:
    if isinstance(item, slice):
        return _slice_part(base, dim, item, extent)
    if isinstance(item, (Expr, Tensor)):
        return Part(_index(base, dim, item, under), None)
    at = int(item)
    if isinstance(extent, int) and not -extent <= at < extent:
        raise BoundsError(f"index {dim} of {base.name} is {at}, but the extent there is {extent}")
    return Part(at if at >= 0 else extent + at, None)


def _index(base: Tensor, dim: int, item: Expr | Tensor, under: Sequence[Expr] = ()) -> Expr:
    """Return an expression or 0-d tensor as the index from the start of a dimension."""
    index = item[()] if isinstance(item, Tensor) else item
    if index.dtype == "bool" or not dtypes.is_integer(index.dtype):
        raise ComputeTypeError(
            f"index {dim} of {base.name} is {index.dtype}, but must be an integer"
        )
    return _from_start(index, base.shape[dim], under)


def _not_negative(item: Expr) -> bool:
    """Return whether an index is a loop's index or a scalar argument, or lies beyond it."""
    while isinstance(item, Binary) and item.op == "+" and isinstance(item.b, Const):
        if item.b.value < 0:
            return False
        item = item.a
    return isinstance(item, Var)


def _from_start(item: Expr, extent: Extent, under: Sequence[Expr]) -> Expr:
    """Return an index that counts from the start, also where ``item`` may be negative.

    It matters only where the conditions ``under`` hold.
    """
    if _not_negative(item):
        return item
    if Ranges().nonneg(to_lin(item)):
        return simplify(item)
    ranges = _ranges_under(under)
    if ranges.nonneg(to_lin(item, ranges=ranges)):
        # bounds are checked without the ranges of the user's loops
        return Call("max", (item, Const(0, item.dtype, item.weak)), item.dtype, item.weak)
    wide = cast(item, dtypes.INDEX)
    return if_then_else(wide < 0, wide + extent, wide)


def _slice_part(base: Tensor, dim: int, item: slice, extent: Extent) -> Part:
    if _has_expression(item) and item.step in (None, 1):
        asked = f"a slice of dimension {dim} of {base.name} from {item.start} to {item.stop}"
        return Part(*slice_of(item, extent, asked))
    for end in (item.start, item.stop, item.step):
        if isinstance(end, Expr):
            raise ComputeTypeError(
                explain(
                    f"a slice of dimension {dim} of {base.name} from {item.start} to {item.stop}",
                    "the shape of the result must be known when the function is traced",
                    "Take the whole dimension and choose with np.where, or pass the bound as a "
                    "Python int.",
                )
            )
    asked = f"a slice of dimension {dim} of {base.name}"
    if not isinstance(extent, int):
        taken = slice_elements(item, extent, asked)
        return Part(taken.start, taken.length, taken.step, taken.whole)
    start, stop, step = item.indices(extent)
    count = len(range(start, stop, step))
    return Part(start, count, step, whole=(start, step, count) == (0, 1, extent))
