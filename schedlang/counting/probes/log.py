"""A log of accesses: runs of consecutive ones, so that a long kernel's log has a limited length.

``layout`` describes the model.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from schedlang.counting.probes.apart import not_inlined
from schedlang.counting.probes.layout import EVENTS, EVERY, LOGGED, ROOM, RUN, SEEN

OPTIONS = dict(cache=True, nogil=True, error_model="numpy")


@njit(**OPTIONS)
def report(model: np.ndarray, address: int, size: int, kind: int, site: int) -> None:
    """Log an access of ``size`` bytes at ``address``, unless its run is left out."""
    not_inlined()
    seen = model[SEEN]
    model[SEEN] = seen + 1
    if (seen // model[RUN]) % model[EVERY] == 0 and model[LOGGED] < model[ROOM]:
        at = EVENTS + 3 * model[LOGGED]
        model[at] = address
        model[at + 1] = 4 * size + kind
        model[at + 2] = site
        model[LOGGED] += 1
