"""The layout of a model that the probes work on, and the kinds of accesses.

A model of caches holds the number of levels, a shift, and the bytes of streamed stores. Then come
the fields of each level: its sets, a bit mask if they are a power of two (else -1), its ways, where
its lines begin, where its misses by site begin, and the lines it has written back. A line is
``2*line + changed``, the most recently used of each set first, or -1. One in ``2**shift`` lines is
simulated.

A log holds the room for events, those written and those seen, how many runs make one that is kept,
and the length of a run. Then come three numbers for each event: its address, ``4*size + kind``, and
its site.
"""

from __future__ import annotations

LOAD, STORE, PREFETCH, STREAM = 0, 1, 2, 3

# the types of the parameters of a probe: its model, then an access
REPORT = "void(int64[::1], int64, int64, int64, int64)"

# caches
LEVELS, SHIFT, STREAMED, FIRST, FIELDS = 0, 1, 2, 4, 6
SETS, BITS, WAYS, LINES, MISSES, WRITTEN = 0, 1, 2, 3, 4, 5

# a log
ROOM, LOGGED, SEEN, EVERY, RUN, EVENTS = 0, 1, 2, 3, 4, 8
