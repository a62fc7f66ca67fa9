"""``target="python"``: the file of the CPU runs uncompiled, under a debugger."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.ir.nest import Nest
from schedlang.target import Target
from schedlang.target_kinds import KINDS
from schedlang.targets.backend import Lowered
from schedlang.targets.loops import LoopBackend, NumbaBackend


class PythonBackend(LoopBackend, NumbaBackend[Lowered]):
    """The CPU's file, uncompiled."""

    facts = KINDS["python"]

    def warnings(
        self, nest: Nest, lowered: Lowered, target: Target
    ) -> Iterator[tuple[str, type[Warning]]]:
        """Yield nothing: under a debugger, speed is nobody's concern."""
        yield from ()
