"""LLVM's passes over the code of a kernel, and what each of them is for.

The pipeline is one of LLVM's own. Level 3 unrolls loops further than level 2, and inlines more.
Plain loops need that: LLVM's vectorizer leaves several vectors to each iteration. Loops whose
statements are vectors already have as many as the schedule wanted. What is unrolled beyond them
takes registers from the sums, so that vectors spill: level 2 makes faster code there, in less time.
The vectorizer runs at both levels.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.machine.nodes import Body, For, Function, Run
from schedlang.machine.walks import children, values, walk

# the levels for functions with plain loops, and for others
PLAIN, VECTORS = 3, 2


def level_of(functions: Iterable[Function]) -> int:
    """Return the level of LLVM's pipeline for functions: the lower one without plain loops.

    A plain loop has neither vectors nor another loop.

    >>> import schedlang as sl
    >>> A = sl.placeholder((64,), name="A")
    >>> B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    >>> s = sl.schedule(B)
    >>> plain = sl.build(s, target="python").machine_nest
    >>> s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    >>> vectors = sl.build(s, target="python").machine_nest
    >>> level_of(plain.functions), level_of(vectors.functions)
    (3, 2)
    """
    loops = (s for f in functions for s, _ in walk(f.body) if isinstance(s, For))
    return PLAIN if any(_is_plain(loop.body) for loop in loops) else VECTORS


def _is_plain(body: Body) -> bool:
    """Return whether a loop's body has neither vectors nor another loop."""
    inside = [stmt for stmt, _ in walk(body)]
    if any(isinstance(stmt, (For, Run)) for stmt in inside):
        return False
    left = [value for stmt in inside for value in values(stmt)]
    while left:
        value = left.pop()
        if value.type.lanes:
            return False
        left += children(value)
    return True
