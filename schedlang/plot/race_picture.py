"""``race``: the two threads of a race, among the threads that access the elements around it."""

from __future__ import annotations

from typing import Any

from schedlang.errors import ComputeTypeError, PlotError, RaceError, explain
from schedlang.gpu_lowering.race import Race
from schedlang.gpu_lowering.race_grid import Grid, thread_name
from schedlang.markup.text import printable
from schedlang.plot.palette import BLACK, BLUE, ORANGE, RED, SKY, YELLOW
from schedlang.plot.picture import Picture
from schedlang.plot.sheet import WIDTH, frame, sheet
from schedlang.signatures import public

# the colour and the letter of what a thread does, and what it says in the key
KINDS = {
    "wrote": (ORANGE, "W", "wrote before"),
    "read": (YELLOW, "R", "read before"),
    "writes": (BLUE, "W", "writes now"),
    "reads": (SKY, "R", "reads now"),
}
# inches of a cell, and beside the cells
CELL, BESIDE = 0.2, 0.7


@public
def race(error: RaceError) -> Picture:
    """Return a picture of a race: threads over elements, the two that race marked.

    ``error`` is what ``f.check`` of an emulated kernel raised. A row is a thread, a column an
    element near the race. A letter says that the thread wrote (W) or read (R) the element since the
    last barrier. ``data`` is the :class:`~schedlang.gpu_lowering.race.Race`.

    Raise :class:`~schedlang.errors.ComputeTypeError` for anything else, and
    :class:`~schedlang.errors.PlotError` for an error that has lost its accesses.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((32,), name="A")
    >>> B = sl.compute((32,), lambda i: A[31 - i] + 1, name="B")
    >>> s = sl.schedule(B)
    >>> S = s.cache_read(A, "shared", [B])
    >>> block, thread = s[B].split(B.op.axis[0], 32)
    >>> s[B].bind(block, "blockIdx.x"); s[B].bind(thread, "threadIdx.x")
    >>> s[S].compute_at(s[B], block); s[S].bind(S.op.axis[0], "threadIdx.x")
    >>> f = sl.build(s, target="cuda-emulator", barriers=False)
    >>> try:
    ...     f.check(np.ones(32, "float32"))
    ... except sl.errors.RaceError as error:
    ...     print(sl.plot.race(error).data)
    thread 31 of block 0 wrote A.shared[31], and thread 0 of block 0 reads it, without a barrier \
in between (stage B)
    """
    if not isinstance(error, RaceError):
        raise ComputeTypeError(
            explain(
                f"race({type(error).__name__})",
                "it is not a RaceError",
                "Give the error that f.check raised for a kernel without its barriers.",
            )
        )
    clash = error.race
    if not isinstance(clash, Race):
        raise PlotError(f"race({error.buffer}): the error does not say which threads access what")
    title = f"A race on {printable(clash.buffer)}"
    caption = (
        f"{_sentence(clash)}. Rows are threads, columns are elements near the race. W and R: the "
        "thread wrote or read the element since the last barrier. Boxed: the two accesses that race"
        ". In another order of the threads they give another result."
    )
    return Picture(title, caption, clash, lambda: _drawn(clash.grid, title, caption))


def _sentence(race: Race) -> str:
    text = printable(str(race))
    return text[0].upper() + text[1:]


def _drawn(grid: Grid, title: str, caption: str) -> Any:
    from matplotlib.patches import Patch, Rectangle

    kinds = set(grid.cells.values())
    marks = [
        Patch(facecolor=colour, label=text)
        for what, (colour, _, text) in KINDS.items()
        if what in kinds
    ]
    marks.append(Patch(facecolor="none", edgecolor=RED, linewidth=1.8, label="race"))
    rows, columns = len(grid.threads), len(grid.elements)
    # a few elements still leave room for the title and the key
    width = min(WIDTH, max(4.5, CELL * columns + 2.2))
    figure = sheet(CELL * rows + BESIDE, title, caption, width, marks)
    axes = figure.subplots()
    frame(axes, rows, columns, cells=0)
    for (row, column), what in grid.cells.items():
        colour, letter, _ = KINDS[what]
        axes.add_patch(Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, facecolor=colour))
        axes.text(
            column,
            row,
            letter,
            ha="center",
            va="center_baseline",
            fontsize=7,
            color="white" if what == "writes" else BLACK,
        )
    for row, column in grid.pair:
        axes.add_patch(
            Rectangle(
                (column - 0.5, row - 0.5),
                1,
                1,
                fill=False,
                edgecolor=RED,
                linewidth=1.8,
                clip_on=False,
            )
        )
    axes.set_xticks(range(columns), [", ".join(map(str, e)) for e in grid.elements], rotation=90)
    axes.set_yticks(range(rows), [thread_name(thread) for thread in grid.threads])
    axes.xaxis.tick_top()
    axes.set_xlabel("element")
    axes.xaxis.set_label_position("top")
    return figure
