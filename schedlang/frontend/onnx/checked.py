"""From a ``ModelProto`` to a :class:`Graph`, with everything refused that no network needs.

What is refused here: strings that are not text, unknown domains and opsets, functions, values that
are not tensors, names defined twice or never, cycles, and absurd sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from schedlang.errors import FrontendError, explain
from schedlang.frontend.onnx.beside import Beside
from schedlang.frontend.onnx.elements import dtype_of
from schedlang.frontend.onnx.graph import CLASSIC, DOMAIN, Body, Dim, Graph, Input, Node, Output
from schedlang.frontend.onnx.limits import MOST_DIMS, MOST_NESTED, MOST_NODES, check_dims
from schedlang.frontend.onnx.weights import Weight, weight

# the opsets whose operators the tables know
OPSETS = {DOMAIN: (7, 28), CLASSIC: (1, 5)}
# numbers of AttributeProto.AttributeType
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH = 1, 2, 3, 4, 5
_FLOATS, _INTS, _STRINGS = 6, 7, 8


def check_model(model: Any, folder: Path | None) -> Graph:
    """Return the graph of a ``ModelProto``; data beside its file are read from ``folder``.

    Raises :class:`~schedlang.errors.FrontendError` for a model that is refused.
    """
    if not model.HasField("graph") or not model.graph.node:
        raise FrontendError("from_onnx: the model has no graph, or one without nodes")
    opsets = _opsets(model)
    proto = model.graph
    _check_count(proto)
    if len(proto.sparse_initializer):
        raise FrontendError(
            explain(
                "from_onnx: the graph has sparse initializers",
                "they are not supported",
                "Export the model with dense weights.",
            )
        )
    files = Beside(folder)
    weights = _weights(proto, files)
    inputs = tuple(_input(v) for v in proto.input if v.name not in weights)
    outputs = tuple(_output(v) for v in proto.output)
    if not outputs:
        raise FrontendError("from_onnx: the graph has no outputs")
    nodes = [_node(v, k, opsets, files, 0) for k, v in enumerate(proto.node)]
    names = [v.name for v in outputs]
    order = _in_order(nodes, [v.name for v in inputs], names, weights, "the model's outputs")
    return Graph(inputs, outputs, weights, order)


def check_body(proto: Any, opsets: Mapping[str, int], files: Beside, depth: int = 0) -> Body:
    """Return a checked graph inside of a node, of nodes of ``opsets``.

    ``proto`` is a ``GraphProto``, or the ``FunctionProto`` that defines an operator. Raises
    :class:`~schedlang.errors.FrontendError` for one that is refused.
    """
    _check_count(proto)
    if depth > MOST_NESTED:
        raise FrontendError(f"from_onnx: graphs inside of graphs, more than {MOST_NESTED} deep")
    weights = _weights(proto, files) if hasattr(proto, "initializer") else {}
    inputs, outputs = (
        tuple(text(getattr(v, "name", v), f"the name of an {side} of a body") for v in values)
        for side, values in (("input", proto.input), ("output", proto.output))
    )
    nodes = [_node(v, k, opsets, files, depth) for k, v in enumerate(proto.node)]
    defined = {*inputs, *weights, *(name for node in nodes for name in node.outputs)}
    wanted = (*outputs, *(name for node in nodes for name in node.reads))
    free = tuple(dict.fromkeys(name for name in wanted if name and name not in defined))
    order = _in_order(nodes, (*inputs, *free), outputs, weights, "the outputs of a body")
    return Body(inputs, outputs, weights, order, free)


def _check_count(proto: Any) -> None:
    if len(proto.node) > MOST_NODES:
        raise FrontendError(
            f"from_onnx: the graph has {len(proto.node):,} nodes, more than {MOST_NODES:,}"
        )


def text(value: Any, what: str) -> str:
    """Return a string of the file if it is text that can be shown.

    >>> text("layer1.conv", "the name of a node")
    'layer1.conv'
    >>> text(b"\\xff", "the name of a node")
    Traceback (most recent call last):
    schedlang.errors.FrontendError: the name of a node is not text: b'\\xff'
    """
    if not isinstance(value, str) or not value.isprintable():
        raise FrontendError(f"{what} is not text: {value[:40]!r}")
    return value


def _opsets(model: Any) -> dict[str, int]:
    """Return the opset version of each domain that the model imports."""
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = text(entry.domain, "the name of a domain")
        domain = DOMAIN if domain == "ai.onnx" else domain
        if versions.setdefault(domain, entry.version) != entry.version:
            raise FrontendError(
                f"from_onnx: the model imports two opsets of domain {domain or 'ai.onnx'!r}, "
                f"{versions[domain]} and {entry.version}"
            )
    for domain, (oldest, newest) in OPSETS.items():
        version = versions.get(domain, oldest)
        if not oldest <= version <= newest:
            raise FrontendError(
                explain(
                    f"from_onnx: opset {version} of domain {domain or 'ai.onnx'!r}",
                    f"opsets {oldest} to {newest} are known",
                    f"Convert the model: onnx.version_converter.convert_version(model, {newest}), "
                    "or export it with another opset.",
                )
            )
    if DOMAIN not in versions and not versions:
        raise FrontendError("from_onnx: the model does not say which opset it uses")
    for function in model.functions:
        if function.domain in (*OPSETS, "ai.onnx"):
            raise FrontendError(
                f"from_onnx: the model redefines the operator {function.name[:80]!r} of ONNX"
            )
    return versions


def _weights(proto: Any, files: Beside) -> dict[str, Weight]:
    weights: dict[str, Weight] = {}
    for tensor in proto.initializer:
        name = text(tensor.name, "the name of an initializer")
        if not name or name in weights:
            raise FrontendError(f"from_onnx: two initializers are called {name[:80]!r}")
        weights[name] = weight(tensor, f"initializer {name[:80]!r}", files)
    return weights


def _tensor_type(value: Any, what: str) -> Any:
    kind = value.type.WhichOneof("value")
    if kind == "tensor_type":
        return value.type.tensor_type
    named = (kind or "no type").removesuffix("_type").replace("_", " ")
    raise FrontendError(
        explain(
            what,
            f"it is of type {named}, and only tensors can be computed",
            "Export the model with tensors for inputs and outputs.",
        )
    )


def _input(value: Any) -> Input:
    name = text(value.name, "the name of an input")
    what = f"input {name[:80]!r}"
    kind = _tensor_type(value, what)
    dtype = dtype_of(kind.elem_type, what)
    if not kind.HasField("shape"):
        return Input(name, dtype, None)
    if len(kind.shape.dim) > MOST_DIMS:
        raise FrontendError(f"{what}: it has {len(kind.shape.dim)} dimensions")
    dims: list[Dim] = []
    for dim in kind.shape.dim:
        # exporters write -1 or "?" for an extent that is open
        if dim.HasField("dim_value") and dim.dim_value != -1:
            dims.append(dim.dim_value)
        else:
            name_of_dim = text(dim.dim_param, f"a dimension of {what}")
            dims.append(None if name_of_dim in ("", "?") else name_of_dim)
    check_dims([d for d in dims if isinstance(d, int)], what)
    return Input(name, dtype, tuple(dims))


def _output(value: Any) -> Output:
    name = text(value.name, "the name of an output")
    kind = value.type.WhichOneof("value")
    if kind == "sequence_type":
        # what ZipMap returns: the tensor that it takes is the output
        return Output(name, None)
    what = f"output {name[:80]!r}"
    number = _tensor_type(value, what).elem_type
    return Output(name, dtype_of(number, what) if number else None)


def _node(
    proto: Any, number: int, opsets: Mapping[str, int], files: Beside, depth: int
) -> Node:
    operator = text(proto.op_type, f"the operator of node {number}")
    name = text(proto.name, f"the name of node {number}") or f"{operator}_{number}"
    domain = text(proto.domain, f"the domain of node {name[:80]!r}")
    domain = DOMAIN if domain == "ai.onnx" else domain
    what = f"{operator[:40]} node {name[:80]!r}"
    if domain not in OPSETS:
        raise FrontendError(
            explain(
                f"{what} of domain {domain[:80]!r}",
                "operators of other domains than ai.onnx and ai.onnx.ml have no known meaning",
                "Export the model without custom operators. Functions of the model itself are "
                "inlined by onnx.inliner.inline_local_functions(model).",
            )
        )
    if domain not in opsets:
        raise FrontendError(
            f"{what}: the model does not import an opset of its domain, {domain or 'ai.onnx'}"
        )
    inputs, outputs = (
        tuple(text(v, f"the name of an {side} of {what}") for v in names)
        for side, names in (("input", proto.input), ("output", proto.output))
    )
    attributes: dict[str, Any] = {}
    for attribute in proto.attribute:
        key = text(attribute.name, f"the name of an attribute of {what}")
        if key in attributes:
            raise FrontendError(f"{what}: it has the attribute {key[:80]!r} twice")
        if attribute.type == _GRAPH:
            attributes[key] = check_body(attribute.g, opsets, files, depth + 1)
        else:
            attributes[key] = _attribute(attribute, key, what, files)
    return Node(name, operator, domain, opsets[domain], inputs, outputs, attributes)


def _attribute(proto: Any, key: str, what: str, files: Beside) -> Any:
    """Return the value of an attribute as a number, text, an array, or a list of them."""
    kind = proto.type
    if proto.ref_attr_name:
        raise FrontendError(f"{what}: its attribute {key!r} refers to an attribute of a function")
    if kind == _INT:
        return int(proto.i)
    if kind == _FLOAT:
        return float(proto.f)
    if kind == _STRING:
        return _decoded(proto.s, key, what)
    if kind == _INTS:
        return [int(v) for v in proto.ints]
    if kind == _FLOATS:
        return [float(v) for v in proto.floats]
    if kind == _STRINGS:
        return [_decoded(v, key, what) for v in proto.strings]
    if kind == _TENSOR:
        return weight(proto.t, f"{what}: its attribute {key!r}", files).read()
    raise FrontendError(f"{what}: its attribute {key!r} is neither a number, text nor a tensor")


def _decoded(value: bytes, key: str, what: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise FrontendError(f"{what}: its attribute {key!r} is not text: {value[:40]!r}") from None


def _in_order(
    nodes: Sequence[Node],
    inputs: Sequence[str],
    outputs: Sequence[str],
    weights: Mapping[str, Weight],
    what: str,
) -> tuple[Node, ...]:
    """Return the nodes that the outputs need, each after those that compute its inputs.

    ``what`` are the outputs in words.
    """
    if len({*inputs}) < len(inputs) or "" in inputs:
        raise FrontendError("from_onnx: two inputs of the model have the same name, or no name")
    defined = {*inputs, *weights}
    maker: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in defined or name in maker:
                raise node.refused(f"its output {name[:80]!r} is the name of another value, too")
            maker[name] = number
    needed: dict[int, set[int]] = {}
    waiting = list(_makers(outputs, defined, maker, what))
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed[number] = set(_makers(nodes[number].reads, defined, maker, str(nodes[number])))
            waiting.extend(needed[number])
    order = sorted(needed)
    if all(before < number for number in order for before in needed[number]):
        return tuple(nodes[k] for k in order)
    try:
        order = list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        cycle = " -> ".join(nodes[k].name[:40] for k in reversed(error.args[1][:8]))
        raise FrontendError(
            f"from_onnx: the graph has a cycle, so nothing in it can be computed: {cycle}"
        ) from None
    return tuple(nodes[k] for k in order)


def _makers(
    names: Sequence[str], known: set[str], maker: Mapping[str, int], what: str
) -> Iterator[int]:
    for name in filter(None, names):
        if name in maker:
            yield maker[name]
        elif name not in known:
            raise FrontendError(
                f"{what}: no node, input or initializer of the graph is called {name[:80]!r}"
            )
