"""Sizes that fit a shape only as multiples of numbers, as where ``n//2`` is an extent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import lcm

from schedlang.compute.tensor import Extent
from schedlang.errors import ComputeError, MultipleError, explain
from schedlang.expr.nodes import Binary, Const, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin


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
