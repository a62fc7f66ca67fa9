"""The names of emitted files, and what is taken out of a file that is loaded."""

from __future__ import annotations

import hashlib

# numba itself keeps machine code if an emitted file has this option
KEPT_BY_NUMBA = "cache=True, "
# the most characters of a function's name and of the name that begins a file's
LONGEST = 64


def short_name(name: str) -> str:
    """Return ``name``, or its start and a hash if it is longer than ``LONGEST`` characters.

    Files are named after functions, and a file name has at most 255 bytes. numba's cache joins two
    such names.

    >>> short_name("C_kernel"), len(short_name("C" * 300))
    ('C_kernel', 64)
    """
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 13]}_{hashlib.sha256(name.encode()).hexdigest()[:12]}"
