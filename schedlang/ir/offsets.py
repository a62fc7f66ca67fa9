"""Offsets into flat arrays: strides, steps between vector lanes, and GPU access widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from schedlang.expr.dtypes import SHORT_FLOATS, itemsize
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.digits import step
from schedlang.index.linear import Lin, Opaque, total
from schedlang.index.polynomial import quick
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod, xor
from schedlang.index.simplify import has_mod, merge_div_mod, to_lin
from schedlang.ir.nodes import Buffer, Load

# lanes at most this far apart are extracted from whole vectors
CLOSE = 4
# bytes of the widest access by one GPU thread
WIDEST = 16
# such an access has four elements at most, where a pair of float16 counts as one
MOST_AT_ONCE = 4


@lru_cache(maxsize=256)
def strides(buffer: Buffer) -> tuple[Lin, ...]:
    """Return the stride of each dimension, in elements."""
    each = 1 if buffer.whole is None else 2
    if buffer.strides is not None:
        return tuple(Lin.of(s * each) for s in buffer.strides)
    result: list[Lin] = []
    step = Lin.of(each)
    for extent in reversed(buffer.shape):
        result.insert(0, step)
        step = step * to_lin(extent)
    return tuple(result)


def flat(buffer: Buffer, indices: Sequence[Expr], values: Mapping[Any, Lin] | None = None) -> Lin:
    """Return the offset of ``buffer[indices]``, with axes replaced by their ``values``."""
    if buffer.swizzles:
        return _swizzled(buffer, indices, values or {})
    plain = sum_of_axes(buffer, tuple(indices))
    if plain is not None:
        return plain.substitute(values or {})
    offset = Lin.of(buffer.part)
    for index, stride in zip(indices, strides(buffer)):
        offset = offset + to_lin(index, values or {}) * stride
    return offset


def _swizzled(buffer: Buffer, indices: Sequence[Expr], values: Mapping[Any, Lin]) -> Lin:
    """Return the offset of an element of a buffer with swizzles."""
    before = [to_lin(index, values) for index in indices]
    after = list(before)
    for s in buffer.swizzles:
        by = floordiv(before[s.by], Lin.of(s.divisor), Ranges())
        after[s.place] = xor(before[s.place], mod(by, Lin.of(s.modulus), Ranges()))
    return total((at * step for at, step in zip(after, strides(buffer)))) + buffer.part


@lru_cache(maxsize=512)
def sum_of_axes(buffer: Buffer, indices: tuple[Expr, ...]) -> Lin | None:
    """Return the offset of ``buffer[indices]`` if it is a sum of multiples of axes and sizes.

    Most are, and such a sum has no other form after values replace its axes.
    """
    if buffer.swizzles:
        return None
    offset = Lin.of(buffer.part)
    for index, stride in zip(indices, strides(buffer)):
        lin = quick(index)
        if lin is None or stride.const is None or any(len(product) > 1 for product in lin.terms):
            return None
        offset = offset + lin * stride
    return offset


@lru_cache(maxsize=512)
def indices_of_sum(indices: tuple[Expr, ...]) -> tuple[Lin, ...]:
    """Return indices, whose offset is a :func:`sum_of_axes`, as polynomials."""
    return tuple(map(to_lin, indices))


def offset_of(buffer: Buffer, indices: tuple[Expr, ...], values: Mapping[Any, Lin]) -> Lin:
    """Return the offset of ``buffer[indices]`` in its shortest form, as code computes it."""
    plain = sum_of_axes(buffer, indices)
    if plain is not None:
        return merge_div_mod(plain.substitute(values))
    fixed = tuple([(leaf, values[leaf]) for leaf in _leaves(indices) if leaf in values])
    return _shortest(buffer, indices, fixed)


@lru_cache(maxsize=512)
def _leaves(indices: tuple[Expr, ...]) -> tuple[Axis | Var, ...]:
    """Return the axes and sizes in indices."""
    return tuple([node for node in postorder(indices) if isinstance(node, (Axis, Var))])


@lru_cache(maxsize=512)
def _shortest(
    buffer: Buffer, indices: tuple[Expr, ...], fixed: tuple[tuple[Axis | Var, Lin], ...]
) -> Lin:
    """Return an offset with quotients or remainders; most copies differ in other axes alone."""
    values = dict(fixed)
    offset = merge_div_mod(flat(buffer, indices, values))
    if values and has_mod(offset):
        # merge quotients and remainders before the values of unrolled axes make them differ
        joined = merge_div_mod(flat(buffer, indices))
        if not has_mod(joined):
            return joined.substitute(values)
    return offset


def lane_step(offset: Lin, axis: Axis) -> int | None:
    """Return the distance between neighbouring lanes; ``None`` if it is not a constant."""
    return step(offset, axis)


def is_uniform(step: int | None, leads: bool) -> bool:
    """Return whether one load serves all lanes, since they read the same element.

    ``step`` is the :func:`lane_step`. ``leads`` says that the first lane passes all masks around.
    Otherwise the element may be out of bounds, and only lanes under the masks may read it.
    """
    return leads and step == 0


def gathers(offset: Lin) -> bool:
    """Return whether ``offset`` depends on loaded values."""
    opaque = [leaf.expr for leaf in offset.leaves() if isinstance(leaf, Opaque)]
    return any(isinstance(node, Load) for node in postorder(opaque))


def one_access(buffer: Buffer, first: Lin, count: int) -> bool:
    """Return whether a GPU thread can access ``count`` elements from ``first`` on at once.

    The access must have a width that the GPU offers, and be aligned to it; arrays are aligned.
    """
    # registers have no limit of elements
    local = buffer.scope == "local"
    most = WIDEST // itemsize(buffer.dtype) if local else most_at_once(buffer.dtype)
    wide = 1 < count <= most and count & (count - 1) == 0
    return wide and all(coef % count == 0 for coef in first.terms.values())


def most_at_once(dtype: str) -> int:
    """Return how many elements the widest access by a GPU thread has.

    Source: PTX ISA 9.0, "Vectors": four elements and 16 bytes at most.
    """
    pairs = 2 if dtype in SHORT_FLOATS else 1
    return min(WIDEST // itemsize(dtype), MOST_AT_ONCE * pairs)
