"""The plan of a network: the choices that its kernels are made by, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schedlang.networks.model import Options
from schedlang.networks.origins import GIVEN, Origin

if TYPE_CHECKING:
    from schedlang.networks.kernels import Source as Trials


@dataclass(frozen=True, eq=False)
class KernelSchedule:
    """The schedule of a kernel: its steps as JSON, and where it comes from.

    ``part`` is the key of the parts that the user gave it for, empty for another origin.
    """

    steps: str
    origin: Origin = (GIVEN, "")
    part: str = ""


@dataclass(frozen=True, eq=False)
class Plan:
    """The choices that a network's kernels are made by.

    The ``options`` are the user's: which rewritings of the graph to apply, and where its parts are
    cut and fused. ``forms`` has the form of each convolution of 3 by 3, by the name of its stage;
    ``None`` while the times in ``database`` choose. ``saved`` are the schedules of a network that
    was saved or pickled, by the names of kernels, and ``given`` those that the user set or that a
    search left, which come first. Other kernels have schedules of ``database``, or of the cost
    model. Records of ``compiler``, one of the target's, come first; it is empty if there are none.
    """

    options: Options = field(default_factory=Options)
    database: Trials = None
    forms: Mapping[str, int] | None = None
    saved: Mapping[str, KernelSchedule] | None = None
    given: Mapping[str, KernelSchedule] = field(default_factory=dict)
    compiler: str = ""

    @cached_property
    def schedules(self) -> Mapping[str, KernelSchedule]:
        """The schedules that do not come from the database or from the cost model."""
        return {**(self.saved or {}), **self.given}

    @property
    def steps(self) -> dict[str, str]:
        """The steps of these schedules, by the names of kernels."""
        return {name: schedule.steps for name, schedule in self.schedules.items()}

    @property
    def origins(self) -> dict[str, Origin]:
        """The origins of these schedules, by the names of kernels."""
        return {name: schedule.origin for name, schedule in self.schedules.items()}

    @property
    def facts(self) -> list[Any]:
        """The plan as JSON values, without the database, whose file a key has a stamp of."""
        chosen = [astuple(self.options), dict(self.forms or {}), self.steps, self.origins]
        return [*chosen, self.compiler]


def saved_schedules(
    steps: Mapping[str, str], origins: Mapping[str, Origin] | None = None
) -> dict[str, KernelSchedule]:
    """Return the schedules of kernels that were saved with these steps and origins.

    >>> {name: schedule.origin for name, schedule in saved_schedules({"fc": "[]"}).items()}
    {'fc': ('given', '')}
    """
    known = origins or {}
    return {name: KernelSchedule(s, known.get(name, (GIVEN, ""))) for name, s in steps.items()}


def with_schedule(plan: Plan, kernel: str, steps: str, part: str) -> Plan:
    """Return a plan in which the user gave a schedule for a kernel of the parts with a key."""
    return replace(plan, given={**plan.given, kernel: KernelSchedule(steps, part=part)})
