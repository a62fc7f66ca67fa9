"""Operators that ONNX defines by other operators: their definitions as graphs.

The package ``onnx`` has the definitions, some of which depend on the inputs that a node has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.errors import first_line
from schedlang.frontend.onnx.beside import Beside
from schedlang.frontend.onnx.checked import check_body
from schedlang.frontend.onnx.elements import DTYPES
from schedlang.frontend.onnx.graph import DOMAIN, Body, Node
from schedlang.frontend.onnx.values import Value

# what attributes may say, whose other values a definition takes for one of these
_CHOICES = {
    "activation": ("none", "silu", "swish"), "align_corners": (0, 1), "interleaved": (0, 1),
    "reduction": ("none", "mean", "sum"),
    "update_rule": ("linear", "gated", "delta", "gated_delta"),
}  # fmt: skip


def definition_of(node: Node, operands: Sequence[Value | None]) -> Body | None:
    """Return the graph that defines what a node computes; ``None`` for one without a definition.

    Raises :class:`~schedlang.errors.FrontendError` for a node that the operator's schema refuses.
    """
    import onnx

    try:
        schema: Any = onnx.defs.get_schema(node.operator, node.version, node.domain)
    except onnx.defs.SchemaError:
        return None
    if not schema.has_function and not schema.has_context_dependent_function:
        return None
    try:
        proto = _proto(onnx, node)
    except (TypeError, ValueError):
        raise node.refused("one of its attributes is a graph or an empty list") from None
    _check(onnx, node, proto)
    if schema.has_function:
        function = schema.function_body
    else:
        types = [_type(onnx, value) for value in operands]
        versions = schema.context_dependent_function_opset_versions
        version = max((v for v in versions if v <= node.version), default=None)
        if version is None:
            return None
        text = schema.get_context_dependent_function_with_opset_version(
            version, proto.SerializeToString(), types
        )
        function = onnx.FunctionProto()
        function.ParseFromString(text)
    defaults = {a.name: a.default_value for a in schema.attributes.values() if a.default_value.name}
    own = {a.name: a for a in proto.attribute}
    for inner in function.node:
        _settle(inner, {**defaults, **own})
    opsets = {DOMAIN: node.version}
    opsets |= {entry.domain: entry.version for entry in function.opset_import}
    return check_body(function, opsets, Beside(None))


def _check(onnx: Any, node: Node, proto: Any) -> None:
    """Raise for a node whose inputs, outputs or attributes the operator does not have."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = {node.domain: node.version}
    try:
        onnx.checker.check_node(proto, context)
    except onnx.checker.ValidationError as error:
        raise node.refused(first_line(str(error))) from None
    for name, choices in _CHOICES.items():
        value = node.attributes.get(name, choices[0])
        if value not in choices:
            raise node.refused(
                f"its attribute {name!r} is {value!r:.40}, not one of "
                f"{', '.join(map(str, choices))}"
            )


def _settle(proto: Any, attributes: Mapping[str, Any]) -> None:
    """Replace attributes of a node that refer to attributes of the operator by their values."""
    kept = []
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            value = attributes.get(attribute.ref_attr_name)
            if value is None:
                continue
            name = attribute.name
            attribute.CopyFrom(value)
            attribute.name = name
        elif attribute.HasField("g"):
            for inner in attribute.g.node:
                _settle(inner, attributes)
        kept.append(attribute)
    copies = [type(a).FromString(a.SerializeToString()) for a in kept]
    del proto.attribute[:]
    proto.attribute.extend(copies)


def _proto(onnx: Any, node: Node) -> Any:
    """Return a node in ONNX's form."""
    values = {
        key: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in node.attributes.items()
    }
    return onnx.helper.make_node(
        node.operator, node.inputs, node.outputs, name=node.name, domain=node.domain, **values
    )


def _type(onnx: Any, value: Value | None) -> bytes:
    """Return the type of a value in ONNX's form."""
    if value is None:
        return bytes(onnx.TypeProto().SerializeToString())
    number = next(n for n, dtype in DTYPES.items() if dtype == value.dtype)
    shape = [n if isinstance(n, int) else str(n) for n in value.shape]
    return bytes(onnx.helper.make_tensor_type_proto(number, shape).SerializeToString())
