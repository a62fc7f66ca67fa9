"""From the kernels of a network to the data of its module: memory, links and text.

A call of a kernel is plain data: its machine nest, its signature, and the tensors of the network
that it is given. Nothing here schedules or compiles.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import Any, Optional, Union

from schedlang.codegen.c_source import c_file, c_functions, reserved
from schedlang.codegen.listing import Line, Listing, spans
from schedlang.codegen.network_file import (
    HELPERS,
    ParamPlace,
    Storage,
    network_head,
    printable,
    render_network,
    with_comments,
)
from schedlang.codegen.numba_cpu import source_of
from schedlang.compute.tensor import Tensor, check_name
from schedlang.errors import BuildError, explain
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Var
from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer
from schedlang.ir.printer import bytes_text
from schedlang.machine.link import Call, Linked, Place, link
from schedlang.machine.names import RESERVED, SAVED, identifier
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import INDEX, Array, Num, Reg
from schedlang.machine.passes.serial import serial
from schedlang.machine.scratch import ALIGNMENT, Scratch, aligned, byte_array, with_scratch
from schedlang.networks.memory import Lifetime, MemoryPlan, plan_memory
from schedlang.runtime.parameters import Signature, signature_of
from schedlang.target import Target

Given = Union[Tensor, Var]


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A call of a kernel in a network.

    ``nest`` and ``signature`` are those of the kernel, as :func:`schedlang.build` makes it.
    ``args`` are the tensors of the network (and scalars) that it is given for the parameters of the
    signature. ``stages`` and ``layers`` are what it computes, and ``schedule`` is a short text of
    how, for comments.
    """

    name: str
    nest: MachineNest
    signature: Signature
    args: tuple[Given, ...]
    stages: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    schedule: str = ""


@dataclass(frozen=True)
class CallData:
    """What a module says of a call: the part, its function, and the lines of that in the source.

    ``lines`` are the first and the last one, from 1 on, of the kernel's functions. Calls of equal
    kernels have the same ones.
    """

    name: str
    function: str
    lines: tuple[int, int]
    stages: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModuleData:
    """The data of a module: its text, and what a call of it needs.

    ``entry`` is the function that runs, and ``public`` the one that a file offers. ``serial_text``
    is the text without parallel loops, empty if there are none. ``machine`` is the linked nest,
    which only the process that linked it has, and those that it was pickled for.
    """

    public: str
    target: Target
    entry: str
    text: str
    serial_text: str
    signature: Signature
    storage: Storage
    plan: MemoryPlan
    calls: tuple[CallData, ...]
    fastmath: bool = False
    machine: Optional[MachineNest] = field(default=None, compare=False)


def module_data(
    name: str, inputs: Sequence[Given], outputs: Sequence[Tensor], params: Sequence[Tensor],
    calls: Sequence[KernelCall], target: Target, fastmath: bool = False,
) -> ModuleData:  # fmt: skip
    """Return the data of the module that makes the ``calls`` in order.

    ``inputs`` are what a call of the module takes, ``outputs`` what it returns, ``params`` what it
    keeps; all else that ``calls`` write is stored in the arena.

    Raises :class:`~schedlang.errors.BuildError` for a target other than ``"cpu"``, ``"python"`` and
    ``"c"``, for calls that read what nothing computes, and for tensors of symbolic size.
    """
    if target.kind not in ("cpu", "python", "c"):
        raise BuildError(
            explain(
                f"module of network {name} for target={target.kind!r}",
                "a network is one module for the CPU",
                'Use target="cpu", "c" or "python".',
            )
        )
    public = identifier(check_name(name, "a network"))
    if public in RESERVED or public in NAMES or public in SAVED or public in HELPERS:
        # the file imports or defines something under that name
        public = f"{public}_"
    flow = _Flow(name, inputs, outputs, params, calls)
    nest = _arguments(public, flow)
    scratch: dict[MachineNest, Scratch] = {}
    for call in calls:
        if call.nest not in scratch:
            scratch[call.nest] = with_scratch(call.nest)
    kernels = [scratch[call.nest] for call in calls]
    places = _param_places(flow)
    plan = plan_memory(*flow.lifetimes(kernels))
    ends = (aligned(p.start + max(1, _bytes(t))) for t, p in places.items())
    # what has no elements has a place, too
    arena = max(plan.peak, ALIGNMENT) if plan.placed else 0
    threads = max((k.per_thread for k in kernels), default=0)
    storage = Storage(tuple(places.values()), max(ends, default=0), arena, threads)
    linked = _linked(public, flow, nest, kernels, places, plan, storage, target)
    return _with_text(public, flow, nest, linked, plan, storage, target, fastmath)


