"""Constructors for loop nests written by hand, right or wrong."""

from __future__ import annotations

from typing import Any

from schedlang.compute.reduce import simple
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, For, If, Load, Store
from schedlang.language.construct import as_expr


def index(value: Any) -> Expr:
    return as_expr(value)


def axis(name: str, extent: Any) -> Axis:
    return Axis(name, extent)


def buffer(name: str, *shape: Any, dtype: str = "float32", scope: str = "global") -> Buffer:
    return Buffer(name, dtype, shape, scope)


def load(source: Buffer, *at: Any) -> Expr:
    return Load(source, tuple(map(index, at)), source.dtype)


def store(target: Buffer, at: tuple[Any, ...], value: Any, reduce: str = "") -> Store:
    made = value if isinstance(value, Expr) else Const(value, target.dtype)
    reducer = simple(reduce, target.dtype) if reduce else None
    return Store((target,), tuple(map(index, at)), (made,), reducer, "C")


def loop(var: Axis, *body: Any, extent: Any = None, kind: str = "serial", tag: str = "") -> For:
    return For(var, var.extent if extent is None else extent, kind, Block(body), "C", tag)


def guard(cond: Expr, *body: Any, note: str = "") -> If:
    return If(cond, Block(body), note)


def alloc(made: Buffer) -> Alloc:
    return Alloc(made)


def nest(args: list[Any], outputs: list[Buffer], *body: Any, sizes: tuple[Any, ...] = ()) -> Nest:
    return Nest("C", (*args, *outputs), tuple(outputs), Block(body), sizes)
