"""The peers that run whole networks, and what each of their modules offers.

``build(implementation, work, folder)`` compiles a network ahead and writes what a new process loads
into ``folder``; it returns facts for the row. ``load(implementation, work, folder)`` returns the
network, ready to run: it is what a program that serves the network does when it starts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from shutil import rmtree
from time import perf_counter
from typing import Any

from benchmarks import cache
from benchmarks.peers import Call, Peer, metaschedule
from benchmarks.works import Arrays, Work

# the kinds of networks with pictures, which have channels that can stand last
PICTURES = frozenset({"resnet50", "resnet18", "mobilenet_v2", "efficientnet_b0", "vit"})
OURS = Peer("schedlang", "network_schedlang", ("torch", "torchvision"))
NETWORK_PEERS = (
    Peer("torch eager", "network_torch", ("torch", "torchvision")),
    Peer("torch channels-last", "network_torch", ("torch", "torchvision"), PICTURES),
    Peer("TorchScript", "network_torch", ("torch", "torchvision")),
    Peer("torch inductor", "network_torch", ("torch", "torchvision")),
    Peer("ONNX Runtime", "network_onnxruntime", ("onnxruntime", "onnx", "torch", "torchvision")),
    Peer("OpenVINO", "network_openvino", ("openvino", "onnx", "torch", "torchvision")),
    Peer("TVM relax, untuned", "network_tvm", ("tvm", "onnx", "torch", "torchvision")),
)
# names in the environment: a tuning database of ours, and minutes to tune each network
DATABASE, MINUTES = "SCHEDLANG_BENCHMARKS_DATABASE", "SCHEDLANG_BENCHMARKS_MINUTES"
# what a peer compiles is kept as long as these are the same
VERSIONS = ("torch", "torchvision", "onnx", "onnxruntime", "openvino", "apache-tvm")
# calls before the first sample: TorchScript optimizes in the second and the third
WARM_CALLS = 4
# seconds after which calls are not repeated
ENOUGH = 5.0


@dataclass(frozen=True)
class Loaded:
    """A network in this process: a call on a NumPy array, and a count of the kernels that it runs.

    Without ``kernels``, their number is a fact of ``build``.
    """

    call: Callable[[Any], Any]
    kernels: Callable[[], int] | None = None

    def repeat(self, x: Any, most: int) -> int:
        """Call on ``x`` until ``ENOUGH`` seconds or ``most`` calls. Return the number of calls."""
        start, done = perf_counter(), 0
        while done < most and (not done or perf_counter() - start < ENOUGH):
            self.call(x)
            done += 1
        return done


def tvm_tuned(trials: int) -> Peer:
    """Return TVM after a search by its MetaSchedule."""
    packages = (*metaschedule.PACKAGES, "onnx", "torch", "torchvision")
    return Peer(f"TVM relax, {trials} trials", "network_tvm", packages)


def peer_of(implementation: str) -> Peer:
    if found := re.fullmatch(r"TVM relax, (\d+) trials", implementation):
        return tvm_tuned(int(found[1]))
    return next(p for p in (OURS, *NETWORK_PEERS) if p.implementation == implementation)


def build(implementation: str, work: Work) -> dict[str, Any]:
    """Compile a network ahead, unless an earlier run did, and return facts.

    One of them is ``build_seconds``. Our own networks are built in every run.
    """
    peer, folder = peer_of(implementation), folder_of(implementation, work)
    done = folder / "facts.json"
    if peer is not OURS and done.exists():
        kept: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        return kept
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    module = import_module(f"benchmarks.peers.{peer.module}")
    start = perf_counter()
    facts: dict[str, Any] = module.build(implementation, work, folder)
    facts["build_seconds"] = perf_counter() - start
    done.write_text(json.dumps(facts), encoding="utf-8")
    return facts


def load(implementation: str, work: Work) -> Loaded:
    module = import_module(f"benchmarks.peers.{peer_of(implementation).module}")
    loaded: Loaded = module.load(implementation, work, folder_of(implementation, work))
    return loaded


def import_libraries(implementation: str, work: Work) -> None:
    """Import what a program imports before it loads the network."""
    module = import_module(f"benchmarks.peers.{peer_of(implementation).module}")
    if hasattr(module, "import_libraries"):
        module.import_libraries(implementation, work)


def prepare(implementation: str, work: Work, arrays: Arrays, _: Arrays) -> Call:
    """Return the call of a worker, whose network was built before."""
    network, x = load(implementation, work), arrays["x"]
    network.repeat(x, WARM_CALLS)
    return lambda: network.call(x)


def folder_of(implementation: str, work: Work) -> Path:
    """Return the folder of what a peer compiled from a work."""
    return cache.folder("networks") / _key(implementation, work)


def _key(implementation: str, work: Work) -> str:
    found = []
    for name in VERSIONS:
        try:
            found.append(metadata.version(name))
        except metadata.PackageNotFoundError:
            found.append("")
    files = ("network_models", "network_onnx", peer_of(implementation).module)
    sources = [Path(__file__).with_name(f"{name}.py").read_bytes() for name in files]
    digest = hashlib.sha256(repr((work.name, dict(work.sizes), found, sources)).encode())
    return f"{work.kind}-{implementation.replace(' ', '-')}-{digest.hexdigest()[:12]}"
