"""``sl.network``: whole networks beside the oracle, saved, loaded, tuned and measured."""

from __future__ import annotations

import ast
import json
import multiprocessing
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.errors import (
    BuildError,
    CacheWarning,
    CallError,
    CallTypeError,
    MissingNameError,
    NetworkError,
    SavedScheduleWarning,
    TuningError,
    UnknownNameError,
)
from schedlang.networks import cache, compiled, network, tuning
from schedlang.networks.model import Model
from schedlang.networks.network import Network
from schedlang.networks.partition import partition
from schedlang.networks.usage import usage
from tests import networks
from tests.marks import slow_but
from tests.tuning import Pretended


def small(**options: Any) -> tuple[Network, Any, dict[sl.Tensor, np.ndarray], np.ndarray]:
    """Return a small network, its output, its weights and an input."""
    y, _, params = networks.resnet((1,), networks.basic, 8, 8)
    net = sl.network(y, params, **{"target": "python", **options})
    image = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype("float32")
    return net, y, params, image


def expected(y: Any, params: dict[sl.Tensor, np.ndarray], image: np.ndarray) -> np.ndarray:
    found: np.ndarray = sl.reference(y)(image=image, **{t.name: a for t, a in params.items()})
    return found


def mlp(**options: Any) -> tuple[Network, np.ndarray, np.ndarray, np.ndarray]:
    """Return a network of two parts, its weights and an input."""
    x, w, b = (sl.placeholder(s, name=n) for s, n in (((2, 8), "x"), ((4, 8), "w"), ((4,), "b")))
    h = topi.nn.relu(sl.named("fc", topi.nn.dense(x, w, b)))
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(t.shape).astype("float32") for t in (w, b, x)]
    out = sl.named("shares", topi.nn.softmax(h))
    net = sl.network(out, {"w": given[0], "b": given[1]}, **{"target": "python", **options})
    return net, *given  # type: ignore[return-value]


