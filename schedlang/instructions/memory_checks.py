"""The check of a function in memory, which computes an instruction on arrays with strides."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from schedlang.errors import ComputeError, SchedlangError, explain, text_of
from schedlang.instructions.declaration import Instruction, is_number, typed
from schedlang.instructions.emission import MemoryFunction


def check_in_memory(asked: str, declared: Instruction, emission: MemoryFunction) -> None:
    """Refuse strides that are not one for each dimension, and what is not such a function."""
    arrays = (*declared.operands, declared.output)
    ranks = [len(t.shape) for t in arrays]
    if emission.strides and not _are_strides(emission.strides, ranks):
        raise ComputeError(
            explain(
                asked,
                f"strides={emission.strides!r} does not fit {', '.join(map(typed, arrays))}",
                "Give a tuple for each operand and for the result, with a number or None for each "
                "dimension.",
            )
        )
    if not is_number(emission.cycles) or not 0 <= emission.cycles < inf:
        why = f"cycles={text_of(emission.cycles)} is not the time of a call"
        raise ComputeError(explain(asked, why, "Give the cycles of a call, or leave them out."))
    try:
        emission.check(declared)
    except SchedlangError as error:
        why = explain(asked, "its function in memory cannot be made", str(error))
        raise ComputeError(why) from None


def _are_strides(strides: Any, ranks: Sequence[int]) -> bool:
    """Return whether ``strides`` has a number or ``None`` for each dimension of each array."""
    return (
        isinstance(strides, (tuple, list))
        and all(isinstance(each, (tuple, list)) for each in strides)
        and [*map(len, strides)] == [*ranks]
        and all(n is None or type(n) is int for each in strides for n in each)
    )
