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
from schedlang.compute import functions as _functions
from schedlang.compute.boundary import pad
from schedlang.compute.functions import *
from schedlang.compute.math import (
    all,
    any,
    atan2,
    cast,
    const,
    if_then_else,
    logical_not,
    popcount,
    pow,
    saturating_cast,
    select,
)
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
    "all", "any", "apply_best", "argmax", "argmin", "assume", "atan2", "autoschedule", "autotune",
    "best", "build", "cast", "comm_reducer", "compute", "const", "cost", "create_schedule",
    "einsum", "errors", "evaluate", "explain", "fori_loop", "frontend", "gradient", "graph",
    "if_then_else", "jit", "load", "logical_not", "lower", "max", "min", "named", "network",
    "next_steps", "pad", "placeholder", "plot", "popcount", "pow", "prod", "reduce_axis",
    "reference", "saturating_cast", "scan", "scatter", "schedule", "select", "sum", "te",
    "thread_axis", "topi", "trace", "var",
]  # fmt: skip
__all__ += _functions.__all__
__all__.sort()


def __getattr__(name: str) -> Any:
    place = _ON_DEMAND.get(name)
    if place is None:
        from schedlang.tvm.names import lookup

        return lookup(name)
    module, _, attribute = place.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    """Return the names in ``sl``, including those that load on demand."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
