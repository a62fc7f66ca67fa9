"""Thread safety of parallel kernels: a lock around launches, and forked processes."""

from __future__ import annotations

import os
import threading
import warnings
from functools import lru_cache
from typing import Protocol
from weakref import WeakSet

from schedlang.errors import ForkWarning
from schedlang.runtime.numba_threads import has_layer, import_numba, running_layer, runs_gnu_openmp

_LAYERS = {"tbb": "tbbpool", "omp": "omppool"}
# one lock for all kernels: no two of them may launch at once
_LOCK = threading.Lock()
FORKED = (
    "this process was forked from one that had run parallel kernels, and the threads of GNU OpenMP "
    "do not survive a fork: parallel kernels run on one thread here. Start processes by the "
    'method "spawn" or "forkserver" of multiprocessing (for a DataLoader, '
    'multiprocessing_context="spawn"), or set NUMBA_THREADING_LAYER=tbb or workqueue'
)


class Loaded(Protocol):
    """An object that has loaded a function with parallel loops."""

    def forget_function(self) -> None:
        """Make the next call load the function again: after a fork it may be another one."""


# all of this process
_loaded: WeakSet[Loaded] = WeakSet()
# whether a kernel in C may have started threads of OpenMP
_openmp = False
# whether this process was forked from one whose threads it lacks
_left_behind = False


@lru_cache(maxsize=1)
def guard() -> threading.Lock | None:
    """Return a lock to hold around parallel launches; ``None`` where numba's threads are safe.

    numba's ``workqueue`` layer ends the process on concurrent launches; OpenMP and TBB do not.
    """
    import_numba()
    from numba import config

    layer = str(config.THREADING_LAYER).lower()
    if layer in ("tbb", "omp", "threadsafe", "safe") or running_layer() in _LAYERS:
        return None
    for name, module in _LAYERS.items():
        # workqueue is one of the layers that are safe for forks
        if layer in ("workqueue", "forksafe") or running_layer() == "workqueue":
            break
        if has_layer(module):
            config.THREADING_LAYER = name
            return None
    return _LOCK


def note_openmp() -> None:
    """Record that a kernel in C may start threads of OpenMP, which do not survive a fork."""
    global _openmp
    _openmp = True


def note_loaded(thing: Loaded) -> None:
    """Record that ``thing`` has loaded a function with parallel loops, which a fork replaces."""
    _loaded.add(thing)


def left_behind() -> bool:
    """Return whether a parallel launch would end this process, as after a fork."""
    return _left_behind


def warn_forked() -> None:
    """Warn, once in a process, that parallel kernels run on one thread."""
    if not _warned:
        _warned.append(True)
        warnings.warn(FORKED, ForkWarning, stacklevel=2)


_warned: list[bool] = []


def _after_fork() -> None:
    """Record in a child process whether the parent had threads of GNU OpenMP.

    If it had, numba cannot start threads in the child, and kernels load other functions.
    """
    global _left_behind
    _warned.clear()
    # a thread of the parent that held the lock does not exist here to release it
    getattr(_LOCK, "_at_fork_reinit", lambda: None)()
    _left_behind = _left_behind or _openmp or runs_gnu_openmp()
    if _left_behind:
        for thing in list(_loaded):
            thing.forget_function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
