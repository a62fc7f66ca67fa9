"""Boundary conditions: ``pad`` extends a tensor beyond its edges, in a stage of its own."""

from __future__ import annotations

from typing import Any

from schedlang.compute import math
from schedlang.compute.define import compute
from schedlang.compute.tensor import Extent, Tensor, check_extent, shape_text
from schedlang.compute.whole import traceable
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.index.simplify import simplify, to_lin
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, const

MODES = ("constant", "edge", "reflect", "wrap")


@traceable
def pad(
    tensor: Tensor,
    before: Any,
    after: Any = None,
    mode: str = "constant",
    value: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return ``tensor`` with ``before`` and ``after`` more elements at the ends of its dimensions.

    ``before`` and ``after`` are an integer or a size for all dimensions, or one for each. ``after``
    defaults to ``before``. The result has the tensor's dtype and the shape ``before + extent +
    after``. The modes are the modes of :func:`numpy.pad`, and Halide's ``BoundaryConditions`` under
    other names:

    - ``"constant"``: ``value``, by default 0 (Halide: ``constant_exterior``)
    - ``"edge"``: the nearest element (``repeat_edge``)
    - ``"reflect"``: mirrored at the first and last element, which is not repeated
      (``mirror_interior``); each width must be smaller than the extent
    - ``"wrap"``: elements from the other end (``repeat_image``)

    With ``compute_inline``, or ``compute_at`` a loop of its consumer, the padded tensor is never
    stored whole.

    Raises :class:`~schedlang.errors.ComputeError` for an unknown mode, a negative width or one that
    ``mode`` cannot fill, :class:`~schedlang.errors.ComputeTypeError` for operands of a wrong type.

    >>> import numpy as np, schedlang as sl
    >>> from schedlang.compute.reference import reference
    >>> A = sl.placeholder((4,), "int32", name="A")
    >>> reference(pad(A, 2, 1, mode="edge"))(np.arange(4, dtype="int32"))
    array([0, 0, 0, 1, 2, 3, 3], dtype=int32)
    """
    if not isinstance(tensor, Tensor):
        raise ComputeTypeError(
            f"pad({tensor!r}, ...): {tensor!r} is not a tensor; give one made by sl.placeholder or "
            "sl.compute"
        )
    if mode not in MODES:
        raise ComputeError(
            f"pad({tensor.name}, mode={mode!r}): {mode!r} is not a mode; choose one of "
            f"{', '.join(MODES)}"
        )
    if mode != "constant" and value is not None:
        raise ComputeError(
            f"pad({tensor.name}, mode={mode!r}, value={value}): this mode pads with elements of "
            f'{tensor.name}; leave out value=, or use mode="constant"'
        )
    if after is None and _are_pairs(before):
        first, last = (shape_text(side) for side in zip(*before))
        raise ComputeTypeError(
            f"pad({tensor.name}, {before}): pad takes the widths before and after as two "
            f"arguments, not as pairs; write pad({tensor.name}, before={first}, after={last})"
        )
    starts = _widths(tensor, before, "before")
    ends = starts if after is None else _widths(tensor, after, "after")
    for position, widths in enumerate(zip(starts, ends)):
        _check_fill(tensor, position, widths, mode)
    shape = [simplify(b + as_expr(n) + a) for b, n, a in zip(starts, tensor.shape, ends)]
    filler = _filler(tensor, 0 if value is None else value) if mode == "constant" else None

    def element(*idx: Axis) -> Expr:
        if filler is None:
            return tensor[
                tuple(_source(*part, mode) for part in zip(idx, starts, tensor.shape, ends))
            ]
        inside = [c for part in zip(idx, starts, tensor.shape, ends) for c in _conditions(*part)]
        inner = tensor[tuple(i if _is_zero(b) else i - b for i, b in zip(idx, starts))]
        return math.if_then_else(math.all(*inside), inner, filler) if inside else inner

    return compute(tuple(shape), element, name=name or f"{tensor.name}.{mode}")


def _are_pairs(given: Any) -> bool:
    """Return whether ``given`` has NumPy's form, a pair (before, after) for each dimension."""
    return (
        isinstance(given, (tuple, list))
        and bool(given)
        and all(isinstance(item, (tuple, list)) and len(item) == 2 for item in given)
    )


def _widths(tensor: Tensor, given: Any, side: str) -> tuple[Extent, ...]:
    items = tuple(given) if isinstance(given, (tuple, list)) else (given,) * tensor.ndim
    if len(items) != tensor.ndim:
        raise ComputeError(
            f"pad({tensor.name}, {side}={given}): {side} has {len(items)} "
            f"width{'s' * (len(items) != 1)}, but {tensor.name} has {tensor.ndim} "
            f"dimension{'s' * (tensor.ndim != 1)}; give one width for each"
        )
    return tuple(check_extent(v, f"pad({tensor.name}): {side}[{k}]") for k, v in enumerate(items))


def _check_fill(tensor: Tensor, position: int, widths: tuple[Extent, ...], mode: str) -> None:
    extent = to_lin(tensor.shape[position]).const
    if mode == "constant" or extent is None:
        return
    for width in widths:
        size = to_lin(width).const
        if (size is None or size > 0) and extent == 0:
            why = f"dimension {position} is empty, so there is no element to pad with"
        elif mode == "reflect" and size is not None and size >= extent:
            why = (
                f"a width of {size} needs {size + 1} elements to reflect, but dimension "
                f"{position} of {shape_text(tensor.shape)} has {extent}"
            )
        else:
            continue
        hint = 'Use mode="constant", or pad less.'
        raise ComputeError(explain(f"pad({tensor.name}, mode={mode!r})", why, hint))


def _filler(tensor: Tensor, value: Any) -> Expr:
    if isinstance(value, Tensor):
        value = value.as_scalar()
    if not isinstance(value, Expr):
        try:
            return const(value, tensor.dtype)
        except ComputeTypeError as error:
            raise ComputeTypeError(f"pad({tensor.name}, value=...): {error}") from None
    filler: Expr = value
    if filler.dtype != tensor.dtype:
        raise ComputeTypeError(
            f"pad({tensor.name}, value={filler}): the value is {filler.dtype}, but {tensor.name} "
            f"is {tensor.dtype}; cast it with sl.cast({filler}, {tensor.dtype!r})"
        )
    return filler


def _is_zero(width: Extent) -> bool:
    return to_lin(width).const == 0


def _conditions(i: Axis, before: Extent, extent: Extent, after: Extent) -> list[Expr]:
    low = [] if _is_zero(before) else [i >= before]
    return low if _is_zero(after) else [*low, i < simplify(as_expr(extent) + before)]


def _source(i: Axis, before: Extent, extent: Extent, after: Extent, mode: str) -> Expr:
    """Return the index of the element at ``i``, in a form that is provably within ``0..extent``."""
    shifted = i if _is_zero(before) else i - before
    if _is_zero(before) and _is_zero(after):
        return i
    if mode == "wrap":
        return shifted % extent
    last = simplify(as_expr(extent) - 1)
    # a symbolic size may be too small for the width: then clamp the index, to read in bounds
    is_static = isinstance(extent, int) and isinstance(before, int) and isinstance(after, int)
    if mode == "edge":
        if not is_static:
            return call("max", call("min", shifted, last), 0)
        low = shifted if _is_zero(before) else call("max", shifted, 0)
        return low if _is_zero(after) else call("min", low, last)
    result = shifted if _is_zero(before) else call("max", call("max", shifted, before - i), 0)
    if not _is_zero(after):
        mirrored = simplify(last * 2 + before) - i
        result = call("min", result, mirrored)
        result = call("min", result, last) if is_static else result
    return result if is_static else call("max", call("min", result, last), 0)
