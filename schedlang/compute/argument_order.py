"""The search for an order in which the arguments of a refused call fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, permutations

# with more arguments only swaps of two are tried
_MOST_PERMUTED = 5


def fit_in_another_order(count: int, fits: Callable[[tuple[int, ...]], bool]) -> bool:
    """Return whether ``count`` arguments, which do not fit as given, fit in another order.

    ``fits`` takes the positions of the arguments in the order to try.

    >>> fit_in_another_order(3, lambda order: order == (0, 2, 1))
    True
    >>> fit_in_another_order(3, lambda order: order == (0, 1, 2))
    False
    """
    natural = tuple(range(count))
    # as given they fit, so that the call is refused for another reason
    return not fits(natural) and any(fits(order) for order in _orders(count))


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    if count <= _MOST_PERMUTED:
        yield from permutations(range(count))
        return
    for one, other in combinations(range(count), 2):
        yield tuple(other if k == one else one if k == other else k for k in range(count))
