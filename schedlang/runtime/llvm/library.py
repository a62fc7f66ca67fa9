"""The subject of a compilation, and the library with its code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.runtime.llvm.objects import receive, send
from schedlang.runtime.numba_internals import JITCodeLibrary, add_object

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest
    from schedlang.runtime.llvm.gufunc_loop import GufuncLoop
    from schedlang.runtime.llvm.ufunc_loop import UfuncLoop
    from schedlang.runtime.perf_map import Code


@dataclass(frozen=True)
class Subject:
    """A machine nest to compile, its file, and the options of the file's functions.

    ``kernel`` is its name for users, and ``name`` the function that is called. ``threads`` says
    whether loops run on threads. ``nest`` returns the machine nest, which is needed only if the
    cache folder lacks the code. If there is a ``loop``, NumPy calls the code as a loop of a ufunc,
    else Python.
    """

    kernel: str
    name: str
    path: Path
    fastmath: bool
    threads: bool
    nest: Callable[[], MachineNest]
    loop: UfuncLoop | GufuncLoop | None = None


class Library(JITCodeLibrary):
    """The machine code of one kernel, which may be several object files."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.enable_object_caching()

    def load(self, objects: Sequence[bytes], symbols: Sequence[str]) -> None:
        """Take object files, which define the ``symbols`` that will be asked for."""
        first, *others = objects
        for code in others:
            add_object(self.codegen, code)
        self._set_compiled_object(first)
        self._finalize_final_module()
        self._know(symbols)

    def code_of(self, content: bytes) -> Code:
        """Return an object file that was loaded, with a function that it exports."""
        # a process that loads a kernel reads no symbols
        from schedlang.runtime.perf_map import Code, functions_in

        entry = next(s.name for s in functions_in(content) if s.exported)
        self._know([entry])
        return Code(self, entry, content)

    def _know(self, symbols: Iterable[str]) -> None:
        self.codegen._engine._defined_symbols.update(symbols)


# what a file with several objects begins with; an object file begins otherwise
_SEVERAL = b"objects of schedlang\n"


def packed(objects: Sequence[bytes]) -> bytes:
    """Return object files as one file; one alone is itself.

    >>> packed([b"one"]), unpacked(packed([b"one"])), unpacked(packed([b"one", b"two"]))
    (b'one', [b'one'], [b'one', b'two'])
    """
    if len(objects) == 1:
        return objects[0]
    file = BytesIO()
    send(file, len(objects), objects)
    return _SEVERAL + file.getvalue()


def unpacked(code: bytes) -> list[bytes]:
    """Return the object files of a file that :func:`packed` made."""
    several = code.removeprefix(_SEVERAL)
    return [code] if several == code else receive(BytesIO(several))[1]
