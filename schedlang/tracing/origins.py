"""The arrays of a loop's carry that change places in its body."""

from __future__ import annotations


def origin(passed: list[int], k: int, iterations: int) -> tuple[int, int]:
    """Return which array part ``k`` of the carry is after the last of ``iterations``.

    It is the one that part ``j`` was ``n`` iterations before, where the body made it, or as which
    the loop began. A negative number ``~j`` in ``passed`` says that the body makes part ``j``.
    """
    walk = [k]
    while len(walk) <= iterations:
        before = passed[walk[-1]]
        if before < 0:
            return ~before, len(walk) - 1
        if before in walk:
            start = walk.index(before)
            circle = walk[start:]
            return circle[(iterations - start) % len(circle)], iterations
        walk.append(before)
    return walk[-1], iterations
