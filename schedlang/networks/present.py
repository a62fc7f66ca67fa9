"""The schedules that the kernels of a network have when a search begins, and those that stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedlang.autotune.at_once.known import find_known, sources
from schedlang.autotune.at_once.scheduler import choose
from schedlang.autotune.model.problems import problem_of
from schedlang.compute.graph import variables
from schedlang.networks.compiled import Compiled, by_plan, with_parts
from schedlang.networks.kernels import Source
from schedlang.networks.partition import Part, equal_parts
from schedlang.networks.plan import KernelSchedule, Plan
from schedlang.networks.surroundings import surroundings
from schedlang.schedule.schedule import Schedule

if TYPE_CHECKING:
    from schedlang.networks.tuning import Tuned


@dataclass(frozen=True, eq=False)
class Present:
    """A network when a search begins, which has parts.

    The search writes to ``database``. With ``every``, it may not try the schedule of the cost
    model. It chooses the forms of convolutions if they are ``open``.
    """

    network: Compiled
    database: Source
    every: bool = False
    open: bool = False

    @property
    def _parts(self) -> Sequence[Part]:
        return self.network.partition.parts

    def schedule(self, key: str) -> Schedule | None:
        """Return the schedule of the kernel of the parts with this key.

        ``None`` if no part has it, or if the cost model chose it: a search begins with that one.
        """
        first = next((part for part in self._parts if part.key == key), None)
        kept = None if first is None else self._kept(first, self.every)
        if first is None or kept is None:
            return None
        return Schedule.from_json(kept.steps, list(first.group.outputs))

    def renewed(self, now: Compiled, searches: Sequence[Tuned]) -> Compiled:
        """Return the network as it is ``now`` by what these searches left in their database.

        It has parts. A call that was made meanwhile has settled the forms of convolutions.
        """
        database = now.plan.database if self.database is None else self.database
        renewed = by_plan(now, replace(now.plan, database=database, saved=None, given={}))
        if self.open and renewed.plan.forms is None:
            renewed = replace(renewed, divided=None)
        renewed = with_parts(renewed)
        given = self._staying(now.plan, searches, renewed.partition.parts)
        return replace(renewed, plan=replace(renewed.plan, given=given))

    def _staying(
        self, now: Plan, searches: Sequence[Tuned], parts: Sequence[Part]
    ) -> dict[str, KernelSchedule]:
        """Return the schedules that no search replaced, of kernels that a network of ``parts`` has.

        Those that the database of the searches has are left out, unless the user set them since.
        """
        before = self.network.plan.schedules
        # a form of a convolution may have a kernel of the same name
        keys = {same[0].name: same[0].key for same in equal_parts(parts)}
        replaced = {t.work.key for t in searches if t.seconds is not None and not t.kept}
        moved = self.database != self.network.plan.database
        staying: dict[str, KernelSchedule] = {}
        for first, *_ in equal_parts(self._parts):
            name = first.name
            if keys.get(name) != first.key or first.key in replaced:
                continue
            kept = self._kept(first) if name in before or moved else None
            if kept is not None:
                staying[name] = kept
        for name, schedule in now.given.items():
            if schedule not in before.values() and schedule.part == keys.get(name):
                staying[name] = schedule
        return staying

    def _kept(self, first: Part, every: bool = False) -> KernelSchedule | None:
        """Return the schedule of a part's kernel; ``None`` if the cost model chose it."""
        network, plan = self.network, self.network.plan
        if first.name in plan.schedules:
            return plan.schedules[first.name]
        outputs = list(first.group.outputs)
        # a search plans for the sizes that it is given, and not for those that are assumed
        sizes = any(v.is_size for v in variables(outputs))
        problem = problem_of(outputs, network.target, {}, plan.compiler)
        if not (every or sizes) and find_known(problem, sources(outputs, plan.database)) is None:
            return None
        kernel = next((k for k in network.kernels or () if k.name == first.name), None)
        if kernel is not None:
            return KernelSchedule(kernel.schedule.to_json(), (kernel.origin, kernel.note))
        among = surroundings(self._parts, network.target)
        cold, team = among.cold(first), among.team
        source, compiler = plan.database, plan.compiler
        choice = choose(outputs, network.target, None, source, cold, team, compiler)
        return KernelSchedule(choice.schedule.to_json(), (choice.origin, choice.note))
