"""Python identifiers for the buffers, loops and sizes of a nest."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, walk

RESERVED = frozenset(keyword.kwlist) | frozenset(dir(builtins)) | {
    "np", "njit", "prange", "inf", "nan", "OPTIONS", "math", "numba",
}  # fmt: skip
# what a file that stands alone imports and defines beside its public function
SAVED = frozenset({
    "AbstractTemplate", "Any", "BuiltinFunctionType", "CPUContext", "Callable", "Sequence",
    "TypingError", "UnsupportedError", "annotations", "cgutils", "compiler", "cpu_target",
    "infer_global", "intrinsic", "ir", "lower_builtin", "lower_cast", "models", "operator",
    "populate_array", "register_model", "signature", "types", "_array", "_apart",
})  # fmt: skip


def identifier(name: str) -> str:
    """Return ``name`` with what cannot stand in an identifier replaced by ``_``."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{text}" if not text or text[0].isdigit() else text


class Names:
    """One identifier an object, readable, and distinct from those that are reserved."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = set(RESERVED) | set(reserved)
        self._of: dict[Any, str] = {}
        self._counts: dict[str, int] = {}

    def give(self, key: Any, wanted: str) -> str:
        """Return the identifier of ``key``, near ``wanted``; the same one each time."""
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


# where a buffer is known: the numbers of the statements from its allocation to its block's end
_Scope = tuple[int, int]
EVERYWHERE: _Scope = (0, sys.maxsize)


@dataclass
class _Shared:
    """A name, and the scopes of the buffers that have it: no two of them overlap."""

    name: str
    scopes: list[_Scope]

    def apart(self, scope: _Scope) -> bool:
        return all(end <= scope[0] or scope[1] <= start for start, end in self.scopes)


def _scopes(body: Block) -> dict[Buffer, _Scope]:
    found: dict[Buffer, _Scope] = {}
    still: list[tuple[Buffer, int, int]] = []
    for number, (stmt, depth) in enumerate(walk(body)):
        # a statement further out ends the blocks inside of it
        while still and still[-1][2] > depth:
            buffer, start, _ = still.pop()
            found[buffer] = (start, number)
        if isinstance(stmt, Alloc):
            still.append((stmt.buffer, number, depth))
    found.update({buffer: (start, sys.maxsize) for buffer, start, _ in still})
    return found


def name_all(nest: Nest, reserved: Iterable[str]) -> Names:
    """Return names for everything in ``nest``.

    Equal printed names in separate places may share one.
    """
    names = Names(reserved)
    for arg in nest.args:
        names.give(arg, arg.name)
    for size in nest.sizes:
        names.give(size, size.name)
    shared: dict[tuple[str, str], list[_Shared]] = {}
    scopes = _scopes(nest.body)
    for buffer in nest.buffers:
        if buffer in names:
            continue
        known, scope = shared.setdefault((buffer.name, buffer.dtype), []), scopes.get(buffer)
        found = next((s for s in known if scope is not None and s.apart(scope)), None)
        if found is None:
            found = _Shared(names.fresh(buffer.name), [])
            known.append(found)
        found.scopes.append(scope or EVERYWHERE)
        names.share(buffer, found.name)
    loops: dict[str, str] = {}
    for axis, printed in nest.names.items():
        if printed not in loops:
            loops[printed] = names.fresh(printed)
        names.share(axis, loops[printed])
    return names
