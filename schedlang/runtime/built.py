"""The data that a kernel is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from schedlang.codegen.listing import Launch
from schedlang.expr.dtypes import register_dtype, storage_dtype
from schedlang.machine.nest import MachineNest
from schedlang.runtime.parameters import Signature
from schedlang.target import Target


@dataclass(frozen=True)
class Built:
    """The data that a kernel is made from.

    ``serial_text`` is the source without parallel loops, for a forked process. It is empty if there
    are none. ``numbers`` are the numbers in :attr:`Kernel.origins`. ``launches`` are the functions
    with parallel loops as numba compiles them. ``compiler`` is one of the target's, empty for the
    default one.
    """

    signature: Signature
    target: Target
    entry: str
    public: str
    text: str
    machine: MachineNest
    serial_text: str = ""
    checked_by_size: bool = False
    unproven: tuple[str, ...] = ()
    numbers: tuple[Optional[int], ...] = ()
    fastmath: bool = False
    launches: tuple[Launch, ...] = ()
    compiler: str = ""


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
