"""``target="cpu"``: the loops as they stand."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.errors import explain
from schedlang.ir.nodes import For
from schedlang.target_kinds import KINDS
from schedlang.targets.backend import Lowered
from schedlang.targets.loops import LoopBackend, NumbaBackend


class CpuBackend(LoopBackend, NumbaBackend[Lowered]):
    """The CPU, by LLVM or by numba."""

    facts = KINDS["cpu"]

    def unwritten(self, loops: Sequence[For]) -> str:
        from schedlang.instructions.box import IN_THE_BOX
        from schedlang.runtime.llvm.instruction_trial import trial

        for loop in loops:
            declared = loop.instruction
            assert declared is not None
            if declared in IN_THE_BOX or "llvm" not in declared.emit:
                continue
            # a compiler that refuses it would end this process
            if error := trial(declared).error:
                return explain(
                    f"tensorize({loop.axis.name}, {declared}) on stage {loop.stage}",
                    f"LLVM cannot write {declared.emit['llvm']}",
                    f"It says:\n{error}",
                )
        return ""
