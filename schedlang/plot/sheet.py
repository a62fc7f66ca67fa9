"""The sheet of a picture: a matplotlib figure with a title above and a caption below."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from schedlang.errors import missing_extra
from schedlang.markup.text import printable
from schedlang.plot.palette import LINE, SOFT, TEXT

# inches: the width of every picture, and the heights of a title and of a line of the caption
WIDTH, TITLE, CAPTION_LINE, MARGIN = 8.0, 0.34, 0.165, 0.1
# inches of a row that explains colours, below the title
KEY = 0.24
# letters of the caption for each inch
LETTERS = 17.2
STYLE = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 8,
    "axes.titlesize": 8.5, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 7.5, "text.color": TEXT, "axes.labelcolor": TEXT, "axes.edgecolor": SOFT,
    "xtick.color": SOFT, "ytick.color": SOFT, "axes.linewidth": 0.6, "hatch.linewidth": 0.7,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "grid.color": LINE, "grid.linewidth": 0.5,
    "figure.facecolor": "white", "axes.facecolor": "white", "savefig.dpi": 110,
    # a name with a dollar sign is not a formula, and two runs write the same file
    "text.parse_math": False, "svg.hashsalt": "schedlang", "svg.fonttype": "none",
    "path.simplify": False,
}  # fmt: skip


def matplotlib(purpose: str) -> Any:
    """Return the module matplotlib.

    Raise :class:`~schedlang.errors.MissingExtraError` if it is not installed.
    """
    try:
        import matplotlib as module
    except ImportError:
        raise missing_extra("matplotlib", "viz", purpose) from None
    return module


@contextmanager
def style() -> Iterator[None]:
    """Draw and write with the style of our pictures, whatever the user set for others."""
    library = matplotlib("a picture")
    with library.rc_context():
        library.rcdefaults()
        library.rcParams.update(STYLE)
        yield


def sheet(
    height: float, title: str, caption: str, width: float = WIDTH, marks: Sequence[Any] = ()
) -> Any:
    """Return a new figure for a drawing of ``width`` and ``height`` inches.

    The figure is higher: the title and a row of ``marks``, which explain colours, stand above, and
    the caption, which is wrapped, below.
    """
    matplotlib("a picture")
    from matplotlib.figure import Figure

    lines = [
        line
        for paragraph in printable(caption).splitlines()
        for line in textwrap.wrap(paragraph, int((width - 2 * MARGIN) * LETTERS))
    ]
    above = TITLE + KEY * bool(marks)
    below = CAPTION_LINE * len(lines) + 2 * MARGIN
    whole = height + above + below
    figure = Figure(figsize=(width, whole), layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0.005, below / whole, 0.99, height / whole), w_pad=0.06)
    figure.text(
        MARGIN / width,
        1 - 0.08 / whole,
        printable(title),
        ha="left",
        va="top",
        fontsize=10,
        fontweight="bold",
    )
    if marks:
        figure.legend(
            handles=list(marks),
            loc="upper left",
            ncols=len(marks),
            frameon=False,
            bbox_to_anchor=(0, 1 - (TITLE - 0.04) / whole),
            borderaxespad=0,
            handlelength=1.4,
            columnspacing=1.4,
        ).set_in_layout(False)
    figure.text(
        MARGIN / width,
        (below - MARGIN) / whole,
        "\n".join(lines),
        ha="left",
        va="top",
        fontsize=8,
        color=SOFT,
        linespacing=1.35,
    )
    return figure


def as_rows(values: np.ndarray) -> np.ndarray:
    """Return ``values`` in two dimensions: leading dimensions stand below each other.

    >>> as_rows(np.zeros((2, 3, 4))).shape, as_rows(np.zeros(5)).shape
    ((6, 4), (1, 5))
    """
    if values.ndim == 0:
        return values.reshape(1, 1)
    return values.reshape(-1, values.shape[-1])


def frame(
    axes: Any, rows: int, columns: int, cells: int = 24, start: tuple[int, int] = (0, 0)
) -> None:
    """Prepare ``axes`` for a grid of elements, with thin lines between them if they are few.

    ``start`` are the numbers of the first row and of the first column.
    """
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.tick_params(length=2, pad=1.5)
    for axis, count, low in ((axes.xaxis, columns, start[1]), (axes.yaxis, rows, start[0])):
        last = count - 1
        step = max(1, 2 ** int(np.ceil(np.log2(max(count / 6, 1)))))
        ticks = [k for k in range(0, count, step) if k == 0 or last - k >= 0.75 * step]
        ticks += [last] * (last > 0)
        axis.set_ticks(ticks, [str(low + k) for k in ticks])
    if max(rows, columns) <= cells:
        axes.set_xticks(np.arange(-0.5, columns), minor=True)
        axes.set_yticks(np.arange(-0.5, rows), minor=True)
        axes.grid(which="minor", color="white", linewidth=0.8)
        axes.tick_params(which="minor", length=0)
        axes.set_axisbelow(False)
    for side in axes.spines.values():
        side.set_visible(False)
