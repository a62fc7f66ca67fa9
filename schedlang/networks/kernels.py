"""The kernels of a network: one for all parts that are equal but for names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from schedlang.autotune.at_once.scheduler import MODEL, PLAIN, Choice, choose
from schedlang.autotune.database import Database
from schedlang.markup.progress import tell
from schedlang.markup.text import printable
from schedlang.networks.origins import GIVEN, Origin
from schedlang.networks.partition import Part, equal_parts
from schedlang.networks.surroundings import Surroundings, surroundings
from schedlang.runtime.collection import no_collection
from schedlang.runtime.kernel import Kernel
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target
from schedlang.targets.build import unwritten_kernel

_PHRASES = {MODEL: "by the cost model", PLAIN: "plain, each stage in loops of its own"}
Source = Union[Database, str, "os.PathLike[str]", None]


@dataclass(frozen=True, eq=False)
class PartKernel:
    """The kernel of some parts of a network, which are equal but for names.

    ``parts`` are their names, the first being the one whose names the kernel has. ``origin`` says
    where its schedule comes from, in the words of :class:`schedlang.autoschedule.Choice`, or is
    ``"given"`` for one that was set; a saved network keeps its origins. ``note`` adds what else is
    known about it, and ``place`` is its line of a database. ``print`` shows the loop nest under the
    name of the kernel.
    """

    parts: tuple[str, ...]
    origin: str
    note: str
    kernel: Kernel = field(repr=False)
    _schedule: Schedule = field(repr=False)
    place: str = ""

    @property
    def name(self) -> str:
        return self.parts[0]

    @property
    def provenance(self) -> str:
        """A phrase that says where the schedule comes from, for the source of a network.

        >>> import schedlang as sl
        >>> X = sl.placeholder((sl.var("n"),), name="X")
        >>> net = sl.network(sl.named("double", X * 2), target="python")
        >>> net.kernels[0].provenance
        'by the cost model (planned for n = 256)'
        """
        if self.origin == GIVEN:
            return "given to net.reschedule"
        phrase = _PHRASES.get(self.origin, "")
        if not phrase:
            # the note of a database, or of an old manifest, is a phrase of its own
            return self.note
        return f"{phrase} ({self.note})" if self.note else phrase

    def __str__(self) -> str:
        others = f"; also runs {', '.join(self.parts[1:])}" if self.parts[1:] else ""
        # the note of a folder may have any characters
        head = " ".join(f"# kernel {self.name}, schedule {self.provenance}{others}".split())
        return f"{printable(head)}\n{self.kernel.loop_nest}"

    @property
    def schedule(self) -> Schedule:
        """A copy of the schedule, to change and pass to ``net.reschedule``."""
        return self._schedule.copy()


def part_kernels(
    parts: Sequence[Part],
    target: Target,
    database: Source = None,
    steps: Mapping[str, str] | None = None,
    origins: Mapping[str, Origin] | None = None,
    compiler: str = "",
) -> tuple[PartKernel, ...]:
    """Return a kernel for each group of equal parts, in the order of their first parts.

    ``steps`` has the schedules of parts as JSON, by the name of the first of each group, and
    ``origins`` where those that were saved came from. Other schedules come from ``database``, or
    else from the cost model; nothing is measured or compiled. ``compiler`` is one of the target's,
    empty for the default one. Raises
    :class:`~schedlang.errors.ScheduleError` for steps that do not fit their part.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> from schedlang.networks.partition import partition
    >>> X, W = sl.placeholder((4, 8), name="X"), sl.placeholder((8, 8), name="W")
    >>> h = topi.nn.relu(topi.nn.dense(X, W))
    >>> found = partition(topi.nn.softmax(h))
    >>> [kernel.name for kernel in part_kernels(found.parts, sl.Target("python"))]
    ['dense', 'softmax']
    """
    given, saved = steps or {}, origins or {}
    among, groups = surroundings(parts, target), equal_parts(parts)
    kernels = []
    # nests and schedules refer to each other, and a search would meet all of a network each time
    with no_collection():
        for done, same in enumerate(groups):
            tell("scheduling {} kernels, then compiling", done, len(groups))
            name = same[0].name
            own, origin = given.get(name), saved.get(name, (GIVEN, ""))
            kernels.append(_kernel(same, target, database, own, origin, among, compiler))
    return tuple(kernels)


def _kernel(
    same: Sequence[Part],
    target: Target,
    database: Source,
    steps: str | None,
    origin: Origin,
    among: Surroundings,
    compiler: str,
) -> PartKernel:
    first = same[0]
    group = first.group
    if steps is not None:
        choice = Choice(Schedule.from_json(steps, list(group.outputs)), *origin)
    else:
        cold, team = among.cold(first), among.team
        choice = choose(list(group.outputs), target, None, database, cold, team, compiler)
    args = [*group.inputs, *first.sizes, *group.outputs]
    kernel = unwritten_kernel(choice.schedule, args, target, first.name, compiler=compiler)
    if steps is not None:
        # a schedule that is given and cannot run is refused here, not in a call
        _ = kernel.machine_nest
    names = tuple(part.name for part in same)
    schedule = choice.schedule.copy()
    return PartKernel(names, choice.origin, choice.note, kernel, schedule, choice.place)


def kernel_of(kernels: Sequence[PartKernel]) -> Mapping[str, PartKernel]:
    """Return the kernel of each part, by the name of the part."""
    return {name: kernel for kernel in kernels for name in kernel.parts}
