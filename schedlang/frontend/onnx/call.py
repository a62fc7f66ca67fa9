"""Calls of operators: what a node gives is matched with the signature of the operator's function.

The function of an operator takes the :class:`Call`, an argument for each input of the operator, and
a keyword for each attribute, with the operator's default. Annotations say what an input must be:
``Tensor`` (a known array becomes a parameter), ``Floats`` (a tensor of floats), ``Known`` (an array
that is known at import) or ``Value`` (a tensor or a known array). An attribute has a
type, or it is a ``Flag`` or one of the values of a ``Literal``.
"""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import numpy as np

from schedlang.arrays.elementwise import array
from schedlang.arrays.naming import name_prefix, rename
from schedlang.arrays.stages import tensor_of
from schedlang.compute.tensor import Extent, Tensor, declaration
from schedlang.errors import FrontendError, nearest
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.frontend.node_stages import cast_to
from schedlang.frontend.onnx.graph import Node
from schedlang.frontend.onnx.values import Known, Params, Value, number
from schedlang.language.construct import binary

# a tensor of floats
Floats = Tensor
# an attribute that is a truth value
Flag = Literal[0, 1]
_TYPES: dict[str, Callable[[Any], bool]] = {
    "int": lambda v: isinstance(v, int),
    "float": lambda v: isinstance(v, float),
    "str": lambda v: isinstance(v, str),
    "np.ndarray": lambda v: isinstance(v, np.ndarray),
    "list[int]": lambda v: isinstance(v, list) and all(isinstance(i, int) for i in v),
    "list[float]": lambda v: isinstance(v, list) and all(isinstance(i, float) for i in v),
    "list[str]": lambda v: isinstance(v, list) and all(isinstance(i, str) for i in v),
}


@dataclass(frozen=True)
class Call:
    """A call of an operator, as its function sees it; ``title`` is the name of its main stage."""

    node: Node
    params: Params
    title: str

    @property
    def version(self) -> int:
        return self.node.version

    def refused(self, why: str, hint: str = "") -> FrontendError:
        """Return the error that says why this node cannot become a computation."""
        return self.node.refused(why, hint)

    def check_float(self, value: Value) -> None:
        """Raise for a value whose elements are not floats."""
        if not dtypes.is_float(value.dtype):
            raise self.refused(f"its input is {value.dtype}, but the operator computes with floats")

    def check_ndim(self, ndim: int) -> None:
        """Raise for a result of more dimensions than arrays have, before it is made."""
        self.node.check_ndim(ndim)

    def tensor(self, value: Value) -> Tensor:
        """Return ``value`` as a tensor, a known array as a parameter."""
        return self.params.tensor(value)

    def main(self, stage: Tensor) -> Tensor:
        """Return ``made``, a stage of this call, with the name of the node itself.

        Later stages, such as the addition of a bias, are named after what they do.
        """
        return rename(stage, self.title)

    def biased(self, stage: Tensor, bias: Tensor | None, dtype: str) -> Tensor:
        """Return the main stage ``made`` with ``bias``, which broadcasts, added if there is one.

        It is rounded once, to ``dtype``.
        """
        self.main(stage)
        if bias is not None:
            stage = array("bias", lambda x, b: binary("+", x, b), stage, bias)
        return cast_to(stage, dtype)

    def operands(self, *values: Value) -> list[Any]:
        """Return ``values`` as operands that broadcast; a known array of one element is a number.

        It is a tensor if it has more dimensions than all others, since the result then has as many.
        """
        numbers = [number(v) if isinstance(v, Known) else None for v in values]
        ndim = max((v.ndim for v, n in zip(values, numbers) if n is None), default=-1)
        return [
            n if n is not None and v.ndim <= ndim else self.tensor(v)
            for v, n in zip(values, numbers)
        ]

    def sizes(self, value: Known, what: str) -> list[Extent]:
        """Return the elements of a vector of integers: numbers, or symbolic sizes."""
        if value.ndim > 1 or value.dtype not in ("int64", "int32"):
            raise self.refused(f"its input {what!r} must be a vector of integers")
        return value.items()

    def integers(self, value: Known, what: str) -> list[int]:
        """Return the elements of a vector of integers that must be numbers."""
        items = self.sizes(value, what)
        for item in items:
            if isinstance(item, Expr):
                raise self.refused(
                    f"its input {what!r} has the symbolic size {item}, but must be a number",
                    "Import the model with a number for this size: shapes={...}.",
                )
        return [int(str(v)) for v in items]

    def integer(self, value: Known, what: str) -> int:
        """Return the only element of an array of integers."""
        if value.array.size != 1:
            raise self.refused(f"its input {what!r} must be one number, not {value.array.size}")
        flat = Known(value.name, value.array.reshape(-1), value.dtype)
        return self.integers(flat, what)[0]

    def only_outputs(self, count: int, names: str) -> None:
        """Raise unless only the first ``count`` outputs are asked for; ``names`` are the others."""
        if any(self.node.outputs[count:]):
            raise self.refused(
                f"its outputs {names} are not supported",
                "Export the model for inference, and without these outputs.",
            )


