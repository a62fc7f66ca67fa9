"""Tests of targets: who asks what of them, and their facts."""

from __future__ import annotations

import ast
import copy
import importlib.util
import inspect
import os
import pickle
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.listing import Listing
from schedlang.errors import BuildError, TuningError
from schedlang.machine.nest import MachineNest
from schedlang.networks.cache import cache_key
from schedlang.networks.plan import Plan
from schedlang.target_kinds import KINDS, SPELLINGS
from schedlang.targets import CBackend, Facts, GpuBackend, Lowered, Request, backend_of
from tests import scalar_target
from tests.fuzz.case import run_case
from tests.marks import slow_but
from tests.scalar_target import Scalar

ROOT = Path(sl.__file__).parent
# the files that hold what a target is
OWN = ("targets/", "target.py", "target_kinds.py", "target_options.py")
# comparisons with a word that is no target here
OTHER_WORDS = {
    ("compute/torch_tensors.py", "value.device.type != 'cpu'"),
    ("course/markdown.py", "language != 'python'"),
    ("course/exercises/differences.py", "'c' in (result.dtype.kind, want.dtype.kind)"),
    ("frontend/torch/exporting.py", "value.device.type == 'cpu'"),
    # the language of a file that a network is saved in
    ("networks/c_saving.py", "target != 'c'"),
    ("torch/backend.py", "v.device.type != 'cpu'"),
    ("runtime/c_kernel.py", "asked == 'llvm'"),
    ("runtime/whole_cores.py", "'cpu' in names.split(',')"),
    ("tvm/auto_scheduler/search_task.py", "print_mode == 'cuda'"),
    # a device of te, whose kind is its name
    ("runtime/devices.py", "self.kind != 'cuda'"),
    ("runtime/te_module.py", "fmt in ('', 'py', 'python')"),
}
NAMES = {*SPELLINGS}
needs_c = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)
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
    # most files have none of these words, and need not be parsed
    if re.search(rf"\.kind|is_gpu|on_gpu|['\"]({'|'.join(NAMES)})['\"]", source) is None:
        return
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
    assert not found - OTHER_WORDS


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


@dataclass(frozen=True)
class Checked(Scalar):
    """The target, whose files are checked to have no vectors and no threads."""

    def printed(self, request: Request[Lowered], machine: MachineNest) -> Listing:
        listing = super().printed(request, machine)
        assert "vector_size" not in listing.text and "#pragma omp" not in listing.text
        return listing


