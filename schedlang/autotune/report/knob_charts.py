"""A small chart for each knob: the times of the trials by the value of the knob."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.report.charts import levels, line, place, svg, text, value_label
from schedlang.autotune.report.effects import Column, Effect
from schedlang.autotune.report.facts import Facts, percent, undisturbed_trials
from schedlang.autotune.report.scale import Scale, scale_of
from schedlang.markup.text import escape

MOST_KNOBS = 24
WIDTH, LEFT, RIGHT, TOP, TALL, STRIP = 300, 58, 6, 20, 140, 16
# the approximate width of a letter, and the longest label of a column
LETTER, MOST_LETTERS = 7.0, 14


def knob_figures(facts: Facts, effects: Sequence[Effect]) -> str:
    """Return the charts of ``effects``, all on one time scale."""
    values = [value for _, value in undisturbed_trials(facts)]
    up = scale_of(values, TOP + TALL, TOP + STRIP)
    return "\n".join(_figure(facts, effect, up) for effect in effects)


def _figure(facts: Facts, effect: Effect, up: Scale) -> str:
    write = value_label(facts)
    medians = [c.median for c in effect.columns if c.median is not None]
    words = f"explains {percent(effect.explained)} of the variation"
    words += f", medians {write(min(medians))} to {write(max(medians))}"
    if effect.count < len(undisturbed_trials(facts)):
        words += f"; in {effect.count} of {len(undisturbed_trials(facts))} trials"
    chart = _chart(facts, effect, up)
    meaning = facts.meanings.get(effect.name, "")
    named = f"{escape(meaning)}; " if meaning else ""
    caption = f'<strong class="mono">{escape(effect.name)}</strong>{named}{escape(words)}'
    return f"<figure>{chart}\n<figcaption>{caption}</figcaption></figure>"


def _chart(facts: Facts, effect: Effect, up: Scale) -> str:
    write, columns = value_label(facts), effect.columns
    wide = (WIDTH - LEFT - RIGHT) / len(columns)
    ticks = up.ticks()
    parts = levels(up, LEFT, WIDTH - RIGHT, write) if len(ticks) <= 6 else [
        part for value in ticks[:: 1 + len(ticks) // 6] for part in (
            line(LEFT, up(value), WIDTH - RIGHT, up(value), "grid"),
            text(LEFT - 6, up(value) + 4, write(value), "soft", "end"),
        )
    ]  # fmt: skip
    dots, medians, failed = [], [], []
    for n, column in enumerate(columns):
        middle = LEFT + (n + 0.5) * wide
        for number, value in column.values:
            # the golden ratio spreads the dots of a column evenly and reproducibly
            aside = ((number * 0.6180339887) % 1 - 0.5) * min(0.7 * wide, 36)
            dots.append(f"M{place(middle + aside)} {place(up(value))}h.01")
        if column.median is not None:
            half = min(0.42 * wide, 24)
            medians.append(f"M{place(middle - half)} {place(up(column.median))}h{place(2 * half)}")
        if column.failed and wide >= 16:
            failed.append(
                text(
                    middle,
                    TOP - 6,
                    f"{column.failed}×" if wide > 30 else str(column.failed),
                    "soft",
                    "middle",
                )
            )
    parts.append(f'<path class="dots" d="{"".join(dots)}"/>')
    parts.append(f'<path class="median" d="{"".join(medians)}"/>')
    best = next(((n, c) for n, c in enumerate(columns) if c.best), None)
    if best is not None:
        parts.append(_mark(LEFT + (best[0] + 0.5) * wide, TOP + TALL + 4))
    if failed:
        parts += [text(2, TOP - 6, "failed", "soft"), *failed]
    labels, below = _labels(columns, wide)
    label = f"{effect.name}: " + ", ".join(
        f"{c.label} median {write(c.median)}" for c in columns if c.median is not None
    )
    return svg(WIDTH, TOP + TALL + below, label, [*parts, *labels])


def _mark(x: float, y: float) -> str:
    """Return the wedge under the column of the best trial."""
    return f'<path class="step" d="M{place(x - 5)} {place(y + 5)}L{place(x)} {place(y)}l5 5"/>'


def _labels(columns: Sequence[Column], wide: float) -> tuple[list[str], float]:
    """Return the labels under the columns, and their height."""
    shown = [
        c.label if len(c.label) <= MOST_LETTERS else c.label[: MOST_LETTERS - 1] + "…"
        for c in columns
    ]
    y = TOP + TALL + 22
    longest = max(map(len, shown)) * LETTER
    if longest <= wide - 4:
        placed = [(LEFT + (n + 0.5) * wide, label) for n, label in enumerate(shown)]
        return [text(x, y, label, "", "middle") for x, label in placed], 28
    # slanted labels; only some of them where columns are narrower than a line of text
    every = 1 + int(13 // wide)
    parts = []
    for n in range(0, len(shown), every):
        x = place(LEFT + (n + 0.5) * wide + 3)
        turn = f'transform="rotate(-40 {x} {place(y)})"'
        parts.append(
            f'<text x="{x}" y="{place(y)}" {turn} text-anchor="end">{escape(shown[n])}</text>'
        )
    return parts, 28 + longest * 0.64
