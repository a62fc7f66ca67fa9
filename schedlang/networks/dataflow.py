"""The stages of a network as nodes, with what a partition asks about each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Union

from schedlang.compute.chunks import extent_of
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import operations, step_operations
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.compute.work import of_point
from schedlang.expr.nodes import Axis, Const, Expr, Select, Var
from schedlang.expr.visit import postorder
from schedlang.state.initial import stage_names

# what a node computes; a "product" reads operands again and again, a "copy" only moves elements, a
# function of the user's computes an "extern"
PRODUCT, REDUCTION, ELEMENTWISE, COPY, SCAN, SCATTER, EXTERN = (
    "product",
    "reduction",
    "elementwise",
    "copy",
    "scan",
    "scatter",
    "extern",
)
Computed = Union[ComputeOp, ScanOp, ExternOp]


@dataclass(frozen=True, eq=False)
class Node:
    """A stage, or a scan with the stages of its first rows and of its steps.

    ``ops`` are its operations, producers first, and ``outputs`` what others may read. ``results``
    is the number of elements of an output, and ``evaluations`` how often the body is evaluated.
    """

    index: int
    name: str
    kind: str
    ops: tuple[Computed, ...]
    outputs: tuple[Tensor, ...]
    results: int
    evaluations: int

    @cached_property
    def reads(self) -> tuple[Tensor, ...]:
        """The tensors of other nodes and inputs that the node reads."""
        own = {t for op in self.ops for t in op.outputs}
        own |= {t for op in self.ops if isinstance(op, ScanOp) for t in op.state}
        operands = dict.fromkeys(t for op in self.ops for t in op.input_tensors)
        return tuple(t for t in operands if t not in own)

    @property
    def is_map(self) -> bool:
        """True if each element is computed on its own, as by an activation or a transpose."""
        return self.kind in (ELEMENTWISE, COPY)

    @cached_property
    def moves_one(self) -> bool:
        """True if each element is one element of another tensor, as in a transpose."""
        op = self.ops[0]
        return self.kind == COPY and isinstance(op, ComputeOp) and isinstance(op.body[0], Read)


@dataclass(frozen=True, eq=False)
class Flow:
    """All nodes of a computation, producers first.

    ``sizes`` are the values of its symbolic sizes, at which nodes are compared.
    """

    outputs: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    sizes: Mapping[Var, int]

    @cached_property
    def node_of(self) -> dict[Tensor, Node]:
        """The node that computes each tensor that others may read."""
        return {t: node for node in self.nodes for t in node.outputs}

    @cached_property
    def names(self) -> dict[Tensor, str]:
        """The name of the stage of each first output."""
        named = stage_names(operations(self.outputs)).items()
        return {op.outputs[0]: name for op, name in named if not isinstance(op, PlaceholderOp)}

    @cached_property
    def readers(self) -> dict[Node, list[Node]]:
        """The nodes that read each node, in order."""
        readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for source in dict.fromkeys(self.node_of[t] for t in node.reads if t in self.node_of):
                readers[source].append(node)
        return readers

    @cached_property
    def results(self) -> frozenset[Node]:
        """The nodes that compute outputs."""
        return frozenset(self.node_of[t] for t in self.outputs if t in self.node_of)

    def elements(self, tensor: Tensor) -> int:
        """Return the number of elements of a tensor."""
        return prod(extent_of(extent, self.sizes) for extent in tensor.shape)


def flow_of(outputs: Sequence[Tensor], sizes: Mapping[Var, int]) -> Flow:
    """Return the nodes of a computation.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> A, W = sl.placeholder((8, 16), name="A"), sl.placeholder((4, 16), name="W")
    >>> flow = flow_of([topi.nn.relu(topi.nn.dense(A, W))], {})
    >>> [(node.name, node.kind, node.results) for node in flow.nodes]
    [('dense', 'product', 32), ('relu', 'elementwise', 32)]
    """
    ops = operations(outputs)
    names = stage_names(ops)
    inside: dict[Operation, ScanOp] = {}
    steps: dict[ScanOp, list[Computed]] = {}
    for op in ops:
        if isinstance(op, ScanOp):
            own = {t.op for t in (*op.init, *op.update)} | {*step_operations(op)}
            inside.update(dict.fromkeys(own, op))
            steps[op] = []
    for op in ops:
        if op in inside and isinstance(op, (ComputeOp, ScanOp)):
            steps[inside[op]].append(op)
    nodes: list[Node] = []
    for op in ops:
        if isinstance(op, PlaceholderOp) or op in inside:
            continue
        place, name = len(nodes), names[op]
        if isinstance(op, (ScanOp, ExternOp)):
            most = max(prod(extent_of(e, sizes) for e in t.shape) for t in op.outputs)
            whole, kind = ((*steps[op], op), SCAN) if isinstance(op, ScanOp) else ((op,), EXTERN)
            nodes.append(Node(place, name, kind, whole, op.outputs, most, most))
        else:
            results, points = (
                prod(extent_of(a.extent, sizes) for a in axes) for axes in (op.axis, op.domain)
            )
            kind = kind_of(op)
            nodes.append(Node(place, name, kind, (op,), op.outputs, results, points))
    return Flow(tuple(outputs), tuple(nodes), sizes)


def kind_of(op: ComputeOp) -> str:
    """Return what an operation computes.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> A, W = sl.placeholder((1, 8, 9, 9), name="A"), sl.placeholder((8, 1, 3, 3), name="W")
    >>> made = (topi.nn.depthwise_conv2d_nchw(A, W, 2, 0, 1), topi.nn.global_pool(A, "max"),
    ...         topi.nn.relu(A), topi.transpose(A))
    >>> [kind_of(tensor.op) for tensor in made]
    ['product', 'reduction', 'elementwise', 'copy']
    """
    if op.destination is not None:
        return SCATTER
    if op.reducer is not None:
        return PRODUCT if _is_product(op) else REDUCTION
    return COPY if _only_moves(op) else ELEMENTWISE


def _is_product(op: ComputeOp) -> bool:
    """Return whether a reduction combines two operands, one of which is read again and again.

    Both change along the reduction, but one does not change along a data axis of the other, as in a
    product of matrices, a product with a vector or a convolution.
    """
    reduced = {axis for axis in op.reduce_axis if _is_long(axis)}
    data = {axis for axis in op.axis if _is_long(axis)}
    pairs: set[frozenset[Axis]] = set()
    for read in _values_read(op.body):
        axes = {node for node in postorder(read.indices) if isinstance(node, Axis)}
        if axes & reduced:
            pairs.add(frozenset(axes & data))
    return len(pairs) > 1


def _is_long(axis: Axis) -> bool:
    return not isinstance(axis.extent, int) or axis.extent > 1


def _values_read(roots: Sequence[Expr]) -> Iterator[Read]:
    """Yield the reads whose values are used, without those that compute an index."""
    stack, seen = list(roots), set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Read):
            yield node
        else:
            stack.extend(node.children)


def _only_moves(op: ComputeOp) -> bool:
    """Return whether each element is one of another tensor, or a constant, whatever the data."""
    if len(op.body) > 1:
        return False
    if not op.input_tensors:
        return of_point(op) == 0 and not any(isinstance(n, Var) for n in postorder(op.body))
    stack: list[Expr] = [op.body[0]]
    while stack:
        node = stack.pop()
        if isinstance(node, Select):
            if any(isinstance(inner, Read) for inner in postorder([node.cond])):
                return False
            stack += [node.a, node.b]
        elif isinstance(node, Read):
            if any(isinstance(inner, Read) for inner in postorder(node.indices)):
                return False
        elif not isinstance(node, Const):
            return False
    return True
