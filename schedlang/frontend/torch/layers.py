"""The layer of a module that each node of its graph belongs to, and the name of its stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# operators that only move elements, or nothing: what follows reads through them
_MOVES = frozenset({
    "view", "reshape", "permute", "transpose", "t", "expand", "squeeze", "unsqueeze", "slice",
    "select", "clone", "alias", "detach", "contiguous", "full",
})  # fmt: skip


# shorter words for some operators
_WORDS = {
    "_unsafe_view": "view",
    "chunk": "split",
    "expand_as": "expand",
    "flatten": "view",
    "mT": "transpose",
    "numpy_T": "permute",
    "reshape": "view",
    "unflatten": "view",
    "_to_copy": "to",
    "scaled_dot_product_attention": "attention",
    "_native_batch_norm_legit_no_training": "batch_norm",
}


@dataclass(frozen=True)
class Layer:
    """The layer of a node: its ``path`` in the module, and the ``title`` of the node's stage."""

    path: str
    title: str


def layers_of(nodes: Iterable[Any]) -> dict[Any, Layer]:
    """Return the layer of each call in a graph.

    The last operator that computes, of a layer that calls no other layer, has the name of the
    layer, such as ``layer1.0.conv1``. Others have the name of their operator at the end, such as
    ``layer1.0.add``.
    """
    calls = [n for n in nodes if n.op == "call_function" and not _is_part(n) and not _is_same(n)]
    stacks = {node: _stack(node) for node in calls}
    # keys of layers that call others
    outer = {key for stack in stacks.values() for key, _ in stack[:-1]}
    last: dict[str, Any] = {}
    for node, stack in stacks.items():
        if stack and (stack[-1][0] not in last or _word(node) not in _MOVES):
            last[stack[-1][0]] = node
    layer_of = {}
    for node, stack in stacks.items():
        key, path = stack[-1] if stack else ("", "")
        word = _word(node)
        if path and key not in outer and last[key] is node:
            title = path
        else:
            title = f"{path}.{word}" if path else word
        layer_of[node] = Layer(path, title)
    return layer_of


def _is_part(node: Any) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"


def _is_same(node: Any) -> bool:
    """Return whether a node of a graph as it was exported returns its operand."""
    word = _word(node)
    if word == "to":
        return bool(node.meta["val"].dtype == node.args[0].meta["val"].dtype)
    return word == "dropout"


def _stack(node: Any) -> list[tuple[str, str]]:
    """Return the key and the path of each module that calls ``node``, the outermost first."""
    modules = node.meta.get("nn_module_stack") or {}
    return [(key, path) for key, (path, _) in modules.items() if path]


def word_of(node: Any) -> str:
    """Return the name of the operator or function that a node calls."""
    return str(getattr(node.target, "_opname", None) or getattr(node.target, "__name__", ""))


def _word(node: Any) -> str:
    name = word_of(node) or "call"
    return _WORDS.get(name, name.strip("_"))


def used_results(node: Any) -> dict[int, bool]:
    """Return which of the results of a node are read."""
    return {user.args[1]: bool(user.users) for user in node.users if _is_part(user)}


def count_occurrences(names: Iterable[str]) -> Iterator[str]:
    """Yield ``names`` with how often each occurs.

    >>> list(count_occurrences(["aten.fft", "aten.sort", "aten.fft"]))
    ['aten.fft (2 nodes)', 'aten.sort']
    """
    for name, count in Counter(names).items():
        yield f"{name} ({count} nodes)" if count > 1 else name
