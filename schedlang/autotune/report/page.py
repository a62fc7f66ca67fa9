"""The report of a search: one self-contained HTML file without scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from schedlang.autotune.race_times import seconds_before_race
from schedlang.autotune.record import Trial
from schedlang.autotune.report.charts import estimate_text, scatter, search_curve, value_label
from schedlang.autotune.report.effects import knob_effects, value_text
from schedlang.autotune.report.facts import (
    Facts,
    against,
    checked_text,
    failures,
    gflops,
    outcome_counts,
    percent,
    race_seconds,
    trials_with_worth,
    unchecked_winner,
    winner,
)
from schedlang.autotune.report.knob_charts import MOST_KNOBS, knob_figures
from schedlang.autotune.report.style import STYLE
from schedlang.autotune.report.summary import (
    NOTHING_TIMED,
    correlation_text,
    ended_text,
    space_text,
)
from schedlang.errors import TuningError
from schedlang.markup.elements import listing, table
from schedlang.markup.progress import span
from schedlang.markup.text import escape
from schedlang.runtime.evaluate import duration

MOST_REASONS = 12


def write_report(path: str | os.PathLike[str], facts: Facts) -> Path:
    """Write the report of ``facts`` to ``path`` and return the path; equal facts give equal bytes.

    Raise :class:`~schedlang.errors.TuningError` if the file cannot be written.

    >>> import tempfile
    >>> from schedlang.autotune.record import Where
    >>> trials = [Trial(0, "ok", "", seconds=0.004)]
    >>> facts = Facts("C", Where("", (), "cpu", "a laptop", ()), trials, None, 0, 0, None, True,
    ...               "", "", "", None, 0.0, "random", 0, 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/tuning.html", facts).read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TuningError(f"report({path!r}): give the path of the file to write")
    target = Path(path)
    if os.path.isdir(target):
        raise TuningError(f"report({str(path)!r}): this is a folder; try {target / 'tuning.html'}")
    if not os.path.isdir(target.parent):
        raise TuningError(
            f"report({str(path)!r}): there is no folder {target.parent}; make it first, or give "
            "another path"
        )
    try:
        target.write_text(page(facts), encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise TuningError(
            f"report({str(path)!r}): the file cannot be written ({why}); give another path"
        ) from None
    return target


def page(facts: Facts) -> str:
    """Return the report as HTML."""
    facts = replace(facts, trials=sorted(facts.trials, key=lambda trial: trial.number))
    parts = [_head(facts), _numbers(facts), *_warnings(facts)]
    links, sections = [], []
    makers: list[tuple[str, str, Callable[[Facts], str]]] = [
        ("search", "The search", _search),
        ("knobs", "What each knob did", _knobs),
        ("outcomes", "How the trials ended", _outcomes),
        ("estimate", "The estimate against the clock", _estimate),
        ("best", "The best schedule", _best),
        ("where", "Where this holds", _where),
        ("trials", "All trials", _trials),
    ]
    for key, title, make in makers:
        if body := make(facts):
            links.append(f'<a href="#{key}">{title}</a>')
            sections.append(f'<section id="{key}">\n<h2>{title}</h2>\n{body}\n</section>')
    title = f"Tuning of {escape(facts.name)}"
    return "\n".join([
        "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>", f"<style>{STYLE}</style>", "</head>", "<body>",
        *filter(None, parts), f"<nav>{' '.join(links)}</nav>", *sections, "</body>", "</html>", "",
    ])  # fmt: skip


def _head(facts: Facts) -> str:
    sizes = ", ".join(f"{name} = {size}" for name, size in facts.where.sizes)
    lines = [facts.where.target, facts.where.machine, sizes]
    shown = " · ".join(escape(line) for line in lines if line)
    return f'<h1>Tuning of {escape(facts.name)}</h1>\n<p class="soft">{shown}</p>'


def _numbers(facts: Facts) -> str:
    won, counts = winner(facts), outcome_counts(facts.trials)
    cells = []
    if facts.timed and won.seconds:
        cells.append(("best time", duration(won.seconds), gflops(facts, won.seconds)))
        if facts.baseline:
            ratio, words = against(facts.baseline, won.seconds)
            cells.append(("speedup over no tuning", f"{ratio}×", words))
    elif won.estimate is not None:
        shown = estimate_text(won.estimate)
        cells.append(("best estimate", shown, "no unit; nothing was timed"))
    several = "s" * (facts.duplicates != 1)
    same = f"{facts.duplicates} duplicate{several} not measured" if facts.duplicates else ""
    cells.append(("trials", str(len(facts.trials)), same))
    cells.append(("worked", str(counts.get("ok", 0)), checked_text(facts)))
    cells.append(("spent", span(facts.spent), f"{facts.strategy}, seed {facts.seed}"))
    lines = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}"
        + (f"<small>{escape(note)}</small>" if note else "")
        + "</dd></div>"
        for name, value, note in cells
    )
    return '<dl class="numbers">\n' + "\n".join(lines) + "\n</dl>"


