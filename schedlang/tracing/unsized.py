"""Functions of a traced function whose results have a length that only the elements tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from schedlang.arrays.calls import Form, call_form
from schedlang.arrays.host.calls import on_host
from schedlang.arrays.host.unsized import UNSIZED
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Var
from schedlang.language.numpy_functions import name_of
from schedlang.tracing.calls import compute_once
from schedlang.tracing.items import is_traced, plain
from schedlang.tracing.trace import current
from schedlang.tracing.unknown import line_text

# the functions whose results are of one length if these arguments are the same
_DECIDING: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("nonzero", "flatnonzero", "argwhere"), ("chosen", ("a",))),
    **dict.fromkeys(("extract", "compress"), ("chosen", ("condition",))),
    "bincount": ("bincount", ("x", "minlength")),
    "unique": ("unique", ("ar", "axis", "equal_nan")),
}


def unsized(function: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return the result of ``function``, if only the elements tell its shape.

    For other functions, return ``NotImplemented``. Under ``sl.trace`` a result has a known shape;
    there it raises :class:`~schedlang.errors.ComputeError`.
    """
    name = name_of(function)
    if function is np.where and len(args) + len(named) == 1:
        name = "nonzero"
    if name not in UNSIZED or (name in _SIZED and _SIZED[name](args, named)):
        return NotImplemented
    asked = f"np.{name}"
    refuse_unsized(asked)
    return _called(name, plain(tuple(args)), plain(dict(named)))


def extracted(asked: str, mask: Tensor, array: Any) -> Any:
    """Return the elements, or the rows, of ``array`` where ``mask`` holds."""
    refuse_unsized(asked)
    if mask.ndim < array.ndim:
        if mask.ndim > 1:
            return array[selected_places(mask)]
        return _called("compress", (mask, array, 0), {})
    return _called("extract", (mask, array), {})


def selected_places(mask: Tensor) -> tuple[Tensor, ...]:
    """Return the indices in each dimension of the elements where ``mask`` holds."""
    refuse_unsized("x[mask] = an array")
    places: tuple[Tensor, ...] = _called("nonzero", (mask,), {})
    return places


def _called(name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    return compute_once(_call, (name, args, tuple(named.items())), {})


def _call(name: str, args: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> Any:
    """Return the results of a call, whose unknown extent the trace notes."""
    trace, row = current(), UNSIZED[name]
    given = {**dict(zip(row.names, args)), **dict(named)}
    group, deciding = _DECIDING.get(name, (name, row.names))
    size = compute_once(_size, (group, *(given.get(n) for n in deciding)), {})
    form = Form(partial(on_host, name, row, size), row.parameters)
    results = call_form(f"np.{name}", form, args, dict(named))
    parts = results if isinstance(results, tuple) else (results,)
    if size not in trace.sizes:
        trace.sizes[size] = next(t for t in parts if any(e is size for e in t.shape))
    return results


def _size(*_: Any) -> Var:
    return current().new_size()


def _has_bins(args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    bins = named.get("minlength", args[2] if len(args) > 2 else 0)
    return bins is not None and not isinstance(bins, bool) and bins != 0


def _has_number(args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    repeats = named.get("repeats", args[1] if len(args) > 1 else 1)
    return not is_traced(repeats) or not repeats.ndim


# the functions whose results have a shape of their own with some arguments
_SIZED = {"bincount": _has_bins, "repeat": _has_number}


def refuse_unsized(asked: str) -> None:
    """Raise under ``sl.trace``, whose tensors have shapes before any element is known."""
    trace = current()
    if trace.rule.host:
        return
    raise ComputeError(
        explain(
            f"{asked} in {line_text()}",
            "the shape of the result would depend on data, and one kernel, which is given its "
            "shapes, computes the tensors of sl.trace",
            f"Keep the shape, with np.where(mask, x, other), or reduce with where=mask. "
            f"sl.jit({trace.title}) calls {asked} between its kernels.",
        )
    )
