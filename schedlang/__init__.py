"""A schedule language in Python: say what to compute, then how, and read every level."""

from schedlang import compute, errors, schedule
from schedlang.compute.math import (
    abs, acos, all, any, asin, atan, atan2, cast, ceil, const, cos, cosh, erf, exp, exp2, expm1,
    floor, if_then_else, isfinite, isinf, isnan, log, log10, log1p, log2, logical_not, pow, round,
    rsqrt, select, sigmoid, sin, sinh, sqrt, tan, tanh, trunc,
)  # fmt: skip
from schedlang.compute.reduce import argmax, argmin, comm_reducer, max, min, prod, reduce_axis, sum
from schedlang.compute.scan import scan
from schedlang.compute.tensor import Tensor, placeholder, var
from schedlang.schedule.schedule import Schedule

create_schedule = schedule
