"""A schedule language in Python: say what to compute, then how, and read every level."""

from __future__ import annotations

from typing import Any

from schedlang import compute, errors, schedule
from schedlang.compute.math import (
    abs, acos, all, any, asin, atan, atan2, cast, ceil, const, cos, cosh, erf, exp, exp2, expm1,
    floor, if_then_else, isfinite, isinf, isnan, log, log10, log1p, log2, logical_not, pow, round,
    rsqrt, select, sigmoid, sin, sinh, sqrt, tan, tanh, trunc,
)  # fmt: skip
from schedlang.compute.reduce import argmax, argmin, comm_reducer, max, min, prod, reduce_axis, sum
from schedlang.compute.scan import scan
from schedlang.compute.tensor import Tensor, placeholder, var
from schedlang.ir.nodes import Nest
from schedlang.lowering.lower import lower_state
from schedlang.runtime.kernel import Kernel, build
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target

create_schedule = schedule


def lower(schedule: Schedule, args: Any = None, name: str | None = None, **te_options: Any) -> Nest:
    """The loop nest of a schedule for ``args``; its ``str`` is what ``print(schedule)`` shows.

    Raises :class:`~schedlang.errors.LoweringError` where the schedule does not fit together.
    """
    return lower_state(schedule.state, args, name=name)
