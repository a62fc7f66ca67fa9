"""The rules by which nodes form parts: one pass over them, producers first.

A node joins the part of the operand that comes last, if the rules allow it; so parts never wait for
each other. A result may stay inside of a part if all that reads it, up to where its paths meet
again, can be there too: the post-dominators of Relay's fusion (J. Roesch et al., "Relay: A
High-Level Compiler for Deep Learning", 2019). Stages that only move elements belong to what reads
them, and so do stages that make floats of bytes for a sum. A function of the user's is a part of
its own, and takes and writes whole arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import is_
from typing import Optional, Union

from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis, Binary, Cast, Const
from schedlang.expr.visit import postorder
from schedlang.networks.blocks import is_long
from schedlang.networks.dataflow import (
    COPY,
    ELEMENTWISE,
    EXTERN,
    PRODUCT,
    REDUCTION,
    SCAN,
    SCATTER,
    Computed,
    Flow,
    Node,
)

# the most stages of a part, without those that only move elements
MOST_STAGES = 32
# the most columns of a product that goes with the softmax of its rows: one tile of sums has them
MOST_COLUMNS = 128
# what a node reads: another node, or an input
Source = Union[Node, Tensor]


@dataclass(eq=False)
class Draft:
    """A part under construction; ``number`` is its place in the order in which parts were begun."""

    number: int
    kind: str
    nodes: list[Node] = field(default_factory=list)
    # the nodes and inputs that reductions of the part read, for those over the same rows
    sources: set[Source] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Sketch:
    """The nodes of a graph; the ``moved`` ones are computed where they are read.

    ``sources`` and ``readers`` pass through moved nodes; ``ends`` are nodes that end a part.
    """

    flow: Flow
    moved: frozenset[Node]
    ends: frozenset[Node]

    @cached_property
    def nodes(self) -> list[Node]:
        return [node for node in self.flow.nodes if node not in self.moved]

    @cached_property
    def sources(self) -> dict[Node, list[Source]]:
        """The nodes, and inputs as tensors, that each node reads, also through moved ones."""
        sources: dict[Node, list[Source]] = {}
        for node in self.flow.nodes:
            own: dict[Source, None] = {}
            for tensor in node.reads:
                source = self.flow.node_of.get(tensor)
                if source in self.moved:
                    own.update(dict.fromkeys(sources[source]))
                else:
                    own[tensor if source is None else source] = None
            sources[node] = list(own)
        return sources

    @cached_property
    def readers(self) -> dict[Node, list[Node]]:
        readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for source in self.sources[node]:
                if isinstance(source, Node):
                    readers[source].append(node)
        return readers

    @cached_property
    def joins(self) -> dict[Node, Optional[Node]]:
        """For each node the one at which all paths from it meet; ``None`` after a result."""
        import networkx as nx

        end = object()
        back = nx.DiGraph()
        back.add_nodes_from([end, *self.nodes])
        for node in self.nodes:
            if node in self.flow.results or not self.readers[node]:
                back.add_edge(end, node)
            back.add_edges_from((reader, node) for reader in self.readers[node])
        dominators = nx.immediate_dominators(back, end)
        return {node: None if dominators[node] is end else dominators[node] for node in self.nodes}

    def inner_path(self, node: Node) -> list[Node]:
        """Return the nodes between a result and where all that is made of it meets, with the last.

        None are returned if the result is needed elsewhere, if a node between ends a part, or if
        they are too many for one.
        """
        last = self.joins[node]
        if last is None or node in self.ends:
            return []
        inner: dict[Node, None] = {}
        stack = list(self.readers[node])
        while stack:
            reader = stack.pop()
            if reader in inner:
                continue
            inner[reader] = None
            if len(inner) > MOST_STAGES or (reader in self.ends and reader is not last):
                return []
            if reader is not last:
                stack += self.readers[reader]
        return sorted(inner, key=lambda reader: reader.index)


def moved_nodes(flow: Flow, ends: Collection[Node]) -> frozenset[Node]:
    """Return the nodes that are computed where they are read.

    They only move elements, or make wider numbers of bytes for nodes that combine them with other
    elements. A node that does more than read another element, such as padding or a concatenation,
    must have only one reader.
    """
    moved: dict[Node, set[Node]] = {}
    wider = _of_bytes(flow)
    for node in reversed(flow.nodes):
        readers: set[Node] = set()
        for reader in flow.readers[node]:
            readers |= moved.get(reader, {reader})
        if node in ends or node in flow.results or _is_given(node, flow):
            continue
        if node in wider and readers and all(_reads_several(reader) for reader in readers):
            moved[node] = readers
            continue
        if node.kind != COPY:
            continue
        if any(flow.node_of[t].kind == SCAN for t in node.reads if t in flow.node_of):
            continue
        if node.moves_one or len(readers) == 1 or not node.reads:
            moved[node] = readers
    return frozenset(moved)


def _is_given(node: Node, flow: Flow) -> bool:
    """Return whether a function of the user's takes what a node computes, as an array."""
    return any(reader.kind == EXTERN for reader in flow.readers[node])


