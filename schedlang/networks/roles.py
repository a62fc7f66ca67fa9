"""The tensors of a network by what they are: arguments, parameters, or stored between calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from typing import Optional, Union

from schedlang.codegen.network_file import Between
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Var
from schedlang.gpu_lowering.program import Program
from schedlang.index.simplify import simplify, to_lin
from schedlang.ir.arguments import sizes_of
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer
from schedlang.machine.identifiers import identifier
from schedlang.machine.nest import MachineNest
from schedlang.machine.scratch import BYTES, Scratch
from schedlang.networks.memory import Lifetime
from schedlang.networks.size_checks import SizeCheck
from schedlang.networks.sized_memory import SizedMemory
from schedlang.runtime.parameters import Signature
from schedlang.runtime.signature import signature_of

Given = Union[Tensor, Var]


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A call of a kernel in a network.

    ``nest`` and ``signature`` are the kernel's, as :func:`schedlang.build` makes them.
    ``args`` are the tensors of the network (and scalars) that it is given for the parameters of the
    signature. ``stages`` and ``layers`` are what it computes, and ``schedule`` is a phrase that
    says where its schedule comes from, for comments. ``check`` is what a call checks of the kernel
    against its sizes. ``program`` has the launches of a kernel for a GPU. ``notes`` are further
    comments.
    """

    name: str
    nest: MachineNest
    signature: Signature
    args: tuple[Given, ...]
    stages: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    schedule: str = ""
    check: Optional[SizeCheck] = None
    program: Optional[Program] = None
    notes: tuple[str, ...] = ()


class Roles:
    """The tensors of a network by what they are, each with a name of its own.

    ``written`` and ``last`` are the calls that write it, and that use it last.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Given],
        outputs: Sequence[Tensor],
        params: Sequence[Tensor],
        calls: Sequence[KernelCall],
    ) -> None:
        self.name, self.calls = name, calls
        self.inputs, self.outputs, self.params = inputs, outputs, params
        self._param_names = param_names(params)
        self._names: dict[Hashable, str] = {}
        self._taken: set[str] = set()
        self.written: dict[Tensor, int] = {}
        self.last: dict[Tensor, int] = {}
        self.sizes = _sizes((*inputs, *outputs))
        for given in (*inputs, *outputs):
            self.named(given)
        self._check()
        known = {*inputs, *params}
        for position, call in enumerate(calls):
            self._call(position, call, known)
        for tensor in outputs:
            if tensor not in self.written:
                raise self.error(f"nothing computes its output {tensor.name}")

    def named(self, given: Given) -> str:
        """Return the name of a tensor or a scalar, which no other one has but a parameter."""
        known = self._param_names.get(given) if isinstance(given, Tensor) else None
        return known or self._named(given, given.name)

    def _named(self, key: Hashable, wanted: str) -> str:
        if key not in self._names:
            self._names[key] = _fresh(wanted, self._taken)
        return self._names[key]

    def buffer(self, given: Given) -> Buffer | Var:
        """Return the argument of a nest for a tensor or a scalar."""
        if isinstance(given, Var):
            return given
        return Buffer(self.named(given), given.dtype, given.shape, tensor=given)

    def error(self, why: str) -> BuildError:
        return BuildError(f"module of network {self.name}: {why}")

    def _check(self) -> None:
        given = [t for t in (*self.inputs, *self.outputs, *self.params) if isinstance(t, Tensor)]
        params = set(self.params)
        for tensor, times in Counter(given).items():
            if times > 1:
                raise self.error(
                    f"{tensor.name} stands twice among its inputs, outputs and params; give a copy "
                    "a stage of its own"
                )
        tensors = [*given, *(t for c in self.calls for t in c.args if isinstance(t, Tensor))]
        known = {*self.sizes, *(v for v in self.inputs if isinstance(v, Var))}
        for tensor in tensors:
            for extent in tensor.shape:
                if isinstance(extent, int):
                    continue
                if tensor in params:
                    raise self.error(
                        f"its parameter {tensor.name} has the extent {extent}, but extents "
                        "of parameters are numbers"
                    )
                if any(isinstance(v, Var) and v not in known for v in to_lin(extent).leaves()):
                    raise self.error(
                        f"{tensor.name} has the extent {extent}, which no input determines; make "
                        "its size an input (sl.var)"
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
                # the extents of a kernel are simplified
                shape = tuple(e if isinstance(e, int) else str(simplify(e)) for e in given.shape)
                if (p.dtype, p.shape) != (given.dtype, shape):
                    raise self.error(
                        f"part {call.name} takes {p}, but {given.name} is {given.dtype}"
                        f"[{', '.join(map(str, given.shape))}]"
                    )
                self.last[given] = position
            if not p.is_output:
                if given not in known and given not in self.sizes:
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
    def checks(self) -> tuple[SizeCheck, ...]:
        """The checks of the kernels against the sizes of a call, one for each kernel."""
        # equal kernels share the object
        checks = {id(call.check): call.check for call in self.calls if call.check is not None}
        return tuple(checks.values())

    @property
    def stored(self) -> list[Tensor]:
        """The tensors in the arena, in the order in which they are written."""
        outputs = set(self.outputs)
        return [t for t in self.written if t not in outputs]

    def lifetimes(self, kernels: Sequence[Scratch]) -> tuple[list[Lifetime], list[tuple[str, str]]]:
        """Return what the arena holds, and what may take over the memory of what."""
        lifetimes = [
            Lifetime(self.named(t), bytes_of(t), self.written[t], self.last[t]) for t in self.stored
        ]
        return [*lifetimes, *self.scratch(kernels)], self.in_place()

    def scratch(self, kernels: Sequence[Scratch]) -> list[Lifetime]:
        """Return the storage that kernels are given, during their calls."""
        return [
            Lifetime(self.scratch_name(position), kernel.shared, position, position)
            for position, kernel in enumerate(kernels)
            if kernel.shared
        ]

    def in_place(self) -> list[tuple[str, str]]:
        """Return pairs of stored tensors; the first of a pair may be written over the second."""
        pairs: list[tuple[str, str]] = []
        stored = set(self.stored)
        for call in self.calls:
            for out, given in sorted(call.signature.in_place):
                a, b = call.args[out], call.args[given]
                # the nest allows it for each of its arguments, so the tensor must be given once
                if a in stored and b in stored and sum(t is b for t in call.args) == 1:
                    pairs.append((self._names[a], self._names[b]))
        return pairs

    def sized(self, nest: Nest, kernels: Sequence[Scratch]) -> SizedMemory:
        """Return what the arena holds at the sizes of a call, whose arguments are ``nest``'s."""
        stored = self.stored
        args = (*nest.args, *(self.buffer(t) for t in stored))
        whole = replace(nest, args=args)
        lives = tuple((self.written[t], self.last[t]) for t in stored)
        signature = signature_of(whole, frozenset())
        tensors = signature.parameters[len(nest.args) :]
        return SizedMemory(
            replace(signature, parameters=()),
            tensors,
            lives,
            tuple(self.scratch(kernels)),
            tuple(self.in_place()),
        )

    def between(self, memory: SizedMemory) -> list[Between]:
        """Return the arrays of the arena in the order of ``memory``, for the text of a file."""
        buffers = [Buffer(self.named(t), t.dtype, t.shape) for t in self.stored]
        between = [Between(b, *lives) for b, lives in zip(buffers, memory.lives)]
        return between + [
            Between(Buffer(s.name, BYTES, (s.bytes,)), s.first, s.last) for s in memory.scratch
        ]

    def scratch_name(self, position: int) -> str:
        wanted = f"{identifier(self.calls[position].name)}_scratch"
        return self._named(("scratch", position), wanted)