def softmax_of(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    h = np.maximum(x @ w.T + b, 0)
    e = np.exp(h - h.max(1, keepdims=True))
    found: np.ndarray = e / e.sum(1, keepdims=True)
    return found


def test_a_network_computes_what_its_stages_do() -> None:
    net, y, params, image = small()
    np.testing.assert_allclose(net(image), expected(y, params, image), rtol=1e-4, atol=1e-5)
    kinds = {part.kind for part in net.partition}
    assert {"product", "reduction"} <= kinds
    assert [part for kernel in net.kernels for part in kernel.parts]
    assert str(net.memory).startswith("memory: ")


@pytest.mark.parametrize("options", [
    pytest.param({"layouts": False}, marks=pytest.mark.slow),
    {"fold": False, "layouts": False, "winograd": False},
])  # fmt: skip
def test_rewriting_changes_no_result(options: dict[str, bool]) -> None:
    net, y, params, image = small(**options)
    np.testing.assert_allclose(net(image), expected(y, params, image), rtol=1e-4, atol=1e-5)
    assert bool(net.prepared.folded) == options.get("fold", True)
    named = {part.name for part in net.partition}
    blocked = any(len(t.shape) == 5 for part in net.partition for t in part.writes)
    assert blocked == options.get("layouts", True), named


def test_compiled_and_as_c() -> None:
    x = np.ones((2, 8), "float32")
    for target in ("cpu", "c"):
        if target == "c" and shutil.which("cc") is None:
            continue
        net, w, b, x = mlp(target=target)
        np.testing.assert_allclose(net(x), softmax_of(x, w, b), rtol=1e-5)


def test_a_call_takes_arrays_by_position_and_name_and_writes_out() -> None:
    net, w, b, x = mlp()
    want = softmax_of(x, w, b)
    np.testing.assert_allclose(net(x=x), want, rtol=1e-5)
    out = np.empty((2, 4), "float32")
    assert net(x, out) is out
    np.testing.assert_allclose(out, want, rtol=1e-5)


def test_out_takes_an_array_for_each_output() -> None:
    net, w, b, x = mlp()
    made = np.empty((2, 4), "float32")
    assert net(x, out=made) is made
    np.testing.assert_allclose(made, softmax_of(x, w, b), rtol=1e-5)
    a = sl.placeholder((3,), name="a")
    two = sl.network([sl.named("more", a + 1), sl.named("twice", a * 2)], target="python")
    given = np.empty(3, "float32"), np.empty(3, "float32")
    more, twice = two(np.arange(3, dtype="float32"), out=given)
    assert more is given[0] and twice is given[1]
    np.testing.assert_array_equal([more, twice], [[1, 2, 3], [0, 2, 4]])
    with pytest.raises(CallTypeError, match="out= has 1 of its outputs.*more, twice"):
        two(np.arange(3, dtype="float32"), out=given[0])
    with pytest.raises(CallTypeError, match="more is given twice, by out= and by name"):
        two(np.arange(3, dtype="float32"), out=given, more=given[0])
    # an argument of that name is meant first
    named = sl.network(sl.placeholder((3,), name="out") + 1, target="python")
    np.testing.assert_array_equal(named(out=np.zeros(3, "float32")), [1, 1, 1])


def test_threads_call_at_once() -> None:
    net, w, b, x = mlp(target="cpu")
    want = softmax_of(x, w, b)
    wrong: list[object] = []

    def work() -> None:
        for _ in range(200):
            if not np.allclose(net(x), want, rtol=1e-5):
                wrong.append(net)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_model_returns_its_structure() -> None:
    x, w = sl.placeholder((3,), name="x"), sl.placeholder((3,), name="w")
    model = Model((sl.named("more", x + w), sl.named("twice", x * 2)), (x,),
                  {w: np.ones(3, "float32")}, structure={"a": (1, None), "b": 0})  # fmt: skip
    found = sl.network(model, target="python")(np.arange(3, dtype="float32"))
    assert found["a"][1] is None
    np.testing.assert_array_equal(found["a"][0], [0, 2, 4])
    np.testing.assert_array_equal(found["b"], [1, 2, 3])


def test_inputs_that_nothing_reads_are_arguments(tmp_path: Path) -> None:
    x, mask = sl.placeholder((3,), name="x"), sl.placeholder((2,), name="mask")
    net = sl.network(Model((sl.named("more", x + 1),), (mask, x), {}))
    loaded = sl.load(net.save(tmp_path / "net"), target="python")
    for found in (loaded, pickle.loads(pickle.dumps(loaded))):
        more = found(np.zeros(2, "float32"), np.arange(3, dtype="float32"))
        np.testing.assert_array_equal(more, [1, 2, 3])


def test_the_cache_knows_the_arguments_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    x, w = sl.placeholder((3,), name="x"), sl.placeholder((3,), name="w")
    out = sl.named("less", x - w)
    a, b = np.arange(3, dtype="float32"), np.ones(3, "float32")
    for inputs, params, given in (
        ((x,), {w: b}, (a,)), ((w,), {x: a}, (b,)), ((x, w), {}, (a, b)), ((w, x), {}, (b, a)),
    ):  # fmt: skip
        net = sl.network(Model((out,), inputs, params), target="python")
        np.testing.assert_array_equal(net(*given), [-1, 0, 1])


@pytest.mark.parametrize("options", [
    {"cut": "dense"}, {"fuse": ["dense", "shares"]},
    {"cut": ["dense"], "fuse": [["fc", "shares"]]},
])  # fmt: skip
def test_overrides_of_the_partition_are_kept(tmp_path: Path, options: dict[str, Any]) -> None:
    net, w, b, x = mlp(target="cpu", **options)
    assert [part.stages for part in net.partition] != [p.stages for p in mlp()[0].partition]
    loaded = sl.load(net.save(tmp_path / "net"), target="python")
    for found in (loaded, pickle.loads(pickle.dumps(net))):
        assert [part.stages for part in found.partition] == [p.stages for p in net.partition]
    np.testing.assert_allclose(loaded(x), softmax_of(x, w, b), rtol=1e-5)


def test_saved_and_loaded(tmp_path: Path) -> None:
    net, y, params, image = small(target="cpu")
    folder = net.save(tmp_path / "resnet")
    assert sorted(p.name for p in folder.iterdir()) == ["manifest.json", "network.py",
                                                        "weights.npz"]  # fmt: skip
    again = sl.load(folder, target="python")
    np.testing.assert_allclose(again(image), expected(y, params, image), rtol=1e-4, atol=1e-5)
    assert [part.name for part in again.partition] == [part.name for part in net.partition]
    steps = [kernel.schedule.to_json() for kernel in net.kernels]
    assert [kernel.schedule.to_json() for kernel in again.kernels] == steps


@pytest.mark.slow
def test_a_saved_network_runs_without_schedlang_as_its_docstring_says(tmp_path: Path) -> None:
    net, w, b, x = mlp(target="cpu")
    folder = net.save(tmp_path / "mlp")
    np.save(tmp_path / "x.npy", x)
    about = ast.get_docstring(ast.parse((folder / "network.py").read_text()))
    assert about is not None
    taken, made = "    x: float32[2, 8]", "    shares: float32[2, 4]"
    assert about.index(taken) < about.index(made) < about.index("The first call compiles")
    assert "__pycache__" in about and "schedlang.load(folder)" in about
    example = about[about.index("    import numpy") : about.index("It takes")]
    program = (
        "import sys; sys.modules['schedlang'] = None\n"
        "import numpy; x = numpy.load('../x.npy')\n"
        f"{textwrap.dedent(example)}\nnp.save('y.npy', shares)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, timeout=120)
    np.testing.assert_allclose(np.load(folder / "y.npy"), softmax_of(x, w, b), rtol=1e-5)
    assert list((folder / "__pycache__").glob("network.*.nbc"))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_docstring_of_a_file_has_all_inputs_and_outputs(target: str) -> None:
    n = sl.var("n")
    x, y = sl.placeholder((n, 3), name="x"), sl.placeholder((n,), "int32", name="y")
    doubled = sl.named("doubled", x * 2)
    with sl.named("sums"):
        sums = topi.sum(doubled, 1) + y
    net = sl.network([doubled, sums], target=target, name="two")
    about = usage(net._whole(), "weights.npz")
    assert about.startswith('"""The network two,') and about.endswith('.\n"""\n\n')
    assert "    x: float32[n, 3]\n    y: int32[n]\n" in about and "sizes (n) are" in about
    assert "arrays in a tuple" in about and "    doubled: float32[n, 3]\n    sums: " in about
    if target == "cpu":
        # without weights
        assert "    doubled, sums = network.two(x, y)\n" in about and "np.load" not in about
    else:
        assert "memory = network.memory_of()" in about and "network.two(x, y, memory=" in about
        assert "or on the GPU" in about and "first call of each process" in about


def test_names_of_the_example_of_a_file_differ() -> None:
    taken = ("memory", "params", "np", "network", "a.b", "a_b")
    given = [sl.placeholder((2,), name=name) for name in taken]
    w = sl.placeholder((2,), name="w")
    y = sl.named("a_b", sum(given[1:], given[0] * w))
    net = sl.network(y, {w: np.ones(2, "float32")}, target="cpu", name="net")
    line = usage(net._whole(), "weights.npz")
    call = next(line for line in line.splitlines() if "network.net(" in line)
    names = re.findall(r"\w+", call.replace("network.net(", "").replace("params=params", ""))
    assert len(names) == len(set(names)) == 7 and all(map(str.isidentifier, names))
    assert not {"np", "network", "params", "memory"} & set(names)


def test_the_docstring_of_a_file_says_what_it_needs_and_takes() -> None:
    pytest.importorskip("ml_dtypes")
    x, z = sl.placeholder((2,), "bfloat16", name="x"), sl.placeholder((), name="z")
    short = sl.network(sl.named("y", x * 2), target="cpu")
    about = usage(short._whole(), "weights.npz")
    assert "It needs numba, ml_dtypes and NumPy alone." in about and "contiguous arrays of" in about
    about = usage(sl.network(sl.named("y", z[()] * 2), target="cpu")._whole(), "weights.npz")
    assert "It needs numba and NumPy alone." in about
    assert "It takes, in this order, contiguous arrays and numbers of NumPy:" in about


def test_the_current_folder_is_no_folder_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NetworkError, match="it is the current folder"):
        mlp(target="cpu")[0].save(".")
    (tmp_path / "link").symlink_to(tmp_path / "there", target_is_directory=True)
    assert mlp(target="cpu")[0].save("link").name == "there"
    assert (tmp_path / "link" / "manifest.json").exists()


@pytest.mark.slow
def test_a_file_plans_its_memory_for_symbolic_sizes() -> None:
    n = sl.var("n")
    x, w = sl.placeholder((n, 6), name="x"), sl.placeholder((6, 6), name="w")
    z = sl.placeholder((n,), "complex64", name="z")
    first = topi.nn.relu(sl.named("first", topi.nn.dense(x, w)))
    out = sl.named("out", topi.nn.dense(sl.named("second", topi.nn.dense(first, w)), w))
    # a complex intermediate, which counts as two numbers an element
    squares = sl.named("squares", z * z)
    total = sl.named("total", topi.sum(sl.compute((n, 2), lambda i, j: squares[i] + 1), 1))
    value = np.random.default_rng(0).standard_normal((6, 6)).astype("float32")
    net = sl.network([out, total], {w: value}, target="python", cut=["squares"], name="sized")
    names: dict[str, Any] = {"__name__": "sized"}
    exec(compile(net.source, net.module.path, "exec"), names)
    params = names["pack"](net.weights)
    planned: list[Any] = []
    planner = names["arena_places"]
    names["arena_places"] = lambda blocks: planned.append(blocks) or planner(blocks)
    for size in (0, 1, 5, 1, 0, 5):
        a = np.arange(size * 6, dtype="float32").reshape(size, 6)
        b = (np.arange(size) + 2j).astype("complex64")
        made, summed = names["sized"](a, b, params=params)
        want = np.maximum(a @ value.T, 0) @ value.T @ value.T
        np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(summed, 2 * (b * b + 1), rtol=1e-5)
    # each size once, and the plans of the last 64 sizes stay
    assert len(planned) == 3
    for size in range(6, 75):
        a, b = np.ones((size, 6), "float32"), np.ones(size, "complex64")
        np.testing.assert_allclose(names["sized"](a, b, params=params)[1], np.full(size, 4))
    assert names["_places"].cache_info().currsize == 64


def test_folders_that_exist_are_kept(tmp_path: Path) -> None:
    net, *_ = mlp(target="cpu")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    with pytest.raises(NetworkError, match=r"save\(.*it exists already\n  Give a new folder"):
        net.save(tmp_path / "full")
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    assert net.save(tmp_path / "empty").is_dir()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "full"]


