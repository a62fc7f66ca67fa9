"""Parallel kernels may be called from several Python threads at once: see that they can."""

from __future__ import annotations

import importlib
import threading
from functools import lru_cache

_LAYERS = {"tbb": "tbbpool", "omp": "omppool"}
# one for all kernels: any two of them may not launch at once
_LOCK = threading.Lock()


def _running() -> str:
    """The layer that numba has started already, if any."""
    from numba.np.ufunc import parallel

    try:
        return str(parallel.threading_layer())
    except ValueError:
        return ""


@lru_cache(maxsize=1)
def guard() -> threading.Lock | None:
    """A lock to hold around parallel launches; ``None`` where numba's threads are safe.

    numba's ``workqueue`` layer ends the process on concurrent launches; OpenMP and TBB do not.
    """
    from numba import config

    layer = str(config.THREADING_LAYER).lower()
    if layer in ("tbb", "omp", "threadsafe", "safe") or _running() in _LAYERS:
        return None
    for name, module in _LAYERS.items():
        # one that is safe for forks may be workqueue
        if layer in ("workqueue", "forksafe") or _running() == "workqueue":
            break
        try:
            importlib.import_module(f"numba.np.ufunc.{module}")
        except ImportError:
            continue
        config.THREADING_LAYER = name
        return None
    return _LOCK