def _of_bytes(flow: Flow) -> frozenset[Node]:
    """Return the nodes that make wider numbers of bytes, element by element, by sums and products.

    Beside them they read single numbers. To store bytes and compute these nodes where they are read
    moves fewer bytes.
    """
    wider: set[Node] = set()
    for node in flow.nodes:
        if node.kind != ELEMENTWISE:
            continue
        (op,) = node.ops
        large = [t for t in op.input_tensors if t.shape]
        if len(large) == 1 and _is_light(op):
            (source,) = large
            bytes_ = itemsize(source.dtype) == 1 and itemsize(op.outputs[0].dtype) > 1
            if bytes_ or flow.node_of.get(source) in wider:
                wider.add(node)
    return frozenset(wider)


def _reads_several(node: Node) -> bool:
    """Return whether each element is made of elements of several tensors, as in a sum of two."""
    return node.is_map and sum(bool(t.shape) for t in node.reads) > 1


def _is_light(op: Computed) -> bool:
    """Return whether an element is a sum or a product, or a conversion, of the same element."""
    if not isinstance(op, ComputeOp) or len(op.body) > 1:
        return False
    for node in postorder(op.body):
        if isinstance(node, Read):
            if node.indices and not _is_here(node, op):
                return False
        elif not isinstance(node, (Axis, Const, Cast)):
            if not isinstance(node, Binary) or node.op not in ("+", "-", "*"):
                return False
    return True


def _is_here(read: Read, op: ComputeOp) -> bool:
    """Return whether an operation reads the element in the place of its own."""
    return len(read.indices) == len(op.axis) and all(map(is_, read.indices, op.axis))


def drafts(flow: Flow, ends: Iterable[Node] = ()) -> tuple[list[Draft], frozenset[Node]]:
    """Return the parts of a graph, each after those that it reads, and the moved nodes.

    No part has a node of ``ends`` and a reader of it.
    """
    ended = frozenset(ends)
    sketch = Sketch(flow, moved_nodes(flow, ended), ended)
    parts = _Parts(sketch)
    for node in sketch.nodes:
        parts.add(node)
    return parts.drafts, sketch.moved


