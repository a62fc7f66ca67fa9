"""``sl.graph``: the stages of a computation or a schedule as a ``networkx.DiGraph``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from schedlang.analysis.closed_forms import bytes_of, length_of
from schedlang.analysis.points import Counter
from schedlang.analysis.points_of_stage import (
    reads_with_conditions,
    stage_flops,
    stage_reads,
)
from schedlang.analysis.subject import Subject, subject_of
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import first_computed_rows, operations
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Extent, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.nodes import Expr
from schedlang.index.conjunctions import narrow
from schedlang.index.linear import ZERO, Lin, Opaque
from schedlang.index.ranges import Ranges
from schedlang.index.relax import lower, upper
from schedlang.index.rules import extreme
from schedlang.index.simplify import to_lin
from schedlang.signatures import public
from schedlang.state.initial import initial_state
from schedlang.state.placement import place
from schedlang.state.state import At, Inline, Stage, State


@public
def graph(what: Any) -> Any:
    """Return the stage graph of ``what`` as a ``networkx.DiGraph``; edges lead to consumers.

    ``what`` is a tensor, a list of outputs, a schedule, or a kernel made from one. The key of a
    stage is its printed name, so that ``s[key]`` finds it. The key of an input is its name, with
    ``_1`` appended if a stage has that name. Node attributes:

    * ``tensor``, ``name``, ``shape``, ``dtype`` of the first output; ``tensors`` holds all
      outputs,
    * ``bytes``: the bytes of all outputs,
    * ``work``: the flops of computing the stage once, as ``sl.cost`` counts them,
    * ``kind``: ``"placeholder"``, ``"state"`` (of a scan), ``"compute"``, ``"reduce"``,
      ``"scan"``,
    * ``output``: true for an output of the computation.

    For a schedule, a node also has ``computed``, which is ``"input"``, ``"root"``, ``"inline"`` or
    ``"at"``; in the last case, ``at`` holds the names of stage and axis. ``scope`` is the scope
    that was set. ``made`` is true for stages that a step added, such as a cache. Edge attributes:

    * ``accesses``: the distinct read expressions; ``text``: the same as strings,
    * ``reads``: the number of elements read when the consumer is computed once,
    * ``bytes``: the bytes of a box that holds the elements read. Conditions on one axis shrink
      the box, others do not; a gather counts the whole dimension.

    A scan reads nothing itself: its init and updates are stored as its rows. The state of a scan is
    a node of its own, so that the graph has no cycle.

    ``work``, ``bytes`` and ``reads`` are ints if sizes are numbers, else sympy expressions.
    networkx takes ints as weights (``nx.dag_longest_path(g, weight="bytes")``), and draws the graph
    (``nx.draw_networkx(g)``; :func:`schedlang.plot.stages` draws it with shapes and bytes). Before
    an export to a format that stores text and numbers alone, such as GraphML, remove ``tensor``,
    ``tensors``, ``shape``, ``at`` and ``accesses``.

    Raise :class:`~schedlang.errors.ComputeTypeError` for any other argument.

    >>> import schedlang as sl
    >>> A = sl.placeholder((8,), name="A")
    >>> B = sl.compute((8,), lambda i: A[i] * 2, name="B")
    >>> g = graph(sl.compute((6,), lambda i: B[i] + B[i + 2], name="C"))
    >>> list(g.edges), g.nodes["B"]["work"], g.edges["B", "C"]["text"]
    ([('A', 'B'), ('B', 'C')], 8, ('B[i]', 'B[i + 2]'))
    """
    subject = subject_of(what, "sl.graph")
    inputs = [t for t in subject.outputs if isinstance(t.op, PlaceholderOp)]
    state = subject.state or initial_state(subject.outputs)
    builder = _Graph(state, subject)
    for tensor in inputs:
        builder.key(tensor)
    for stage in state.stages.values():
        builder.stage(stage)
    builder.finish()
    return builder.graph


@dataclass(eq=False)
class _Graph:
    """A graph under construction."""

    state: State
    subject: Subject
    graph: Any = field(default_factory=nx.DiGraph)
    keys: dict[Tensor, str] = field(default_factory=dict)
    counter: Counter = field(default_factory=lambda: Counter(names=None))

    def __post_init__(self) -> None:
        ops = operations(self.state.outputs)
        self.rows: dict[ComputeOp, Extent] = first_computed_rows(ops, self.state.outputs)
        self.own = {t for op in ops for t in getattr(op, "outputs", ())}
        self.states = {t: op.name for op in ops if isinstance(op, ScanOp) for t in op.state}
        scheduled = self.subject.state is not None
        self.attach = dict(place(self.state).attach) if scheduled else None
        self.taken = set(self.state.stages)

    def key(self, tensor: Tensor) -> str:
        """Return the key of the node of ``tensor``; add the node at the first use of an input."""
        stage = self.state.defined.get(tensor)
        if stage is not None:
            return stage
        if tensor not in self.keys:
            name, count = tensor.name, 0
            while name in self.taken:
                count += 1
                name = f"{tensor.name}_{count}"
            self.taken.add(name)
            self.keys[tensor] = name
            kind = "state" if tensor in self.states else "placeholder"
            place_ = {"scope": "global", "made": False, "computed": "input", "at": None}
            self._node(name, (tensor,), kind, 0, place_)
        return self.keys[tensor]

    def stage(self, stage: Stage) -> None:
        op = stage.op
        for tensor in op.input_tensors:
            self.key(tensor)
        declared = stage.outputs[0].op
        first = self.rows.get(declared, 0) if isinstance(declared, ComputeOp) else 0
        work: Any = 0
        if isinstance(op, ComputeOp):
            work = stage_flops(op, self.counter, first)
        elif isinstance(op, ExternOp) and op.flops is not None:
            work = length_of(to_lin(op.flops))
        kind = "scan" if isinstance(op, ScanOp) else "extern"
        if isinstance(op, ComputeOp):
            kind = "reduce" if op.reducer else "compute"
        self._node(stage.name, stage.outputs, kind, _plain(work), self._place(stage))
        if not isinstance(op, ComputeOp):
            for tensor in op.input_tensors:
                self._edge(tensor, stage.name, (), 0, _bytes(tensor))
            return
        counts = stage_reads(op, self.counter, first)
        distinct: dict[Any, Read] = {}
        for read in reads(op.roots):
            distinct.setdefault((read.tensor, *map(to_lin, read.indices)), read)
        reads_by_source: dict[str, list[Read]] = {}
        for read in distinct.values():
            reads_by_source.setdefault(self.key(read.tensor), []).append(read)
        ranges = Ranges()
        for axis in (*op.axis, *op.reduce_axis):
            low = to_lin(axis.lo)
            if op.axis and axis is op.axis[0]:
                low = low + to_lin(first)
            ranges.known[axis] = (low, to_lin(axis.lo) + to_lin(axis.extent) - 1)
        within: dict[Tensor, list[tuple[Read, Ranges]]] = {}
        for read, conditions in reads_with_conditions(op):
            inside = narrow(ranges, conditions) if conditions else ranges
            if inside is not None:
                within.setdefault(read.tensor, []).append((read, inside))
        for accesses in reads_by_source.values():
            tensors = dict.fromkeys(read.tensor for read in accesses)
            moved = sum(_box_bytes(t, within.get(t, []), ranges) for t in tensors)
            count = sum(counts.get(t, 0) for t in tensors)
            self._edge(accesses[0].tensor, stage.name, tuple(accesses), count, moved)

    def _place(self, stage: Stage) -> dict[str, Any]:
        if self.attach is None:
            return {}
        location = self.attach[stage.name]
        computed = "at" if isinstance(location, At) else "root"
        computed = "inline" if isinstance(location, Inline) else computed
        at = (location.stage, location.axis.name) if isinstance(location, At) else None
        added = not any(t in self.own for t in stage.outputs)
        return {"scope": stage.scope, "made": added, "computed": computed, "at": at}

    def _node(
        self, key: str, tensors: Sequence[Tensor], kind: str, work: Any, place_: dict[str, Any]
    ) -> None:
        first = tensors[0]
        self.graph.add_node(
            key,
            tensor=first,
            tensors=tuple(tensors),
            name=key,
            shape=first.shape,
            dtype=first.dtype,
            bytes=_plain(sum(_bytes(t) for t in tensors)),
            work=work,
            kind=kind,
            output=any(t in self.subject.outputs for t in tensors),
            **(place_ if self.attach is not None else {}),
        )
        if kind == "state":
            self.graph.nodes[key]["scan"] = self.states[first]

    def _edge(
        self, source: Tensor, reader: str, accesses: tuple[Read, ...], count: Any, moved: Any
    ) -> None:
        self.graph.add_edge(
            self.key(source),
            reader,
            accesses=accesses,
            text=tuple(str(r) for r in accesses),
            reads=_plain(count),
            bytes=_plain(moved),
        )

    def finish(self) -> None:
        nodes = self.graph.nodes
        self.graph.graph["inputs"] = tuple(k for k in nodes if nodes[k]["kind"] == "placeholder")
        self.graph.graph["outputs"] = tuple(
            dict.fromkeys(self.key(t) for t in self.subject.outputs)
        )


def _bytes(tensor: Tensor) -> Any:
    return bytes_of([to_lin(extent) for extent in tensor.shape], tensor.dtype)


def _box_bytes(tensor: Tensor, accesses: Sequence[tuple[Read, Ranges]], ranges: Ranges) -> Any:
    """Return the bytes of a box of ``tensor`` that holds all ``accesses`` in their ranges."""
    extents = []
    for position, extent in enumerate(tensor.shape):
        size = to_lin(extent)
        low, high = size, ZERO
        for read, inside in accesses:
            first, last = _span(read.indices[position], size, inside)
            low, high = extreme("min", [low, first], ranges), extreme("max", [high, last], ranges)
        length = extreme("max", [high - low, ZERO], ranges)
        extents.append(length)
    return bytes_of(extents, tensor.dtype)


def _span(index: Expr, size: Lin, ranges: Ranges) -> tuple[Lin, Lin]:
    """Return the range, as first index and end, within which ``index`` stays."""
    lin = to_lin(index, ranges=ranges)
    if any(isinstance(leaf, Opaque) for leaf in lin.leaves()):
        return ZERO, size
    low, high = lower(lin, ranges), upper(lin, ranges)
    first = ZERO if low is None else extreme("max", [low, ZERO], ranges)
    last = size if high is None else extreme("min", [high + 1, size], ranges)
    return first, last


def _plain(value: Any) -> Any:
    """Return a sympy integer as an ``int``, and any other value unchanged."""
    return int(value) if isinstance(value, int) or value.is_Integer else value


__all__ = ["graph"]
