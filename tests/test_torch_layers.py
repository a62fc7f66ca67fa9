"""Layers and functions of ``torch.nn``: those of the list are right, or refused as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

from tests.torch_layers import outcomes  # noqa: E402

LISTED = Path(__file__).parent / "torch_layers.txt"


@pytest.mark.slow
def test_layers_and_functions_are_right_or_refused_as_listed() -> None:
    lines = LISTED.read_text("utf-8").splitlines()
    if f"PyTorch {torch.__version__.partition('+')[0]}" not in lines[0]:
        pytest.skip("the list is of another version")
    rows = [line.split(maxsplit=2) for line in lines if line and line[0] != "#"]
    results = {outcome.name: outcome for outcome in outcomes()}
    assert {name: "right" if o.right else "refused" for name, o in results.items()} == {
        row[1]: row[0] for row in rows
    }
    # what is not right is refused, and never wrong
    assert not [str(o) for o in results.values() if o.reason.startswith("WRONG")]


def test_the_list_has_all_layers() -> None:
    """Each layer of PyTorch is in the list, but for containers and the like."""
    lines = LISTED.read_text("utf-8").splitlines()
    names = [line.split()[1] for line in lines if line and line[0] != "#"]
    kinds = {name for name, kind in vars(torch.nn).items() if isinstance(kind, type)}
    others = {
        "Buffer", "Container", "DataParallel", "LinearCrossEntropyOptions", "Module", "ModuleDict",
        "ModuleList", "NLLLoss2d", "Parameter", "ParameterDict", "ParameterList", "RNNBase",
        "RNNCellBase", "Sequential", "SyncBatchNorm", "UninitializedBuffer",
        "UninitializedParameter",
    }  # fmt: skip
    lazy = {name for name in kinds if name.startswith("Lazy")}
    listed = {name.removeprefix("nn.") for name in names if name.startswith("nn.")}
    assert kinds - others - lazy == listed
