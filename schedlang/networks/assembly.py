"""From the calls of a network's kernels to its file: what all targets do alike.

A target whose kernels one function calls links them to a nest (:mod:`.linked_calls`). One whose
kernels the host launches prints a function that does so (:mod:`.launched_calls`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Optional, Union

from schedlang.codegen.listing import Listing
from schedlang.codegen.network_file import NetworkFile
from schedlang.codegen.network_storage import ParamPlace, Storage
from schedlang.compute.tensor import Tensor
from schedlang.expr.names import check_name
from schedlang.expr.nodes import Var
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block
from schedlang.machine.alignment import ALIGNMENT, align_up
from schedlang.machine.identifiers import public_name
from schedlang.machine.nest import MachineNest
from schedlang.machine.scratch import Scratch
from schedlang.markup.sizes import bytes_text
from schedlang.networks.data import CallData, DeviceData
from schedlang.networks.memory import MemoryPlan, plan_memory
from schedlang.networks.roles import KernelCall, Roles, bytes_of, shape_of
from schedlang.networks.size_checks import refusals
from schedlang.networks.sized_memory import SizedMemory
from schedlang.networks.weights import weight_facts


@dataclass(frozen=True)
class Layout:
    """The places of parameters, and the memory of a module beside its arguments."""

    params: Mapping[Tensor, ParamPlace]
    storage: Storage
    memory: Union[MemoryPlan, SizedMemory]


@dataclass(frozen=True)
class Assembled:
    """The file of a module, as the fields of :class:`~schedlang.networks.data.ModuleData` say."""

    listing: Listing
    entry: str
    machine: MachineNest
    calls: tuple[CallData, ...]
    serial_text: str = ""
    device: Optional[DeviceData] = None


class Assembly(ABC):
    """The calls of a network, which become a module for one target."""

    # the names that a file needs itself
    TAKEN: ClassVar[tuple[str, ...]]

    def __init__(self, roles: Roles, fastmath: bool) -> None:
        self.roles, self.fastmath = roles, fastmath
        self.public = public_name(check_name(roles.name, "a network"), self.TAKEN)
        self.nest = _arguments(self.public, roles)

    @property
    @abstractmethod
    def kernels(self) -> Sequence[Scratch]:
        """The kernel of each call, with the bytes that it is given."""

    @abstractmethod
    def assembled(self, layout: Layout) -> Assembled:
        """Return the file, whose arrays are where ``layout`` says."""

    def layout(self) -> Layout:
        """Return the places of parameters, and the memory of the module."""
        params = _param_places(self.roles)
        ends = (align_up(p.start + max(1, bytes_of(t))) for t, p in params.items())
        threads = max((k.per_thread for k in self.kernels), default=0)
        sizes = (isinstance(given, Var) and given.is_size for given in self.roles.inputs)
        memory: MemoryPlan | SizedMemory
        if self.nest.sizes or any(sizes):
            memory, arena = self.roles.sized(self.nest, self.kernels), 0
        else:
            memory = plan_memory(*self.roles.lifetimes(self.kernels))
            # what has no elements has a place, too
            arena = max(memory.peak, ALIGNMENT) if memory.placed else 0
        storage = Storage(tuple(params.values()), max(ends, default=0), arena, threads)
        return Layout(params, storage, memory)

    def file(self, layout: Layout, kernels: int) -> NetworkFile:
        """Return what the file has beside its ``kernels``, which are so many."""
        memory = layout.memory
        between = self.roles.between(memory) if isinstance(memory, SizedMemory) else None
        return NetworkFile(
            self.nest,
            _about(self.roles, kernels, layout),
            layout.storage,
            self.fastmath,
            between,
            refusals(self.public, self.roles.checks),
        )


def _arguments(name: str, roles: Roles) -> Nest:
    """Return a nest without statements that takes the arguments of a network."""
    buffers = [roles.buffer(given) for given in (*roles.inputs, *roles.outputs)]
    results: Any = tuple(buffers[len(roles.inputs) :])
    return Nest(name, tuple(buffers), results, Block(()), roles.sizes)


def _param_places(roles: Roles) -> dict[Tensor, ParamPlace]:
    """Return the places of the parameters that calls read, in the order in which they do."""
    used = dict.fromkeys(t for call in roles.calls for t in call.args if isinstance(t, Tensor))
    params, start = set(roles.params), 0
    places: dict[Tensor, ParamPlace] = {}
    for tensor in used:
        if tensor in params:
            places[tensor] = ParamPlace(
                roles.named(tensor), start, tensor.dtype, shape_of(tensor), *weight_facts(tensor)
            )
            start = align_up(start + bytes_of(tensor))
    return places


def _about(roles: Roles, kernels: int, layout: Layout) -> str:
    """Return the lines of a header about the network."""
    storage = layout.storage
    text = f"{number_of(len(roles.calls), 'call')} of {number_of(kernels, 'kernel')}."
    if storage.params:
        arrays = number_of(len(storage.params), "array")
        text += f" `params` has {arrays} in {bytes_text(storage.param_bytes)}."
    if storage.arena:
        text += f" `arena` has the arrays between calls in {bytes_text(storage.arena)}."
    elif isinstance(layout.memory, SizedMemory):
        text += " `places` has the start in `arena` and the length of each array between calls."
    if storage.threads:
        text += f" `thread_scratch` has {bytes_text(storage.threads)} for each thread."
    return text


def number_of(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def comment_of(runs: Sequence[KernelCall]) -> list[str]:
    """Return the lines above a kernel that makes the calls ``runs``."""
    text = f"Kernel of {', '.join(call.name for call in runs)}"
    if runs[0].stages:
        text += f": {', '.join(runs[0].stages)}"
    schedule = runs[0].schedule
    return [text, *runs[0].notes, *(f"schedule: {schedule}".splitlines() if schedule else ())]
