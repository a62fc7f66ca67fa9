"""``coalescing`` and ``banks``: the addresses of one request of a warp."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.gpu_lowering.counters import BANKS, SECTOR, WARP, WORD
from schedlang.plot.palette import EMPTY, GREEN, RED, SOFT, TIMES
from schedlang.plot.picture import Picture
from schedlang.plot.sheet import WIDTH, sheet
from schedlang.plot.subject import subjects
from schedlang.plot.warps import MOST_REQUESTS, WarpRequest, warp_requests
from schedlang.signatures import public

# the most accesses of a kernel that are drawn, and panels in a line
MOST_ACCESSES, MOST_PANELS = 8, 4
# inches of a row of cells where there are few of them, of all rows at most, and around a panel
ROW, MOST_HEIGHT, AROUND = 0.15, 2.2, 0.95
# inches of a label of a row
LABEL = 0.13
# letters of a line for each inch
LETTERS = 15


@public
def coalescing(
    what: Any,
    buffer: Any = None,
    *,
    kernel: str | None = None,
    warp: int = 0,
    sizes: Mapping[Any, int] | None = None,
) -> Picture:
    """Return a picture of the sectors of global memory that a warp asks for.

    ``what`` is a schedule for a GPU, or a kernel of one; a list or a dict by title compares
    several. For each access of the kernel's program, or only to ``buffer``, the panel shows the
    costliest request that the warp makes in block 0: a row for each sector of 32 bytes, a cell for
    each element of it, in the colour of the lane that accesses it. Grey cells are moved and not
    used. ``data`` is a list of :class:`~schedlang.plot.warps.WarpRequest`.

    Raise :class:`~schedlang.errors.PlotError` for a schedule without GPU threads, and where data
    decide the addresses.

    >>> import schedlang as sl
    >>> A = sl.placeholder((64, 64), name="A")
    >>> B = sl.compute((64, 64), lambda i, j: A[j, i], name="B")
    >>> s = sl.schedule(B)
    >>> s[B].bind(B.op.axis[0], "blockIdx.x"); s[B].bind(B.op.axis[1], "threadIdx.x")
    >>> [(r.buffer, r.cost, r.least) for r in sl.plot.coalescing(s).data]
    [('A', 32, 4), ('B', 4, 4)]
    """
    requests = _costliest_requests(what, buffer, "global", kernel, warp, sizes, "coalescing")
    title = f"Sectors of global memory that warp {warp} asks for"
    caption = (
        "A row is a sector of 32 bytes, the unit in which global memory moves, with its offset in "
        "the buffer; a dotted line leaves addresses out. Colour: the lane that accesses an "
        "element. Grey is moved and not used. Each panel is the costliest request of its access in "
        "block 0; fewer sectors are better."
    )
    return _picture(requests, title, caption, _sectors)


@public
def banks(
    what: Any,
    buffer: Any = None,
    *,
    kernel: str | None = None,
    warp: int = 0,
    sizes: Mapping[Any, int] | None = None,
) -> Picture:
    """Return a picture of the banks of shared memory that a warp accesses, conflicts marked.

    It takes the arguments of :func:`coalescing`. A column is one of the 32 banks, a row a line of
    128 bytes. Lanes that need different words of one bank wait for each other: such a bank is red
    above the cells, with the number of its words. ``data`` is a list of
    :class:`~schedlang.plot.warps.WarpRequest`.

    Raise :class:`~schedlang.errors.PlotError` for a schedule without GPU threads or shared memory,
    and where data decide the addresses.

    >>> import schedlang as sl
    >>> A = sl.placeholder((32, 32), name="A")
    >>> B = sl.compute((32, 32), lambda i, j: A[j, i], name="B")
    >>> s = sl.schedule(B)
    >>> tile = s.cache_read(A, "shared", [B])
    >>> block, y = s[B].split(B.op.axis[0], factor=32)
    >>> s[B].bind(block, "blockIdx.x"); s[tile].compute_at(s[B], block)
    >>> s[B].bind(y, "threadIdx.y"); s[B].bind(B.op.axis[1], "threadIdx.x")
    >>> s[tile].bind(s[tile].op.axis[0], "threadIdx.y")
    >>> s[tile].bind(s[tile].op.axis[1], "threadIdx.x")
    >>> [(r.text.split("[")[0], r.stores, r.cost) for r in sl.plot.banks(s).data]
    [('A.shared', True, 1), ('A.shared', False, 32)]
    """
    requests = _costliest_requests(what, buffer, "shared", kernel, warp, sizes, "banks")
    title = f"Banks of shared memory that warp {warp} accesses"
    caption = (
        "A column is a bank, a row a line of 128 bytes, with its offset in the buffer. Colour: the "
        "lane that accesses a word. Lanes that need different words of one bank wait for each "
        "other: red banks, with the number of words. Accesses of 8 and 16 bytes are served by half "
        "and quarter warps; the slowest is drawn. Each panel is the costliest request of its "
        "access in block 0."
    )
    return _picture(requests, title, caption, _banks)


def _costliest_requests(
    what: Any,
    buffer: Any,
    scope: str,
    kernel: str | None,
    warp: int,
    sizes: Mapping[Any, int] | None,
    call: str,
) -> list[WarpRequest]:
    requests: list[WarpRequest] = []
    for one in subjects(what, call, sizes):
        every = warp_requests(one, scope, buffer, kernel, warp, call)
        # the costliest accesses, in program order; a load and a store of one element look alike
        alike = {(r.buffer, r.bytes.tobytes(), r.width, r.stores): r for r in reversed(every)}
        every = [r for r in every if r in alike.values()]
        cost = sorted(every, key=lambda r: (-r.cost * r.requests, every.index(r)))
        costliest = cost[:MOST_ACCESSES]
        requests += [r for r in every if r in costliest]
    return requests


Drawing = Callable[[Any, WarpRequest, int], Any]


def _picture(requests: list[WarpRequest], title: str, caption: str, drawing: Drawing) -> Picture:
    if not all(request.complete for request in requests):
        caption += f" Drawn in part: the first {MOST_REQUESTS:,} requests of the block."

    def draw() -> Any:
        lines = _lines(requests)
        columns = max(len(line) for line in lines)
        heights = [_height(max(map(_rows, line))) + AROUND for line in lines]
        figure = sheet(sum(heights), title, caption)
        axes = figure.subplots(len(lines), max(columns, 2), squeeze=False, height_ratios=heights)
        image = None
        for line, places in zip(lines, axes):
            for place in places[len(line) :]:
                place.set_axis_off()
            for request, place in zip(line, places):
                # panels of a line are equally high
                rows = max(map(_rows, line))
                image = drawing(place, request, math.ceil(LABEL * rows / _height(rows)))
                place.set_ylim(rows - 0.5, place.get_ylim()[1])
                _head(place, request, WIDTH / max(columns, 2))
        bar = figure.colorbar(image, ax=axes, fraction=0.012, pad=0.01, aspect=25)
        bar.set_ticks([0, 8, 16, 24, 31])
        bar.set_label("lane", fontsize=7)
        bar.outline.set_visible(False)
        return figure

    return Picture(title, caption, requests, draw)


def _lines(requests: Sequence[WarpRequest]) -> list[list[WarpRequest]]:
    """Return the panels in lines: a schedule starts a line of its own."""
    lines: list[list[WarpRequest]] = []
    for title in dict.fromkeys(r.title for r in requests):
        mine = [r for r in requests if r.title == title]
        lines += [mine[k : k + MOST_PANELS] for k in range(0, len(mine), MOST_PANELS)]
    return lines


def _height(rows: int) -> float:
    return min(ROW * rows, MOST_HEIGHT)


def _rows(request: WarpRequest) -> int:
    if request.scope == "global":
        return max(4, int(np.unique(request.elements * request.itemsize // SECTOR).size))
    return max(3, int(np.unique(request.words(_slowest(request)) // BANKS).size))


def _head(axes: Any, request: WarpRequest, each: float) -> None:
    verb = "store" if request.stores else "load"
    wide = int(each * LETTERS)
    text = textwrap.wrap(request.text, wide, break_long_words=False)
    if len(text) > 2:
        text = [text[0], f"{text[1]} ..."]
    text = [line if len(line) <= wide else f"{line[: wide - 2]}.." for line in text]
    axes.set_title("\n".join([f"{request.title}: {verb} {request.buffer}", *text]), fontsize=7.5)
    good = request.cost <= request.least
    if request.scope == "global":
        moved = request.cost * SECTOR
        ends = "s" * (request.cost != 1)
        says = f"{request.cost} sector{ends}, {request.used / moved:.0%} used"
    else:
        ends = "" if request.cost == 1 else "es"
        says = f"{request.cost} pass{ends}" + ("" if good else f" instead of {request.least}")
    axes.text(
        0.5,
        -0.02,
        says,
        transform=axes.transAxes,
        ha="center",
        va="top",
        fontsize=8,
        fontweight="bold",
        color=GREEN if good else RED,
    )


def _sectors(axes: Any, request: WarpRequest, every: int) -> Any:
    each = SECTOR // request.itemsize
    used = np.unique(request.elements // each)
    grid = np.full((used.size, each), np.nan)
    for lane, elements in zip(request.lanes[::-1], request.elements[::-1]):
        grid[np.searchsorted(used, elements // each), elements % each] = lane
    return _cells(axes, grid, used, SECTOR, every)


def _slowest(request: WarpRequest) -> np.ndarray:
    """Return the group of lanes whose words need the most passes."""
    return max(request.groups(), key=lambda group: int(request.ways(group).max()))


def _banks(axes: Any, request: WarpRequest, every: int) -> Any:
    group = _slowest(request)
    words = request.words(group)
    used = np.unique(words // BANKS)
    grid = np.full((used.size, BANKS), np.nan)
    for lane, mine in zip(request.lanes[group][::-1], words[::-1]):
        grid[np.searchsorted(used, mine // BANKS), mine % BANKS] = lane
    image = _cells(axes, grid, used, BANKS * WORD, every)
    ways = request.ways(group)
    high = max(0.5, 0.06 * used.size)
    for bank in np.flatnonzero(ways > 1):
        axes.add_patch(_box(bank - 0.5, -0.7 - high, 1, high))
    if ways.max() > 1:
        first = int(np.argmax(ways))
        x = min(max(first, 1), BANKS - 2)
        axes.text(
            x,
            -0.9 - high,
            str(ways.max()),
            color=RED,
            fontsize=7,
            fontweight="bold",
            ha="center",
            va="bottom",
        )
    axes.set_ylim(axes.get_ylim()[0], -0.9 - 2.6 * high)
    return image


def _box(x: float, y: float, wide: float, high: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), wide, high, facecolor=RED, edgecolor="white", linewidth=0.4)


def _cells(axes: Any, grid: np.ndarray, used: np.ndarray, step: int, every: int) -> Any:
    """Draw cells in the colour of their lanes, and a line where addresses are left out.

    ``every`` is the distance of rows with labels, which are the rows times ``step``.
    """
    from matplotlib import colormaps

    colours = colormaps[TIMES].with_extremes(bad=EMPTY)
    rows, columns = grid.shape
    image = axes.imshow(
        grid, cmap=colours, vmin=0, vmax=WARP - 1, interpolation="nearest", aspect="auto"
    )
    axes.set_xticks(np.arange(-0.5, columns), minor=True)
    axes.set_yticks(np.arange(-0.5, rows), minor=True)
    axes.grid(which="minor", color="white", linewidth=0.5)
    axes.tick_params(which="both", length=0, pad=1.5)
    for row in np.flatnonzero(np.diff(used) > 1):
        axes.axhline(row + 0.5, color="white", linewidth=2.4)
        axes.axhline(row + 0.5, color=SOFT, linewidth=0.7, linestyle=(0, (1, 2)))
    every = max(every, rows // 4)
    rows_shown = [k for k in range(0, rows - 1, every) if k == 0 or rows - 1 - k >= every]
    rows_shown += [rows - 1] if rows == 1 or rows - 1 >= every else []
    axes.set_yticks(rows_shown, [f"{int(used[k]) * step:,}" for k in rows_shown])
    axes.set_xticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    return image
