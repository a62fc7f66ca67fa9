"""Names of compiled functions for Linux's perf: where they are in memory, one a line of its map.

perf reads ``/tmp/perf-PID.map`` for code that is in no file. Source: the Linux kernel,
tools/perf/Documentation/jit-interface.txt. numba keeps the object file of what it compiles, whose
table of symbols has the places and the sizes of functions; see ELF-64 Object File Format, 1.5.
"""

from __future__ import annotations

import os
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schedlang.errors import BuildError, explain

VARIABLE = "SCHEDLANG_PERF_MAP"
# the starts of the symbols of wrappers, and what their names in the map end in
_WRAPPERS = (
    ("_ZN7cpython", ".from_python"), ("from_python", ".from_python"), ("cfunc.", ".from_c"),
)  # fmt: skip
# in ELF: the type of a table of symbols, the type of a function, and a symbol for all other files
_SYMBOLS, _FUNCTION, _GLOBAL = 2, 2, 1


@dataclass(frozen=True)
class Symbol:
    """A function of an object file: its place in its ``section``, and its size in bytes.

    An ``exported`` function is known to other object files, and no other function has its name.
    """

    name: str
    section: int
    start: int
    size: int
    exported: bool


def is_wanted() -> bool:
    """Return whether the environment asks for names for perf, by ``SCHEDLANG_PERF_MAP=1``."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


class Code(NamedTuple):
    """Machine code: a library of numba's, a function in it, and the object file."""

    library: Any
    entry: str
    content: bytes


def add_to_map(codes: Iterable[Code], names: Sequence[str]) -> None:
    """Add the functions of the ``codes`` of a kernel to the map of this process.

    ``names`` are the functions of its file, with the one that is called last. Raises
    :class:`~schedlang.errors.BuildError` on a system other than Linux, and for a map that cannot be
    written.
    """
    if not sys.platform.startswith("linux"):
        raise BuildError(
            explain(
                f"{VARIABLE}={os.environ.get(VARIABLE)}",
                "perf is a tool of Linux",
                "Unset the variable.",
            )
        )  # fmt: skip
    lines = "".join(
        f"{start:x} {size:x} {name}\n"
        for code in codes
        for start, size, name in functions_with_places(code, names)
    )
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(map_path(), flags, 0o644), "w", encoding="utf-8") as file:
            file.write(lines)
    except OSError as error:
        raise BuildError(f"{VARIABLE}: cannot write {map_path()}: {error.strerror}") from None


def map_path() -> str:
    """Return the path at which perf looks for the map of this process."""
    return f"/tmp/perf-{os.getpid()}.map"


def codes_of(function: Any) -> Iterator[Code]:
    """Yield the codes of a function that numba compiled."""
    from schedlang.runtime.numba_internals import compiled_by_types

    for kinds, compiled in compiled_by_types(function).items():
        content = object_of(function, kinds, compiled)
        yield Code(compiled.library, compiled.fndesc.llvm_func_name, content)


def object_of(function: Any, kinds: tuple[Any, ...], compiled: Any) -> bytes:
    """Return the object file of a compiled function, from memory or from numba's cache on disk."""
    from schedlang.runtime.numba_cache import kept_object

    code = kept_object(function, kinds, compiled)
    if not code:
        raise BuildError(f"{VARIABLE}: numba did not keep the object file of {function.__name__}")
    return code


def functions_with_places(code: Code, names: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the address, the size and the name of each function of an object file."""
    symbols = functions_in(code.content)
    entry_symbol = next(s for s in symbols if s.name == code.entry)
    base = code.library.get_pointer_to_function(code.entry) - entry_symbol.start
    counts = Counter[str]()
    for symbol in symbols:
        if symbol.section == entry_symbol.section and symbol.size:
            name = name_in_map(symbol.name, names)
            counts[name] += 1
            numbered = name if counts[name] == 1 else f"{name}.{counts[name]}"
            yield base + symbol.start, symbol.size, numbered


def functions_in(code: bytes) -> list[Symbol]:
    """Return the functions of an object file in the format ELF-64, in the order of their places."""
    if code[:6] != b"\x7fELF\x02\x01":
        raise BuildError(f"{VARIABLE}: numba's object file is not in the format ELF-64")
    table, count = struct.unpack_from("<Q", code, 0x28)[0], struct.unpack_from("<H", code, 0x3C)[0]
    # name, type, flags, address, offset, size, link, ...
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * k) for k in range(count)]
    symbols = []
    for kind, offset, size, link in ((s[1], s[4], s[5], s[6]) for s in sections):
        if kind != _SYMBOLS:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, 24):
            name, info, _, section, start, length = struct.unpack_from("<IBBHQQ", code, at)
            if info & 0xF == _FUNCTION and section:
                end = code.index(b"\0", strings + name)
                text = code[strings + name : end].decode("utf-8", "replace")
                symbols.append(Symbol(text, section, start, length, info >> 4 == _GLOBAL))
    return sorted(symbols, key=lambda s: (s.section, s.start))


def name_in_map(symbol: str, names: Sequence[str]) -> str:
    """Return the name of a function in the map; ``names`` are the functions of the file.

    >>> short = name_in_map("_ZN1m8C_kernelB2v1B1Ei", ["C_kernel"])
    >>> short, name_in_map("__gufunc__._ZN8x", ["C_kernel"])
    ('C_kernel', 'C_kernel.parallel')
    >>> short = name_in_map("_ZN7cpython1m8C_kernelB2v1B1Ei", ["C_kernel"])
    >>> short, name_in_map("NRT_decref", ["C_kernel"])
    ('C_kernel.from_python', 'NRT_decref')
    >>> name_in_map("_ZN1m13C_y_outer_ten", ["C_y", "C_y_outer_ten"])
    'C_y_outer_ten'
    """
    if "numba_parfor_gufunc" in symbol or symbol.startswith("__gufunc__"):
        return f"{names[-1]}.parallel"
    # numba writes a name with its length before it, like C++; 3C_y is in 13C_y_outer_ten, too
    own = max((name for name in names if f"{len(name)}{name}" in symbol), key=len, default=None)
    if own is None:
        return symbol
    wrapper = next((end for start, end in _WRAPPERS if symbol.startswith(start)), "")
    return f"{own}{wrapper}"
