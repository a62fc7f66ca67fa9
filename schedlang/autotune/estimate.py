"""What a nest is expected to cost, from its loops alone: orders candidates, and proves nothing."""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.expr.nodes import Binary, Call, Read, Unary
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, For, If, Load, Stmt, Store
from schedlang.target import Target


@dataclass(frozen=True)
class Estimate:
    """``seconds`` is relative: what is smaller should be faster. ``flops`` are all that run."""

    seconds: float
    flops: float


def estimate(nest: Nest, target: Target) -> Estimate:
    total = 0.0
    stack: list[tuple[Stmt, float]] = [(nest.body, 1.0)]
    while stack:
        stmt, times = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((x, times) for x in stmt.stmts)
        elif isinstance(stmt, For):
            n = stmt.extent if isinstance(stmt.extent, int) else 64
            stack.append((stmt.body, times * n))
        elif isinstance(stmt, If):
            stack.append((stmt.body, times))
        elif isinstance(stmt, Store):
            ops = 0
            for value in stmt.values:
                for node in postorder([value]):
                    if node.weak or isinstance(node, (Read, Load)):
                        continue
                    ops += isinstance(node, (Binary, Call)) or isinstance(node, Unary)
            if stmt.reducer is not None:
                ops += 1
            total += times * ops
    return Estimate(total, total)
