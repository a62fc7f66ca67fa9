"""Gradients of reads whose index depends on data: each iteration adds at a computed place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from schedlang.compute.scatter import scatter
from schedlang.compute.tensor import Shape, Tensor
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import rewrite
from schedlang.gradient.algebra import same
from schedlang.gradient.ragged import conjuncts, copies, range_conditions
from schedlang.gradient.site import Site


def scatter_sites(sites: Sequence[Site], shape: Shape, name: str) -> Tensor:
    """Return what ``sites`` add to the elements that they read, as a tensor of ``shape``.

    The points of a site are the iterations of a scatter. Each starts from the result of the one
    before it, the first from zero; the last is called ``name``.

    >>> import schedlang as sl
    >>> T, I = sl.placeholder((4, 2), name="T"), sl.placeholder((3,), "int32", name="I")
    >>> E = sl.compute((3, 2), lambda i, j: T[I[i], j] * 2, name="E")
    >>> D = sl.gradient(E, T, head=sl.placeholder((3, 2), name="head"))
    >>> print(sl.schedule(D))
    T_grad(I: int32[3], head: float32[3, 2]) -> T_grad: float32[4, 2]
    <BLANKLINE>
    for i0 in 0..4:
      for j in 0..2:
        T_grad[i0, j] = 0
    for i in 0..3:
      for j in 0..2:
        T_grad[int64(I[i]), j] += head[i, j] * 2
    """
    total: Tensor | None = None
    for number, site in enumerate(sites):
        last = number == len(sites) - 1
        total = _added(site, shape, name if last else f"{name}.{site.stage}", total)
    assert total is not None
    return total


def _added(site: Site, shape: Shape, name: str, start: Tensor | None) -> Tensor:
    """Return ``start``, or zeros, after the iterations of one site."""
    swap = copies(site.axes)
    axes = tuple(swap.values())
    ranges = range_conditions(site.axes)
    memo: dict[int, Expr] = {}

    def moved(root: Expr) -> Expr:
        return rewrite(root, lambda n: swap.get(n) if isinstance(n, Axis) else None, memo)

    index, value = tuple(map(moved, site.indices)), moved(site.value)
    # the domain has the ranges of ragged axes
    tests = [
        moved(cond)
        for cond in conjuncts(site.held)
        if not any(same(cond, cond_of_range) for cond_of_range in ranges)
    ]
    where = (lambda *_: reduce(both, tests)) if tests else None
    return scatter(shape, axes, lambda *_: (index, value), init=start, where=where, name=name)
