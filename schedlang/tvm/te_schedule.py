"""te's ``te.schedule``: the functions that inline stages; the compiler's own are left out."""

from __future__ import annotations

from typing import Any

from schedlang.errors import missing_name
from schedlang.schedule.auto_inline import (
    AutoInlineBroadcast,
    AutoInlineElemWise,
    AutoInlineInjective,
)
from schedlang.schedule.schedule import Schedule

_PASSES = (
    "the compiler's functions over schedules are not part of schedlang",
    "te.create_schedule(C.op) makes a schedule, sl.graph(C) the graph of reads, and "
    "tvm.lower(s, args) infers the bounds: nest.loops.",
)
REFUSED = dict.fromkeys(
    (
        "InferBound", "ScheduleOps", "SchedulePostProcToPrimFunc", "VerifyCompactBuffer",
        "CreateReadGraph", "CreateAttachPath", "PostDFSOrder", "ScanGetBody",
        "ScanFixPointAnalysis", "SpecializedCondition", "Fuse", "Split", "IterVar",
    ),
    _PASSES,
)  # fmt: skip


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, REFUSED, "te.schedule")


__all__ = ["AutoInlineBroadcast", "AutoInlineElemWise", "AutoInlineInjective", "Schedule"]
