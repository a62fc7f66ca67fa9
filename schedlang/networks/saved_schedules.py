"""The check of the schedules in a folder, before a call makes kernels of them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from schedlang.errors import (
    NetworkError,
    SavedScheduleWarning,
    SchedlangError,
    explain,
    first_line,
    nearest,
)
from schedlang.markup.text import printable
from schedlang.networks.partition import Part, equal_parts
from schedlang.networks.saving import MANIFEST, Head
from schedlang.schedule.schedule import Schedule

_AGAIN = "Build the network again, and save it again: net.save(...)."


def check_schedules(folder: str | os.PathLike[str], head: Head, parts: Sequence[Part]) -> None:
    """Raise :class:`~schedlang.errors.NetworkError` unless a folder has a schedule of each kernel.

    Each is replayed for its kernel, the first of equal ``parts``. Another version of schedlang may
    have divided the network in another way. Kernels without a schedule get a new one then, with a
    :class:`~schedlang.errors.SavedScheduleWarning`.
    """
    asked = f"load({os.fspath(folder)!r})"
    kernels = {same[0].name: same[0] for same in equal_parts(parts)}
    missing = [name for name in kernels if name not in head.steps]
    others = [name for name in head.steps if name not in kernels]
    if missing or others:
        why = (
            f"{MANIFEST} has no schedule of kernel {missing[0]}" if missing
            else f"{MANIFEST} has a schedule of {printable(others[0])}, which is no kernel"
            f"{nearest(others[0], kernels)}"
        )  # fmt: skip
        if head.is_current:
            raise NetworkError(explain(asked, why, _AGAIN))
        again = "Another version of schedlang wrote it: such kernels get new schedules."
        warnings.warn(explain(asked, why, f"{again} {_AGAIN}"), SavedScheduleWarning, stacklevel=3)
    for name, part in kernels.items():
        if name not in head.steps:
            continue
        try:
            Schedule.from_json(head.steps[name], list(part.group.outputs))
        except (SchedlangError, LookupError, TypeError, ValueError, AttributeError) as error:
            why = f"the schedule of kernel {name} in {MANIFEST} does not fit: {first_line(error)}"
            raise NetworkError(explain(asked, why, _AGAIN)) from None


__all__ = ["check_schedules"]
