"""Python identifiers for the buffers, loops and sizes of a nest."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from typing import Any

from schedlang.ir.nest import Nest

RESERVED = frozenset(keyword.kwlist) | frozenset(dir(builtins)) | {
    "np", "njit", "prange", "inf", "nan", "OPTIONS", "math", "numba",
}  # fmt: skip


def identifier(name: str) -> str:
    """``name`` with what cannot stand in an identifier replaced by ``_``."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{text}" if not text or text[0].isdigit() else text


class Names:
    """One identifier an object, readable, and distinct from those that are reserved."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = set(RESERVED) | set(reserved)
        self._of: dict[Any, str] = {}
        self._counts: dict[str, int] = {}

    def give(self, key: Any, wanted: str) -> str:
        """The identifier of ``key``, near ``wanted``; the same one each time."""
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = self.fresh(wanted)
        return found

    def fresh(self, wanted: str) -> str:
        base = name = identifier(wanted)
        while name in self._taken:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
        self._taken.add(name)
        return name

    def share(self, key: Any, name: str) -> None:
        """Let ``key`` go by ``name``, an identifier that another object has."""
        self._of[key] = name

    def __getitem__(self, key: Any) -> str:
        return self._of[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._of


def name_all(nest: Nest, reserved: Iterable[str]) -> Names:
    """Names for everything in ``nest``; equal printed names in separate places may share one."""
    names = Names(reserved)
    for arg in nest.args:
        names.give(arg, arg.name)
    for size in nest.sizes:
        names.give(size, size.name)
    shared: dict[tuple[str, str], str] = {}
    for buffer in nest.buffers:
        if buffer not in names:
            key = (buffer.name, buffer.dtype)
            if key not in shared:
                shared[key] = names.fresh(buffer.name)
            names.share(buffer, shared[key])
    loops: dict[str, str] = {}
    for axis, printed in nest.names.items():
        if printed not in loops:
            loops[printed] = names.fresh(printed)
        names.share(axis, loops[printed])
    return names
