"""Some operations of a graph as a computation of their own, which reads placeholders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import placeholders
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import rewrite


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A part of a graph as a computation of its own: its ``outputs``, which read placeholders."""

    outputs: tuple[Tensor, ...]

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """The placeholders that it reads, in the order of a kernel's arguments."""
        return tuple(placeholders(self.outputs))


def extract(
    ops: Sequence[Operation],
    names: Mapping[Tensor, str],
    given_tensors: Mapping[Tensor, Tensor] | None = None,
) -> dict[Tensor, Tensor]:
    """Return the outputs of copies of ``ops``, and what stands for the tensors that they read.

    ``ops`` are in order, producers first. A copy reads the copies of others; any other computed
    tensor becomes a placeholder, and an input itself is kept. ``known`` has tensors to read in
    place of others. An operation and a placeholder are named by ``names`` where these have a name
    for the (first) tensor. The keys are the tensors of the whole graph. A scan needs the operations
    of its first rows and of its steps among ``ops``.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: A[i] + 1, name="B")
    >>> C = sl.compute((4,), lambda i: B[i] * A[i], name="C")
    >>> copies = extract([C.op], {C: "product"})
    >>> copies[C], copies[B].op.input_tensors, copies[A] is A
    (Tensor(product: float32[4]), [], True)
    """
    tensors: dict[Tensor, Tensor] = dict(given_tensors or {})
    for op in ops:
        if isinstance(op, PlaceholderOp):
            continue
        for tensor in op.input_tensors:
            if tensor not in tensors:
                tensors[tensor] = _placeholder(tensor, names)
        twin = _twin(op, tensors, names)
        outputs = tuple(
            Tensor(name_of(t, names), t.shape, t.dtype, twin, t.value_index) for t in op.outputs
        )
        twin.outputs = outputs
        tensors.update(zip(op.outputs, outputs))
    return tensors


def _twin(
    op: ComputeOp | ScanOp | ExternOp, copies: Mapping[Tensor, Tensor], names: Mapping[Tensor, str]
) -> ComputeOp | ScanOp | ExternOp:
    if isinstance(op, ExternOp):
        return replace(op.reading(copies), name=_op_name(op, names), outputs=())
    return _scan(op, copies, names) if isinstance(op, ScanOp) else _compute(op, copies, names)


def _compute(
    op: ComputeOp, copies: Mapping[Tensor, Tensor], names: Mapping[Tensor, str]
) -> ComputeOp:
    memo: dict[int, Expr] = {}
    swap: dict[Expr, Expr] = {}

    def copied(node: Expr) -> Expr | None:
        if isinstance(node, Read):
            new = copies.get(node.tensor, node.tensor)
            return None if new is node.tensor else Read(new, node.indices, node.dtype, node.weak)
        return swap.get(node) if isinstance(node, Axis) else None

    def copy(root: Expr) -> Expr:
        return rewrite(root, copied, memo)

    for axis in op.reduce_axis:
        ends = [e for e in axis.bounds or () if isinstance(e, Expr)]
        if any(copies.get(read.tensor, read.tensor) is not read.tensor for read in reads(ends)):
            assert axis.bounds is not None
            low, high = (copy(e) if isinstance(e, Expr) else e for e in axis.bounds)
            swap[axis] = replace(axis, bounds=(low, high))
            # ends of later axes may depend on this one
            memo.clear()

    def axes(given: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(new if isinstance(new := swap.get(a, a), Axis) else a for a in given)

    return replace(
        op,
        name=_op_name(op, names),
        body=tuple(map(copy, op.body)),
        reduce_axis=axes(op.reduce_axis),
        where=None if op.where is None else copy(op.where),
        init=None if op.init is None else tuple(map(copy, op.init)),
        destination=None if op.destination is None else tuple(map(copy, op.destination)),
        outputs=(),
    )


def _scan(op: ScanOp, copies: Mapping[Tensor, Tensor], names: Mapping[Tensor, str]) -> ScanOp:
    return replace(
        op,
        name=_op_name(op, names),
        init=tuple(copies[t] for t in op.init),
        update=tuple(copies[t] for t in op.update),
        state=tuple(copies.get(t, t) for t in op.state),
        inputs=tuple(copies[t] for t in op.inputs if t in copies),
        outputs=(),
    )


def _op_name(op: ComputeOp | ScanOp | ExternOp, names: Mapping[Tensor, str]) -> str:
    return names.get(op.outputs[0], op.name)


def name_of(tensor: Tensor, names: Mapping[Tensor, str]) -> str:
    """Return the name of a tensor in a computation whose stages have ``names``.

    The keys of ``names`` are the first outputs of stages.
    """
    op = tensor.op
    if isinstance(op, PlaceholderOp):
        return names.get(tensor, tensor.name)
    # of several outputs, the names end in .v0, .v1, ...
    return names.get(op.outputs[0], op.name) + tensor.name.removeprefix(op.name)


def _placeholder(tensor: Tensor, names: Mapping[Tensor, str]) -> Tensor:
    """Return an input of the same shape; an input itself is kept."""
    if isinstance(tensor.op, PlaceholderOp):
        return tensor
    return PlaceholderOp(name_of(tensor, names), tensor.shape, tensor.dtype).output()
