"""Sizes from shapes: the extents that determine sizes, and the order to solve them in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Union

from schedlang.expr.nodes import Expr, Var
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin

Shape = Sequence[Union[int, Expr]]


@dataclass(frozen=True)
class Equation:
    """The extent of dimension ``dim`` of argument ``arg``, which determines ``size``."""

    size: Var
    arg: int
    dim: int
    extent: Lin


def determined_size(extent: Lin, known: Collection[Var]) -> Var | None:
    """Return the only unknown size in ``extent``, if the value of ``extent`` determines it.

    It does if ``extent`` is linear in the size, such as ``n + w - 1`` for a known ``w``, or an
    increasing polynomial, such as ``n*n``. A quotient such as ``n//2`` has the same value for
    several sizes, and so has a product such as ``n*w`` if ``w`` is 0.
    """
    unknown = {leaf for leaf in extent.leaves() if not (isinstance(leaf, Var) and leaf in known)}
    if len(unknown) != 1:
        return None
    (size,) = unknown
    if not isinstance(size, Var):
        return None
    powers: list[tuple[int, int]] = []
    for product, coef in extent.terms.items():
        if product and all(atom is size for atom in product):
            powers.append((len(product), coef))
        elif any(leaf is size for leaf in Lin({product: 1}).leaves()):
            return None
    linear = [power for power, _ in powers] == [1]
    return size if linear or (powers and all(coef > 0 for _, coef in powers)) else None


def factor_of(extent: Lin, size: Var) -> int:
    """Return the number of an extent that is ``number * size``; 0 for another extent.

    >>> n = Var("n")
    >>> factor_of(Lin.of(n) * 2, n), factor_of(Lin.of(n) * 2 + 1, n)
    (2, 0)
    """
    return extent.terms.get((size,), 0) if len(extent.terms) == 1 else 0


def equations(
    groups: Sequence[Iterable[tuple[int, Shape]]], known: Iterable[Var] = ()
) -> list[Equation]:
    """Return the equations that determine sizes other than ``known``, in the order to solve them.

    A group lists arguments by position, with their shapes. It is used only for sizes that earlier
    groups do not determine.

    >>> n, w = Var("n"), Var("w")
    >>> [e.size.name for e in equations([[(0, (n + w - 1,)), (1, (w,))]])]
    ['w', 'n']
    """
    solvable: list[Equation] = []
    have = set(known)
    extents: list[tuple[int, int, Lin]] = []
    for group in groups:
        for arg, shape in group:
            extents += [
                (arg, dim, to_lin(e)) for dim, e in enumerate(shape) if not isinstance(e, int)
            ]
        progress = True
        while progress:
            progress = False
            for arg, dim, extent in extents:
                size = determined_size(extent, have)
                if size is not None:
                    solvable.append(Equation(size, arg, dim, extent))
                    have.add(size)
                    progress = True
    return solvable
