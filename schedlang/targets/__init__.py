"""Targets as objects: a folder for each kind, with what that kind alone knows of building.

:mod:`~schedlang.targets.backend` is the interface, and :mod:`~schedlang.targets.build` asks it. The
facts about a kind that other parts of schedlang ask for are in :mod:`schedlang.target_kinds`.
``instruction_check.py`` compares an instruction with its declaration, and ``instruction_trials.py``
says which compiler writes one alone.

``target=`` takes an object of a class that derives from one of these, with ``facts`` of its own;
see ``docs/inside/targets.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from schedlang.callable_module import load_name
from schedlang.errors import BuildError, explain
from schedlang.target import Target
from schedlang.target_kinds import Facts, placed_at
from schedlang.targets.backend import Backend, Lowered, Options, Request

if TYPE_CHECKING:
    from schedlang.targets.c.backend import CBackend
    from schedlang.targets.gpu import GpuBackend, Launched
    from schedlang.targets.loops import LoopBackend, NumbaBackend, PrintedBackend

# the modules of classes, which load when they are first used: a build needs one kind of target
_MODULES = {
    "CBackend": "c.backend",
    "GpuBackend": "gpu",
    "Launched": "gpu",
    "LoopBackend": "loops",
    "NumbaBackend": "loops",
    "PrintedBackend": "loops",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return load_name(__name__, _MODULES, name)


def backend_of(target: Target) -> Backend[Any]:
    """Return what builds kernels for ``target``.

    Raise :class:`~schedlang.errors.BuildError` for an object that only has facts.
    """
    if isinstance(target.backend, Backend):
        return target.backend
    if target.backend is not None:
        raise BuildError(
            explain(
                f"target={target.backend!r}",
                "it has facts, but builds no kernels",
                "Derive its class from one of schedlang.targets.",
            )
        )
    return cast("Backend[Any]", placed_at(target.facts.backend)())


__all__ = [
    "Backend", "CBackend", "Facts", "GpuBackend", "Launched", "LoopBackend", "Lowered",
    "NumbaBackend", "Options", "PrintedBackend", "Request", "backend_of",
]  # fmt: skip
