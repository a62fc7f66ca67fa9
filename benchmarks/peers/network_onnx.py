"""The networks as ONNX files, which torch writes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.works import Work

OPSET = 17
MODEL = "model.onnx"


def export(work: Work, folder: Path) -> Path:
    """Write the network of a work as a file in ``folder``, and return its path."""
    import torch

    from benchmarks.peers import network_models

    path = folder / MODEL
    given = torch.from_numpy(work.arrays()["x"])
    torch.onnx.export(
        network_models.module(work), (given,), path, opset_version=OPSET, dynamo=False,
        input_names=["x"], output_names=["y"],
    )  # fmt: skip
    return path