def test_weights_of_any_name_and_dtype_are_saved(tmp_path: Path) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = sl.placeholder((3,), "bfloat16", name="x")
    # np.savez takes arrays of these names for options
    v, w = (sl.placeholder((3,), "bfloat16", name=name) for name in ("file", "allow_pickle"))
    given = {t: np.arange(k, k + 3).astype(bfloat16) for t, k in ((v, 1), (w, 5))}
    folder = sl.network(sl.named("y", x * v + w), given).save(tmp_path / "net")
    one = np.ones(3, bfloat16)
    np.testing.assert_array_equal(sl.load(folder, target="python")(one), [6, 8, 10])
    source = (folder / "network.py").read_text()
    start = source.index("def _array")
    names: dict[str, Any] = {"np": np, "PARAMS": {"file": (0, "bfloat16", (3,))}, "PARAM_BYTES": 64}
    exec(source[start : source.index("def network(")], names)
    packed = names["pack"](np.load(folder / "weights.npz"))
    np.testing.assert_array_equal(packed[:6].view(bfloat16), [1, 2, 3])


def test_networks_for_other_targets_are_not_saved(tmp_path: Path) -> None:
    net, *_ = mlp()
    with pytest.raises(NetworkError, match='the network is for target="python"'):
        net.save(tmp_path / "no")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a network, which its tests copy."""
    net, *_ = mlp(target="cpu")
    return net.save(tmp_path_factory.mktemp("saved") / "mlp")


@pytest.mark.parametrize("change", [
    lambda m: m.pop("graph"),
    lambda m: m.update(format="other"),
    lambda m: m.update(version=99),
    lambda m: m.update(inputs=[99]),
    lambda m: m.update(inputs="x"),
    lambda m: m.update(weights=[[0, 7]]),
    lambda m: m.update(weights=[[True, "w"]]),
    lambda m: m.update(structure=5),
    lambda m: m.update(steps={"fc": 3}),
    lambda m: m.update(steps={}),
    lambda m: m["steps"].pop("shares"),
    lambda m: m["steps"].update(other=m["steps"]["dense"]),
    lambda m: m["steps"].update(dense="garbage"),
    lambda m: m["steps"].update(dense="[" * 100_000),
    lambda m: m["steps"].update(dense=m["steps"]["shares"]),
    lambda m: m["steps"].update(dense="{}"),
    lambda m: m.update(origins={"fc": "model"}),
    lambda m: m.update(origins={"fc": ["model", 3]}),
    lambda m: m.update(origins={"fc": "ab"}),
    lambda m: m.update(origins={"fc": {"model": 1, "note": 2}}),
    lambda m: m.update(origins={"fc": ["model", "", ""]}),
    lambda m: m.update(origins={"fc": ["magic", ""]}),
    lambda m: m.update(name=3),
    lambda m: m.update(cut=[1]),
    lambda m: m["graph"].update(items=[["import", "os"]]),
    lambda m: m.update(structure=None),
    lambda m: m.update(outputs=99),
    lambda m: m.update(name="x\nimport os"),
    lambda m: m.update(weights=m["weights"][1:]),
    lambda m: m.update(inputs=m["inputs"] * 2),
    # a read with fewer indices than dimensions
    lambda m: next(item for item in m["graph"]["items"] if item[0] == "read")[3].pop(),
])  # fmt: skip
def test_hostile_manifests_are_refused(saved: Path, tmp_path: Path, change: Any) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "mlp"))
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(NetworkError):
        sl.load(folder)


@pytest.mark.parametrize("steps, said", [
    ({"dense": "garbage"}, r"the schedule of kernel dense in manifest\.json does not fit: the"),
    ({}, r"manifest\.json has no schedule of kernel dense\n  Build the network again"),
])  # fmt: skip
def test_schedules_of_a_folder_are_checked(
    saved: Path, tmp_path: Path, steps: dict[str, str], said: str
) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "mlp"))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["steps"] = {**manifest["steps"], **steps} if steps else {}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(NetworkError, match=rf"load\('.*mlp'\): {said}"):
        sl.load(folder)
    # another version may have had other kernels
    for other in ({"version": 1}, {"schedlang": "0.0.9"}):
        (folder / "manifest.json").write_text(json.dumps({**manifest, **other}))
        if steps:
            with pytest.raises(NetworkError, match=said):
                sl.load(folder)
            continue
        with pytest.warns(SavedScheduleWarning, match="Another version of schedlang wrote it"):
            net = sl.load(folder, target="python")
        assert [kernel.origin for kernel in net.kernels] == ["model", "model"]


def test_a_schedule_of_a_folder_that_cannot_run_is_refused(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "mlp"))
    manifest = json.loads((folder / "manifest.json").read_text())
    s = sl.schedule(sl.load(saved).partition["dense"].group.outputs)
    s[s.outputs[0]].bind(s.outputs[0].op.axis[0], "threadIdx.x")  # type: ignore[attr-defined]
    manifest["steps"]["dense"] = s.to_json()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(NetworkError, match=r"schedule of kernel dense .* does not fit.*threadIdx"):
        sl.load(folder)


def test_older_networks_are_read(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "mlp"))
    manifest = json.loads((folder / "manifest.json").read_text())
    # in version 1 the origins were phrases
    old = {name: f"tuned on {name}" for name in manifest["origins"]}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "version": 1, "origins": old}))
    net = sl.load(folder, target="python")
    # older pickles have neither these origins nor a compiler
    made, (*args, _, _) = net.__reduce__()
    for found in (net, pickle.loads(pickle.dumps(net)), made(*args, old)):
        assert all(k.provenance == f"tuned on {k.name}" for k in found.kernels)
    said = r"version .* reads 1 and 2(?s:.*)save it again with"
    for version in (0, 3, "2", True):
        (folder / "manifest.json").write_text(json.dumps({**manifest, "version": version}))
        with pytest.raises(NetworkError, match=said):
            sl.load(folder)


def test_the_note_of_a_folder_moves_no_cursor(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "mlp"))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["origins"] = dict.fromkeys(manifest["origins"], ["database", "on A\n\x1b[31m\u202eB"])
    (folder / "manifest.json").write_text(json.dumps(manifest))
    net = sl.load(folder, target="python")
    for kernel in net.kernels:
        head = str(kernel).splitlines()[0]
        assert head.endswith(", schedule on A \\x1b[31m\\u202eB")
    assert "\x1b" not in net.source


def test_other_files_are_no_networks(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"load\(.*: manifest.json: No such file"):
        sl.load(tmp_path / "nothing")
    net, *_ = mlp(target="cpu")
    folder = net.save(tmp_path / "mlp")
    zipped = (folder / "weights.npz").read_bytes()
    entry = zipped.index(b"PK\1\2")

    def changed(at: int) -> bytes:
        return zipped[: entry + at] + b"\x63" + zipped[entry + at + 1 :]

    # no zip; an entry that is encrypted, or has a method or a version that nothing knows
    for damaged in (b"", b"no zip", changed(8), changed(10), changed(6)):
        (folder / "weights.npz").write_bytes(damaged)
        with pytest.raises(NetworkError):
            sl.load(folder)
    (folder / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(NetworkError, match="not a saved network"):
        sl.load(folder)


def test_weights_that_would_be_unpickled_are_refused(tmp_path: Path) -> None:
    net, *_ = mlp(target="cpu")
    folder = net.save(tmp_path / "mlp")
    with np.load(folder / "weights.npz") as arrays:
        names = list(arrays)
    objects: dict[str, Any] = {name: np.array([{}], object) for name in names}
    np.savez(folder / "weights.npz", **objects)
    with pytest.raises(NetworkError, match="pickle"):
        sl.load(folder)


def test_a_module_that_was_linked_before_is_not_linked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    first, w, b, x = mlp()
    source = first.source
    second, *_ = mlp()
    monkeypatch.setattr(compiled, "link_for", lambda *_: pytest.fail("linked again"))
    np.testing.assert_allclose(second(x), softmax_of(x, w, b), rtol=1e-5)
    assert second.source == source
    other, *_ = mlp(cut=["fc_bias"]) if "fc_bias" in str(first.partition) else mlp(name="other")
    with pytest.raises(pytest.fail.Exception):
        other(x)


def test_damaged_files_of_the_cache_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    assert mlp()[0].source
    (file,) = (tmp_path / "networks").iterdir()
    for damage in (file.read_text()[:-5], "{}", '{"format": 2}', "\x00"):
        file.write_text(damage)
        with pytest.warns(CacheWarning, match=file.name):
            assert cache.load_artifact(file.stem, sl.Target("python")) is None
        net, w, b, x = mlp()
        np.testing.assert_allclose(net(x), softmax_of(x, w, b), rtol=1e-5)


def test_the_weights_are_in_memory_once(tmp_path: Path) -> None:
    net, w, b, x = mlp(target="cpu")
    loaded = sl.load(net.save(tmp_path / "mlp"), target="python")
    want = softmax_of(x, w, b)
    for made in (net, loaded):
        np.testing.assert_allclose(made(x), want, rtol=1e-5)
        whole = made.module.params
        assert all(np.shares_memory(array, whole) for array in made.weights.values())
        np.testing.assert_array_equal(made.weights["b"], b)
    assert all(np.shares_memory(a, loaded.module.params) for a in loaded.prepared.params.values())


@pytest.mark.slow
def test_a_profile_has_a_time_for_each_part() -> None:
    net, w, b, x = mlp()
    found = net.profile(x, repeat=2)
    assert [kernel.name for kernel in found.kernels] == [part.name for part in net.partition]
    assert all(kernel.seconds > 0 and kernel.bound > 0 for kernel in found.kernels)
    assert abs(sum(kernel.share for kernel in found.kernels) - 1) < 1e-6
    assert found.seconds == pytest.approx(sum(kernel.seconds for kernel in found.kernels))
    first, last = found["dense"].lines
    text = net.source.splitlines()[first - 1 : last]
    assert any("def " in line for line in text)
    assert found.runs >= 2 and "of the bound" in str(found)
    # a kernel whose data are in a cache beats the bound by memory, of which no part is above 1
    fast = replace(found, kernels=tuple(replace(k, bound=1.19) for k in found.kernels))
    for text in (str(fast), fast._repr_html_()):
        assert "119%" not in text and "100%+" in text
    assert "<svg" in found._repr_html_()
    assert "the loop nest of dense</summary>" in found._repr_html_()
    assert [str(kernel.nest) for kernel in found.kernels] == [
        str(kernel.kernel.loop_nest) for kernel in net.kernels
    ]
    assert "for " in str(found["dense"].nest) and "Nest" not in repr(found["dense"])
    assert str(pickle.loads(pickle.dumps(found))["dense"].nest) == str(found["dense"].nest)
    with pytest.raises(MissingNameError, match="no part 'dens'; did you mean 'dense'"):
        found["dens"]
    with pytest.raises(CallError, match="repeat must be an integer"):
        net.profile(x, repeat=0)


@pytest.mark.parametrize("target", slow_but(["python"], ["cpu", "python"]))
def test_a_profile_counts_at_the_sizes_of_the_call(target: str) -> None:
    n = sl.var("n")
    x = sl.placeholder((n, 4), name="x")
    net = sl.network(sl.named("double", x * 2), target=target, name="sized")
    for rows in (3, 40):
        (kernel,) = net.profile(np.ones((rows, 4), "float32"), repeat=1).kernels
        assert kernel.gflops * kernel.seconds == pytest.approx(rows * 4 / 1e9)
        assert kernel.gbps * kernel.seconds == pytest.approx(2 * rows * 4 * 4 / 1e9)


def test_a_profile_of_a_network_with_an_input_that_no_part_reads() -> None:
    x = sl.placeholder((sl.var("n"), 4), name="x")
    mask = sl.placeholder((sl.var("m"),), name="mask")
    model = Model((sl.named("double", x * 2),), (x, mask), {})
    net = sl.network(model, target="python", name="unread")
    (kernel,) = net.profile(np.ones((3, 4), "float32"), np.ones(9, "float32"), repeat=1).kernels
    assert kernel.gflops * kernel.seconds == pytest.approx(12 / 1e9)


def test_a_partition_at_other_sizes() -> None:
    x = sl.placeholder((sl.var("n"), sl.var("m")), name="x")
    found = partition(sl.named("double", x * 2), sizes={"m": 5})
    at = found.at({"n": 3})
    assert at.sizes == {"n": 3, "m": 5} and found.at({}) is found
    assert [(p.flops, p.read_bytes, p.written_bytes) for p in at] == [(15, 60, 60)]
    assert at["double"].key == found["double"].key and found.sizes["n"] != 3
    with pytest.raises(TuningError, match="at.*no symbolic size 'k' in double; give sizes="):
        found.at({"k": 3})


def test_equal_parts_of_two_sizes_have_a_kernel_each() -> None:
    x = [sl.placeholder((sl.var(size), 8), name=name) for size, name in zip("nmn", "xyz")]
    w = sl.placeholder((4, 8), name="w")
    made = [topi.nn.relu(sl.named(f"of_{t.name}", topi.nn.dense(t, w))) for t in x]
    values = np.arange(32, dtype="float32").reshape(4, 8) - 9
    net = sl.network(made, {w: values}, target="python")
    # both n are one size of a call
    assert [kernel.parts for kernel in net.kernels] == [("of_x", "of_z"), ("of_y",)]
    given = [np.full((rows, 8), rows, "float32") for rows in (2, 3, 2)]
    for result, array in zip(net(*given), given):
        np.testing.assert_allclose(result, np.maximum(array @ values.T, 0), rtol=1e-5)


def test_kernels_have_the_names_of_what_they_compute() -> None:
    *x, z = (sl.placeholder((2, 8), name=name) for name in "xyz")
    w = sl.placeholder((8, 8), name="w")
    layers = {"of_x": "body.0.linear", "of_y": "body.1.linear", "soft": "head"}
    rows = [topi.nn.relu(sl.named(f"of_{t.name}", topi.nn.dense(t, w))) for t in x]
    soft = sl.named("soft", topi.nn.softmax(z))
    model = Model((*rows, soft), (*x, z), {w: np.eye(8, dtype="float32")}, layers, (0, 1, 2))
    net = sl.network(model, target="python")
    both, last = net.kernels
    assert both.parts == ("of_x", "of_y") and last.name == "soft"
    for name in ("of_x", "of_y", "body", "body.0", "body.0.linear", "body.1"):
        assert net.kernels[name] is both, name
    assert net.kernels["head"] is net.kernels["soft"] is net.kernels[-1] is last
    assert net.kernels["relu"] is both
    # a tuple in all else
    assert net.kernels == (both, last) and net.kernels[:1] == (both,) and len(net.kernels) == 2
    assert [*reversed(net.kernels)] == [last, both] and hash(net.kernels) == hash((both, last))
    assert isinstance(net.kernels, tuple) and both in net.kernels
    copied = pickle.loads(pickle.dumps(net.kernels))
    assert copied["of_y"].name == "of_x"


def test_a_name_that_no_kernel_or_several_have_is_refused() -> None:
    x, w = sl.placeholder((4, 8), name="x"), sl.placeholder((8, 8), name="w")
    layers = {"dense": "body.first", "soft": "body.last"}
    made = sl.named("soft", topi.nn.softmax(topi.nn.relu(topi.nn.dense(x, w))))
    model = Model((made,), (x,), {w: np.eye(8, dtype="float32")}, layers)
    net = sl.network(model, target="python")
    for name, message in [
        ("densse", r"kernels\['densse'\]: no kernel computes .*; did you mean 'dense'\?"),
        ("x", r"kernels\['x'\]: no kernel computes .*; the kernels are 'dense', 'soft'"),
        ("body", r"kernels\['body'\]: 2 kernels compute it\n  Name one .*: 'dense', 'soft'\."),
    ]:
        with pytest.raises(UnknownNameError, match=message) as caught:
            net.kernels[name]
        assert isinstance(caught.value, KeyError) and not str(caught.value).startswith("'")
    with pytest.raises(IndexError):
        net.kernels[2]


@pytest.mark.slow
def test_a_profile_of_a_compiled_network_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    first, *_ = mlp(target="cpu", name="profiled")
    assert first.source
    net, w, b, x = mlp(target="cpu", name="profiled")
    np.testing.assert_allclose(net(x), softmax_of(x, w, b), rtol=1e-5)
    assert len(net.profile(x).kernels) == len(net.partition)
    # the copy with time stamps is compiled once
    folder = Path(net.module.path).parent
    compiled = {path: path.stat().st_mtime_ns for path in folder.glob("profiled_times_*.nbc")}
    assert len(compiled) == 1
    assert len(net.profile(x).kernels) == len(net.partition)
    times = {path: path.stat().st_mtime_ns for path in folder.glob("profiled_times_*.nbc")}
    assert times == compiled
    np.testing.assert_allclose(net(x), softmax_of(x, w, b), rtol=1e-5)


def test_c_is_not_profiled() -> None:
    net, _, _, x = mlp(target="c")
    with pytest.raises(BuildError, match='kernels are timed for target="cpu"'):
        net.profile(x)


@pytest.mark.slow
def test_tuning_searches_each_kernel_once(tmp_path: Path) -> None:
    x = sl.placeholder((8, 8), name="x")
    ws = [sl.placeholder((8, 8), name=f"w{k}") for k in range(2)]
    y = x
    for k, w in enumerate(ws):
        y = topi.nn.relu(sl.named(f"fc{k}", topi.nn.dense(y, w)))
    values = {w: np.eye(8, dtype="float32") for w in ws}
    database = tmp_path / "trials.jsonl"
    net = sl.network(y, values, target="python", database=database)
    seen: list[Any] = []
    found = net.tune(trials=2, progress=lambda name, trial: seen.append(name))
    (search,) = found.searches
    assert search.work.parts == ("fc0", "fc1") and set(seen) == {"fc0"}
    assert search.seconds is not None and found.seconds == pytest.approx(2 * search.seconds)
    assert [kernel.origin for kernel in net.kernels] == ["database"]
    # where it was measured; the line of the database, a path of this machine, stays out of source
    assert "\n# schedule: tuned on " in net.source and "trials.jsonl" not in net.source
    assert re.fullmatch(r"line \d+ of .*trials\.jsonl", net.kernels[0].place)
    a = np.random.default_rng(0).random((8, 8), "float32")
    np.testing.assert_allclose(net(a), a, rtol=1e-6)
    assert "GFLOP/s" in str(found) and "fc0" in str(found)
    # the trials of the database count, so that nothing new is measured but the race, which the
    # untuned schedule may win
    seen.clear()
    net.tune(trials=2, progress=lambda name, trial: seen.append(trial))
    assert seen and all(trial.resumed or trial.strategy == "untuned" for trial in seen)


def one_layer(database: Path) -> Network:
    x, w = sl.placeholder((8, 8), name="x"), sl.placeholder((8, 8), name="w")
    y = topi.nn.relu(sl.named("fc", topi.nn.dense(x, w)))
    return sl.network(y, {w: np.eye(8, dtype="float32")}, target="python", database=database)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make all schedules take 1 s, and those with a step of the first word in the list 0.5 s."""
    fast: list[str] = ["none"]
    seconds = Pretended(lambda steps: 0.5 if f'"{fast[0]}"' in steps else 1.0)
    monkeypatch.setattr("schedlang.autotune.tuner.Local", lambda *_: seconds)
    return fast


