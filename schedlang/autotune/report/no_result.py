"""The error message of a search without a result: reasons and remedies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from schedlang.autotune.record import Trial
from schedlang.autotune.report.facts import failures
from schedlang.markup.text import printable

MOST_REASONS, MOST_LETTERS = 5, 160
HINTS = {
    "build timed out": "Smaller unrolled tiles compile faster; limits= gives builds more time.",
    "run timed out": "Tune for smaller sizes, or give a template whose first options are fast; "
    "limits= gives runs more time.",
    "wrong answer": "If only rounding differs, of floats or of values cast from floats, give a "
    "larger tolerance=; gathers need inputs=.",
    "out of memory": "Smaller sizes, or fewer stages at root, need less memory.",
}
CONSTRAINED = "Loosen the constraints of the template."
ILLEGAL = (
    "The steps of the template are refused before anything is built: change the step that is "
    "named, or the options of its knobs."
)
LATE = "The time was up before other decisions were drawn: give more time."
COMPILED_ALONE = (
    "No NVIDIA GPU is available, so that candidates are only compiled and ranked by estimates. To "
    "time them, tune on a machine with a GPU, and load its database here."
)
BY_TACTICS = "No tactic applies to this computation; give a template= that schedules it."


def no_result_message(
    trials: Sequence[Trial], valid: int, refused: Sequence[tuple[str, int]], ended: str,
    hint: str,
) -> str:  # fmt: skip
    """Return the message of a search that has no winner.

    It says how the ``trials`` failed. Without trials, and with no ``valid`` draw, it says why draws
    were ``refused`` and gives the ``hint``. Otherwise it says that the search ``ended`` too early.

    >>> trials = [Trial(0, "out of memory", "", detail="1 TiB")]
    >>> print(no_result_message(trials, 1, [], "the end", LATE))
    none of 1 candidates worked
      1 time out of memory: 1 TiB
      Smaller sizes, or fewer stages at root, need less memory.
    """
    if trials:
        reasons = failures(trials)
        lines = [f"none of {len(trials)} candidates worked"]
        lines += [
            _line(count, f"{outcome}: {why}") for count, outcome, why in reasons[:MOST_REASONS]
        ]
        outcome = Counter(trial.outcome for trial in trials).most_common(1)[0][0]
        lines += [HINTS[outcome]] if outcome in HINTS else []
    elif refused and not valid:
        lines = ["none of the drawn decisions make a candidate"]
        lines += [_line(count, why) for why, count in refused[:MOST_REASONS]]
        lines.append(hint)
    else:
        lines = [
            f"{ended or 'it ended'} before a candidate was measured: give more trials or more time"
        ]
    return "\n  ".join(printable(line) for line in lines)


def _line(count: int, why: str) -> str:
    shown = why if len(why) <= MOST_LETTERS else why[: MOST_LETTERS - 1] + "…"
    return f"{count} time{'s' * (count != 1)} {shown}"
