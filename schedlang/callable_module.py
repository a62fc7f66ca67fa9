"""Modules that are packages and can be called: ``schedlang.compute(...)``.

A plain re-export of the function under the package's name would hide the package from
``import schedlang.compute.tensor as t``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that forwards calls to its ``__call_target__``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["__call_target__"](*args, **kwargs)


def make_callable(name: str, target: Any) -> None:
    """Let module ``name`` be called as ``target``."""
    module = sys.modules[name]
    module.__class__ = CallableModule
    module.__dict__["__call_target__"] = target
    module.__doc__ = target.__doc__
