"""Networks with symbolic sizes: which ones they take, and what each call checks of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.compute.data import to_data
from schedlang.compute.graph import placeholders
from schedlang.errors import CallError, NetworkError
from schedlang.networks.model import Model


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
