"""The forms of the 3 by 3 convolutions of a network, chosen by the times of their kernels.

A rule knows no times. Where a database has those of the kernels of several forms (a direct
convolution, Winograd's filtering with tiles of 2 or 4), the fastest form is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from schedlang.autoschedule.known import fastest, sources
from schedlang.autotune.model.problems import problem_of
from schedlang.networks.dividing import Divided
from schedlang.networks.kernels import Source
from schedlang.networks.partition import Part, Partition
from schedlang.networks.winograd import STAGES, Convolution, by_rule, forms
from schedlang.target import Target

Form = Callable[[Convolution], int]
Divide = Callable[[Form], Divided]
# the machine and the seconds of kernels
Time = tuple[str, float]
# another form is taken where the kernels of the rule's take so many times as long: times are noisy
LEAST_GAIN = 1.03


@dataclass(frozen=True, eq=False)
class Forms:
    """A network that is divided with each form of its convolutions.

    ``rule`` has the form of each convolution by the rule, by the name of its stage, and ``open``
    the forms of those that may have another one. ``divided`` has the network by the rule, under
    ``None``, and with each form wherever it is open.
    """

    rule: Mapping[str, int]
    open: Mapping[str, tuple[int, ...]]
    divided: Mapping[int | None, Divided]

    def of(self, form: int, name: str) -> Partition:
        """Return a partition in which a convolution has a form."""
        return self.divided[None if self.rule[name] == form else form][1]


def all_forms(divide: Divide) -> Forms:
    """Return a network in all forms; ``divide`` divides it with the form of each convolution."""
    return _with_others(_by_the_rule(divide), divide)


def _by_the_rule(divide: Divide) -> Forms:
    """Return a network in the form of the rule alone."""
    rule: dict[str, int] = {}
    several: dict[str, tuple[int, ...]] = {}

    def asked(found: Convolution) -> int:
        form = rule[found.name] = by_rule(found)
        several[found.name] = tuple(dict.fromkeys((form, *forms(found))))
        return form

    divided: dict[int | None, Divided] = {None: divide(asked)}
    return Forms(rule, {name: sizes for name, sizes in several.items() if sizes[1:]}, divided)


def _with_others(found: Forms, divide: Divide) -> Forms:
    """Return a network also in the forms that are open."""

    def of(form: int) -> Divided:
        return divide(
            lambda c: form if form in found.open.get(c.name, ()) else found.rule[c.name]
        )

    others = sorted({form for several in found.open.values() for form in several[1:]})
    return replace(found, divided={**found.divided, **{form: of(form) for form in others}})


def form_name(form: int) -> str:
    """Return the name of a form: ``direct``, or that of Winograd's filtering."""
    return f"F({form}x{form}, 3x3)" if form else "direct"


def chosen(divide: Divide, target: Target, database: Source) -> Divided:
    """Return a network with the fastest form of each convolution that a database has times of.

    Each convolution whose times are not all there has the form of the rule.
    """
    found, times = _by_the_rule(divide), _Times(target, database)
    by_the_rule = found.divided[None]
    known = [name for name in found.open if times.of(name, by_the_rule[1]) is not None]
    if not known:
        return by_the_rule
    found = _with_others(found, divide)
    best = {**found.rule, **{name: _fastest(name, found, times) for name in known}}
    return by_the_rule if best == found.rule else divide(lambda c: best[c.name])


def _fastest(name: str, found: Forms, times: _Times) -> int:
    """Return the fastest form of a convolution, that of the rule if it is nearly as fast."""
    rule = found.rule[name]
    taken = {form: times.of(name, found.of(form, name)) for form in found.open[name]}
    whole = taken[rule]
    if whole is None:
        return rule
    machine, least = whole
    rivals = {
        form: time[1] for form, time in taken.items()
        if time is not None and time[0] == machine and time[1] * LEAST_GAIN < least
    }  # fmt: skip
    return min(rivals, key=lambda form: rivals[form], default=rule)


def parts_of(name: str, partition: Partition) -> list[Part]:
    """Return the parts that compute stages of a convolution.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> from schedlang.networks.partition import partition
    >>> A, W = sl.placeholder((1, 8, 9, 9), name="A"), sl.placeholder((8, 8, 3, 3), name="W")
    >>> found = partition(topi.nn.relu(topi.nn.conv2d_nchw(A, W, 1, 1, 1)))
    >>> [part.name for part in parts_of("conv2d_nchw", found)]
    ['conv2d_nchw']
    """
    own = {name, *(f"{name}_{word}" for word in STAGES)}
    return [part for part in partition.parts if own & {*part.stages}]


@dataclass(frozen=True, eq=False)
class _Times:
    """The times of kernels in a database, each of which is looked up once."""

    target: Target
    database: Source
    _known: dict[str, Time | None] = field(default_factory=dict)

    def of(self, name: str, partition: Partition) -> Time | None:
        """Return the machine and the seconds of all kernels of a convolution, if one has them."""
        found = [self._part(part) for part in parts_of(name, partition)]
        times = [time for time in found if time is not None]
        machines = {machine for machine, _ in times}
        if len(times) < len(found) or len(machines) != 1:
            return None
        return machines.pop(), sum(seconds for _, seconds in times)

    def _part(self, part: Part) -> Time | None:
        if part.key not in self._known:
            outputs = part.group.outputs
            entry = fastest(problem_of(outputs, self.target, {}), sources(outputs, self.database))
            if entry is None or entry.seconds is None:
                self._known[part.key] = None
            else:
                self._known[part.key] = entry.where.machine, entry.seconds
        return self._known[part.key]


__all__ = ["Forms", "all_forms", "chosen", "form_name", "parts_of"]
