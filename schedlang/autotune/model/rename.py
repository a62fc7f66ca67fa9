"""Decisions for a computation as decisions for an equal one with other names."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.autotune.knobs import Decision, Decisions
from schedlang.compute.rename import Names


def rename_decisions(decisions: Decisions, old: Names, new: Names) -> Mapping[str, Decision] | None:
    """Return ``decisions``, whose knobs are named after the parts ``old``, in the names ``new``.

    ``None`` if a name of ``old`` stands for two of ``new``.

    >>> names = Names(("A", "C", "i")), Names(("X", "Y", "i"))
    >>> rename_decisions({"C.how": "tile", "C.i.block": 2}, *names)
    {'Y.how': 'tile', 'Y.i.block': 2}
    >>> print(rename_decisions({"C.i.block": 2}, Names(("C", "i", "i")), Names(("C", "i", "j"))))
    None
    """
    if old.parts == new.parts:
        return decisions
    known: dict[str, str] = {}
    for before, after in zip(old.parts, new.parts):
        if known.setdefault(before, after) != after:
            return None
    return {
        ".".join(known.get(part, part) for part in name.split(".")): value
        for name, value in decisions.items()
    }
