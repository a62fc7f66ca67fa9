"""Sites: the reads of a tensor in a stage, with the adjoint that flows back through each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.gradient.invert import NotInvertible, invert
from schedlang.gradient.simplify import scope, substitute
from schedlang.index.linear import Extreme, Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import extreme
from schedlang.index.simplify import to_lin

# the most cases into which the min and max in the indices of a read are split
_MOST_CASES = 32


@dataclass(frozen=True, eq=False)
class Site:
    """The reads of one tensor at ``indices``, at all points of ``axes`` where ``held`` hold.

    ``value`` is what each point adds to the gradient of the element that it reads. ``stage`` and
    ``text`` name the reader and the read in messages. ``head`` is the adjoint of the reader that
    ``value`` reads, if it is a tensor. ``chosen`` are the conditions on data without which
    ``value`` is 0, also by choices in other stages; ``costly`` says whether their support is
    costly.
    """

    stage: str
    text: str
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    held: tuple[Expr, ...]
    value: Expr
    head: Tensor | None = None
    chosen: tuple[Expr, ...] = ()
    costly: bool = False


def through(site: Site, axes: Sequence[Axis], copy: Site) -> Site:
    """Return the site of what a copy reads, given a ``site`` that reads the copy.

    ``axes`` are the axes of the copy, and ``copy`` is its read. The copy then needs no gradient.
    """
    points = scope(site.axes)
    at = {axis: to_lin(index, ranges=points) for axis, index in zip(axes, site.indices)}
    moved = [substitute(v, at, points) for v in (*copy.indices, *copy.held)]
    indices, held = moved[: len(copy.indices)], moved[len(copy.indices) :]
    return replace(site, text=copy.text, indices=tuple(indices), held=(*site.held, *held))


def is_injective(site: Site) -> bool:
    """Return whether a site reads each element at one point at most, which the element tells."""
    element = [Lin.of(Axis("e", 2**40)) for _ in site.indices]
    try:
        inverse = invert(site.axes, site.indices, element, site.held)
    except NotInvertible:
        return False
    return inverse is None or not inverse.free


def cases(site: Site) -> Iterator[Site]:
    """Yield sites without ``min`` and ``max`` in their indices: one for each argument.

    The conditions under which an argument is the smallest or largest become the site's own.

    Raises :class:`~schedlang.gradient.invert.NotInvertible` if there are too many.

    >>> import schedlang as sl
    >>> i = Axis("i", 8)
    >>> site = Site("B", "A[...]", (i,), (sl.max(i - 2, 0),), (), sl.const(1.0, "float32"))
    >>> [(case.indices, case.held) for case in cases(site)]
    [((i - 2,), (i >= 2,)), ((0,), (i < 2,))]
    """
    waiting, count = [site], 0
    while waiting:
        current = waiting.pop()
        points = scope(current.axes)
        lins = [to_lin(index, ranges=points) for index in current.indices]
        extreme = next((a for lin in lins for a in _innermost(lin)), None)
        if extreme is None:
            yield current
            continue
        count += len(extreme.args)
        if count > _MOST_CASES:
            raise NotInvertible(None)
        for k in reversed(range(len(extreme.args))):
            held = tuple(
                _wins(extreme, k, other) for other in range(len(extreme.args)) if other != k
            )
            own = tuple(substitute(cond, {}, points) for cond in held)
            indices = tuple(
                to_expr(_replaced(lin, extreme, extreme.args[k], points)) for lin in lins
            )
            waiting.append(replace(current, indices=indices, held=(*current.held, *own)))


def _wins(choice: Extreme, k: int, other: int) -> Expr:
    """Return the condition that argument ``k`` is chosen before ``other``: the first on ties."""
    op = ">" if choice.op == "max" else "<"
    a, b = to_expr(choice.args[k]), to_expr(choice.args[other])
    return Binary(op if other < k else f"{op}=", a, b, "bool")


def _innermost(lin: Lin) -> Iterator[Extreme]:
    """Yield the ``min`` and ``max`` in a polynomial, those inside of others first."""
    for atom in lin.atoms():
        if isinstance(atom, Extreme):
            for arg in atom.args:
                yield from _innermost(arg)
            yield atom


def _replaced(lin: Lin, choice: Extreme, by: Lin, ranges: Ranges) -> Lin:
    total = Lin({})
    for product, coef in lin.terms.items():
        term = Lin.of(coef)
        for atom in product:
            value = Lin.of(atom)
            if isinstance(atom, Extreme):
                args = [_replaced(arg, choice, by, ranges) for arg in atom.args]
                value = by if atom == choice else extreme(atom.op, args, ranges)
            term = term * value
        total = total + term
    return total
