"""``from_onnx``: an ONNX model as tensors, and the values of its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.arrays.naming import as_stage
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Shape, Tensor, placeholder
from schedlang.errors import FrontendError, warn_user
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.visit import postorder
from schedlang.frontend.imported import Imported
from schedlang.frontend.model_names import Names
from schedlang.frontend.multiples import Multiples
from schedlang.frontend.node_stages import Stages, layers_of
from schedlang.frontend.onnx.checked import check_model
from schedlang.frontend.onnx.evaluation import Values, check_size
from schedlang.frontend.onnx.files import read
from schedlang.frontend.onnx.graph import Graph
from schedlang.frontend.onnx.sizes import input_shapes
from schedlang.frontend.onnx.values import Params
from schedlang.signatures import public


@public
def from_onnx(model: Any, shapes: Mapping[str, Any] | None = None) -> Imported:
    """Return an ONNX model as a computation for ``sl.network``.

    ``model`` is the path of an ``.onnx`` file, its bytes, or an ``onnx.ModelProto``. ``shapes``
    gives extents that the file leaves open: ``{"batch": 4}`` for a dimension of that name, a number
    or a size that each call chooses (``sl.var("batch")``), and ``{"x": (4, 64)}`` for an input.

    Each node becomes stages of topi, which are named after the node; ``layers`` maps stages to
    nodes. Inputs, outputs and parameters keep their names. Parameters are the initializers, with
    the dtypes and values of the file. Arithmetic on shapes is done at import. Where the model
    divides a size ``n`` by 2, and shapes are known to fit for an even ``n`` alone, the size is
    ``2 * n_over_2``: a ``UserWarning`` says so, and each call checks it. ``ZipMap``, which makes
    dicts of probabilities, passes on the tensor of probabilities. Only what the outputs need is
    imported.

    ``If``, ``Loop`` and ``Scan`` are followed where their conditions and counts are known at
    import, such as those that shapes decide. An operator without a form of its own is computed by
    ONNX's definition of it, if that is a graph of operators.

    A file is data: nothing in it is executed. Raises :class:`~schedlang.errors.FrontendError`,
    which names the node, for operators, opsets and types without a form here, for what depends on
    data (conditions, shapes), and for files that are damaged or absurd: data outside of the
    model's folder, cycles, shapes without data. Raises
    :class:`~schedlang.errors.MissingExtraError` without the package ``onnx``.

    >>> from schedlang.frontend import from_onnx
    >>> from_onnx("no such file.onnx")                                   # doctest: +SKIP
    Traceback (most recent call last):
    schedlang.errors.FrontendError: from_onnx('no such file.onnx'): it cannot be read: ...
    """
    proto, folder = read(model)
    graph = check_model(proto, folder)
    declared = input_shapes(graph.inputs, shapes)
    extents = [extent for shape in declared for extent in shape if isinstance(extent, Expr)]
    names = {node.name for node in postorder(extents) if isinstance(node, Var)}
    multiples = Multiples(names=names)
    while True:
        try:
            result = _imported(graph, [tuple(map(multiples.extent, shape)) for shape in declared])
        except FrontendError as error:
            more = multiples.after(error)
            if more is None:
                raise
            multiples = more
        else:
            for size, (number, quotient) in multiples.of.items():
                warn_user(
                    f"from_onnx: the model divides {size} by {number}, so {size} is "
                    f"{number} * {quotient.name} and calls check it; to declare it yourself, give "
                    f'{number} * sl.var("{quotient.name}") in shapes=',
                    UserWarning,
                )
            return result


def _imported(graph: Graph, shapes: Sequence[Shape]) -> Imported:
    """Return a checked model as a computation, for inputs of these shapes."""
    names = Names()
    inputs = tuple(
        placeholder(shape, value.dtype, name=names.kept(value.name))
        for value, shape in zip(graph.inputs, shapes)
    )
    for tensor in inputs:
        check_size(tensor, f"input {tensor.name!r}")
    # before nodes and weights, so that nodes and weights of the same names get numbers
    titles = [names.kept(output.name) for output in graph.outputs]
    params, stages = Params(names), Stages(inputs)
    values = Values(params, stages, graph.weights)
    values.add({v.name: t for v, t in zip(graph.inputs, inputs)})
    values.compute(graph.nodes)
    outputs, structure = _outputs(graph, values, titles)
    needed = {*placeholders(outputs)}
    used = {tensor: array for tensor, array in params.arrays.items() if tensor in needed}
    return Imported(outputs, inputs, used, layers_of(outputs, stages.layers), structure)


def _outputs(
    graph: Graph, values: Values, titles: Sequence[str]
) -> tuple[tuple[Tensor, ...], Any]:
    """Return the outputs as distinct stages, and the structure that the model returns them in.

    Each is named by its title. One that the model returns twice has the first of its titles.
    """
    stage_of: dict[Tensor, Tensor] = {}
    places: list[int] = []
    for output, title in zip(graph.outputs, titles):
        value = values.of(output.name)
        if output.dtype not in (None, value.dtype):
            raise FrontendError(
                f"output {output.name[:80]!r}: the model declares it as {output.dtype}, but "
                f"computes {value.dtype}"
            )
        tensor = values.params.tensor(value)
        if tensor not in stage_of:
            stage_of[tensor] = as_stage(values.stages.rename(tensor, title))
        places.append(list(stage_of).index(tensor))
    return tuple(stage_of.values()), tuple(places) if len(places) > 1 else places[0]
