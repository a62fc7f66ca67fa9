"""The interpreter of GPU programs: the host's steps in order, and the kernels that they launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.expr.dtypes import storage_dtype
from schedlang.gpu_lowering.lockstep import number, perform
from schedlang.gpu_lowering.program import Program, Scratch
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.intrinsics import twins
from schedlang.ir.nodes import Buffer
from schedlang.machine.select.gpu import MachineKernel
from tests.machine_interpreter import Work, interpret_kernel


def interpret_program(
    program: Program, kernels: Sequence[MachineKernel], given: Mapping[Any, Any]
) -> Work:
    """Run ``program`` with its machine ``kernels``; return the elements that all of them access.

    ``given`` maps each argument and size of the nest to its value: flat arrays and numbers.
    An array of short floats is given as uint16. Raises :class:`IndexError` for an access outside of
    an array.
    """
    work, values = Work(), dict(given)
    of_launch = {kernel.launch: kernel for kernel in kernels}
    for step in perform(program.steps, values):
        if isinstance(step, Scratch):
            values[step.buffer] = _scratch(step.buffer, values)
        else:
            _launch(of_launch[step], values, work)
    return work


def _launch(kernel: MachineKernel, values: Mapping[Any, Any], work: Work) -> None:
    grid, block = ([number(e, values) for e in kernel.launch.dims(kind)]
                   for kind in ("grid", "block"))  # fmt: skip
    done = interpret_kernel(kernel.function, [values[p] for p in kernel.parameters], grid, block)
    for total, more in ((work.loads, done.loads), (work.stores, done.stores)):
        assert isinstance(total, Counter)
        total.update(more)


def _scratch(buffer: Buffer, values: Mapping[Any, Any]) -> np.ndarray:
    total = Lin.of(1)
    for extent in buffer.shape:
        total = total * to_lin(extent)
    size = buffer.size if buffer.size is not None else number(to_expr(total), values)
    return twins.heap_array(max(0, size), storage_dtype(buffer.dtype))


__all__ = ["interpret_program"]
