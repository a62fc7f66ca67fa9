"""``memory``: what a CPU kernel accesses over time, and the caches that serve it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.counting.trace import Trace
from schedlang.errors import ComputeTypeError, PlotError, explain
from schedlang.host import LINE, Cache
from schedlang.markup.text import printable
from schedlang.plot.palette import BLUE, ORANGE, RED, SKY, SOFT
from schedlang.plot.palette import LINE as THIN
from schedlang.plot.picture import Picture
from schedlang.plot.served import reuse_distances, serving_levels
from schedlang.plot.sheet import sheet
from schedlang.runtime.counted import simulated_caches
from schedlang.runtime.kernel import Kernel
from schedlang.signatures import public

# the most accesses that are drawn, and that each panel is high and the histogram below
MOST, PANEL, BELOW = 100_000, 0.85, 1.15
# near to far, and memory
LEVELS = (SKY, BLUE, ORANGE)


@dataclass(frozen=True, eq=False)
class Accesses:
    """The accesses of one call, the level that serves each, and the distance of each reuse.

    ``level`` is 0 for the first cache and ``len(caches)`` for memory; ``distance`` counts distinct
    lines, and is -1 for the first access to a line.
    """

    title: str
    trace: Trace
    caches: tuple[Cache, ...]
    level: np.ndarray
    distance: np.ndarray

    @property
    def shares(self) -> list[float]:
        """The part of the accesses that each level serves, memory last."""
        counts = np.bincount(self.level, minlength=len(self.caches) + 1)
        return [float(n) / max(1, len(self.level)) for n in counts]


@public
def memory(what: Any, *arrays: Any, caches: Sequence[Cache] | None = None) -> Picture:
    """Return a picture of the memory that a kernel accesses, in the order of one core.

    ``what`` is a kernel for a CPU, or a dict of them by title, drawn beside each other; ``arrays``
    are the arguments of a call. Each array has a panel: a dot is an access, its height the cache
    line in the array, its colour the level of simulated ``caches`` that serves it (by default the
    caches of the target, empty at first). Below is how many distinct lines lie between two accesses
    to one line, with the lines that each cache holds. ``data`` is a list of :class:`Accesses`.

    Raise :class:`~schedlang.errors.PlotError` for more than 100,000 accesses, and the errors of a
    call.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((64, 64), name="A")
    >>> B = sl.compute((64, 64), lambda i, j: A[j, i], name="B")
    >>> f = sl.build(sl.schedule(B))
    >>> seen = sl.plot.memory(f, np.ones((64, 64), "float32")).data[0]
    >>> int((seen.distance < 0).sum()) * 64
    32768
    """
    named = what if isinstance(what, Mapping) else {"": what}
    accesses = [_accesses(str(title), f, arrays, caches) for title, f in named.items()]
    if not accesses:
        raise PlotError("memory({}): give a kernel, or a dict of kernels by title")
    title = f"Memory accesses of {next(iter(named.values())).name}"
    caption = _caption(accesses)
    return Picture(title, caption, accesses, lambda: _drawn(accesses, title, caption))


def _accesses(
    title: str, f: Any, arrays: Sequence[Any], caches: Sequence[Cache] | None
) -> Accesses:
    if not isinstance(f, Kernel) or not f.target.facts.ordered:
        raise ComputeTypeError(
            explain(
                f"memory({f!r})"[:200],
                "it is not a kernel for a CPU",
                "Give what sl.build returns, and the arrays of a call; for GPUs see "
                "sl.plot.coalescing and sl.plot.banks.",
            )
        )
    trace = f.trace(*arrays)
    if trace.total > MOST:
        raise PlotError(
            explain(
                f"memory({f.name})",
                f"the call makes {trace.total:,} accesses, and a picture has room for {MOST:,}",
                "Build the kernel for smaller arrays; f.counters(...) also counts large ones.",
            )
        )
    used = simulated_caches(True if caches is None else caches, f.target, "memory")
    return Accesses(title, trace, tuple(used), serving_levels(trace, used), reuse_distances(trace))


def _caption(accesses: Sequence[Accesses]) -> str:
    text = (
        "Above: each access, by its cache line in the array; the colour is the level that serves "
        "it. Below: distinct lines between two accesses to one line; a grey line is what a cache "
        "holds. "
    )
    for one in accesses:
        names = [*(f"L{k}" for k in range(1, len(one.caches) + 1)), "memory"]
        shares = ", ".join(f"{name} {share:.1%}" for name, share in zip(names, one.shares))
        text += f"\n{one.title + ': ' if one.title else ''}{len(one.trace):,} accesses: {shares}."
    return text


def _drawn(accesses: Sequence[Accesses], title: str, caption: str) -> Any:
    from matplotlib.lines import Line2D

    levels = max(len(one.caches) for one in accesses)
    colours = [*LEVELS[:levels], RED]
    names = [*(f"L{k}" for k in range(1, levels + 1)), "memory"]
    marks = [
        Line2D([], [], marker="s", linestyle="", color=c, label=f"served by {n}")
        for c, n in zip(colours, names)
    ]
    arrays = list(dict.fromkeys(name for one in accesses for name in one.trace.buffers))
    rows = len(arrays)
    figure = sheet(PANEL * rows + BELOW, title, caption, marks=marks)
    grid = figure.add_gridspec(rows + 1, len(accesses), height_ratios=[PANEL] * rows + [BELOW])
    for column, one in enumerate(accesses):
        for row, name in enumerate(arrays):
            axes = figure.add_subplot(grid[row, column])
            _panel(axes, one, name, [*colours[: len(one.caches)], RED])
            if row == rows - 1:
                axes.set_xlabel("access")
            else:
                axes.tick_params(labelbottom=False)
            if row == 0 and one.title:
                axes.set_title(printable(one.title), fontweight="bold")
        _histogram(figure.add_subplot(grid[rows, column]), one)
    return figure


def _panel(axes: Any, one: Accesses, name: str, colours: Sequence[str]) -> None:
    """Draw the accesses to one array; far ones are drawn last, since they cost most."""
    own = np.array([b == name for b in one.trace.buffers])[one.trace.buffer]
    steps = np.arange(len(one.trace))
    for level, colour in enumerate(colours):
        chosen = own & (one.level == level)
        axes.scatter(
            steps[chosen],
            one.trace.offset[chosen] // LINE,
            s=2,
            color=colour,
            linewidths=0,
            zorder=2 + level,
            rasterized=True,
        )
    axes.set_xlim(0, max(1, len(steps)))
    axes.margins(y=0.08)
    axes.set_ylabel(f"{printable(name)}\nline")
    axes.tick_params(length=2, pad=1.5)


def _histogram(axes: Any, one: Accesses) -> None:
    again = one.distance[one.distance >= 0]
    top = max(2, int(again.max(initial=1)) + 1, *(c.size // LINE for c in one.caches[:1]))
    edges = np.unique(np.concatenate([[0, 1], 2 ** np.arange(0, int(np.log2(top)) + 2)]))
    counts, _ = np.histogram(again, edges)
    axes.bar(np.arange(len(counts)), counts, width=0.9, color=SOFT)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, 12 * max(1, counts.max(initial=1)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xticks(np.arange(len(counts)), [f"{n:,}" for n in edges[:-1]], rotation=60)
    for k, cache in enumerate(one.caches, 1):
        place = float(np.interp(cache.size // LINE, edges, np.arange(len(edges)))) - 0.5
        if cache.size // LINE <= edges[-1]:
            axes.axvline(place, color=THIN)
            axes.text(
                place,
                0.97,
                f" L{k}",
                transform=axes.get_xaxis_transform(),
                va="top",
                fontsize=7,
                color=SOFT,
            )
    axes.set_xlabel("distinct lines since the last access to the line")
    axes.set_ylabel("accesses")
    axes.tick_params(length=2, pad=1.5)
