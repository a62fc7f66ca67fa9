"""The parts of a graph whose operators have a form, each as a network; PyTorch runs the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedlang.errors import FrontendError, SchedlangError, TuningError, first_line
from schedlang.frontend.torch.module import from_torch, with_refusals
from schedlang.networks.entry import network
from schedlang.torch.report import GraphReport, reason_of


def divided(
    name: str, module: Any, inputs: tuple[Any, ...], dynamic_shapes: Any,
    options: Mapping[str, Any],
) -> tuple[Callable[..., Any] | None, GraphReport]:  # fmt: skip
    """Return a module whose parts are networks, and a report; ``None`` if it has no such part.

    ``dynamic_shapes`` has the symbolic sizes of ``inputs``, as :func:`from_torch` takes them.
    """
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import create_op_support

    count = sum(node.op.startswith("call_") for node in module.graph.nodes)
    try:
        plain, refusals = with_refusals(module, inputs, dynamic_shapes)
    except SchedlangError as error:
        why = first_line(error).removeprefix("from_torch: ")
        return None, GraphReport(name, count, why=why)
    reasons = {name: reason_of(error) for name, error in refusals.items()}
    calls = [n for n in plain.graph.nodes if n.op == "call_function" and not _is_size(n)]
    support = create_op_support(
        lambda _, node: (
            node.op == "call_function" and node.name not in reasons and not _is_size(node)
        )
    )
    partitioner = CapabilityBasedPartitioner(plain, support, allows_single_node_partition=False)
    proposed = partitioner.propose_partitions()
    fused: Any = partitioner.fuse_partitions(proposed)
    eager = dict(reasons)
    networks: list[Any] = []
    listed: list[list[str]] = []
    inside: set[str] = set()
    for node in list(fused.graph.nodes):
        if node.op != "call_module" or not node.target.startswith("fused_"):
            continue
        part: Any = fused.get_submodule(node.target)
        names = [n.name for n in part.graph.nodes if n.op == "call_function"]
        inside.update(names)
        try:
            net = _network_of(fused, node, part, options)
        except TuningError:
            # of the database, an option of the user's
            raise
        except SchedlangError as error:
            eager.update(dict.fromkeys(names, reason_of(error)))
            continue
        setattr(fused, node.target, net)
        networks.append(net.network)
        listed.append(names)
    alone = [n.name for n in calls if n.name not in inside and n.name not in eager]
    eager.update(dict.fromkeys(alone, "a network of one operator gains nothing"))
    if not networks:
        first = next(iter(eager.values()), "it has no operators")
        return None, GraphReport(name, count, why=first)
    fused.recompile()
    fused.networks = networks
    sizes = sorted({s for dims in dynamic_shapes or () for s in (dims or {}).values()})
    return fused, GraphReport(name, len(calls), listed, eager, sizes=sizes)


def _network_of(whole: Any, node: Any, part: Any, options: Mapping[str, Any]) -> Any:
    """Return a module that calls the network of a part, whose weights it has."""
    import torch
    from torch import fx

    graph, root = fx.Graph(), torch.nn.Module()
    copies: dict[Any, Any] = {}
    given: list[int] = []
    placeholders = [n for n in part.graph.nodes if n.op == "placeholder"]
    tensors: list[tuple[Any, Any, Sequence[Any]]] = []
    for k, (own, argument) in enumerate(zip(placeholders, node.args)):
        if argument.op == "get_attr":
            root.register_buffer(own.name, _attribute(whole, argument.target).detach())
        elif not _is_size(argument):
            given.append(k)
            copies[own] = graph.placeholder(own.name)
            tensors.append((own, argument.meta["val"].dtype, _shape(argument.meta["val"])))
    for own, argument in zip(placeholders, node.args):
        if argument.op == "get_attr":
            copies[own] = graph.get_attr(own.name)
        elif own not in copies:
            of, d = _dimension(own.name, argument.meta["val"], tensors)
            copies[own] = graph.call_function(torch.ops.aten.sym_size.int, (copies[of], d))
    for own in part.graph.nodes:
        if own.op != "placeholder":
            copies[own] = graph.node_copy(own, lambda n: copies[n])
    names: dict[str, str] = {}
    dynamic = [
        {d: _size_name(e, names) for d, e in enumerate(shape) if not isinstance(e, int)} or None
        for *_, shape in tensors
    ]
    examples = [torch.zeros([*map(_number, shape)], dtype=dtype) for _, dtype, shape in tensors]
    imported = from_torch(
        fx.GraphModule(root, graph).eval(), tuple(examples),
        dynamic_shapes=dynamic if names else None,
    )  # fmt: skip
    return _module(network(imported, name="part", **options), given)


def _is_size(node: Any) -> bool:
    """Return whether a node computes a symbolic size, or tests one."""
    import torch

    value = node.meta.get("val")
    return isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)) or (
        value is None and "assert" in getattr(node.target, "__name__", "")
    )


def _dimension(name: str, size: Any, tensors: Sequence[tuple[Any, ...]]) -> tuple[Any, int]:
    """Return the tensor and its dimension that a size is."""
    for own, _, shape in tensors:
        for d, extent in enumerate(shape):
            if str(extent) == str(size):
                return own, d
    raise FrontendError(f"{name}: no tensor that it reads has the size {size}")


def _shape(value: Any) -> list[Any]:
    """Return the shape of a tensor, with a number for an extent that PyTorch knows."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return [
        _number(e) if isinstance(e, int) or statically_known_true(e == _number(e)) else e
        for e in value.shape
    ]


def _size_name(extent: Any, names: dict[str, str]) -> str:
    """Return the name of a symbolic extent, the same one for equal extents."""
    text = str(extent)
    return names.setdefault(text, text if text.isidentifier() else f"extent_{len(names)}")


def _number(extent: Any) -> int:
    """Return the number that a symbolic extent is in the example."""
    return extent if isinstance(extent, int) else int(extent.node.hint)


def _module(net: Any, given: Sequence[int]) -> Any:
    import torch

    class Part(torch.nn.Module):
        network = net

        def forward(self, *args: Any) -> Any:
            return net(*[args[k].contiguous() for k in given])

    return Part().eval()


def _attribute(module: Any, path: str) -> Any:
    owner, _, name = path.rpartition(".")
    return getattr(module.get_submodule(owner) if owner else module, name)
