"""Shapes of arrays, with symbolic sizes: broadcasting, axes, products, multiples of numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import lcm
from typing import Any

from schedlang.compute.tensor import Extent, Shape, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, MultipleError, explain
from schedlang.expr.nodes import Binary, Const, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Extreme, Lin
from schedlang.index.ranges import Ranges
from schedlang.index.rules import single_atom
from schedlang.index.simplify import simplify, to_lin
from schedlang.language.calls import call
from schedlang.language.construct import as_expr


def extent(value: Expr | int) -> Extent:
    """Return an extent in its simplest form, as an integer if it is one."""
    if isinstance(value, int):
        return value
    simplest = simplify(value)
    return int(simplest.value) if isinstance(simplest, Const) else simplest


def at_least_0(value: Expr | int) -> Extent:
    """Return the extent ``max(value, 0)``, without the maximum where it is not needed."""
    size = extent(value)
    if isinstance(size, int):
        return max(size, 0)
    return size if Ranges().nonneg(to_lin(size)) else extent(call("max", size, 0))


def smallest(a: Extent, b: Extent) -> Extent:
    """Return the smaller of two extents, without a minimum where it is known."""
    left, right = to_lin(a), to_lin(b)
    if Ranges().le(left, right):
        return a
    if Ranges().le(right, left):
        return b
    return extent(call("min", *sorted((a, b), key=str)))


def same(a: Extent, b: Extent) -> bool:
    """Return whether two extents are the same at all sizes."""
    return to_lin(a) == to_lin(b)


def same_shape(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    """Return whether two shapes are the same at all sizes."""
    return len(a) == len(b) and all(map(same, a, b))


def is_one(value: Extent) -> bool:
    return to_lin(value).const == 1


def size_of(shape: Iterable[Extent]) -> Extent:
    """Return the number of elements of a shape."""
    total: Any = 1
    for each in shape:
        total = each if isinstance(total, int) and total == 1 else as_expr(total) * each
    return extent(total)


def broadcast(shapes: Sequence[Shape], asked: str) -> Shape:
    """Return the shape to which ``shapes`` broadcast by NumPy's rules.

    Symbolic sizes fit if they are the same expression. Raises :class:`ComputeError`, which names
    all shapes.

    >>> broadcast([(3, 1), (4,)], "add")
    (3, 4)
    """
    ndim = max((len(s) for s in shapes), default=0)
    result: list[Extent] = []
    for position in reversed(range(ndim)):
        common: Extent = 1
        for shape in shapes:
            at = position - ndim + len(shape)
            if at < 0 or is_one(shape[at]):
                continue
            joined = shape[at] if is_one(common) else _joined(common, shape[at])
            if joined is None:
                raise _unfit(shapes, common, shape[at], asked)
            common = joined
        result.append(common)
    return tuple(reversed(result))


def _joined(a: Extent, b: Extent) -> Extent | None:
    """Return the extent that both are, or ``None``.

    An extent ``x`` of a tensor is never negative, so ``x`` and ``max(x, 0)`` are the same.
    """
    if same(a, b):
        return a
    for clamped, plain in ((a, b), (b, a)):
        atom = single_atom(to_lin(clamped))
        if isinstance(atom, Extreme) and atom.op == "max":
            if set(atom.args) == {Lin.of(0), to_lin(plain)}:
                return plain
    return None


def _unfit(shapes: Sequence[Shape], a: Extent, b: Extent, asked: str) -> ComputeError:
    listed = " and ".join(shape_text(s) for s in shapes if s)
    if isinstance(a, int) and isinstance(b, int):
        why = f"{a} and {b} are neither equal nor 1"
        hint = (
            "Shapes are aligned at their last dimensions. Add a dimension of extent 1 where one is "
            "missing: A[:, None]."
        )
    else:
        why = f"{a} and {b} are not known to be equal"
        hint = (
            'Declare both extents by one size, n = sl.var("n"): each call then checks that they '
            "are equal."
        )
    multiples = multiples_that_fit([a, b], operator.eq)
    return unfit(f"{asked} of shapes {listed}", f"they do not broadcast: {why}", hint, multiples)


def axis_numbers(axis: Any, ndim: int, asked: str, name: str = "axis") -> tuple[int, ...]:
    """Return the dimensions that ``axis`` names: ``None`` is all, negative ones count from the end.

    Raises :class:`ComputeError` for one that is out of range or given twice.

    >>> axis_numbers(-1, 3, "sum"), axis_numbers(None, 2, "sum")
    ((2,), (0, 1))
    """
    if axis is None:
        return tuple(range(ndim))
    items = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    numbers = tuple(axis_number(a, ndim, asked, name) for a in items)
    if len(set(numbers)) < len(numbers):
        raise ComputeError(
            f"{asked}: {name}={axis} names a dimension twice; give each dimension once"
        )
    return numbers


def reduced_axes(axis: Any, ndim: int, asked: str) -> tuple[int, ...]:
    """Return the dimensions that a reduction over ``axis`` is over; a scalar takes 0 and -1, too.

    >>> reduced_axes(0, 0, "sum")
    ()
    """
    if ndim == 0 and isinstance(axis, int) and axis in (0, -1):
        return ()
    return axis_numbers(axis, ndim, asked)


def axis_number(axis: Any, ndim: int, asked: str, name: str = "axis") -> int:
    """Return the dimension that ``axis`` names, counted from the start."""
    if isinstance(axis, Expr) and not isinstance(axis, Const):
        raise ComputeTypeError(
            explain(
                f"{asked} with {name}={axis}",
                f"{name} is the number of a dimension, and {axis} an expression",
                f"Write an integer, such as {name}=0. An axis made by sl.reduce_axis belongs into "
                "sl.sum(A[i, k], axis=k), inside of sl.compute.",
            )
        )
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise ComputeTypeError(
            f"{asked}: {name}={axis!r} is not the number of a dimension; give an integer"
        )
    number = axis.__index__()
    if not -ndim <= number < ndim:
        raise ComputeError(
            f"{asked}: {name}={number} is out of range for an array with {ndim} "
            f"dimension{'s' * (ndim != 1)}" + (f"; give -{ndim}..{ndim - 1}" if ndim else "")
        )
    return number % ndim if ndim else number


def multiples_that_fit(extents: Sequence[Extent], fits: Callable[..., bool]) -> Mapping[Var, int]:
    """Return numbers of which sizes have to be multiples for ``fits(*extents)``; ``{}`` for none.

    ``fits`` takes the extents as polynomials. The numbers are those that divide in ``extents``.

    >>> n = Var("n")
    >>> multiples_that_fit([n // 2 * 2, n], lambda a, b: a == b)
    {n: 2}
    """
    divisors: dict[Var, set[int]] = {}
    for size, number in _divisions(extents):
        divisors.setdefault(size, set()).add(number)
    alone = [{size: number} for size, numbers in divisors.items() for number in sorted(numbers)]
    together = {size: lcm(*numbers) for size, numbers in divisors.items()}
    for multiples in [*alone, *([together] if together not in alone else [])]:
        values = {size: Lin.of(Var(size.name)) * number for size, number in multiples.items()}
        if fits(*(to_lin(extent, values) for extent in extents)):
            return multiples
    return {}


def _divisions(extents: Sequence[Extent]) -> Iterator[tuple[Var, int]]:
    """Yield each size with each number by which a quotient or a remainder divides it."""
    for node in postorder([e for e in extents if isinstance(e, Expr)]):
        if isinstance(node, Binary) and node.op in ("//", "%") and isinstance(node.b, Const):
            for size in postorder([node.a]):
                if isinstance(size, Var) and size.is_size and node.b.value > 1:
                    yield size, int(node.b.value)


def unfit(asked: str, why: str, hint: str, multiples: Mapping[Var, int]) -> ComputeError:
    """Return the error of shapes that do not fit, or, with ``multiples``, fit only those sizes.

    >>> print(unfit("reshape", "it has n elements", "", {Var("n"): 2}))
    reshape: it has n elements
      Declare n as a multiple of 2, which calls check: 2 * sl.var("n") in place of sl.var("n").
    """
    if not multiples:
        return ComputeError(explain(asked, why, hint))
    hints = [
        f"Declare {size} as a multiple of {number}, which calls check: "
        f'{number} * sl.var("{size}") in place of sl.var("{size}").'
        for size, number in multiples.items()
    ]
    return MultipleError(explain(asked, why, "\n".join(hints)), multiples)
