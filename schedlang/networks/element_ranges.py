"""The range of an integer expression, by the elements of weights and by conditions around it.

It counts what a dtype wraps, so that a graph from a file cannot hide an index behind an overflow.
Weak int64 arithmetic, which kernels simplify as if integers were unbounded, has no range if it may
overflow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from schedlang.compute.bounds import Path
from schedlang.compute.data_reader import is_arg
from schedlang.compute.facts import facts_of
from schedlang.compute.joint import number_nodes
from schedlang.compute.read import Read
from schedlang.compute.reducer import Reducer
from schedlang.compute.tensor import ComputeOp, Operation, Tensor
from schedlang.expr import dtypes
from schedlang.expr.dtypes import INDEX
from schedlang.expr.nodes import (
    Axis,
    Binary,
    Cast,
    Expr,
    Var,
)
from schedlang.expr.operators import COMPARISONS, OPERATORS
from schedlang.expr.visit import postorder
from schedlang.index.conditions import NEGATED, conjuncts
from schedlang.index.intervals import (
    UNBOUNDED,
    Interval,
    both,
    compare,
    inside,
    of_node,
    plus,
    union,
)

# in an address space of 48 bits, no array that has elements is longer along one dimension
_MOST = 1 << 47


@dataclass(eq=False)
class ElementRanges:
    """The ranges of integers, by ``arrays`` of weights and by the declared facts of ``inputs``.

    ``used`` are the weights whose elements were looked at. ``variables`` have known ranges.

    >>> import schedlang as sl
    >>> W, i = sl.placeholder((3,), "int8", name="W"), Axis("i", 3)
    >>> ranges = ElementRanges({W: np.array([2, 0, 5], "int8")})
    >>> ranges.of(W[i] + 100), ranges.of(W[i] + 124), ranges.of(sl.min(W[i], 3))
    ((100, 105), (-128, 127), (0, 3))
    """

    arrays: Mapping[Tensor, np.ndarray]
    inputs: Collection[Tensor] = ()
    used: dict[Tensor, None] = field(default_factory=dict)
    variables: Mapping[Var, Interval] = field(default_factory=dict)
    _known: dict[Tensor, Interval] = field(default_factory=dict)
    _axes: dict[Axis, Interval] = field(default_factory=dict)

    def learn(self, op: Operation) -> None:
        """Find the ranges of what ``op`` computes; its operands come first."""
        if not isinstance(op, ComputeOp):
            return
        whole = [k for k, t in enumerate(op.outputs) if is_whole(t.dtype)]
        if not whole:
            return
        if op.reducer is None:
            self._known.update((op.outputs[k], self.of(op.body[k])) for k in whole)
            return
        self._learn_reduction(op, op.reducer, whole)

    def _learn_reduction(self, op: ComputeOp, reducer: Reducer, whole: Sequence[int]) -> None:
        plain = op.init is None and op.where is None and op.destination is None
        full = all(isinstance(a.extent, int) and a.extent > 0 for a in op.reduce_axis)
        if plain and full and is_arg(reducer):
            # one of the indices is chosen over the index of the identity
            low, high = self.of(op.body[0])
            if low is not None and low >= 0:
                self._known[op.outputs[0]] = low, high
            return
        # partial results start from the identity, also if a reduction has init=
        starts = (reducer.identity, *(() if op.init is None else (op.init,)))
        bounds = {
            k: union([self.of(op.body[k]), *(self.of(start[k]) for start in starts)]) for k in whole
        }
        # a range is known if combining two values of all such ranges does not leave it
        while True:
            given = {v[k]: bounds[k] for v in (reducer.lhs, reducer.rhs) for k in bounds}
            kept = {
                k: bound
                for k, bound in bounds.items()
                if inside(self.of(reducer.result[k], operands=given), bound)
            }
            if len(kept) == len(bounds):
                break
            bounds = kept
        self._known.update((op.outputs[k], bound) for k, bound in bounds.items())

    def of(
        self, root: Expr, held: Path = (), operands: Mapping[Var, Interval] | None = None
    ) -> Interval:
        """Return an interval that holds ``root`` wherever the conditions ``held`` hold.

        ``operands`` are the intervals of variables.
        """
        given = operands or {}
        if not held:
            return self._walk(root, given, {}, {})
        numbers: dict[object, int] = {}
        limits: dict[int, Interval] = {}
        for op, a, b in _comparisons(held):
            for side, other, how in ((a, b, op), (b, a, OPERATORS[op].mirrored)):
                key = number_nodes(side, numbers)[id(side)]
                limit = compare(how, self._walk(other, given, {}, {}))
                limits[key] = both(limits.get(key, UNBOUNDED), limit)
        return self._walk(root, given, number_nodes(root, numbers), limits)

    def overflows(self, roots: Sequence[Expr]) -> bool:
        """Return whether weak int64 arithmetic in ``roots`` may leave its dtype."""
        done: dict[int, Interval] = {}
        for node in postorder(roots):
            self._step(node, done, {})
            if node.weak and node.dtype == INDEX and done[id(node)] == UNBOUNDED:
                return True
        return False

    def _walk(
        self,
        root: Expr,
        operands: Mapping[Var, Interval],
        keys: Mapping[int, int],
        limits: Mapping[int, Interval],
    ) -> Interval:
        done: dict[int, Interval] = {}
        for node in postorder([root]):
            self._step(node, done, operands)
            limit = limits.get(keys.get(id(node), -1))
            if limit is not None:
                done[id(node)] = both(done[id(node)], limit)
        return done[id(root)]

    def _step(
        self, node: Expr, done: dict[int, Interval], operands: Mapping[Var, Interval]
    ) -> None:
        """Add the interval of ``node`` to those that are ``done``, which has its operands."""
        if not is_whole(node.dtype):
            done[id(node)] = UNBOUNDED
        elif isinstance(node, Var) and node in operands:
            done[id(node)] = operands[node]
        elif isinstance(node, Var) and node in self.variables:
            done[id(node)] = self.variables[node]
        else:
            done[id(node)] = _wrapped(node, self._node(node, done))

    def _node(self, node: Expr, done: Mapping[int, Interval]) -> Interval:
        """Return the interval of an integer, were there no overflow."""
        if isinstance(node, Read):
            return self.of_tensor(node.tensor)
        if isinstance(node, Axis):
            return self._axis(node)
        if isinstance(node, Var) and node.is_size:
            return 0, _MOST
        parts = [done[id(child)] for child in node.children]
        if isinstance(node, Cast):
            return parts[0]
        if not all(_keeps(c, node.dtype, part) for c, part in zip(node.children, parts)):
            return UNBOUNDED
        if isinstance(node, Binary) and node.op in ("//", "%"):
            least, most = parts[1]
            # a number above 0 divides exactly; nothing else is relied on
            if least is None or least != most or least <= 0:
                return UNBOUNDED
        return of_node(node, parts)

    def _axis(self, axis: Axis) -> Interval:
        if axis not in self._axes:
            first, count = (
                (end, end) if isinstance(end, int) else self.of(end)
                for end in (axis.lo, axis.extent)
            )
            self._axes[axis] = first[0], plus(first, plus(count, (-1, -1)))[1]
        return self._axes[axis]

    def of_tensor(self, tensor: Tensor) -> Interval:
        """Return an interval that holds all elements of ``tensor``."""
        array = self.arrays.get(tensor)
        if array is not None and tensor not in self._known:
            self.used.setdefault(tensor)
            ends = (int(array.min()), int(array.max())) if array.size else (0, 0)
            self._known[tensor] = ends
        if tensor in self._known:
            return self._known[tensor]
        # each call checks what is declared of an input; nothing checks a scan's state
        facts = facts_of(tensor) if tensor in self.inputs else None
        if facts is None or facts.within is None:
            return UNBOUNDED
        low, high = (end if isinstance(end, int) else None for end in facts.within)
        return low, high


def is_whole(dtype: str) -> bool:
    """Return whether values of ``dtype`` are integers or bools."""
    return dtype == "bool" or dtypes.is_integer(dtype)


def _keeps(operand: Expr, dtype: str, span: Interval) -> bool:
    """Return whether an operand has the same value in an operation of ``dtype``."""
    same = operand.dtype in (dtype, "bool")
    return same or (operand.weak and inside(span, dtypes.limits(dtype)))


def _wrapped(node: Expr, span: Interval) -> Interval:
    """Return the interval of ``node``, which wraps outside of the range of its dtype.

    Nothing is known of weak int64 arithmetic there.
    """
    least, most = dtypes.limits(node.dtype)
    if inside(span, (least, most)):
        return span
    return UNBOUNDED if node.weak and node.dtype == INDEX else (least, most)


def _comparisons(held: Path) -> Iterator[tuple[str, Expr, Expr]]:
    """Yield the comparisons of integers of one dtype that hold where all of ``held`` do."""
    for node, truth in conjuncts(held):
        if isinstance(node, Binary) and node.op in COMPARISONS:
            op = node.op if truth else NEGATED[node.op]
            same = node.a.dtype == node.b.dtype and dtypes.is_integer(node.a.dtype)
            if op != "!=" and same:
                yield op, node.a, node.b
