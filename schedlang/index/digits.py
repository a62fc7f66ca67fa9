"""Indices as mixed-radix numbers over loop variables: each loop is a digit.

A list of (axis, extent) pairs, as a mapping, says which loops there are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from schedlang.expr.nodes import Axis, Var
from schedlang.index.linear import ONE, ZERO, Atom, Lin, Product, involves
from schedlang.index.ranges import Ranges
from schedlang.index.rules import split_multiples

Span = tuple[Lin, Lin]


def radix(lin: Lin, extents: dict[Axis, Lin], ranges: Ranges) -> tuple[Lin, set[Axis], Lin] | None:
    """Return ``(start, axes, count)`` for a mixed-radix number ``lin``; ``None`` for any other.

    Over the loops of ``axes``, it takes each value of ``start .. start + count`` once.

    >>> i, j = Axis("i", 3), Axis("j", 8)
    >>> extents = {i: Lin.of(3), j: Lin.of(8)}
    >>> start, _, count = radix(Lin.of(i) * 8 + Lin.of(j) + 2, extents, Ranges())
    >>> start, count
    (2, 24)
    """
    start = ZERO
    weights: dict[Axis, Lin] = {}
    for product, coef in lin.terms.items():
        axes = [
            leaf
            for leaf in Lin({product: 1}).leaves()
            if isinstance(leaf, Axis) and leaf in extents
        ]
        if not axes:
            if varies(Lin({product: 1}), extents):
                return None
            start = start + Lin({product: coef})
            continue
        rest = tuple(atom for atom in product if atom is not axes[0])
        if len(axes) > 1 or len(rest) != len(product) - 1:
            return None
        weights[axes[0]] = weights.get(axes[0], ZERO) + Lin({rest: coef})
    left = dict(weights)
    count = continue_number(left, extents, ONE)
    if left or not has_product((extents[axis] for axis in weights), ranges):
        return None
    return start, set(weights), count


def has_product(extents: Iterable[Lin], ranges: Ranges) -> bool:
    """Return whether loops of ``extents`` have as many iterations as the product says.

    Two negative extents have a positive product, but no iterations.

    >>> n = Lin.of(Var("n"))
    >>> has_product([n, n - 1], Ranges()), has_product([n - 1, n - 1], Ranges())
    (True, False)
    """
    return sum(not ranges.nonneg(extent) for extent in extents) <= 1


def continue_number(weights: dict[Axis, Lin], extents: Mapping[Axis, Lin], unit: Lin) -> Lin:
    """Return ``unit`` times the extents of the digits that follow it in a mixed-radix number.

    A digit follows if its weight is that product so far. It is removed from ``weights``, which
    keeps the digits of a number that is not mixed-radix.

    >>> i, j = Axis("i", 3), Axis("j", 8)
    >>> continue_number({i: Lin.of(8), j: ONE}, {i: Lin.of(3), j: Lin.of(8)}, ONE)
    24
    """
    while True:
        # a digit of extent 1 is always 0, whatever its weight
        follower = next((a for a, w in weights.items() if w == unit or extents[a].const == 1), None)
        if follower is None:
            return unit
        del weights[follower]
        unit = unit * extents[follower]


def varies(lin: Lin, axes: Container[object] | None = None) -> bool:
    """Return whether ``lin`` depends on one of ``axes``, or may on any loop if none are given."""
    if axes is None:
        return any(not isinstance(leaf, Var) for leaf in lin.leaves())
    return lin.depends_on(axes)


def is_common(product: Product, free: Container[object]) -> bool:
    """Return whether ``product`` is one number in all iterations of the loops ``free``."""
    leaves = Lin({product: 1}).leaves()
    return all(isinstance(n, (Axis, Var)) and n not in free for n in leaves)


def coefficient(lin: Lin, axis: Axis) -> tuple[Lin | None, Lin]:
    """Return the factor of ``axis`` in ``lin``, and the rest.

    The factor is ``None`` if the axis is inside an atom, or if the factor depends on another loop.
    """
    step, rest, one = ZERO, ZERO, {axis}
    for product, coef in lin.terms.items():
        if not involves(product, one):
            rest = rest + Lin({product: coef})
            continue
        others = tuple(atom for atom in product if atom is not axis)
        if len(others) != len(product) - 1 or varies(Lin({others: 1})):
            return None, lin
        step = step + Lin({others: coef})
    return step, rest


def step(lin: Lin, axis: Axis) -> int | None:
    """Return by how much ``lin`` grows from one iteration of ``axis`` to the next, if constant.

    >>> i = Axis("i", 8)
    >>> step(Lin.of(i) * 4 + 3, i)
    4
    """
    total, one = 0, {axis}
    for product, coef in lin.terms.items():
        if len(product) == 1 and product[0] is axis:
            total = coef
        elif involves(product, one):
            return None
    return total


def equal_digits(
    left: Sequence[Lin],
    right: Sequence[Lin],
    ranges: tuple[Ranges, Ranges],
    common: Callable[[Atom], bool],
) -> list[tuple[Lin, Lin]]:
    """Return pairs that are equal if ``left`` and ``right`` are: ``n*x + y`` yields ``x``, ``y``.

    ``n`` is the same number on both sides, either constant or a factor that is ``common`` to both,
    and ``0 <= y < n``. Each side has its own ``ranges``.

    >>> i, j = Lin.of(Axis("i", 3)), Lin.of(Axis("j", 8))
    >>> equal_digits([i * 8 + j], [i * 8 + 1], (Ranges(), Ranges()), lambda _: False)
    [(i, i), (j, 1)]
    """
    pairs: list[tuple[Lin, Lin]] = []
    one, other = ranges
    for x, y in zip(left, right):
        sizes = (s for s in _sizes(x, y, common) if _fits(x, s, one) and _fits(y, s, other))
        size = next(sizes, None)
        if size is None:
            pairs.append((x, y))
            continue
        (more, rest), (others, last) = _divided(x, size), _divided(y, size)
        pairs += [*equal_digits([more], [others], ranges, common), (rest, last)]
    return pairs


def _sizes(x: Lin, y: Lin, common: Callable[[Atom], bool]) -> list[Lin]:
    """Return candidates for the weight of a digit: factors of terms in both indices."""
    numbers = [{abs(c) for p, c in lin.terms.items() if p and abs(c) > 1} for lin in (x, y)]
    atoms = [{atom for p in lin.terms if len(p) > 1 for atom in p} for lin in (x, y)]
    sizes = [atom for atom in atoms[0] & atoms[1] if common(atom)]
    return [*map(Lin.of, sorted(numbers[0] & numbers[1])), *map(Lin.of, sizes)]


def _fits(lin: Lin, size: Lin, ranges: Ranges) -> bool:
    """Return whether the remainder of ``lin`` by ``size``, term by term, lies in ``0..size``."""
    more, rest = _divided(lin, size)
    return bool(more.terms) and ranges.nonneg(rest) and ranges.nonneg(size - 1 - rest)


def _divided(lin: Lin, size: Lin) -> tuple[Lin, Lin]:
    """Return ``x`` and ``y`` with ``lin == size*x + y``."""
    if size.const is not None:
        return split_multiples(lin, size.const)
    more, rest = ZERO, ZERO
    ((atom,),) = size.terms
    for product, coef in lin.terms.items():
        at = [n for n, f in enumerate(product) if type(f) is type(atom) and f == atom]
        if len(at) == 1:
            more = more + Lin({(*product[: at[0]], *product[at[0] + 1 :]): coef})
        else:
            rest = rest + Lin({product: coef})
    return more, rest
