"""Writing the data form of a computation, a flat list of items; see :mod:`.data`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlang.compute.extern_op import Boxes, ExternFunction, ExternOp
from schedlang.compute.ragged import without_ranges
from schedlang.compute.read import Read
from schedlang.compute.reduce import Reducer
from schedlang.compute.tensor import ComputeOp, Extent, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary, Var
from schedlang.expr.visit import postorder

FORMAT = "schedlang.compute"
VERSION = 1


def expr_to_data(expr: Expr, leaf_names: Mapping[Any, str]) -> list[Any]:
    """Return an expression over named leaves as a flat list of items; the last is the expression.

    ``leaf_names`` names each axis and size that the expression may use. It may not read tensors.

    >>> from schedlang.expr.nodes import Axis
    >>> i = Axis("i", 8)
    >>> expr_to_data(i < 3, {i: "i"})
    [['leaf', 'i'], ['const', 'int64', 3, True], ['binary', '<', 0, 1, 'bool', False]]
    """
    writer = Writer(leaves=leaf_names)
    writer.expressions([expr])
    return writer.items


def everything(tensors: Sequence[Tensor]) -> list[Operation]:
    """Return all operations behind the tensors, producers first.

    They include the states and inputs of scans.
    """
    order: list[Operation] = []
    visited: set[Operation] = set()
    for tensor in tensors:
        stack: list[tuple[Operation, bool]] = [(tensor.op, False)]
        while stack:
            op, ready = stack.pop()
            if ready:
                order.append(op)
            elif op not in visited:
                visited.add(op)
                stack.append((op, True))
                needed = list(op.input_tensors)
                if isinstance(op, ScanOp):
                    needed += [*op.state, *op.inputs]
                stack.extend((t.op, False) for t in reversed(needed))
    return order


@dataclass
class Writer:
    """The items written so far, and the position of each object among them.

    ``anonymous`` leaves out names, writes equal expressions once, and collects integer extents in
    ``extents`` instead. ``functions`` are the user's, of which an item has the position alone: data
    hold no code.
    """

    anonymous: bool = False
    leaves: Mapping[Any, str] | None = None
    items: list[Any] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)
    local: dict[Any, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    extents: list[int] = field(default_factory=list)
    functions: list[ExternFunction] = field(default_factory=list)

    def forget_expressions(self) -> None:
        """Forget the axes, expressions and reducers written so far; sizes and operations stay.

        Each operation then writes its own: sharing them between operations does not change a
        computation, while sharing a size does.
        """
        self.local.clear()

    def place(self, key: Any) -> int:
        local = self.local.get(key)
        return self.places[key] if local is None else local

    def has(self, key: Any) -> bool:
        return key in self.local or key in self.places

    def name(self, name: str) -> str:
        return "" if self.anonymous else name

    def add(self, key: Any, item: list[Any]) -> int:
        place = None
        if self.anonymous and item[0] in _EXPRESSIONS:
            place = self.known.setdefault(json.dumps(item), len(self.items))
        if place is None or place == len(self.items):
            place = len(self.items)
            self.items.append(item)
        (self.places if isinstance(key, _LASTING) else self.local)[key] = place
        return place

    def extent(self, value: Extent) -> Any:
        if isinstance(value, Expr):
            return self.expressions([value])
        if not self.anonymous:
            return int(value)
        self.extents.append(int(value))
        return None

    def bound(self, value: Extent) -> Any:
        """Return an end of a ragged range; its numbers belong to the structure."""
        return self.expressions([value]) if isinstance(value, Expr) else int(value)

    def tensor(self, tensor: Tensor) -> list[int]:
        return [self.place(tensor.op), tensor.value_index]

    def expressions(self, roots: Sequence[Expr]) -> list[int]:
        for node in postorder(roots):
            if not self.has(node):
                if isinstance(node, Axis) and self.leaves is None:
                    extent = self.extent(node.extent)
                    lo = self.expressions([node.lo]) if isinstance(node.lo, Expr) else int(node.lo)
                    item = ["axis", self.name(node.name), extent, node.kind, lo, node.tag]
                    if node.bounds is not None:
                        item.append([self.bound(end) for end in node.bounds])
                else:
                    item = self.expression(node)
                self.add(node, item)
        return [self.place(root) for root in roots]

    def expression(self, node: Expr) -> list[Any]:
        at = [self.place(child) for child in node.children]
        if isinstance(node, (Axis, Var)) and self.leaves is not None:
            if node not in self.leaves:
                leaf_list = ", ".join(self.leaves.values()) or "it has none"
                raise ComputeError(
                    f"{node.name} is not a leaf of the expression; leaves: {leaf_list}"
                )
            return ["leaf", self.leaves[node]]
        if isinstance(node, Var):
            bounds = [node.least] if node.least else []
            if node.most is not None:
                bounds = [node.least, node.most]
            return ["var", self.name(node.name), node.dtype, node.weak, *bounds]
        if isinstance(node, Const):
            return ["const", node.dtype, _number(node.value), node.weak]
        if isinstance(node, Binary):
            return ["binary", node.op, *at, node.dtype, node.weak]
        if isinstance(node, Unary):
            return ["unary", node.op, *at, node.dtype, node.weak]
        if isinstance(node, Cast):
            return ["cast", *at, node.dtype, node.weak]
        if isinstance(node, Call):
            return ["call", node.fn, at, node.dtype, node.weak]
        if isinstance(node, Select):
            return ["select", *at, node.dtype, node.lazy, node.weak]
        if isinstance(node, Read) and self.leaves is None:
            return ["read", *self.tensor(node.tensor), at]
        raise ComputeError(f"{node}: a {type(node).__name__} cannot be written as data here")

    def reducer(self, reducer: Reducer) -> int:
        if reducer.parts and not self.has(reducer):
            listed = [[self.reducer(p.reducer), list(p.places), p.visible] for p in reducer.parts]
            self.add(reducer, ["joint", listed])
        elif not self.has(reducer):
            for formal in (*reducer.lhs, *reducer.rhs):
                self.local[formal] = len(self.items)
                self.items.append(self.expression(formal))
            parts = [
                self.expressions(p)
                for p in (reducer.lhs, reducer.rhs, reducer.result, reducer.identity)
            ]
            examples = [reducer.ties, reducer.identity_ties, reducer.restarts]
            while not examples[-1] and len(examples) > 1:
                examples.pop()
            vouched: list[Any] = list(examples) if reducer.vouched else []
            if reducer.gradient and not self.anonymous:
                vouched = [*(vouched or [None]), *[""] * 2][:3] + [reducer.gradient]
            self.add(reducer, ["reducer", self.name(reducer.name), *parts, *vouched])
        return self.place(reducer)

    def function(self, function: ExternFunction) -> int:
        """Return the position of a user's function among those that the data leave out."""
        if function not in self.functions:
            self.functions.append(function)
        return self.functions.index(function)

    def boxes(self, boxes: Boxes) -> list[Any]:
        """Return the boxes of a call: the one that is asked for, the written one, the read ones."""

        def pairs(ends: Sequence[tuple[Expr, Expr]]) -> list[list[int]]:
            return [self.expressions(pair) for pair in ends]

        return [pairs(boxes.asked), pairs(boxes.written), [pairs(ends) for ends in boxes.read]]

    def operation(self, op: Operation) -> None:
        names = [self.name(t.name) for t in getattr(op, "outputs", ())]
        if isinstance(op, PlaceholderOp):
            shape = [self.extent(e) for e in op.shape]
            item: list[Any] = ["placeholder", self.name(op.name), shape, op.dtype]
            if op.facts is not None:
                within = op.facts.within
                ends = None if within is None else [self.extent(e) for e in within]
                item += [op.facts.monotonic, ends]
            self.add(op, item)
        elif isinstance(op, ExternOp):
            given = [self.tensor(t) for t in op.inputs]
            results = [[[self.extent(e) for e in t.shape], t.dtype] for t in op.outputs]
            boxes = None if op.boxes is None else self.boxes(op.boxes)
            called = op.function.identity if self.anonymous else self.function(op.function)
            parts = [self.name(op.name), called, given, results, boxes]
            # a count of the user's changes nothing that is computed
            if op.flops is not None and not self.anonymous:
                parts.append(self.extent(op.flops))
            self.add(op, ["extern", *parts, names])
        elif isinstance(op, ScanOp):
            parts = [[self.tensor(t) for t in p] for p in (op.init, op.update, op.state, op.inputs)]
            self.add(op, ["scan", self.name(op.name), *parts, names])
        else:
            axes, reduced = self.expressions(op.axis), self.expressions(op.reduce_axis)
            body = self.expressions(op.body)
            reducer = None if op.reducer is None else self.reducer(op.reducer)
            # the reader adds the ranges of ragged axes again
            own = without_ranges(op.where, len(op.limits))
            where = None if own is None else self.expressions([own])[0]
            init = None if op.init is None else self.expressions(op.init)
            if op.destination is not None:
                places = self.expressions(op.destination)
                self.add(
                    op,
                    [
                        "scatter",
                        self.name(op.name),
                        axes,
                        places,
                        body,
                        reduced,
                        reducer,
                        where,
                        init,
                        names,
                    ],
                )
                return
            self.add(
                op,
                ["compute", self.name(op.name), axes, body, reduced, reducer, where, init, names],
            )


_EXPRESSIONS = ("const", "binary", "unary", "cast", "call", "select", "read")
_LASTING = (Var, PlaceholderOp, ComputeOp, ScanOp, ExternOp)


def _number(value: Any) -> Any:
    if isinstance(value, complex):
        return [_number(value.real), _number(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (bool, float)) else int(value)
