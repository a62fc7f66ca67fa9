"""The kernels of a folder, by the schedules in it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from schedlang.errors import (
    NetworkError,
    SavedScheduleWarning,
    explain,
    first_line,
    nearest,
    warn_user,
)
from schedlang.markup.text import printable
from schedlang.networks.kernels import PartKernel, part_kernels
from schedlang.networks.manifest import MANIFEST, Head
from schedlang.networks.partition import Part, equal_parts
from schedlang.target import Target

_AGAIN = "Build the network again, and save it again: net.save(...)."


def saved_kernels(
    folder: str | os.PathLike[str],
    head: Head,
    parts: Sequence[Part],
    target: Target,
    compiler: str = "",
) -> tuple[PartKernel, ...] | None:
    """Return the kernels of equal ``parts`` of a network that was loaded from a folder.

    Raises :class:`~schedlang.errors.NetworkError` for a schedule that does not fit its kernel or
    ``target``, and if the folder lacks the schedule of a kernel. If another version of schedlang
    wrote it, which may have divided the network in another way, return ``None`` then, with a
    :class:`~schedlang.errors.SavedScheduleWarning`.
    """
    asked = f"load({os.fspath(folder)!r})"
    kernels = {same[0].name: same for same in equal_parts(parts)}
    missing = [name for name in kernels if name not in head.steps]
    others = [name for name in head.steps if name not in kernels]
    if missing or others:
        why = (
            f"{MANIFEST} has no schedule of kernel {missing[0]}"
            if missing
            else f"{MANIFEST} has a schedule of {printable(others[0])}, which is not a kernel"
            f"{nearest(others[0], kernels)}"
        )
        if head.is_current:
            raise NetworkError(explain(asked, why, _AGAIN))
        again = "Another version of schedlang wrote it: such kernels get new schedules."
        warn_user(explain(asked, why, f"{again} {_AGAIN}"), SavedScheduleWarning)
    scheduled: list[PartKernel] = []
    for name, same in kernels.items():
        if name not in head.steps:
            continue
        try:
            steps = {name: head.steps[name]}
            scheduled += part_kernels(same, target, None, steps, head.origins, compiler)
        except Exception as error:
            # lowering may fail in any way for steps that no schedule has
            why = f"the schedule of kernel {name} in {MANIFEST} does not fit: {first_line(error)}"
            raise NetworkError(explain(asked, why, _AGAIN)) from None
    return None if missing else tuple(scheduled)
