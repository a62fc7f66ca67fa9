"""Networks with symbolic sizes: which ones they take, and what each call checks of them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.compute.data import to_data
from schedlang.compute.graph import placeholders
from schedlang.errors import BuildError, CallError, NetworkError
from schedlang.networks.data import from_data
from schedlang.networks.data import to_data as module_to_data
from schedlang.networks.model import Model
from schedlang.networks.module import NetworkModule
from schedlang.networks.network import Network
from schedlang.networks.size_checks import SizeCheck, SizeChecks, size_check
from schedlang.runtime.access_checks import sized_storage


def scaled(rows: Any, size: Any) -> sl.Tensor:
    x = sl.placeholder((rows, 4), name="x")
    return sl.named("scaled", x * sl.cast(size, "float32"))


@pytest.mark.parametrize("make, message", [
    (lambda n, m: scaled(3, n), "the size n of stage scaled: no extent of an input or an output"),
    (lambda n, m: scaled(m, n), "the size n of stage scaled"),
    (lambda n, m: topi.nn.relu(scaled(n // 2, m)), r"the size n of input x: float32\[n//2, 4\]"),
    (lambda n, m: topi.nn.relu(scaled(n * m, 2)), r"the size n of input x: float32\[n\*m, 4\]"),
])  # fmt: skip
def test_a_size_that_no_shape_determines_is_refused(
    make: Callable[..., sl.Tensor], message: str
) -> None:
    y = make(sl.var("n"), sl.var("m"))
    for outputs in (y, Model((y,), tuple(placeholders([y])), {})):
        with pytest.raises(NetworkError, match=message) as caught:
            sl.network(outputs, target="python")
        assert "Make n an extent of an input" in str(caught.value)


def test_a_folder_with_a_size_that_no_shape_determines_is_refused(tmp_path: Path) -> None:
    folder = sl.network(scaled(sl.var("n"), 2), name="net").save(tmp_path / "net")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["graph"] = to_data(scaled(3, sl.var("n")))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(NetworkError, match="the size n of stage scaled"):
        sl.load(folder)


def test_a_size_of_an_output_alone_is_that_of_the_array_that_is_given() -> None:
    x = sl.placeholder((4,), name="x")
    y = sl.compute((sl.var("n"),), lambda i: x[sl.min(i, 3)] * 2, name="y")
    net = sl.network(y, target="python")
    out = np.empty(6, "float32")
    assert net(np.arange(4, dtype="float32"), out=out) is out
    assert out.tolist() == [0, 2, 4, 6, 6, 6]
    with pytest.raises(CallError, match="no input determines n: pass the output array too"):
        net(np.ones(4, "float32"))


@pytest.mark.parametrize("target", ["cpu", "python", "cuda-emulator"])
def test_a_part_takes_the_sizes_that_its_tensors_do_not_have(target: str, tmp_path: Path) -> None:
    x, w = sl.placeholder((sl.var("n"), 4), name="x"), sl.placeholder((5, 4), name="w")
    # the sum is a part of its own, and that of the product divides by n
    mean = topi.mean(x, 0, keepdims=True)
    out = sl.named("out", topi.nn.dense(topi.sum(x, 0, keepdims=True), w))
    rows = x.shape[0]
    out = sl.compute((1, 5), lambda i, j: out[i, j] / sl.cast(rows, "float32"), name="share")
    values = np.arange(20, dtype="float32").reshape(5, 4)
    net = sl.network([out, mean], {w: values}, target=target, name="shares")
    nets = [net]
    if target == "cpu":
        nets.append(sl.load(net.save(tmp_path / "net")))
    for size in (1, 3, 7):
        a = np.random.default_rng(size).standard_normal((size, 4)).astype("float32")
        for each in nets:
            found = each(a)
            np.testing.assert_allclose(found[0], a.mean(0)[None] @ values.T, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(found[1], a.mean(0)[None], rtol=1e-4, atol=1e-6)


def shifted(target: str = "python", name: str = "shifts") -> Network:
    """Return a network whose part ``shift`` reads ``x[7]``, which 5 elements do not have."""
    x = sl.placeholder((sl.var("n"),), name="x")
    y = sl.compute(x.shape, lambda i: x[sl.min(i + 2, 7)], name="shift")
    total = sl.named("total", topi.sum(topi.exp(y)))
    layers = {"shift": "block.shift"}
    return sl.network(Model((y, total), (x,), {}, layers, (0, 1)), target=target, name=name)


def view(rows: int, *shape: int) -> np.ndarray:
    """Return the first rows of a larger array, behind which each number is 777."""
    whole = np.full((64, *shape), 777, "float32")
    whole[:rows] = np.random.default_rng(rows).standard_normal((rows, *shape))
    return whole[:rows]


CANNOT = r"^network shifts: part shift of layer block.shift cannot run where n=5: .*x, .* 0\.\.5"


@pytest.mark.parametrize("target", ["cpu", "python", "c", "cuda-emulator"])
def test_reads_are_checked_against_the_sizes_of_a_call(target: str) -> None:
    net = shifted(target)
    for _ in range(2):
        with pytest.raises(CallError, match=CANNOT):
            net(view(5))
    for size in (8, 20):
        a = view(size)
        y, total = net(a)
        np.testing.assert_array_equal(y, a[np.minimum(np.arange(size) + 2, 7)])
        np.testing.assert_allclose(total, np.exp(y).sum(), rtol=1e-5)
    for run in (net.module.bound, net.module.__call__):
        with pytest.raises(CallError, match=CANNOT):
            run(view(5), np.empty(5, "float32"), np.empty((), "float32"))


def test_a_simulation_of_a_gpu_checks_the_sizes() -> None:
    module = shifted("cuda").module
    with pytest.raises(CallError, match=CANNOT):
        module.simulate(view(5))
    a = view(9)
    np.testing.assert_array_equal(module.simulate(a)[0][:7], [*a[2:8], a[7]])


@pytest.mark.parametrize("row, least", [(0, 1), (-1, 1), (2, 3)])
def test_a_row_of_a_symbolic_batch(row: int, least: int) -> None:
    x, w = sl.placeholder((sl.var("n"), 4), name="x"), sl.placeholder((3, 4), name="w")
    y = topi.nn.dense(topi.reshape(topi.tanh(x)[row] if row >= 0 else x[row], (1, 4)), w)
    values = np.arange(12, dtype="float32").reshape(3, 4)
    net = sl.network(sl.named("y", y), {w: values}, target="python")
    for size in range(5):
        a = view(size, 4)
        if size < least:
            with pytest.raises(CallError, match=f"part .* cannot run where n={size}: index 0 of"):
                net(a)
            continue
        want = (np.tanh(a) if row >= 0 else a)[[row]] @ values.T
        np.testing.assert_allclose(net(a), want, rtol=1e-4)


def test_a_part_that_takes_a_size_is_checked_too() -> None:
    x = sl.placeholder((sl.var("n"), 4), name="x")
    total = sl.named("total", topi.sum(x, 0))
    place = sl.max(x.shape[0] - 1, 0)
    y = sl.compute((2,), lambda i: total[place] + sl.cast(i, "float32"), name="y")
    net = sl.network(y, target="python", cut=["total"])
    assert [p.name for p in net.kernels[1].kernel.signature.parameters] == ["total", "n", "y"]
    for size in (1, 4):
        a = view(size, 4)
        np.testing.assert_allclose(net(a), a.sum(0)[size - 1] + np.arange(2), rtol=1e-5)
    with pytest.raises(CallError, match="part y cannot run where n=5: index 0 of total"):
        net(view(5, 4))


def test_a_network_from_the_cache_checks_without_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    shifted()(view(8))
    net = shifted()
    assert net(view(9))[0].shape == (9,)
    with pytest.raises(CallError, match=CANNOT):
        net(view(5))
    assert net._compiled.divided is None and [c.part for c in net.module.data.checks] == ["shift"]
    # the nest is made again only of a kernel whose accesses are checked
    monkeypatch.setattr("schedlang.networks.size_checks._nest", pytest.fail)
    x = sl.placeholder((sl.var("n"), 4), name="x")
    proven = sl.network(topi.nn.softmax(x), target="python")
    np.testing.assert_allclose(proven(view(3, 4)).sum(1), 1, rtol=1e-5)
    assert not any(check.of_accesses for check in proven.module.data.checks)


def test_modules_without_their_network_check_the_sizes(tmp_path: Path) -> None:
    net = shifted()
    data = net.module.data
    text = json.dumps(module_to_data(data))
    again = from_data(json.loads(text), data.text, data.serial_text)
    assert again.checks == data.checks and [c.of_accesses for c in data.checks] == [True]
    copies = (pickle.loads(pickle.dumps(found)) for found in (net.module, net))
    for module in (NetworkModule(again, {}), *copies):
        assert module(view(8))[0].shape == (8,)
        with pytest.raises(CallError, match=CANNOT):
            module(view(5))
    for damage in ({"steps": 3}, {"storage": {"arrays": [["a", "float32", ["n"]]]}}, {"more": 1}):
        broken = json.loads(text)
        broken["checks"][0].update(damage)
        with pytest.raises(BuildError, match="damaged"):
            from_data(broken, data.text)
    for damaged in ({"graph": "{}"}, {"steps": "[]3"}):
        (check,) = data.checks
        module = NetworkModule(replace(data, checks=(replace(check, **damaged),)), {})
        with pytest.raises(BuildError, match="part shift of layer block.shift: its data are dam"):
            module(view(8))


@pytest.mark.slow
def test_attention_over_a_symbolic_length_is_proven_and_saved(tmp_path: Path) -> None:
    # the last tile of the packed keys has (t + 15)//16 - t//16 of its own
    shape = (sl.var("n"), sl.var("t"), 8)
    q, k = sl.placeholder(shape, name="q"), sl.placeholder(shape, name="k")
    scores = topi.nn.softmax(topi.nn.batch_matmul(q, k))
    net = sl.network(sl.named("scores", scores), target="cpu", name="scores")
    assert not any(check.of_accesses for check in net._whole().checks)
    nets = (net, sl.load(net.save(tmp_path / "net")))
    for length in (1, 16, 35):
        a, b = (np.random.default_rng(s).random((2, length, 8)).astype("float32") for s in (0, 1))
        raw = np.exp(a @ b.transpose(0, 2, 1))
        for each in nets:
            np.testing.assert_allclose(each(a, b), raw / raw.sum(-1, keepdims=True), rtol=1e-4)


def test_equal_kernels_are_checked_once_and_for_their_own_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = sl.placeholder((sl.var("n"), 4), name="x"), sl.placeholder((sl.var("m"), 4), name="y")
    tops = [sl.named(f"of_{t.name}_{k}", t[k] + 1) for t in (x, y) for k in (0, 0)]
    net = sl.network([tops[0], sl.named("again", tops[0] * 2), tops[2]], target="python",
                     cut=["of_x_0"])  # fmt: skip
    checked: list[Any] = []
    monkeypatch.setattr(
        "schedlang.runtime.access_checks.check_accesses",
        lambda what, nest, outputs, sizes: checked.append((what.split()[-1], sizes)),
    )
    for n, m in ((1, 2), (1, 3), (1, 2), (2, 3)):
        net(view(n, 4), view(m, 4))
    assert checked == [("of_x_0", {"n": 1}), ("of_y_0", {"m": 2}), ("of_y_0", {"m": 3}),
                       ("of_x_0", {"n": 2})]  # fmt: skip


def test_storage_that_no_address_reaches() -> None:
    n = sl.var("n")
    x = sl.placeholder((n,), "int8", name="x")
    wide = sl.compute((n, n, n), lambda i, j, k: x[i] + x[j] + x[k], name="wide")
    y = sl.compute((n,), lambda i: wide[i, 0, i] + wide[0, i, 0], name="y")
    kernel = sl.build(sl.schedule(y), target="python")
    check = size_check("y", kernel, ["a", "b"])
    assert check is not None and check.storage == sized_storage(kernel.loop_nest)
    net = sl.network(y, target="python", name="net")
    (group,) = net.partition
    net.reschedule("y", sl.schedule(group.group.outputs))
    a = np.ones(2**21, "int8")
    message = "where n=2097152: wide would take 9223372036854775808 bytes, more than an address"
    for run, title in ((kernel, "kernel y"), (net, "network net: part y")):
        with pytest.raises(CallError, match=f"^{title} {message}"):
            run(a)
        np.testing.assert_array_equal(run(a[:3]), [6, 6, 6])
    with pytest.raises(CallError, match="network net: part y of layers a, b where n=4000000: wide"):
        SizeChecks("net", [SizeCheck("y", ("a", "b"), ("n",), check.storage)])({"n": 4000000})


def test_sizes_are_checked_in_whatever_order_a_call_finds_them() -> None:
    n, m = sl.var("n"), sl.var("m")
    A, B = sl.placeholder((n,), name="A"), sl.placeholder((m,), name="B")
    C = sl.compute((n,), lambda i: A[sl.min(i + 2, 7)] + B[0], name="C")
    kernel = sl.build(sl.schedule(C), target="python")
    found = size_check("C", kernel)
    assert found is not None
    for check in (SizeChecks("net", [found]), kernel.check_sizes):
        check({"n": 8, "m": 2})
        with pytest.raises(CallError, match="cannot run where"):
            check({"m": 8, "n": 2})