@pytest.mark.parametrize("saved", [False, True])
def test_a_faster_schedule_stays(tmp_path: Path, pretended: list[str], saved: bool) -> None:
    net = one_layer(tmp_path / "t.jsonl")
    mine = sl.schedule(net.partition["fc"].group.outputs)
    relu = mine.outputs[0]
    mine[relu].pragma(relu.op.axis[0], "drill.mine")  # type: ignore[attr-defined]
    net.reschedule("fc", mine)
    if saved:
        net = pickle.loads(pickle.dumps(net))
        net.database = tmp_path / "t.jsonl"
    pretended[0] = "drill.mine"
    found = net.tune(trials=2, progress=False)
    assert found.searches[0].seconds == 0.5 and found.searches[0].kept
    assert "fc: keeps its schedule" in str(found)
    assert net.kernels[0].origin == "given" and "drill.mine" in net.kernels[0].schedule.to_json()
    # as it does where the time is too short, and where another one was not searched
    assert net.tune(timeout=0.0).searches == () and net.kernels[0].origin == "given"
    # in another database it is measured again, and a faster one replaces it
    pretended[0] = "vectorize"
    found = net.tune(trials=2, progress=False, database=tmp_path / "other.jsonl")
    assert found.searches[0].seconds == 0.5 and not found.searches[0].kept
    assert net.kernels[0].origin == "database" and "keeps" not in str(found)
    # what a database has stays, too, where a search writes to a new one
    pretended[0] = "drill.mine"
    before = net.kernels[0].schedule.to_json()
    assert net.tune(timeout=0.0, database=tmp_path / "new.jsonl").searches == ()
    assert net.kernels[0].schedule.to_json() == before and net.kernels[0].origin == "database"


