"""The parts of a graph whose operators have a form, each as a network; PyTorch runs the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedlang.errors import SchedlangError, first_line
from schedlang.frontend.torch.module import from_torch, with_refusals
from schedlang.networks.entry import network
from schedlang.torch.report import GraphReport, reason_of


def divided(
    name: str, module: Any, inputs: tuple[Any, ...], options: Mapping[str, Any]
) -> tuple[Callable[..., Any] | None, GraphReport]:
    """Return a module whose parts are networks, and a report; ``None`` if it has no such part."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import create_op_support

    count = sum(node.op.startswith("call_") for node in module.graph.nodes)
    try:
        plain, refusals = with_refusals(module, inputs)
    except SchedlangError as error:
        why = first_line(error).removeprefix("from_torch: ")
        return None, GraphReport(name, count, why=why)
    reasons = {name: reason_of(error) for name, error in refusals.items()}
    calls = [node for node in plain.graph.nodes if node.op == "call_function"]
    support = create_op_support(
        lambda _, node: node.op == "call_function" and node.name not in reasons
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
    return fused, GraphReport(name, len(calls), listed, eager)


def _network_of(whole: Any, node: Any, part: Any, options: Mapping[str, Any]) -> Any:
    """Return a module that calls the network of a part, whose weights it has."""
    import torch
    from torch import fx

    graph, root = fx.Graph(), torch.nn.Module()
    copies: dict[Any, Any] = {}
    given: list[int] = []
    placeholders = [n for n in part.graph.nodes if n.op == "placeholder"]
    examples: list[Any] = []
    for k, (own, argument) in enumerate(zip(placeholders, node.args)):
        if argument.op == "get_attr":
            root.register_buffer(own.name, _attribute(whole, argument.target).detach())
            continue
        given.append(k)
        value = argument.meta["val"]
        examples.append(torch.zeros(tuple(value.shape), dtype=value.dtype))
        copies[own] = graph.placeholder(own.name)
    for own in placeholders:
        if own not in copies:
            copies[own] = graph.get_attr(own.name)
    for own in part.graph.nodes:
        if own.op != "placeholder":
            copies[own] = graph.node_copy(own, lambda n: copies[n])
    imported = from_torch(fx.GraphModule(root, graph).eval(), tuple(examples))
    return _module(network(imported, name="part", **options), given)


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
