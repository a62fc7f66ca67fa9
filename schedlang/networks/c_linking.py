"""The kernels of a network as one machine nest for a C program, and what else its text needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from schedlang.codegen.network_file import network_head
from schedlang.codegen.network_storage import Storage
from schedlang.codegen.refused_sizes import Refusals
from schedlang.machine.nest import MachineNest
from schedlang.networks.assembly import Layout
from schedlang.networks.compiled import Compiled
from schedlang.networks.linked_calls import LinkedCalls
from schedlang.networks.linking import kernel_calls
from schedlang.networks.roles import Roles
from schedlang.networks.saving import check_conditions
from schedlang.networks.size_checks import refusals
from schedlang.networks.sized_memory import SizedMemory
from schedlang.runtime.c_saving import machine_in_c
from schedlang.runtime.parameters import Signature
from schedlang.runtime.signature import signature_of
from schedlang.target import Target
from schedlang.targets import backend_of
from schedlang.targets.c.backend import CBackend


@dataclass(frozen=True)
class CLinked:
    """A network for a C program: its linked ``nest``, and the memory that this takes.

    The entry takes the arguments of ``signature``, and behind them what ``layout`` has. ``refused``
    are the sizes of a call that it refuses. ``head`` is the comment at the top of the file, and
    ``comments`` are those above functions.
    """

    nest: MachineNest
    signature: Signature
    layout: Layout
    refused: tuple[Refusals, ...]
    head: str
    comments: Mapping[str, Sequence[str]]

    @property
    def storage(self) -> Storage:
        return self.layout.storage

    @property
    def sized(self) -> SizedMemory | None:
        """The memory between calls at the sizes of a call, ``None`` if that is known."""
        memory = self.layout.memory
        return memory if isinstance(memory, SizedMemory) else None


def linked_in_c(network: Compiled, asked: str) -> CLinked:
    """Return a network with kernels for a C program.

    A host starts the threads there, and they have no numbers, so that what a parallel loop
    allocates comes from the host, too. Raises :class:`~schedlang.errors.BuildError` for kernels of
    a GPU, for functions that are not C source, and for checks of sizes that no file can hold.
    """
    recipe, prepared, kernels = network.recipe, network.prepared, network.kernels or ()
    calls = kernel_calls(network.partition, kernels, partial(machine_in_c, asked=asked))
    weights = [*prepared.params, *prepared.computed]
    roles = Roles(recipe.name, recipe.inputs, prepared.outputs, weights, calls)
    check_conditions(recipe.name, roles.checks)
    backend = backend_of(Target("c"))
    assert isinstance(backend, CBackend)
    assembly = LinkedCalls(roles, False, backend, recipe.flush_denormals, numbered=False)
    layout = assembly.layout()
    linked = assembly.linked(layout)
    return CLinked(
        assembly.flushed(linked.nest),
        signature_of(assembly.nest, frozenset()),
        layout,
        refusals(recipe.name, roles.checks),
        network_head(assembly.file(layout, len(linked.kernels)), "//"),
        assembly.comments(linked),
    )


__all__ = ["CLinked", "linked_in_c"]