def test_a_schedule_that_is_set_during_a_search_stays(
    tmp_path: Path, pretended: list[str]
) -> None:
    net = one_layer(tmp_path / "t.jsonl")
    mine = []

    def set_mine(*_: Any) -> None:
        # another search ends before
        net.tune(timeout=0.0)
        mine.append(sl.schedule(net.partition["fc"].group.outputs))
        net.reschedule("fc", mine[-1])

    net.tune(trials=2, progress=set_mine)
    assert net.kernels[0].origin == "given"
    assert net.kernels[0].schedule.to_json() == mine[-1].to_json()
    # the next search may replace it
    pretended[0] = "vectorize"
    net.tune(trials=2, progress=False)
    assert net.kernels[0].origin == "database"


@pytest.mark.slow
def test_a_saved_network_says_where_its_schedules_were_tuned(tmp_path: Path) -> None:
    net, w, b, x = mlp(target="cpu", database=tmp_path / "t.jsonl")
    net.tune(trials=1)
    again = sl.load(net.save(tmp_path / "net"))
    assert [(k.origin, k.note) for k in again.kernels] == [(k.origin, k.note) for k in net.kernels]
    assert again.kernels[0].note.startswith("tuned on ") and again.source == net.source
    np.testing.assert_allclose(again(x), softmax_of(x, w, b), rtol=1e-5)


