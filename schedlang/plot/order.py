"""``iteration_order``: the elements of buffers, coloured by the step that touches them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from schedlang.errors import PlotError
from schedlang.plot.borders import LINES, draw_borders, lines_of, shares
from schedlang.plot.limits import cut_text
from schedlang.plot.order_page import order_page
from schedlang.plot.palette import BLACK, EMPTY, RED, SOFT, TIMES
from schedlang.plot.picture import Picture
from schedlang.plot.sheet import WIDTH, as_rows, frame, sheet
from schedlang.plot.subject import subjects
from schedlang.plot.touches import Level, Touches, touches
from schedlang.signatures import public

# panels with at most so many elements show the numbers of the steps
MOST_NUMBERS = 100
# frames of a GIF, milliseconds of each and of the last, and dots for each inch
GIF_FRAMES, GIF_TIME, GIF_PAUSE, GIF_DOTS = 40, 120, 2000, 80
# inches of the highest panel, alone and where there are several lines of them
TALL, LOW = 5.0, 2.3
# letters of a line below a panel, for each inch
LETTERS = 17


@public
def iteration_order(
    what: Any,
    buffer: Any = None,
    *,
    touch: str = "first",
    access: str = "touch",
    common: bool = False,
    sizes: Mapping[Any, int] | None = None,
) -> Picture:
    """Return a picture of the order in which loops touch the elements of a buffer.

    ``what`` is a schedule, a tensor, a nest or a kernel; a list of them, or a dict by title, shows
    them below each other. ``buffer`` is a tensor or the name of a buffer, by default the output; a
    list shows several beside each other, each with colours of its own, or with ``common`` colours,
    which show how the loops take turns. An element has the colour of the ``"first"`` or the
    ``"last"`` step that touches it (``touch``); ``access`` takes all touches, or only those that
    ``"store"`` or ``"load"``.

    A step is one run of one statement. The lanes of a vectorized loop take a step together, and so
    do GPU threads; parallel loops run on one thread here. Black lines are the borders of tiles. A
    large space is drawn in part, and the caption says which part: the first iterations of its outer
    loops. ``data`` is a list of :class:`~schedlang.plot.touches.Touches`. The picture moves as
    ``.gif``, as ``.html`` and in a notebook.

    Raise :class:`~schedlang.errors.PlotError` if sizes have no number (``sizes={"n": 64}``), for an
    unknown buffer, and where the values of tensors decide the order.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4, 4), name="A")
    >>> B = sl.compute((4, 4), lambda i, j: A[i, j] * 2, name="B")
    >>> s = sl.schedule(B)
    >>> i_outer, j_outer, i_inner, j_inner = s[B].tile(*B.op.axis, 2, 2)
    >>> print(sl.plot.iteration_order(s).data[0].first)
    [[ 0  1  4  5]
     [ 2  3  6  7]
     [ 8  9 12 13]
     [10 11 14 15]]
    """
    call = "iteration_order"
    if touch not in ("first", "last"):
        raise PlotError(f'{call}(..., touch={touch!r}): choose "first" or "last"')
    which = list(buffer) if isinstance(buffer, (list, tuple)) else [buffer]
    rows = [touches(one, which, access, call) for one in subjects(what, call, sizes)]
    title = f"Iteration order of {', '.join(dict.fromkeys(t.buffer for t in rows[0]))}"
    caption = _caption(rows, touch, common)
    flat = [t for row in rows for t in row]
    drawn = _Drawn(rows, touch, common, title, caption)
    return Picture(title, caption, flat, lambda: drawn.figure, _OrderMovie(drawn))


def _caption(rows: Sequence[Sequence[Touches]], touch: str, common: bool) -> str:
    every = [t for row in rows for t in row]
    text = f"Colour: the step that touches an element {touch}, dark blue before yellow."
    if common and len(rows[0]) > 1:
        text += " The buffers of a schedule share one scale."
    if any(lines_of(t) for t in every):
        text += " Black lines: borders between iterations of the loops named below each panel."
    if any(t.parallel for t in every):
        text += " Parallel loops are drawn as on one thread; on several, their iterations overlap."
    if any(level.kind == "vectorize" for t in every for level in t.levels):
        text += " The lanes of a vector take one step together."
    if any(
        level.kind.startswith(("thread", "block", "vthread")) for t in every for level in t.levels
    ):
        text += " GPU threads take one step together."
    if any((t.first < 0).any() and not t.cut for t in every):
        text += " Grey elements are never touched."
    cut = list(dict.fromkeys(filter(None, (cut_text(t.cut) for t in every))))
    return " ".join([text, *cut])


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The drawing of a picture: panels in rows of schedules and columns of buffers."""

    rows: Sequence[Sequence[Touches]]
    touch: str
    common: bool
    title: str
    caption: str

    @property
    def figure(self) -> Any:
        return self.panels()[0]

    def panels(self) -> tuple[Any, list[tuple[Any, Any, Touches]]]:
        """Return the figure, and each panel with its image and its data."""
        turned = len(self.rows[0]) == 1
        grid = [[row[0] for row in self.rows]] if turned else [list(row) for row in self.rows]
        columns = min(len(grid[0]), 4)
        # schedules of one buffer stand beside each other, in several lines if there are many
        if turned:
            flat = grid[0]
            grid = [flat[k : k + columns] for k in range(0, len(flat), columns)]
        each = WIDTH / max(columns, 2)
        tall = TALL if len(grid) == 1 else LOW
        heights = [max(_height(t, each - 0.5, tall) for t in line) + 0.85 for line in grid]
        figure = sheet(sum(heights), self.title, self.caption)
        axes = figure.subplots(len(grid), columns, squeeze=False, height_ratios=heights)
        panels = []
        for line, places in zip(grid, axes):
            for place in places[len(line) :]:
                place.set_axis_off()
            for one, place in zip(line, places):
                panels.append((place, self._panel(figure, place, one, turned, each), one))
        return figure, panels

    def range(self, one: Touches) -> tuple[int, int]:
        """Return the first and the last step that has a colour in a panel."""
        values = getattr(one, self.touch)
        steps = values[values >= 0]
        if self.common:
            return 0, one.steps - 1
        return int(steps.min(initial=one.steps)), int(steps.max(initial=0))

    def _panel(self, figure: Any, axes: Any, one: Touches, turned: bool, wide: float) -> Any:
        values = as_rows(getattr(one, self.touch)).astype(float)
        values[values < 0] = np.nan
        # the leading dimensions of more than two stand below each other, and count from 0
        first = (0, *one.origin) if len(one.origin) in (1, 2) else (0, 0)
        frame(axes, values.shape[0], values.shape[1], start=(first[-2], first[-1]))
        low, high = self.range(one)
        image = axes.imshow(
            values,
            cmap=_colours(),
            vmin=low,
            vmax=max(high, low + 1),
            interpolation="nearest",
            aspect="equal",
        )
        lines = lines_of(one)
        for level, number in reversed(lines):
            grid = as_rows(level.iteration)
            # a line takes at most a sixth of a tile
            tile = 1 / max(shares(grid)) / max(values.shape)
            width = min(LINES[number][0], 72 * (wide - 0.5) * tile / 6)
            draw_borders(axes, grid, width)
        if values.size <= MOST_NUMBERS:
            _numbers(axes, values, (low + high) / 2)
        head = one.title if turned else f"{one.title}: {one.buffer}"
        axes.set_title(head, fontweight="bold")
        axes.set_xlabel(_below(one, lines, wide), fontsize=7, color=SOFT)
        bar = figure.colorbar(
            image, ax=axes, orientation="horizontal", fraction=0.05, pad=0.02, shrink=0.8
        )
        bar.set_ticks([low, max(high, low + 1)], labels=[f"step {low:,}", f"{high:,}"])
        bar.set_label(f"of {one.steps:,} steps", fontsize=6.5, color=SOFT, labelpad=-8)
        bar.ax.tick_params(length=0, labelsize=6.5)
        bar.outline.set_visible(False)
        return image


