"""The function that an operator of PyTorch calls: a kernel, or a function under ``sl.jit``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from schedlang.compute.conversions import as_contiguous
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.errors import ComputeTypeError, SchedlangError, explain
from schedlang.expr.dtypes import array_dtype
from schedlang.expr.nodes import Cast, Var
from schedlang.runtime.copies import warn_of_large_copy
from schedlang.runtime.kernel import Kernel
from schedlang.runtime.parameters import Binder, Parameter
from schedlang.target import Target
from schedlang.torch.recent import Recent
from schedlang.torch.shapes import Form, Graph
from schedlang.tracing.jit import JitFunction
from schedlang.tracing.tensors import trace

# the type of an argument in the schema of an operator
TENSOR, FLOAT, INT, SIZE, BOOL, INTS = "Tensor", "float", "int", "SymInt", "bool", "int[]"


@dataclass(frozen=True)
class Argument:
    """An argument of an operator: its name, and its type in the schema."""

    name: str
    type: str


class Function(ABC):
    """A function of tensors and numbers, which returns new tensors.

    ``title`` names it in errors, and ``count`` is the number of its results.
    """

    title: str
    arguments: tuple[Argument, ...]
    count: int
    target: Target

    @abstractmethod
    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """Return the results for ``args``, tensors with memory."""

    @abstractmethod
    def forms(self, args: Sequence[Any]) -> list[Form]:
        """Return the form of each result for ``args``, tensors that may have no memory.

        Raises what a call raises for arguments of other dtypes or shapes.
        """

    @abstractmethod
    def graph(self, args: Sequence[Any]) -> Graph:
        """Return the computation, for arguments like ``args``."""


class KernelFunction(Function):
    """A kernel that ``sl.build`` returned."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.title = f"kernel {kernel.name}"
        self.target = kernel.target
        self._binder = Binder(kernel.signature)
        positions = enumerate(kernel.signature.parameters)
        self._inputs = [k for k, p in positions if not p.is_output]
        inputs = kernel.signature.inputs
        self.arguments = tuple(Argument(p.name, _type_of(p)) for p in inputs)
        self.count = len(kernel.signature.outputs)

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        import torch

        rows = [self._by_rows(a, k) if _is_strided(a) else a for k, a in enumerate(args)]
        result = self.kernel(*rows)
        results = cast("Sequence[Any]", result) if self.count > 1 else (result,)
        # without a tensor among its arguments, a kernel returns arrays of NumPy
        return [torch.as_tensor(r) for r in results]

    def _by_rows(self, value: Any, position: int) -> Any:
        name, kernel = self.arguments[position].name, self.kernel.name
        why = f"it is strided (strides {value.stride()})"
        convert = f"{name} = {as_contiguous(value, name)}"
        size = value.numel() * value.element_size()
        warn_of_large_copy(size, why, f"{kernel}({name}=...)", kernel, convert)
        return value.contiguous()

    def forms(self, args: Sequence[Any]) -> list[Form]:
        for k, value in zip(self._inputs, args):
            if not self.kernel.signature.parameters[k].is_scalar:
                self._binder.check_form(k, value.shape, _dtype(value), value)
        forms = self.graph(args).forms(args)
        return self._forms_of_numbers(args) if forms is None else forms

    def _forms_of_numbers(self, args: Sequence[Any]) -> list[Form]:
        """Return the forms where sizes follow from derived extents, each of which is a number."""
        parameters = self.kernel.signature.parameters
        values: list[Any] = [None] * len(parameters)
        for k, value in zip(self._inputs, args):
            scalar = parameters[k].is_scalar
            values[k] = value if scalar else _without_memory(value)
        sizes = self._binder.sizes(values)
        outputs = self.kernel.signature.outputs
        return [(self._binder.shape(p, sizes), p.dtype) for p in outputs]

    def graph(self, args: Sequence[Any]) -> Graph:
        return self._graph

    @cached_property
    def _graph(self) -> Graph:
        nest = self.kernel.loop_nest
        given = [a if isinstance(a, Var) else cast("Tensor", a.tensor) for a in nest.args]
        parameters = self.kernel.signature.parameters
        inputs = [g for g, p in zip(given, parameters) if not p.is_output]
        outputs = [g for g, p in zip(given, parameters) if p.is_output]
        return Graph(tuple(inputs), cast("tuple[Tensor, ...]", tuple(outputs)))


