"""The forms of the 3 by 3 convolutions of a network, chosen by the times of their kernels.

A rule knows no times. Where a database has the times of the kernels of several forms (a direct
convolution, Winograd's filtering with tiles of 2 or 4), the fastest form is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from schedlang.autotune.at_once.known import fastest, sources
from schedlang.autotune.model.problems import problem_of
from schedlang.compute.tensor import Tensor
from schedlang.networks.dividing import Divided
from schedlang.networks.kernels import Source
from schedlang.networks.looked_up import FileState, LookedUp, looked_up
from schedlang.networks.partition import Part
from schedlang.networks.winograd import Convolution, forms, rule_of
from schedlang.target import Target

Form = Callable[[Convolution], int]
Divide = Callable[[Form], Divided]
# the machine and the compiler of kernels, and their seconds
Time = tuple[tuple[str, str], float]
# another form is taken where the kernels of the rule's take so many times as long: times are noisy
LEAST_GAIN = 1.03


@dataclass(frozen=True, eq=False)
class Forms:
    """A network that is divided with each form of its convolutions.

    ``convolutions`` has the convolutions by their names. ``open`` has the forms of each convolution
    with a choice, the rule's form first. ``divided`` has the network by the rule, under ``None``,
    and with each form wherever it is open.
    """

    convolutions: Mapping[str, Convolution]
    open: Mapping[str, tuple[int, ...]]
    divided: Mapping[int | None, Divided]

    @property
    def rule(self) -> Mapping[str, int]:
        """The form by the rule of each convolution that may have another one, by its name."""
        return self.divided[None].forms

    def parts(self, name: str, form: int) -> list[Part]:
        """Return the parts that compute stages of a convolution in a form."""
        divided = self.divided[None if self.rule[name] == form else form]
        return [p for p in divided.partition.parts if _computes(p, self.convolutions[name])]

    def sharing(self, part: Part) -> int:
        """Return the number of convolutions that have stages in a part."""
        return sum(_computes(part, convolution) for convolution in self.convolutions.values())

    def named(self, part: Part, divided: Divided) -> str:
        """Return the name of a part with the form in which it computes a convolution, if any."""
        form = next(
            (m for name, m in divided.forms.items() if _computes(part, self.convolutions[name])),
            None,
        )
        return part.name if form is None else f"{part.name} as {form_name(form)}"


def _computes(part: Part, convolution: Convolution) -> bool:
    return not {*part.stages}.isdisjoint((convolution.name, *convolution.stages))


def all_forms(divide: Divide, target: Target) -> Forms:
    """Return a network in all forms; ``divide`` divides it with the form of each convolution.

    A convolution with a choice has the form of the target's rule first.

    >>> from functools import partial
    >>> import numpy as np, schedlang as sl
    >>> from schedlang import topi
    >>> from schedlang.networks.dividing import divide_model
    >>> from schedlang.networks.model import Model, Options
    >>> X, W = sl.placeholder((1, 16, 7, 7), name="X"), sl.placeholder((16, 16, 3, 3), name="W")
    >>> conv = sl.named("conv", topi.nn.conv2d_nchw(X, W, 1, 1, 1))
    >>> model = Model((conv,), (X,), {W: np.ones(W.shape, "float32")})
    >>> cpu = sl.Target("cpu")
    >>> found = all_forms(partial(divide_model, model, Options(), cpu), cpu)
    >>> found.open, [part.name for part in found.parts("conv", 2)]
    ({'conv': (0, 2)}, ['conv_data', 'conv_products', 'conv'])
    """
    rule = rule_of(target)
    return _with_others(_by_the_rule(divide, rule), divide, rule)


def _by_the_rule(divide: Divide, rule_form: Form) -> Forms:
    """Return a network in the form of the rule alone."""
    seen: dict[str, Convolution] = {}
    several: dict[str, tuple[int, ...]] = {}

    def asked(convolution: Convolution) -> int:
        rule = rule_form(convolution)
        seen[convolution.name] = convolution
        sizes = tuple(dict.fromkeys((rule, *forms(convolution))))
        if sizes[1:]:
            several[convolution.name] = sizes
        return rule

    divided: dict[int | None, Divided] = {None: divide(asked)}
    return Forms(seen, several, divided)


def _with_others(forms: Forms, divide: Divide, rule: Form) -> Forms:
    """Return a network also in the forms that are open."""

    def of(form: int) -> Divided:
        return divide(lambda c: form if form in forms.open.get(c.name, ()) else rule(c))

    others = sorted({form for several in forms.open.values() for form in several[1:]})
    return replace(forms, divided={**forms.divided, **{form: of(form) for form in others}})


def form_name(form: int) -> str:
    """Return the name of a form: ``direct``, or the name of Winograd's filtering.

    >>> form_name(0), form_name(4)
    ('direct', 'F(4x4, 3x3)')
    """
    return f"F({form}x{form}, 3x3)" if form else "direct"


def choose_forms(
    divide: Divide,
    target: Target,
    database: Source,
    compiler: str = "",
    files: Sequence[FileState] = (),
) -> Divided:
    """Return a network with the fastest form of each convolution that a database has times of.

    Times of one machine and one compiler are compared, of ``compiler`` if there are some.

    Each convolution whose times are not all there has the form of the rule. The result says whose
    times were looked up; ``files`` are the states of the database's files before. Raises
    :class:`~schedlang.errors.TuningError` for a database that cannot be read.
    """
    rule = rule_of(target)
    forms, times = _by_the_rule(divide, rule), _Times(target, database, compiler)
    known = [name for name, m in forms.rule.items() if times.of(forms, name, m) is not None]
    by_the_rule = forms.divided[None]
    if not known:
        return replace(by_the_rule, trials=times.looked_up(files))
    forms = _with_others(forms, divide, rule)
    best = {**forms.rule, **{name: _fastest(name, forms, times) for name in known}}
    chosen = by_the_rule
    if best != forms.rule:
        chosen = divide(lambda c: best.get(c.name, rule(c)))
    return replace(chosen, trials=times.looked_up(files))


def _fastest(name: str, forms: Forms, times: _Times) -> int:
    """Return the fastest form of a convolution, or the rule's form if that is nearly as fast."""
    rule = forms.rule[name]
    time_of = {form: times.of(forms, name, form) for form in forms.open[name]}
    whole = time_of[rule]
    if whole is None:
        return rule
    place, least = whole
    rivals = {
        form: time[1]
        for form, time in time_of.items()
        if time is not None and time[0] == place and time[1] * LEAST_GAIN < least
    }
    return min(rivals, key=lambda form: rivals[form], default=rule)


