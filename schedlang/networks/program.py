"""From the kernels of a network to the data of its module: memory, links and text.

A call of a kernel is plain data: its machine nest, its signature, and the tensors of the network
that it is given. Nothing here schedules or compiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.tensor import Tensor
from schedlang.networks.assembly import Assembly
from schedlang.networks.data import ModuleData
from schedlang.networks.launched_calls import LaunchedCalls
from schedlang.networks.linked_calls import LinkedCalls
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.roles import Given, KernelCall, Roles
from schedlang.runtime.extern_table import called_in
from schedlang.runtime.signature import signature_of
from schedlang.target import Target
from schedlang.targets import backend_of
from schedlang.targets.loops import PrintedBackend


def module_data(
    name: str,
    inputs: Sequence[Given],
    outputs: Sequence[Tensor],
    params: Sequence[Tensor],
    calls: Sequence[KernelCall],
    target: Target,
    fastmath: bool = False,
    flush_denormals: bool = False,
) -> ModuleData:
    """Return the data of the module that makes the ``calls`` in order.

    ``inputs`` are what a call of the module takes, ``outputs`` what it returns, ``params`` what it
    keeps, under the names of :func:`~schedlang.networks.roles.param_names`. All else that ``calls``
    write is stored in the arena. With ``flush_denormals`` a call on a CPU takes denormal numbers as
    0. For ``target="cuda"`` each call has a ``program``. Calls of one program share its kernels.
    The arena also has what these pass to each other inside of a call, if its size is known.

    Raises :class:`~schedlang.errors.BuildError` for calls that read what nothing computes, for
    sizes that no argument determines, and for ``target="cuda"`` and calls without a program.
    """
    roles, backend = Roles(name, inputs, outputs, params, calls), backend_of(target)
    assembly: Assembly
    if isinstance(backend, PrintedBackend):
        assembly = LinkedCalls(roles, fastmath, backend, flush_denormals)
    else:
        assembly = LaunchedCalls(roles, fastmath, target)
    layout = assembly.layout()
    file, memory = assembly.assembled(layout), layout.memory
    plan, sized = (memory, None) if isinstance(memory, MemoryPlan) else (None, memory)
    return ModuleData(
        assembly.public,
        target,
        file.entry,
        file.listing.text,
        file.serial_text,
        signature_of(assembly.nest, frozenset(), target.facts.binds_threads),
        layout.storage,
        plan,
        file.calls,
        fastmath,
        sized,
        file.machine,
        file.device,
        roles.checks,
        file.listing.launches,
        called_in(file.machine),
    )


__all__ = ["KernelCall", "module_data"]
