"""``Imported``: a model of another library as tensors, with the values of its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from schedlang.compute.data import Graph
from schedlang.compute.graph import placeholders, variables
from schedlang.compute.reference import reference
from schedlang.compute.tensor import PlaceholderOp, Tensor, declaration, shape_text
from schedlang.errors import CallTypeError, FrontendError
from schedlang.networks.model import Model
from schedlang.networks.structure import filled


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Imported(Model):
    """A model of another library: what it computes, and the values of its weights.

    ``outputs`` are distinct tensors, which operators of topi compute from ``inputs`` and from the
    keys of ``params``. Both are placeholders. ``inputs`` are in the order in which the model takes
    them; each key of ``params`` has an array, of the dtype and the values of the model.

    ``layers`` says which layer of the model a stage is a part of: it maps the name of a stage to
    the name that the layer has in the model, such as ``"layer1.0.conv1"``. ``structure`` is the
    form of what the model returns: tuples, lists and dicts that have the position of an output for
    each tensor, and ``None`` where the model returns that. By default the outputs are a tuple, or
    one tensor.

    Raises :class:`~schedlang.errors.FrontendError` for parts that do not fit together.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> X, W = sl.placeholder((2, 3), name="X"), sl.placeholder((4, 3), name="W")
    >>> Y = sl.named("fc", topi.nn.dense(X, W))
    >>> model = Imported((Y,), (X,), {W: np.ones((4, 3), "float32")}, {"fc": "fc"}, {"logits": 0})
    >>> print(model)
    X: float32[2, 3] -> fc: float32[2, 4]; 1 parameter, 48 B
    >>> model.reference(np.ones((2, 3), "float32"))["logits"].tolist()
    [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """

    def __init__(
        self,
        outputs: tuple[Tensor, ...],
        inputs: tuple[Tensor, ...],
        params: Mapping[Tensor, np.ndarray],
        layers: Mapping[str, str] | None = None,
        structure: Any = (),
    ) -> None:
        if not outputs:
            raise FrontendError("a model without outputs: it computes nothing")
        if len({*outputs}) < len(outputs):
            raise FrontendError("an output is given twice: structure may have a position twice")
        if structure == ():
            structure = tuple(range(len(outputs))) if len(outputs) > 1 else 0
        super().__init__(outputs, inputs, params, {} if layers is None else layers, structure)
        _check_inputs(self)
        _check_params(self.params)

    def structured(self, values: Sequence[Any]) -> Any:
        """Return ``values``, one for each output, in the structure that the model returns.

        >>> import schedlang as sl
        >>> X = sl.placeholder((2,), name="X")
        >>> model = Imported((X + 1, X * 2), (X,), {}, structure={"more": 0, "pair": (1, None)})
        >>> model.structured(["a", "b"])
        {'more': 'a', 'pair': ('b', None)}
        """
        return filled(self.structure, values)

    def reference(self, *arrays: Any, **sizes: Any) -> Any:
        """Return what the model computes from one array an input, by NumPy, without schedules.

        The result has the structure that the model returns. ``sizes`` are the symbolic sizes that
        the shape of no input determines. Raises the errors of :func:`schedlang.reference`.
        """
        if len(arrays) != len(self.inputs):
            input_list = ", ".join(map(declaration, self.inputs))
            raise CallTypeError(
                f"{len(arrays)} arrays were given, but the model takes: {input_list}"
            )
        evaluated = reference(self.outputs)
        arrays_by_tensor = dict(zip(self.inputs, arrays))
        arrays_by_tensor.update(self.params)
        # an input that no output reads may have a size with bounds
        unread = [t for t in self.inputs if t not in evaluated.inputs]
        if unread:
            sized = tuple(variables([*self.outputs, *unread]))
            evaluated = replace(evaluated, inputs=(*evaluated.inputs, *unread), variables=sized)
        results = evaluated(**{t.name: arrays_by_tensor[t] for t in evaluated.inputs}, **sizes)
        return self.structured(results if len(self.outputs) > 1 else (results,))

    def __reduce__(self) -> Any:
        # one graph: tensors that are pickled one by one would become separate computations
        graph = Graph((*self.outputs, *self.inputs, *self.params))
        arrays = tuple(self.params.values())
        sizes = len(self.outputs), len(self.inputs)
        return _unpickled, (graph, *sizes, arrays, dict(self.layers), self.structure)

    def __str__(self) -> str:
        count, size = len(self.params), sum(array.nbytes for array in self.params.values())
        return (
            f"{', '.join(map(declaration, self.inputs))} -> "
            f"{', '.join(map(declaration, self.outputs))}; "
            f"{count} parameter{'s' * (count != 1)}, {size:,} B"
        )

    def __repr__(self) -> str:
        return f"Imported({self})"


def _unpickled(
    graph: Graph,
    outputs: int,
    inputs: int,
    arrays: Sequence[np.ndarray],
    layers: Mapping[str, str],
    structure: Any,
) -> Imported:
    tensors = tuple(graph.tensors)
    params = dict(zip(tensors[outputs + inputs :], arrays))
    return Imported(
        tensors[:outputs], tensors[outputs : outputs + inputs], params, layers, structure
    )


def _check_inputs(model: Imported) -> None:
    """Raise unless the graph reads declared placeholders alone, and all have names of their own."""
    declared_ones = {*model.inputs, *model.params}
    for tensor in declared_ones:
        if not isinstance(tensor.op, PlaceholderOp):
            raise FrontendError(
                f"{tensor.name} is computed, so it is neither an input nor a parameter"
            )
    if len({t.name for t in declared_ones}) < len(model.inputs) + len(model.params):
        raise FrontendError("two inputs or parameters have the same name, or one is given twice")
    undeclared = [t.name for t in placeholders(model.outputs) if t not in declared_ones]
    if undeclared:
        raise FrontendError(f"{undeclared[0]} is read, but is neither an input nor a parameter")


def _check_params(params: Mapping[Tensor, np.ndarray]) -> None:
    for tensor, array in params.items():
        if array.dtype.name != tensor.dtype or array.shape != tensor.shape:
            raise FrontendError(
                f"parameter {declaration(tensor)} has a value of dtype {array.dtype.name} and "
                "shape "
                f"{shape_text(array.shape)}"
            )
