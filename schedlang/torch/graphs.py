"""A graph of ``torch.compile`` as a module: weights are its own, other tensors its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Bound:
    """A module of a graph, the positions of its inputs among the graph's, and their sizes.

    ``weights`` are the tensors of a model among the graph's inputs, by position, and ``uncounted``
    the positions of those whose changes PyTorch does not count: statistics, which a normalization
    changes while it is trained, and tensors that were made under ``torch.inference_mode()``.
    ``dynamic`` has the symbolic dimensions of each input, by name.
    """

    module: Any
    inputs: tuple[int, ...]
    weights: Mapping[int, Any]
    uncounted: tuple[int, ...]
    dynamic: tuple[Mapping[int, str], ...]


def bound(graph_module: Any, args: Sequence[Any]) -> Bound:
    """Return the module of a graph that is called with ``args``.

    A size among the inputs becomes the dimension of a tensor, of which it is the size: a graph for
    which :func:`number_among` has a name cannot be bound.
    """
    import torch
    from torch import fx

    nodes = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    weights = {k: args[k] for k, n in enumerate(nodes) if is_weight(n, args[k])}
    is_tensor = [isinstance(a, torch.Tensor) for a in args]
    inputs = [k for k in range(len(args)) if is_tensor[k] and k not in weights]
    root = torch.nn.Module()
    graph = fx.Graph()
    copies: dict[Any, Any] = {}
    for k, value in weights.items():
        root.register_buffer(_name(nodes[k]), value.detach())
    for k in inputs:
        copies[nodes[k]] = graph.placeholder(nodes[k].name)
    for k in weights:
        copies[nodes[k]] = graph.get_attr(_name(nodes[k]))
    dimensions = _dimensions(nodes, inputs)
    for k, node in enumerate(nodes):
        if not is_tensor[k]:
            of, d = dimensions[str(_value(node))]
            copies[node] = graph.call_method("size", (copies[nodes[of]], d))
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "get_attr":
            _keep_attribute(root, graph_module, node.target)
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    dynamic = tuple(
        {d: f"{e}" for d, e in enumerate(_extents(nodes[k])) if _is_symbolic(e)} for k in inputs
    )
    uncounted = tuple(
        k for k, w in weights.items()
        if w.is_inference() or any(_is_statistic(nodes[k], u) for u in nodes[k].users)
    )  # fmt: skip
    return Bound(fx.GraphModule(root, graph).eval(), tuple(inputs), weights, uncounted, dynamic)


def number_among(graph: Any, inputs: Sequence[Any]) -> str:
    """Return the name of an input that is neither a tensor nor the size of one, "" if none is.

    PyTorch gives one graph for all values of such a number.
    """
    import torch

    nodes = [n for n in graph.nodes if n.op == "placeholder"]
    tensors = [
        k for k, (n, v) in enumerate(zip(nodes, inputs))
        if isinstance(v, torch.Tensor) and not is_weight(n, v)
    ]  # fmt: skip
    sizes = _dimensions(nodes, tensors)
    numbers = (n for n, v in zip(nodes, inputs) if not isinstance(v, torch.Tensor))
    return next((n.name for n in numbers if str(_value(n)) not in sizes), "")


def shared_output(graph: Any) -> tuple[str, str] | None:
    """Return an output and the input or output with which it shares memory, by their names."""
    (results,) = (n.args[0] for n in graph.nodes if n.op == "output")
    outputs = results if isinstance(results, (tuple, list)) else (results,)
    seen: dict[Any, Any] = {}
    for node in (*(n for n in graph.nodes if n.op == "placeholder"), *outputs):
        memory = _memory(node)
        if memory is None:
            continue
        if node in outputs and seen.setdefault(memory, node) is not node:
            return node.name, seen[memory].name
        seen.setdefault(memory, node)
    return None


def _memory(node: Any) -> Any:
    """Return what tells the memory of a node's tensor from others, ``None`` if it has none."""
    import torch
    from torch.multiprocessing.reductions import StorageWeakRef

    value = _value(node) if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return StorageWeakRef(value.untyped_storage())


def is_weight(node: Any, value: Any) -> bool:
    """Return whether a graph's input is a parameter or a buffer of a module."""
    import torch

    static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return isinstance(value, torch.nn.Parameter) or (
        isinstance(value, torch.Tensor) and static is not None
    )


def _keep_attribute(root: Any, graph_module: Any, target: str) -> None:
    """Give ``root`` a constant of a graph's module."""
    owner, _, name = target.rpartition(".")
    value = getattr(graph_module.get_submodule(owner) if owner else graph_module, name)
    root.register_buffer(target.replace(".", "_"), value.detach())


def _name(node: Any) -> str:
    """Return the name of a weight in its module: ``layer1_0_weight``.

    >>> from types import SimpleNamespace
    >>> _name(SimpleNamespace(name="l_self_modules_layer1_modules_0_parameters_weight_"))
    'layer1_0_weight'
    """
    words = node.name.removeprefix("l_").removeprefix("self_").strip("_")
    for kind in ("modules_", "parameters_", "buffers_"):
        words = words.replace(f"_{kind}", "_").removeprefix(kind)
    return str(words)


def _dimensions(nodes: Sequence[Any], inputs: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Return the input and the dimension of each symbolic size."""
    return {
        str(e): (k, d)
        for k in inputs for d, e in enumerate(_extents(nodes[k])) if _is_symbolic(e)
    }  # fmt: skip


def _is_symbolic(extent: Any) -> bool:
    """Return whether PyTorch does not know an extent: it may have learned it since the input."""
    return not isinstance(extent, int) and not str(extent).isdigit()


def _is_statistic(weight: Any, call: Any) -> bool:
    """Return whether a call reads a weight as a running mean or variance."""
    named = (call.kwargs.get(name) for name in ("running_mean", "running_var"))
    is_norm = getattr(call.target, "__name__", "") in ("batch_norm", "instance_norm")
    return is_norm and weight in (*call.args[1:3], *named)


def _extents(node: Any) -> tuple[Any, ...]:
    return tuple(getattr(_value(node), "shape", ()))


def _value(node: Any) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))
