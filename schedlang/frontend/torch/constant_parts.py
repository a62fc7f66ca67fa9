"""The values of what a graph computes from numbers alone, by writes into tensors of its own.

Attention with windows makes its mask so: it writes a number into each slice of zeros. PyTorch can
trace a graph once more without such writes, which takes two to five times as long as the export.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schedlang.frontend.torch.layers import word_of

# these read the dtype and the shape of their operand, and none of its elements
_LIKE = frozenset({
    "new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like", "full_like",
    "empty_like",
})  # fmt: skip


@dataclass(frozen=True)
class ConstantParts:
    """The calls of a graph that an import need not convert.

    ``values`` has the tensor of each of them that another call reads, and ``nodes`` are all.
    """

    nodes: frozenset[Any] = frozenset()
    values: tuple[tuple[Any, Any], ...] = ()


def constant_parts(program: Any, has_form: Callable[[Any], bool]) -> ConstantParts | None:
    """Return the calls that depend on no input or weight, and write or have no form.

    Return ``None`` where another call writes into their memory, or reads it before a later write.
    """
    values = _constants(program)
    parts: set[Any] = set()
    written: set[int] = set()
    # the next call of the module reads its constants again
    read = {p for value in values.values() for p in _places(value)}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            continue
        operands = [a for a in node.all_input_nodes if a in values]
        if not _is_known(node, values):
            if any(a in values for a in _written(node)):
                return None
            read |= {p for a in operands for p in _places(values[a])}
            continue
        into = {p for a in _written(node) for p in _places(values[a])}
        if into & read:
            return None
        written |= into
        values[node] = _value(node, values)
        if any(t.is_meta for t in _tensors(values[node])):
            return None
        if into or not has_form(node):
            parts.add(node)
    for node, value in values.items():
        # views that were taken before a write have its numbers too
        shared = not written.isdisjoint(_places(value))
        if node.op != "placeholder" and (shared or not parts.isdisjoint(node.all_input_nodes)):
            parts.add(node)
    read_outside = {n: v for n, v in values.items() if n in parts and not parts.issuperset(n.users)}
    if any(isinstance(v, (tuple, list)) for v in read_outside.values()):
        return None
    return ConstantParts(frozenset(parts), tuple(read_outside.items()))


def _constants(program: Any) -> dict[Any, Any]:
    """Return a copy of each number and tensor that the forward of a module wrote down."""
    nodes = {node.name: node for node in program.graph.nodes}
    return {
        nodes[spec.arg.name]: program.constants[spec.target].detach().clone()
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "CONSTANT_TENSOR"
    }


def _is_known(node: Any, values: dict[Any, Any]) -> bool:
    """Return whether a call gives the same tensors each time, from values that are known."""
    import torch

    if node.op != "call_function":
        return False
    if node.target is not operator.getitem:
        if not isinstance(node.target, torch._ops.OpOverload):
            return False
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            return False
    if any(a not in values for a in node.all_input_nodes) and not _is_like(node):
        return False
    results = _tensors(node.meta.get("val"))
    return bool(results) and all(isinstance(e, int) for t in results for e in t.shape)


def _is_like(node: Any) -> bool:
    """Return whether a call reads no element of its only operand, whose layout is known."""
    if word_of(node) not in _LIKE or len(node.all_input_nodes) != 1:
        return False
    like = node.args[0].meta.get("val")
    if not hasattr(like, "stride"):
        return False
    return all(isinstance(e, int) for e in (*like.shape, *like.stride()))


def _value(node: Any, values: dict[Any, Any]) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    def operand(given: Any) -> Any:
        if not hasattr(given, "meta"):
            return given
        if given in values:
            return values[given]
        # the call reads no numbers, but its result takes these strides, and they decide whether a
        # reshape of the result is a view
        like = given.meta["val"]
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)

    with torch.no_grad():
        value = node.target(*tree_map(operand, node.args), **tree_map(operand, dict(node.kwargs)))
        # an export of such a call holds zeros too
        return value.zero_() if "empty" in word_of(node).split("_") else value


def _written(node: Any) -> list[Any]:
    """Return the operands into which a call writes."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return []
    given = dict(zip((a.name for a in schema.arguments), node.args)) | dict(node.kwargs)
    into = (a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write)
    return [given[name] for name in into if hasattr(given.get(name), "meta")]


def _tensors(value: Any) -> list[Any]:
    """Return the tensors of a call's result; none if it has another."""
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return list(parts) if all(hasattr(p, "dtype") and hasattr(p, "shape") for p in parts) else []


def _places(value: Any) -> list[int]:
    """Return the address of the memory of each tensor."""
    return [t.untyped_storage().data_ptr() for t in _tensors(value)]
