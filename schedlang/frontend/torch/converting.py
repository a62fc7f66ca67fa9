"""The nodes of an exported graph as tensors, one after the other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.arrays.naming import name_prefix
from schedlang.arrays.shapes import extent
from schedlang.compute.tensor import Tensor, placeholder, var
from schedlang.errors import FrontendError, SchedlangError, explain
from schedlang.expr.dtypes import DTYPES
from schedlang.frontend.model_names import Names
from schedlang.frontend.node_stages import Stages
from schedlang.frontend.torch.calls import Call
from schedlang.frontend.torch.layers import Layer, layers_of, used_results, word_of
from schedlang.frontend.torch.lines import line_of
from schedlang.frontend.torch.missing import without_form
from schedlang.frontend.torch.operators import EVALUATED, OPERATORS, apply
from schedlang.frontend.torch.params import dtype_of
from schedlang.language.calls import call as function_of

# arithmetic on symbolic sizes
_SIZES: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg,
    "floordiv": operator.floordiv, "mod": operator.mod,
    "sym_max": lambda a, b: function_of("max", a, b),
    "sym_min": lambda a, b: function_of("min", a, b),
}  # fmt: skip
# of dtypes and sizes, which PyTorch has proven, and of values, as that an index is not negative
_CHECKS = (
    "_assert_tensor_metadata",
    "_assert_scalar",
    "_assert_async",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
)


class Conversion:
    """The tensors of a graph's nodes, and the layer of each of their stages.

    ``arrays`` are the values of parameters that calls make of what is known at import.
    """

    def __init__(self, values: Mapping[Any, Any], names: Names) -> None:
        self.values = dict(values)
        self.arrays: dict[Tensor, np.ndarray] = {}
        self._names = names
        self._stages = Stages(v for v in values.values() if isinstance(v, Tensor))

    @property
    def layers(self) -> dict[str, str]:
        """The layer of each stage, by its name."""
        return self._stages.layers

    def run(self, nodes: Sequence[Any]) -> None:
        """Convert the calls among ``nodes``.

        Raises :class:`~schedlang.errors.FrontendError` for operators without a form, all of them
        at once, and for calls that have none.
        """
        layers = layers_of(nodes)
        _check_known(nodes, layers)
        for node in nodes:
            if node.op == "call_function" and node not in self.values:
                self._convert(node, layers.get(node, Layer("", node.name)))

    def refusals(self, nodes: Sequence[Any]) -> dict[str, FrontendError]:
        """Convert the calls that have a form; return why the others have none, by their names.

        Later calls read a result without a form like an input.
        """
        layers = layers_of(nodes)
        refused: dict[str, FrontendError] = {}
        for node in nodes:
            if node.op != "call_function" or node in self.values:
                continue
            try:
                if not has_form(node):
                    raise without_form([node], layers)
                if word_of(node) == "getitem" and node.args[0].name in refused:
                    raise refused[node.args[0].name]
                self._convert(node, layers.get(node, Layer("", node.name)))
            except FrontendError as error:
                refused[node.name] = error
                value = node.meta.get("val")
                if hasattr(value, "dtype") and str(value.dtype).removeprefix("torch.") in DTYPES:
                    self.values[node] = placeholder(
                        self._extents(value.shape), dtype_of(value.dtype, node.name),
                        name=self._names.new(node.name),
                    )  # fmt: skip
        return refused

    def _extents(self, shape: Sequence[Any]) -> list[Any]:
        """Return a shape of PyTorch in our sizes, with a size of its own for an unknown extent.

        PyTorch takes an extent that is converted to a number as that number from then on.
        """
        known = {
            str(e): own
            for node, value in self.values.items()
            if isinstance(value, Tensor) and hasattr(node.meta.get("val"), "shape")
            for e, own in zip(node.meta["val"].shape, value.shape)
        }
        return [
            e if isinstance(e, int) else known.get(str(e), var(self._names.new("extent")))
            for e in shape
        ]

    def _convert(self, node: Any, layer: Layer) -> None:
        word = word_of(node)
        if word in _CHECKS or _is_condition(node):
            return
        args = [self._value(a) for a in node.args]
        if word == "getitem":
            self.values[node] = args[0][args[1]]
        elif word == "sym_size":
            self.values[node] = args[0].shape[args[1]]
        elif word in _SIZES and _is_size(node):
            self.values[node] = extent(_SIZES[word](*args))
        else:
            self.values[node] = self._called(node, layer)

    def _called(self, node: Any, layer: Layer) -> Any:
        name = self._names.new(layer.title)

        def known(what: str, array: np.ndarray) -> Tensor:
            title = self._names.new(f"{name}.{what}")
            tensor = placeholder(array.shape, array.dtype.name, name=title)
            self.arrays[tensor] = array
            return tensor

        call = _call(node, name, layer, known)
        try:
            with name_prefix(name):
                results = apply(call, _operator_name(node), self._arguments(node))
            _check_results(call, results)
        except FrontendError:
            raise
        except SchedlangError as error:
            raise FrontendError(explain(call.described(), "it has no form here", str(error))) from (
                error
            )
        return self._named(results, name, layer)

    def _named(self, made: Any, name: str, layer: Layer) -> Any:
        """Name the new stages of a call, and record their layer."""
        results = made if isinstance(made, tuple) else (made,)
        tensors = [t for t in results if isinstance(t, Tensor)]
        self._stages.name(tensors, name, layer.path, self._names.new)
        return made

    def _arguments(self, node: Any) -> dict[str, tuple[Any, Any]]:
        """Return the arguments of a call by name, each with its default."""
        declared = node.target._schema.arguments
        arguments = {}
        for k, argument in enumerate(declared):
            default = argument.default_value if argument.has_default_value() else None
            if k < len(node.args):
                value = self._value(node.args[k])
            else:
                value = self._value(node.kwargs.get(argument.name, default))
            arguments[argument.name] = (value, default)
        return arguments

    def _value(self, given: Any) -> Any:
        if isinstance(given, (list, tuple)):
            return [self._value(v) for v in given]
        if hasattr(given, "op") and hasattr(given, "meta"):
            if given not in self.values:
                raise FrontendError(
                    f"from_torch: node {given.name} is read, but {given.op} {given.target} has no "
                    "form here"
                )
            return self.values[given]
        return given


def _call(
    node: Any, name: str, layer: Layer, known: Callable[[str, np.ndarray], Tensor]
) -> Call:
    values = node.meta["val"]
    results = values if isinstance(values, (tuple, list)) else (values,)
    used = used_results(node)
    what = f"{node.target}, node {node.name}" + (f" of layer {layer.path}" if layer.path else "")
    many = isinstance(values, (tuple, list))
    return Call(
        operator=str(node.target),
        node=node.name,
        name=name,
        layer=layer.path,
        line=line_of(node),
        dtypes=tuple(
            "" if v is None else dtype_of(v.dtype, f"a result of {what}") for v in results
        ),
        shapes=tuple(() if v is None else tuple(_known(e) for e in v.shape) for v in results),
        promoted=_promoted(node),
        used=tuple(used.get(k, False) for k in range(len(results))) if many else (True,),
        known=known,
    )


def _known(size: Any) -> int | None:
    return size if isinstance(size, int) else None


def _promoted(node: Any) -> str:
    """Return the dtype of PyTorch's comparison of the first two operands; "" for other calls."""
    import torch

    values = [getattr(a, "meta", {}).get("val", a) for a in node.args[:2]]
    operands = [1 if isinstance(v, torch.SymInt) else v for v in values]
    if len(operands) < 2 or not all(isinstance(v, (torch.Tensor, int, float)) for v in operands):
        return ""
    return str(torch.result_type(*operands)).removeprefix("torch.")