def _height(one: Touches, wide: float, tall: float) -> float:
    rows, columns = as_rows(one.first).shape
    return min(max(wide * rows / columns, 0.35), tall)


def _colours() -> Any:
    from matplotlib import colormaps

    return colormaps[TIMES].with_extremes(bad=EMPTY)


def _numbers(axes: Any, values: np.ndarray, middle: float) -> None:
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            colour = "white" if value < middle else BLACK
            axes.text(
                column, row, f"{int(value):,}", ha="center", va="center", fontsize=6.5, color=colour
            )


def _below(one: Touches, lines: Sequence[tuple[Level, int]], wide: float) -> str:
    """Return the loops around the touches, and which line belongs to which loops."""
    words = {"serial": "", "vectorize": " (vector)", "parallel": " (parallel)",
             "unroll": " (unrolled)"}  # fmt: skip
    loops = [f"{level.loop}{words.get(level.kind, f' ({level.kind})')}" for level in one.levels]
    text = textwrap.wrap(" > ".join(loops), int(wide * LETTERS))
    for number, (_, name) in enumerate(LINES):
        named = [level.loop for level, n in lines if n == number]
        if named:
            text += textwrap.wrap(f"{name} line: {', '.join(named)}", int(wide * LETTERS))
    return "\n".join(text)


