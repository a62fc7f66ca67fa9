"""The intrinsics that a module really has, to compare with the table of their names."""

from __future__ import annotations

from types import ModuleType

from numba.core.extending import _Intrinsic


def intrinsics_in(module: ModuleType) -> dict[str, str]:
    """Return the names of the intrinsics of a module, with those by which numba knows them."""
    return {name: v._name for name, v in vars(module).items() if isinstance(v, _Intrinsic)}
