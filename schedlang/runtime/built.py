"""The data that a kernel is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from schedlang.codegen.listing import Launch
from schedlang.expr.dtypes import register_dtype, storage_dtype
from schedlang.runtime.parameters import Signature
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest


@dataclass(frozen=True)
class Printed:
    """The file of a kernel.

    ``serial_text`` is the source without parallel loops, for a forked process. It is empty if there
    are none. ``numbers`` are the numbers in :attr:`Kernel.origins`. ``launches`` are the functions
    with parallel loops as numba compiles them.
    """

    text: str
    serial_text: str = ""
    numbers: tuple[Optional[int], ...] = ()
    launches: tuple[Launch, ...] = ()


@dataclass(frozen=True)
class Built:
    """The data that a kernel is made from.

    ``making`` makes its machine nest, and ``printing`` prints its file, when they are needed.
    ``compiler`` is one of the target's, empty for the default one. ``in_c`` makes the nest for a C
    program, if the target runs on a CPU.
    """

    signature: Signature
    target: Target
    public: str
    making: Callable[[], MachineNest]
    printing: Callable[[MachineNest], Printed]
    checked_by_size: bool = False
    unproven: tuple[str, ...] = ()
    fastmath: bool = False
    compiler: str = ""
    in_c: Optional[Callable[[], MachineNest]] = None

    @cached_property
    def machine(self) -> MachineNest:
        return self.making()

    @cached_property
    def printed(self) -> Printed:
        return self.printing(self.machine)

    @property
    def entry(self) -> str:
        return self.machine.entry.name

    @property
    def text(self) -> str:
        return self.printed.text

    @property
    def serial_text(self) -> str:
        return self.printed.serial_text

    @property
    def launches(self) -> tuple[Launch, ...]:
        return self.printed.launches

    def __getstate__(self) -> dict[str, Any]:
        # what makes these has the whole schedule
        kept = {"machine": self.machine, "printed": self.printed}
        return {**vars(self), "making": None, "printing": None, **kept}


def numba_types(signature: Signature) -> list[Any]:
    """Return numba's types of the parameters of the function that runs."""
    from numba import from_dtype, types

    kinds: list[Any] = []
    for p in signature.parameters:
        scalar = from_dtype(
            np.dtype(register_dtype(p.dtype) if p.is_scalar else storage_dtype(p.dtype))
        )
        kinds.append(scalar if p.is_scalar else types.Array(scalar, 1, "C"))
    return kinds + [types.int64] * len(signature.sizes)
