"""Refusals of calls of ``sl.compute`` and ``sl.reference`` with missing or swapped arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.nodes import Expr
from schedlang.signatures import misfit


def refused_compute(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> ComputeTypeError:
    """Return the error for a call of ``sl.compute`` without a shape or without a function."""
    found = misfit(function, tuple(args), named)
    if found.why:
        return ComputeTypeError(
            explain("sl.compute", found.why, "Write sl.compute(shape, fcompute, name=...).")
        )
    given = found.given.get("shape", found.given.get("fcompute"))
    if is_function(given):
        return shape_missing(given)
    asked = "sl.compute()" if given is None else f"sl.compute({_extents(given)})"
    hint = f"Write sl.compute({_extents(given)}, lambda ...), with one parameter for each extent."
    return ComputeTypeError(
        explain(asked, "the function that computes an element is missing", hint)
    )


def shape_missing(fcompute: Any, shape: Any = None) -> ComputeTypeError:
    """Return the error for a function where the shape should be; ``shape`` is what follows it."""
    axes = _parameters(fcompute)
    taken = f"lambda {', '.join(axes)}: ..." if axes else "..."
    if isinstance(shape, (tuple, list, int, Expr)):
        hint = f"Write sl.compute({_extents(shape)}, {taken})."
        return ComputeTypeError(
            explain(f"sl.compute({taken}, {_extents(shape)})", "the shape must come first", hint)
        )
    example = shape_text((64,) * max(1, len(axes)))
    of_each = f"the extents of {', '.join(axes)}" if axes else "the extents of the axes"
    hint = f"Give {of_each} first, for example sl.compute({example}, {taken})."
    return ComputeTypeError(explain(f"sl.compute({taken})", "the shape is missing", hint))


def is_function(value: Any) -> bool:
    """Return whether ``value`` can be called and is no expression or tensor."""
    return callable(value) and not isinstance(value, (Expr, Tensor))


def _parameters(function: Any) -> list[str]:
    try:
        return list(signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _extents(shape: Any) -> str:
    """Return a shape as a call has it."""
    if isinstance(shape, (tuple, list)):
        return shape_text(shape)
    return "shape" if shape is None else getattr(shape, "name", "") or str(shape)


def refused_reference(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> ComputeTypeError:
    """Return the error for a call of ``sl.reference`` with arrays, or without a tensor."""
    given = [*args, *named.values()]
    tensors = [v for v in given if isinstance(v, Tensor)]
    shown = ", ".join(v.name if isinstance(v, Tensor) else type(v).__name__ for v in given)
    output = tensors[-1].name if tensors else "C"
    several = len(tensors) == len(given) > 1
    listed = f"[{', '.join(t.name for t in tensors)}]" if several else output
    return ComputeTypeError(
        explain(
            f"sl.reference({shown})",
            "it takes the tensors to compute, and returns a function of arrays",
            f"Write sl.reference({listed})(*arrays).",
        )
    )
