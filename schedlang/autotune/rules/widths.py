"""How many neighbours a thread of a GPU takes at once."""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.ir.offsets import most_at_once

LANES = (1, 2, 4, 8, 16)


def lane_counts(dtypes: Iterable[str]) -> list[int]:
    """The numbers of neighbours that are one access of each of some dtypes.

    >>> lane_counts(["float32"]), lane_counts(["float16"]), lane_counts(["float32", "float64"])
    ([1, 2, 4], [1, 2, 4, 8], [1, 2])
    """
    most = min(map(most_at_once, dtypes), default=1)
    return [n for n in LANES if n <= most]
