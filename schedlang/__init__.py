"""A schedule language in Python: define a computation, schedule it, and read every level.

``compute`` defines a computation and ``schedule`` its loop nest. ``build`` turns the loop nest into
a file of readable numba source, and returns a kernel to call. Importing this package imports
nothing else: each name loads its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from threading import RLock
from typing import Any

from schedlang.tvm.aliases import install
from schedlang.version import __version__ as __version__

install()

# the module of each public name
_NAMES = {
    "analysis.cost": ("cost",),
    "analysis.graph": ("graph",),
    "arrays": ("einsum", "named"),
    "autotune.best": ("apply_best", "best"),
    "compute.boundary": ("pad",),
    "compute.custom_reducer": ("comm_reducer",),
    "compute.facts": ("assume",),
    "compute.math": (
        "all", "any", "atan2", "cast", "const", "if_then_else", "logical_not", "popcount", "pow",
        "saturating_cast", "select",
    ),
    "compute.reduce": ("argmax", "argmin", "max", "min", "prod", "reduce_axis", "sum"),
    "compute.reference": ("reference",),
    "compute.scan": ("scan",),
    "compute.scatter": ("scatter",),
    # the package that gives Expr its operators as well
    "compute.tensor": ("Axis", "Expr", "Tensor", "placeholder", "var"),
    "externs.definition": ("extern",),
    "hints.explain": ("explain",),
    "instructions.declaration": ("Instruction", "instruction"),
    "hints.next_steps": ("next_steps",),
    "ir.nest": ("Nest",),
    "networks.entry": ("network",),
    "networks.loading": ("load",),
    "runtime.c_loading": ("load_module",),
    "runtime.evaluate": ("evaluate",),
    "runtime.kernel": ("Kernel",),
    "schedule.schedule": ("Schedule",),
    "schedule.stage": ("StageView",),
    "state.thread_axis": ("thread_axis",),
    "target": ("Target",),
    "targets.build": ("build", "lower"),
    "tracing.jit": ("jit",),
    "tracing.loops": ("fori_loop",),
    "tracing.tensors": ("trace",),
    "tracing.ufuncs.definition": ("ufunc",),
}  # fmt: skip
# packages, of which some are also called
_PACKAGES = {
    "create_schedule": "schedule",
    **{
        name: name
        for name in (
            "autoschedule", "autotune", "compute", "errors", "frontend", "gradient",
            "instructions", "plot", "schedule", "te", "topi", "torch",
        )
    },
}  # fmt: skip
# Python lets two threads that import modules of one package meet a module that is half loaded
_LOADING = RLock()
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def _load(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"schedlang.{_MODULES[name]}"), name)
    if name in _PACKAGES:
        return import_module(f"schedlang.{_PACKAGES[name]}")
    from schedlang.compute import functions

    if name == "__all__":
        return sorted(["__version__", *_MODULES, *_PACKAGES, *functions.__all__])
    if name in functions.__all__:
        return getattr(functions, name)
    from schedlang.tvm.names import lookup

    return lookup(name)


def __getattr__(name: str) -> Any:
    """Return what ``name`` stands for; the names of :mod:`schedlang.tvm.names` work as well."""
    with _LOADING:
        value = globals()[name] = _load(name)
    return value


def __dir__() -> list[str]:
    """Return the names in ``sl``, including those that are not loaded yet."""
    return sorted({*__getattr__("__all__"), *(n for n in globals() if n.startswith("__"))})
