"""The memory of a network whose tensors depend on the sizes of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from schedlang.errors import CallError
from schedlang.expr.dtypes import LARGEST_BYTES, is_complex, itemsize, part_of
from schedlang.machine.alignment import BYTES
from schedlang.networks.memory import Lifetime, MemoryPlan, plan_memory
from schedlang.runtime.parameters import Binder, Parameter, Signature


@dataclass(frozen=True)
class SizedMemory:
    """The contents of the arena at the sizes of each call.

    ``tensors`` have shapes of numbers and sizes, by ``signature``. Each is in use from the first to
    the last call in ``lives``. ``scratch`` is storage of kernels of known size, and ``in_place``
    are pairs as :func:`~schedlang.networks.memory.plan_memory` takes them.
    """

    signature: Signature
    tensors: tuple[Parameter, ...]
    lives: tuple[tuple[int, int], ...]
    scratch: tuple[Lifetime, ...]
    in_place: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tensors, and of the scratch behind them."""
        return (*(p.name for p in self.tensors), *(s.name for s in self.scratch))

    def plan(self, sizes: Mapping[str, int]) -> MemoryPlan:
        """Return the plan at ``sizes``.

        Raises :class:`~schedlang.errors.CallError` where a tensor has a negative extent, or more
        bytes than an address can reach.
        """
        binder = Binder(self.signature, "network")
        lifetimes: list[Lifetime] = []
        for p, (first, last) in zip(self.tensors, self.lives):
            size = prod(binder.shape(p, sizes)) * itemsize(p.dtype)
            lifetimes.append(Lifetime(p.name, size, first, last))
        plan = plan_memory([*lifetimes, *self.scratch], self.in_place)
        if plan.peak >= LARGEST_BYTES:
            given = ", ".join(f"{n}={v}" for n, v in sizes.items())
            raise CallError(
                f"network {self.signature.name} where {given}: its memory would take {plan.peak} "
                "bytes, more than an address can reach"
            )
        return plan

    def places(self, plan: MemoryPlan) -> np.ndarray:
        """Return for each of :attr:`names` its first byte and its number of elements, as int64.

        A complex number counts as two elements.
        """
        placed = {p.name: (p.offset, p.bytes) for p in plan.placed}
        dtypes = {p.name: p.dtype for p in self.tensors}
        numbers: list[int] = []
        for name in self.names:
            offset, size = placed[name]
            dtype = dtypes.get(name, BYTES)
            numbers += [offset, size // itemsize(part_of(dtype) if is_complex(dtype) else dtype)]
        return np.array(numbers, "int64")
