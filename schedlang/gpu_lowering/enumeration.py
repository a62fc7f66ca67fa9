"""Enumeration of the elements that the threads of a block reach, over all iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, to_expr
from schedlang.ir.nodes import For, Load

# the most pairs of threads and elements that are enumerated
MOST_TRIED = 2**21
# the most elements that are tabulated directly; beyond it, reached elements are sorted first
MOST_LISTED = 2**21


def reached(
    loops: Sequence[For],
    tests: Sequence[Expr],
    indices: Sequence[Lin],
    together: Sequence[For],
    threads: Mapping[Axis, int],
) -> np.ndarray | None:
    """Return a column for each pair of an element and a thread that reaches it.

    A column holds the iterations of the loops ``together``, the indices, and the thread. Return
    ``None`` if there are too many pairs to enumerate.
    """
    roots = [to_expr(lin) for lin in indices]
    counted = [x for x in loops if isinstance(x.extent, int)]
    known = {*threads, *(x.axis for x in counted)}
    tests = [t for t in tests if all(n in known for n in _leaves(t))]
    used = {n for e in (*roots, *tests) for n in _leaves(e)}
    if not used <= known or any(x not in counted for x in together):
        return None
    separable, tests = _separable(roots, tests, counted, {*threads, *(x.axis for x in together)})
    used = {n for at, e in enumerate(roots) if at not in separable for n in _leaves(e)}
    used.update(n for test in tests for n in _leaves(test))
    moving = [x for x in counted if x.axis in used or x in together]
    counts = [*threads.values(), *(int(x.extent) for x in moving)]
    counts += [len(values) for values in separable.values()]
    if prod(counts) > MOST_TRIED:
        return None
    # open grids: an expression is evaluated over the dimensions it depends on only
    grids = np.ogrid[tuple(slice(n) for n in counts)]
    values = dict(zip([*threads, *(x.axis for x in moving)], grids))
    number = np.ravel_multi_index(tuple(grids[: len(threads)]), tuple(threads.values()))
    key = [values[x.axis] for x in together]
    with np.errstate(all="ignore"):
        keep = [np.asarray(evaluate(test, values), bool) for test in tests]
        ends = dict(zip(separable, grids[len(threads) + len(moving) :]))
        at = [
            separable[n][ends[n]] if n in separable else evaluate(root, values)
            for n, root in enumerate(roots)
        ]
    rows = [np.broadcast_to(row, counts).reshape(-1) for row in (*key, *at, number)]
    if not keep:
        return np.stack(rows)
    kept = np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*keep)), counts).reshape(-1)
    return np.stack([row[kept] for row in rows])


def share_element(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two different threads reach one element, one in each list."""
    count = a.shape[1]
    if not count or not b.shape[1]:
        return False
    element, size = np.zeros(count + b.shape[1], np.int64), 1
    for left, right in zip(a[:-1], b[:-1]):
        least = min(left.min(), right.min())
        length = int(max(left.max(), right.max()) - least) + 1
        element *= length
        element[:count] += left - least
        element[count:] += right - least
        size *= length
    if size > MOST_LISTED:
        _, element = np.unique(element, return_inverse=True)
        size = int(element.max()) + 1
    ends = []
    for at, rows in ((element[:count], a), (element[count:], b)):
        least, most = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
        np.minimum.at(least, at, rows[-1])
        np.maximum.at(most, at, rows[-1])
        ends.append((least, most))
    (low, high), (least, most) = ends
    shared = (high >= 0) & (most >= 0)
    return bool((shared & ((low != least) | (high != most) | (low != high))).any())


def _separable(
    roots: Sequence[Expr], tests: Sequence[Expr], loops: Sequence[For], shared: set[Axis]
) -> tuple[dict[int, np.ndarray], list[Expr]]:
    """Return the values of the indices that share no loop with share_element, by position.

    Such an index is replaced by its distinct values: ``k % 2`` has two, whatever the extent of
    ``k``. Return also the remaining tests: a test that only concerns the loops of such an index
    is applied here, and a test that shares no loop with anything and can hold is dropped.
    """
    found: dict[int, np.ndarray] = {}
    left = list(tests)
    leaves = [set(_leaves(root)) for root in roots]
    for n, (root, mine) in enumerate(zip(roots, leaves)):
        within = [test for test in left if mine.issuperset(_leaves(test))]
        without = [test for test in left if not mine.issuperset(_leaves(test))]
        rest = shared.union(*leaves[:n], *leaves[n + 1 :], *map(_leaves, without))
        values = None if mine & rest else _values([root, *within], mine, loops)
        if values is not None:
            at, *passed = values
            found[n] = np.unique(at[np.logical_and.reduce([*passed, np.ones(at.shape, bool)])])
            left = without
    kept = []
    for n, test in enumerate(left):
        mine = set(_leaves(test))
        rest = shared.union(*leaves, *map(_leaves, (*left[:n], *left[n + 1 :])))
        values = None if mine & rest else _values([test], mine, loops)
        if values is None or not values[0].any():
            kept.append(test)
    return found, kept


def _values(
    given: Sequence[Expr], axes: set[Expr], loops: Sequence[For]
) -> list[np.ndarray] | None:
    """Return the values of ``given`` over all iterations of the loops of ``axes``.

    Return ``None`` if there are no such loops or too many iterations.
    """
    own = [x for x in loops if x.axis in axes]
    counts = [int(x.extent) for x in own]
    if not own or prod(counts) > MOST_TRIED:
        return None
    grids = np.ogrid[tuple(slice(count) for count in counts)]
    values = dict(zip([x.axis for x in own], grids))
    with np.errstate(all="ignore"):
        return [np.broadcast_to(evaluate(e, values), counts) for e in given]


def _leaves(root: Expr) -> list[Expr]:
    return [n for n in postorder([root]) if isinstance(n, (Axis, Load, Var))]


__all__ = ["share_element", "reached"]