def _bytes(tensor: Tensor) -> int:
    return prod(_shape(tensor)) * itemsize(tensor.dtype)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    assert all(isinstance(extent, int) for extent in tensor.shape)
    return tuple(tensor.shape)


def _arguments(name: str, flow: _Flow) -> Nest:
    """Return a nest without statements that takes the arguments of a network."""
    buffers: list[Any] = []
    for given in (*flow.inputs, *flow.outputs):
        if isinstance(given, Var):
            buffers.append(given)
        else:
            buffers.append(Buffer(flow.named(given), given.dtype, given.shape, tensor=given))
    results = tuple(buffers[len(flow.inputs) :])
    return Nest(name, tuple(buffers), results, Block(()))


class _Flow:
    """The tensors of a network by what they are, each with a name of its own.

    ``written`` and ``last`` are the calls that write it, and that use it last.
    """

    def __init__(
        self, name: str, inputs: Sequence[Given], outputs: Sequence[Tensor],
        params: Sequence[Tensor], calls: Sequence[KernelCall],
    ) -> None:  # fmt: skip
        self.name, self.calls = name, calls
        self.inputs, self.outputs, self.params = inputs, outputs, params
        self._names: dict[Hashable, str] = {}
        self._taken: set[str] = set()
        self.written: dict[Tensor, int] = {}
        self.last: dict[Tensor, int] = {}
        for given in (*inputs, *outputs, *params):
            self.named(given)
        self._check()
        known = {*inputs, *params}
        for position, call in enumerate(calls):
            self._call(position, call, known)
        for tensor in outputs:
            if tensor not in self.written:
                raise self.error(f"nothing computes its output {tensor.name}")

    def named(self, given: Given) -> str:
        """Return the name of a tensor or a scalar, which no other one has."""
        return self._named(given, given.name)

    def _named(self, key: Hashable, wanted: str) -> str:
        if key not in self._names:
            name = next(n for n in _numbered(wanted) if n not in self._taken)
            self._taken.add(name)
            self._names[key] = name
        return self._names[key]

    def error(self, why: str) -> BuildError:
        return BuildError(f"module of network {self.name}: {why}")

    def _check(self) -> None:
        given = [t for t in (*self.inputs, *self.outputs, *self.params) if isinstance(t, Tensor)]
        for tensor in given:
            if given.count(tensor) > 1:
                raise self.error(
                    f"{tensor.name} stands twice among its inputs, outputs and params; give a copy "
                    "a stage of its own"
                )
        tensors = [*given, *(t for c in self.calls for t in c.args if isinstance(t, Tensor))]
        for tensor in tensors:
            for extent in tensor.shape:
                if not isinstance(extent, int):
                    raise self.error(
                        f"{tensor.name} has the symbolic extent {extent}, and its memory is "
                        "planned ahead: build the network for each size that you need"
                    )

    def _call(self, position: int, call: KernelCall, known: set[Given]) -> None:
        parameters = call.signature.parameters
        if len(parameters) != len(call.args):
            raise self.error(
                f"part {call.name} takes {len(parameters)} arguments, but {len(call.args)} are "
                "named"
            )
        for p, given in zip(parameters, call.args):
            if isinstance(given, Tensor):
                if (p.dtype, tuple(p.shape)) != (given.dtype, tuple(given.shape)):
                    raise self.error(
                        f"part {call.name} takes {p}, but {given.name} is {given.dtype}"
                        f"[{', '.join(map(str, given.shape))}]"
                    )
                self.last[given] = position
            if not p.is_output:
                if given not in known:
                    raise self.error(f"part {call.name} reads {given.name} before it is computed")
                continue
            assert isinstance(given, Tensor)
            if given in known:
                raise self.error(
                    f"part {call.name} writes {given.name}, which is known before it runs"
                )
            self.written[given] = position
            self.named(given)
        known.update(t for p, t in zip(parameters, call.args) if p.is_output)

    @property
    def stored(self) -> list[Tensor]:
        """The tensors in the arena, in the order in which they are written."""
        return [t for t in self.written if t not in self.outputs]

    def lifetimes(
        self, kernels: Sequence[Scratch]
    ) -> tuple[list[Lifetime], list[tuple[str, str]]]:
        """Return what the arena holds, and what may take over the memory of what."""
        stored = self.stored
        found = [
            Lifetime(self.named(t), _bytes(t), self.written[t], self.last[t]) for t in stored
        ]
        for position, kernel in enumerate(kernels):
            if kernel.shared:
                name = self.scratch_name(position)
                found.append(Lifetime(name, kernel.shared, position, position))
        pairs: list[tuple[str, str]] = []
        for call in self.calls:
            for out, given in sorted(call.signature.in_place):
                a, b = call.args[out], call.args[given]
                # the nest allows it for each of its arguments, so the tensor must be given once
                if a in stored and b in stored and call.args.count(b) == 1:
                    pairs.append((self.named(a), self.named(b)))
        return found, pairs

    def scratch_name(self, position: int) -> str:
        return self._named(("scratch", position), f"{self.calls[position].name}_scratch")


