"""``trace``: the tensors that a function over NumPy's operations computes, to schedule by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedlang.arrays.stages import tensor_of
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.errors import ComputeTypeError, SchedlangError, shorten_traceback
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr, Var
from schedlang.tracing.array import wrap
from schedlang.tracing.containers import Containers, containers_of, store
from schedlang.tracing.leaves import flatten, rebuilt
from schedlang.tracing.naming import name_stages
from schedlang.tracing.outputs import value_of
from schedlang.tracing.run import run
from schedlang.tracing.sizes import note_length
from schedlang.tracing.tables import Tables, with_tables
from schedlang.tracing.trace import LoopRule, Storage, Trace, Value, current, run_as_current
from schedlang.tracing.wording import in_numpys_words

# loops are scans, however large
TENSORS = LoopRule(host=False, limited=False)
# the value of a size by which forms of loops are chosen
LIKELY = 1024


def trace(function: Callable[..., Any], *specs: Any, **named: Any) -> Any:
    """Return the tensors that ``function`` computes from arrays like ``specs``.

    Each of ``specs`` stands for an argument. It is a tensor, such as a placeholder with symbolic
    sizes; a scalar argument (``sl.var``); or anything with a ``shape`` and a ``dtype``, for which
    the trace takes a placeholder named after the parameter. Numbers, strings and ``None`` are
    passed unchanged, and so are tuples, lists and dicts of all these.

    The tensors come in the tuples, lists and dicts that ``function`` returns. If it returns
    ``None``, they are the new values of the arguments that it assigns to, one or a tuple. What it
    stores in a list or dict among ``specs`` is there, too.

    Arrays that ``function`` has from elsewhere, such as ``np.zeros(3)``, become stages if their
    elements are one number or an arithmetic progression. Loops become maps, reductions or scans,
    also over symbolic sizes.

    Raises :class:`~schedlang.errors.ComputeError` for an array of other elements, which is data and
    must be an argument, for a loop that would run on the host, and what :func:`~schedlang.jit`
    raises.

    >>> import numpy as np, schedlang as sl
    >>> def normalized(x):
    ...     high = x.max(axis=1, keepdims=True)
    ...     return np.exp(x - high)
    >>> E = trace(normalized, sl.placeholder((sl.var("n"), 8), name="X"))
    >>> E.shape, E.dtype
    ((n, 8), 'float32')
    """
    if not callable(function):
        raise ComputeTypeError(f"sl.trace({function!r}, ...): the first argument is a function")
    try:
        return with_tables(lambda tables: _trace(function, specs, named, tables))
    except SchedlangError as error:
        raise shorten_traceback(error) from error.__cause__


def _trace(
    function: Callable[..., Any], specs: Sequence[Any], named: Mapping[str, Any], tables: Tables
) -> Any:
    inner = getattr(function, "function", function)
    title = getattr(inner, "__name__", "the function")
    running = Trace(title, getattr(inner, "__code__", None), rule=TENSORS, closed=True,
                    tables=tables)  # fmt: skip
    with in_numpys_words(), run_as_current(running):
        storages: list[Storage] = []
        names = list(inspect.signature(inner).parameters)
        containers = Containers()
        args = [
            _stand_in(spec, name, storages, containers)
            for spec, name in zip(specs, [*names, *specs])
        ]
        others = {k: _stand_in(spec, k, storages, containers) for k, spec in named.items()}
        before = [running.values[s] for s in storages]
        running.arguments = containers
        leaves, form = flatten(run(running, inner, args, others))
        returned = len(leaves)
        changes = containers.changes(leaves)
        values = [value_of(leaf, title) for leaf in leaves]
    name_stages(running)
    tensors = [tensor_of(v, "a result of sl.trace") for v in values]
    store(changes, [c for spec in (*specs, *named.values()) for c in containers_of(spec)], tensors)
    if form.kind is not None:
        return rebuilt(form, tensors[:returned])
    after = [running.values[s] for s in storages]
    changed = [v for v, old in zip(after, before) if v is not old]
    results = tuple(tensor_of(v, "a result of sl.trace") for v in changed)
    return results[0] if len(results) == 1 else results or None


def _stand_in(spec: Any, name: str, storages: list[Storage], containers: Containers) -> Any:
    leaves, form = flatten(spec)
    parts = []
    for k, leaf in enumerate(leaves):
        label = name if len(leaves) == 1 else f"{name}_{k}"
        if not isinstance(leaf, (Tensor, Expr)) and hasattr(leaf, "shape"):
            kind = dtypes.canonical(leaf.dtype)
            leaf = placeholder(tuple(leaf.shape), kind, name=label)
        if isinstance(leaf, Tensor):
            for dimension, extent in enumerate(leaf.shape):
                if isinstance(extent, Var):
                    note_length(current(), extent, f"{label}.shape[{dimension}]", LIKELY)
        if isinstance(leaf, (Tensor, Expr)):
            value: Value = leaf[()] if isinstance(leaf, Tensor) and not leaf.ndim else leaf
            array = wrap(value)
            storages.append(array.storage)
            parts.append(array)
        else:
            parts.append(leaf)
    return containers.built(form, parts, name)


__all__ = ["trace"]