@dataclass(frozen=True, eq=False)
class _Times:
    """The times of kernels in a database, each of which is looked up once."""

    target: Target
    database: Source
    compiler: str
    _known: dict[str, Time | None] = field(default_factory=dict)
    _asked: list[Sequence[Tensor]] = field(default_factory=list)

    def looked_up(self, files: Sequence[FileState]) -> LookedUp:
        """Return the computations that were looked up; ``files`` are as they were before."""
        return looked_up(self._asked, files)

    def of(self, forms: Forms, name: str, form: int) -> Time | None:
        """Return the place and the seconds of a convolution in a form, if one has all of them.

        A kernel may serve several convolutions: one transforms the results of a convolution, and
        then the data of the next. Each then has an equal share of its time.
        """
        parts = forms.parts(name, form)
        times = [(self._part(part), forms.sharing(part)) for part in parts]
        known = [(time, sharing) for time, sharing in times if time is not None]
        places = {place for (place, _), _ in known}
        if len(known) < len(parts) or len(places) != 1:
            return None
        return places.pop(), sum(seconds / sharing for (_, seconds), sharing in known)

    def _part(self, part: Part) -> Time | None:
        if part.key not in self._known:
            outputs = part.group.outputs
            self._asked.append(outputs)
            problem = problem_of(outputs, self.target, {}, self.compiler)
            entry = fastest(problem, sources(outputs, self.database))
            if entry is None or entry.seconds is None:
                self._known[part.key] = None
            else:
                place = entry.where.machine, entry.where.compiler
                self._known[part.key] = place, entry.seconds
        return self._known[part.key]