@pytest.mark.slow
def test_a_network_is_tuned_on_the_workers_of_an_executor(tmp_path: Path) -> None:
    net, w, b, x = mlp(target="cpu", database=tmp_path / "t.jsonl")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        found = net.tune(trials=2, executor=workers, progress=False)
    assert [search.work.parts for search in found.searches] == [(k.name,) for k in net.kernels]
    assert all(search.seconds for search in found.searches) and found.complete
    assert {kernel.origin for kernel in net.kernels} == {"database"}
    np.testing.assert_allclose(net(x), softmax_of(x, w, b), rtol=1e-5)


def test_a_search_that_finds_nothing_leaves_the_others(tmp_path: Path) -> None:
    net, w, b, x = mlp(target="cpu", database=tmp_path / "t.jsonl")
    found = net.tune(timeout=0.0)
    assert found.searches == () and "the time was over before" in found.ended
    np.testing.assert_allclose(net(x), softmax_of(x, w, b), rtol=1e-5)


@pytest.mark.parametrize("ended, broken, listed", [
    ("interrupted", False, "interrupted before 'shares'"),
    ("ValueError: mine (mine.py:3)", True, "dense: ValueError: mine (mine.py:3)"),
])  # fmt: skip
def test_a_search_that_ends_early_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: str, broken: bool, listed: str
) -> None:
    def searched(outputs: Any, target: Any, **options: Any) -> Any:
        return SimpleNamespace(seconds=0.5, facts=SimpleNamespace(ended=ended, broken=broken))

    monkeypatch.setattr(tuning, "autotune", searched)
    net, *_ = mlp(target="cpu", database=tmp_path / "t.jsonl")
    found = net.tune(trials=1)
    assert listed in str(found)
    # Ctrl-C ends the search that runs, which keeps its best, and all others
    assert len(found.searches) == (2 if broken else 1)


