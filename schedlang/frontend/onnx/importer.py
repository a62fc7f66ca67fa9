"""``from_onnx``: an ONNX model as tensors, and the values of its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.arrays.naming import as_stage
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor, declaration, placeholder
from schedlang.errors import FrontendError, SchedlangError
from schedlang.frontend.imported import Imported
from schedlang.frontend.model_names import Names
from schedlang.frontend.node_stages import Stages, layers_of
from schedlang.frontend.onnx.call import Call, match_arguments, results_of
from schedlang.frontend.onnx.checked import check_model
from schedlang.frontend.onnx.files import read
from schedlang.frontend.onnx.folding import fold
from schedlang.frontend.onnx.graph import Graph, Node
from schedlang.frontend.onnx.limits import MOST_ELEMENTS
from schedlang.frontend.onnx.operators import function_of
from schedlang.frontend.onnx.sizes import input_shapes
from schedlang.frontend.onnx.values import Known, Params, Value
from schedlang.signatures import public


@public
def from_onnx(model: Any, shapes: Mapping[str, Any] | None = None) -> Imported:
    """Return an ONNX model as a computation for ``sl.network``.

    ``model`` is the path of an ``.onnx`` file, its bytes, or an ``onnx.ModelProto``. ``shapes``
    gives extents that the file leaves open: ``{"batch": 4}`` for a dimension of that name, a number
    or a size that each call chooses (``sl.var("batch")``), and ``{"x": (4, 64)}`` for an input.

    Each node becomes stages of topi, which are named after the node; ``layers`` maps stages to
    nodes. Inputs, outputs and parameters keep their names. Parameters are the initializers, with
    the dtypes and values of the file. Arithmetic on shapes is done at import. ``ZipMap``, which
    makes dicts of probabilities, passes on the tensor of probabilities. Only what the outputs need
    is imported.

    A file is data: nothing in it is executed. Raises :class:`~schedlang.errors.FrontendError`,
    which names the node, for operators, opsets and types without a form here, for what depends on
    data (control flow, shapes), and for files that are damaged or absurd: data outside of the
    model's folder, cycles, shapes without data. Raises
    :class:`~schedlang.errors.MissingExtraError` without the package ``onnx``.

    >>> from schedlang.frontend import from_onnx
    >>> from_onnx("no such file.onnx")                                   # doctest: +SKIP
    Traceback (most recent call last):
    schedlang.errors.FrontendError: from_onnx('no such file.onnx'): it cannot be read: ...
    """
    proto, folder = read(model)
    graph = check_model(proto, folder)
    names = Names()
    inputs = tuple(
        placeholder(shape, value.dtype, name=names.kept(value.name))
        for value, shape in zip(graph.inputs, input_shapes(graph.inputs, shapes))
    )
    for tensor in inputs:
        _check_size(tensor, f"input {tensor.name!r}")
    # before nodes and weights, so that nodes and weights of the same names get numbers
    titles = [names.kept(output.name) for output in graph.outputs]
    values: dict[str, Value] = {v.name: t for v, t in zip(graph.inputs, inputs)}
    params, stages = Params(names), Stages(inputs)
    for node in graph.nodes:
        operands = [_value(name, values, graph) if name else None for name in node.inputs]
        for name, result in zip(node.outputs, _evaluate(node, operands, params, stages)):
            if name and result is not None:
                values[name] = result
    outputs, structure = _outputs(graph, values, params, stages, titles)
    needed = {*placeholders(outputs)}
    used = {tensor: array for tensor, array in params.arrays.items() if tensor in needed}
    return Imported(outputs, inputs, used, layers_of(outputs, stages.layers), structure)


def _value(name: str, values: dict[str, Value], graph: Graph) -> Value:
    """Return the value of a name; an initializer is read from the file when it is first used."""
    value = values.get(name)
    if value is None:
        weight = graph.weights.get(name)
        if weight is None:
            raise FrontendError(
                f"from_onnx: {name[:80]!r} is an output of a node that does not make it here"
            )
        value = values[name] = Known(name, weight.read(), weight.dtype)
    return value


def _evaluate(
    node: Node, operands: Sequence[Value | None], params: Params, stages: Stages
) -> list[Value | None]:
    """Return the outputs of a node: known arrays where its inputs are known and few, or stages."""
    try:
        function = function_of(node)
        values, attributes = match_arguments(node, function, operands)
        constants = fold(node, function, values, attributes)
        if constants is not None:
            _check_outputs(node, constants)
            return [Known(n, v.array, v.dtype) for n, v in zip(node.outputs, constants)]
        title = params.names.new(node.name)
        results = results_of(Call(node, params, title), function, values, attributes)
    except FrontendError:
        raise
    except SchedlangError as error:
        raise node.refused("it has no form here", str(error)) from error
    except (ArithmeticError, ValueError, IndexError, MemoryError) as error:
        # numbers of a damaged file that no check foresaw
        raise node.refused(f"it has no form here: {type(error).__name__}: {error}") from error
    _check_outputs(node, results)
    tensors = [v for v in results if isinstance(v, Tensor)]
    for tensor in tensors:
        _check_size(tensor, str(node))
    stages.name(tensors, title, node.name)
    names = [*node.outputs, *[""] * len(results)]
    return [
        Known(name, v.array, v.dtype) if isinstance(v, Known) and not v.name else v
        for name, v in zip(names, results)
    ]


def _check_outputs(node: Node, made: Sequence[Value | None]) -> None:
    """Raise unless each output that has a name is made, and of dimensions that arrays can have."""
    if any(node.outputs[len(made) :]):
        raise node.refused(f"it has {len(node.outputs)} outputs, but makes {len(made)}")
    node.check_ndim(max((v.ndim for v in made if v is not None), default=0))


def _check_size(tensor: Tensor, what: str) -> None:
    numbers = [e for e in tensor.shape if isinstance(e, int)]
    if max(math.prod(numbers), *numbers, 0) > MOST_ELEMENTS:
        raise FrontendError(
            f"{what}: its result would be {declaration(tensor)}, of more than 2**33 elements"
        )


def _outputs(
    graph: Graph, values: dict[str, Value], params: Params, stages: Stages, titles: Sequence[str]
) -> tuple[tuple[Tensor, ...], Any]:
    """Return the outputs as distinct stages, and the structure that the model returns them in.

    Each is named by its title. One that the model returns twice has the first of its titles.
    """
    stage_of: dict[Tensor, Tensor] = {}
    places: list[int] = []
    for output, title in zip(graph.outputs, titles):
        value = _value(output.name, values, graph)
        if output.dtype not in (None, value.dtype):
            raise FrontendError(
                f"output {output.name[:80]!r}: the model declares it as {output.dtype}, but "
                f"computes {value.dtype}"
            )
        tensor = params.tensor(value)
        if tensor not in stage_of:
            stage_of[tensor] = as_stage(stages.rename(tensor, title))
        places.append(list(stage_of).index(tensor))
    return tuple(stage_of.values()), tuple(places) if len(places) > 1 else places[0]