class _Parts:
    """The parts so far."""

    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self.drafts: list[Draft] = []
        self.begun = 0
        self.part_of: dict[Node, Draft] = {}
        self.inner: dict[Node, bool] = {}
        self.paths: dict[Node, list[Node]] = {}
        # reductions of the same elements to as many results
        self.rows: dict[tuple[frozenset[Source], int, int], Draft] = {}

    def add(self, node: Node) -> None:
        draft, joined = self._home(node)
        if draft is None:
            self.begun += 1
            draft = Draft(self.begun, node.kind)
            self.drafts.append(draft)
        if node.kind not in (PRODUCT, EXTERN):
            joined = [
                *joined,
                *(
                    part
                    for part in self._read_by(node)
                    if part not in joined
                    and part is not draft
                    and self._only_for(part, draft, node)
                ),
            ]
        for part in joined:
            draft.nodes[:0] = part.nodes
            self.part_of.update(dict.fromkeys(part.nodes, draft))
            self.drafts.remove(part)
        _enter(draft, node, self.sketch.sources[node])
        self.part_of[node] = draft
        if node.kind == REDUCTION:
            self.rows.setdefault(self._row_key(node), draft)

    def _read_by(self, node: Node) -> list[Draft]:
        """Return the parts that a node reads, in the order in which they were begun."""
        parts = {self.part_of[s] for s in self.sketch.sources[node] if isinstance(s, Node)}
        return sorted(parts, key=lambda draft: draft.number)

    def _home(self, node: Node) -> tuple[Draft | None, list[Draft]]:
        """Return the part that a node joins, if there is one, and parts that go with it there.

        It is the last one that the node reads. Elementwise parts after it do not count, if only
        this node and the part read them, and if they do not wait for the part.
        """
        parts = self._read_by(node)
        if node.kind == PRODUCT:
            rows = bool(parts) and parts[-1].kind == REDUCTION
            return (parts[-1] if rows and self._joins(node, parts[-1], ()) else None), []
        main = next((p for p in reversed(parts) if p.kind not in (COPY, ELEMENTWISE)), None)
        if main is not None and main is not parts[-1]:
            later = [part for part in parts if part.number > main.number]
            if all(
                self._only_for(part, main, node) and self._starts_before(part, main)
                for part in later
            ) and self._joins(node, main, later):
                return main, later
        if parts and self._joins(node, parts[-1], ()):
            return parts[-1], []
        return self._siblings(node, parts[-1] if parts else None), []

    def _joins(self, node: Node, draft: Draft, later: Collection[Draft]) -> bool:
        """Return whether a node may join a part, with elementwise parts that come after it."""
        if len(draft.nodes) >= MOST_STAGES or not self._fits(draft, node):
            return False
        read = [
            s for s in self.sketch.sources[node] if isinstance(s, Node) and self.part_of[s] is draft
        ]
        return all(self._stays(s, draft, later) and node in self.paths[s] for s in read)

    def _only_for(self, part: Draft, draft: Draft, node: Node) -> bool:
        """Return whether ``part`` is elementwise, and read by ``draft`` and ``node`` alone."""
        inside = {*part.nodes, *draft.nodes, node}
        return (
            part.kind in (COPY, ELEMENTWISE)
            and len(inside) <= MOST_STAGES
            and all(self._ends_in(n, inside) and _beside(draft, n) for n in part.nodes)
        )

    def _ends_in(self, node: Node, inside: Collection[Node]) -> bool:
        """Return whether only nodes ``inside`` read a node, and none of these is a product."""
        if node in self.sketch.ends or node in self.sketch.flow.results:
            return False
        readers = self.sketch.readers[node]
        return all(reader in inside and reader.kind != PRODUCT for reader in readers)

    def _starts_before(self, part: Draft, draft: Draft) -> bool:
        """Return whether all that ``part`` reads is there before ``draft`` is computed."""
        homes = (
            self.part_of[source]
            for node in part.nodes
            for source in self.sketch.sources[node]
            if isinstance(source, Node)
        )
        return all(home is part or home.number < draft.number for home in homes)

    def _siblings(self, node: Node, last: Draft | None) -> Draft | None:
        """Return the part of a reduction over the same rows, which this one joins."""
        sibling = self.rows.get(self._row_key(node)) if node.kind == REDUCTION else None
        if sibling is None or len(sibling.nodes) >= MOST_STAGES:
            return None
        return sibling if last is None or last.number < sibling.number else None

    def _row_key(self, node: Node) -> tuple[frozenset[Source], int, int]:
        return frozenset(self.sketch.sources[node]), node.results, node.evaluations

    def _fits(self, draft: Draft, node: Node) -> bool:
        return _fits(draft.kind, draft.nodes, draft.sources, node, self.sketch)

    def _stays(self, source: Node, draft: Draft, later: Collection[Draft]) -> bool:
        """Return whether all that is made of a result, until its paths meet, can be in its part.

        So the result need not be written to memory.
        """
        if source not in self.inner:
            self.paths[source] = path = self.sketch.inner_path(source)
            self.inner[source] = bool(path) and self._holds(draft, path, later)
        return self.inner[source]

    def _holds(self, draft: Draft, path: Sequence[Node], later: Collection[Draft]) -> bool:
        """Return whether a part can take all nodes of a path."""
        trial = Draft(draft.number, draft.kind, list(draft.nodes), set(draft.sources))
        for node in path:
            if self.part_of.get(node) is draft:
                continue
            if node in self.part_of or len(trial.nodes) >= MOST_STAGES:
                return False
            sources = self.sketch.sources[node]
            for source in sources:
                if isinstance(source, Node) and source not in trial.nodes:
                    home = self.part_of.get(source)
                    if home is None or (home.number > draft.number and home not in later):
                        return False
            if not _fits(trial.kind, trial.nodes, trial.sources, node, self.sketch):
                return False
            _enter(trial, node, sources)
        return True


