"""Libraries of C files, which the system's C compiler makes, and their functions."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.codegen.c_compiler import GCC_OPTIONS, OPTIONS
from schedlang.errors import BuildError, explain
from schedlang.expr.dtypes import register_dtype
from schedlang.machine.nodes import Array, Reg
from schedlang.runtime.c_toolchain import FASTMATH, ZIG_OPTIONS, Toolchain, compiler, is_zig
from schedlang.runtime.cache_files import LIBRARY, contents, store
from schedlang.runtime.one_process import one_process
from schedlang.runtime.parameters import Signature

SECONDS = 300
# what loaders and compilers say of a function of the helpers that is not there
UNDEFINED = re.compile(
    r"(?:undefined symbol: |undeclared function '|declaration of function ['‘])(sl_\w+)"
)
# of the files of libraries
FORMAT = "2"


@lru_cache(maxsize=8)
def version(command: tuple[str, ...]) -> str:
    """Return what a compiler says of its version, or an empty text."""
    try:
        ran = subprocess.run([*command, "--version"], capture_output=True, timeout=SECONDS)
    except OSError:
        return ""
    return ran.stdout.decode(errors="replace")


def host_name() -> str:
    """Return LLVM's name of this machine's processor."""
    from llvmlite import binding as llvm

    return str(llvm.get_host_cpu_name())


def library(
    source: Path, fastmath: bool = False, refusal: Callable[[str], Exception] | None = None,
    objects: Sequence[bytes] = (),
) -> ctypes.CDLL:  # fmt: skip
    """Return the library of a C file, compiled unless the cache folder has it.

    It is linked with ``objects``, which the name of the file must tell from others. Another
    compiler, version, option or processor makes another library. Raises
    :class:`~schedlang.errors.BuildError` if the compiler fails, or what ``refusal`` returns for the
    first error in the source.
    """
    command = _command(compiler())
    options = (*_for(command, OPTIONS), *(FASTMATH if fastmath else ()))
    facts = [*command, version(tuple(command)), *options, host_name(), FORMAT]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:12]
    kept = source.with_suffix(f".{key}{LIBRARY.suffix}")
    with one_process(source):
        if contents(LIBRARY, kept) is not None:
            return _loaded(kept)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            fresh = Path(folder) / kept.name
            given = [str(source)]
            for number, content in enumerate(objects):
                given.append(str(Path(folder) / f"{number}.o"))
                Path(given[-1]).write_bytes(content)
            _compile([*command, *options, "-o", str(fresh), *given, "-lm"], source, refusal)
            # a file of the folder stays loaded when it is removed
            return _loaded(kept if store(LIBRARY, kept, fresh.read_bytes()) else fresh)


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        _check_helpers(str(error))
        raise BuildError(
            f"the library of a C kernel cannot be loaded ({error}): install the OpenMP library of "
            "the C compiler, set SCHEDLANG_CACHE to a folder whose files may be executed, or use "
            'target="cpu"'
        ) from None


def _check_helpers(message: str) -> None:
    """Raise an error if a message says that a C file lacks a function of the helpers."""
    if lacking := UNDEFINED.search(message):
        raise BuildError(
            explain(
                f"a C kernel calls {lacking[1]}",
                "codegen/c_helpers.h does not define this function",
                "Define it there, or give its row in expr/functions.py a `library`, whose function "
                'of C it calls; target="cpu" needs neither.',
            )
        ) from None


def assembly(
    source: Path, options: tuple[str, ...], refusal: Callable[[str], Exception] | None = None
) -> str:
    """Return a C file compiled to assembly, with line tables, which change no instruction.

    Raise as :func:`library` does.
    """
    command = _command(compiler())
    kept = [o for o in _for(command, options) if o != "-shared"]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "kernel.s"
        _compile([*command, *kept, "-S", "-g1", "-o", str(target), str(source)], source, refusal)
        return target.read_text(encoding="utf-8", errors="replace")


def compile_file(tools: Toolchain, source: Path, options: Sequence[str], output: Path) -> None:
    """Compile a C file to ``output``; raise :class:`~schedlang.errors.BuildError` if that fails.

    The message has all that the compiler says, and the file stays where it is.
    """
    _compile([*_command(tools.command), *options, "-o", str(output), str(source), "-lm"], source)


def _command(command: Sequence[str]) -> list[str]:
    """Return the command of a compiler, with the options that it alone knows."""
    is_clang = "clang" in version(tuple(command)).lower()
    return [*command] if is_clang else [*command, *GCC_OPTIONS]


def _for(command: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the options that a compiler of this machine takes: zig has no OpenMP."""
    if not is_zig(command):
        return [*options]
    return [*(o for o in options if o != "-fopenmp"), *ZIG_OPTIONS]


