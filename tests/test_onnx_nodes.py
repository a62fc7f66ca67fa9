"""The node tests of the package ``onnx``: all are right, but for those listed with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.onnx_nodes import outcomes

onnx = pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")

LISTED = Path(__file__).parent / "onnx_refused_nodes.txt"
VERSION = "1.23"


@pytest.mark.slow
def test_node_tests_are_right_or_refused_as_listed() -> None:
    if not onnx.__version__.startswith(f"{VERSION}."):
        pytest.skip(f"the list is of the node tests of onnx {VERSION}")
    lines = LISTED.read_text("utf-8").splitlines()
    listed = {f"test_{name}" for line in lines if line.startswith(" ") for name in line.split()}
    results = list(outcomes())
    assert {outcome.name for outcome in results if not outcome.right} == listed
    assert sum(outcome.right for outcome in results) > 1300
