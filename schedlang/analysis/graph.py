"""``sl.graph``: the stages of a computation or a schedule as a ``networkx.DiGraph``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from schedlang.analysis.closed import as_sympy
from schedlang.analysis.points import Counter
from schedlang.analysis.points_of_stage import stage_flops, stage_reads
from schedlang.analysis.subject import Subject, subject_of
from schedlang.compute.graph import first_rows, operations
from schedlang.compute.tensor import ComputeOp, Extent, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.expr.interval import Ranges, lower, upper
from schedlang.expr.linear import ZERO, Lin, Opaque
from schedlang.expr.nodes import Expr, Read
from schedlang.expr.rules import extreme
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import reads
from schedlang.lowering.placement import place
from schedlang.stage.start import initial_state
from schedlang.stage.state import At, Inline, Stage, State


def graph(what: Any) -> Any:
    """Return the stage graph of ``what`` as a ``networkx.DiGraph``, edges producer to consumer.

    ``what`` is a tensor, a list of outputs, a schedule, or a kernel made from one. A node's key is
    its printed name: that of a stage in the schedule, so that ``s[key]`` finds it, and that of an
    input, with ``_1`` behind it where a stage has the name. Node attributes:

    * ``tensor``, ``name``, ``shape``, ``dtype``; of a stage with several outputs those of the
      first, and ``tensors`` has all,
    * ``bytes`` of all its outputs, ``work``: its flops as ``sl.cost`` counts them, computed once,
    * ``kind``: ``"placeholder"``, ``"state"`` (of a scan), ``"compute"``, ``"reduce"``,
      ``"scan"``,
    * ``output``: whether it is asked for.

    Of a schedule, a node also has ``computed``: ``"input"``, ``"root"``, ``"inline"`` or
    ``"at"``, with ``at`` the names of stage and axis then; ``scope`` as set; and ``made``, true
    for stages that a step added, such as a cache. Edge attributes:

    * ``accesses``: the read expressions, and ``text``: the same as strings,
    * ``reads``: how many elements are read when the consumer is computed once,
    * ``bytes`` of the smallest box that holds what is read, a whole dimension for a gather.

    A scan reads nothing itself: its first rows and updates are stored as its rows.

    ``work``, ``bytes`` and ``reads`` are ints where sizes are numbers, else sympy expressions. The
    state of a scan is a node of its own, so that the graph has no cycle: its rows are the scan's.

    Raise :class:`~schedlang.errors.ComputeTypeError` for anything else.

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
    made = _Graph(state, subject)
    for tensor in inputs:
        made.key(tensor)
    for stage in state.stages.values():
        made.stage(stage)
    made.finish()
    return made.graph


