"""The runs of the parts of a machine nest: by multiplication, or by counters of the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np


@dataclass(frozen=True, eq=False)
class Region:
    """Statements that run equally often.

    ``slot`` is the counter that the kernel adds to in each run. Without one, they run ``times`` in
    each run of ``parent``; the body of a function runs whenever the ``function`` is called.
    """

    parent: Optional[Region] = None
    times: int = 1
    slot: int = -1
    function: str = ""


class Runs:
    """The runs of each region, from the counters that a kernel leaves in its tally.

    ``calls`` are the regions that call each function; the entry has none.
    """

    def __init__(self, calls: Mapping[str, Sequence[Region]], tally: np.ndarray) -> None:
        self._calls = calls
        self._tally = tally
        self._known: dict[Region, int] = {}

    def __call__(self, region: Region) -> int:
        """Return how often ``region`` runs."""
        runs = self._known.get(region)
        if runs is None:
            runs = self._known[region] = self._counted(region)
        return runs

    def at(self, slot: int) -> int:
        """Return what the kernel counted in ``slot``."""
        return int(self._tally[slot])

    def _counted(self, region: Region) -> int:
        if region.slot >= 0:
            return self.at(region.slot)
        if region.parent is not None:
            return region.times * self(region.parent)
        calls = self._calls.get(region.function, ())
        return sum(self(caller) for caller in calls) if calls else 1
