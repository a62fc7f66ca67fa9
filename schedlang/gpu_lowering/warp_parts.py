"""Larger instructions of a warp, such as te's: uses of smaller ones, or copies of elements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.index.linear import Lin, to_expr
from schedlang.instructions.declaration import Instruction
from schedlang.instructions.fragments import ElementCopy, InParts
from schedlang.ir.instruction_match import Mismatch, looped_axes, match
from schedlang.ir.nodes import Block, For, Stmt, Store, walk, with_fields
from schedlang.ir.rewrite import deep, substitute


def with_parts(region: Stmt) -> Stmt:
    """Return the region of a kernel with uses of smaller instructions in place of larger ones.

    Copies of elements become plain loops. Raise :class:`~schedlang.errors.BuildError` for loops
    that the smaller instruction does not compute in parts.
    """
    return deep(region, _changed)


def _changed(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, For) or stmt.instruction is None:
        return stmt
    for form in stmt.instruction.emit.values():
        if isinstance(form, ElementCopy):
            return with_fields(stmt, kind="serial", instruction=None)
        if isinstance(form, InParts):
            return _in_parts(stmt, form.part)
    return stmt


def _in_parts(loop: For, part: Instruction) -> For:
    """Return loops over the parts of the tile of ``loop`` around the loops of one part."""
    why: Mismatch | None = None
    for outer, inner in _divided(loop, part):
        matched = match(inner, part)
        if not isinstance(matched, Mismatch):
            whole = inner
            for count in reversed(outer):
                whole = with_fields(count, body=Block((whole,)))
            return whole
        why = why or matched
    wanted = " x ".join(str(axis.extent) for axis in looped_axes(part))
    raise BuildError(
        explain(
            f"tensorize({loop.axis.name}, {loop.instruction}) on stage {loop.stage}",
            why.why if why else f"its loops are not multiples of the {wanted} of {part}",
            why.hint if why else "Declare it of such multiples.",
        )
    )


def _divided(loop: For, part: Instruction) -> Iterator[tuple[list[For], For]]:
    """Yield the loops over parts, and the loops of one, for each way to divide the tile."""
    loops = [s for s, _ in walk(loop) if isinstance(s, For) and s.extent != 1]
    (store,) = (s for s, _ in walk(loop) if isinstance(s, Store))
    wanted = looped_axes(part)
    for order in {o: None for o in permutations((a.is_reduce, int(str(a.extent))) for a in wanted)}:
        kinds, sizes = zip(*order)
        if kinds != tuple(f.axis.is_reduce for f in loops):
            continue
        if any(int(str(f.extent)) % size for f, size in zip(loops, sizes)):
            continue
        swap: dict[Expr, Expr] = {}
        outer: list[For] = []
        inner: list[tuple[For, Axis, int]] = []
        for own, size in zip(loops, sizes):
            axis, count = own.axis, int(str(own.extent)) // size
            if count > 1:
                several = Axis(f"{axis.name}.part", count, axis.kind)
                axis = Axis(axis.name, size, axis.kind)
                swap[own.axis] = to_expr(Lin.of(several) * size + Lin.of(axis))
                outer.append(For(several, count, "unroll", Block(), own.stage))
            inner.append((own, axis, size))
        body = substitute(store, swap)
        for own, axis, size in reversed(inner):
            # the loops of the part begin with the instruction
            chosen = part if own is loop else None
            body = with_fields(own, axis=axis, extent=size, instruction=chosen, body=Block((body,)))
        assert isinstance(body, For)
        yield outer, body
