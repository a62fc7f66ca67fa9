"""Elementwise operations on whole arrays, which broadcast by NumPy's rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.arrays.operands import operand, shape_of, whole
from schedlang.arrays.shapes import broadcast
from schedlang.arrays.stages import data_axes, element, stage
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Binary, Const, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, mark_widened


def elementwise(word: str, function: Callable[..., Any], *values: Any, asked: str = "") -> Any:
    """Return ``function`` of the elements of ``values``, in a stage named after ``word``.

    If no value has a dimension, return an expression of the elements themselves. ``asked`` is what
    the user wrote, for messages.
    """
    if whole(values) is None:
        return function(*(as_expr(v) for v in values))
    return array(word, function, *values, asked=asked)


def power(a: Expr, b: Expr) -> Expr:
    """Return ``a ** b`` of elements of arrays: if ``b`` is the number 0.5, the square root.

    NumPy takes the power for its scalars and the square root for its arrays. They differ at -inf
    and -0.0.
    """
    raised = binary("**", a, b)
    if isinstance(b, Const) and b.value == 0.5 and isinstance(raised, Binary) and raised.op == "**":
        return mark_widened(call("sqrt", raised.a), (a, b))
    return raised


def array(word: str, function: Callable[..., Any], *values: Any, asked: str = "") -> Tensor:
    """Return ``function`` of the elements of ``values`` as a tensor, also where none has axes."""
    asked = asked or f"np.{word}"
    operands = [operand(v, asked) for v in values]
    shape = broadcast([shape_of(v) for v in operands], asked)
    axes = data_axes(shape)
    return stage(word, axes, function(*(element(v, axes, shape) for v in operands)))
