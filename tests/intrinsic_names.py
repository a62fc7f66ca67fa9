"""The intrinsics that a module really has, to compare with the table of their names."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from numba.core.extending import _Intrinsic


def values_of(module: ModuleType) -> dict[str, Any]:
    """Return what a module has by name, and what it loads when it is asked for."""
    return {name: getattr(module, name) for name in {*vars(module), *module.__all__}}


def intrinsics_in(module: ModuleType) -> dict[str, str]:
    """Return the names of the intrinsics of a module, with those by which numba knows them."""
    return {name: v._name for name, v in values_of(module).items() if isinstance(v, _Intrinsic)}