@dataclass(frozen=True, eq=False)
class _OrderMovie:
    """The picture in frames: what was touched so far, and in red what is touched now."""

    drawn: _Drawn

    def gif(self, path: Any) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import to_rgba
        from PIL import Image

        caption = f"{self.drawn.caption} Red: touched now."
        drawn = replace(self.drawn, touch="first", caption=caption)
        figure, panels = drawn.panels()
        figure.set_dpi(GIF_DOTS)
        for axes, _, _ in panels:
            # the numbers of steps would cover what moves
            for number in axes.texts:
                number.set_visible(False)
        canvas = FigureCanvasAgg(figure)
        # the layout is found once, so that nothing moves but the colours
        canvas.draw()
        figure.set_layout_engine("none")
        still = canvas.copy_from_bbox(figure.bbox)
        red = np.array(to_rgba(RED))
        parts = [one.frames(GIF_FRAMES) for _, _, one in panels]
        frames = []
        for count in range(1, GIF_FRAMES + 2):
            canvas.restore_region(still)
            for (axes, image, one), moves in zip(panels, parts):
                low, high = drawn.range(one)
                first = as_rows(one.first).astype(float)
                first[(first < 0) | (first >= count * one.steps / GIF_FRAMES)] = np.nan
                colours = _colours()((first - low) / max(high - low, 1))
                if count <= GIF_FRAMES:
                    colours[as_rows(moves[count - 1])] = red
                image.set_data(colours)
                ticks = (*axes.xaxis.get_minor_ticks(), *axes.yaxis.get_minor_ticks())
                lines = [tick.gridline for tick in ticks]
                # only what changes is drawn again, and what is in front of it
                for artist in (image, *lines, *axes.collections):
                    axes.draw_artist(artist)
            frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
        # one palette for all frames, so that a frame stores only what changed
        middle = frames[len(frames) // 2]
        both = Image.new("RGB", (middle.width, 2 * middle.height))
        both.paste(middle, (0, 0))
        both.paste(frames[-1], (0, middle.height))
        palette = both.quantize(128)
        flat = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
        times = [GIF_TIME] * GIF_FRAMES + [GIF_PAUSE]
        flat[0].save(
            path, save_all=True, append_images=flat[1:], duration=times, loop=0, optimize=True
        )

    def html(self) -> str:
        return order_page(self.drawn.rows, self.drawn.caption, self.drawn.range)
