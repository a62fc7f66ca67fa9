"""Reports of the accesses of a vector whose lanes are apart, by one ``report`` for each lane.

The nest first writes the offsets of the lanes to the start of ``tally``, and their mask behind.
"""

from __future__ import annotations

import numpy as np

from schedlang.counting.probes.caches import report

# the element of the tally at which the lanes of a mask begin
MASK = 64


def report_steps(
    model: np.ndarray, address: int, step: int, lanes: int, size: int, kind: int, site: int
) -> None:
    """Report lanes that are ``step`` bytes apart."""
    for lane in range(lanes):
        report(model, address + lane * step, size, kind, site)


def report_steps_masked(
    model: np.ndarray, tally: np.ndarray, address: int, step: int, lanes: int, size: int, kind: int,
    site: int,
) -> None:  # fmt: skip
    """Report the lanes under the mask, which are ``step`` bytes apart."""
    for lane in range(lanes):
        if tally[MASK + lane] != 0:
            report(model, address + lane * step, size, kind, site)


def report_listed(
    model: np.ndarray, tally: np.ndarray, address: int, lanes: int, size: int, kind: int, site: int
) -> None:
    """Report the elements of an array at ``address`` whose offsets are listed."""
    for lane in range(lanes):
        report(model, address + tally[lane] * size, size, kind, site)


def report_listed_masked(
    model: np.ndarray, tally: np.ndarray, address: int, lanes: int, size: int, kind: int, site: int
) -> None:
    """Report the listed elements under the mask."""
    for lane in range(lanes):
        if tally[MASK + lane] != 0:
            report(model, address + tally[lane] * size, size, kind, site)
