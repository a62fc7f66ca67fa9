"""Products that are rounded before they are added to a sum.

A sum to which each iteration adds a product waits for the previous addition. A fused multiply-add
has a longer latency than an addition, so the product is computed apart.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from schedlang.expr.nodes import Binary, Call, Expr
from schedlang.ir.nodes import Block, Buffer, For, Kept, Stmt, Store, block_of, walk, with_held
from schedlang.ir.updates import as_plain_store
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.plain_loops import MOST, is_plain

FUSED = ("float32", "float64")


def round_products(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with rounded products where each addition waits for the previous one."""
    if job.fastmath or not is_plain(job.nest):
        return body
    return block_of(_rounded(body, waits=False))


def _rounded(stmt: Stmt, waits: bool) -> Stmt:
    if isinstance(stmt, Kept):
        waits = any(_waits(loop, stmt.buffers) for loop in stmt.body.stmts if isinstance(loop, For))
    if waits and isinstance(stmt, Store) and stmt.reducer is not None:
        update = as_plain_store(stmt)
        return replace(update, values=tuple(map(unfuse, update.values)))
    return with_held(stmt, lambda inner: _rounded(inner, waits))


def _waits(loop: For, buffers: frozenset[Buffer]) -> bool:
    """Return True if each iteration of a long reduction ``loop`` adds to one sum in a register.

    LLVM fully unrolls a short one and may vectorize the loop around, where fused operations are
    faster.
    """
    extents = [loop.extent]
    for stmt, _ in walk(loop.body):
        if isinstance(stmt, For):
            if not stmt.axis.is_reduce:
                return False
            extents.append(stmt.extent)
    numbers = [e for e in extents if isinstance(e, int)]
    return len(buffers) == 1 and (len(numbers) < len(extents) or prod(numbers) > MOST)


def unfuse(value: Expr) -> Expr:
    """Return ``x + a*b`` with the product rounded first, and any other value unchanged."""
    if not isinstance(value, Binary) or value.op != "+" or value.dtype not in FUSED:
        return value
    product = value.b
    if not isinstance(product, Binary) or product.op != "*":
        return value
    return replace(value, b=Call("rounded", (product,), product.dtype))
