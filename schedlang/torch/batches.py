"""A computation over one more axis: the batch of ``torch.vmap``."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from schedlang.autotune.at_once.scheduler import autoschedule
from schedlang.compute.define import finish
from schedlang.compute.facts import facts_of
from schedlang.compute.graph import operations, variables
from schedlang.compute.operations import ComputeOp
from schedlang.compute.read import Read
from schedlang.compute.tensor import PlaceholderOp, Tensor, placeholder, var
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import rewrite
from schedlang.targets.build import build
from schedlang.torch.functions import INTS, Argument, Function, KernelFunction
from schedlang.torch.recent import Recent
from schedlang.torch.shapes import Form, Graph


def batched(graph: Graph, positions: Container[int]) -> Graph | None:
    """Return ``graph`` where the inputs at ``positions`` and all outputs have one more dimension.

    It comes first, and is a size. Return ``None`` for a graph with recurrences, scatters, functions
    of the user or declared facts, which have no such form.
    """
    order = [op for op in operations(graph.outputs) if not isinstance(op, PlaceholderOp)]
    if not all(isinstance(op, ComputeOp) and op.destination is None for op in order):
        return None
    names = {t.name for t in (*graph.inputs, *variables(graph.outputs)) if t is not None}
    size = var(_unused("batch", names))
    tensors: dict[Tensor, Tensor] = {}
    for k, given in enumerate(graph.inputs):
        if k in positions:
            own = cast(Tensor, given)
            if facts_of(own) is not None:
                return None
            tensors[own] = placeholder((size, *own.shape), own.dtype, name=own.name)
    for op in cast("list[ComputeOp]", order):
        if any(t in tensors for t in op.input_tensors) or {*op.outputs} & {*graph.outputs}:
            tensors.update(zip(op.outputs, _with_axis(op, size, tensors)))
    inputs = tuple(tensors.get(t, t) if isinstance(t, Tensor) else t for t in graph.inputs)
    return Graph(inputs, tuple(tensors[t] for t in graph.outputs))


def _with_axis(op: ComputeOp, size: Var, tensors: Mapping[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Return the results of ``op`` over one more axis, along which it reads ``tensors``."""
    axis = Axis(_unused("b", {a.name for a in (*op.axis, *op.reduce_axis)}), size)
    memo: dict[int, Expr] = {}

    def read(node: Expr) -> Expr | None:
        if isinstance(node, Read) and node.tensor in tensors:
            return Read(tensors[node.tensor], (axis, *node.indices), node.dtype, node.weak)
        return None

    def moved(expr: Expr) -> Expr:
        return rewrite(expr, read, memo)

    changed = ComputeOp(
        op.name,
        (axis, *op.axis),
        tuple(map(moved, op.body)),
        op.reduce_axis,
        op.reducer,
        None if op.where is None else moved(op.where),
        None if op.init is None else tuple(map(moved, op.init)),
        limits=op.limits,
    )
    return cast("tuple[Tensor, ...]", finish(changed, len(op.outputs), several=True))


def _unused(name: str, names: Container[str]) -> str:
    while name in names:
        name += "_"
    return name


@dataclass(frozen=True)
class _Element:
    """The shape and the dtype of one element of a batch."""

    shape: tuple[Any, ...]
    dtype: Any


class BatchedFunction(Function):
    """A function over a batch: its last argument lists the positions of the tensors that have one.

    Such a tensor has the batch as its first dimension, and so has each result.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.title = f"{function.title} over a batch"
        self.target = function.target
        self.count = function.count
        names = {a.name for a in function.arguments}
        self.arguments = (*function.arguments, Argument(_unused("batched", names), INTS))
        self._graphs: Recent[tuple[Graph, tuple[int, ...]], Graph | None] = Recent()
        self._kernels: Recent[Graph, KernelFunction] = Recent()

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        return self._kernel(self.graph(args))(self._given(args))

    def forms(self, args: Sequence[Any]) -> list[Form]:
        graph = self.graph(args)
        forms = graph.forms(args)
        return self._kernel(graph).forms(self._given(args)) if forms is None else forms

    def graph(self, args: Sequence[Any]) -> Graph:
        graph = self.graph_of(args[:-1], args[-1])
        assert graph is not None
        return graph

    def graph_of(self, args: Sequence[Any], positions: Sequence[int]) -> Graph | None:
        """Return the computation over a batch, ``None`` if it has no such form."""
        # of one element of the batch, which may have none
        own = [_Element(a.shape[1:], a.dtype) if k in positions else a for k, a in enumerate(args)]
        graph = self.function.graph(own)

        def over_batch() -> Graph | None:
            over = batched(graph, positions)
            # the positions are not an argument of a kernel
            return over and Graph((*over.inputs, None), over.outputs)

        return self._graphs.value((graph, tuple(positions)), over_batch)

    def _given(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments of a kernel."""
        return [a for a, own in zip(args, self.graph(args).inputs) if own is not None]

    def _kernel(self, graph: Graph) -> KernelFunction:
        def built() -> KernelFunction:
            inputs = [t for t in graph.inputs if t is not None]
            schedule = autoschedule(list(graph.outputs), target=self.target)
            kernel = build(schedule, [*inputs, *graph.outputs], target=self.target)
            return KernelFunction(kernel)

        return self._kernels.value(graph, built)