@dataclass(eq=False)
class _Graph:
    """A graph in the making."""

    state: State
    subject: Subject
    graph: Any = field(default_factory=nx.DiGraph)
    keys: dict[Tensor, str] = field(default_factory=dict)
    counter: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        ops = operations(self.state.outputs)
        self.rows: dict[ComputeOp, Extent] = first_rows(ops)
        self.own = {t for op in ops for t in getattr(op, "outputs", ())}
        self.states = {t: op.name for op in ops if isinstance(op, ScanOp) for t in op.state}
        scheduled = self.subject.state is not None
        self.attach = dict(place(self.state).attach) if scheduled else None
        self.taken = set(self.state.stages)

    def key(self, tensor: Tensor) -> str:
        """The node of ``tensor``, made where it is an input that is met for the first time."""
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
        kind = "scan" if isinstance(op, ScanOp) else "reduce" if op.reducer else "compute"
        self._node(stage.name, stage.outputs, kind, _plain(work), self._place(stage))
        if isinstance(op, ScanOp):
            for tensor in op.input_tensors:
                self._edge(tensor, stage.name, (), 0, tensor_bytes(tensor))
            return
        counts = stage_reads(op, self.counter, first)
        found: dict[str, list[Read]] = {}
        for read in reads(op.roots):
            found.setdefault(self.key(read.tensor), []).append(read)
        ranges = Ranges()
        for axis in (*op.axis, *op.reduce_axis):
            low = to_lin(axis.lo)
            if op.axis and axis is op.axis[0]:
                low = low + to_lin(first)
            ranges.known[axis] = (low, to_lin(axis.lo) + to_lin(axis.extent) - 1)
        for accesses in found.values():
            tensors = dict.fromkeys(read.tensor for read in accesses)
            moved = sum(
                _box_bytes(t, [r for r in accesses if r.tensor is t], ranges) for t in tensors
            )
            count = sum(counts[t] for t in tensors)
            self._edge(accesses[0].tensor, stage.name, tuple(accesses), count, moved)

    def _place(self, stage: Stage) -> dict[str, Any]:
        if self.attach is None:
            return {}
        spot = self.attach[stage.name]
        computed = "at" if isinstance(spot, At) else "root"
        computed = "inline" if isinstance(spot, Inline) else computed
        at = (spot.stage, spot.axis.name) if isinstance(spot, At) else None
        made = not any(t in self.own for t in stage.outputs)
        return {"scope": stage.scope, "made": made, "computed": computed, "at": at}

    def _node(
        self, key: str, tensors: Sequence[Tensor], kind: str, work: Any, place_: dict[str, Any]
    ) -> None:
        first = tensors[0]
        self.graph.add_node(
            key, tensor=first, tensors=tuple(tensors), name=key, shape=first.shape,
            dtype=first.dtype, bytes=_plain(sum(tensor_bytes(t) for t in tensors)), work=work,
            kind=kind, output=any(t in self.subject.outputs for t in tensors),
            **(place_ if self.attach is not None else {}),
        )  # fmt: skip
        if kind == "state":
            self.graph.nodes[key]["scan"] = self.states[first]

    def _edge(
        self, source: Tensor, reader: str, accesses: tuple[Read, ...], count: Any, moved: Any
    ) -> None:
        self.graph.add_edge(
            self.key(source), reader, accesses=accesses, text=tuple(str(r) for r in accesses),
            reads=_plain(count), bytes=_plain(moved),
        )  # fmt: skip

    def finish(self) -> None:
        nodes = self.graph.nodes
        self.graph.graph["inputs"] = tuple(k for k in nodes if nodes[k]["kind"] == "placeholder")
        self.graph.graph["outputs"] = tuple(
            dict.fromkeys(self.key(t) for t in self.subject.outputs)
        )


def tensor_bytes(tensor: Tensor) -> Any:
    """The bytes of a tensor's elements: an ``int``, or of sympy's."""
    return _size([to_lin(extent) for extent in tensor.shape], tensor.dtype)


def _size(extents: Sequence[Lin], dtype: str) -> Any:
    total: Any = itemsize(dtype)
    for extent in extents:
        total = total * (as_sympy(extent) if extent.const is None else extent.const)
    return total


def _box_bytes(tensor: Tensor, accesses: Sequence[Read], ranges: Ranges) -> Any:
    """The bytes of the box of ``tensor`` that holds all elements that are read."""
    extents = []
    for position, extent in enumerate(tensor.shape):
        size = to_lin(extent)
        low, high = size, ZERO
        for read in accesses:
            first, last = _span(read.indices[position], size, ranges)
            low, high = extreme("min", [low, first], ranges), extreme("max", [high, last], ranges)
        length = extreme("max", [high - low, ZERO], ranges)
        extents.append(length)
    return _size(extents, tensor.dtype)


def _span(index: Expr, size: Lin, ranges: Ranges) -> tuple[Lin, Lin]:
    """The part of a dimension, end excluded, that ``index`` stays in."""
    lin = to_lin(index, ranges=ranges)
    if any(isinstance(leaf, Opaque) for leaf in lin.leaves()):
        return ZERO, size
    low, high = lower(lin, ranges), upper(lin, ranges)
    first = ZERO if low is None else extreme("max", [low, ZERO], ranges)
    last = size if high is None else extreme("min", [high + 1, size], ranges)
    return first, last


def _plain(value: Any) -> Any:
    """An ``int`` in place of sympy's number."""
    return int(value) if isinstance(value, int) or value.is_Integer else value


__all__ = ["graph"]
