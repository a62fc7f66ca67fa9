"""From the parts of a network and their kernels to the data of its module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from schedlang.compute.graph import operations
from schedlang.machine.nest import MachineNest
from schedlang.networks.blocks import plain_copies
from schedlang.networks.data import ModuleData
from schedlang.networks.kernels import PartKernel, kernel_of
from schedlang.networks.model import Recipe
from schedlang.networks.partition import Part, Partition
from schedlang.networks.prepare import Prepared
from schedlang.networks.program import module_data
from schedlang.networks.roles import Given, KernelCall
from schedlang.networks.size_checks import size_check
from schedlang.runtime.emulated import GpuKernel
from schedlang.runtime.kernel import Kernel
from schedlang.target import Target


def link_parts(
    recipe: Recipe,
    prepared: Prepared,
    partition: Partition,
    kernels: Sequence[PartKernel],
    target: Target,
) -> ModuleData:
    """Return the data of the module that calls the kernels of all parts, with its machine nest."""
    weights = [*prepared.params, *prepared.computed]
    calls = kernel_calls(partition, kernels)
    return module_data(
        recipe.name,
        recipe.inputs,
        prepared.outputs,
        weights,
        calls,
        target,
        flush_denormals=recipe.flush_denormals,
    )


def kernel_calls(
    partition: Partition,
    kernels: Sequence[PartKernel],
    nest_of: Callable[[Kernel], MachineNest] = attrgetter("machine_nest"),
) -> list[KernelCall]:
    """Return the call of a kernel for each part, in the order in which they run.

    ``nest_of`` returns the machine nest of a kernel.
    """
    kernel_by_part = kernel_of(kernels)
    nests = {scheduled.name: nest_of(scheduled.kernel) for scheduled in kernels}
    calls, checks = [], {}
    for part in partition.parts:
        scheduled = kernel_by_part[part.name]
        kernel = scheduled.kernel
        if scheduled.name not in checks:
            # the first part of the kernel, whose names this has
            checks[scheduled.name] = size_check(part.name, kernel, part.layers)
        program = kernel.launches if isinstance(kernel, GpuKernel) else None
        args: tuple[Given, ...] = (*part.reads, *part.sizes, *part.writes)
        calls.append(
            KernelCall(
                part.name,
                nests[scheduled.name],
                kernel.signature,
                args,
                part.stages,
                part.layers,
                scheduled.provenance,
                checks[scheduled.name],
                program,
                _notes(part),
            )
        )
    return calls


def _notes(part: Part) -> tuple[str, ...]:
    """Return why a part copies what another one computed."""
    return tuple(
        f"{name} copies {source} to an order without blocks of channels, in which it is read"
        for name, source in plain_copies(operations(part.group.outputs))
    )
