"""The kernel of a serial loop."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Union

from schedlang.compute.tensor import Tensor
from schedlang.errors import SchedlangError, first_line
from schedlang.expr.nodes import Var
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, Stmt, expressions, walk
from schedlang.ir.rewrite import replace_statements, with_each
from schedlang.lowering.loop_names import loop_names
from schedlang.runtime.kernel import Kernel
from schedlang.target import Target
from schedlang.targets.build import kernel_of_nest
from schedlang.tracing.recurrence import same_value
from schedlang.tracing.serial.elements import with_local_elements
from schedlang.tracing.serial.nest import LARGE, copied, element_of, filling, loop_of
from schedlang.tracing.serial.order import NotInKernel, behind, order_of, title_of
from schedlang.tracing.serial.segments import Maker, Names
from schedlang.tracing.serial.simpler import simpler
from schedlang.tracing.spans import likely
from schedlang.tracing.trace import HostLoop, run_as_current


@dataclass(frozen=True)
class SerialKernel:
    """A kernel that runs a loop.

    It takes what the loop reads, the first values of the carries at the positions ``given``, the
    tensors of which ``elements`` are the first values of others, and the ``scalars``. The carries
    at the positions ``moving`` are its results; it makes the first values of some of them itself.
    """

    kernel: Kernel
    scalars: tuple[Var, ...]
    given: tuple[int, ...]
    elements: tuple[Tensor, ...]
    moving: tuple[int, ...]


def refusal(loop: HostLoop) -> str:
    """Return why no kernel can run a loop, or an empty text.

    The schedules of its stages may show another reason.
    """
    try:
        _check(loop)
    except NotInKernel as why:
        return str(why)
    return ""


def _check(loop: HostLoop) -> None:
    with run_as_current(loop.body):
        for tensor in (*(t for _, t in loop.read), *(c.entering for c in loop.carries)):
            if any(likely(e) is None for e in tensor.shape):
                raise NotInKernel(f"{tensor.name} has a size that only a call knows")
        order = order_of(loop)
    for event in order.events:
        behind(event.needs, order.slot_of)
    for inner in loop.body.loops:
        _check(inner)


def serial_kernel(
    loop: HostLoop, known: Container[Any], name: str, target: Target, compiler: str
) -> SerialKernel:
    """Return the kernel of a loop, whose scalars are among the ``known``.

    Raise :class:`NotInKernel` if it has none.
    """
    try:
        nest, scalars, given, elements, places = _nest(loop, known, name, target, compiler)
    except SchedlangError as error:
        raise NotInKernel(first_line(error)) from None
    if not all(v in known for v in scalars):
        raise NotInKernel("it has a size that only a call knows")
    try:
        kernel = kernel_of_nest(nest, target, compiler)
        # it is made when it is needed, and may raise
        kernel.machine_nest  # noqa: B018
    except SchedlangError as error:
        raise NotInKernel(first_line(error)) from None
    return SerialKernel(kernel, scalars, given, elements, places)


def _nest(
    loop: HostLoop, known: Container[Any], name: str, target: Target, compiler: str
) -> tuple[Nest, tuple[Var, ...], tuple[int, ...], tuple[Tensor, ...], tuple[int, ...]]:
    names = Names()
    where: dict[Tensor, Buffer] = {}
    inputs: list[Buffer] = []
    for value, tensor in loop.read:
        buffer = _argument(names, value, tensor)
        where[tensor] = buffer
        inputs.append(buffer)
    # what the loop reads, by its name around the loop
    around = {value: where[tensor] for value, tensor in loop.read if isinstance(value, Tensor)}
    elements: dict[Tensor, Buffer] = {}
    outputs: list[Buffer] = []
    copies: list[Stmt] = []
    given = []
    places = []
    for k, c in enumerate(loop.carries):
        is_fixed = same_value(c.leaving, c.entering)
        source = None if is_fixed else element_of(c.start)
        if source is not None and source in known and source not in around:
            elements[source] = around[source] = _argument(names, source, source)
        filled = None if is_fixed else filling(c.start, around)
        if filled is None:
            first = _argument(names, c.start, c.entering)
            inputs.append(first)
            given.append(k)
        if is_fixed:
            where[c.entering] = first
            continue
        own = Buffer(names.fresh(title_of(loop, c)), c.entering.dtype, tuple(c.entering.shape))
        where[c.entering] = own
        outputs.append(own)
        copy = copied(first, own, own.name) if filled is None else filled(own)
        # an element is read before an array that may be the same one is written
        copies.insert(len(copies) if own.shape else 0, copy)
        places.append(k)
    maker = Maker(target, compiler, names)
    body = loop_of(maker, loop, where)
    block = simpler(with_large_first(Block((*copies, body))))
    block = with_local_elements(block, outputs, names)
    used = {
        node
        for stmt, _ in walk(block)
        for node in postorder(expressions(stmt))
        if isinstance(node, Var)
    }
    scalars = tuple(sorted(used, key=lambda v: v.name))
    args: tuple[Union[Buffer, Var], ...] = (*inputs, *elements.values(), *scalars, *outputs)
    taken = names.taken | {v.name for v in scalars}
    return (
        Nest(
            name, args, tuple(outputs), block, (), loop_names(block, taken), remarks=maker.remarks
        ),
        scalars,
        tuple(given),
        tuple(elements),
        tuple(places),
    )


def _argument(names: Names, value: Any, tensor: Tensor) -> Buffer:
    title = value.name if isinstance(value, Tensor) else tensor.name
    return Buffer(names.fresh(title), tensor.dtype, tuple(tensor.shape))


def with_large_first(block: Block) -> Block:
    """Return a block with storage that is large, or may be, allocated once, before all loops."""
    large: list[Stmt] = []

    def change(stmt: Stmt) -> Sequence[Stmt]:
        if isinstance(stmt, Alloc) and (stmt.buffer.bytes is None or stmt.buffer.bytes >= LARGE):
            large.append(stmt)
            return ()
        if getattr(stmt, "kind", "") in ("parallel", "vectorize"):
            return (stmt,)
        return (with_each(stmt, change),)

    rest = replace_statements(block, change)
    return Block((*large, *rest.stmts))
