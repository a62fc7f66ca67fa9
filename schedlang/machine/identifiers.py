"""Python identifiers for the buffers, loops and sizes of a nest."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from schedlang.intrinsics.dialect import RESERVED, is_reserved
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, walk


def identifier(name: str) -> str:
    """Return ``name`` with each character that no identifier may contain replaced by ``_``."""
    if name.isidentifier() and name.isascii():
        return name
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{text}" if not text or text[0].isdigit() else text


def public_name(wanted: str, taken: Collection[str] = ()) -> str:
    """Return the name of the public function of a file, from the name that a user sees.

    It has an underscore behind it if the file imports or defines something under that name, as
    files do with those that are ``taken``.

    >>> public_name("my sum"), public_name("np"), public_name("pack", ["pack"])
    ('my_sum', 'np_', 'pack_')
    """
    name = identifier(wanted)
    return f"{name}_" if is_reserved(name) or name in taken else name


def loop_name(printed: str) -> str:
    """Return the name of a loop in source, which is shorter for a loop of several fused axes.

    If fused axes are fused again, only the last ``fused`` stays. The nest and the comment beside
    the loop have the whole name.

    >>> loop_name("i.outer"), loop_name("n.c.fused.y.fused.x.outer.fused.inner")
    ('i.outer', 'n.c.y.x.outer.fused.inner')
    """
    first, *words = printed.split(".")
    last = len(words) - 1 - words[::-1].index("fused") if "fused" in words else 0
    short = [word for k, word in enumerate(words) if word != "fused" or k == last]
    return ".".join([first, *short])


class Names:
    """The identifier of each object: readable, unique, and not a reserved one."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = {*RESERVED, *reserved}
        self._of: dict[Any, str] = {}
        self._counts: dict[str, int] = {}

    def give(self, key: Any, wanted: str) -> str:
        """Return the identifier of ``key``; the first call makes one from ``wanted``."""
        identifier = self._of.get(key)
        if identifier is None:
            identifier = self._of[key] = self.fresh(wanted)
        return identifier

    def fresh(self, wanted: str) -> str:
        base = name = identifier(wanted)
        while name in self._taken:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
        self._taken.add(name)
        return name

    def share(self, key: Any, name: str) -> None:
        """Give ``key`` the identifier ``name``, which another object has, too."""
        self._of[key] = name

    def give_loops(self, nest: Nest) -> None:
        """Give an identifier to each loop of ``nest``; loops of one printed name share it."""
        loops: dict[str, str] = {}
        for axis, printed in nest.names.items():
            if printed not in loops:
                loops[printed] = self.fresh(loop_name(printed))
            self.share(axis, loops[printed])

    def known(self) -> dict[Any, str]:
        """Return the identifiers by object."""
        return dict(self._of)

    def __getitem__(self, key: Any) -> str:
        return self._of[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._of


# the scope of a buffer: statement numbers from its allocation to the end of its block
_Scope = tuple[int, int]
EVERYWHERE: _Scope = (0, sys.maxsize)


@dataclass
class _Shared:
    """A name that several buffers share, and their scopes, which do not overlap."""

    name: str
    scopes: list[_Scope]

    def is_disjoint(self, scope: _Scope) -> bool:
        return all(end <= scope[0] or scope[1] <= start for start, end in self.scopes)


def _scopes(body: Block) -> dict[Buffer, _Scope]:
    """Return the scope of each buffer that ``body`` allocates, from the first time to the last."""
    scopes_: dict[Buffer, _Scope] = {}

    def close(buffer: Buffer, start: int, end: int) -> None:
        scopes_[buffer] = (scopes_.get(buffer, (start, end))[0], end)

    open_scopes: list[tuple[Buffer, int, int]] = []
    for number, (stmt, depth) in enumerate(walk(body)):
        # a statement at a smaller depth ends the deeper blocks
        while open_scopes and open_scopes[-1][2] > depth:
            buffer, start, _ = open_scopes.pop()
            close(buffer, start, number)
        if isinstance(stmt, Alloc):
            open_scopes.append((stmt.buffer, number, depth))
    for buffer, start, _ in open_scopes:
        close(buffer, start, sys.maxsize)
    return scopes_


def name_all(nest: Nest, reserved: Iterable[str]) -> Names:
    """Return names for the arguments, sizes, buffers and loops of ``nest``.

    Loops of one printed name share an identifier; so do buffers of one name and dtype whose scopes
    do not overlap.
    """
    names = Names(reserved)
    for arg in nest.args:
        names.give(arg, arg.name)
    for size in nest.sizes:
        names.give(size, size.name)
    shared: dict[tuple[str, str], list[_Shared]] = {}
    allocated = {b for b in nest.buffers if b not in names}
    alike = len({(b.name, b.dtype) for b in allocated}) < len(allocated)
    scopes = _scopes(nest.body) if alike else {}
    for buffer in nest.buffers:
        if buffer in names:
            continue
        sharing, scope = shared.setdefault((buffer.name, buffer.dtype), []), scopes.get(buffer)
        place = next((s for s in sharing if scope is not None and s.is_disjoint(scope)), None)
        if place is None:
            place = _Shared(names.fresh(buffer.name), [])
            sharing.append(place)
        place.scopes.append(scope or EVERYWHERE)
        names.share(buffer, place.name)
    names.give_loops(nest)
    return names
