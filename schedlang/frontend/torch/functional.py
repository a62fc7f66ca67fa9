"""Exported graphs that are converted as they stand, without PyTorch's decompositions.

For these, PyTorch traces the graph once more, which takes two to five times as long as the export.
A graph whose operators all have a form needs it only to replace what writes into its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from schedlang.frontend.torch.layers import word_of
from schedlang.frontend.torch.operators import KEPT

# operators that PyTorch makes of others, and whose result is a tensor of its own
_NEW = frozenset({
    "batch_norm", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "group_norm", "layer_norm", "linear", "matmul",
})  # fmt: skip


def make_functional(
    program: Any, has_form: Callable[[Any], bool], known: Collection[Any] = ()
) -> bool:
    """Replace in-place operators by functional ones if each node then has a form.

    Return whether it has. An operator may write into its operand if nothing else reads that.
    ``known`` are nodes that need no form, because their values are known.
    """
    targets: dict[Any, Any] = {}
    for node in program.graph.nodes:
        if node.op in ("placeholder", "output") or node in known or has_form(node):
            continue
        target = _functional(node)
        if target is None or not _is_read_once(node.args[0], targets):
            return False
        targets[node] = target
    for node, target in targets.items():
        node.target = target
    return True


def _functional(node: Any) -> Any:
    """Return the operator with a form whose in-place variant is called, or ``None``."""
    import torch
    from torch.utils._pytree import tree_map

    name, _, overload = str(node.target).removeprefix("aten.").partition(".")
    if not name.endswith("_") or f"{name[:-1]}.{overload}" not in KEPT:
        return None
    target = getattr(getattr(torch.ops.aten, name[:-1]), overload)
    args, named = tree_map(_value_of, (node.args, node.kwargs))
    # a comparison writes numbers into its operand, where the functional one returns bools
    return target if target(*args, **named).dtype == node.meta["val"].dtype else None


def _value_of(given: Any) -> Any:
    """Return the tensor without elements that an export has for a node."""
    return given.meta["val"] if hasattr(given, "meta") else given


def _is_read_once(node: Any, targets: dict[Any, Any]) -> bool:
    """Return whether one call alone reads the memory of a node's result."""
    operator = targets.get(node, node.target)
    schema = getattr(operator, "_schema", None)
    if schema is None or len(node.users) != 1:
        return False
    if any(result.alias_info is not None for result in schema.returns):
        return False
    return not operator._can_decompose() or word_of(node) in _NEW
