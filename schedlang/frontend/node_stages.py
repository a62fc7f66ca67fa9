"""The stages that an import makes: named after the nodes of the model, each with its layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from schedlang import topi
from schedlang.arrays.naming import rename
from schedlang.compute.graph import operations
from schedlang.compute.tensor import Operation, PlaceholderOp, Tensor
from schedlang.tvm.topi.elementwise import identity


class Stages:
    """The stages so far, and in ``layers`` the layer of each by its name."""

    def __init__(self, known: Iterable[Tensor]) -> None:
        self.layers: dict[str, str] = {}
        self._seen: set[Operation] = {tensor.op for tensor in known}

    def name(
        self,
        tensors: Sequence[Tensor],
        title: str,
        layer: str,
        numbered: Callable[[str], str] = str,
    ) -> None:
        """Name the new stages of a node, whose results are ``tensors``, and record their layer.

        If there are several results, ``numbered`` names each by ``title`` and its position.
        """
        new = self._new(tensors)
        names = {op.name for op in new}
        for k, tensor in enumerate(tensors):
            if tensor.op in new and title not in names:
                rename(tensor, title if len(tensors) == 1 else numbered(f"{title}_{k}"))
        used: set[str] = set()
        for op in new:
            if isinstance(op, PlaceholderOp):
                continue
            # equal names of one node, such as the two directions of an LSTM, get a number
            number, base = 0, op.name
            while op.name in used:
                number += 1
                rename(op.outputs[0], f"{base}_{number}")
            used.add(op.name)
            self.layers[op.name] = layer

    def rename(self, tensor: Tensor, name: str) -> Tensor:
        """Return the stage ``tensor`` under ``name``, in the same layer.

        An input, a weight, and one of several results of a stage are copied under that name.
        """
        op, old = tensor.op, tensor.op.name
        layer = self.layers.get(old)
        alone = not isinstance(op, PlaceholderOp) and len(op.outputs) == 1
        stage = rename(tensor, name) if alone else tensor
        if alone and stage.name == name:
            self.layers.pop(old, None)
        else:
            stage = rename(identity(tensor), name)
        if layer is not None:
            self.layers[name] = layer
        return stage

    def _new(self, tensors: Sequence[Tensor]) -> list[Operation]:
        """Return the operations behind ``tensors`` that are not seen yet; now they are."""
        order: list[Operation] = []
        stack = [tensor.op for tensor in reversed(tensors)]
        while stack:
            op = stack.pop()
            if op not in self._seen:
                self._seen.add(op)
                order.append(op)
                stack.extend(t.op for t in reversed(op.input_tensors))
        return order[::-1]


def cast_to(made: Tensor, dtype: str) -> Tensor:
    """Return ``made`` cast to ``dtype``, if it has another one."""
    return made if made.dtype == dtype else topi.cast(made, dtype)


def is_zero(tensor: Tensor) -> bool:
    """Return whether a tensor is a stage of zeros, as exporters make them."""
    body: Any = getattr(tensor.op, "body", ())
    return len(body) == 1 and getattr(body[0], "value", None) == 0


def layers_of(outputs: Sequence[Tensor], layers: Mapping[str, str]) -> dict[str, str]:
    """Return the layers, by name, of the stages that the outputs need."""
    return {op.name: layers[op.name] for op in operations(outputs) if op.name in layers}
