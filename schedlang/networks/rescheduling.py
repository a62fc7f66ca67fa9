"""A schedule of the user's for a part of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.errors import NetworkError, explain, listed, nearest
from schedlang.networks.kernels import PartKernel, Source, part_kernels
from schedlang.networks.partition import Partition
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


def rescheduled(
    kernels: Sequence[PartKernel], partition: Partition, target: Target, database: Source,
    part: str, schedule: Any,
) -> tuple[PartKernel, ...]:  # fmt: skip
    """Return ``kernels`` with that of a part under another schedule.

    Raises :class:`~schedlang.errors.NetworkError` for an unknown part, for what is no schedule, and
    for a schedule of another computation. Raises what ``sl.build`` raises for one that cannot run
    on ``target``.
    """
    made = next((kernel for kernel in kernels if part in kernel.parts), None)
    if made is None:
        names = [name for kernel in kernels for name in kernel.parts]
        hint = nearest(str(part), names) or f"; the parts are {listed(names)}"
        raise NetworkError(f"reschedule({part!r}): there is no part {part!r}{hint}")
    if not isinstance(schedule, Schedule):
        raise NetworkError(
            explain(
                f"reschedule({part!r}) with an object of type {type(schedule).__name__}",
                "it is no schedule", "Give a changed net.kernels[...].schedule.",
            )
        )  # fmt: skip
    if list(schedule.outputs) != list(made.schedule.outputs):
        given = ", ".join(t.name for t in schedule.outputs)
        raise NetworkError(
            explain(
                f"reschedule({part!r}) with a schedule of {given}",
                "it is of another computation than the kernel",
                "Change the schedule of this kernel, net.kernels[...].schedule, or make "
                f'one of net.partition["{made.name}"].group.outputs.',
            )
        )
    same = [partition[name] for name in made.parts]
    (new,) = part_kernels(same, target, database, {made.name: schedule.to_json()})
    return tuple(new if kernel is made else kernel for kernel in kernels)


__all__ = ["rescheduled"]
