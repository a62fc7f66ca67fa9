"""Tests of targets: who asks what of them, and their facts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.target_kinds import KINDS, SPELLINGS
from schedlang.targets import backend_of
from schedlang.targets.gpu import GpuBackend

ROOT = Path(sl.__file__).parent
# the files that hold what a target is
OWN = ("targets/", "target.py", "target_kinds.py", "target_options.py")
# comparisons with a word that is no target here
OTHER_WORDS = {
    ("autotune/runner/outputs.py", "want.dtype.kind == 'c'"),
    ("compute/torch_tensors.py", "value.device.type != 'cpu'"),
    ("course/markdown.py", "language != 'python'"),
    ("exercises/differences.py", "'c' in (got.dtype.kind, want.dtype.kind)"),
    ("frontend/torch/exporting.py", "value.device.type == 'cpu'"),
    ("runtime/c_kernel.py", "asked == 'llvm'"),
    ("runtime/te_module.py", "fmt in ('', 'py', 'python')"),
}
# files that still ask for the kind of a target: none may be added
LEFT = {"networks/entry.py", "networks/module.py", "networks/program.py"}
NAMES = {*SPELLINGS}
# how variables that hold a target are named
HOLDERS = {"target", "where", "where_to", "host"}


def asks_for_the_kind(node: ast.AST) -> bool:
    """Return whether a node compares the kind of a target, or its name, or looks it up."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("is_gpu", "on_gpu") and not is_module(node.value)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        return any(is_kind(side) or is_name(side) for side in sides)
    if isinstance(node, ast.Match):
        return is_kind(node.subject)
    if isinstance(node, ast.Subscript):
        return is_kind(node.slice)
    called = node.func if isinstance(node, ast.Call) else None
    looked_up = isinstance(called, ast.Attribute) and called.attr in ("get", "startswith")
    return looked_up and any(is_kind(a) for a in (called.value, *node.args))


def is_module(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "nvidia"


def is_kind(node: ast.AST) -> bool:
    """Return whether a node is the kind of a target."""
    if not (isinstance(node, ast.Attribute) and node.attr == "kind"):
        return False
    held = node.value
    return (held.attr if isinstance(held, ast.Attribute) else getattr(held, "id", "")) in HOLDERS


def is_name(node: ast.AST) -> bool:
    """Return whether a node is the name of a kind of target, or has one as an element."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return any(map(is_name, node.elts))
    return isinstance(node, ast.Constant) and node.value in NAMES


def questions(source: str) -> Iterator[str]:
    """Yield the text of each node that asks for the kind of a target."""
    for node in ast.walk(ast.parse(source)):
        if asks_for_the_kind(node):
            yield ast.unparse(node)


def test_only_targets_know_their_kinds() -> None:
    """Other files ask for a fact of the target, which says what is meant."""
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(OWN):
            found |= {(name, text) for text in questions(path.read_text("utf-8"))}
    assert OTHER_WORDS <= found
    assert {name for name, _ in found - OTHER_WORDS} == LEFT


@pytest.mark.parametrize(
    "line",
    ["f.target.kind == 'c'", "where.kind != other", "kind in ('cpu', 'cuda')", "x.is_gpu and y",
     "TABLE.get(target.kind)", "TABLE[self.target.kind]", "target.kind.startswith('cuda')"],
)  # fmt: skip
def test_a_question_for_the_kind_is_seen(line: str) -> None:
    assert [*questions(line)]


@pytest.mark.parametrize("line", ["loop.kind == 'serial'", "str(target.kind)", "nvidia.on_gpu(0)"])
def test_other_kinds_are_no_question(line: str) -> None:
    assert not [*questions(line)]


def test_each_kind_has_a_backend() -> None:
    for name, facts in KINDS.items():
        target = sl.Target(name)
        assert facts.name == name and target.facts is facts
        assert isinstance(backend_of(target), GpuBackend) == facts.binds_threads == target.is_gpu
        assert facts.emulated in ("", *KINDS) and facts.emulates in ("", *KINDS)
        assert facts.measured_as in KINDS
