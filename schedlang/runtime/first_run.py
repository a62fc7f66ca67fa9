"""The first run of code of the user's, in a child: an illegal instruction ends its process.

Assemblers accept instructions that the processor lacks. The child calls a function of a library on
zeros; see the end of this file, which runs without schedlang.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Sequence

# what the status of a process is after an illegal instruction: on POSIX, and on Windows
ILLEGAL = (-4, 0xC000001D)
# seconds that a tile takes at most
LONGEST = 20.0


def is_illegal(
    library: str, function: str, bytes_: Sequence[int], sizes: Sequence[int] = ()
) -> bool | None:
    """Return whether a function of C ends its process by an illegal instruction.

    It gets an array of zeros for each number of ``bytes_``, then one of the ``sizes``, if any. If
    it ends in another way than by its return, return ``None``: zeros may not be what it takes.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        # an application with an interpreter inside would start itself
        return None
    given = json.dumps([library, function, *map(list, (bytes_, sizes))])
    command = [sys.executable, "-S", "-E", __file__]
    try:
        done = subprocess.run(
            command, input=given, text=True, capture_output=True, timeout=LONGEST, check=False
        )
    except (subprocess.TimeoutExpired, OSError):
        return None
    return done.returncode in ILLEGAL if done.returncode in (0, *ILLEGAL) else None


def zeros(count: int) -> int:
    """Return the address of ``count`` bytes, which start on a cache line and are kept for ever."""
    room = ctypes.create_string_buffer(count + 64)
    _KEPT.append(room)
    address = ctypes.addressof(room)
    return address + -address % 64


_KEPT: list[ctypes.Array[ctypes.c_char]] = []


def main() -> None:
    """Call the function that the standard input names."""
    library, function, bytes_, sizes = json.loads(sys.stdin.read())
    given = [ctypes.c_void_p(zeros(count)) for count in bytes_]
    if sizes:
        given.append(ctypes.cast((ctypes.c_int64 * len(sizes))(*sizes), ctypes.c_void_p))
    getattr(ctypes.CDLL(library), function)(*given)


if __name__ == "__main__":
    main()