def _enter(draft: Draft, node: Node, sources: Sequence[Source]) -> None:
    """Add a node to a part, which takes the kind of its main node."""
    draft.nodes.append(node)
    if _rank(node.kind) > _rank(draft.kind):
        draft.kind = node.kind
    if node.kind == REDUCTION:
        draft.sources.update(sources)


def _beside(draft: Draft, node: Node) -> bool:
    """Return whether an operand of a part's new node is small enough to be computed in the part."""
    mains = [other for other in draft.nodes if other.kind == PRODUCT]
    return all(node.results <= main.results for main in mains)


def _rank(kind: str) -> int:
    return (COPY, ELEMENTWISE, REDUCTION, SCATTER, SCAN, PRODUCT, EXTERN).index(kind)


def _fits(
    kind: str, nodes: Sequence[Node], sources: Collection[Source], node: Node, sketch: Sketch
) -> bool:
    """Return whether a node can be computed in a part of ``kind`` with ``nodes``."""
    if EXTERN in (kind, node.kind):
        return False
    if kind in (COPY, ELEMENTWISE):
        return node.kind != PRODUCT
    main = next(other for other in nodes if other.kind == kind)
    if node.is_map:
        if node.results <= main.results:
            # element by element, or the last part of it
            return node.results == main.results or kind != PRODUCT
        return kind == REDUCTION and _same_rows(nodes, sources, node, sketch)
    if kind == REDUCTION and node.kind == PRODUCT:
        return any(_weighs(node, rows) for rows in nodes if rows.results == main.evaluations)
    if kind == PRODUCT and node.kind == REDUCTION:
        # the sums of the same rows as its weights
        return any(other.kind == REDUCTION and _as_many(other, node) for other in nodes)
    if kind == REDUCTION and node.kind == REDUCTION:
        return _as_many(main, node)
    return False


def _weighs(node: Node, rows: Node) -> bool:
    """Return whether a product sums few columns of each head with the weights of whole rows.

    So a block of rows of weights, such as a softmax in attention has, is computed where it is used.
    A product of all rows with one matrix has a part of its own.
    """
    op = node.ops[0]
    if not rows.is_map or not isinstance(op, ComputeOp):
        return False
    operands = list(reads(op.roots))
    own = [read for read in operands if read.tensor in rows.outputs]
    steps = [axis for axis in op.reduce_axis if is_long(axis)]
    if len(own) != 1 or len(steps) != 1 or node.evaluations > MOST_COLUMNS * rows.results:
        return False
    indices = [index for index in own[0].indices if not isinstance(index, Const)]
    plain = len({id(i) for i in indices}) == len(indices) and indices and indices[-1] is steps[0]
    heads = {axis for axis in op.axis if is_long(axis) and any(axis is i for i in indices)}
    others = [index for read in operands if read is not own[0] for index in read.indices]
    return bool(plain) and not heads.isdisjoint(postorder(others))


def _as_many(a: Node, b: Node) -> bool:
    """Return whether two reductions have as many results and evaluations."""
    return (a.results, a.evaluations) == (b.results, b.evaluations)


def _same_rows(
    nodes: Sequence[Node], sources: Collection[Source], node: Node, sketch: Sketch
) -> bool:
    """Return whether a node goes again over the elements that the reductions of a part read."""
    for source in sketch.sources[node]:
        size = source.results if isinstance(source, Node) else sketch.flow.elements(source)
        if size == node.results and (source in sources or source in nodes):
            return True
    return False
