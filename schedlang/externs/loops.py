"""Functions of users as loops written by hand: a part of the kernel that calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from schedlang.codegen.numba_file import HELPERS
from schedlang.compute.extern_op import LOOPS, ExternFunction
from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.nest import Nest
from schedlang.machine.lower import machine_nest
from schedlang.machine.nest import MachineNest
from schedlang.runtime.llvm_runner import ByLlvm
from schedlang.runtime.runners import Purpose
from schedlang.target import Target

_PURPOSE = Purpose("written", "as written by hand")


def of_loops(
    nest: Nest, places: Sequence[int], name: str, dtypes: tuple[tuple[str, ...], tuple[str, ...]]
) -> ExternFunction:
    """Return the function ``name`` that runs a nest over flat arrays.

    Its arguments are the arrays at ``places``. Raises what
    :func:`~schedlang.machine.lower.machine_nest` raises.
    """
    machine, given = machine_nest(nest, Target.of("cpu"), name, [*NAMES, *HELPERS]), tuple(places)
    run = _Compiled(machine, name, given)
    return ExternFunction(name, LOOPS, nest, run, dtypes, f"{given}\n{machine}", places=given)


class _Compiled:
    """A nest as a function of arrays of NumPy, compiled when it is first called."""

    def __init__(self, nest: MachineNest, name: str, places: tuple[int, ...]) -> None:
        self.nest, self.name, self.places = nest, name, places

    def __call__(self, *arrays: np.ndarray) -> None:
        self._function(*(arrays[k].reshape(-1) for k in self.places))

    @cached_property
    def _function(self) -> Callable[..., None]:
        function, _ = ByLlvm().function_of_nest(self.nest, self.name, False, purpose=_PURPOSE)
        return function


__all__ = ["of_loops"]
