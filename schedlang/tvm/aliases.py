"""Imports of this folder's modules by the names that programs use, such as ``schedlang.te``.

A program for TVM says ``import tvm.te``; here it says ``import schedlang.te``. Both spellings,
``schedlang.te`` and ``schedlang.tvm.te``, give one and the same module. Type checkers do not run
this finder: for them each name has a stub, such as ``schedlang/te.pyi``. An import of a part of TVM
that schedlang leaves out, such as ``schedlang.relay``, says so.
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

FACES = (
    "auto_scheduler", "autotvm", "contrib", "driver", "error", "nd", "te", "testing", "tir",
    "topi", "transform",
)  # fmt: skip
# names that modules had in earlier versions of TVM
RENAMED = {"contrib.util": "contrib.utils", "topi.util": "topi.utils"}


class AliasFinder(Loader):
    """The finder of ``schedlang.<face>``, which loads ``schedlang.tvm.<face>`` in its place."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        if package != "schedlang" or rest.partition(".")[0] not in FACES:
            return None
        if "." in rest:
            refuse_absent(fullname)
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> None:
        """Return ``None``: the module that Python makes is replaced in :meth:`exec_module`."""

    def exec_module(self, module: ModuleType) -> None:
        face = module.__name__.partition(".")[2]
        if face in RENAMED:
            from schedlang.errors import warn_of_old_name

            warn_of_old_name(f"tvm.{face}", f"tvm.{RENAMED[face]}")
        real = import_module(f"schedlang.tvm.{RENAMED.get(face, face)}")
        if not hasattr(real, "__path__"):
            # Python asks the finders for modules in it, which refuse TVM's by a sentence
            real.__path__ = []
        sys.modules[module.__name__] = real


class AbsentFinder:
    """The last finder, which refuses the modules of TVM that schedlang leaves out."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname.startswith("schedlang."):
            refuse_absent(fullname)


def refuse_absent(fullname: str) -> None:
    """Raise :class:`~schedlang.errors.MissingModuleError` if its package says why it is absent."""
    # imported late: ``import schedlang`` loads no module but this one
    from schedlang.errors import MissingModuleError, MissingNameError, SchedlangError, missing_name

    parent, _, name = fullname.rpartition(".")
    package = sys.modules[parent]
    try:
        if parent == "schedlang":
            getattr(package, name)
        elif name in vars(package).get("REFUSED", {}):
            spelling = parent.replace("schedlang", "tvm", 1)
            raise missing_name(package.__name__, name, vars(package)["REFUSED"], spelling)
    except MissingNameError:
        return
    except SchedlangError as absent:
        raise MissingModuleError(f"import {fullname}: {absent}", name=fullname) from None


def install() -> None:
    """Make the aliases importable; a second call does nothing.

    The finder comes first: a later one would give a submodule of a face, found in the folder of
    its package, a second module of its own.
    """
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
        sys.meta_path.append(AbsentFinder())
