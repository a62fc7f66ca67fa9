"""Imports of this folder's modules by the names that programs use, such as ``schedlang.te``.

A program for TVM says ``import tvm.te``; here it says ``import schedlang.te``. Both spellings,
``schedlang.te`` and ``schedlang.tvm.te``, give one and the same module. Type checkers do not run
this finder: for them each name has a stub, such as ``schedlang/te.pyi``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # the class loads much of the standard library, and gives nothing

FACES = ("contrib", "nd", "te", "testing", "tir", "topi", "transform")


class AliasFinder(Loader):
    """The finder of ``schedlang.<face>``, which loads ``schedlang.tvm.<face>`` in its place."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        if package == "schedlang" and rest.partition(".")[0] in FACES:
            return ModuleSpec(fullname, self)
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """Return ``None``: the module that Python makes is replaced in :meth:`exec_module`."""

    def exec_module(self, module: ModuleType) -> None:
        face = module.__name__.partition(".")[2]
        sys.modules[module.__name__] = import_module(f"schedlang.tvm.{face}")


def install() -> None:
    """Make the aliases importable; a second call does nothing.

    The finder comes first: a later one would give a submodule of a face, found in the folder of
    its package, a second module of its own.
    """
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