def scheduled() -> tuple[sl.Schedule, np.ndarray]:
    """Return a schedule with a vectorized loop in a parallel one, and its input."""
    A = sl.placeholder((37,), name="A")
    B = sl.compute((37,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    outer, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(inner)
    s[B].parallel(outer)
    return s, np.arange(37, dtype="float32")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the entry points of an installed package, which brings ``scalar``."""
    folder = tmp_path / "scalar_target-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: scalar-target\nVersion: 1.0\n")
    points = folder / "entry_points.txt"
    points.write_text("[schedlang.targets]\nscalar = tests.scalar_target:Scalar\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    # for processes that this one starts
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (tmp_path, ROOT.parent))))
    return points


@needs_c
def test_a_target_as_an_object() -> None:
    s, a = scheduled()
    f = sl.build(s, target=Scalar())
    np.testing.assert_array_equal(f(a), 2 * a)
    assert repr(f) == "<Kernel B(A: float32[37], B: float32[37]) for scalar>"
    assert f.target == sl.Target.of(Scalar()) and isinstance(f.target, sl.Target)
    assert f.target.vector_width("float32") == 1 and not f.target.is_gpu
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(a), 2 * a)
    with sl.Target.of(Scalar()):
        assert sl.build(s).target.facts is Scalar.facts
    assert sl.device(f.target) == sl.cpu()
    planned = sl.autoschedule(s.outputs[0], target=Scalar())
    np.testing.assert_array_equal(sl.build(planned, target=Scalar())(a), 2 * a)
    traced = sl.jit(lambda x: x * 2, target=Scalar())
    np.testing.assert_array_equal(traced(a), 2 * a)


@needs_c
def test_sums_in_lanes_of_a_target_without_vectors() -> None:
    """Partial sums in lanes, which stay in vector registers elsewhere, are those of loops."""
    A = sl.placeholder((4, 24), name="A")
    k = sl.reduce_axis(24, name="k")
    C = sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    _, inner = s[C].split(k, factor=2)
    part = s.rfactor(C, inner, factor_axis=1)
    (outer,), (i, lane) = s[part].op.reduce_axis, s[part].op.axis
    s[part].set_scope("local")
    whole = s[C].fuse()
    s[C].reorder(whole, *s[C].op.axis)
    s[part].compute_at(s[C], whole)
    s[part].reorder(outer, i, lane)
    s[part].unroll(i)
    s[part].vectorize(lane)
    a = np.random.default_rng(0).random((4, 24), "float32")
    f = sl.build(s, [A, C], target=Checked())
    np.testing.assert_allclose(f(a), a.sum(axis=1), rtol=1e-6)
    assert "vectorize" in str(f.loop_nest)


@needs_c
def test_a_network_for_a_target_of_a_package() -> None:
    x, w = sl.placeholder((4, 16), name="x"), sl.placeholder((8, 16), name="w")
    softmax = sl.topi.nn.softmax(sl.topi.nn.relu(sl.topi.nn.dense(x, w)))
    given, weight = (np.random.default_rng(0).random((n, 16), "float32") for n in (4, 8))
    net = sl.network(softmax, {w: weight}, target=Checked())
    wanted = np.exp(given @ weight.T)
    wanted /= wanted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(net(given), wanted, rtol=1e-5)
    assert "vector_size" not in net.source


def test_the_key_of_a_network_has_the_code_of_its_target(tmp_path: Path) -> None:
    """Another file of the target's class makes another key, and so do options."""
    target = sl.Target.of(Scalar())
    key = cache_key("", target, Plan())
    assert key == cache_key("", sl.Target.of(Scalar()), Plan())
    assert key != cache_key("", sl.Target.of(Checked()), Plan())
    copied = tmp_path / "own_target.py"
    keys = {key}
    for text in ("", "", "# changed"):
        if text or not copied.exists():
            copied.write_text(inspect.getsource(scalar_target) + text)
        spec = importlib.util.spec_from_file_location("own_target", copied)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["own_target"] = module
        try:
            spec.loader.exec_module(module)
            keys.add(cache_key("", sl.Target.of(module.Scalar()), Plan()))
        finally:
            del sys.modules["own_target"]
    assert len(keys) == 3


def test_a_target_takes_at_most_150_lines() -> None:
    assert len(inspect.getsource(scalar_target).splitlines()) <= 150


@needs_c
@pytest.mark.parametrize("index", slow_but(("1", "2", "3"), range(60)))
def test_random_schedules_for_a_target_of_a_package(index: int) -> None:
    case = run_case("scalar", index, [Checked()])
    assert not case.failure, f"{case.snippet}\n{case.failure}"


@needs_c
def test_a_target_by_its_entry_point(installed: Path) -> None:
    s, a = scheduled()
    f = sl.build(s, target="scalar")
    np.testing.assert_array_equal(f(a), 2 * a)
    assert f.target == sl.Target("scalar") == sl.Target.of(Scalar())
    assert f.target.backend is not None and replace(f.target, kind="cpu").backend is None
    with pytest.raises(BuildError, match='"cuda-emulator".* "scalar".*an entry point'):
        sl.build(s, target="scaler")


@pytest.mark.slow
@needs_c
def test_workers_find_an_installed_target(installed: Path, tmp_path: Path) -> None:
    s, a = scheduled()
    found = sl.autotune(s.outputs[0], target=Scalar(), trials=2, database=tmp_path / "d.jsonl")
    assert found.kernel.target.kind == "scalar"
    np.testing.assert_array_equal(found.kernel(a), 2 * a)


class Untimed(Scalar):
    facts = replace(Scalar.facts, name="untimed", tuned=False)


def test_a_target_whose_candidates_cannot_be_timed_is_not_searched() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    with pytest.raises(TuningError, match="do not time candidates(?s:.*)sl.autoschedule"):
        sl.autotune(B, target=Untimed(), trials=1)


def test_workers_do_not_know_an_object(tmp_path: Path) -> None:
    s, _ = scheduled()
    with pytest.raises(TuningError, match="entry point of its package"):
        sl.autotune(s.outputs[0], target=Scalar(), trials=2, database=tmp_path / "d.jsonl")


def test_targets_pickled_before_they_had_objects() -> None:
    for name in KINDS:
        target = sl.Target(name)
        old = copy.copy(target)
        del vars(old)["backend"]
        again = pickle.loads(pickle.dumps(old))
        assert "backend" not in vars(again)
        assert again == target and hash(again) == hash(target) and again.facts is target.facts


@dataclass(frozen=True)
class Optioned(Scalar):
    """A target with two options, whose text has a space."""

    first: int = 1
    second: int = 2


def test_a_device_of_a_target_as_an_object() -> None:
    assert sl.device(Optioned()) == sl.device(Scalar()) == sl.cpu()


class Unnamed(CBackend):
    """A target without facts of its own."""


class Misspelt(CBackend):
    facts = replace(CBackend.facts, name="My target")


class FactsAlone:
    facts = replace(CBackend.facts, name="facts-alone")


class Failing(CBackend):
    facts = replace(CBackend.facts, name="other")

    def __new__(cls) -> Failing:
        raise RuntimeError("no such processor")


@pytest.mark.parametrize(
    ("target", "message"),
    [(Scalar, r"Give an object of it: Scalar\(\)"), (Unnamed(), "has a target of that name"),
     (Misspelt(), "lower-case letters"), (FactsAlone(), "builds no kernels")],
)  # fmt: skip
def test_objects_that_are_no_targets(target: object, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        sl.build(scheduled()[0], target=target)


@pytest.mark.parametrize(
    ("point", "message"),
    [("nowhere:Scalar", "cannot be loaded"), ("tests.scalar_target:Nothing", "cannot be loaded"),
     ("tests.scalar_target:replace", "Derive its class"),
     ("tests.test_targets:Failing", "RuntimeError: no such processor"),
     ("tests.scalar_target:Scalar", "Give the entry point and the facts one name")],
)  # fmt: skip
def test_entry_points_that_are_no_targets(installed: Path, point: str, message: str) -> None:
    installed.write_text(f"[schedlang.targets]\nother = {point}\n")
    with pytest.raises(BuildError, match=message):
        sl.Target("other")


def test_facts_of_a_new_target_are_those_of_a_cpu() -> None:
    facts = Facts("new")
    assert facts.host_arrays and facts.timing == "host" and not facts.binds_threads
