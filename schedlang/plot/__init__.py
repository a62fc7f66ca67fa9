"""Pictures of loop nests, kernels and searches (extra ``viz``); see docs/guides/pictures.md.

The numbers behind a picture need no matplotlib: ``timeline.py`` has a time for each run of each
statement, ``touches.py`` when each element is touched, ``stored_elements.py`` what is computed and
kept at one step, ``warps.py`` the requests of a warp, ``served.py`` the cache level of each access.
``limits.py`` bounds what is drawn, and ``subject.py`` finds the nest of a picture, with numbers for
its sizes. A file ``<name>_picture.py`` draws one kind on a ``sheet.py``, in the colours of
``palette.py``, and returns a ``picture.py``.
"""

from __future__ import annotations

from schedlang.plot.fragments_picture import fragments
from schedlang.plot.memory_picture import memory
from schedlang.plot.order import iteration_order
from schedlang.plot.partition_picture import partition
from schedlang.plot.picture import Picture
from schedlang.plot.placement_picture import placement
from schedlang.plot.profile_picture import profile
from schedlang.plot.race_picture import race
from schedlang.plot.roofline_picture import roofline
from schedlang.plot.search_picture import search
from schedlang.plot.stages_picture import stages
from schedlang.plot.threads_picture import threads
from schedlang.plot.warp_pictures import banks, coalescing

__all__ = [
    "Picture", "banks", "coalescing", "fragments", "iteration_order", "memory", "partition",
    "placement", "profile", "race", "roofline", "search", "stages", "threads",
]  # fmt: skip
