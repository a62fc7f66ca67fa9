"""TVM's relax: its passes without schedules (untuned), or after a search by MetaSchedule."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm
from tvm import relax

from benchmarks.peers.metaschedule import host_target
from benchmarks.peers.network_onnx import export
from benchmarks.peers.networks import Loaded
from benchmarks.works import Work

LIBRARY = "network.so"


def build(implementation: str, work: Work, folder: Path) -> dict[str, Any]:
    import onnx
    from tvm.relax.frontend.onnx import from_onnx

    target = tvm.target.Target(host_target())
    module = from_onnx(onnx.load(str(export(work, folder))))
    module = relax.get_pipeline("zero")(module)
    facts = {"kernels": _calls(module)}
    if found := re.search(r"(\d+) trials", implementation):
        facts["trials"] = int(found[1])
        with TemporaryDirectory() as database:
            search = relax.pipeline.static_shape_tuning_pipeline(
                facts["trials"], target, work_dir=database
            )
            module = search(module)
    tvm.compile(module, target).export_library(str(folder / LIBRARY))
    return facts


def load(_: str, work: Work, folder: Path) -> Loaded:
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / LIBRARY)), tvm.cpu())
    main = machine["main"]

    def call(x: Any) -> Any:
        found = main(tvm.runtime.tensor(x))
        return (found if isinstance(found, tvm.runtime.Tensor) else found[0]).numpy()

    return Loaded(call)


def _calls(module: Any) -> int:
    """Return how many kernels the main function calls."""
    call_tir = tvm.ir.Op.get("relax.call_tir")
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, relax.Call) and node.op == call_tir:
            found.append(node)

    relax.analysis.post_order_visit(module["main"], visit)
    return len(found)
