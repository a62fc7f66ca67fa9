"""The facts that a pass over loops may ask for beside the statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property, partial

from schedlang.expr.nodes import Axis, Var
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, For, Stmt, walk
from schedlang.state.state import IMPORTS, TENSORIZE
from schedlang.target import Target

# copies of a body that unrolled loops make at most: more would not compile in reasonable time
MOST_COPIES = 1024


@dataclass(frozen=True)
class LoopJob:
    """The nest of the statements, the target, and what is known around the statements.

    ``fastmath`` allows the compiler to reorder sums. ``values`` are the values of axes that have
    only one, and ``known`` the ranges of others, such as the thread indices of a GPU. The
    statements of a ``kernel`` of a GPU have loops that the nest does not have.
    """

    nest: Nest
    target: Target
    fastmath: bool = False
    values: Mapping[Axis | Var, Lin] = field(default_factory=dict)
    known: Ranges = field(default_factory=Ranges)
    kernel: bool = False

    def may_have(self, kind: str) -> bool:
        """Return whether a loop may have this kind."""
        return self.kernel or kind in self._kinds

    @cached_property
    def _kinds(self) -> Set[str]:
        kinds = {loop.kind for loop in self.nest.loops}
        # the lanes of an instruction become a vectorized loop
        return kinds | {"vectorize"} if TENSORIZE in kinds else kinds

    @cached_property
    def imported(self) -> tuple[tuple[str, str], ...]:
        """The pragmas that bring code into the kernel, by name and text, each once."""
        pragmas = (pragma for loop in self.nest.loops for pragma in loop.pragmas)
        return tuple(dict.fromkeys(p for p in pragmas if p[0] in IMPORTS))

    @cached_property
    def steps(self) -> Mapping[str, Set[Axis]]:
        """The reduction axes of each stage of the nest that has any."""
        axes_by_stage: dict[str, set[Axis]] = {}
        for loop in self.nest.loops:
            if loop.axis.is_reduce:
                axes_by_stage.setdefault(loop.stage, set()).add(loop.axis)
        return axes_by_stage

    def steps_in(
        self, root: Stmt, findings: Findings
    ) -> frozenset[tuple[str, frozenset[Axis]]]:
        """Return the reduction axes of each stage that has a loop in a statement at root.

        ``findings`` are about other nests with the same statements.
        """
        stages = findings.once(("stages", root), partial(_stages, root))
        return frozenset((name, frozenset(self.steps[name])) for name in stages & set(self.steps))


def _stages(root: Stmt) -> frozenset[str]:
    """Return the stages of the loops in a statement."""
    return frozenset(s.stage for s, _ in walk(root) if isinstance(s, For))


LoopPass = Callable[[Block, LoopJob], Block]
