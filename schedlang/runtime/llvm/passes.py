"""LLVM's passes over the code of a kernel, and what each of them is for.

The pipeline is one of LLVM's own. Level 3 unrolls loops further than level 2, and inlines more.
Plain loops need that: LLVM's vectorizer leaves several vectors to each iteration. Loops whose
statements are vectors already have as many as the schedule wanted. What is unrolled beyond them
takes registers from the sums, so that vectors spill: level 2 makes faster code there, in less time.
The vectorizer runs at both levels.
"""

from __future__ import annotations

from typing import Any

from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Body, For, Run
from schedlang.machine.walks import children, values, walk
from schedlang.runtime.numba_internals import config

# the levels for nests with plain loops, and for others
PLAIN, VECTORS = 3, 2


def level_of(nest: MachineNest) -> int:
    """Return the level of LLVM's pipeline for a nest: the lower one if no innermost loop is plain.

    >>> import schedlang as sl
    >>> A = sl.placeholder((64,), name="A")
    >>> B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    >>> s = sl.schedule(B)
    >>> plain = sl.build(s, target="python").machine_nest
    >>> s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    >>> level_of(plain), level_of(sl.build(s, target="python").machine_nest)
    (3, 2)
    """
    loops = (s for f in nest.functions for s, _ in walk(f.body) if isinstance(s, For))
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


def optimize(codegen: Any, module: Any, level: int) -> None:
    """Optimize a module by the passes of a level, or of numba's own if that is lower.

    numba runs a part of them twice, to remove counts of references, which no kernel has here.
    """
    passes, builder = codegen._module_pass_manager(
        loop_vectorize=config.LOOP_VECTORIZE, opt=min(level, config.OPT)
    )
    passes.run(module, builder)
