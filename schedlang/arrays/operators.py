"""Python's operators on whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from schedlang.arrays.elementwise import elementwise, power
from schedlang.arrays.operands import axis_in, whole
from schedlang.arrays.products import matmul
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.operators import OPERATORS as ROWS
from schedlang.language.calls import call
from schedlang.language.construct import binary, unary
from schedlang.language.operators import BINARY, COMPARED, EQUAL, OPERANDS


def apply_binary(op: str, left: Any, right: Any) -> Any:
    """Return ``left op right``: an array if one of them has a dimension, else an expression."""
    _refuse_elements(left, right)
    asked = f"{_shown(left)} {op} {_shown(right)}"
    # the stage of an operator is named after NumPy's function
    word = ROWS[op].ufunc
    if op == "**" and whole((left, right)) is not None:
        return elementwise(word, power, left, right, asked=asked)
    return elementwise(word, lambda a, b: binary(op, a, b), left, right, asked=asked)


def _refuse_elements(left: Any, right: Any) -> None:
    """Raise if a whole tensor is combined with one element of a computation."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Tensor) and one.ndim and isinstance(other, Expr):
            if axis_in(other) is not None:
                one.as_scalar()


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return value.name
    text = "..." if isinstance(value, np.ndarray) else str(value)
    return text if len(text) <= 20 else "..."


def _forward(op: str) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        return apply_binary(op, self, other)

    return method


def _reflected(op: str) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        if op == "+" and type(other) is int and other == 0 and self.ndim and self.dtype != "bool":
            # Python's sum() starts from 0, which would only add a stage
            return self
        return apply_binary(op, other, self)

    return method


def _equality(op: str) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        # bare tensors and sizes compare by identity, so that `in` and list.index work
        bare = isinstance(other, Tensor) or (self.ndim > 0 and isinstance(other, (Axis, Var)))
        if bare or not isinstance(other, OPERANDS):
            return NotImplemented
        return apply_binary(op, self, other)

    return method


def _one(word: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Tensor) -> Any:
        return elementwise(word, function, self)

    return method


def _divmod(self: Tensor, other: Any) -> tuple[Any, Any]:
    return apply_binary("//", self, other), apply_binary("%", self, other)


def _rdivmod(self: Tensor, other: Any) -> tuple[Any, Any]:
    return apply_binary("//", other, self), apply_binary("%", other, self)


OPERATORS: dict[str, Callable[..., Any]] = {
    **{f"__{name}__": _forward(op) for name, op in (BINARY | COMPARED).items()},
    **{f"__r{name}__": _reflected(op) for name, op in BINARY.items()},
    **{f"__{name}__": _equality(op) for name, op in EQUAL.items()},
    "__neg__": _one("negative", lambda a: unary("-", a)),
    "__pos__": lambda self: self,
    "__invert__": _one("invert", lambda a: unary("~", a)),
    "__abs__": _one("absolute", lambda a: call("abs", a)),
    "__divmod__": _divmod,
    "__rdivmod__": _rdivmod,
    "__matmul__": lambda self, other: matmul(self, other),
    "__rmatmul__": lambda self, other: matmul(other, self),
}
