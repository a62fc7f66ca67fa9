"""The checks of the kernels of a network against the sizes of a call, as data and as calls.

A process whose kernels are proven imports no loop nests and no schedules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlang.errors import BuildError, SchedlangError, first_line
from schedlang.runtime.size_checks import SizedStorage, refuse

if TYPE_CHECKING:
    from schedlang.codegen.refused_sizes import Refusals
    from schedlang.ir.nest import Nest
    from schedlang.ir.size_conditions import SizeCondition
    from schedlang.runtime.kernel import Kernel


@dataclass(frozen=True)
class SizeCheck:
    """The checks of a kernel against its ``sizes`` in a call.

    ``part`` is the first part that the kernel computes, and ``layers`` are its layers.
    ``storage`` is what the kernel allocates. If its accesses are proven for all sizes,
    ``graph`` and ``steps`` are empty. Otherwise they are its computation and its schedule as JSON,
    and a check makes its loop nest again from them.
    """

    part: str
    layers: tuple[str, ...]
    sizes: tuple[str, ...]
    storage: SizedStorage
    graph: str = ""
    steps: str = ""

    @property
    def of_accesses(self) -> bool:
        """True if accesses are checked against the sizes of each call."""
        return bool(self.steps)

    @property
    def title(self) -> str:
        """The part and its layers, for messages."""
        if not self.layers:
            return f"part {self.part}"
        return f"part {self.part} of layer{'s' * (len(self.layers) > 1)} {', '.join(self.layers)}"


def size_check(part: str, kernel: Kernel, layers: Sequence[str] = ()) -> SizeCheck | None:
    """Return what a call checks of the kernel of a part; ``None`` if that is nothing.

    >>> import schedlang as sl
    >>> A = sl.placeholder((sl.var("n"),), name="A")
    >>> last = sl.compute((1,), lambda i: A[A.shape[0] - 1], name="last")
    >>> found = size_check("last", sl.build(sl.schedule(last), target="python"))
    >>> found.sizes, found.of_accesses
    (('n',), True)
    """
    from schedlang.compute.data import dumps
    from schedlang.runtime.access_checks import sized_storage

    sizes, storage = kernel.signature.given_sizes, sized_storage(kernel.loop_nest)
    if kernel.checked_by_size:
        graph, steps = dumps(kernel.schedule.outputs), kernel.schedule.to_json()
        return SizeCheck(part, tuple(layers), sizes, storage, graph, steps)
    return SizeCheck(part, tuple(layers), sizes, storage) if storage.arrays else None


# combinations of sizes whose checks are remembered
MOST_SIZES = 4096


def conditions(check: SizeCheck) -> tuple[SizeCondition, ...] | None:
    """Return the sizes that a check refuses, ``None`` if a file cannot hold them as conditions.

    The computation of the part counts. The loops of its schedule are taken as lowering makes them:
    a proof may fail for these alone, as for tails of fused loops on a GPU.
    """
    stored = check.storage.conditions
    if not check.of_accesses:
        return stored
    from schedlang.compute.data import loads
    from schedlang.runtime.access_checks import conditions_of

    of_accesses = conditions_of(loads(check.graph))
    return None if of_accesses is None else (*stored, *of_accesses)


def refusals(network: str, checks: Sequence[SizeCheck]) -> tuple[Refusals, ...]:
    """Return the sizes that the file of a network refuses, of each check that a file can hold."""
    from schedlang.codegen.refused_sizes import Refusals

    pairs = ((check, conditions(check)) for check in checks)
    return tuple(
        Refusals(f"network {network}: {check.title}", check.sizes, of) for check, of in pairs if of
    )


class SizeChecks:
    """The checks of all kernels of a network, each made once for the same sizes."""

    def __init__(self, network: str, checks: Sequence[SizeCheck]) -> None:
        self._network, self._checks = network, checks
        self._nests: dict[int, tuple[Nest, tuple[SizeCondition, ...]]] = {}
        # a call finds sizes in the order of its arguments, which may be given in several ways
        self._names = tuple(sorted({name for check in checks for name in check.sizes}))
        # sizes of calls, and sizes of kernels with the position of the check
        self._passed: set[tuple[int, ...]] = set()
        self._kept: set[tuple[int, tuple[int, ...]]] = set()

    def __call__(self, sizes: Mapping[str, int]) -> None:
        """Raise :class:`~schedlang.errors.CallError` if a kernel cannot run at ``sizes``."""
        if not self._checks:
            return
        key = tuple([sizes[name] for name in self._names])
        if key in self._passed:
            return
        if len(self._passed) >= MOST_SIZES:
            self._passed.clear()
            self._kept.clear()
        for position, check in enumerate(self._checks):
            own = {name: sizes[name] for name in check.sizes}
            kept = position, tuple(own.values())
            if kept not in self._kept:
                self._check(position, own)
                self._kept.add(kept)
        self._passed.add(key)

    def _check(self, position: int, sizes: Mapping[str, int]) -> None:
        check = self._checks[position]
        what = f"network {self._network}: {check.title}"
        refuse(what, check.storage.conditions, sizes)
        if check.of_accesses:
            from schedlang.runtime.access_checks import check_accesses

            if position not in self._nests:
                self._nests[position] = _nest(what, check)
            check_accesses(what, *self._nests[position], sizes)


def _nest(what: str, check: SizeCheck) -> tuple[Nest, tuple[SizeCondition, ...]]:
    """Return the loop nest of a kernel, and the conditions that its computation refuses."""
    from schedlang.compute.data import loads
    from schedlang.lowering.lower import lower_state
    from schedlang.runtime.access_checks import conditions_of
    from schedlang.schedule.schedule import Schedule

    try:
        outputs = loads(check.graph)
        nest = lower_state(Schedule.from_json(check.steps, list(outputs)).state)
        return nest, conditions_of(outputs) or ()
    except SchedlangError as error:
        raise BuildError(
            f"{what}: its data are damaged ({first_line(error)}): build the network again"
        ) from None