@cache
def _signature(function: Callable[..., Any]) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """Return the parameters for inputs, and those for attributes by name."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    attributes = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
    return [p for p in parameters if p.kind is not p.KEYWORD_ONLY], attributes


@cache
def _choices(kind: str) -> list[Any]:
    """Return the values that an annotation allows; none if it is a type."""
    if kind == "Flag":
        return [*get_args(Flag)]
    if not kind.startswith("Literal"):
        return []
    values: list[Any] = literal_eval(kind.removeprefix("Literal"))
    return values


def match_arguments(
    node: Node, function: Callable[..., Any], values: Sequence[Value | None]
) -> tuple[list[Value | None], dict[str, Any]]:
    """Return the inputs of a node and its attributes, checked against the operator's function.

    Raises :class:`~schedlang.errors.FrontendError` for inputs and attributes that are missing,
    unknown or of a wrong type.
    """
    inputs, attributes = _signature(function)
    operands = list(values)
    while operands and operands[-1] is None:
        operands.pop()
    variadic = bool(inputs) and inputs[-1].kind is inspect.Parameter.VAR_POSITIONAL
    if len(operands) > len(inputs) and not variadic:
        raise node.refused(f"it has {len(operands)} inputs, but takes {len(inputs)}")
    if variadic and len(operands) < len(inputs):
        raise node.refused("it has no inputs, but takes one or more")
    for k, parameter in enumerate(inputs):
        missing = k >= len(operands) or operands[k] is None
        if missing and parameter.default is parameter.empty and not (variadic and k):
            raise node.refused(f"its input {parameter.name!r} is missing")
    if variadic and any(v is None for v in operands):
        raise node.refused("one of its inputs is left out")
    for name, value in node.attributes.items():
        declared_as = attributes.get(name)
        if declared_as is None:
            hint = nearest(name, attributes)
            raise node.refused(f"opset {node.version} gives it no attribute {name[:80]!r}{hint}")
        kind = str(declared_as.annotation).removesuffix(" | None")
        choices = _choices(kind)
        kind = type(choices[0]).__name__ if choices else kind
        if not _TYPES[kind](value):
            raise node.refused(f"its attribute {name!r} is {value!r:.60}, but must be {kind}")
        if choices and value not in choices:
            raise node.refused(
                f"its attribute {name!r} is {value!r:.60}, not one of "
                f"{', '.join(map(str, choices))}"
            )
    for name, parameter in attributes.items():
        if parameter.default is parameter.empty and name not in node.attributes:
            raise node.refused(f"its attribute {name!r} is missing")
    return operands, dict(node.attributes)


def convert_arguments(
    call: Call, function: Callable[..., Any], values: Sequence[Value | None]
) -> list[Any]:
    """Return the inputs as the annotations of the function ask for them."""
    inputs, _ = _signature(function)
    operands: list[Any] = []
    for k, value in enumerate(values):
        parameter = inputs[min(k, len(inputs) - 1)]
        kind = str(parameter.annotation).removesuffix(" | None")
        if value is None or kind == "Value":
            operands.append(value)
        elif kind == "Known":
            if isinstance(value, Tensor):
                raise call.refused(
                    f"its input {parameter.name!r} is {declaration(value)}, which is computed when "
                    "the network runs, but must be known when the model is imported",
                    "Export the model with a constant there, or fix its symbolic sizes: "
                    "shapes={...}.",
                )
            operands.append(value)
        else:
            if kind == "Floats":
                call.check_float(value)
            operands.append(call.tensor(value))
    return operands


def results_of(
    call: Call,
    function: Callable[..., Any],
    values: Sequence[Value | None],
    attributes: dict[str, Any],
) -> list[Any]:
    """Return what the function of an operator makes, one for each output."""
    with name_prefix(call.title):
        results = function(call, *convert_arguments(call, function, values), **attributes)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        return [tensor_of(v, call.title) if isinstance(v, Expr) else v for v in results]
