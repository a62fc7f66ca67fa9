"""Jacobians, and gradients of several heads at once, as TVM's ``te.gradient`` returns them."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.algebra import choose, conjunction, number
from schedlang.gradient.arguments import check_result, check_sources
from schedlang.gradient.reverse import adjoints, result_stage
from schedlang.index.simplify import to_lin


def jacobian(y: Tensor, xs: Any, head: Tensor | None = None) -> list[Tensor]:
    """Return for each of ``xs`` the Jacobian of ``y``, or its product with ``head``.

    ``head`` has the shape ``(prefix..., y.shape...)``. The results have the shapes
    ``(y.shape..., x.shape...)`` and ``(prefix..., x.shape...)``.

    Source: ``te.gradient`` of TVM 0.8 to 0.19.
    """
    sources = check_sources(xs)
    check_result(y)
    if head is None:
        batch = tuple(Axis(f"y{k}", n) for k, n in enumerate(y.shape))
        own = tuple(Axis(f"i{k}", n) for k, n in enumerate(y.shape))
        at = conjunction(Binary("==", a, b, "bool") for a, b in zip(own, batch))
        one: Expr = number(1, y.dtype)
        value = one if at is None else choose(at, one, number(0, y.dtype), False)
        seed = Adjoint(axes=(*own, *batch), value=value)
    else:
        batch = _prefix(y, head)
        own = tuple(Axis(f"i{k}", n) for k, n in enumerate(y.shape))
        seed = Adjoint(axes=(*own, *batch), value=head(*batch, *own))
    by_source = adjoints(y, sources, seed, batch, {})
    of = (y, *([] if head is None else [head]))
    return [result_stage(x, by_source[x], batch, of) for x in sources]


def _prefix(y: Tensor, head: Any) -> tuple[Axis, ...]:
    """Return axes for the dimensions of ``head`` before the dimensions of ``y``."""
    if not isinstance(head, Tensor):
        raise ComputeTypeError(f"te.gradient({y.name}, ..., head={head!r}): give a tensor")
    rest = head.shape[head.ndim - y.ndim :] if head.ndim >= y.ndim else ()
    if [to_lin(n) for n in rest] != [to_lin(n) for n in y.shape] or head.ndim < y.ndim:
        raise ComputeError(
            explain(
                f"te.gradient({y.name}, ..., head={head.name})",
                f"{head.name} has the shape {shape_text(head.shape)}, which does not end with that "
                f"of {y.name}, {shape_text(y.shape)}",
                f"Give a head of shape (prefix..., *{y.name}.shape), or no head for the Jacobian.",
            )
        )
    if head.dtype != y.dtype:
        raise ComputeTypeError(
            f"te.gradient({y.name}, ..., head={head.name}): {head.name} is {head.dtype}, but "
            f"{y.name} is {y.dtype}; give both the same dtype"
        )
    prefix = head.shape[: head.ndim - y.ndim]
    return tuple(Axis(f"y{k}", n) for k, n in enumerate(prefix))
