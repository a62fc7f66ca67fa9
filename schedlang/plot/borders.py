"""The borders between the iterations of loops, as lines in a grid of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.plot.palette import BLACK
from schedlang.plot.sheet import as_rows
from schedlang.plot.touches import Level, Touches

# levels of loops that are drawn as lines, outermost first: width and name of the line
LINES = ((1.8, "thick"), (1.0, "medium"), (0.5, "thin"))


def lines_of(touches: Touches) -> list[tuple[Level, int]]:
    """Return the loops whose iterations have visible borders, each with the number of its line.

    A loop that changes at every element has none. In each dimension the outermost loop has line 0.
    """
    drawn: list[tuple[Level, int]] = []
    used = {0: 0, 1: 0}
    for level in touches.levels:
        moves = shares(as_rows(level.iteration))
        if max(moves) == 0 or max(moves) > 0.5:
            continue
        dim = int(np.argmax(moves))
        if used[dim] < len(LINES):
            drawn.append((level, used[dim]))
            used[dim] += 1
    return drawn


def shares(grid: np.ndarray) -> tuple[float, float]:
    """Return the share of neighbours that differ, down the columns and along the rows.

    >>> shares(np.array([[0, 0, 0], [1, 1, 1], [1, 1, 1]]))
    (0.5, 0.0)
    """
    changes = [np.diff(grid, axis=axis) != 0 for axis in (0, 1)]
    down, along = (float(c.mean()) if c.size else 0.0 for c in changes)
    return down, along


def runs(grid: np.ndarray) -> list[tuple[int, int, int]]:
    """Return the lines right of a column, each with the first row and the row after the last.

    >>> runs(np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]]))
    [(1, 0, 2)]
    """
    lines = []
    for column, changes in enumerate((np.diff(grid, axis=1) != 0).T):
        ends = np.flatnonzero(np.diff(np.concatenate([[0], changes.astype(np.int8), [0]])))
        lines += [(column, int(a), int(b)) for a, b in zip(ends[::2], ends[1::2])]
    return lines


def draw_borders(axes: Any, grid: np.ndarray, width: float) -> None:
    """Draw a line between neighbours with different values."""
    from matplotlib.collections import LineCollection

    segments = [[(at + 0.5, a - 0.5), (at + 0.5, b - 0.5)] for at, a, b in runs(grid)]
    segments += [[(a - 0.5, at + 0.5), (b - 0.5, at + 0.5)] for at, a, b in runs(grid.T)]
    # a white edge keeps a black line visible on dark blue
    for wide, colour in ((width + 0.8, "white"), (width, BLACK)):
        axes.add_collection(
            LineCollection(segments, colors=colour, linewidths=wide, zorder=4, capstyle="butt")
        )
