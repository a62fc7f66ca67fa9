"""Calls in a trace: equal ones share one stage."""

from __future__ import annotations

from typing import Any

from schedlang.compute.read import Read
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Expr
from schedlang.tracing.trace import current


def compute_once(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return ``function(*args, **named)``, the earlier result of an equal call in this trace."""
    key = (function, key_of(args), key_of(tuple(named.items())))
    results = current().computed
    try:
        entry = results.get(key)
    except TypeError:
        # an argument without a hash
        return function(*args, **named)
    if entry is None:
        # the arguments are kept too, since their ids are the key
        entry = results[key] = (function(*args, **named), args, named)
    return entry[0]


def key_of(value: Any) -> Any:
    """Return what tells apart the arguments of calls: tensors and expressions by identity."""
    if isinstance(value, Read) and not value.indices:
        # each reading of a 0-d tensor is an object of its own
        return (Read, id(value.tensor))
    if isinstance(value, (Tensor, Expr)):
        return id(value)
    if isinstance(value, (tuple, list)):
        return (type(value), *map(key_of, value))
    if isinstance(value, slice):
        return (slice, key_of(value.start), key_of(value.stop), key_of(value.step))
    # 1, 1.0 and True are equal, and so are 0.0 and -0.0
    return (type(value), repr(value), value)
