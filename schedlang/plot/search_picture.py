"""``search``: the times of a search's trials, and how each knob changes them."""

from __future__ import annotations

import math
from typing import Any

from schedlang.autotune.report.effects import MOST_COLUMNS, Effect, knob_effects
from schedlang.autotune.report.facts import Facts, trials_with_worth, winner
from schedlang.autotune.result import TuningResult
from schedlang.errors import ComputeTypeError, PlotError, explain
from schedlang.plot.palette import BLACK, BLUE, GREEN, LINE, RED, SOFT
from schedlang.plot.picture import Picture
from schedlang.plot.sheet import sheet
from schedlang.runtime.evaluate import duration, number
from schedlang.signatures import public

# knobs that are drawn, and the letters of a value's label
MOST_KNOBS, MOST_LETTERS = 6, 12
CURVE, KNOB = 2.6, 2.1


@public
def search(result: TuningResult) -> Picture:
    """Return a picture of a search: the time of each trial, and the time by the value of each knob.

    ``result`` is what ``sl.autotune`` returns. If nothing could be timed, estimates stand for
    times. The knobs are those that explain most of the variation, at most six. ``data`` is the list
    of :class:`~schedlang.autotune.report.effects.Effect` of all knobs that varied.

    Raise :class:`~schedlang.errors.PlotError` if no trial has a time or an estimate.
    """
    if not isinstance(result, TuningResult):
        raise ComputeTypeError(
            explain(
                f"search({result!r})"[:200],
                "it is not the result of a search",
                "Give what sl.autotune returns.",
            )
        )
    facts = result.facts
    if not trials_with_worth(facts):
        raise PlotError(f"search({facts.name}): no trial has a time or an estimate to draw")
    effects, same = knob_effects(facts)
    title = f"Search for {facts.name}: {len(facts.trials)} trials"
    caption = _caption(facts, effects, same)
    return Picture(title, caption, effects, lambda: _drawn(facts, effects, title, caption))


def _caption(facts: Facts, effects: list[Effect], same: list[str]) -> str:
    what = "time" if facts.timed else "estimate"
    text = (
        f"Above: the {what} of each trial (blue), the best so far (line), and the winner (ring). "
        f"Crosses at the top are trials that failed."
    )
    if effects:
        text += (
            f" Below: the same {what}s by the value of a knob, with their medians as black bars; "
            "the percentage is the part of the variation that the knob explains."
        )
        if len(effects) > MOST_KNOBS:
            text += f" {MOST_KNOBS} of {len(effects)} knobs are drawn."
    elif same:
        text += " No knob varied among the trials with a time."
    return text


def _drawn(facts: Facts, effects: list[Effect], title: str, caption: str) -> Any:
    strongest = effects[:MOST_KNOBS]
    columns = min(3, max(1, len(strongest)))
    lines = -(-len(strongest) // columns)
    figure = sheet(CURVE + KNOB * lines, title, caption)
    grid = figure.add_gridspec(1 + lines, columns, height_ratios=[CURVE] + [KNOB] * lines)
    curve = figure.add_subplot(grid[0, :])
    _curve(curve, facts)
    for k, effect in enumerate(strongest):
        axes = figure.add_subplot(grid[1 + k // columns, k % columns], sharey=curve)
        _knob(axes, effect, labelled=k % columns == 0)
    return figure


def _scale(axes: Any, facts: Facts) -> None:
    values = [value for _, value in trials_with_worth(facts)]
    if min(values) > 0:
        axes.set_yscale("log")
    written = duration if facts.timed else number

    def text(value: float, _: Any) -> str:
        return written(value) if value > 0 else "0"

    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_formatter(FuncFormatter(text))
    if min(values) > 0:
        narrow = max(values) < 30 * min(values)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,), numticks=9))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _curve(axes: Any, facts: Facts) -> None:
    from matplotlib.transforms import blended_transform_factory

    measured = sorted(trials_with_worth(facts), key=lambda item: item[0].number)
    won = winner(facts)
    axes.scatter(
        [t.number for t, _ in measured],
        [v for _, v in measured],
        s=16,
        color=BLUE,
        linewidths=0,
        alpha=0.85,
        zorder=3,
    )
    best, steps = math.inf, []
    for trial, value in measured:
        best = min(best, value)
        steps.append((trial.number, best))
    last = max(t.number for t in facts.trials)
    steps.append((last, best))
    axes.step(*zip(*steps), where="post", color=GREEN, linewidth=1.6, zorder=2)
    for trial, value in measured:
        if trial is won:
            axes.scatter(
                [trial.number],
                [value],
                s=90,
                facecolors="none",
                edgecolors=BLACK,
                linewidths=1.4,
                zorder=4,
            )
    measured_ids = {id(t) for t, _ in measured}
    failed = [t.number for t in facts.trials if id(t) not in measured_ids]
    if failed:
        place = blended_transform_factory(axes.transData, axes.transAxes)
        axes.scatter(
            failed,
            [1.02] * len(failed),
            marker="x",
            s=14,
            color=RED,
            transform=place,
            clip_on=False,
            linewidths=1,
        )
    if facts.baseline and facts.timed:
        axes.axhline(facts.baseline, color=SOFT, linestyle="--", linewidth=0.9)
        axes.text(
            last + 0.5,
            facts.baseline,
            f"untuned {duration(facts.baseline)}",
            ha="right",
            va="center",
            fontsize=7,
            color=SOFT,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    _scale(axes, facts)
    axes.set_xlabel("trial")
    axes.set_ylabel("time of a call" if facts.timed else "estimate (no unit)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", color=LINE)
    axes.spines[["top", "right"]].set_visible(False)


def _knob(axes: Any, effect: Effect, labelled: bool) -> None:
    columns = effect.columns[:MOST_COLUMNS]
    for k, column in enumerate(columns):
        values = [value for _, value in column.values]
        # spread sideways by the position in the list, so that equal times stay apart
        across = [
            k + 0.36 * ((n % 5) - 2) / 2 * min(1, len(values) / 5) for n in range(len(values))
        ]
        axes.scatter(across, values, s=9, color=BLUE, linewidths=0, alpha=0.75)
        if column.median is not None:
            axes.plot([k - 0.38, k + 0.38], [column.median] * 2, color=BLACK, linewidth=1.8)
    labels = [_short(column.label) for column in columns]
    long = sum(map(len, labels)) > 22
    axes.set_xticks(
        range(len(columns)),
        labels,
        rotation=40 if long else 0,
        ha="right" if long else "center",
        fontsize=6.5,
    )
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_title(f"{effect.name}: {effect.explained:.0%}", fontweight="bold")
    axes.tick_params(labelleft=labelled)
    axes.grid(axis="y", color=LINE)
    axes.spines[["top", "right"]].set_visible(False)


def _short(label: str) -> str:
    return label if len(label) <= MOST_LETTERS else f"{label[: MOST_LETTERS - 2]}.."
