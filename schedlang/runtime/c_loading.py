"""C programs that :meth:`Kernel.save` wrote as ``.so`` files, loaded to be called with arrays."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.compute.arrays import as_numpy
from schedlang.errors import BuildError, CallError, ComputeError
from schedlang.runtime.arrays import empty_like_library
from schedlang.runtime.c_library import address, c_types
from schedlang.runtime.c_processors import foreign
from schedlang.runtime.c_program import FORMAT, MARK, SEAL
from schedlang.runtime.checked import checked_arguments, flat_arguments
from schedlang.runtime.parameters import Binder, Signature
from schedlang.runtime.paths import path_of
from schedlang.runtime.signature_data import from_data
from schedlang.runtime.te_module import TeModule

# a library of more bytes is not one of ours
LARGEST = 1 << 28
_DATA = re.compile(re.escape(MARK).encode() + rb" (\{[^\0]*\})\0")


class LoadedProgram(TeModule):
    """A kernel of a shared library, which :func:`load_module` returned: call it with arrays.

    A call checks its arguments like a :class:`~schedlang.runtime.kernel.Kernel`; the library checks
    sizes. A pickle has the path, and loads the library again.
    """

    def __init__(self, path: Path, content: bytes, signature: Signature, function: str) -> None:
        self.path = str(path.absolute())
        self.signature = signature
        self._name = function
        self._binder = Binder(signature, "library")
        # the loader would take a path that it has loaded for what the file held then; and a file
        # of the folder stays loaded when it is removed
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            copy = Path(folder) / path.name
            copy.write_bytes(content)
            library = ctypes.CDLL(str(copy))
        self._function = getattr(library, function)
        self._function.argtypes = c_types(signature)
        self._words = getattr(library, f"{function}_error")
        self._words.restype, self._words.argtypes = ctypes.c_char_p, [ctypes.c_int]

    @property
    def name(self) -> str:
        return self._name

    @property
    def _names(self) -> tuple[str, ...]:
        # the file names the function, and a program of te asks for the name that tvm.build took
        return (self.name, self.signature.name)

    @property
    def source(self) -> str:
        """Raise ``BuildError``: the library has machine code alone."""
        raise BuildError(f"{self.path} has no source: f.save('k.c') writes the source of a kernel")

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        checked = checked_arguments(
            self._binder, args, named, as_numpy, empty_like_library, lambda a: a, lambda sizes: None
        )
        flat = flat_arguments(self.signature, checked.arrays, checked.sizes)
        code = self._function(*[address(a) if isinstance(a, np.ndarray) else a for a in flat])
        if code:
            raise CallError(f"kernel {self.name} of {self.path}: {self._words(code).decode()}")
        return checked.returned

    def __reduce__(self) -> Any:
        return load_module, (self.path,)

    def __repr__(self) -> str:
        return f"<LoadedProgram {self.name}({', '.join(map(str, self.signature.parameters))})>"


def load_module(path: Any, fmt: str = "") -> LoadedProgram:
    """Return the kernel of a shared library that ``f.save("k.so")`` or ``export_library`` wrote.

    Loading a library runs its code: load only libraries that you trust, as you would run only
    programs that you trust. ``fmt`` is te's and must be ``""`` or ``"so"``.

    Raises :class:`~schedlang.errors.BuildError` for a file that is missing, that schedlang did not
    write, that has changed since, or that was made for another processor, and
    :class:`~schedlang.errors.CallTypeError` for what is neither text nor a path.
    """
    if fmt not in ("", "so"):
        raise BuildError(f"load_module(..., fmt={fmt!r}): only shared libraries (.so) are loaded")
    file = path_of(path, "load_module")
    asked = f"load_module({str(path)!r})"
    if not file.is_file():
        raise BuildError(f"{asked}: the file does not exist")
    if file.suffix == ".py":
        raise BuildError(f"{asked}: a saved Python file is a module; import it")
    content, signature, function = _saved(file, asked)
    try:
        return LoadedProgram(file, content, signature, function)
    except (OSError, AttributeError) as error:
        raise BuildError(
            f"{asked}: this machine cannot load it ({error}); save it again on this machine, or "
            "set TMPDIR to a folder whose files may be executed"
        ) from None


def _saved(file: Path, asked: str) -> tuple[bytes, Signature, str]:
    """Return the library that a file holds, its signature, and the name of its function."""
    wrong = f"{asked}: it is not a library that f.save or export_library wrote"
    if file.stat().st_size > LARGEST:
        raise BuildError(f"{wrong}: it is larger than any of them")
    try:
        whole = file.read_bytes()
    except OSError as error:
        raise BuildError(f"{asked}: the file cannot be read ({error.strerror})") from None
    content, seal, end = whole.rpartition(SEAL)
    digest, _, processor = end.partition(b" ")
    match = _DATA.search(whole)
    if match is not None and not seal:
        raise BuildError(
            f"{asked}: it has no hash at its end, which f.save('k.so') writes: the file is cut "
            "off, or it was compiled by hand; save the library itself"
        )
    if match is None:
        raise BuildError(wrong)
    if len(_DATA.findall(whole)) > 1:
        raise BuildError(f"{asked}: it holds several kernels; link each to a library of its own")
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise BuildError(
            f"{asked}: the file has changed since it was written; save the kernel again"
        )
    if why := foreign(processor.decode(errors="replace")):
        raise BuildError(f"{asked}: it was made for {why}")
    try:
        data: Mapping[str, Any] = json.loads(match[1])
        if data.get("format") != FORMAT:
            raise ValueError(
                f"its format is {data.get('format')!r}, and this version reads {FORMAT}"
            )
        signature, function = from_data(data.get("signature")), data.get("function")
        if not isinstance(function, str) or not re.fullmatch(r"[A-Za-z]\w*", function, re.ASCII):
            raise ValueError(f"its function is called {function!r}")
    except (ComputeError, ValueError, AttributeError, RecursionError) as error:
        raise BuildError(f"{wrong}: {error}") from None
    return content, signature, function


__all__: Sequence[str] = ["LoadedProgram", "load_module"]