def _numbered(name: str) -> Iterator[str]:
    """Yield ``name``, and then with 1, 2, ... behind it."""
    yield name
    for number in count(1):
        yield f"{name}_{number}"


def _param_places(flow: _Flow) -> dict[Tensor, ParamPlace]:
    """Return the places of the parameters that calls read, in the order in which they do."""
    used = dict.fromkeys(t for call in flow.calls for t in call.args if isinstance(t, Tensor))
    params, start = set(flow.params), 0
    found: dict[Tensor, ParamPlace] = {}
    for tensor in used:
        if tensor in params:
            found[tensor] = ParamPlace(flow.named(tensor), start, tensor.dtype, _shape(tensor))
            start = aligned(start + _bytes(tensor))
    return found


def _linked(
    public: str, flow: _Flow, nest: Nest, kernels: Sequence[Scratch],
    params: dict[Tensor, ParamPlace], plan: MemoryPlan, storage: Storage, target: Target,
) -> Linked:  # fmt: skip
    """Return the linked nest of a network."""
    dtypes: dict[Given, Array | Reg] = {}
    for call, kernel in zip(flow.calls, kernels):
        dtypes.update(zip(call.args, kernel.nest.entry.parameters))
    parameters: dict[Hashable, Array | Reg] = {}
    for given, arg in zip((*flow.inputs, *flow.outputs), nest.args):
        parameters[given] = _parameter(arg, dtypes.get(given))
    extras = [
        ("params", storage.param_bytes), ("arena", storage.arena), ("threads", storage.threads)
    ]  # fmt: skip
    wholes: dict[str, Array] = {}
    for key, size in extras:
        if size:
            name = "thread_scratch" if key == "threads" else key
            wholes[key] = byte_array(name, Var("bytes") if key == "threads" else size)
            parameters[key] = wholes[key]
    places: dict[Hashable, Place] = {}
    for tensor, place in params.items():
        places[tensor] = _place(tensor, place.name, dtypes[tensor], wholes["params"], place.start)
    for tensor in flow.stored:
        name = flow.named(tensor)
        start = plan.offset(name)
        places[tensor] = _place(tensor, name, dtypes[tensor], wholes["arena"], start)
    calls: list[Call] = []
    for position, (call, kernel) in enumerate(zip(flow.calls, kernels)):
        args: list[Hashable] = list(call.args)
        if kernel.shared:
            name = flow.scratch_name(position)
            array, at = byte_array(name, kernel.shared), Num(plan.offset(name))
            places[name] = Place(array, wholes["arena"], at, Num(kernel.shared))
            args.append(name)
        if kernel.per_thread:
            args.append("threads")
        calls.append(Call(kernel.nest, tuple(args), printable(", ".join(call.layers))))
    taken = [*NAMES, *HELPERS, public]
    if target.kind == "c":
        taken += reserved([identifier(a.name) for a in nest.args])
        taken += reserved([p.array.name for p in places.values()])
    return link(f"{public}_kernels", parameters, places, calls, taken)


