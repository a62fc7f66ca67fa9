"""From the kernels of a network to the data of its module: memory, links and text.

A call of a kernel is plain data: its machine nest, its signature, and the tensors of the network
that it is given. Nothing here schedules or compiles.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schedlang.codegen.c_source import c_file, c_functions, reserved
from schedlang.codegen.listing import Line, Listing, spans
from schedlang.codegen.network_file import (
    HELPERS,
    Between,
    network_head,
    printable,
    render_network,
    with_comments,
)
from schedlang.codegen.network_storage import ParamPlace, Storage
from schedlang.codegen.numba_cpu import source_of
from schedlang.codegen.refused_sizes import Refusals
from schedlang.compute.tensor import Tensor, check_name
from schedlang.errors import BuildError, explain
from schedlang.expr.dtypes import computed, itemsize
from schedlang.expr.nodes import Var
from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer
from schedlang.ir.printer import bytes_text
from schedlang.machine.alignment import ALIGNMENT, BYTES, aligned
from schedlang.machine.link import Call, Linked, Place, link
from schedlang.machine.names import identifier, public_name
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import INDEX, Array, Load, Num, Reg, Type
from schedlang.machine.passes.denormals import with_flushed_denormals
from schedlang.machine.passes.serial import serial
from schedlang.machine.scratch import Scratch, byte_array, with_scratch
from schedlang.networks.data import CallData, ModuleData
from schedlang.networks.memory import MemoryPlan, plan_memory
from schedlang.networks.roles import Given, KernelCall, Roles, bytes_of, shape_of
from schedlang.networks.size_checks import refusals
from schedlang.networks.sized_memory import SizedMemory
from schedlang.networks.weights import weight_facts
from schedlang.runtime.parameters import signature_of
from schedlang.target import Target


def module_data(
    name: str, inputs: Sequence[Given], outputs: Sequence[Tensor], params: Sequence[Tensor],
    calls: Sequence[KernelCall], target: Target, fastmath: bool = False,
    flush_denormals: bool = False,
) -> ModuleData:  # fmt: skip
    """Return the data of the module that makes the ``calls`` in order.

    ``inputs`` are what a call of the module takes, ``outputs`` what it returns, ``params`` what it
    keeps, under the names of :func:`~schedlang.networks.roles.param_names`. All else that ``calls``
    write is stored in the arena. With ``flush_denormals`` a call takes denormal numbers as 0.

    Raises :class:`~schedlang.errors.BuildError` for ``target="cuda"``, whose modules
    :func:`~schedlang.networks.device_program.device_module_data` makes, for calls that read what
    nothing computes, and for sizes that no argument determines.
    """
    if target.kind == "cuda":
        raise BuildError(
            explain(
                f"module_data of network {name} for target={target.kind!r}",
                "this makes modules that run on the CPU",
                "Use device_module_data of schedlang.networks.device_program, or "
                'target="cuda-emulator".',
            )
        )
    public = public_name(check_name(name, "a network"), HELPERS)
    roles = Roles(name, inputs, outputs, params, calls)
    nest = arguments(public, roles)
    scratch: dict[MachineNest, Scratch] = {}
    for call in calls:
        if call.nest not in scratch:
            scratch[call.nest] = with_scratch(call.nest)
    kernels = [scratch[call.nest] for call in calls]
    places, storage, memory = stored_at(roles, nest, kernels)
    linked = _linked(public, roles, nest, kernels, places, memory, storage, target)
    flush = flush_denormals and target.kind != "python"
    return _with_text(public, roles, nest, linked, memory, storage, target, fastmath, flush)


def stored_at(
    roles: Roles, nest: Nest, kernels: Sequence[Scratch]
) -> tuple[dict[Tensor, ParamPlace], Storage, MemoryPlan | SizedMemory]:
    """Return the places of parameters, and the memory of a module that takes ``nest.args``."""
    places = _param_places(roles)
    ends = (aligned(p.start + max(1, bytes_of(t))) for t, p in places.items())
    threads = max((k.per_thread for k in kernels), default=0)
    storage = Storage(tuple(places.values()), max(ends, default=0), 0, threads)
    if nest.sizes or any(isinstance(given, Var) and given.is_size for given in roles.inputs):
        return places, storage, roles.sized(nest, kernels)
    memory = plan_memory(*roles.lifetimes(kernels))
    # what has no elements has a place, too
    arena = max(memory.peak, ALIGNMENT) if memory.placed else 0
    return places, replace(storage, arena=arena), memory


def arguments(name: str, roles: Roles) -> Nest:
    """Return a nest without statements that takes the arguments of a network."""
    buffers = [roles.buffer(given) for given in (*roles.inputs, *roles.outputs)]
    results: Any = tuple(buffers[len(roles.inputs) :])
    return Nest(name, tuple(buffers), results, Block(()), roles.sizes)


def _param_places(roles: Roles) -> dict[Tensor, ParamPlace]:
    """Return the places of the parameters that calls read, in the order in which they do."""
    used = dict.fromkeys(t for call in roles.calls for t in call.args if isinstance(t, Tensor))
    params, start = set(roles.params), 0
    found: dict[Tensor, ParamPlace] = {}
    for tensor in used:
        if tensor in params:
            found[tensor] = ParamPlace(
                roles.named(tensor), start, tensor.dtype, shape_of(tensor), *weight_facts(tensor)
            )
            start = aligned(start + bytes_of(tensor))
    return found


def _linked(
    public: str, roles: Roles, nest: Nest, kernels: Sequence[Scratch],
    params: dict[Tensor, ParamPlace], memory: MemoryPlan | SizedMemory, storage: Storage,
    target: Target,
) -> Linked:  # fmt: skip
    """Return the linked nest of a network."""
    used: dict[Given, Array | Reg] = {}
    for call, kernel in zip(roles.calls, kernels):
        used.update(zip(call.args, kernel.nest.entry.parameters))
    parameters: dict[Hashable, Array | Reg] = {}
    for given, arg in zip((*roles.inputs, *roles.outputs), nest.args):
        parameters[given] = _parameter(arg, used.get(given))
    for size in roles.sizes:
        parameters[size] = Reg(identifier(size.name))
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
    for tensor, place in params.items():
        array, elements = _storage(tensor, place.name, used[tensor])
        whole = parameters["params"]
        assert isinstance(whole, Array)
        places[tensor] = Place(array, whole, Num(place.start), Num(elements))
    for tensor in roles.stored:
        places[tensor] = arena.place(*_storage(tensor, roles.named(tensor), used[tensor]))
    for position, kernel in enumerate(kernels):
        if kernel.shared:
            name = roles.scratch_name(position)
            array = Array(identifier(name), Buffer(name, BYTES, (kernel.shared,)))
            places["scratch", position] = arena.place(array, kernel.shared)
    taken = [*NAMES, *HELPERS, public]
    if target.kind == "c":
        taken += reserved([identifier(a.name) for a in nest.args])
        taken += reserved([p.array.name for p in places.values()])
    calls = [_call(roles, k, kernel) for k, kernel in enumerate(kernels)]
    return link(f"{public}_kernels", parameters, places, calls, taken)


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


def _call(roles: Roles, position: int, kernel: Scratch) -> Call:
    """Return a call with the keys of what it is given."""
    call = roles.calls[position]
    scalars = (v for v in roles.inputs if isinstance(v, Var))
    sizes = {v.name: v for v in (*scalars, *roles.sizes)}
    args: list[Hashable] = [
        sizes.get(a.name, a) if isinstance(a, Var) else a for a in call.args
    ]
    args += [sizes[name] for name in call.signature.sizes]
    args += [("scratch", position)] if kernel.shared else []
    args += ["thread_scratch"] if kernel.per_thread else []
    return Call(kernel.nest, tuple(args), printable(", ".join(call.layers)))


def _parameter(arg: Buffer | Var, used: Array | Reg | None) -> Array | Reg:
    """Return the parameter of the entry for an argument; ``used`` is that of a kernel."""
    name = identifier(arg.name)
    if isinstance(arg, Var):
        return Reg(name, used.type if isinstance(used, Reg) else Type(computed(arg.dtype)))
    # a complex array is passed as its parts
    dtype = arg.dtype if used is None or isinstance(used, Reg) else used.dtype
    return Array(name, Buffer(name, dtype, arg.shape))


def _with_text(
    public: str, roles: Roles, nest: Nest, linked: Linked, memory: MemoryPlan | SizedMemory,
    storage: Storage, target: Target, fastmath: bool, flush: bool,
) -> ModuleData:  # fmt: skip
    """Return the data of a module, with its text."""
    machine = with_flushed_denormals(linked.nest) if flush else linked.nest
    names = [f.name for f in machine.functions]
    about = about_lines(roles, len(linked.kernels), storage, memory)
    comments = _comments(roles, linked)

    between = None if isinstance(memory, MemoryPlan) else roles.between(memory)
    refused = refusals(public, roles.checks)
    listing, functions = _printed(
        machine, nest, about, comments, storage, target, fastmath, between, refused
    )
    serial_text = ""
    if any(f.parallel for f in machine.functions):
        made = serial(linked.nest)
        made = with_flushed_denormals(made) if flush else made
        serial_text = _printed(
            made, nest, about, comments, storage, target, fastmath, between, refused
        )[0].text
    lines = dict(zip(names, spans(listing, functions)))
    first = {kernel[-1]: lines[kernel[0]][0] for kernel in linked.kernels}
    calls = tuple(
        CallData(call.name, function, (first[function], lines[function][1]), call.stages,
                 call.layers)
        for call, function in zip(roles.calls, linked.called)
    )  # fmt: skip
    plan, sized = (memory, None) if isinstance(memory, MemoryPlan) else (None, memory)
    return ModuleData(
        public, target, machine.entry.name, listing.text, serial_text,
        signature_of(nest, frozenset()), storage, plan, calls, fastmath, sized, machine,
        checks=roles.checks, launches=listing.launches,
    )  # fmt: skip


def _printed(
    machine: MachineNest, nest: Nest, about: Sequence[str], comments: Mapping[str, Sequence[str]],
    storage: Storage, target: Target, fastmath: bool, between: Sequence[Between] | None,
    refused: Sequence[Refusals],
) -> tuple[Listing, list[list[Line]]]:  # fmt: skip
    """Return the file of a linked nest, and the lines of each of its functions."""
    names = [f.name for f in machine.functions]
    if target.kind == "c":
        texts, plain = c_functions(machine)
        functions = with_comments(plain, names, comments, "//")
        return c_file(network_head(nest, about, "//"), texts, functions), functions
    source = source_of(machine, nest.name)
    functions = with_comments(source.functions, names, comments)
    compiled = target.kind != "python"
    made = render_network(nest, source, functions, about, storage, fastmath, compiled, between,
                          refused)  # fmt: skip
    return made, functions


def about_lines(
    roles: Roles, kernels: int, storage: Storage, memory: MemoryPlan | SizedMemory
) -> list[str]:
    """Return the lines of a header about the network."""
    text = f"{counted(len(roles.calls), 'call')} of {counted(kernels, 'kernel')}."
    if storage.params:
        arrays = counted(len(storage.params), "array")
        text += f" `params` has {arrays} in {bytes_text(storage.param_bytes)}."
    if storage.arena:
        text += f" `arena` has the arrays between calls in {bytes_text(storage.arena)}."
    elif isinstance(memory, SizedMemory):
        text += " `places` has the start in `arena` and the length of each array between calls."
    if storage.threads:
        text += f" `thread_scratch` has {bytes_text(storage.threads)} for each thread."
    return [text]


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _comments(roles: Roles, linked: Linked) -> dict[str, list[str]]:
    """Return the lines above the first function of each kernel: its parts, stages and schedule."""
    return {
        functions[0]: comment_of(
            [c for c, name in zip(roles.calls, linked.called) if name == functions[-1]]
        )
        for functions in linked.kernels
    }


def comment_of(runs: Sequence[KernelCall]) -> list[str]:
    """Return the lines above a kernel that makes the calls ``runs``."""
    text = f"Kernel of {', '.join(call.name for call in runs)}"
    if runs[0].stages:
        text += f": {', '.join(runs[0].stages)}"
    schedule = runs[0].schedule
    return [text, *runs[0].notes, *(f"schedule: {schedule}".splitlines() if schedule else ())]


__all__ = [
    "KernelCall",
    "about_lines",
    "arguments",
    "comment_of",
    "counted",
    "module_data",
    "stored_at",
]
