"""``profile``: the time of each stage of a call as a bar, and the time that each thread worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.errors import ComputeTypeError, PlotError, explain
from schedlang.markup.text import printable
from schedlang.plot.palette import EMPTY, KINDS, LINE, SOFT, TEXT
from schedlang.plot.picture import Picture
from schedlang.plot.sheet import sheet
from schedlang.runtime.profile import OTHER, WAITING, Profile
from schedlang.runtime.timing import duration
from schedlang.signatures import public

# stages with a colour of their own, and threads of a loop that are drawn
MOST_STAGES, MOST_THREADS = 6, 16
# inches of a bar of a call and of a thread, and of an axis with its title
CALL, THREAD, AXIS = 0.34, 0.17, 0.62
# narrower parts of a bar have no label, and shorter times outside of loops are not in the key
LABELLED, IN_KEY = 0.09, 0.005
# of the time in which threads start and wait
HATCH = "////"


@dataclass(frozen=True)
class Loop:
    """A parallel loop: its title, and the seconds that each of its threads worked."""

    title: str
    threads: tuple[float, ...]


@dataclass(frozen=True)
class Times:
    """The times of one call in seconds; the ``parts`` add up to about ``seconds``.

    ``parts`` has the stages in the order of the profile; then, if they are not 0, the time in which
    parallel loops start and wait, and the time outside of all loops.
    """

    title: str
    seconds: float
    parts: Mapping[str, float]
    loops: tuple[Loop, ...]


@public
def profile(measured: Any) -> Picture:
    """Return a picture of where the time of calls goes: by stage, and by thread.

    ``measured`` is what ``f.profile`` returns; a list or a dict by title compares several. Each
    call is a bar, whose parts are the times of the stages. Below are the parallel loops, with the
    time that each of their threads worked. ``data`` is a list of :class:`Times`.

    Raise :class:`~schedlang.errors.ComputeTypeError` for anything else, and
    :class:`~schedlang.errors.PlotError` for a profile without time.

    >>> import schedlang as sl
    >>> from schedlang.runtime.profile import Part, Profile
    >>> part = Part("y", "B", "parallel", 0, 3e-3, 3e-3, 1, (2e-3, 3e-3))
    >>> seen = Profile("B", "cpu", 3e-3, 3e-3, {"B": 3e-3}, 0.0, 0.0, (part,), 0.0, 5)
    >>> [times] = sl.plot.profile(seen).data
    >>> dict(times.parts), times.loops[0].threads
    ({'B': 0.003}, (0.002, 0.003))
    """
    times = [_times(title, one) for title, one in _named(measured)]
    for one in times:
        if one.seconds <= 0:
            raise PlotError(f"profile({one.title}): the profile has no time to draw")
    stages, others = _stages(times)
    title = f"Time of {times[0].title}" if len(times) == 1 else "Time by stage"
    caption = _caption(times, others)
    return Picture(title, caption, times, lambda: _drawn(times, stages, title, caption))


def _named(measured: Any) -> list[tuple[str, Profile]]:
    if isinstance(measured, Mapping):
        named = [(printable(str(title)), one) for title, one in measured.items()]
    elif isinstance(measured, (list, tuple)):
        named = [(f"kernel {k}", one) for k, one in enumerate(measured, 1)]
    else:
        named = [(printable(str(getattr(measured, "name", ""))), measured)]
    if not named or not all(isinstance(one, Profile) for _, one in named):
        raise ComputeTypeError(
            explain(
                f"profile({type(measured).__name__})",
                "it is not what f.profile returns",
                "Profile a kernel first: sl.plot.profile(f.profile(*arrays)).",
            )
        )
    return named


def _times(title: str, one: Profile) -> Times:
    rest = {WAITING: one.waiting, OTHER: one.other}
    parts = {**one.stages, **{name: seconds for name, seconds in rest.items() if seconds > 0}}
    loops = tuple(
        Loop(f"{printable(part.name)} of {printable(part.stage)}", part.threads)
        for part in one.parts
        if len(part.threads) > 1
    )
    return Times(title, one.seconds, parts, loops)


def _stages(times: Sequence[Times]) -> tuple[list[str], int]:
    """Return the stages that get a colour, in order, and how many others there are."""
    total: dict[str, float] = {}
    for one in times:
        for name, seconds in one.parts.items():
            if name not in (WAITING, OTHER):
                total[name] = total.get(name, 0.0) + seconds
    longest = sorted(total, key=lambda name: -total[name])[:MOST_STAGES]
    return [name for name in total if name in longest], len(total) - len(longest)


def _caption(times: Sequence[Times], others: int) -> str:
    text = "Each bar is one call, and its parts are the times of the stages."
    if any(WAITING in one.parts for one in times):
        text += " Hatched: parallel loops start their threads and wait for the slowest."
    if others:
        text += f" The {MOST_STAGES} longest stages have a colour; {others} more are grey."
    loops = [loop for one in times for loop in one.loops]
    if loops:
        text += (
            " Below: how long each thread of a parallel loop worked; the loop takes as long as its "
            "slowest thread."
        )
        if any(len(loop.threads) > MOST_THREADS for loop in loops):
            text += f" The first {MOST_THREADS} threads are drawn."
    return text


def _drawn(times: Sequence[Times], stages: Sequence[str], title: str, caption: str) -> Any:
    loops = [(one.title, loop) for one in times for loop in one.loops]
    heights = [CALL * len(times) + AXIS]
    heights += [THREAD * min(len(loop.threads), MOST_THREADS) + AXIS for _, loop in loops]
    colours = dict(zip(stages, KINDS))
    figure = sheet(sum(heights), title, caption, marks=_key(times, colours))
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights, sharex=True)[:, 0]
    _calls(axes[0], times, colours)
    for place, (call, loop) in zip(axes[1:], loops):
        name = loop.title if len(times) == 1 else f"{call}: {loop.title}"
        _threads(place, name, loop.threads[:MOST_THREADS])
    from matplotlib.ticker import FuncFormatter

    axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda x, _: duration(x) if x > 0 else "0"))
    axes[-1].set_xlabel("time in a call")
    return figure


def _key(times: Sequence[Times], colours: Mapping[str, str]) -> list[Any]:
    from matplotlib.patches import Patch

    marks = [Patch(facecolor=colour, label=printable(name)) for name, colour in colours.items()]
    stages_drawn = {name for one in times for name in one.parts}
    if stages_drawn - {*colours, WAITING, OTHER}:
        marks.append(Patch(facecolor=LINE, label="other stages"))
    if WAITING in stages_drawn:
        marks.append(
            Patch(
                facecolor=EMPTY,
                edgecolor=SOFT,
                hatch=HATCH,
                linewidth=0,
                label="starting and waiting",
            )
        )
    if any(one.parts.get(OTHER, 0.0) > IN_KEY * one.seconds for one in times):
        marks.append(Patch(facecolor=SOFT, label="outside of loops"))
    return marks


def _calls(axes: Any, times: Sequence[Times], colours: Mapping[str, str]) -> None:
    longest = max(one.seconds for one in times)
    for row, one in enumerate(times):
        left = 0.0
        for name, seconds in one.parts.items():
            waits = name == WAITING
            colour = EMPTY if waits else SOFT if name == OTHER else colours.get(name, LINE)
            axes.barh(
                row,
                seconds,
                left=left,
                height=0.72,
                color=colour,
                linewidth=0,
                **({"edgecolor": SOFT, "hatch": HATCH} if waits else {}),
            )
            if seconds > LABELLED * longest and not waits:
                dark = colour in (KINDS[0], SOFT)
                axes.text(
                    left + seconds / 2,
                    row,
                    f"{duration(seconds)}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if dark else TEXT,
                )
            left += seconds
        axes.text(
            max(left, one.seconds),
            row,
            f" {duration(one.seconds)}",
            ha="left",
            va="center",
            fontsize=7.5,
            fontweight="bold",
        )
    axes.set_yticks(range(len(times)), [one.title for one in times])
    axes.set_ylim(len(times) - 0.5, -0.5)
    axes.set_xlim(0, 1.12 * longest)
    _plain(axes)


def _threads(axes: Any, name: str, threads: Sequence[float]) -> None:
    axes.barh(range(len(threads)), threads, height=0.7, color=KINDS[4], linewidth=0)
    slowest = max(threads)
    axes.axvline(slowest, color=SOFT, linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(threads)), [f"thread {k}" for k in range(len(threads))])
    axes.set_ylim(len(threads) - 0.5, -0.5)
    axes.set_title(f"threads of {name}", loc="left", fontweight="bold")
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.grid(axis="x", color=LINE)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
