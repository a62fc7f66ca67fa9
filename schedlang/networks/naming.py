"""Stages of a network by names that a user gives, of stages or of layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schedlang.compute.graph import placeholders
from schedlang.errors import NetworkError, explain, names_text, nearest
from schedlang.networks.dataflow import SCAN, Flow, Node

# an error lists so many names that look like an unknown one
_MOST_NEAR = 3


@dataclass(frozen=True, eq=False)
class Naming:
    """The stages of ``flow`` by their own names, and by the names of their layers.

    ``layers`` has the layer of each stage, by its name. A layer has the stages of the layers inside
    of it, too: ``layer1.0`` has the stages of ``layer1.0.conv1``, and ``/layer1`` the stages of
    ``/layer1/Conv``. A name of both a stage and a layer means the stage.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> from schedlang.networks.dataflow import flow_of
    >>> A, W = sl.placeholder((8, 16), name="A"), sl.placeholder((4, 16), name="W")
    >>> flow = flow_of([topi.nn.relu(topi.nn.dense(A, W))], {})
    >>> naming = Naming(flow, {"dense": "body.0", "relu": "body.1"})
    >>> [node.name for node in naming.nodes("fuse", "body")], naming.end("cut", "body.0").name
    (['dense', 'relu'], 'dense')
    """

    flow: Flow
    layers: Mapping[str, str]

    def end(self, option: str, name: str) -> Node:
        """Return the node of a stage, or of the last stage of a layer.

        Raises :class:`~schedlang.errors.NetworkError` for an unknown name, and for a stage whose
        rows exist only inside of a scan.
        """
        node = self.stage(name)
        if node is None:
            return self.nodes(option, name)[-1]
        if node.kind == SCAN and name != node.name:
            raise NetworkError(
                explain(
                    f"{option}=[{name!r}]",
                    f"{name} is a stage of scan {node.name}, whose rows exist only inside of it",
                    f"Cut after the scan: {option}=[{node.name!r}].",
                )
            )
        return node

    def nodes(self, option: str, name: str) -> list[Node]:
        """Return the node of a stage, or the nodes of all stages of a layer, producers first.

        Raises :class:`~schedlang.errors.NetworkError` if there are none.
        """
        node = self.stage(name)
        if node is not None:
            return [node]
        nodes = [
            node
            for node in self.flow.nodes
            if any(is_in(self.layers.get(stage, ""), name) for stage in self._stages(node))
        ]
        if not nodes:
            raise NetworkError(f"{option}=[{name!r}]: {self._missing(name)}")
        return nodes

    def stage(self, name: str) -> Node | None:
        """Return the node of a stage, ``None`` if no stage has the name."""
        return next((node for node in self.flow.nodes if name in self._stages(node)), None)

    def _stages(self, node: Node) -> list[str]:
        return [self.flow.names[op.outputs[0]] for op in node.ops]

    def _missing(self, name: str) -> str:
        """Return why a name means no stage, with what to name instead."""
        if any(is_in(layer, name) for layer in self.layers.values()):
            return (
                f"layer {name} has no stage in a call: all of it is folded into other layers or "
                "computed ahead; name a layer that is left, as print(partition) shows them"
            )
        if any(tensor.name == name for tensor in placeholders(self.flow.outputs)):
            return f"{name} is an input, which no part computes; name a stage that reads it"
        layers = dict.fromkeys(around for v in self.layers.values() for around in _around(v))
        one, all_ = ("stage or layer", "stages and layers") if layers else ("stage", "stages")
        known = dict.fromkeys((*self.flow.names.values(), *layers))
        hint = nearest(name, known, _MOST_NEAR) or f"; the {all_} are {names_text(known)}"
        return f"there is no {one} {name!r}{hint}"


def is_in(layer: str, name: str) -> bool:
    """Return whether a layer has a name, or is inside of the layer that has it."""
    return bool(name) and (layer == name or layer.startswith((f"{name}.", f"{name}/")))


def _around(layer: str) -> Iterator[str]:
    """Yield a layer, if it has a name, and those that it is inside of."""
    while layer:
        yield layer
        layer = layer[: max(layer.rfind("."), layer.rfind("/"), 0)]
