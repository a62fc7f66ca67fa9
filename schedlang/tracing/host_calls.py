"""The parts of a computation between its calls of NumPy on the host: a kernel, then calls."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.extraction import Subgraph, extract
from schedlang.compute.graph import operations, variables
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.nodes import Var


@dataclass(frozen=True)
class Part:
    """A kernel that computes ``outputs``, and the ``calls`` on the host that come after it.

    The kernel is built for ``graph``, whose outputs stand for ``outputs``. ``known`` has for
    placeholders of ``graph`` the tensors that earlier steps compute.
    """

    graph: Subgraph
    outputs: tuple[Tensor, ...]
    calls: tuple[ExternOp, ...] = ()
    known: Mapping[Any, Tensor] = field(default_factory=dict)


def parts_of(
    results: Sequence[Tensor], given: Container[Any], owners: Mapping[Var, Tensor]
) -> Iterator[Part]:
    """Yield the parts that compute ``results``, of which none is ``given``.

    A part takes a tensor that is given, or that an earlier part computes, as an input. ``owners``
    has a tensor for each extent that a call tells, in the order in which the calls may be made.
    """
    if not results:
        return
    graph = _Graph(results, owners)
    if not graph.calls:
        yield Part(Subgraph(tuple(results)), tuple(results))
        return
    known: set[Tensor] = {t for op in graph.order for t in _outputs(op) if t in given}
    waiting = [op for op in graph.calls if not known.issuperset(op.outputs)]
    while waiting:
        least = min(graph.depths[op] for op in waiting)
        needed = graph.behind(results, known)
        now = [op for op in waiting if graph.depths[op] == least and op in needed]
        waiting = [op for op in waiting if graph.depths[op] > least]
        if not now:
            continue
        asked = dict.fromkeys(t for op in now for t in op.inputs if _is_missing(t, known))
        computed = graph.behind([*asked], known)
        read = {t for op in needed - computed for t in _inputs(op)} | {*results}
        shared = [t for op in graph.separate if op in computed for t in op.outputs if t in read]
        outputs = tuple(dict.fromkeys([*asked, *shared]))
        yield graph.part(computed, outputs, known, now)
        known |= {*outputs, *(t for op in now for t in op.outputs)}
    missing = tuple(t for t in results if _is_missing(t, known))
    if missing:
        yield graph.part(graph.behind(missing, known), missing, known, [])


def _is_missing(tensor: Tensor, known: Container[Tensor]) -> bool:
    return tensor not in known and not isinstance(tensor.op, PlaceholderOp)


def _outputs(op: Operation) -> Sequence[Tensor]:
    return () if isinstance(op, PlaceholderOp) else op.outputs


def _inputs(op: Operation) -> Sequence[Tensor]:
    return () if isinstance(op, PlaceholderOp) else op.input_tensors


class _Graph:
    """The operations behind results, producers first.

    ``depths`` says how many calls an operation waits for, itself among them. Tensors of the
    operations in ``separate`` may be inputs of another kernel, unlike the parts of a scan.
    """

    def __init__(self, results: Sequence[Tensor], owners: Mapping[Var, Tensor]) -> None:
        self.owners = owners
        asked: set[Var] = set()
        tensors = list(results)
        while more := {v for v in variables(tensors) if v in owners} - asked:
            asked |= more
            tensors = [*(t for v, t in owners.items() if v in asked), *results]
        self.order = operations(tensors)
        self.calls = [op for op in self.order if isinstance(op, ExternOp)]
        self.depths: dict[Operation, int] = {}
        for op in self.order:
            before = max((self.depths[t.op] for t in self.inputs(op)), default=0)
            self.depths[op] = before + isinstance(op, ExternOp)
        inside = {
            t.op for op in self.order if isinstance(op, ScanOp) for t in (*op.init, *op.update)
        }
        self.separate = [
            op for op in self.order if op not in inside and not isinstance(op, PlaceholderOp)
        ]

    def inputs(self, op: Operation) -> list[Tensor]:
        """Return what an operation waits for: the tensors that it reads, and owners of extents."""
        sizes = op.variables if isinstance(op, (ComputeOp, ExternOp)) else ()
        own = [self.owners[v] for v in sizes if v in self.owners]
        return [*_inputs(op), *(t for t in own if t.op is not op)]

    def behind(self, tensors: Sequence[Tensor], known: Container[Tensor]) -> set[Operation]:
        """Return the operations that compute ``tensors`` from what is ``known``."""
        ops: set[Operation] = set()
        stack = [t for t in tensors if _is_missing(t, known)]
        while stack:
            op = stack.pop().op
            if op not in ops:
                ops.add(op)
                stack += [t for t in self.inputs(op) if _is_missing(t, known)]
        return ops

    def part(
        self,
        computed: Container[Operation],
        outputs: tuple[Tensor, ...],
        known: Container[Tensor],
        calls: Sequence[ExternOp],
    ) -> Part:
        """Return the kernel of ``computed``, copies that read placeholders for what is known."""
        ops = [op for op in self.order if op in computed]
        read = dict.fromkeys(t for op in ops for t in _inputs(op) if t in known)
        stands = {t: PlaceholderOp(t.name, t.shape, t.dtype).output() for t in read}
        copies = extract(ops, {}, stands)
        graph = Subgraph(tuple(copies[t] for t in outputs))
        return Part(graph, outputs, tuple(calls), {p: t for t, p in stands.items()})
