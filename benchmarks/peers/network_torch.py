"""PyTorch's four ways to run a network: eager, channels last, TorchScript and inductor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.peers import network_models
from benchmarks.peers.networks import Loaded
from benchmarks.works import Work

SCRIPT = "TorchScript"
INDUCTOR = "torch inductor"
LAST = "torch channels-last"
# nodes of a graph that only make another view of a tensor, or no tensor
VIEWS = frozenset(
    f"aten::{n}" for n in (
        "alias", "chunk", "contiguous", "detach", "expand", "flatten", "permute", "reshape",
        "select", "size", "slice", "split", "squeeze", "t", "transpose", "unbind", "unsqueeze",
        "view", "Int", "IntImplicit", "__getitem__", "floor_divide",
    )
)  # fmt: skip

# operators that TorchScript makes, in lower case
FUSED = ("prim::mkldnn", "mkldnn", "prepacked", "prim::tensorexprgroup")
# operators that write no element, though their schema does not say so
NOTHING = (torch.ops.aten._unsafe_view, torch.ops.aten.empty, torch.ops.aten.empty_like)
# a statement of inductor's module that calls a kernel, of its own or of a library
CALL = re.compile(r"^\s*(?:\w+ = )?(?:cpp_\w+\(|extern_kernels\.|torch\.ops\.|aten\.)", re.M)


def import_libraries(implementation: str, work: Work) -> None:
    """Import what a program imports before it loads the network."""
    if implementation != SCRIPT and work.kind not in network_models.PLAIN:
        network_models.vision()


def build(implementation: str, work: Work, folder: Path) -> dict[str, Any]:
    torch.set_grad_enabled(False)
    if implementation == SCRIPT:
        traced = torch.jit.trace(network_models.module(work), _input(work))
        torch.jit.save(torch.jit.freeze(traced), folder / "frozen.pt")
    elif implementation == INDUCTOR:
        from torch._inductor.utils import run_and_get_code

        # fills the caches of inductor
        _, codes = run_and_get_code(_compiled(work), _input(work))
        return {"kernels": sum(map(calls_in, codes))} if codes else {}
    return {}


def load(implementation: str, work: Work, folder: Path) -> Loaded:
    torch.set_grad_enabled(False)
    if implementation == SCRIPT:
        frozen = torch.jit.load(folder / "frozen.pt")
        script = torch.jit.optimize_for_inference(frozen)
        return Loaded(lambda x: script(torch.from_numpy(x)).numpy(), _graph_kernels)
    if implementation == INDUCTOR:
        compiled = _compiled(work)
        return Loaded(lambda x: compiled(torch.from_numpy(x)).numpy())
    model = network_models.module(work)
    if implementation == LAST:
        last = torch.channels_last
        model = model.to(memory_format=last)
        return _loaded(lambda x: model(torch.from_numpy(x).contiguous(memory_format=last)), work)
    return _loaded(lambda x: model(torch.from_numpy(x)), work)


def _loaded(call: Any, work: Work) -> Loaded:
    return Loaded(lambda x: call(x).numpy(), lambda: _dispatched(call, work))


def _input(work: Work) -> torch.Tensor:
    return torch.from_numpy(work.arrays()["x"])


def _dispatched(call: Any, work: Work) -> int:
    """Return how many operators a call runs, without those that return a view of their input."""
    with Counter() as counter:
        call(work.arrays()["x"])
    return counter.count


class Counter(TorchDispatchMode):
    """Counts the operators that write elements: no views, no bare allocations."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aliased = [r.alias_info for r in func._schema.returns if r.alias_info is not None]
        if func.overloadpacket not in NOTHING and (
            not aliased or any(a.is_write for a in aliased)
        ):
            self.count += 1
        return func(*args, **(kwargs or {}))


def _graph_kernels() -> int:
    """Return the number of operators of the graph that TorchScript ran last."""
    nodes = [node.kind() for node in _nodes(torch.jit.last_executed_optimized_graph())]
    return sum(kind.lower().startswith(FUSED) or kind.startswith("aten::") and kind not in VIEWS
               for kind in nodes)  # fmt: skip


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes that run: of two branches, the first, which profiled shapes guard."""
    for node in graph.nodes():
        yield node
        blocks = list(node.blocks())
        if blocks:
            yield from _nodes(blocks[0])


def _compiled(work: Work) -> Any:
    from torch._inductor import config

    config.freezing = True
    torch._dynamo.reset()
    model = network_models.module(work)
    # inductor leaves an LSTM to eager PyTorch, and refuses that if it is to be one graph
    whole = work.kind != "lstm"
    return torch.compile(model, mode="max-autotune", dynamic=False, fullgraph=whole)


def calls_in(code: str) -> int:
    """Return the kernels that the function ``call`` of inductor's module calls, in order."""
    body = code[code.index("def call(") :] if "def call(" in code else code
    body = body.split("\ndef ")[0]
    return len(CALL.findall(body))
