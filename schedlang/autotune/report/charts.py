"""The charts of a search as SVG text: the times by trial, and the estimates against the times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from schedlang.autotune.record import Trial
from schedlang.autotune.report.facts import (
    Facts,
    outcome_counts,
    race_seconds,
    trials_with_worth,
    undisturbed_trials,
    winner,
)
from schedlang.autotune.report.scale import Scale, scale_of
from schedlang.markup.text import escape
from schedlang.runtime.evaluate import duration, number

WIDTH, LEFT, RIGHT, TOP = 900, 110, 16, 14
ROW = 18


def value_label(facts: Facts) -> Callable[[float], str]:
    """Return the formatter of the values that rank the trials: times, or estimates."""
    return duration if facts.timed else estimate_text


def estimate_text(value: float) -> str:
    return number(value, 4)


def svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    """Return an SVG picture of ``parts``, with ``label`` for screen readers."""
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
    return "\n".join([head, *parts, "</svg>"])


def place(value: float) -> str:
    """Return a coordinate as short text, never ``-0``."""
    return f"{round(value, 1) + 0.0:g}"


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    kind = f' class="{kind}"' if kind else ""
    return (
        f'<text x="{place(x)}" y="{place(y)}"{kind} text-anchor="{anchor}">{escape(content)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{place(x1)} {place(y1)}L{place(x2)} {place(y2)}"/>'


def levels(scale: Scale, left: float, right: float, write: Callable[[float], str]) -> list[str]:
    """Return the horizontal grid lines and labels at the ticks of the vertical axis."""
    parts = []
    for value in scale.ticks():
        y = scale(value)
        parts += [
            line(left, y, right, y, "grid"),
            text(left - 8, y + 4, write(value), "soft", "end"),
        ]
    return parts


def search_curve(facts: Facts) -> str:
    """Draw each trial's time by its number, the best time so far as steps, and failed trials below.

    A diamond marks the winner's time in the race.
    """
    write, won = value_label(facts), winner(facts)
    # trials may end out of order
    known = sorted(trials_with_worth(facts), key=lambda item: item[0].number)
    timed = {id(trial) for trial, _ in known}
    rows: dict[str, list[Trial]] = {outcome: [] for outcome in outcome_counts(facts.trials)}
    for trial in facts.trials:
        if id(trial) not in timed:
            rows[trial.outcome].append(trial)
    rows = {outcome: trials for outcome, trials in rows.items() if trials}
    tall = 300 if known else 0
    last = max(trial.number for trial in facts.trials)
    across = Scale(-0.5, last + 0.5, LEFT, WIDTH - RIGHT, False)
    values = [value for _, value in known]
    base = facts.baseline if facts.timed and known else None
    again = race_seconds(facts) if facts.timed and known else None
    up = scale_of([*values, *(v for v in (base, again) if v)], TOP + tall, TOP)
    parts = levels(up, LEFT, WIDTH - RIGHT, write) if known else []
    if base:
        parts.append(line(LEFT, up(base), WIDTH - RIGHT, up(base), "base"))
    steps: list[str] = []
    best = math.inf
    for trial, value in known:
        if value < best:
            x = place(across(trial.number))
            steps.append(f"H{x}V{place(up(value))}" if steps else f"M{x} {place(up(value))}")
            best = value
    if steps:
        parts.append(f'<path class="step" d="{"".join(steps)}H{WIDTH - RIGHT}"/>')
    for trial, value in known:
        kind, size = ("kept", 3) if trial.resumed else ("dot", 3.5)
        title = escape(f"trial {trial.number}: {write(value)}")
        at = f'cx="{place(across(trial.number))}" cy="{place(up(value))}"'
        parts.append(f'<circle class="{kind}" {at} r="{size}"><title>{title}</title></circle>')
        if trial is won:
            parts.append(f'<circle class="ring" {at} r="7"/>')
    if again:
        parts.append(_diamond(across(won.number), up(again), f"{write(again)} in the race"))
    if base:
        parts.append(text(WIDTH - RIGHT, up(base) - 6, f"untuned {write(base)}", "base", "end"))
    y = TOP + tall + (12.0 if known else 0.0)
    for outcome, trials in rows.items():
        parts += _marks(across, y, "ok, no time" if outcome == "ok" else outcome, trials)
        y += ROW
    parts += _trial_numbers(across, y + 18, last)
    label = f"{len(facts.trials)} trials by their numbers"
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, y + 36, "trial", "soft", "middle"))
    return svg(WIDTH, y + 44, label, parts)


def _marks(across: Scale, y: float, name: str, trials: Sequence[Trial]) -> list[str]:
    """Return a labeled row with a mark for each trial."""
    marks = (f"M{place(across(t.number))} {place(y + 4)}v{ROW - 6}" for t in trials)
    return [
        line(LEFT, y + ROW, WIDTH - RIGHT, y + ROW, "grid"),
        text(LEFT - 8, y + 13, name, "soft", "end"),
        f'<path class="failed" d="{"".join(marks)}"/>',
    ]


def _diamond(x: float, y: float, title: str) -> str:
    path = f"M{place(x)} {place(y - 6)}l6 6 -6 6 -6 -6z"
    return f'<path class="again" d="{path}"><title>{escape(title)}</title></path>'


def _trial_numbers(across: Scale, y: float, last: int) -> list[str]:
    whole = [v for v in across.ticks() if v == int(v) and v >= 0]
    if 0.0 not in whole and (not whole or whole[0] > last / 30):
        whole.insert(0, 0.0)
    return [text(across(v), y, f"{v:g}", "soft", "middle") for v in whole]


def scatter(facts: Facts) -> str:
    """Draw the measured times (vertical) against the estimates (horizontal)."""
    known = [(t, t.estimate, v) for t, v in undisturbed_trials(facts) if t.estimate is not None]
    known = [pair for pair in known if math.isfinite(pair[1])]
    width, tall = 560, 300
    across = scale_of([x for _, x, _ in known], LEFT, width - RIGHT)
    up = scale_of([y for _, _, y in known], TOP + tall, TOP)
    parts, won = levels(up, LEFT, width - RIGHT, duration), winner(facts)
    ticks = across.ticks()
    # at most seven labels, so that they do not overlap
    for value in ticks[:: 1 + (len(ticks) - 1) // 7]:
        x = across(value)
        parts.append(line(x, TOP, x, TOP + tall, "grid"))
        parts.append(text(x, TOP + tall + 18, estimate_text(value), "soft", "middle"))
    for trial, x, y in known:
        title = escape(f"trial {trial.number}: {duration(y)}, estimate {estimate_text(x)}")
        at = f'cx="{place(across(x))}" cy="{place(up(y))}"'
        parts.append(f'<circle class="dot" {at} r="3.5"><title>{title}</title></circle>')
        if trial is won:
            parts.append(f'<circle class="ring" {at} r="7"/>')
    middle = (LEFT + width - RIGHT) / 2
    parts.append(text(middle, TOP + tall + 36, "estimate (no unit)", "soft", "middle"))
    return svg(width, TOP + tall + 44, f"{len(known)} trials: estimate against time", parts)
