"""The schedules that the kernels of a network have when a search begins, and those that stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schedlang.autoschedule.known import known, sources
from schedlang.autoschedule.scheduler import choose
from schedlang.autotune.model.problems import problem_of
from schedlang.compute.graph import variables
from schedlang.networks.kernels import PartKernel, Source
from schedlang.networks.origins import GIVEN, Origin
from schedlang.networks.partition import Part, equal_parts
from schedlang.networks.surroundings import surroundings
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.networks.tuning import Tuned

# the steps of a schedule as JSON, and its origin
Kept = tuple[str, Origin]
# the steps and the origins of schedules, by the names of kernels
Schedules = tuple[dict[str, str], dict[str, Origin]]


@dataclass(frozen=True, eq=False)
class Present:
    """The schedules of a network of ``parts`` when a search begins.

    ``steps`` and ``origins`` are those that were set or saved, as ``part_kernels`` takes them, and
    ``kernels`` those that are made, if they are. Others come from ``database``. The search writes
    to another one if ``moved``. With ``every``, it may not try the schedule of the cost model.
    ``since`` has the key of the part and the steps of each kernel whose schedule was set after it
    began, by the name of the kernel.
    """

    parts: Sequence[Part]
    target: Target
    database: Source
    steps: Mapping[str, str]
    origins: Mapping[str, Origin]
    kernels: Sequence[PartKernel] = ()
    moved: bool = False
    every: bool = False
    since: dict[str, tuple[str, str]] = field(default_factory=dict)

    def schedule(self, key: str) -> Schedule | None:
        """Return the schedule of the kernel of the parts with this key.

        ``None`` if no part has it, or if it is that of the cost model, with which a search begins.
        """
        first = next((part for part in self.parts if part.key == key), None)
        found = None if first is None else self._kept(first, self.every)
        if first is None or found is None:
            return None
        return Schedule.from_json(found[0], list(first.group.outputs))

    def staying(self, searches: Sequence[Tuned], parts: Sequence[Part]) -> Schedules:
        """Return the schedules that no search replaced, of kernels that a network of ``parts`` has.

        Those that the database of the searches has are left out, unless they were set since.
        """
        # a form of a convolution may have a kernel of the same name
        keys = {same[0].name: same[0].key for same in equal_parts(parts)}
        replaced = {t.work.key for t in searches if t.seconds is not None and not t.kept}
        found: Schedules = {}, {}
        for first, *_ in equal_parts(self.parts):
            name = first.name
            if keys.get(name) != first.key or first.key in replaced:
                continue
            kept = self._kept(first) if name in self.steps or self.moved else None
            if kept is not None:
                found[0][name], found[1][name] = kept
        for name, (key, steps) in self.since.items():
            if keys.get(name) == key:
                found[0][name], found[1][name] = steps, (GIVEN, "")
        return found

    def _kept(self, first: Part, every: bool = False) -> Kept | None:
        """Return the schedule of the kernel of a part; ``None`` for that of the cost model."""
        if first.name in self.steps:
            return self.steps[first.name], self.origins.get(first.name, (GIVEN, ""))
        outputs = list(first.group.outputs)
        # a search plans for the sizes that it is given, and not for those that are assumed
        sizes = any(v.is_size for v in variables(outputs))
        problem = problem_of(outputs, self.target, {})
        if not (every or sizes) and known(problem, sources(outputs, self.database)) is None:
            return None
        made = next((kernel for kernel in self.kernels if kernel.name == first.name), None)
        if made is not None:
            return made.schedule.to_json(), (made.origin, made.note)
        among = surroundings(self.parts, self.target)
        choice = choose(outputs, self.target, None, self.database, among.cold(first), among.team)
        return choice.schedule.to_json(), (choice.origin, choice.note)


__all__ = ["Present"]
