"""What docs/architecture.md says of packages, files and tests is so; test_docs runs its blocks."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import schedlang as sl
from schedlang import topi
from tests.test_package import ORDER

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "schedlang"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PICTURE = (ROOT / "docs" / "architecture.svg").read_text("utf-8")
FOLDERS = ("schedlang/", "tests/", "docs/", "examples/", "benchmarks/")
NAME = re.compile(r"`([\w./*]+)`")


def section(title: str) -> str:
    return PAGE[PAGE.index(f"## {title}\n") :].partition("\n## ")[0]


def paths(text: str) -> list[str]:
    """Return the files and folders that a text names."""
    return [n for n in NAME.findall(text) if re.search(r"/$|\.(py|pyi|h|js|md|txt)$", n)]


def test_the_order_of_packages() -> None:
    (line,) = [line for line in PAGE.splitlines() if " ← " in line]
    assert tuple(re.findall(r"\w+", line)) == ORDER


def test_the_picture_has_every_package_once() -> None:
    shown = re.findall(r'class="mono">(\w+)</text>', PICTURE)
    assert sorted(shown) == sorted(ORDER)


def test_named_files_exist() -> None:
    names = paths(PAGE)
    for name in names:
        folder = ROOT if name.startswith(FOLDERS) else PACKAGE
        assert any(folder.glob(name)), name
    assert len(names) > 100


def test_named_tests_exist() -> None:
    named = re.findall(r"`(tests/\w+\.py)::(\w+)`", PAGE)
    for path, test in named:
        functions = [
            node.name for node in ast.parse((ROOT / path).read_text("utf-8")).body
            if isinstance(node, ast.FunctionDef)
        ]  # fmt: skip
        assert test in functions, f"{path}::{test}"
    assert len(named) >= 15


def test_the_page_can_be_read_in_one_sitting() -> None:
    assert len(PAGE.split()) <= 4500


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
    assert called == paths(section("One network call").rpartition("\n\nA call of a network")[2])


def test_the_files_of_a_build() -> None:
    A = sl.placeholder((32, 16), name="A")
    B = sl.compute((32, 16), lambda i, j: A[i, j] * 2, name="B")
    s = sl.schedule(B)
    called = files_of(lambda: sl.build(s))
    # those of the other steps, and of other targets
    others = {"gpu_lowering/lower.py", "codegen/c_source.py"}
    for title in ("3. Lowering", "4. The verifier", "5. The machine nest", "6. A printer"):
        text = PAGE[PAGE.index(f"### {title}") :].partition("\n### ")[0]
        listed = [name for name in paths(text) if name.endswith(".py") and name not in others]
        assert listed
        assert not set(listed) - {*called}, title