def _check_known(nodes: Sequence[Any], layers: Mapping[Any, Layer]) -> None:
    """Raise for the operators of a graph that have no form."""
    missing = [
        node for node in nodes if node.op not in ("placeholder", "output") and not has_form(node)
    ]
    if missing:
        raise without_form(missing, layers)


def has_form(node: Any) -> bool:
    """Return whether a node can be converted."""
    word = word_of(node)
    if node.op != "call_function" or _is_training(node):
        return False
    if word in ("getitem", "sym_size", *_CHECKS) or (word in _SIZES and _is_size(node)):
        return True
    if _is_condition(node):
        return True
    return _operator_name(node) in OPERATORS


def _is_training(node: Any) -> bool:
    """Return whether a norm or a dropout has the form that it has in training."""
    position = EVALUATED.get(_operator_name(node))
    return position is not None and bool(node.args[position])


def _operator_name(node: Any) -> str:
    return str(node.target).removeprefix("aten.")


def _is_size(node: Any) -> bool:
    """Return whether a node computes a size, not a tensor."""
    return type(node.meta.get("val")).__name__ in ("SymInt", "int")


def _is_condition(node: Any) -> bool:
    """Return whether a node compares sizes with an outcome that PyTorch has proven."""
    return type(node.meta.get("val")).__name__ in ("SymBool", "bool")


def _check_results(call: Call, made: Any) -> None:
    """Raise if a result has another dtype or shape than PyTorch's: a mistake of this package."""
    results = made if isinstance(made, tuple) else (made,)
    if len(results) != len(call.dtypes):
        raise call.refuse(f"{len(results)} results were made", _REPORT)
    for tensor, dtype, shape in zip(results, call.dtypes, call.shapes):
        if tensor is None:
            continue
        sizes = [e if isinstance(e, int) else None for e in tensor.shape]
        fits = len(sizes) == len(shape) and all(
            a is None or b is None or a == b for a, b in zip(sizes, shape)
        )
        if tensor.dtype != dtype or not fits:
            raise call.refuse(
                f"it was converted to {tensor!r}, but PyTorch has {dtype}{list(shape)}", _REPORT
            )


_REPORT = "This is a defect of schedlang: please report it."
