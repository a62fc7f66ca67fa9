"""Thread axes that a store predicate names without an enclosing loop over them.

All threads of the kernel run such a statement, and the predicate selects some of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.ir.accesses import sites
from schedlang.ir.nodes import Block, For, If, Stmt, walk

BOUND = ("thread", "vthread")


def free_threads(cond: Expr, around: set[Axis]) -> list[Axis]:
    """Return the thread axes in ``cond`` that are not variables of enclosing loops."""
    return [n for n in postorder([cond]) if isinstance(n, Axis) and n.tag and n not in around]


def kernel_tags(region: Stmt) -> set[str]:
    """Return the thread indices to which loops in ``region`` are bound."""
    return {s.tag for s, _ in walk(region) if isinstance(s, For) and s.kind == "thread"}


def unknown_threads(body: Block) -> Iterator[tuple[If, Axis]]:
    """Yield each store predicate over a thread axis that no loop of its kernel is bound to."""
    for site in sites(body):
        if isinstance(site.stmt, If) and site.stmt.predicate:
            tags = next((kernel_tags(f) for f in site.loops if f.kind in BOUND), set())
            free = free_threads(site.stmt.cond, {f.axis for f in site.loops})
            yield from ((site.stmt, axis) for axis in free if axis.tag not in tags)
