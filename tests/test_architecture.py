"""What docs/inside/architecture.md says is so; test_docs runs its blocks."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import schedlang as sl
from schedlang import topi
from tests.test_docs import files_named

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "schedlang"
PAGE = (ROOT / "docs" / "inside" / "architecture.md").read_text("utf-8")


def test_the_page_can_be_read_in_one_sitting() -> None:
    assert len(PAGE.split()) <= 3600


def files_of(call: Any) -> list[str]:
    """Return the files of schedlang in which ``call`` runs functions, in order."""
    files: dict[str, None] = {}

    def seen(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents:
            files[path.relative_to(PACKAGE).as_posix()] = None

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(before)
    return [*files]


def test_the_files_of_a_network_call() -> None:
    X, W = sl.placeholder((1, 8), name="X"), sl.placeholder((4, 8), name="W")
    weights = {"W": np.ones((4, 8), "float32")}
    net = sl.network([topi.nn.relu(topi.nn.dense(X, W))], weights, target="python", database=None)
    x = np.ones((1, 8), "float32")
    net(x)
    # the other files are those of the uncompiled functions
    ours = re.compile("networks/|runtime/fast_call")
    called = [f for f in files_of(lambda: net(x)) if ours.match(f)]
    paragraph = PAGE[PAGE.index("A call of a network that is ready") :].partition("\n\n")[0]
    assert called == files_named(paragraph)


def test_the_files_of_a_build() -> None:
    A = sl.placeholder((32, 16), name="A")
    B = sl.compute((32, 16), lambda i, j: A[i, j] * 2, name="B")
    s = sl.schedule(B)
    called = files_of(lambda: sl.build(s))
    # those of scans and other targets, and one whose class inherits all that a build calls
    others = {"gpu_lowering/lower.py", "codegen/c_source.py", "targets/cpu/backend.py",
              "compute/recurrence.py", "lowering/scan.py", "state/primitives/scan_loops.py"}
    for title in ("3. Lowering", "4. The verifier", "5. The machine nest", "6. A printer"):
        text = PAGE[PAGE.index(f"### {title}") :].partition("\n### ")[0]
        listed = [name for name in files_named(text) if name.endswith(".py") and name not in others]
        assert listed
        assert not set(listed) - {*called}, title
