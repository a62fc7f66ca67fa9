"""A schedule of the user's for a part of a network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedlang.errors import NetworkError, explain, names_text, nearest
from schedlang.networks.compiled import Compiled, by_plan, with_kernels
from schedlang.networks.kernels import part_kernels
from schedlang.networks.plan import with_schedule
from schedlang.schedule.schedule import Schedule


def with_given_schedule(network: Compiled, part: str, schedule: Any) -> Compiled:
    """Return a network with the kernel of a part under another schedule.

    Raises :class:`~schedlang.errors.NetworkError` for an unknown part, for an object that is not a
    schedule, and for a schedule of another computation. Raises what ``sl.build`` raises for one
    that cannot run on the target.
    """
    network = with_kernels(network)
    kernels = network.kernels or ()
    named = next((kernel for kernel in kernels if part in kernel.parts), None)
    if named is None:
        names = [name for kernel in kernels for name in kernel.parts]
        hint = nearest(str(part), names) or f"; the parts are {names_text(names)}"
        raise NetworkError(f"reschedule({part!r}): there is no part {part!r}{hint}")
    if not isinstance(schedule, Schedule):
        raise NetworkError(
            explain(
                f"reschedule({part!r}) with an object of type {type(schedule).__name__}",
                "it is not a schedule",
                "Give a changed net.kernels[...].schedule.",
            )
        )
    if list(schedule.outputs) != list(named.schedule.outputs):
        given = ", ".join(t.name for t in schedule.outputs)
        raise NetworkError(
            explain(
                f"reschedule({part!r}) with a schedule of {given}",
                "it is of another computation than the kernel",
                "Change the schedule of this kernel, net.kernels[...].schedule, or make "
                f'one of net.partition["{named.name}"].group.outputs.',
            )
        )
    name, steps = named.name, schedule.to_json()
    same = [network.partition[other] for other in named.parts]
    plan = with_schedule(network.plan, name, steps, same[0].key)
    (new,) = part_kernels(
        same, network.target, plan.database, plan.steps, plan.origins, plan.compiler
    )
    others = tuple(new if kernel is named else kernel for kernel in kernels)
    return replace(by_plan(network, plan), kernels=others)
