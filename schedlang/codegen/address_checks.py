"""The lines of emitted files for arrays that instructions need at multiples of some bytes."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.host import LINE
from schedlang.ir.array_rules import ADDRESS
from schedlang.ir.nodes import Buffer

# the names that these lines define
NAMES = ("_at_multiple", "_new_at_multiple")


def _text(words: str) -> str:
    """Return words of the rule as an f-string of Python."""
    return "f" + repr(words.replace("NAME", "{name}").replace("UNIT", "{unit}"))


_CHECK = f'''
def _at_multiple(value, name, unit, written):
    """Refuse an array that does not start at a multiple of `unit` bytes."""
    if {ADDRESS.there.replace("UNIT", "unit")}:
        fix = {_text(ADDRESS.fix_output)}
        if not written:
            fix = {_text(ADDRESS.fix)}
        raise ValueError({_text(f"NAME is {ADDRESS.broken}: ")} + fix)
'''

_NEW = f'''
def _new_at_multiple(shape, dtype):
    """A new array that starts at a multiple of {LINE} bytes."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.empty(count + {LINE}, "uint8")
    return room[-room.ctypes.data % {LINE} :][:count].view(dtype).reshape(shape)
'''


def helpers(addresses: Mapping[Buffer, int], outputs: tuple[Buffer, ...]) -> list[str]:
    """Return the functions that the lines call, for arguments with the ``addresses``."""
    if not addresses:
        return []
    return [_CHECK, *[_NEW] * any(output in addresses for output in outputs)]


def check(buffer: Buffer, name: str, unit: int, written: bool) -> str:
    """Return the line that checks the array ``name``, the argument ``buffer``."""
    return f"_at_multiple({name}, {buffer.name!r}, {unit}, {written})"


def allocation(addresses: Mapping[Buffer, int], output: Buffer, shape: str, dtype: str) -> str:
    """Return the text of a new array for ``output``."""
    new = NAMES[1] if output in addresses else "np.empty"
    return f"{new}({shape}, {dtype})"
