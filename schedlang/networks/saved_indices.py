"""The check of indices that depend on weights, in a graph that comes from a file.

A kernel does not check indices that depend on data. The indices of a call are up to the caller, but
weights come with the graph, so that a file could make a kernel write anywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Optional

import numpy as np

from schedlang.compute.bounds import Path, exact_range, guards_of, unknown_nodes
from schedlang.compute.chunks import guards
from schedlang.compute.data_reader import is_arg
from schedlang.compute.define import compute
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.fold import ufunc_of
from schedlang.compute.graph import operations, placeholders
from schedlang.compute.read import Read, reads
from schedlang.compute.reference import reference
from schedlang.compute.tensor import ComputeOp, Extent, Operation, ScanOp, Tensor
from schedlang.errors import NetworkError, SchedlangError, explain, first_line
from schedlang.expr.dtypes import INDEX
from schedlang.expr.nodes import Axis, Const, Expr, Select, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.conditions import conjuncts, facts_of
from schedlang.index.enumeration import MOST_POINTS
from schedlang.index.intervals import inside
from schedlang.index.linear import Lin
from schedlang.index.quotients import within
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.construct import cast
from schedlang.markup.text import printable
from schedlang.networks.element_ranges import ElementRanges, is_whole


@dataclass(frozen=True, eq=False)
class Access:
    """An index of an access in stage ``op``, of a dimension of ``extent``.

    ``path`` are the conditions around it if all of its uses are under the same ones, ``facts`` what
    they say of axes and sizes, and ``guard`` is the condition under which any use evaluates it.
    """

    op: ComputeOp
    text: str
    index: Expr
    extent: Extent
    path: Path
    facts: tuple[Lin, ...]
    guard: Optional[Expr]


def check_indices(
    outputs: Sequence[Tensor], inputs: Collection[Tensor], weights: Mapping[Tensor, np.ndarray]
) -> tuple[Tensor, ...]:
    """Raise :class:`~schedlang.errors.NetworkError` for an index that weights may lead astray.

    Each index that depends on elements of ``weights``, or on a condition that does, must lie in its
    tensor: by its range, or, if it depends on no input, at each point. Return the weights whose
    elements were read for this.
    """
    ops = operations(outputs)
    accesses = [
        index
        for op in ops
        if isinstance(op, ComputeOp)
        for index in itertools.chain(_ends(op), _accesses(op))
    ]
    ranges = ElementRanges(weights, inputs)
    needed = _integers(accesses)
    for op in ops:
        if op in needed:
            ranges.learn(op)
    origins = _Origins(ops, weights, ranges)
    used: dict[Tensor, None] = {}
    for access in accesses:
        if not _is_proven(access, ranges):
            used.update(dict.fromkeys(origins.checked(access)))
    return tuple(dict.fromkeys((*ranges.used, *used)))


def _integers(accesses: Sequence[Access]) -> set[Operation]:
    """Return the operations whose integers the ranges of indices depend on."""
    integers: set[Operation] = set()
    roots = [root for a in accesses for root in (a.index, *(cond for cond, _ in a.path))]
    waiting = [read.tensor for read in reads(roots)]
    while waiting:
        op = waiting.pop().op
        if not isinstance(op, ComputeOp) or op in integers:
            continue
        # nothing is known of the range of other numbers
        if any(is_whole(t.dtype) for t in op.outputs):
            integers.add(op)
            waiting += op.input_tensors
    return integers


def _ends(op: ComputeOp) -> Iterator[Access]:
    """Yield the ends of ranges that are elements, between which loops run without another test.

    Each must lie in the box of its axis, or at the end of it.
    """
    for axis in op.reduce_axis:
        for end in axis.bounds or ():
            if isinstance(end, Expr) and _reads(end):
                low, high = axis.bounds or (0, 0)
                index = cast(end, INDEX)
                if not (isinstance(axis.lo, int) and axis.lo == 0):
                    index = index - axis.lo
                text = f"{op.name} reduces over {axis.name} in {low}..{high}"
                yield Access(op, text, index, axis.extent + 1, (), (), None)


def _accesses(op: ComputeOp) -> Iterator[Access]:
    """Yield the indices that depend on data, or that a condition on data guards."""
    order = postorder(op.roots)
    gathers: set[int] = set()
    for node in order:
        if isinstance(node, Read) or any(id(child) in gathers for child in node.children):
            gathers.add(id(node))
    on_weights = [op.where] if op.where is not None else []
    on_weights += [n.cond for n in order if isinstance(n, Select) and n.lazy]
    on_weights += [i for n in order if isinstance(n, Read) for i in n.indices]
    if not any(id(node) in gathers for node in (*on_weights, *(op.destination or ()))):
        return
    around, needed = guards_of(op, order, Ranges()), guards(op, order)
    told: dict[int, bool] = {}

    def on_data(guard: Expr | None) -> bool:
        if guard is None:
            return False
        if id(guard) not in told:
            told[id(guard)] = _reads(guard)
        return told[id(guard)]

    for node in order:
        if isinstance(node, Read):
            _, facts, path = around[id(node)]
            guard = needed.get(id(node))
            for index, extent in zip(node.indices, node.tensor.shape):
                if id(index) in gathers or on_data(guard):
                    yield Access(
                        op, f"{op.name} reads {node}", index, extent, path or (), facts, guard
                    )
    for index, axis in zip(op.destination or (), op.axis):
        if id(index) in gathers or on_data(op.where):
            written = ", ".join(map(str, op.destination or ()))
            path = () if op.where is None else ((op.where, True),)
            facts = () if op.where is None else facts_of(op.where, True, Ranges())
            text = f"{op.name} updates {op.name}[{written}]"
            yield Access(op, text, index, axis.extent, path, facts, op.where)


def _is_proven(access: Access, ranges: ElementRanges) -> bool:
    """Return whether an index lies in its dimension by its range, or by conditions on axes."""
    size = access.extent
    if isinstance(size, int) and inside(ranges.of(access.index, access.path), (0, size - 1)):
        return True
    if _reads(access.index):
        return False
    # conditions on data are left out
    path = tuple(held for held in conjuncts(access.path) if not _reads(held[0]))
    unknown = unknown_nodes(postorder([access.index, *(cond for cond, _ in path)]))
    ends = exact_range(access.index, path, Ranges(), unknown) if isinstance(size, int) else None
    if ends is not None and isinstance(size, int) and inside(ends, (0, size - 1)):
        return True
    known = Ranges()
    lin = to_lin(access.index, ranges=known)
    return within(lin, to_lin(size), known.assuming(access.facts))


def _reads(root: Expr) -> bool:
    return any(isinstance(node, Read) for node in postorder([root]))


class _Origins:
    """The inputs and weights that indices depend on."""

    def __init__(
        self, ops: Sequence[Operation], weights: Mapping[Tensor, np.ndarray], ranges: ElementRanges
    ) -> None:
        self.weights, self.ranges = weights, ranges
        self.scans = {state: op for op in ops if isinstance(op, ScanOp) for state in op.state}

    def checked(self, access: Access) -> list[Tensor]:
        """Return the weights that an index depends on, for which it lies in its dimension.

        Raises :class:`~schedlang.errors.NetworkError` if it does not, or if that is not known.
        An index that depends on inputs has no such weights: the caller answers for inputs.
        """
        known = [access.index, *([] if access.guard is None else [access.guard])]
        sources = self._sources([read.tensor for read in reads(known)])
        weights = [t for t in sources if t in self.weights]
        of_call = [t for t in sources if t not in self.weights]
        if of_call and not weights:
            return []
        names = ", ".join(printable(t.name) for t in weights) or "constants"
        if of_call:
            given = ", ".join(printable(t.name) for t in of_call)
            why = f"it depends on {names} in the file and on {given} of a call"
            self._refuse(access, why)
        self._evaluate(access, names)
        return weights

    def _sources(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the placeholders behind ``tensors``; a state has those behind its scan."""
        sources: dict[Tensor, None] = {}
        seen: set[Tensor] = set()
        waiting = list(tensors)
        while waiting:
            for tensor in placeholders([waiting.pop()]):
                if tensor in self.scans and tensor not in seen:
                    seen.add(tensor)
                    waiting.append(self.scans[tensor].outputs[0])
                elif tensor not in self.scans:
                    sources.setdefault(tensor)
        return list(sources)

    def _evaluate(self, access: Access, names: str) -> None:
        """Raise unless an index that depends on weights alone is inside at each point."""
        size, index = access.extent, access.index
        if not isinstance(size, int):
            self._refuse(access, f"it depends on {names} in the file, and the extent on a call")
        inexact = self._inexact([index, *([] if access.guard is None else [access.guard])])
        if inexact:
            self._refuse(access, f"it depends on {names} in the file by {inexact}")
        outside: Expr = (index < 0) | (index >= size)
        if access.guard is not None:
            never = Const(False, "bool")
            outside = Select(access.guard, outside, never, "bool", lazy=True)
        order = dict.fromkeys(postorder([outside]))
        given = next((n for n in order if isinstance(n, Var)), None)
        if given is not None:
            why = f"it depends on {names} in the file and on {printable(given.name)} of a call"
            self._refuse(access, why)
        axes = [n for n in order if isinstance(n, Axis)]
        extents = [a.extent for a in axes if isinstance(a.extent, int) and isinstance(a.lo, int)]
        if len(extents) < len(axes) or prod(extents) > MOST_POINTS:
            why = f"it depends on {names} in the file, and has too many values to check each"
            self._refuse(access, why)

        def at(*place: Any) -> Expr:
            swap = {axis: k + axis.lo for axis, k in zip(axes, place)}
            return rewrite(outside, lambda n: swap.get(n) if isinstance(n, Axis) else None)

        try:
            oracle = reference(compute(tuple(extents), at, name="outside"))
            unknown = [t for t in oracle.inputs if t not in self.weights]
            wrong = not unknown and bool(np.any(oracle(*map(self.weights.get, oracle.inputs))))
        except SchedlangError as error:
            self._refuse(access, f"it cannot be evaluated with {names}: {first_line(error)}")
        if unknown:
            self._refuse(access, f"it depends on the state {printable(unknown[0].name)} of a scan")
        if wrong:
            self._refuse(access, f"the elements of {names} lead it outside")

    def _inexact(self, roots: Sequence[Expr]) -> str:
        """Return why kernels may compute another value of ``roots`` than NumPy; "" if none do."""
        waiting, seen = [*roots], dict[ComputeOp, None]()
        while waiting:
            order = postorder(waiting)
            if not all(is_whole(node.dtype) for node in order):
                return "floats, which a kernel may round, or take for 0"
            if self.ranges.overflows(order):
                return "index arithmetic that may overflow"
            waiting = []
            for tensor in dict.fromkeys(node.tensor for node in order if isinstance(node, Read)):
                scan = self.scans.get(tensor)
                for op in operations([tensor if scan is None else scan.outputs[0]]):
                    if isinstance(op, ExternOp):
                        return f"{printable(op.function.name)}, a function of yours"
                    if isinstance(op, ComputeOp) and op not in seen:
                        seen[op] = None
                        waiting += op.roots
        for op in seen:
            reducer = op.reducer
            if reducer is not None and ufunc_of(reducer) is None and not is_arg(reducer):
                return f"reduction {printable(op.name)}, whose value may depend on a schedule"
        return ""

    def _refuse(self, access: Access, why: str) -> Any:
        index, extent = access.index, access.extent
        raise NetworkError(
            explain(
                f"stage {printable(access.text)}",
                f"{printable(str(index))} is not known to lie in 0..{extent}, since {why}",
                "Where the network is made, declare the range of an input or a weight with "
                "sl.assume(..., within=...), clamp the index with sl.max(0, sl.min(index, "
                f'{extent} - 1)), or leave updates of sl.scatter out with mode="drop". Then save '
                "it again.",
            )
        )
