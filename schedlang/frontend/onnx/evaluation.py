"""The values of a graph, node by node.

They are known arrays where the inputs of a node are known and few, else stages. An operator whose
form has no function here is computed by ONNX's definition of it, a graph of other operators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from schedlang.compute.tensor import Tensor, declaration
from schedlang.errors import FrontendError, SchedlangError
from schedlang.frontend.node_stages import Stages
from schedlang.frontend.onnx.call import Call, match_arguments, results_of
from schedlang.frontend.onnx.control import CONTROL
from schedlang.frontend.onnx.definitions import definition_of
from schedlang.frontend.onnx.folding import fold
from schedlang.frontend.onnx.graph import Body, Node
from schedlang.frontend.onnx.limits import MOST_ELEMENTS, MOST_REPEATED
from schedlang.frontend.onnx.operators import function_of, is_known
from schedlang.frontend.onnx.operators.table import Function
from schedlang.frontend.onnx.values import Known, Params, Value
from schedlang.frontend.onnx.weights import Weight


@dataclass(frozen=True)
class Values:
    """The values of a graph by their names; a graph inside of a node sees the ``outer`` ones, too.

    A weight is read from the file when it is first used.
    """

    params: Params
    stages: Stages
    weights: Mapping[str, Weight]
    outer: Values | None = None
    # counts the nodes of graphs inside of nodes, once for each iteration of a loop
    _count: Iterator[int] = field(default_factory=lambda: count(1))
    # the weights read so far, which iterations of a loop share
    _read: dict[int, Known] = field(default_factory=dict)
    # None for an input that the call of an operator leaves out
    _known: dict[str, Value | None] = field(default_factory=dict)

    def add(self, values: Mapping[str, Value | None]) -> None:
        """Add values by their names."""
        self._known.update(values)

    def of(self, name: str) -> Value:
        """Return the value of a name."""
        value = self._known.get(name)
        if value is None:
            weight = self.weights.get(name)
            if weight is not None:
                value = self._known[name] = self._weight(name, weight)
            elif self.outer is not None:
                value = self.outer.of(name)
            else:
                raise FrontendError(
                    f"from_onnx: {name[:80]!r} is an output of a node that does not make it here"
                )
        return value

    def _weight(self, name: str, weight: Weight) -> Known:
        known = self._read.get(id(weight))
        if known is None:
            known = self._read[id(weight)] = Known(name, weight.read(), weight.dtype)
        return known

    def compute(self, nodes: Sequence[Node]) -> None:
        """Add the values of the outputs of nodes, each of which comes after its inputs."""
        for node in nodes:
            if self.outer is not None:
                self._check_count(node)
            operands = [None if self._is_left_out(name) else self.of(name) for name in node.inputs]
            for name, result in zip(node.outputs, self._outputs(node, operands)):
                if name and result is not None:
                    self.add({name: result})

    def _is_left_out(self, name: str) -> bool:
        return not name or (name in self._known and self._known[name] is None)

    def _check_count(self, node: Node) -> None:
        """Count a node, and raise if loops compute too many."""
        if next(self._count) > MOST_REPEATED:
            raise node.refused(
                f"loops compute more than {MOST_REPEATED:,} nodes, each of which becomes "
                "stages of its own",
                "Export the model with operators on whole arrays in place of loops.",
            )

    def within(self, node: Node, body: Body, operands: Sequence[Value | None]) -> list[Value]:
        """Return the outputs of a graph inside of a node, for its inputs."""
        if not body.nodes:
            # a loop over nothing takes time, too
            self._check_count(node)
        inner = Values(self.params, self.stages, body.weights, self, self._count, self._read)
        inner.add(dict(zip(body.inputs, operands)))
        inner.compute(body.nodes)
        return [inner.of(name) for name in body.outputs]

    def _outputs(self, node: Node, operands: Sequence[Value | None]) -> Sequence[Value | None]:
        """Return the outputs of a node."""
        control = CONTROL.get(node.operator) if not node.domain else None
        if control is not None:
            with _refused_by(node):
                chosen = control(node, operands, partial(self.within, node), self.params.tensor)
            _check_outputs(node, chosen)
            return chosen
        if not is_known(node):
            definition = definition_of(node, operands)
            if definition is not None:
                return self._defined(node, definition, operands)
        function = function_of(node)
        values, attributes = match_arguments(node, function, operands)
        try:
            results = self._computed(node, function, values, attributes)
        except FrontendError as error:
            # a form of the operator that has no function here
            definition = definition_of(node, operands)
            if definition is None:
                raise
            try:
                return self._defined(node, definition, operands)
            except FrontendError:
                raise error from None
        _check_outputs(node, results)
        return results

    def _defined(
        self, node: Node, definition: Body, operands: Sequence[Value | None]
    ) -> list[Value | None]:
        """Return the outputs of a node by the definition of its operator."""
        given = [*operands, *[None] * (len(definition.inputs) - len(operands))]
        wanted = tuple(n for n, output in zip(definition.outputs, node.outputs) if output)
        results = dict(zip(wanted, self.within(node, replace(definition, outputs=wanted), given)))
        return [results.get(name) for name in definition.outputs]

    def _computed(
        self,
        node: Node,
        function: Function,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
    ) -> list[Value | None]:
        """Return what the function of a node's operator makes."""
        with _refused_by(node):
            constants = fold(node, function, operands, attributes)
            if constants is not None:
                names = [*node.outputs, *[""] * len(constants)]
                return [Known(n, v.array, v.dtype) for n, v in zip(names, constants)]
            title = self.params.names.new(node.name)
            results = results_of(Call(node, self.params, title), function, operands, attributes)
        tensors = [v for v in results if isinstance(v, Tensor)]
        for tensor in tensors:
            check_size(tensor, str(node))
        self.stages.name(tensors, title, node.name)
        names = [*node.outputs, *[""] * len(results)]
        return [
            Known(name, v.array, v.dtype) if isinstance(v, Known) and not v.name else v
            for name, v in zip(names, results)
        ]


@contextmanager
def _refused_by(node: Node) -> Iterator[None]:
    """Raise errors of what a node computes as errors of the node."""
    try:
        yield
    except FrontendError:
        raise
    except SchedlangError as error:
        raise node.refused("it has no form here", str(error)) from error
    except (ArithmeticError, ValueError, TypeError, IndexError, MemoryError) as error:
        # numbers of a damaged file that no check foresaw
        raise node.refused(f"it has no form here: {type(error).__name__}: {error}") from error


def _check_outputs(node: Node, results: Sequence[Value | None]) -> None:
    """Raise unless each output with a name has a value, of dimensions that arrays can have."""
    if any(node.outputs[len(results) :]):
        raise node.refused(f"it has {len(node.outputs)} outputs, but makes {len(results)}")
    node.check_ndim(max((v.ndim for v in results if v is not None), default=0))


def check_size(tensor: Tensor, what: str) -> None:
    """Raise for a tensor of more elements than any network needs."""
    numbers = [e for e in tensor.shape if isinstance(e, int)]
    if max(math.prod(numbers), *numbers, 0) > MOST_ELEMENTS:
        raise FrontendError(
            f"{what}: its result would be {declaration(tensor)}, of more than 2**33 elements"
        )
