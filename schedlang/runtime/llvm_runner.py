"""The runner that compiles a machine nest by LLVM, without numba's type inference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.errors import BuildError, CompilerWarning, warn_user
from schedlang.runtime import files, thread_safety
from schedlang.runtime.collection import no_collection
from schedlang.runtime.numba_threads import import_numba
from schedlang.runtime.parameters import Signature
from schedlang.runtime.runners import STAMPED, ByNumba, Emitted, Purpose

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest
    from schedlang.runtime.built import Built
    from schedlang.runtime.llvm.library import Subject
    from schedlang.runtime.llvm.place import Compiled
    from schedlang.runtime.numba_code import Code
    from schedlang.runtime.perf_map import Code as MachineCode


class ByLlvm(ByNumba):
    """LLVM compiles the machine nest, which the file prints.

    If the printer does not know a part of the nest, numba compiles the file, with a
    :class:`~schedlang.errors.CompilerWarning`.
    """

    def __init__(self) -> None:
        self._compiled: Compiled | None = None

    def function_of(
        self,
        file: Emitted,
        path: Path,
        called: Collection[str],
        behind: Sequence[str],
        machine: Callable[[], MachineNest],
    ) -> Any:
        self._compiled = _compiled(_subject(file, path, machine))
        if self._compiled is None:
            return super().function_of(file, path, called, behind, machine)
        return self._compiled.function

    def subject(
        self, file: Emitted, path: Path, machine: Callable[[], MachineNest]
    ) -> Subject | None:
        import_numba()
        return _subject(file, path, machine) if _is_known() else None

    def compile(self, function: Any, signature: Signature, behind: Sequence[str]) -> None:
        """Do nothing for what LLVM compiled when it was loaded."""
        if self._compiled is None:
            super().compile(function, signature, behind)

    def compiles_in_call(self) -> bool:
        return self._compiled is None

    def in_numba(
        self, function: Any, machine: Callable[[], MachineNest], signature: Signature
    ) -> Any:
        compiled = self._compiled
        if compiled is None:
            return function
        from schedlang.runtime.llvm.in_numba import let_numba_call
        from schedlang.runtime.llvm.parts import failing

        nest, address = machine(), compiled.library.get_pointer_to_function(compiled.symbol)
        fails = nest.entry.name in failing(nest)
        written = frozenset(k for k, p in enumerate(signature.parameters) if p.is_output)
        return let_numba_call(function, address, nest.entry, fails, written)

    def codes(self, function: Any) -> Iterable[MachineCode]:
        compiled = self._compiled
        if compiled is None:
            return super().codes(function)
        from schedlang.runtime.llvm.library import unpacked

        return [compiled.library.code_of(part) for part in unpacked(compiled.code)]

    def code_of(self, built: Built, path: Path) -> Code:
        from schedlang.runtime.llvm.library import Subject
        from schedlang.runtime.llvm.printed import code_of
        from schedlang.runtime.llvm.unprintable import Unprintable

        nest = built.machine
        try:
            subject = Subject(built.public, built.entry, path, built.fastmath, False, lambda: nest)
            return code_of(subject, built.text)
        except Unprintable:
            return super().code_of(built, path)

    def function_of_nest(
        self, nest: MachineNest, name: str, fastmath: bool, called: Collection[str] = (),
        purpose: Purpose = STAMPED,
    ) -> tuple[Any, Path]:  # fmt: skip
        from schedlang.runtime.llvm.library import Subject

        listing = self.listing(nest, name, fastmath, purpose)
        path = files.write(listing.text, f"{name}_{purpose.suffix}")
        threads = any(function.parallel for function in nest.functions)
        compiled = _compiled(Subject(name, nest.entry.name, path, fastmath, threads, lambda: nest))
        if compiled is None:
            return super().function_of_nest(nest, name, fastmath, called, purpose)
        return compiled.function, path


def _subject(file: Emitted, path: Path, machine: Callable[[], MachineNest]) -> Subject:
    """Return what LLVM compiles for a file at ``path``."""
    import_numba()
    from schedlang.runtime.llvm.library import Subject
    from schedlang.runtime.llvm.unprintable import Unprintable

    def nest() -> MachineNest:
        try:
            return machine()
        except BuildError as error:
            # a network that was loaded from its text, which alone describes it then
            raise Unprintable(str(error).splitlines()[0]) from error

    threads = bool(file.serial_text) and not thread_safety.left_behind()
    return Subject(file.public, file.entry, path, file.fastmath, threads, nest)


def _is_known() -> bool:
    """Return whether the adapter knows this numba."""
    from numba import version_info

    return version_info.short in files.QUICK


def _compiled(subject: Subject) -> Compiled | None:
    """Return a machine nest, compiled; ``None`` after a warning if numba compiles it."""
    from numba import version_info

    from schedlang.runtime.llvm.compiled import compiled
    from schedlang.runtime.llvm.unprintable import Unprintable

    try:
        if not _is_known():
            raise Unprintable(f"numba {version_info.string} is not known")
        # a collection would walk all objects of the process, to which imports add many
        with no_collection():
            return compiled(subject)
    except Unprintable as unprintable:
        warn_user(
            f"kernel {subject.kernel}: {unprintable}, so numba compiles it", CompilerWarning
        )
        return None
