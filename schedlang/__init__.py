"""A schedule language in Python: define a computation, schedule it, and read every level.

``compute`` defines a computation and ``schedule`` its loop nest. ``build`` turns the loop nest into
a file of readable numba source, and returns a kernel to call. Importing this package imports
neither numba, sympy, networkx nor any extra. What builds kernels is imported when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from schedlang import compute, errors, schedule
from schedlang.arrays import einsum, named
from schedlang.compute.boundary import pad
from schedlang.compute.math import (
    abs, acos, all, any, asin, atan, atan2, cast, ceil, conj, const, cos, cosh, erf, exp, exp2,
    expm1, floor, if_then_else, imag, isfinite, isinf, isnan, log, log10, log1p, log2, logical_not,
    popcount, pow, real, round, rsqrt, saturating_cast, select, sigmoid, sin, sinh, sqrt, tan, tanh,
    trunc,
)  # fmt: skip
from schedlang.compute.custom_reducer import comm_reducer
from schedlang.compute.facts import assume
from schedlang.compute.reduce import argmax, argmin, max, min, prod, reduce_axis, sum
from schedlang.compute.reference import reference
from schedlang.compute.scan import scan
from schedlang.compute.scatter import scatter
from schedlang.compute.tensor import Tensor, placeholder, var
from schedlang.expr.nodes import Axis, Expr
from schedlang.ir.nest import Nest
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.stage import StageView
from schedlang.state.thread_axis import thread_axis
from schedlang.target import Target
from schedlang.tvm import aliases as _aliases
from schedlang.version import __version__

create_schedule = schedule
_aliases.install()

_ON_DEMAND = {
    "Kernel": "schedlang.runtime.kernel:Kernel",
    "apply_best": "schedlang.autotune.best:apply_best",
    "autoschedule": "schedlang.autoschedule",
    "autotune": "schedlang.autotune",
    "best": "schedlang.autotune.best:best",
    "build": "schedlang.targets.build:build",
    "cost": "schedlang.analysis.cost:cost",
    "gradient": "schedlang.gradient",
    "graph": "schedlang.analysis.graph:graph",
    "te": "schedlang.te",
    "evaluate": "schedlang.runtime.evaluate:evaluate",
    "explain": "schedlang.hints.explain:explain",
    "fori_loop": "schedlang.tracing.loops:fori_loop",
    "frontend": "schedlang.frontend",
    "jit": "schedlang.tracing.jit:jit",
    "load": "schedlang.networks.entry:load",
    "lower": "schedlang.targets.build:lower",
    "network": "schedlang.networks.entry:network",
    "next_steps": "schedlang.hints.next_steps:next_steps",
    "plot": "schedlang.plot",
    "topi": "schedlang.topi",
    "trace": "schedlang.tracing.tensors:trace",
}

__all__ = [
    "Axis", "Expr", "Kernel", "Nest", "Schedule", "StageView", "Target", "Tensor", "__version__",
    "abs", "acos", "all", "any", "apply_best", "argmax", "argmin", "asin", "assume", "atan",
    "atan2", "autoschedule", "autotune", "best", "build", "cast", "ceil", "comm_reducer", "compute",
    "conj", "const", "cos", "cosh", "cost", "create_schedule", "einsum", "erf", "errors",
    "evaluate", "exp", "exp2", "explain", "expm1", "floor", "fori_loop", "frontend", "gradient",
    "graph", "if_then_else", "imag", "isfinite", "isinf", "isnan", "jit", "load", "log", "log10",
    "log1p", "log2", "logical_not", "lower", "max", "min", "named", "network", "next_steps", "pad",
    "placeholder", "plot", "popcount", "pow", "prod", "real", "reduce_axis", "reference", "round",
    "rsqrt", "saturating_cast", "scan", "scatter", "schedule", "select", "sigmoid", "sin", "sinh",
    "sqrt", "sum", "tan", "tanh", "te", "thread_axis", "topi", "trace", "trunc", "var",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    place = _ON_DEMAND.get(name)
    if place is None:
        from schedlang.tvm.names import lookup

        return lookup(name)
    module, _, attribute = place.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    """Return the names in ``sl``, including those that load on demand."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
