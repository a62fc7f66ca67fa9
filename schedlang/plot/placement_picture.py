"""``placement``: a producer and its consumer at one step, as boxes of what is computed and kept."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.markup.sizes import bytes_text
from schedlang.plot.palette import BLACK, EMPTY, GREEN, ORANGE, RED, SKY, SOFT
from schedlang.plot.picture import Picture
from schedlang.plot.placement_page import PlacementMovie, kinds_of
from schedlang.plot.sheet import WIDTH, as_rows, frame, sheet
from schedlang.plot.stored_elements import Placed, moment_of, moments_of
from schedlang.plot.subject import subjects
from schedlang.signatures import public

# the most rows and columns of a panel, around the element
WINDOW = 40


@public
def placement(
    what: Any,
    producer: Any = None,
    consumer: Any = None,
    *,
    element: Any = None,
    sizes: Mapping[Any, int] | None = None,
    moves: bool = False,
) -> Picture:
    """Return a picture of a producer and its consumer while the consumer computes one element.

    ``what`` is a schedule, a tensor or a kernel; a list or a dict by title compares up to four, or
    more where the picture ``moves``: it then plays all elements of the consumer, in the order of
    each schedule, in a notebook, as ``.html`` and as ``.gif``.
    ``producer`` is a stage, as tensor or name: by default the last stage that is not an output.
    ``consumer`` is a stage that reads it, and ``element`` an element of the consumer: by default
    the one in the middle. The picture shows what of the producer was computed earlier, is computed
    in this iteration of the loop that both share, is computed again, and is stored at this step;
    and counts how often the producer is computed in all. ``data`` is a list of
    :class:`~schedlang.plot.stored_elements.Placed`.

    Raise :class:`~schedlang.errors.PlotError` for stages that do not read each other, for an
    element outside of the consumer, and for computations too large to follow.

    >>> import schedlang as sl
    >>> A = sl.placeholder((6,), name="A")
    >>> B = sl.compute((6,), lambda i: A[i] * 2, name="B")
    >>> C = sl.compute((4,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    >>> s = sl.schedule(C)
    >>> s[B].compute_at(s[C], C.op.axis[0])
    >>> (placement,) = sl.plot.placement(s, element=2).data
    >>> placement.now, placement.computed, placement.distinct, placement.bytes
    (array([0, 0, 1, 1, 1, 0]), 12, 6, 12)

    The idea comes from the pictures in Halide's lesson 8 (halide-lang.org, "Scheduling multi-stage
    pipelines").
    """
    call = "placement"
    compared = subjects(what, call, sizes)
    moments = [moment_of(one, producer, consumer, element, call) for one in compared]
    first = moments[0]
    title = f"Where {first.producer} lives while {first.consumer}{list(first.element)} is computed"
    caption = _caption(moments)
    movie = None
    if moves:
        steps = [moments_of(one, producer, consumer, call) for one in compared]
        title = f"Where {first.producer} lives while {first.consumer} is computed"
        movie = PlacementMovie(steps, lambda step: _drawn(step, title, caption))
    return Picture(title, caption, moments, lambda: _drawn(moments, title, caption), movie)


def _caption(placements: Sequence[Placed]) -> str:
    one = placements[0]
    text = (
        f"Above: {one.producer}; below: {one.consumer}. Black dots are the elements that this step "
        f"reads, and computes. Orange was computed in this iteration of the loop that both share; "
        f"hatched red was computed again. The green frame is the storage "
        f"of {one.producer} at this step."
    )
    if any(
        max(as_rows(grid).shape) > WINDOW for p in placements for grid in (p.now, p.consumer_now)
    ):
        text += f" Drawn in part: {WINDOW} rows and columns around the element."
    return text


def _drawn(placements: Sequence[Placed], title: str, caption: str) -> Any:
    columns = max(len(placements), 2)
    each = WIDTH / columns
    above = max(_height(p.now, p.read, each) for p in placements)
    below = max(_height(p.consumer_now, p.consumer_now, each) for p in placements)
    figure = sheet(above + below + 1.75, title, caption, marks=_marks())
    axes = figure.subplots(2, columns, squeeze=False, height_ratios=(above + 0.5, below))
    for place in axes[:, len(placements) :].ravel():
        place.set_axis_off()
    for one, (top, bottom) in zip(placements, axes.T):
        _producer(top, one, each)
        _consumer(bottom, one)
    return figure


def _marks() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Patch(color=SKY, label="computed earlier"),
        Patch(color=ORANGE, label="computed in this iteration"),
        Patch(facecolor=RED, hatch="////", edgecolor="white", label="computed again"),
        Line2D([], [], color=GREEN, linewidth=2, label="stored"),
        Line2D([], [], color=BLACK, marker="o", markersize=4, linestyle="", label="this step"),
    ]


def _height(grid: np.ndarray, around: np.ndarray, each: float) -> float:
    rows, columns = as_rows(grid)[_window(as_rows(around))].shape
    return min(max((each - 0.5) * rows / columns, 0.3), 3.2)


def _window(marked: np.ndarray) -> tuple[slice, slice]:
    """Return the rows and columns to draw: all, or some around the first element of ``marked``."""
    row, column = (int(k[0]) if k.size else 0 for k in np.nonzero(marked))

    def part(at: int, extent: int) -> slice:
        start = max(0, min(at - WINDOW // 2, extent - WINDOW))
        return slice(start, min(extent, start + WINDOW))

    return part(row, marked.shape[0]), part(column, marked.shape[1])


def _producer(axes: Any, one: Placed, each: float) -> None:
    earlier, now, read, stored = (
        as_rows(grid) for grid in (one.earlier, one.now, one.read, one.stored)
    )
    window = _window(read)
    kinds = kinds_of(earlier, now)
    again = kinds == 3
    _cells(axes, kinds[window], (EMPTY, SKY, ORANGE, RED), window)
    _hatched(axes, again, window)
    _outline(axes, stored[window], window, GREEN, 2.2)
    _dots(axes, read, window)
    times = one.computed / max(one.distinct, 1)
    lines = [
        f"{one.distinct:,} elements of {one.producer},",
        f"computed {one.computed:,} times ({times:.3g}x)",
        f"stores {bytes_text(one.bytes)}" if one.bytes else "stores nothing",
    ]
    axes.set_title(_title(one, each), fontweight="bold")
    axes.set_xlabel("\n".join(lines), fontsize=7.5)


def _title(one: Placed, each: float) -> str:
    wide = int(each * 13)
    lines = textwrap.wrap(one.where, wide)
    head = [] if one.title in (one.where, one.consumer) else [one.title]
    return "\n".join([*head, *lines])


def _consumer(axes: Any, one: Placed) -> None:
    earlier, now, iteration = (
        as_rows(grid) for grid in (one.consumer_earlier, one.consumer_now, one.consumer_iteration)
    )
    window = _window(now)
    kinds = np.zeros(now.shape, int)
    kinds[earlier] = 1
    kinds[earlier & iteration] = 2
    _cells(axes, kinds[window], (EMPTY, SKY, ORANGE), window)
    if iteration.any():
        _outline(axes, iteration[window], window, ORANGE, 1.6)
    _dots(axes, now, window)
    at = ", ".join(f"{loop} = {value}" for loop, value in one.loops)
    axes.set_xlabel(
        f"{one.consumer} at {at}" if at else f"{one.consumer}: no loop is shared",
        fontsize=7,
        color=SOFT,
    )


def _cells(
    axes: Any, kinds: np.ndarray, colours: tuple[str, ...], window: tuple[slice, slice]
) -> None:
    from matplotlib.colors import ListedColormap

    high, wide = kinds.shape
    frame(axes, high, wide, cells=WINDOW)
    rows, columns = window
    # the numbers are the elements' own, also in a part
    extent = (columns.start - 0.5, columns.stop - 0.5, rows.stop - 0.5, rows.start - 0.5)
    axes.imshow(
        kinds,
        cmap=ListedColormap(colours),
        vmin=0,
        vmax=len(colours) - 1,
        extent=extent,
        interpolation="nearest",
        aspect="equal",
    )
    for axis, part in ((axes.xaxis, columns), (axes.yaxis, rows)):
        axis.set_ticks([part.start, (part.start + part.stop) // 2, part.stop - 1])
        axis.set_ticks(np.arange(part.start - 0.5, part.stop), minor=True)


def _hatched(axes: Any, marked: np.ndarray, window: tuple[slice, slice]) -> None:
    from matplotlib.patches import Rectangle

    for row, column in zip(*np.nonzero(marked)):
        if _inside(row, column, window):
            corner = (column - 0.5, row - 0.5)
            axes.add_patch(
                Rectangle(
                    corner, 1, 1, facecolor="none", hatch="////", edgecolor="white", linewidth=0
                )
            )


def _dots(axes: Any, marked: np.ndarray, window: tuple[slice, slice]) -> None:
    rows, columns = np.nonzero(marked)
    cells = [(r, c) for r, c in zip(rows, columns) if _inside(r, c, window)]
    if cells:
        axes.scatter(
            [c for _, c in cells], [r for r, _ in cells], s=9, color=BLACK, zorder=6, linewidths=0
        )


def _inside(row: Any, column: Any, window: tuple[slice, slice]) -> bool:
    rows, columns = window
    inside = rows.start <= row < rows.stop and columns.start <= column < columns.stop
    return bool(inside)


def _outline(
    axes: Any, marked: np.ndarray, window: tuple[slice, slice], colour: str, width: float
) -> None:
    """Draw the border of the marked elements of a window."""
    from matplotlib.collections import LineCollection

    wide = np.pad(marked, 1).astype(np.int8)
    top, left = window[0].start, window[1].start
    segments = []
    for row, column in zip(*np.nonzero(np.diff(wide, axis=1)[1:-1])):
        x, y = left + column - 0.5, top + row
        segments.append(((x, y - 0.5), (x, y + 0.5)))
    for row, column in zip(*np.nonzero(np.diff(wide, axis=0)[:, 1:-1])):
        x, y = left + column, top + row - 0.5
        segments.append(((x - 0.5, y), (x + 0.5, y)))
    axes.add_collection(
        LineCollection(
            segments,
            colors=colour,
            linewidths=width,
            zorder=5,
            capstyle="projecting",
            clip_on=False,
        )
    )
