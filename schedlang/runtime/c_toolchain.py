"""The compiler of a C program: the system's for this machine, or zig for any of its triples."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from textwrap import wrap

from schedlang.codegen.c_compiler import COMPILERS, GCC_OPTIONS, OPTIONS
from schedlang.errors import BuildError
from schedlang.target import Target
from schedlang.target_options import architecture_of

# -ffast-math would also flush denormals to zero in the whole process
FASTMATH = (
    "-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math",
    "-ffinite-math-only",
)  # fmt: skip
# the wheel that has zig, and the extra that installs it
WHEEL, EXTRA = "ziglang", "schedlang[ship]"
# options of the system's compiler that zig does not take: it has no OpenMP
_SYSTEM_ONLY = ("-fopenmp", "-march=native")
# without the first one zig ends a program where a number overflows; conditions lack the brackets
# that C does not need
ZIG_OPTIONS = ("-fno-sanitize=all", "-Wno-parentheses")
# the systems whose loaders take a library that ends with .so
_SHARED = ("linux", "macos")
# what the names of programs end with, on the systems where it is not empty
_PROGRAMS = {"wasi": ".wasm", "windows": ".exe"}


@dataclass(frozen=True)
class Toolchain:
    """A C compiler: its command, how a build line calls it, and the options of its machine.

    ``archiver`` is the command that makes archives, ``None`` if there is none.
    """

    command: tuple[str, ...]
    shown: str
    machine: tuple[str, ...]
    openmp: bool
    archiver: tuple[str, ...] | None

    def options(self, fastmath: bool) -> list[str]:
        """Return the options that decide what a program computes, and how fast."""
        apart = ("-shared", "-fPIC", *_SYSTEM_ONLY)
        kept = [o for o in OPTIONS if o not in apart]
        more = [*(FASTMATH if fastmath else ()), "-Wno-psabi"]
        return [*kept, *self.machine, *more, *self.threads]

    @property
    def threads(self) -> tuple[str, ...]:
        """The option that gives parallel loops threads."""
        return ("-fopenmp",) if self.openmp else ()


def compiler() -> list[str]:
    """Return the command of this machine's C compiler: ``CC``, the system's, or zig's.

    Raises :class:`~schedlang.errors.BuildError` if there is none.
    """
    given = os.environ.get("CC", "")
    try:
        command = shlex.split(given)
    except ValueError as error:
        raise BuildError(
            f"CC={given!r} is not a command ({error}): set CC to the command of GCC or Clang"
        ) from None
    if command:
        return command
    path = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if path is not None:
        return [path]
    if (own := zig("cc")) is not None:
        return own
    raise BuildError(
        "there is no C compiler: no cc, gcc or clang on the path, and no zig. Install GCC or "
        f'Clang, set CC to its command, or run pip install "{EXTRA}", which brings zig; '
        'target="cpu" needs none'
    )


def zig(tool: str) -> list[str] | None:
    """Return the command of a tool of zig's, ``None`` if its wheel is not installed."""
    return [sys.executable, "-m", WHEEL, tool] if find_spec(WHEEL) is not None else None


def is_zig(command: Sequence[str]) -> bool:
    """Return whether a command is zig's compiler.

    >>> is_zig(["python", "-m", "ziglang", "cc"]), is_zig(["/opt/zig", "cc"]), is_zig(["gcc"])
    (True, True, False)
    """
    *first, last = command
    return last == "cc" and bool(first) and first[-1].rpartition("/")[2] in ("zig", WHEEL)


def toolchain(target: Target) -> Toolchain:
    """Return the compiler of a target's C programs.

    Raises :class:`~schedlang.errors.BuildError` if the machine has none.
    """
    if not target.triple:
        command = compiler()
        if not is_zig(command):
            archiver = shutil.which("ar")
            return system(tuple(command), (archiver,) if archiver else None)
        return _by_zig(tuple(command), ("-march=native",))
    wanted = zig("cc")
    if wanted is None:
        raise BuildError(
            f"C for {target.triple} is compiled by zig, which is not installed: run "
            f'pip install "{EXTRA}"'
        )
    return _by_zig(tuple(wanted), machine_options(target))


def described(target: Target) -> Toolchain:
    """Return the compiler that a header names, whether or not this machine has it."""
    if target.triple:
        return _by_zig((), machine_options(target))
    return system((), None)


def system(command: tuple[str, ...], archiver: tuple[str, ...] | None) -> Toolchain:
    """Return GCC or Clang as a compiler for this machine."""
    return Toolchain(command, "cc", ("-march=native",), True, archiver)


def _by_zig(command: tuple[str, ...], machine: tuple[str, ...]) -> Toolchain:
    options = (*machine, *ZIG_OPTIONS)
    archiver = zig("ar")
    return Toolchain(
        command, f"python -m {WHEEL} cc", options, False, tuple(archiver) if archiver else None
    )


def machine_options(target: Target) -> tuple[str, ...]:
    """Return zig's options for the triple and the processor of a target.

    >>> machine_options(Target("c", triple="aarch64-linux-musl", cpu="cortex_a76"))
    ('-target', 'aarch64-linux-musl', '-mcpu=cortex_a76+neon')
    """
    named = [target.cpu or "baseline", *(f.replace("-", "_").replace(".", "_")
                                         for f in target.features)]  # fmt: skip
    options = ["-target", target.triple, f"-mcpu={'+'.join(named)}"]
    if "sve2" in target.features and architecture_of(target.triple) == "aarch64":
        # the bits of a register, which the processor must have
        options.append(f"-msve-vector-bits={target.vector_bytes * 8}")
    return tuple(options)


def build_line(tools: Toolchain, fastmath: bool, name: str) -> str:
    """Return the lines of a header that say how the file ``name`` becomes part of a program."""
    command = [*shlex.split(tools.shown), *tools.options(fastmath), "main.c", f"{name}.c", "-lm"]
    lines = wrap(" ".join(command), 88, break_long_words=False, break_on_hyphens=False)
    text = " \\\n  ".join(lines)
    if tools.openmp:
        text += f"\nwith GCC also {' '.join(GCC_OPTIONS)}"
    else:
        text += "\nParallel loops run on one thread, or on the threads of a host."
    return text


def program_suffix(triple: str) -> str:
    """Return how the name of a program ends on the triple's system.

    >>> program_suffix("wasm32-wasi"), program_suffix("aarch64-linux-musl"), program_suffix("")
    ('.wasm', '', '')
    """
    return next((end for system, end in _PROGRAMS.items() if system in triple.split("-")), "")


def has_shared_libraries(triple: str) -> bool:
    """Return whether a library of the triple's system ends with .so.

    >>> has_shared_libraries("aarch64-linux-musl"), has_shared_libraries("wasm32-wasi")
    (True, False)
    """
    return not triple or any(system in triple.split("-") for system in _SHARED)


__all__ = [
    "EXTRA", "FASTMATH", "ZIG_OPTIONS", "Toolchain", "build_line", "compiler", "described",
    "has_shared_libraries", "is_zig", "machine_options", "program_suffix", "toolchain", "zig",
]  # fmt: skip
