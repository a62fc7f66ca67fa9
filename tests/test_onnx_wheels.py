"""ONNX files that packages ship: all run as onnxruntime runs them, but for those listed.

``SCHEDLANG_ONNX_WHEELS`` names a folder of the wheels, of the versions in the list.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.onnx_wheels import FOLDER, outcomes

pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")

LISTED = Path(__file__).parent / "onnx_wheel_files.txt"


@pytest.mark.slow
def test_files_in_wheels_run_as_listed() -> None:
    pytest.importorskip("onnxruntime", reason="runs ONNX models beside ours")
    folder = os.environ.get(FOLDER)
    if not folder:
        pytest.skip(f"{FOLDER} names no folder of wheels")
    rows = [line.split(maxsplit=2) for line in LISTED.read_text("utf-8").splitlines()]
    words = {row[1]: row[0] for row in rows if row and row[0] != "#"}
    present = {wheel.name.partition("-")[0] for wheel in Path(folder).glob("*.whl")}
    results = list(outcomes(Path(folder)))
    assert results and present
    for outcome in results:
        assert words[outcome.name] == ("right" if outcome.right else "refused"), outcome
