"""From a loop nest to the machine nest of a target: selection, then the passes in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedlang.gpu_lowering.program import Program
from schedlang.ir.nest import Nest
from schedlang.machine.names import Names, name_all
from schedlang.machine.nest import MachineNest
from schedlang.machine.passes.job import Job
from schedlang.machine.passes.outline import outline
from schedlang.machine.passes.storage import place_storage
from schedlang.machine.select.cpu import select_cpu
from schedlang.machine.select.gpu import MachineKernel, select_gpu
from schedlang.machine.verify import verify_machine
from schedlang.target import Target

Pass = Callable[[MachineNest, Job], MachineNest]
CPU_PASSES: tuple[Pass, ...] = (outline, place_storage)


def machine_nest(
    nest: Nest, target: Target, public: str, reserved: Sequence[str], fastmath: bool = False
) -> MachineNest:
    """Return the machine nest of a CPU kernel, verified.

    ``public`` is the name of the file's public function, and no name is one of ``reserved``.
    ``fastmath`` allows the compiler to reorder sums. Raises
    :class:`~schedlang.errors.BuildError` for what a CPU cannot run, such as thread loops.
    """
    names = name_all(nest, reserved)
    entry, fresh = select_cpu(nest, names, target, public, fastmath)
    made, job = MachineNest((entry,)), Job(target, public, fresh)
    for run in CPU_PASSES:
        made = run(made, job)
    verify_machine(made)
    return made


def machine_kernels(
    program: Program, target: Target, public: str, names: Names
) -> tuple[MachineKernel, ...]:
    """Return the machine nests of the kernels of a GPU, each with its launch, verified."""
    made = select_gpu(program, target, public, names)
    verify_machine(MachineNest(tuple(kernel.function for kernel in made)))
    return made


__all__ = ["CPU_PASSES", "machine_kernels", "machine_nest"]
