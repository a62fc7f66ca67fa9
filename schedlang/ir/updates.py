"""Conversion of reduction updates to plain stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schedlang.expr.nodes import Expr, Var
from schedlang.expr.visit import rewrite
from schedlang.ir.instructed import Instructed
from schedlang.ir.nodes import Load, Store


def as_plain_store(store: Store) -> Store:
    """Return the update ``store`` as a plain store of the combined value."""
    reducer = store.reducer
    assert reducer is not None
    (*_, value) = store.values
    if isinstance(value, Instructed):
        earlier = Load(store.buffers[0], store.indices, store.buffers[0].dtype)
        return replace(
            store, values=(replace(value, args=(earlier, *value.args)),), reducer=None
        )
    old: Mapping[Any, Expr] = {
        v: Load(b, store.indices, b.dtype) for v, b in zip(reducer.lhs, store.buffers)
    }
    new = dict(zip(reducer.rhs, store.values))
    swap: dict[Any, Expr] = {**old, **new}
    memo: dict[int, Expr] = {}

    def replace_parameter(node: Expr) -> Expr | None:
        return swap.get(node) if isinstance(node, Var) else None

    values = tuple(
        rewrite(r, lambda n: None, memo, before=replace_parameter) for r in reducer.result
    )
    return replace(store, values=values, reducer=None)
