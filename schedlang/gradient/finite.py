"""Values and derivatives that are finite wherever a stage computes them.

Elements of arguments count as finite, and so do sums and products of finite values. What is more
than a positive constant, such as the variance of a batch norm and its epsilon, has a finite root,
logarithm and inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeGuard

from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from schedlang.expr import dtypes
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.nodes import Binary, Call, Cast, Const, Expr, Select
from schedlang.expr.visit import postorder
from schedlang.gradient.algebra import same

# reductions of finite elements to finite ones
_REDUCERS = ("sum", "prod", "min", "max", "argmin", "argmax")
# the most stages that are looked through for a sign
_DEEPEST = 12


@dataclass(frozen=True)
class Finite:
    """The tensors whose elements are finite if the elements of the arguments are, where known."""

    known: dict[Tensor, bool] = field(default_factory=dict)

    def holds(self, tensor: Tensor) -> bool:
        """Return whether the elements of ``tensor`` are finite."""
        waiting = [tensor]
        while waiting:
            last = waiting[-1]
            op = last.op
            if last in self.known or isinstance(op, PlaceholderOp) or not _is_tame_stage(op):
                self.known.setdefault(last, isinstance(op, PlaceholderOp))
                waiting.pop()
                continue
            operands = dict.fromkeys(read.tensor for read in reads(op.body))
            unknown = [t for t in operands if t not in self.known]
            if not unknown:
                self.known[last] = all(self.known[t] for t in operands)
            waiting += unknown
        return self.known[tensor]

    def is_wild(self, root: Expr) -> bool:
        """Return whether a function in ``root``, or its derivative, may be infinite."""
        if _is_wild(root, positive=False):
            # what is NaN has no sign
            return _is_wild(root) or not all(self.holds(read.tensor) for read in reads([root]))
        return False


def _is_tame_stage(op: Operation) -> TypeGuard[ComputeOp]:
    """Return whether a stage computes finite elements from finite ones."""
    if not isinstance(op, ComputeOp):
        return False
    if op.reducer is not None and op.reducer.name not in _REDUCERS:
        return False
    constants = (node for node in postorder(op.body) if isinstance(node, Const))
    if not all(isfinite(abs(constant.value)) for constant in constants):
        return False
    return not any(map(_is_wild, op.body))


def _is_wild(root: Expr, positive: bool = True) -> bool:
    """Return whether a function in ``root``, or its derivative, may be infinite.

    Without ``positive``, no operand counts as positive.
    """
    return any(
        _is_wild_at(node, positive) for node in postorder([root]) if dtypes.is_float(node.dtype)
    )


def _is_wild_at(node: Expr, positive: bool) -> bool:
    if isinstance(node, Call):
        where = FUNCTIONS[node.fn].finite
        if where == "above 0":
            return not (positive and _is_positive(node.args[0]))
        return where != "everywhere"
    if not isinstance(node, Binary) or node.op not in ("/", "**", "%", "//"):
        return False
    if node.op == "**":
        if not isinstance(node.b, Const):
            return True
        return node.b.value < 1 and not (positive and _is_positive(node.a))
    return not isinstance(node.b, Const) and not (positive and _is_positive(node.b))


def _is_positive(value: Expr) -> bool:
    least = _sign(value, _DEEPEST)
    return least is not None and least > 0


def _sign(value: Expr, depth: int) -> int | None:
    """Return 1 for a value of at least some positive constant, 0 for others of at least 0.

    ``None`` stands for what may be negative, and for what is not known.
    """
    if not dtypes.is_float(value.dtype):
        return None
    if isinstance(value, Const):
        return None if value.value < 0 else int(value.value > 0)
    if isinstance(value, Cast):
        return _sign(value.a, depth)
    if isinstance(value, Read):
        return _sign_of_element(value, depth)
    if isinstance(value, Binary):
        return _sign_of_binary(value, depth)
    if isinstance(value, Call) and value.fn in ("sqrt", "max", "min"):
        signs = [_sign(a, depth) for a in value.args]
        if value.fn == "max":
            return max((s for s in signs if s is not None), default=None)
        return _least(signs)
    if isinstance(value, Call) and FUNCTIONS[value.fn].never_negative:
        return 0
    if isinstance(value, Select):
        return _least([_sign(value.a, depth), _sign(value.b, depth)])
    return None


def _sign_of_binary(value: Binary, depth: int) -> int | None:
    if value.op == "*" and same(value.a, value.b):
        return 0
    if value.op == "**" and isinstance(value.b, Const) and value.b.value % 2 == 0:
        return 0
    if value.op not in ("+", "*", "/"):
        return None
    signs = [_sign(value.a, depth), _sign(value.b, depth)]
    least = _least(signs)
    # the sum is as large as the larger one
    return max(s for s in signs if s is not None) if least == 0 and value.op == "+" else least


def _sign_of_element(read: Read, depth: int) -> int | None:
    op = read.tensor.op
    if not depth or not isinstance(op, ComputeOp) or len(op.body) != 1:
        return None
    sign = _sign(op.body[0], depth - 1)
    if op.reducer is None:
        return sign
    # without elements, or without one that where= keeps, a sum is 0
    return 0 if sign is not None and op.reducer.name == "sum" and op.init is None else None


def _least(signs: Sequence[int | None]) -> int | None:
    certain = [sign for sign in signs if sign is not None]
    return min(certain) if len(certain) == len(signs) else None


def asks_if_finite(condition: Expr) -> bool:
    """Return whether a condition tests for NaN or infinities, also by stages of its own."""
    visited: set[Tensor] = set()
    waiting = [condition]
    while waiting:
        for node in postorder([waiting.pop()]):
            if isinstance(node, Call) and FUNCTIONS[node.fn].rule == "test":
                return True
            if isinstance(node, Binary) and node.op in ("==", "!=") and same(node.a, node.b):
                return True
            if isinstance(node, Read) and node.dtype == "bool" and node.tensor not in visited:
                visited.add(node.tensor)
                waiting += getattr(node.tensor.op, "body", ())
    return False
