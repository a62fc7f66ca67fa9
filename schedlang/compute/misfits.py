"""Refusals of calls of ``sl.compute`` and ``sl.reference`` with missing or swapped arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.nodes import Expr
from schedlang.signatures import misfit


def compute_refusal(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> ComputeTypeError:
    """Return the error for a call of ``sl.compute`` without a shape or without a function."""
    call = misfit(function, tuple(args), named)
    if call.why:
        return ComputeTypeError(
            explain("sl.compute", call.why, "Write sl.compute(shape, fcompute, name=...).")
        )
    argument = call.given.get("shape", call.given.get("fcompute"))
    if is_function(argument):
        return shape_missing(argument)
    title = "sl.compute()" if argument is None else f"sl.compute({_extents(argument)})"
    hint = (
        f"Write sl.compute({_extents(argument)}, lambda ...), with one parameter for each extent."
    )
    return ComputeTypeError(
        explain(title, "the function that computes an element is missing", hint)
    )


def shape_missing(fcompute: Any, shape: Any = None) -> ComputeTypeError:
    """Return the error for a function where the shape should be; ``shape`` is what follows it."""
    axes = _parameters(fcompute)
    function = f"lambda {', '.join(axes)}: ..." if axes else "..."
    if isinstance(shape, (tuple, list, int, Expr)):
        hint = f"Write sl.compute({_extents(shape)}, {function})."
        return ComputeTypeError(
            explain(f"sl.compute({function}, {_extents(shape)})", "the shape must come first", hint)
        )
    example = shape_text((64,) * max(1, len(axes)))
    of_each = f"the extents of {', '.join(axes)}" if axes else "the extents of the axes"
    hint = f"Give {of_each} first, for example sl.compute({example}, {function})."
    return ComputeTypeError(explain(f"sl.compute({function})", "the shape is missing", hint))


def is_function(value: Any) -> bool:
    """Return whether ``value`` can be called and is not an expression or tensor."""
    return callable(value) and not isinstance(value, (Expr, Tensor))


def _parameters(function: Any) -> list[str]:
    try:
        return list(signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _extents(shape: Any) -> str:
    """Return a shape in the spelling of a call."""
    if isinstance(shape, (tuple, list)):
        return shape_text(shape)
    return "shape" if shape is None else getattr(shape, "name", "") or str(shape)


def reference_refusal(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> ComputeTypeError:
    """Return the error for a call of ``sl.reference`` with arrays, or without a tensor."""
    arguments = [*args, *named.values()]
    tensors = [v for v in arguments if isinstance(v, Tensor)]
    argument_list = ", ".join(
        v.name if isinstance(v, Tensor) else type(v).__name__ for v in arguments
    )
    output = tensors[-1].name if tensors else "C"
    several = len(tensors) == len(arguments) > 1
    listed = f"[{', '.join(t.name for t in tensors)}]" if several else output
    return ComputeTypeError(
        explain(
            f"sl.reference({argument_list})",
            "it takes the tensors to compute, and returns a function of arrays",
            f"Write sl.reference({listed})(*arrays).",
        )
    )
