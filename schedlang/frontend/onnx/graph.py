"""An ONNX graph as plain records: what it takes, what it returns, its weights and its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

from schedlang.errors import FrontendError, explain
from schedlang.frontend.onnx.limits import MOST_DIMS
from schedlang.frontend.onnx.weights import Weight

# the domain of ONNX's own operators, and the domain of classic machine learning
DOMAIN, CLASSIC = "", "ai.onnx.ml"

Dim = Union[int, str, None]


@dataclass(frozen=True)
class Input:
    """An input of the model: a name or ``None`` stands for an extent that the file leaves open.

    ``dims`` is ``None`` if not even their number is known.
    """

    name: str
    dtype: str
    dims: tuple[Dim, ...] | None


@dataclass(frozen=True)
class Output:
    """An output of the model; ``dtype`` is ``None`` where it is not a tensor, as after ZipMap."""

    name: str
    dtype: str | None


@dataclass(frozen=True)
class Node:
    """A call of ``operator``, with the opset ``version`` of its domain that the model imports.

    Names of inputs and outputs are "" where an optional one is left out.
    """

    name: str
    operator: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of values that the node needs: its inputs, and what its bodies read."""
        bodies = [v for v in self.attributes.values() if isinstance(v, Body)]
        return (*self.inputs, *(name for body in bodies for name in body.free))

    def __str__(self) -> str:
        return f"{self.operator[:40]} node {self.name[:80]!r}"

    def refused(self, why: str, hint: str = "") -> FrontendError:
        """Return the error that says why this node cannot become a computation."""
        return FrontendError(explain(str(self), why, hint))

    def check_ndim(self, ndim: int) -> None:
        """Raise for a result of more dimensions than arrays have, before it is made."""
        if ndim > MOST_DIMS:
            raise self.refused(f"its result would have {ndim} dimensions, more than {MOST_DIMS}")


@dataclass(frozen=True)
class Body:
    """A graph that is an attribute of a node, or the definition of an operator.

    Its nodes may read values of the graph around it, by the names ``free``.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, Weight]
    nodes: tuple[Node, ...]
    free: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """A checked graph; its nodes are those that the outputs need, each after its inputs."""

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    weights: Mapping[str, Weight]
    nodes: tuple[Node, ...]
