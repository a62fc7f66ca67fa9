"""numba's threads as things stand: what their state is, found without starting them."""

from __future__ import annotations

import importlib
import sys
import threading

# the module of numba's threads, which is imported by the first parallel loop
_PARALLEL = "numba.np.ufunc.parallel"


# held while numba is imported
_IMPORTING = threading.RLock()


def import_numba() -> None:
    """Import numba, whole, in one thread.

    Its modules import each other in circles. Two threads that begin at different ones of them would
    each see modules that the other has half imported.
    """
    with _IMPORTING:
        importlib.import_module("numba.np.ufunc.parallel")


def running_layer() -> str:
    """Return the threading layer that numba has started, or an empty text."""
    from numba.np.ufunc import parallel

    try:
        return str(parallel.threading_layer())
    except ValueError:
        return ""


def has_layer(pool: str) -> bool:
    """Return whether numba can load the threading layer in its module ``pool``."""
    try:
        importlib.import_module(f"numba.np.ufunc.{pool}")
    except ImportError:
        return False
    return True


def runs_gnu_openmp() -> bool:
    """Return whether numba's threads belong to GNU OpenMP, and so do not survive a fork."""
    pool = sys.modules.get("numba.np.ufunc.omppool")
    running = _PARALLEL in sys.modules and running_layer() == "omp"
    return running and getattr(pool, "openmp_vendor", "GNU") == "GNU"


def running_threads() -> int:
    """Return the number of threads that numba has started; 0 before it starts them."""
    parallel = sys.modules.get(_PARALLEL)
    started = parallel is not None and parallel._is_initialized
    return int(parallel.get_num_threads()) if parallel is not None and started else 0
