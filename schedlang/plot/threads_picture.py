"""``threads``: the block and the thread that compute each element of a buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.gpu_lowering.counters import WARP
from schedlang.plot.borders import draw_borders
from schedlang.plot.palette import BLACK, BLUE, EMPTY, GREEN, ORANGE, PURPLE, SKY, TIMES, YELLOW
from schedlang.plot.picture import Picture
from schedlang.plot.sheet import WIDTH, as_rows, frame, sheet
from schedlang.plot.subject import subjects
from schedlang.plot.warps import Threads, threads_of
from schedlang.signatures import public

# panels with at most so many threads, or blocks, in a direction show their numbers
MOST_NUMBERS = 16
BLOCKS = (SKY, ORANGE, GREEN, YELLOW, PURPLE, BLUE)


@public
def threads(
    what: Any,
    buffer: Any = None,
    *,
    kernel: str | None = None,
    sizes: Mapping[Any, int] | None = None,
) -> Picture:
    """Return a picture of the blocks and the threads that store the elements of a buffer.

    ``what`` is a schedule for a GPU, or a kernel of one; a list or a dict by title compares
    several. The left panel colours the elements by block; the right panel shows block 0, coloured
    by the number of the thread, with a line around each warp. ``data`` is a list of
    :class:`~schedlang.plot.warps.Threads`.

    Raise :class:`~schedlang.errors.PlotError` for a schedule without GPU threads, and where data
    decide the addresses.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4, 4), name="A")
    >>> B = sl.compute((4, 4), lambda i, j: A[i, j] * 2, name="B")
    >>> s = sl.schedule(B)
    >>> block, thread = s[B].split(s[B].fuse(*B.op.axis), factor=8)
    >>> s[B].bind(block, "blockIdx.x"); s[B].bind(thread, "threadIdx.x")
    >>> assignments = sl.plot.threads(s).data[0]
    >>> assignments.blocks[:, 0].tolist(), assignments.threads[1].tolist()
    ([0, 0, 1, 1], [4, 5, 6, 7])
    """
    grids = [threads_of(one, buffer, kernel, "threads") for one in subjects(what, "threads", sizes)]
    title = f"Blocks and threads that store {grids[0].buffer}"
    caption = (
        "Left: the block of each element, numbered with x fastest. Right: block 0, coloured by the "
        "number of the thread in it. Black lines surround the warps of 32 threads; a warp whose "
        "threads follow each other along a row accesses memory in whole lines."
    )
    parts = [
        f"{one.title}: {one.drawn:,} of {int(np.prod(one.grid)):,} blocks are drawn."
        for one in grids
        if one.drawn < np.prod(one.grid)
    ]
    caption = " ".join([caption, *parts])
    return Picture(title, caption, grids, lambda: _drawn(grids, title, caption))


def _drawn(assignments: Sequence[Threads], title: str, caption: str) -> Any:
    wide = WIDTH / 2 - 0.9
    heights = []
    for one in assignments:
        rows, columns = _part(one.blocks, one.blocks >= 0).shape
        heights.append(min(max(wide * rows / columns, 0.5), 2.5) + 0.75)
    figure = sheet(sum(heights), title, caption)
    axes = figure.subplots(len(assignments), 2, squeeze=False, height_ratios=heights)
    for one, (left, right) in zip(assignments, axes):
        _blocks(left, one)
        _threads(figure, right, one)
    return figure


def _part(values: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Return the rows and columns of ``values`` around the marked elements."""
    rows, columns = np.nonzero(as_rows(marked))
    box = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    return np.asarray(as_rows(values)[box])


def _blocks(axes: Any, one: Threads) -> None:
    from matplotlib.colors import ListedColormap

    grid = _part(one.blocks, one.blocks >= 0)
    rows, columns = grid.shape
    frame(axes, rows, columns, cells=0)
    # neighbours differ: a block differs from the next in x by one, and in y by two colours
    wide = max(1, one.grid[0])
    kinds = np.where(grid < 0, -1, (grid % wide + 2 * (grid // wide)) % len(BLOCKS))
    axes.imshow(
        kinds,
        cmap=ListedColormap((EMPTY, *BLOCKS)),
        vmin=-1,
        vmax=len(BLOCKS) - 1,
        interpolation="nearest",
        aspect="equal",
    )
    if max(one.grid) <= MOST_NUMBERS:
        for number in np.unique(grid[grid >= 0]):
            down, across = np.nonzero(grid == number)
            axes.text(
                across.mean(),
                down.mean(),
                str(number),
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold",
                color=BLACK,
            )
    shape = " x ".join(map(str, _without_ones(one.grid)))
    axes.set_title(f"{one.title}: grid of {shape} blocks", fontweight="bold")


def _without_ones(extents: Sequence[int]) -> list[int]:
    rest = list(extents)
    while len(rest) > 1 and rest[-1] == 1:
        rest.pop()
    return rest


def _threads(figure: Any, axes: Any, one: Threads) -> None:
    from matplotlib import colormaps

    first = int(one.blocks[one.blocks >= 0].min())
    grid = _part(np.where(one.blocks == first, one.threads, -1), one.blocks == first)
    frame(axes, *grid.shape)
    numbers = np.where(grid < 0, np.nan, grid.astype(float))
    last = max(int(np.prod(one.block)) - 1, 1)
    image = axes.imshow(
        numbers,
        cmap=colormaps[TIMES].with_extremes(bad=EMPTY),
        vmin=0,
        vmax=last,
        interpolation="nearest",
        aspect="equal",
    )
    draw_borders(axes, grid // WARP, 1.4)
    if max(grid.shape) <= MOST_NUMBERS:
        for (row, column), number in np.ndenumerate(grid):
            if number >= 0:
                axes.text(
                    column,
                    row,
                    str(number),
                    ha="center",
                    va="center",
                    fontsize=5.5,
                    color="white" if number < last / 2 else BLACK,
                )
    shape = " x ".join(map(str, _without_ones(one.block)))
    axes.set_title(f"block {first}: {shape} threads", fontweight="bold")
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.set_ticks([0, last])
    bar.set_label("thread", fontsize=7, labelpad=-6)
    bar.outline.set_visible(False)
