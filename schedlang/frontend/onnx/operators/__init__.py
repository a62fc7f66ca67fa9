"""ONNX's operators as calls of topi, one family a file.

Each table maps the name of an operator to its function, for each opset that changed the operator. A
function takes a :class:`~schedlang.frontend.onnx.call.Call`, the inputs of the operator and its
attributes, and returns tensors: it has the signature of the operator. :data:`TABLES` has the tables
of all families.
"""

from __future__ import annotations

from schedlang.errors import docs_page, nearest
from schedlang.frontend.onnx.graph import CLASSIC, DOMAIN, Node
from schedlang.frontend.onnx.operators import (
    activations,
    attention,
    choices,
    classic,
    convolutions,
    creation,
    elementwise,
    images,
    indexing,
    joining,
    norms,
    ordering,
    padding,
    pooling,
    products,
    quantized,
    quantized_products,
    recurrent,
    reductions,
    refused,
    scattering,
    shapes,
    signals,
)
from schedlang.frontend.onnx.operators.table import Function, Table

TABLES: dict[str, Table] = {
    DOMAIN: {
        **activations.OPERATORS,
        **attention.OPERATORS,
        **choices.OPERATORS,
        **convolutions.OPERATORS,
        **creation.OPERATORS,
        **elementwise.OPERATORS,
        **images.OPERATORS,
        **indexing.OPERATORS,
        **joining.OPERATORS,
        **norms.OPERATORS,
        **ordering.OPERATORS,
        **padding.OPERATORS,
        **pooling.OPERATORS,
        **products.OPERATORS,
        **quantized.OPERATORS,
        **quantized_products.OPERATORS,
        **recurrent.OPERATORS,
        **reductions.OPERATORS,
        **scattering.OPERATORS,
        **shapes.OPERATORS,
        **signals.OPERATORS,
    },
    CLASSIC: classic.OPERATORS,
}


def is_known(node: Node) -> bool:
    """Return whether a node's operator has a function in some opset."""
    return node.operator in TABLES[node.domain]


def function_of(node: Node) -> Function:
    """Return the function of a node's operator in the opset of the model.

    Raises :class:`~schedlang.errors.FrontendError` for an operator that has none.
    """
    table = TABLES[node.domain]
    versions = table.get(node.operator)
    if versions is None:
        why, hint = refused.REASONS.get(node.operator, ("this operator has no form here", ""))
        close = nearest(node.operator, table)
        listed = docs_page("Importers: PyTorch and ONNX")
        hint = hint or f"Use operators that have one; {listed} lists them."
        raise node.refused(f"{why}{close if why.startswith('this') else ''}", hint)
    older = [version for version in versions if version <= node.version]
    if not older:
        raise node.refused(
            f"opset {node.version} has no such operator, which came in opset {min(versions)}"
        )
    return versions[max(older)]
