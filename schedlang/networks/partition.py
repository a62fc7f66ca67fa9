"""``partition``: a graph of stages as parts, each of which becomes one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from schedlang.autotune.sizes import checked_sizes
from schedlang.compute.chunks import extent_of
from schedlang.compute.data import structure
from schedlang.compute.extraction import Subgraph, extract
from schedlang.compute.graph import variables
from schedlang.compute.tensor import PlaceholderOp, Tensor
from schedlang.compute.work import flops, uncounted
from schedlang.diagnostics.sites import SYMBOLIC
from schedlang.errors import MissingNameError, names_text, nearest
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.visit import postorder
from schedlang.ir.arguments import sizes_of
from schedlang.markup.bundle import InNotebooks
from schedlang.networks.dataflow import Flow, Node, flow_of
from schedlang.networks.grouping import Draft, drafts
from schedlang.networks.naming import Naming
from schedlang.networks.ordering import order_for_memory
from schedlang.networks.overrides import ends_of, fuse_parts, main_name
from schedlang.networks.table import partition_html, partition_text
from schedlang.schedule.schedule import empty_schedule


@dataclass(frozen=True, eq=False)
class Part:
    """Stages that one kernel computes.

    ``name`` is the name of its main stage, or of the layer that this is a step of, and ``kind``
    what that stage does: ``"product"`` (a convolution, too), ``"reduction"``, ``"elementwise"``,
    ``"copy"``, ``"scan"``, ``"scatter"`` or ``"extern"``. ``stages`` are all its stages, producers
    first, and ``layers`` the layers of the model that these belong to. ``group`` is the part as a
    computation of its own: the inputs of ``group`` stand for ``reads``, its outputs for ``writes``,
    tensors of the whole graph, in the same order. ``flops`` are its operations, as far as they are
    known, ``read_bytes`` and ``written_bytes`` the bytes of these tensors.
    """

    name: str
    kind: str
    stages: tuple[str, ...]
    group: Subgraph = field(repr=False)
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    flops: int
    read_bytes: int
    written_bytes: int
    layers: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """A text that is equal for parts that are equal but for names of tensors and axes.

        These have the same structure, shapes and dtypes, so that they share a schedule and a
        kernel. Names of sizes count: a call has one value for each.
        """
        outputs = self.group.outputs
        form, sizes = structure(outputs), [v.name for v in variables(outputs)]
        return f"{form.key} {form.extents} {sizes}"

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """The names of the functions of users in it whose operations nobody knows."""
        return uncounted(self.group.outputs)

    @cached_property
    def sizes(self) -> tuple[Var, ...]:
        """The sizes that its kernel takes as arguments: no shape of its tensors determines them."""
        determined = sizes_of((*self.group.inputs, *self.group.outputs))
        return tuple(v for v in variables(self.group.outputs) if v not in determined)


@dataclass(frozen=True, eq=False)
class Partition(InNotebooks):
    """The parts of a network, in the order in which they run.

    ``outputs`` are the network's, and ``sizes`` the numbers that stand for symbolic sizes in
    its counts. ``partition["conv1"]`` is the part of that name. ``print`` shows a table, and
    ``sl.plot.partition`` a picture.
    """

    parts: tuple[Part, ...]
    outputs: tuple[Tensor, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def __getitem__(self, name: str) -> Part:
        for part in self.parts:
            if part.name == name:
                return part
        holder = next((part.name for part in self.parts if name in part.stages), None)
        names = [part.name for part in self.parts]
        hint = nearest(str(name), names) or f"; the parts are {names_text(names)}"
        if holder is not None:
            hint = f"; stage {name} is in part {holder}"
        raise MissingNameError(f"there is no part {name!r}{hint}")

    def graph(self) -> Any:
        """Return the parts as a ``networkx.DiGraph``, edges from producer to consumer.

        The key of a node is the name of its part; its attributes are ``part`` and the fields
        ``kind``, ``stages``, ``layers``, ``flops``, ``read_bytes`` and ``written_bytes`` of that.
        An edge has the ``tensors`` that are passed on, and their ``bytes``.

        >>> import schedlang as sl
        >>> from schedlang import topi
        >>> X, W = sl.placeholder((4, 8), name="X"), sl.placeholder((8, 8), name="W")
        >>> h = topi.nn.relu(topi.nn.dense(X, W))
        >>> g = partition(topi.nn.softmax(h)).graph()
        >>> list(g.edges(data="bytes")), g.nodes["softmax"]["kind"]
        ([('dense', 'softmax', 128)], 'reduction')
        """
        import networkx as nx

        graph = nx.DiGraph(outputs=tuple(t.name for t in self.outputs))
        maker: dict[Tensor, Part] = {}
        for part in self.parts:
            graph.add_node(
                part.name,
                part=part,
                kind=part.kind,
                stages=part.stages,
                layers=part.layers,
                flops=part.flops,
                read_bytes=part.read_bytes,
                written_bytes=part.written_bytes,
            )
            passed: dict[str, list[Tensor]] = {}
            for tensor in part.reads:
                if tensor in maker:
                    passed.setdefault(maker[tensor].name, []).append(tensor)
            for name, tensors in passed.items():
                moved = sum(self.bytes_of(t) for t in tensors)
                graph.add_edge(name, part.name, tensors=tuple(tensors), bytes=moved)
            maker.update(dict.fromkeys(part.writes, part))
        return graph

    def at(self, sizes: Mapping[str, int]) -> Partition:
        """Return the same parts with their counts at other values of symbolic sizes.

        ``sizes`` gives them by name; others keep theirs. The order of the parts stays.

        Raises :class:`~schedlang.errors.TuningError` for a name that is not a size of the network.

        >>> import schedlang as sl
        >>> n = sl.var("n")
        >>> X = sl.placeholder((n, 4), name="X")
        >>> found = partition(sl.named("double", X * 2))
        >>> found["double"].flops, found.at({"n": 3})["double"].flops
        (1024, 12)
        """
        given = {**self.sizes, **checked_sizes("at", self.outputs, sizes)}
        if given == self.sizes:
            return self
        values = {v: given[v.name] for v in variables(self.outputs) if v.is_size}
        return replace(self, parts=tuple(_counted(p, values) for p in self.parts), sizes=given)

    def bytes_of(self, tensor: Tensor) -> int:
        """Return the bytes of a tensor of the network."""
        extents = [extent for extent in tensor.shape if isinstance(extent, Expr)]
        values = {v: self.sizes[v.name] for v in postorder(extents) if isinstance(v, Var)}
        return _bytes(tensor, values)

    def __str__(self) -> str:
        return partition_text(self)

    def __repr__(self) -> str:
        return f"<Partition: {len(self.parts)} parts of {self.stage_count} stages>"

    @property
    def stage_count(self) -> int:
        """The number of stages of all parts; one that several parts compute counts once."""
        return len({name for part in self.parts for name in part.stages})

    def _repr_html_(self) -> str:
        return partition_html(self)


def partition(
    outputs: Any,
    cut: Any = (),
    fuse: Any = (),
    sizes: Mapping[Any, int] | None = None,
    layers: Mapping[str, str] | None = None,
) -> Partition:
    """Return the parts into which a network is divided, each of which is one kernel.

    ``outputs`` is a tensor or a list of them. The rules:

    * A product or a convolution begins a part. The elementwise stages after it (bias, batch norm,
      activation, the addition of a residual) go with it, if all that reads a result in between is
      in the part, too. A stage with several operands goes with the one that is computed last.
    * A reduction that reads its operands about once, such as a pooling, goes with the elementwise
      stages after it, and with those before it that nothing else reads. Several reductions over the
      same rows, as in a softmax or a layer norm, are one part. In attention, the product of these
      rows with the few columns of each head is in that part, too.
    * A chain of other elementwise stages is a part.
    * A scan is a part, with its first rows, its steps and the elementwise stages around it.
    * A stage of :func:`~schedlang.extern` is a part of its own.
    * A stage that only moves elements (a reshape, a transpose, a slice) is computed where it is
      read, by each part that does so. One that does so under conditions (padding, a concatenation)
      is, too, if it has one reader.

    The order of the parts keeps little memory live.

    ``cut`` names stages that end a part: what reads them is in other parts. ``fuse`` is a list of
    lists of names; the parts of the stages of each list become one. The names are names of stages,
    which ``print`` shows, or of layers: in ``cut`` a layer means its last stage, in ``fuse`` all of
    them. A name of both a stage and a layer means the stage. ``layers`` gives the layer of each
    stage, by its name. ``sizes`` gives values of symbolic sizes, by name, for the comparison of
    stages and for counts; others count as 256.

    Raises :class:`~schedlang.errors.NetworkError` for a cut or a fusion that cannot be, with the
    reason.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> X, W = sl.placeholder((4, 8), name="X"), sl.placeholder((8, 8), name="W")
    >>> h = topi.nn.relu(topi.nn.dense(X, W, sl.placeholder((8,), name="b")))
    >>> found = partition(topi.nn.softmax(h))
    >>> print(found)
    2 parts of 7 stages, in the order in which they run
    part     kind       result           MFLOP   read  written  stages
    dense    product    float32[4, 8]  < 0.001  416 B    128 B  dense, dense_bias, relu
    softmax  reduction  float32[4, 8]  < 0.001  128 B    128 B  softmax_maxelem, softmax_exp,
                                                                softmax_expsum, softmax
    >>> [part.name for part in partition(h, cut=["dense_bias"])]
    ['dense', 'relu']
    """
    tensors = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
    computed = [t for t in tensors if not isinstance(getattr(t, "op", None), PlaceholderOp)]
    if computed or not tensors:
        # checks them
        empty_schedule([*dict.fromkeys(computed)], "partition")
    given = checked_sizes("partition", tensors, sizes)
    values = {v: given.get(v.name, SYMBOLIC) for v in variables(tensors) if v.is_size}
    flow = flow_of(tensors, values)
    naming = Naming(flow, layers or {})
    ends = ends_of(naming, cut)
    whole, moved = drafts(flow, frozenset(ends))
    copies = {draft: _read_through(draft, moved, flow) for draft in whole}
    whole = fuse_parts(naming, whole, copies, fuse, ends)
    parts = _parts(whole, {d: _read_through(d, moved, flow) for d in whole}, flow, layers or {})
    return Partition(_in_order(parts, flow), tensors, {v.name: n for v, n in values.items()})


def equal_parts(parts: Sequence[Part]) -> tuple[tuple[Part, ...], ...]:
    """Return the parts in groups that are equal but for names, each in order.

    They have the same structure, shapes and dtypes: one schedule and one kernel serve all of them.
    Parts of sizes with different names, such as ``n`` and ``m``, have a kernel each.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> X = sl.placeholder((4, 8), name="X")
    >>> U, V = sl.placeholder((8, 8), name="U"), sl.placeholder((8, 8), name="V")
    >>> y = sl.named("y", topi.nn.dense(topi.nn.relu(sl.named("x", topi.nn.dense(X, U))), V))
    >>> y = topi.nn.relu(y)
    >>> [[part.name for part in same] for same in equal_parts(partition(y).parts)]
    [['x', 'y']]
    """
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.key, []).append(part)
    return tuple(tuple(same) for same in groups.values())


def _read_through(draft: Draft, moved: frozenset[Node], flow: Flow) -> list[Node]:
    """Return the moved nodes that a part reads, directly or through others."""
    through: set[Node] = set()
    stack = list(draft.nodes)
    while stack:
        for tensor in stack.pop().reads:
            source = flow.node_of.get(tensor)
            if source in moved and source not in through:
                through.add(source)
                stack.append(source)
    return sorted(through, key=lambda node: node.index)


def _parts(
    parts: Sequence[Draft],
    copies: Mapping[Draft, Sequence[Node]],
    flow: Flow,
    layers: Mapping[str, str],
) -> list[Part]:
    """Return the finished parts."""
    whole = {d: sorted((*d.nodes, *copies[d]), key=lambda node: node.index) for d in parts}
    needed = dict.fromkeys(flow.outputs)
    for nodes in whole.values():
        own = {t for node in nodes for t in node.outputs}
        needed.update(dict.fromkeys(t for node in nodes for t in node.reads if t not in own))
    return [_part(draft, nodes, needed, flow, layers) for draft, nodes in whole.items()]


def _part(
    draft: Draft,
    nodes: Sequence[Node],
    needed: Mapping[Tensor, None],
    flow: Flow,
    layers: Mapping[str, str],
) -> Part:
    ops = [op for node in nodes for op in node.ops]
    own = extract(ops, flow.names)
    main = [t for node in nodes if node in draft.nodes for t in node.outputs]
    writes = tuple(t for t in main if t in needed)
    group = Subgraph(tuple(own[t] for t in writes))
    behind = {new: old for old, new in own.items()}
    reads = tuple(behind[t] for t in group.inputs)
    stages = tuple(flow.names[op.outputs[0]] for op in ops)
    # a stage that no layer makes, but the model itself, has the layer ""
    made_by = tuple(dict.fromkeys(layers[name] for name in stages if layers.get(name)))
    name = _name(main_name(draft), stages, layers)
    part = Part(name, draft.kind, stages, group, reads, writes, 0, 0, 0, made_by)
    return _counted(part, flow.sizes)


def _counted(part: Part, sizes: Mapping[Var, int]) -> Part:
    """Return the part with its operations and bytes at ``sizes``."""
    read, written = (sum(_bytes(t, sizes) for t in ts) for ts in (part.reads, part.writes))
    operations = flops(part.group.outputs, sizes)
    return replace(part, flops=operations, read_bytes=read, written_bytes=written)


def _name(main: str, stages: Sequence[str], layers: Mapping[str, str]) -> str:
    """Return the name of a part whose main stage is ``main``.

    If that is a step of a layer, as ``fc.product`` is before the bias, it is the layer's stage, if
    the part has it.
    """
    whole, _, step = main.rpartition(".")
    is_step = step and whole in stages and layers.get(main, "") == layers.get(whole)
    return whole if is_step else main


def _in_order(parts: Sequence[Part], flow: Flow) -> tuple[Part, ...]:
    reads = {part: part.reads for part in parts}
    writes = {part: part.writes for part in parts}
    size = {t: _bytes(t, flow.sizes) for p in parts for t in p.writes if t not in flow.outputs}
    return tuple(order_for_memory(parts, reads, writes, size))


def _bytes(tensor: Tensor, sizes: Mapping[Var, int]) -> int:
    count = itemsize(tensor.dtype)
    for extent in tensor.shape:
        count *= extent_of(extent, sizes)
    return count


__all__ = ["Part", "Partition", "equal_parts", "partition"]