def _warnings(facts: Facts) -> list[str]:
    """Return the warnings at the top of the page."""
    warnings = []
    if facts.broken:
        warnings.append(("The search was interrupted.", sentence(f"it ended {ended_text(facts)}")))
    if not facts.timed:
        warnings.append(("Nothing was timed.", " ".join(NOTHING_TIMED)))
    if unchecked := unchecked_winner(facts):
        warnings.append(("Not checked.", sentence(unchecked)))
    return [
        f'<p class="warning"><strong>{title}</strong> {escape(text)}</p>'
        for title, text in warnings
    ]


def _search(facts: Facts) -> str:
    known = trials_with_worth(facts)
    if len(facts.trials) < 2:
        return ""
    what = "time" if facts.timed else "estimate (nothing was timed)"
    text = f"Each dot is the {what} of one trial, lower is better; the steps are the best so far"
    text += ", the ring is the winner"
    text += ", the diamond its time in the final race." if race_seconds(facts) else "."
    if any(trial.resumed for trial, _ in known):
        text += " Hollow dots were already in the database."
    if len(known) < len(facts.trials):
        text += " The rows of marks are the trials without one, by outcome."
    if not known:
        text = "No trial has a time; each mark is a trial, by outcome."
    ended = escape(sentence(f"the search ended: {facts.ended}")) if facts.ended else ""
    chart = f'<figure class="chart wide">{search_curve(facts)}</figure>'
    return "\n".join(filter(None, (f"<p>{text}</p>", ended and f"<p>{ended}</p>", chart)))


def _knobs(facts: Facts) -> str:
    effects, same = knob_effects(facts)
    if len(trials_with_worth(facts)) < 2 or not effects and not same:
        # one candidate says nothing about its knobs
        return ""
    parts = []
    if effects:
        parts.append(
            "<p>Each dot is a trial, the bar is the median, the wedge marks the value of the "
            "winner, and the counts on top are failed trials. All charts share one scale. Knobs "
            "are sorted by the part of the variation that each explains by itself (epsilon squared"
            + (", of the logarithm of the time" if facts.timed else "")
            + "); interactions of knobs are not shown.</p>"
        )
        left = len(effects) - MOST_KNOBS
        if left > 0:
            parts.append(
                f"<p>The {MOST_KNOBS} that explain most are shown; {left} are left out.</p>"
            )
        parts.append(f'<div class="knobs">\n{knob_figures(facts, effects[:MOST_KNOBS])}\n</div>')
    if same:
        names = ", ".join(_knob(name, facts) for name in same)
        parts.append(f'<p class="soft">The same in all comparable trials: {names}.</p>')
    return "\n".join(parts)


def _knob(name: str, facts: Facts) -> str:
    meaning = facts.meanings.get(name, "")
    return f"<code>{escape(name)}</code>" + (f" ({escape(meaning)})" if meaning else "")


