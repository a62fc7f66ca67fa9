"""The trial of the least estimate, where nothing could be timed."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.database import Database
from schedlang.autotune.record import Where
from schedlang.autotune.records.distance import comparable
from schedlang.autotune.records.entry import Entry


def least_estimate(databases: Sequence[Database], place: Where, template: str = "") -> Entry | None:
    """Return the right trial of the least estimate, of these extents and by this template.

    ``None`` if there is none. A trial without a template is one of the tactics.
    """
    ranked = [
        (entry.trial.estimate, entry)
        for database in databases
        for entry in database.entries()
        if entry.trial.template == template and entry.trial.outcome == "ok"
        if entry.where.extents == place.extents and comparable(place, entry.where)
        if entry.trial.estimate is not None
    ]
    return min(ranked, key=lambda item: item[0])[1] if ranked else None
