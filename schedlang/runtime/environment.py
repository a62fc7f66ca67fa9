"""The environment of records and cached files: machine, threads, versions of packages."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import lru_cache
from pathlib import Path
from typing import Any

import schedlang
from schedlang.runtime.numba_threads import running_threads
from schedlang.runtime.whole_cores import whole_cores
from schedlang.target import Target
from schedlang.version import __version__


def machine() -> str:
    """Return the processor, the cores that this process may use, and its threads if not equal."""
    named = f"{_processor()}, {cores()} cores"
    return named if threads() == cores() else f"{named}, {threads()} threads"


@lru_cache(maxsize=1)
def _processor() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    # this starts a process on some systems
    return platform.processor() or platform.machine()


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def threads() -> int:
    """Return the threads of a parallel kernel: ``NUMBA_NUM_THREADS``, or one per core."""
    number = os.environ.get("NUMBA_NUM_THREADS", "")
    return int(number) if number.isascii() and number.isdigit() and int(number) else cores()


def threads_of(target: Target) -> int:
    """Return the threads of a parallel loop in a kernel for ``target``, a CPU, as things stand.

    They are numba's, which ``numba.set_num_threads`` changes, or OpenMP's for C.
    """
    if not target.facts.threads:
        return 1
    if target.facts.openmp:
        first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        return int(first) if first.isascii() and first.isdigit() and int(first) else cores()
    # asking numba before its threads run would start them, and a fork would lose them
    return running_threads() or threads()


def cores_of(target: Target) -> int:
    """Return the threads of a kernel for ``target`` that have a core each."""
    return min(threads_of(target), whole_cores())


@lru_cache(maxsize=1)
def versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of the packages that the speed of a kernel depends on."""
    from importlib.metadata import version

    by_package: dict[str, Any] = {"schedlang": __version__}
    by_package |= {name: version(name) for name in ("llvmlite", "numba")}
    return tuple(sorted(by_package.items()))


@lru_cache(maxsize=1)
def sources() -> str:
    """Return a hash of the path, the size and the time of each file of this package's source.

    Files in the cache folder that are made for one version would hide a change of the source.
    """
    root = Path(schedlang.__file__).parent
    files, folders = [], [str(root)]
    while folders and root.is_dir():
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    files.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()
