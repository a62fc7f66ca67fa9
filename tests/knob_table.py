"""The tables of ``docs/reference/knobs.md``, made from the registries."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.tactics.driver import SHARED
from schedlang.autotune.tactics.knob import Knob
from schedlang.autotune.tactics.registries import CPU, CUDA
from schedlang.autotune.tactics.tactic import Registry

# the heading of each registry's section, and its target in the headings of tables
SECTIONS = ((CPU, "On a CPU", "on a CPU"), (CUDA, "On a GPU", 'for `"cuda"`'))


def sections() -> str:
    """Return the sections of ``docs/reference/knobs.md`` after its introduction."""
    shared = [[_code(k.name), _values(k), k.meaning] for k in SHARED]
    found = ["## On all targets", _table(["knob", "values", "meaning"], shared)]
    for registry, heading, where in SECTIONS:
        tactics = [[_code(t.name), t.meaning] for t in registry.tactics]
        found += [
            f"## {heading}",
            _table([f"`C.how` {where}", "meaning"], tactics),
            _table([f"knob {where}", "values", "tactics", "meaning"], _knob_rows(registry)),
        ]
    return "\n\n".join(found) + "\n"


def _knob_rows(registry: Registry) -> list[list[str]]:
    rows = []
    for knob, names in registry.knobs.items():
        every = len(names) == len(registry.tactics)
        tactics = "all" if every else ", ".join(map(_code, names))
        rows.append([_code(knob.name), _values(knob), tactics, knob.meaning])
    return rows


def _values(knob: Knob) -> str:
    if isinstance(knob.values, str):
        return knob.values
    return ", ".join(f"{v:,}" if type(v) is int else _code(str(v)) for v in knob.values)


def _code(text: str) -> str:
    return f"`{text}`"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (heading, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heading), *lines[1:]])

