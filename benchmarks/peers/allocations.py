"""Counts of the allocations of a process, by a C library that it preloads."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent / "count_allocations.c"


@dataclass(frozen=True)
class Allocations:
    """The allocations of this process so far, and the bytes that they asked for."""

    count: int
    bytes: int

    def since(self, before: Allocations) -> Allocations:
        return Allocations(self.count - before.count, self.bytes - before.bytes)


def missing() -> str:
    """Return why allocations cannot be counted here, or an empty string."""
    if sys.platform != "linux":
        return "allocations are counted on Linux only"
    return "" if shutil.which("cc") else "there is no C compiler"


def library(folder: Path) -> Path:
    """Return the library to preload, compiled into ``folder`` where it is missing.

    Raise ``subprocess.CalledProcessError`` if the compiler does not take it.
    """
    key = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    path = folder / f"count_allocations-{key}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")
        command = ["cc", "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True)
        made.replace(path)
    return path


def counted() -> Allocations | None:
    """Return the allocations so far, or ``None`` if this process did not preload the library."""
    process = ctypes.CDLL(None)
    try:
        functions = process.counted_allocations, process.counted_bytes
    except AttributeError:
        return None
    for function in functions:
        function.restype = ctypes.c_ulong
    return Allocations(*(function() for function in functions))