def param_names(params: Sequence[Tensor]) -> dict[Tensor, str]:
    """Return the names of parameters in a module: their own, and ``_1`` behind a second one.

    >>> import schedlang as sl
    >>> w, b, other = (sl.placeholder((2,), name=name) for name in "wbw")
    >>> list(param_names([w, b, other]).values())
    ['w', 'b', 'w_1']
    """
    names: set[str] = set()
    return {tensor: _fresh(tensor.name, names) for tensor in params}


def _fresh(wanted: str, names: set[str]) -> str:
    """Return ``wanted``, or with a number behind it, and add it to the names that are ``taken``."""
    name = next(n for n in _numbered(wanted) if n not in names)
    names.add(name)
    return name


def _sizes(args: Sequence[Given]) -> tuple[Var, ...]:
    """Return the sizes that the shapes of ``args`` determine, in the order in which they appear."""
    determined = sizes_of(args)
    extents = (e for a in args if isinstance(a, Tensor) for e in a.shape if not isinstance(e, int))
    leaves = (leaf for extent in extents for leaf in to_lin(extent).leaves())
    return tuple(dict.fromkeys(v for v in leaves if isinstance(v, Var) and v in determined))


def _numbered(name: str) -> Iterator[str]:
    """Yield ``name``, and then with 1, 2, ... behind it."""
    yield name
    for number in count(1):
        yield f"{name}_{number}"


def bytes_of(tensor: Tensor) -> int:
    """Return the bytes of a tensor whose extents are numbers."""
    return prod(shape_of(tensor)) * itemsize(tensor.dtype)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of a tensor whose extents are numbers."""
    shape = tuple(extent for extent in tensor.shape if isinstance(extent, int))
    assert len(shape) == len(tensor.shape)
    return shape