def _outcomes(facts: Facts) -> str:
    counts = outcome_counts(facts.trials)
    most, total = max(counts.values()), len(facts.trials)
    rows = []
    for outcome, count in counts.items():
        kind = "full" if outcome == "ok" else "full lost"
        bar = f'<rect class="{kind}" width="{100 * count / most:.1f}" height="10"/>'
        picture = (
            f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{bar}</svg>'
        )
        rows.append([escape(outcome), str(count), escape(percent(count / total)), picture])
    parts = [table(["outcome", "trials", "part", ""], rows, ["short", "number", "number", "bar"])]
    parts.append(f"<p>{escape(sentence(space_text(facts)))}</p>" if facts.drawn else "")
    if checked := checked_text(facts):
        parts.append(f"<p>{escape(sentence(f'of the ok trials: {checked}'))}</p>")
    if facts.refused:
        shown = [[str(n), escape(why)] for why, n in facts.refused]
        parts.append("<h3>Why decisions made no candidate, most frequent first</h3>")
        parts.append(table(["decisions", "reason"], shown, ["number", ""]))
    reasons = failures(facts.trials)
    if reasons:
        shown = [[str(n), escape(o), escape(why)] for n, o, why in reasons[:MOST_REASONS]]
        left = len(reasons) - len(shown)
        parts.append("<h3>Why trials failed, most frequent first</h3>")
        parts.append(table(["trials", "outcome", "reason"], shown, ["number", "short", ""]))
        parts.append(f'<p class="soft">{left} other reasons are left out.</p>' if left else "")
    return "\n".join(filter(None, parts))


def _estimate(facts: Facts) -> str:
    known = trials_with_worth(facts)
    if not facts.timed or len(known) < 2 or not any(t.estimate is not None for t, _ in known):
        return ""
    text = escape(sentence(f"the estimate: {correlation_text(facts)}"))
    return f'<p>{text}</p>\n<figure class="chart narrow wide">{scatter(facts)}</figure>'


def sentence(text: str) -> str:
    """Return ``text`` with a capital letter and a full stop.

    >>> sentence("too few times")
    'Too few times.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def _best(facts: Facts) -> str:
    won, again = winner(facts), race_seconds(facts)
    value = seconds_before_race(won) if facts.timed else won.estimate
    text = f": {value_label(facts)(value)}" if value is not None else ""
    if facts.timed and again is not None:
        text += (
            f" in the search, {duration(again)} when measured again"
            if value == won.first
            else " when measured again; other work took a core during its first time"
        )
    parts = [f"<p>Trial {won.number}{escape(text)}.</p>"]
    for title, content in (
        ("As Python, to paste", facts.best_python),
        ("The loop nest", facts.best_nest),
        ("The source that runs", facts.best_source),
    ):
        if content:
            parts += [f"<h3>{title}</h3>", listing(content, title)]
    if won.decisions:
        rows = [[escape(name), escape(value_text(v))] for name, v in won.decisions.items()]
        parts += ["<h3>Its knobs</h3>", table(["knob", "value"], rows, ["mono", "mono"])]
    return "\n".join(parts)


def _where(facts: Facts) -> str:
    where = facts.where
    rows = [
        ("target", where.target), ("machine", where.machine),
        *((f"size {name}", str(size)) for name, size in where.sizes), *where.versions,
        ("search", f"{facts.strategy}, seed {facts.seed}"), ("computation", where.op),
    ]  # fmt: skip
    return table(["", ""], [[escape(a), escape(b)] for a, b in rows if b], ["soft short", ""])


def _trials(facts: Facts) -> str:
    head = [
        "trial",
        "outcome",
        "time",
        "estimate",
        "took",
        "proposed by",
        "knobs, or reason of failure",
    ]
    classes = ["number", "short", "number", "number", "number", "short", "mono"]
    body = table(head, [_row(trial) for trial in facts.trials], classes)
    return f"<details><summary>{len(facts.trials)} trials</summary>\n{body}\n</details>"


def _row(trial: Trial) -> Sequence[str]:
    knobs = "; ".join(f"{name} = {value_text(v)}" for name, v in trial.decisions.items())
    return [
        str(trial.number), escape(trial.outcome) + (" (kept)" if trial.resumed else ""),
        _times(trial),
        "" if trial.estimate is None else estimate_text(trial.estimate), span(trial.took),
        escape(trial.strategy), escape(". ".join(filter(None, (trial.detail, knobs)))),
    ]  # fmt: skip


def _times(trial: Trial) -> str:
    """Return the time of a trial, and its time from before the race, if it has one."""
    if trial.seconds is None:
        return ""
    first = seconds_before_race(trial)
    before = "" if first is None or first is trial.seconds else f" (first {duration(first)})"
    return duration(trial.seconds) + before


__all__ = ["Facts", "page", "write_report"]
