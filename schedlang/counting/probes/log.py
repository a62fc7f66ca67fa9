"""A log of accesses: runs of consecutive ones, so that a long kernel's log has a limited length.

``model`` holds the room for events, the events written and those seen, how many runs make one that
is kept, the length of a run, and then three numbers for each event: its address, ``4*size + kind``,
and its site.
"""

from __future__ import annotations

import numpy as np

ROOM, WRITTEN, SEEN, EVERY, RUN, EVENTS = 0, 1, 2, 3, 4, 8


def report(model: np.ndarray, address: int, size: int, kind: int, site: int) -> None:
    """Log an access of ``size`` bytes at ``address``, unless its run is left out."""
    seen = model[SEEN]
    model[SEEN] = seen + 1
    if (seen // model[RUN]) % model[EVERY] == 0 and model[WRITTEN] < model[ROOM]:
        at = EVENTS + 3 * model[WRITTEN]
        model[at] = address
        model[at + 1] = 4 * size + kind
        model[at + 2] = site
        model[WRITTEN] += 1