class TracedFunction(Function):
    """A function under ``sl.jit``, with arguments of the types of ``example``."""

    def __init__(self, function: JitFunction, example: Sequence[Any]) -> None:
        self.function = function
        self.title = f"{function.__name__} under sl.jit"
        self.target = function.target
        names = function._signature.parameters
        if len(example) != len(names):
            raise ComputeTypeError(
                explain(
                    f"sl.torch.op({function.__name__}, example_inputs of {len(example)})",
                    f"it takes {len(names)} arguments: {', '.join(names)}",
                    "Give an example of each, in order.",
                )
            )
        self.arguments = tuple(
            Argument(name, _type_of_example(function.__name__, name, value))
            for name, value in zip(names, example)
        )
        if function.specialized(*example).written:
            raise ComputeTypeError(
                explain(
                    f"sl.torch.op({function.__name__})",
                    "it assigns to elements of an argument, and PyTorch keeps arguments to compute "
                    "gradients from them",
                    "Copy the argument in the function, assign to the copy, and return it.",
                )
            )
        self._graphs: Recent[Any, Graph] = Recent()
        self.count = len(self.graph(example).outputs)

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        import torch

        result = self.function(*args)
        results = [*result] if isinstance(result, (tuple, list)) else [result]
        # an element of NumPy, or an argument that the function returns
        given = {id(a) for a in args}
        tensors = [torch.as_tensor(r) for r in results]
        return [r.clone() if id(r) in given else r for r in tensors]

    def forms(self, args: Sequence[Any]) -> list[Form]:
        forms = self.graph(args).forms(args)
        assert forms is not None
        return forms

    def graph(self, args: Sequence[Any]) -> Graph:
        """Return the computation, with symbolic sizes where PyTorch has them if it can have any."""
        shapes = [tuple(map(_symbol, getattr(a, "shape", ()))) for a in args]
        if any(isinstance(e, str) for shape in shapes for e in shape):
            try:
                return self._graph_of(args, shapes)
            except SchedlangError:
                # a function that needs a number: PyTorch then takes the size for one
                pass
        numbers = [tuple(int(e) for e in getattr(a, "shape", ())) for a in args]
        return self._graph_of(args, numbers)

    def _graph_of(self, args: Sequence[Any], shapes: Sequence[tuple[Any, ...]]) -> Graph:
        key = tuple(
            (shape, _dtype(a)) if argument.type == TENSOR else None
            if argument.type == FLOAT else a
            for a, shape, argument in zip(args, shapes, self.arguments)
        )  # fmt: skip
        return self._graphs.value(key, lambda: self._traced(args, shapes))

    def _traced(self, args: Sequence[Any], shapes: Sequence[tuple[Any, ...]]) -> Graph:
        sizes: dict[str, Var] = {}
        inputs: list[Any] = []
        specs: list[Any] = []
        for value, shape, argument in zip(args, shapes, self.arguments):
            if argument.type == TENSOR:
                extents = [sizes.setdefault(e, Var(e)) if isinstance(e, str) else e for e in shape]
                inputs.append(placeholder(extents, _dtype(value), name=argument.name))
                specs.append(inputs[-1])
            elif argument.type == FLOAT:
                inputs.append(Var(argument.name, "float64", weak=False))
                specs.append(Cast(inputs[-1], "float64", weak=True))
            else:
                inputs.append(None)
                specs.append(value)
        name = self.function.__name__
        try:
            result = trace(self.function, *specs)
        except SchedlangError as error:
            raise type(error)(
                explain(
                    f"sl.torch.op({name})",
                    "an operator of PyTorch tells the shapes of its results before it runs, by a "
                    "trace of the whole function",
                    str(error),
                )
            ) from error
        outputs = [*result] if isinstance(result, (tuple, list)) else [result]
        if not all(isinstance(t, Tensor) for t in outputs):
            raise ComputeTypeError(
                explain(
                    f"sl.torch.op({name})",
                    f"it returns a {type(result).__name__}, and an operator returns tensors",
                    "Return an array, or a tuple of arrays.",
                )
            )
        return Graph(tuple(inputs), tuple(outputs))


def _is_strided(value: Any) -> bool:
    """Return whether a value is a tensor whose elements do not lie row by row."""
    import torch

    dense = isinstance(value, torch.Tensor) and value.layout is torch.strided
    return dense and not value.is_contiguous()


def _dtype(value: Any) -> str:
    """Return the name of the dtype of a tensor or an array."""
    return str(value.dtype).removeprefix("torch.")


def _symbol(extent: Any) -> int | str:
    """Return an extent, or the name of a size if PyTorch does not know its number.

    Equal names are equal sizes.
    """
    if isinstance(extent, int):
        return extent
    name = str(extent)
    return name if name.isidentifier() else int(extent)


def _without_memory(value: Any) -> np.ndarray:
    """Return an array of the shape of a tensor, whose elements share one place in memory."""
    shape = tuple(int(e) for e in value.shape)
    return np.broadcast_to(np.zeros((), array_dtype(_dtype(value))), shape)


def _type_of(parameter: Parameter) -> str:
    if not parameter.is_scalar:
        return TENSOR
    if parameter.is_size:
        return SIZE
    kind = np.dtype(array_dtype(parameter.dtype)).kind
    return {"b": BOOL, "i": INT, "u": INT}.get(kind, FLOAT)


def _type_of_example(function: str, name: str, value: Any) -> str:
    for kind, type_name in ((bool, BOOL), (int, INT), (float, FLOAT)):
        if isinstance(value, kind):
            return type_name
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return TENSOR
    raise ComputeTypeError(
        explain(
            f"sl.torch.op({function}): the example of {name} is {value!r}",
            "an operator takes tensors, floats, integers and bools",
            "Give one of these, and bind other values in a function of fewer arguments.",
        )
    )
