"""The calls of a network as one machine nest, whose entry makes them in order."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from schedlang.codegen.listing import Line, Listing, spans
from schedlang.codegen.network_file import HELPERS, NetworkFile, printable
from schedlang.compute.tensor import Tensor
from schedlang.expr.dtypes import itemsize, register_dtype
from schedlang.expr.nodes import Var
from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.nodes import Buffer
from schedlang.machine.alignment import ALIGNMENT, BYTES
from schedlang.machine.identifiers import identifier
from schedlang.machine.link import Call, Linked, Place, link
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import INDEX, Array, Load, Num, Reg, Type
from schedlang.machine.passes.denormals import with_flushed_denormals
from schedlang.machine.passes.serial import serial
from schedlang.machine.scratch import Scratch, byte_array, with_scratch
from schedlang.networks.assembly import Assembled, Assembly, Layout, comment_of
from schedlang.networks.data import CallData
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.roles import Given, Roles, bytes_of
from schedlang.networks.sized_memory import SizedMemory
from schedlang.targets.loops import PrintedBackend


class LinkedCalls(Assembly):
    """Calls of kernels that ``backend`` prints as functions of one file.

    With ``flush`` they take denormal numbers as 0, if they are compiled. Where threads are not
    ``numbered``, the arrays inside of parallel loops stay on the heap.
    """

    TAKEN = HELPERS

    def __init__(
        self,
        roles: Roles,
        fastmath: bool,
        backend: PrintedBackend[Any],
        flush: bool,
        numbered: bool = True,
    ) -> None:
        super().__init__(roles, fastmath)
        self.backend = backend
        self.flush = flush and not backend.facts.interpreted
        scratch: dict[MachineNest, Scratch] = {}
        for call in roles.calls:
            if call.nest not in scratch:
                scratch[call.nest] = with_scratch(call.nest, numbered)
        self._kernels = [scratch[call.nest] for call in roles.calls]

    @property
    def kernels(self) -> list[Scratch]:
        return self._kernels

    def assembled(self, layout: Layout) -> Assembled:
        linked = self.linked(layout)
        file = self.file(layout, len(linked.kernels))
        machine = self.flushed(linked.nest)
        listing, functions = self._printed(file, linked, machine)
        serial_text = ""
        if any(f.parallel for f in machine.functions):
            serial_text = self._printed(file, linked, self.flushed(serial(linked.nest)))[0].text
        lines = dict(zip((f.name for f in machine.functions), spans(listing, functions)))
        first = {kernel[-1]: lines[kernel[0]][0] for kernel in linked.kernels}
        calls = tuple(
            CallData(
                call.name, function, (first[function], lines[function][1]), call.stages, call.layers
            )
            for call, function in zip(self.roles.calls, linked.called)
        )
        return Assembled(listing, machine.entry.name, machine, calls, serial_text)

    def flushed(self, nest: MachineNest) -> MachineNest:
        """Return a linked nest that takes denormal numbers as 0, if this network does."""
        return with_flushed_denormals(nest) if self.flush else nest

    def _printed(
        self, file: NetworkFile, linked: Linked, machine: MachineNest
    ) -> tuple[Listing, list[list[Line]]]:
        """Return the file of a linked nest, and the lines of each of its functions."""
        return self.backend.network_file(file, machine, self.comments(linked))

    def comments(self, linked: Linked) -> dict[str, list[str]]:
        """Return what stands above the first function of each kernel.

        These are its parts, its stages and its schedule.
        """
        pairs = list(zip(self.roles.calls, linked.called))
        return {
            functions[0]: comment_of([call for call, name in pairs if name == functions[-1]])
            for functions in linked.kernels
        }

    def linked(self, layout: Layout) -> Linked:
        """Return the linked nest of a network."""
        roles, storage, memory = self.roles, layout.storage, layout.memory
        used: dict[Given, Array | Reg] = {}
        for call, kernel in zip(roles.calls, self.kernels):
            used.update(zip(call.args, kernel.nest.entry.parameters))
        parameters: dict[Hashable, Array | Reg] = {}
        for given, arg in zip((*roles.inputs, *roles.outputs), self.nest.args):
            parameters[given] = _parameter(arg, used.get(given))
        for size in roles.sizes:
            parameters[size] = Reg(identifier(size.name))
        if any(kernel.nest.invoked for kernel in self.kernels):
            parameters["functions"] = Array(
                "functions", Buffer("functions", "int64", (Var("count"),))
            )
        arena = _Arena(memory)
        wholes = {
            "params": (storage.param_bytes, storage.param_bytes > 0),
            "arena": (arena.size, isinstance(memory, SizedMemory) or storage.arena > 0),
            "thread_scratch": (Var("bytes"), storage.threads > 0),
        }
        for key, (length, needed) in wholes.items():
            if needed:
                parameters[key] = arena.array if key == "arena" else byte_array(key, length)
        if isinstance(memory, SizedMemory):
            parameters["places"] = arena.table
        places: dict[Hashable, Place] = {}
        for tensor, place in layout.params.items():
            array, elements = _storage(tensor, place.name, used[tensor])
            whole = parameters["params"]
            assert isinstance(whole, Array)
            places[tensor] = Place(array, whole, Num(place.start), Num(elements))
        for tensor in roles.stored:
            places[tensor] = arena.place(*_storage(tensor, roles.named(tensor), used[tensor]))
        for position, kernel in enumerate(self.kernels):
            if kernel.shared:
                name = roles.scratch_name(position)
                array = Array(identifier(name), Buffer(name, BYTES, (kernel.shared,)))
                places["scratch", position] = arena.place(array, kernel.shared)
        arrays = (p.array.name for p in places.values())
        given_names = [*(identifier(a.name) for a in self.nest.args), *arrays]
        reserved = [*NAMES, *HELPERS, self.public, *self.backend.reserved(given_names)]
        reserved += [name for kernel in self.kernels for name in kernel.nest.definitions]
        calls = [self._call(k, kernel) for k, kernel in enumerate(self.kernels)]
        return link(f"{self.public}_kernels", parameters, places, calls, reserved)

    def _call(self, position: int, kernel: Scratch) -> Call:
        """Return a call with the keys of what it is given."""
        roles, call = self.roles, self.roles.calls[position]
        scalars = (v for v in roles.inputs if isinstance(v, Var))
        sizes = {v.name: v for v in (*scalars, *roles.sizes)}
        args: list[Hashable] = [
            sizes.get(a.name, a) if isinstance(a, Var) else a for a in call.args
        ]
        args += [sizes[name] for name in call.signature.sizes]
        args += ["functions"] if kernel.nest.invoked else []
        args += [("scratch", position)] if kernel.shared else []
        args += ["thread_scratch"] if kernel.per_thread else []
        return Call(kernel.nest, tuple(args), printable(", ".join(call.layers)))


class _Arena:
    """The array between calls: its size, if that is known, and the places in it.

    ``table`` has for each array its first byte and its length, where they depend on sizes.
    """

    def __init__(self, memory: MemoryPlan | SizedMemory) -> None:
        self.memory = memory
        listed: tuple[str, ...] = ()
        self.size: int | Var = Var("bytes")
        if isinstance(memory, MemoryPlan):
            self.size = max(memory.peak, ALIGNMENT)
        else:
            listed = memory.names
        self.array = byte_array("arena", self.size)
        self.table = Array("places", Buffer("places", "int64", (Var("count"),)))
        self.numbers = {name: k for k, name in enumerate(listed)}

    def place(self, array: Array, elements: int) -> Place:
        """Return the place of an array; the number of its elements counts if it is known."""
        name = array.buffer.name
        if isinstance(self.memory, MemoryPlan):
            start, length = self.memory.offset(name), elements
            return Place(array, self.array, Num(start), Num(length))
        first = 2 * self.numbers[name]
        loads = (Load("load", self.table, Num(first + k), INDEX) for k in range(2))
        return Place(array, self.array, *loads)


def _storage(tensor: Tensor, name: str, used: Array | Reg) -> tuple[Array, int]:
    """Return the array of a tensor as kernels take it, and its elements; 0 if that is unknown."""
    assert isinstance(used, Array)
    fixed = all(isinstance(extent, int) for extent in tensor.shape)
    elements = bytes_of(tensor) // itemsize(used.dtype) if fixed else 0
    return Array(identifier(name), Buffer(name, used.dtype, tensor.shape)), elements


def _parameter(arg: Buffer | Var, used: Array | Reg | None) -> Array | Reg:
    """Return the parameter of the entry for an argument; ``used`` is a kernel's parameter."""
    name = identifier(arg.name)
    if isinstance(arg, Var):
        return Reg(name, used.type if isinstance(used, Reg) else Type(register_dtype(arg.dtype)))
    # a complex array is passed as its parts
    dtype = arg.dtype if used is None or isinstance(used, Reg) else used.dtype
    return Array(name, Buffer(name, dtype, arg.shape))
