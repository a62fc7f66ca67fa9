"""Code that pragmas bring into a kernel, for the functions of instructions."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.errors import explain
from schedlang.instructions.declaration import MEMORY
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import For
from schedlang.state.state import IMPORTS


def unused_code(nest: Nest, loops: Sequence[For]) -> str:
    """Return why code of a pragma has no use: none of the instructions in ``loops`` calls any."""
    brings = [(f, n) for f in nest.loops for n, _ in f.pragmas if n in IMPORTS]
    calls = (f.instruction is not None and MEMORY in f.instruction.emit for f in loops)
    if not brings or any(calls):
        return ""
    loop, name = brings[0]
    return explain(
        f"building {nest.name}: {loop.axis.name} of stage {loop.stage} has the pragma {name!r}",
        "no instruction of the schedule calls its code, and the program would run without it",
        "Tensorize with an intrinsic of te.decl_tensor_intrin, or leave out the pragma.",
    )
