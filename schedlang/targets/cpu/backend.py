"""``target="cpu"``: the loops as they stand."""

from __future__ import annotations

from schedlang.target_kinds import KINDS
from schedlang.targets.backend import Lowered
from schedlang.targets.loops import LoopBackend, NumbaBackend


class CpuBackend(LoopBackend, NumbaBackend[Lowered]):
    """The CPU, by LLVM or by numba."""

    facts = KINDS["cpu"]
