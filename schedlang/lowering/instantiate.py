"""Instantiation of bodies: axes become loop expressions, and inlined stages are expanded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Binary, Const, Expr, Select
from schedlang.expr.visit import postorder, with_children
from schedlang.index.conditions import compares_indices, truth
from schedlang.index.linear import Lin, Opaque, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.lowering.drafts import DraftRead

Values = Mapping[Axis, Lin]


@dataclass(eq=False)
class _Point:
    """The axes of one (possibly inlined) operation, bound to index expressions."""

    values: Values


@dataclass
class Instance:
    """The expressions at a point, and the tensor elements that they read."""

    roots: tuple[Expr, ...]
    reads: list[tuple[Tensor, tuple[Lin, ...]]] = field(default_factory=list)


def instantiate(
    roots: Sequence[Expr], values: Values, inline: Mapping[Tensor, ComputeOp], ranges: Ranges
) -> Instance:
    """Return ``roots`` with axes replaced by ``values`` and ``inline`` tensors by their bodies.

    Reads of one element of an inlined tensor share one expression. Comparisons of indices that
    ``ranges`` decide are folded.
    """
    outer = _Point(values)
    points: dict[tuple[Tensor, tuple[Lin, ...]], _Point] = {}
    memo: dict[tuple[int, int], Expr] = {}
    placed: dict[tuple[Tensor, tuple[Lin, ...]], Expr] = {}
    origins: dict[int, tuple[Tensor, tuple[Lin, ...]]] = {}
    for root in roots:
        stack: list[tuple[Expr, _Point, tuple[Expr, _Point] | None]] = [(root, outer, None)]
        while stack:
            node, point, alias = stack.pop()
            key = (id(node), id(point))
            if alias is not None:
                memo[key] = memo[(id(alias[0]), id(alias[1]))]
                continue
            if key in memo:
                continue
            new = node
            index = _index(node, point.values, ranges) if isinstance(node, Read) else None
            if index is None:
                if not node.children:
                    memo[key] = _leaf(node, point.values)
                    continue
                waiting = [c for c in node.children if (id(c), id(point)) not in memo]
                if waiting:
                    stack.append((node, point, None))
                    stack.extend((c, point, None) for c in reversed(waiting))
                    continue
                new = with_children(node, tuple(memo[(id(c), id(point))] for c in node.children))
                if not isinstance(new, Read):
                    memo[key] = simplify_node(new, ranges)
                    continue
                index = tuple(to_lin(i, ranges=ranges) for i in new.indices)
            assert isinstance(new, Read)
            where = (new.tensor, index)
            op = inline.get(new.tensor)
            if op is not None:
                if where not in points:
                    points[where] = _Point(dict(zip(op.axis, index)))
                body = op.body[new.tensor.value_index]
                stack.append((node, point, (body, points[where])))
                stack.append((body, points[where], None))
                continue
            if where not in placed:
                gathers = any(isinstance(leaf, Opaque) for i in index for leaf in i.leaves())
                placed[where] = one_read = (
                    Read(new.tensor, tuple(map(to_expr, index)), new.dtype)
                    if gathers
                    else DraftRead(new.tensor, index, new.dtype)
                )
                origins[id(one_read)] = where
            memo[key] = placed[where]
    result = tuple(memo[(id(r), id(outer))] for r in roots)
    reads_of_result = {
        origins[id(n)]: None for n in postorder(result) if isinstance(n, (DraftRead, Read))
    }
    return Instance(result, list(reads_of_result))


def _index(read: Read, values: Values, ranges: Ranges) -> tuple[Lin, ...] | None:
    """Return the indices of ``read``, unless they read tensors themselves."""
    indices = tuple(to_lin(i, values, ranges) for i in read.indices)
    if any(isinstance(leaf, Opaque) for lin in indices for leaf in lin.leaves()):
        return None
    return indices


def _leaf(node: Expr, values: Values) -> Expr:
    if isinstance(node, Axis):
        lin = values.get(node)
        return node if lin is None else to_expr(lin)
    return node


def simplify_node(node: Expr, ranges: Ranges) -> Expr:
    """Return ``node`` simplified, given that its operands already are.

    Indices become linear forms. A decided comparison becomes a constant, and a select with a
    decided condition becomes the branch taken.
    """
    if node.weak and node.dtype == "int64":
        return to_expr(to_lin(node, ranges=ranges))
    if isinstance(node, Binary):
        if compares_indices(node):
            return _compare(node, ranges)
        if node.op in ("&", "|") and node.dtype == "bool":
            return _logical(node)
    if isinstance(node, Select) and isinstance(node.cond, Const):
        return node.a if node.cond.value else node.b
    return node


def _compare(node: Binary, ranges: Ranges) -> Expr:
    """Return a comparison of indices; a constant if ``ranges`` decide it."""
    decision = truth(node, ranges)
    return node if decision is None else Const(decision, "bool")


def _logical(node: Binary) -> Expr:
    for this, other in ((node.a, node.b), (node.b, node.a)):
        if isinstance(this, Const):
            return other if bool(this.value) == (node.op == "&") else this
    return node