def test_a_kernel_and_its_search_have_the_name_of_the_part(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    net, *_ = mlp(target="cpu")
    part, kernel = net.partition.parts[0], net.kernels[0]
    last = part.writes[0].name
    head, nest = str(kernel).split("\n", 1)
    assert head == "# kernel dense, schedule by the cost model" and part.name == "dense" != last
    assert nest.startswith("dense(x: float32[2, 8], w_packed: ") and f" -> {last}: " in nest

    def searched(outputs: Any, target: Any, **options: Any) -> Any:
        raise TuningError(f"autotune({outputs[0].name}): none of 1 candidates worked")

    monkeypatch.setattr(tuning, "autotune", searched)
    assert "  dense: none of 1 candidates worked\n" in str(net.tune(trials=1))


def test_the_speed_of_a_slow_kernel_has_digits() -> None:
    net, *_ = mlp(target="cpu")
    (work, *_) = tuning.works_of(net.partition, None, net.target)
    found = tuning.NetworkTuning("net", (tuning.Tuned(work, 1e-3, 1, 0.34),), 1.0)
    assert re.search(r" 1 ms +0\.34 +1 +dense$", str(found))


def test_tuning_needs_the_values_of_symbolic_sizes() -> None:
    """The message names the network, and not the stages inside of it."""
    x, w = sl.placeholder((sl.var("n"), 8), name="x"), sl.placeholder((8, 8), name="w")
    y = topi.nn.softmax(topi.nn.relu(sl.named("fc", topi.nn.dense(x, w))))
    net = sl.network(y, {w: np.eye(8, dtype="float32")}, target="python", name="small")
    with pytest.raises(TuningError) as refused:
        net.tune(trials=1)
    assert str(refused.value) == (
        "tune(small): it has symbolic sizes; give the values to tune for, sizes={'n': ...}"
    )
    with pytest.raises(TuningError, match=r"^tune\(sizes=.*no symbolic size 'm' in small; give"):
        net.tune(trials=1, sizes={"m": 3})


@pytest.mark.parametrize("options", [
    {"search": "none"}, {"seed": "a"}, {"executor": 3}, {"limits": 3}, {"database": 3},
    {"trials": 0}, {"timeout": "a"}, {"progress": 3},
])  # fmt: skip
def test_options_of_tuning_that_do_not_fit(options: dict[str, Any]) -> None:
    net, *_ = mlp(target="cpu")
    name = next(iter(options))
    # that of a database is the same in each function
    called = "" if name == "database" else r"tune\(" + ("..., " if name == "progress" else "")
    with pytest.raises(TuningError, match=f"^{called}{name}=") as refused:
        net.tune(**options)
    assert ("of seconds" in str(refused.value)) == (name == "timeout")


def test_calls_of_a_network_that_is_ready_wait_for_nothing() -> None:
    x = sl.placeholder((8,), name="x")
    net = sl.network(sl.compute((8,), lambda i: x[i] * 2, name="double"), target="python")
    ones = np.ones(8, "float32")
    net(ones)
    held, done = threading.Event(), threading.Event()

    def hold(now: Any) -> Any:
        held.set()
        done.wait(60)
        return now

    worker = threading.Thread(target=net._having, args=(hold,))
    worker.start()
    try:
        assert held.wait(60)
        np.testing.assert_array_equal(net(ones), 2 * ones)
        assert worker.is_alive() and not done.is_set()
    finally:
        done.set()
        worker.join()


def test_a_network_can_be_pickled() -> None:
    net, w, b, x = mlp()
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_allclose(again(x), softmax_of(x, w, b), rtol=1e-5)


@pytest.mark.parametrize("wrong, error, message", [
    (lambda x, w: sl.network(3), CallTypeError, r"sl\.network\(3\): give a tensor"),
    (lambda x, w: sl.network([]), CallTypeError, "give a tensor"),
    (lambda x, w: sl.network(x), NetworkError, "output x: it is an input"),
    (lambda x, w: sl.network([x + 1, w], {}), NetworkError, "output w"),
    (lambda x, w: sl.network(x + w, {"v": np.ones(4, "f4")}), NetworkError,
     "no stage reads a placeholder of that name"),
    (lambda x, w: sl.network(x + w, {w: np.ones(5, "f4")}), NetworkError, r"shape \(5,\)"),
    (lambda x, w: sl.network(x + w, {w: np.ones(4, "f8")}), NetworkError, "float64"),
    (lambda x, w: sl.network(sl.named("s", x + w), cut=["t"]), NetworkError, "t"),
    (lambda x, w: sl.network(x + w, target="tpu"), BuildError, "tpu"),
    (lambda x, w: sl.network(Model((x + 1,), (x,), {}), {x: 0}), NetworkError,
     "the model has its own weights"),
    (lambda x, w: sl.network(x + w, name="a b"), sl.errors.SchedlangError, "a b"),
    (lambda x, w: sl.network(x + w, [w]), CallTypeError, "give a dict of arrays"),
    (lambda x, w: sl.network(x + w, "cuda"), CallTypeError, r"params='cuda'.*a target is target="),
    (lambda x, w: sl.network((v := sl.placeholder((sl.var("n"),), name="v")) + v, {v: [1.0]}),
     NetworkError, r"v: float32\[n\]: its extents must be numbers"),
    (lambda x, w: sl.network(x + w, {w: np.ones(4, "f4"), "w": np.ones(4, "f4")}), NetworkError,
     "the weight w is given twice"),
    (lambda x, w: sl.network(x * sl.var("alpha", dtype="float32")), NetworkError,
     r"alpha = sl\.placeholder\(\(\), \"float32\"\)"),
    (lambda x, w: sl.network((h := sl.named("h", x + w)) * 2, {h: np.ones(4, "f4")}), NetworkError,
     "with an array for h: a stage computes it"),
    (lambda x, w: sl.network(x + w, batch="n"), CallTypeError,
     r"sl\.network\(\.\.\., batch=\.\.\.\): from_torch takes it"),
    (lambda x, w: sl.network(x + w, shapes={"n": 1}), CallTypeError, "from_onnx takes it"),
    (lambda x, w: sl.network(x + w, cuts=["x"]), CallTypeError, "did you mean 'cut'"),
    (lambda x, w: sl.explain(sl.network(x + w, {w: np.ones(4, "f4")})), CallTypeError,
     r"net\.kernels\[0\]\.schedule"),
])  # fmt: skip
def test_refusals(wrong: Any, error: type[Exception], message: str) -> None:
    x, w = sl.placeholder((4,), name="x"), sl.placeholder((4,), name="w")
    with pytest.raises(error, match=message):
        wrong(x, w)


def test_calls_that_do_not_fit_name_the_input() -> None:
    net, _, _, x = mlp()
    with pytest.raises(CallError, match="x"):
        net(np.ones((3, 8), "float32"))
    with pytest.raises(CallError, match=r"\(8,\), which has 1 dimension$"):
        net(x[0])
    for rows in (1, sl.var("n")):
        X = sl.placeholder((rows, 4), name="X")
        one = sl.network(sl.named("y", X + 1), target="python")
        with pytest.raises(CallError, match=r"1 dimension: for the first .* pass X\[None\]"):
            one(np.ones(4, "float32"))
        with pytest.raises(CallError, match=r"which has 1 dimension$"):
            one(np.ones(5, "float32"))
    with pytest.raises(CallTypeError, match="float64"):
        net(x.astype("float64"))
    with pytest.raises(CallTypeError):
        net()


def test_one_of_each_is_singular() -> None:
    x, w = sl.placeholder((4,), name="x"), sl.placeholder((4,), name="w")
    net = sl.network(sl.named("y", x + w), {w: np.ones(4, "f4")})
    assert "for cpu: 1 part, 1 kernel, 1 weight of 16 B\n" in str(net)


def test_a_weight_of_nan_stays() -> None:
    x, w = sl.placeholder((4,), name="x"), sl.placeholder((4,), name="w")
    net = sl.network(sl.named("s", x * w), {w: np.array([1, np.nan, 2, 3], "f4")}, target="python")
    assert np.isnan(net(np.ones(4, "float32"))).tolist() == [False, True, False, False]


def test_a_weight_of_another_byte_order_is_converted(tmp_path: Path) -> None:
    x, w = sl.placeholder((4,), name="x"), sl.placeholder((4,), name="w")
    net = sl.network(sl.named("s", x * w), {w: np.arange(4, dtype=">f4")})
    folder = net.save(tmp_path / "net")
    with np.load(folder / "weights.npz") as arrays:
        assert arrays["w"].dtype.isnative
    np.savez(folder / "weights.npz", w=np.arange(4, dtype=">f4"))
    for made in (net, sl.load(folder)):
        again = sl.load(made.save(tmp_path / f"of_{id(made)}"), target="python")
        np.testing.assert_array_equal(again(np.ones(4, "float32")), [0, 1, 2, 3])


def gathered(**options: Any) -> tuple[Network, sl.Tensor]:
    """Return a network that reads its input at a weight, whose range is declared."""
    x = sl.placeholder((8,), name="x")
    idx = sl.assume(sl.placeholder((4,), "int32", name="idx"), within=(0, 7))
    y = sl.compute((4,), lambda i: x[idx[i]], name="y")
    given = np.array([0, 7, 2, 2], "int32")
    return sl.network(y, {idx: given}, **{"target": "python", **options}), y


def test_facts_are_checked_for_weights() -> None:
    net, y = gathered()
    eight = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(net(eight), [0, 7, 2, 2])
    (idx,) = net.prepared.params
    said = r"the weight idx: int32\[4\] of layer embed: idx\[2\] is 9, but sl\.assume"
    with pytest.raises(NetworkError, match=said):
        sl.network(Model((y,), net.inputs, {idx: np.array([0, 1, 9, 40], "i4")}, {"y": "embed"}))


def test_facts_of_a_sparse_weight_are_checked() -> None:
    a = topi.sparse.placeholder((3, 8), nonzeros=4, name="a")
    x = sl.placeholder((8,), name="x")
    y = topi.sparse.csrmv(a, x)

    def made(columns: list[int], ends: list[int]) -> Network:
        arrays = np.ones(4, "f4"), np.array(columns, "i4"), np.array(ends, "i4")
        return sl.network(y, dict(zip((a.data, a.indices, a.indptr), arrays)), target="python")

    eight = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(made([0, 1, 2, 7], [0, 2, 3, 4])(eight), [1, 2, 7])
    with pytest.raises(NetworkError, match=r"a_indices: int32\[4\]: a_indices\[3\] is 40"):
        made([0, 1, 2, 40], [0, 2, 3, 4])
    with pytest.raises(NetworkError, match="a_indptr.* less than a_indptr"):
        made([0, 1, 2, 7], [0, 3, 2, 4])


def test_facts_that_depend_on_sizes_are_refused_for_weights() -> None:
    n = sl.var("n")
    x = sl.placeholder((n,), name="x")
    idx = sl.assume(sl.placeholder((4,), "int32", name="idx"), within=(0, n - 1))
    y = sl.compute((4,), lambda i: x[idx[i]], name="y")
    with pytest.raises(NetworkError, match=r"depends on sizes of a call(?s:.*)an input of the net"):
        sl.network(y, {idx: np.zeros(4, "int32")})


@pytest.mark.parametrize("known", [False, True])
def test_facts_are_checked_for_weights_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    folder = gathered(target="cpu")[0].save(tmp_path / "net")
    eight = np.arange(8, dtype="float32")
    if known:
        np.testing.assert_array_equal(sl.load(folder, target="python")(eight), [0, 7, 2, 2])
    np.savez(folder / "weights.npz", idx=np.array([0, 1, 9, 40], "int32"))
    with pytest.raises(NetworkError, match=r"weights\.npz: the weight idx: .*idx\[2\] is 9"):
        sl.load(folder, target="python")


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_file_checks_facts_of_weights(target: str) -> None:
    source = gathered(target=target)[0].source
    names: dict[str, Any] = {"np": np}
    parts = [source[source.index("PARAMS = {") :].split("\n\n\n")[0]]
    for name in ("_array", "_holds", "_bytes", "pack"):
        parts.append(source[source.index(f"def {name}(") :].split("\n\n\n")[0])
    exec("\n\n\n".join(parts), names)
    packed = names["pack"]({"idx": np.array([0, 7, 2, 2], "int32")})
    assert packed[:16].view("int32").tolist() == [0, 7, 2, 2]
    with pytest.raises(ValueError, match=r"each element of idx must lie in 0\.\.7"):
        names["pack"]({"idx": np.array([0, 1, 9, 40], "int32")})


def test_weights_of_one_name_are_told_apart() -> None:
    x = sl.placeholder((4,), name="x")
    a, b = sl.placeholder((4,), name="w"), sl.placeholder((4,), name="w")
    values = {a: np.full(4, 2, "f4"), b: np.full(4, 5, "f4")}
    net = sl.network(sl.named("s", x * a + b), values, target="python")
    np.testing.assert_array_equal(net(np.ones(4, "float32")), np.full(4, 7))
    with pytest.raises(NetworkError, match="2 placeholders have that name"):
        sl.network(x * a + b, {"w": np.ones(4, "f4")})


def test_where_schedules_come_from() -> None:
    x = sl.placeholder((8,), name="x")
    (found,) = sl.network(sl.named("y", x + 1), target="python").kernels
    for origin, note, phrase in (
        ("model", "", "by the cost model"),
        ("model", "planned for n = 9", "by the cost model (planned for n = 9)"),
        ("plain", "no tactic applies",
         "plain, each stage in loops of its own (no tactic applies)"),
        ("database", "tuned on A, 2 cores", "tuned on A, 2 cores"),
        ("near size", "tuned for n = 8, not for n = 9", "tuned for n = 8, not for n = 9"),
        ("given", "", "given to net.reschedule"),
    ):  # fmt: skip
        assert replace(found, origin=origin, note=note).provenance == phrase


def test_a_schedule_of_the_user_for_one_kernel(tmp_path: Path) -> None:
    x, w = sl.placeholder((8, 16), name="x"), sl.placeholder((32, 16), name="w")
    y = topi.nn.softmax(topi.nn.relu(sl.named("fc", topi.nn.dense(x, w))))
    values = {w: np.random.default_rng(0).random((32, 16), "float32")}
    given = np.random.default_rng(1).random((8, 16), "float32")
    net = sl.network(y, values)
    wanted = net(given)
    assert "prange" not in net.source
    s = net.kernels[0].schedule
    relu = s.outputs[0]
    s[relu].parallel(s[relu].leaf_iter_vars[0])
    # a changed copy changes nothing, until it is set
    assert len(net.kernels[0].schedule.steps) == len(s.steps) - 1
    net.reschedule("fc", s)
    assert "prange" in net.source
    assert [kernel.origin for kernel in net.kernels] == ["given", "model"]
    comments = [line for line in net.source.splitlines() if line.startswith("# schedule: ")]
    assert comments == ["# schedule: given to net.reschedule", "# schedule: by the cost model"]
    np.testing.assert_array_equal(net(given), wanted)
    saved = net.save(tmp_path / "net")
    assert "prange" in (saved / "network.py").read_text()
    again = sl.load(saved)
    assert again.source == net.source
    np.testing.assert_array_equal(again(given), wanted)
    phrases = ["given to net.reschedule", "by the cost model"]
    for other in (net, again, pickle.loads(pickle.dumps(again))):
        assert [kernel.provenance for kernel in other.kernels] == phrases
        assert [kernel.origin for kernel in other.kernels] == ["given", "model"]
    # another network of the same graph has its own schedules
    assert "prange" not in sl.network(y, values).source
    with pytest.raises(NetworkError, match="there is no part 'fcc'; did you mean 'fc'"):
        net.reschedule("fcc", s)
    with pytest.raises(NetworkError, match="there is no part 'conv9'; the parts are 'fc', "):
        net.reschedule("conv9", s)
    with pytest.raises(NetworkError, match="of another computation than the kernel"):
        net.reschedule("fc", net.kernels[1].schedule)


def test_a_schedule_that_cannot_run_leaves_the_network_as_it_was() -> None:
    x = sl.placeholder((8, 8), name="x")
    net = sl.network(sl.named("double", x * 2), target="cuda-emulator", name="emulated")
    before, a = net.source, np.ones((8, 8), "float32")
    with pytest.raises(BuildError, match=r"none of its data axes \(i, j\) is bound"):
        net.reschedule("double", sl.schedule(net.partition["double"].group.outputs))
    assert net.source == before and net.kernels[0].origin != "given"
    np.testing.assert_array_equal(net(a), 2 * a)
    with pytest.raises(NetworkError, match="an object of type str: it is not a schedule"):
        net.reschedule("double", "steps")  # type: ignore[arg-type]


def test_a_network_that_cannot_be_saved_is_refused_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, *_ = mlp(target="cpu")
    monkeypatch.setattr(network, "with_whole", lambda *_: pytest.fail("it is built"))
    (tmp_path / "file").touch()
    with pytest.raises(NetworkError, match="it exists already"):
        net.save(tmp_path)
    with pytest.raises(NetworkError, match='is for target="python"'):
        mlp()[0].save(tmp_path / "new")


@pytest.mark.slow
def test_tuning_at_given_sizes(tmp_path: Path) -> None:
    x, w = sl.placeholder((sl.var("n"), 8), name="x"), sl.placeholder((8, 8), name="w")
    y = topi.nn.relu(sl.named("fc", topi.nn.dense(x, w)))
    weights = {w: np.eye(8, dtype="float32")}
    net = sl.network(y, weights, target="python", database=tmp_path / "db")
    with pytest.raises(TuningError, match="give the values to tune for.*n"):
        net.tune(trials=1)
    found = net.tune(trials=1, sizes={"n": 4}, progress=False)
    assert found.searches[0].seconds is not None and found.searches[0].trials >= 1
    given = np.random.default_rng(0).random((3, 8), "float32")
    np.testing.assert_allclose(net(given), given, rtol=1e-6)


def test_an_array_for_a_placeholder_that_no_stage_reads() -> None:
    x, w = sl.placeholder((4, 8), name="x"), sl.placeholder((8, 8), name="w")
    other = sl.placeholder((8, 8), name="w")
    y = topi.nn.dense(x, w)
    with pytest.raises(NetworkError, match="no stage reads this placeholder"):
        sl.network(y, {other: np.eye(8, dtype="float32")})
