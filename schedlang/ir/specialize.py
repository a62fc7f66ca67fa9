"""Nests specialized to given sizes, and the equations that determine sizes from shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from schedlang.compute.read import Read
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.visit import rewrite
from schedlang.index.linear import Lin, number_or_expr, to_expr
from schedlang.index.simplify import to_lin
from schedlang.index.solving import Equation, equations
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, Load, Stmt, block_of, with_fields, with_held
from schedlang.ir.rewrite import with_expressions, with_own_buffers


def at_sizes(nest: Nest, sizes: Mapping[str, int]) -> Nest:
    """Return ``nest`` with every size replaced by its number, for checks that need numbers."""
    numbers = {v: Lin.of(sizes[v.name]) for v in nest.sizes if v.name in sizes}
    scalars = [a for a in nest.args if isinstance(a, Var) and a.is_size and a.name in sizes]
    numbers.update((v, Lin.of(sizes[v.name])) for v in scalars)
    sizer = _Sizer(numbers)
    args = tuple(sizer.buffer(a) if isinstance(a, Buffer) else a for a in nest.args)
    outputs = tuple(sizer.buffer(b) for b in nest.outputs)
    return replace(nest, args=args, outputs=outputs, body=block_of(sizer.stmt(nest.body)), sizes=())


def size_equations(nest: Nest) -> list[Equation]:
    """Return the equations for the sizes of ``nest``, from input shapes where possible.

    Sizes that are arguments themselves are known already.
    """
    shapes = [(k, a.shape) for k, a in enumerate(nest.args) if isinstance(a, Buffer)]
    written = [(k, shape) for k, shape in shapes if nest.args[k] in nest.outputs]
    read = [(k, shape) for k, shape in shapes if nest.args[k] not in nest.outputs]
    return equations([read, written], [a for a in nest.args if isinstance(a, Var)])


class _Sizer:
    """A rewriter that replaces sizes by numbers, and each buffer once."""

    def __init__(self, known: Mapping[Var, Lin]) -> None:
        self.known = dict(known)
        self.buffers: dict[Buffer, Buffer] = {}

    def extent(self, extent: int | Expr) -> int | Expr:
        return extent if isinstance(extent, int) else number_or_expr(to_lin(extent, self.known))

    def buffer(self, buffer: Buffer) -> Buffer:
        if buffer not in self.buffers:
            shape = tuple(self.extent(e) for e in buffer.shape)
            self.buffers[buffer] = replace(buffer, shape=shape)
        return self.buffers[buffer]

    def value(self, root: Expr) -> Expr:
        def swap(node: Expr) -> Expr | None:
            if isinstance(node, Var) and node in self.known:
                return to_expr(self.known[node])
            if isinstance(node, Load):
                return Load(self.buffer(node.buffer), node.indices, node.dtype)
            assert not isinstance(node, Read)
            return None

        return rewrite(root, swap)

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            extent = self.extent(stmt.extent)
            if isinstance(extent, int) and extent <= 0:
                return Block()
            return with_fields(stmt, extent=extent, body=block_of(self.stmt(stmt.body)))
        names = (*stmt.DEFINES, *stmt.WRITTEN, *stmt.READ)
        own = with_own_buffers(with_expressions(stmt, self.value), names, self.buffer)
        return with_held(own, self.stmt)