def _parameter(arg: Buffer | Var, used: Array | Reg | None) -> Array | Reg:
    """Return the parameter of the entry for an argument; ``used`` is that of a kernel."""
    name = identifier(arg.name)
    if isinstance(arg, Var):
        return Reg(name, INDEX if used is None or isinstance(used, Array) else used.type)
    # a complex array is passed as its parts
    dtype = arg.dtype if used is None or isinstance(used, Reg) else used.dtype
    return Array(name, Buffer(name, dtype, arg.shape))


def _place(tensor: Tensor, name: str, used: Array | Reg, whole: Array, start: int) -> Place:
    assert isinstance(used, Array)
    array = Array(identifier(name), Buffer(name, used.dtype, tensor.shape))
    return Place(array, whole, Num(start), Num(_bytes(tensor) // itemsize(used.dtype)))


def _with_text(
    public: str, flow: _Flow, nest: Nest, linked: Linked, plan: MemoryPlan, storage: Storage,
    target: Target, fastmath: bool,
) -> ModuleData:  # fmt: skip
    """Return the data of a module, with its text."""
    machine = linked.nest
    names = [f.name for f in machine.functions]
    about = _about(flow, linked, storage)
    comments = _comments(flow, linked)

    listing, functions = _printed(machine, nest, about, comments, storage, target, fastmath)
    serial_text = ""
    if any(f.parallel for f in machine.functions):
        made = serial(machine)
        serial_text = _printed(made, nest, about, comments, storage, target, fastmath)[0].text
    lines = dict(zip(names, spans(listing, functions)))
    first = {kernel[-1]: lines[kernel[0]][0] for kernel in linked.kernels}
    calls = tuple(
        CallData(call.name, function, (first[function], lines[function][1]), call.stages,
                 call.layers)
        for call, function in zip(flow.calls, linked.called)
    )  # fmt: skip
    return ModuleData(
        public, target, machine.entry.name, listing.text, serial_text,
        signature_of(nest, frozenset()), storage, plan, calls, fastmath, machine,
    )  # fmt: skip


def _printed(
    machine: MachineNest, nest: Nest, about: Sequence[str], comments: Mapping[str, Sequence[str]],
    storage: Storage, target: Target, fastmath: bool,
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
    return render_network(nest, source, functions, about, storage, fastmath, compiled), functions


def _about(flow: _Flow, linked: Linked, storage: Storage) -> list[str]:
    """Return the lines of a header about the network."""
    calls, kernels = len(flow.calls), len(linked.kernels)
    text = f"{_counted(calls, 'call')} of {_counted(kernels, 'kernel')}."
    if storage.params:
        arrays = _counted(len(storage.params), "array")
        text += f" `params` has {arrays} in {bytes_text(storage.param_bytes)}."
    if storage.arena:
        text += f" `arena` has the arrays between calls in {bytes_text(storage.arena)}."
    if storage.threads:
        text += f" `thread_scratch` has {bytes_text(storage.threads)} for each thread."
    return [text]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _comments(flow: _Flow, linked: Linked) -> dict[str, list[str]]:
    """Return the lines above the first function of each kernel: its parts, stages and schedule."""
    found: dict[str, list[str]] = {}
    for functions in linked.kernels:
        runs = [c for c, name in zip(flow.calls, linked.called) if name == functions[-1]]
        lines = [f"Kernel of {', '.join(call.name for call in runs)}"]
        if runs[0].stages:
            lines[0] += f": {', '.join(runs[0].stages)}"
        lines += runs[0].schedule.splitlines()
        found[functions[0]] = lines
    return found


__all__ = ["CallData", "KernelCall", "ModuleData", "module_data"]
