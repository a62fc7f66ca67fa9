"""Targets as objects: a folder for each kind, with what that kind alone knows of building.

:mod:`~schedlang.targets.backend` is the interface, and :mod:`~schedlang.targets.build` asks it. The
facts about a kind that other parts of schedlang ask for are in :mod:`schedlang.target_kinds`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from schedlang.target import Target
from schedlang.targets.backend import Backend


def backend_of(target: Target) -> Backend[Any]:
    """Return what builds kernels for ``target``."""
    module, _, name = target.facts.backend.partition(":")
    backend: Backend[Any] = getattr(import_module(module), name)()
    return backend


__all__ = ["Backend", "backend_of"]