def _compile(
    command: list[str], source: Path, refusal: Callable[[str], Exception] | None = None
) -> None:
    """Run the compiler; raise an error with its first message if it fails."""
    name = command[0]
    try:
        ran = subprocess.run(
            command, capture_output=True, timeout=SECONDS, env={**os.environ, "LC_ALL": "C"}
        )
    except OSError as error:
        raise BuildError(
            f"the C compiler {name} does not run ({error.strerror}): set CC to the command of GCC "
            "or Clang"
        ) from None
    except subprocess.TimeoutExpired:
        raise BuildError(
            f"{name} took more than {SECONDS} s for {source}: try again when other programs leave "
            "it a core, or unroll less"
        ) from None
    if ran.returncode:
        said = ran.stderr.decode(errors="replace")
        if os.strerror(errno.ENOSPC) in said:
            raise BuildError(
                f"{name} cannot write: the disk of {tempfile.gettempdir()} is full. Free some "
                "space, or set TMPDIR to a folder of another disk"
            )
        _check_helpers(said)
        first = next((line for line in said.splitlines() if "error:" in line), said)
        if refusal is not None:
            raise refusal(first.strip()[:300])
        # zig is a module of Python's
        shown = " ".join(command[:4]) if is_zig(command[:4]) else name
        raise BuildError(
            f"{shown} refuses {source}:\n{said.strip()}\n  Use GCC or Clang with OpenMP and "
            '_Float16 (GCC 12, Clang 15 or later), or target="cpu".'
        )


def c_kinds(parameters: Sequence[Array | Reg]) -> list[Any]:
    """Return the C types of the parameters of a machine nest: pointers and scalars."""
    return [
        ctypes.c_void_p
        if isinstance(p, Array)
        else np.ctypeslib.as_ctypes_type(register_dtype(p.type.dtype))
        for p in parameters
    ]


def c_types(signature: Signature) -> list[Any]:
    """Return the C types of the parameters of a kernel: pointers, scalars and sizes."""
    kinds: list[Any] = []
    for p in signature.parameters:
        if p.is_scalar:
            kinds.append(np.ctypeslib.as_ctypes_type(register_dtype(p.dtype)))
        else:
            kinds.append(ctypes.c_void_p)
    return kinds + [ctypes.c_int64] * len(signature.sizes)


class _Elements:
    """The type of a parameter that takes a contiguous array whose elements may be written.

    ctypes takes such an array without a function of Python's.
    """

    from_param = (ctypes.c_char * 0).from_buffer


def c_function(name: str, library: ctypes.CDLL, kinds: list[Any]) -> Callable[..., None]:
    """Return the function ``name`` as a function of flat NumPy arrays and scalars."""
    plain, function = library[name], library[name]
    plain.argtypes = kinds
    own: list[Any] = [_Elements if kind is ctypes.c_void_p else kind for kind in kinds]
    function.argtypes = own
    plain.restype = function.restype = None

    def by_addresses(*args: Any) -> None:
        plain(*[address(a) if isinstance(a, np.ndarray) else a for a in args])

    run: Callable[..., None] = function

    def call(*args: Any) -> None:
        nonlocal run
        chosen = run
        try:
            chosen(*args)
        except ctypes.ArgumentError:
            if chosen is by_addresses:
                raise
            # an array that is read-only, or of a dtype that buffers lack: later arrays of this
            # kernel are likely to be like it, and an exception takes longer than this way
            run = by_addresses
            run(*args)

    return call


def address(array: np.ndarray) -> int:
    """Return where the elements of a contiguous array begin.

    For a writable array it takes a quarter of the time of NumPy's ``array.ctypes.data``.
    """
    # an exception takes longer than NumPy's way
    if array.flags.writeable:
        try:
            return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
        except (TypeError, ValueError):
            # no elements, or a dtype that buffers lack
            pass
    return int(array.ctypes.data)
