"""The short way of a call: plain NumPy arrays, one kernel, and results that are new arrays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.runtime.kernel import Kernel
from schedlang.tracing.leaves import LEAF, Form, rebuilt
from schedlang.tracing.program import KernelCall
from schedlang.tracing.specialization import Specialization


@dataclass(frozen=True)
class Direct:
    """A specialization that is one call of ``kernel``, with the arguments at ``inputs``.

    ``key`` is the key of the specialization. ``results`` are positions among the results of the
    kernel, in the order of the leaves of ``form``.
    """

    key: Hashable
    specialization: Specialization
    kernel: Kernel
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    form: Form

    def __call__(self, args: Sequence[Any]) -> Any:
        result = self.kernel(*[args[k] for k in self.inputs])
        if self.form is LEAF:
            return result if result.ndim else result[()]
        several = result if isinstance(result, tuple) else (result,)
        leaves = [several[k] for k in self.results]
        return rebuilt(self.form, [a if a.ndim else a[()] for a in leaves])


def plain_key(args: Sequence[Any]) -> Hashable | None:
    """Return the dtypes and shapes of contiguous arrays of NumPy; ``None`` for other arguments."""
    key = []
    for value in args:
        if type(value) is not np.ndarray or not value.flags.c_contiguous:
            return None
        key.append((value.dtype, value.shape))
    return tuple(key) if key else None


def direct(key: Hashable, specialization: Specialization, count: int) -> Direct | None:
    """Return the short way of a specialization for calls with ``count`` arrays, if it has one.

    It writes no argument, returns none, checks no exponents, and is a single kernel, which reads
    these arrays alone, and all of whose results are returned once.
    """
    program = specialization.program
    if (
        specialization.written
        or specialization.exponents
        or any(argument is not None for argument in specialization.returns)
    ):
        return None
    if program.constants or len(program.steps) != 1:
        return None
    (step,) = program.steps
    if not isinstance(step, KernelCall) or sorted(program.returned) != sorted(step.outputs):
        return None
    if any(k >= count for k in step.inputs):
        # an array that is a default
        return None
    results = tuple(step.outputs.index(k) for k in program.returned)
    form = LEAF if specialization.form == LEAF else specialization.form
    return Direct(key, specialization, step.kernel, step.inputs, results, form)
