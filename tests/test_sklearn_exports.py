"""Estimators that skl2onnx exports: those of the list are right, or refused as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sklearn_exports import outcomes

pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")

LISTED = Path(__file__).parent / "sklearn_exports.txt"


@pytest.mark.slow
def test_estimators_are_right_or_refused_as_listed() -> None:
    sklearn = pytest.importorskip("sklearn", reason="trains with scikit-learn")
    skl2onnx = pytest.importorskip("skl2onnx", reason="exports models of scikit-learn")
    lines = LISTED.read_text("utf-8").splitlines()
    if f"scikit-learn {sklearn.__version__}, skl2onnx {skl2onnx.__version__}" not in lines[0]:
        pytest.skip("the list is of other versions")
    rows = [line.split(maxsplit=2) for line in lines if line and line[0] != "#"]
    results = {outcome.name: outcome for outcome in outcomes()}
    assert {name: "right" if o.right else "refused" for name, o in results.items()} == {
        row[1]: row[0] for row in rows
    }
    # what is not right is refused, and never wrong
    assert not [str(o) for o in results.values() if o.reason.startswith(("WRONG", "UNCOMPARED"))]
