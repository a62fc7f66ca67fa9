"""``python -m schedlang compile``: an ONNX file becomes a folder that runs alone."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.__main__ import main
from schedlang.networks.module import NetworkModule


def model_file(folder: Path) -> tuple[Path, np.ndarray]:
    """Write an ONNX model of one layer, and return its path and its weights."""
    onnx = pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    w = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], "fc"),
         helper.make_node("Relu", ["h"], ["y"], "act")],
        "layer", [value("x", onnx.TensorProto.FLOAT, ["batch", 8])],
        [value("y", onnx.TensorProto.FLOAT, ["batch", 4])], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "my-model.onnx"
    onnx.save(made, path)
    return path, w


@pytest.mark.slow
def test_a_model_becomes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, w = model_file(tmp_path)
    out = tmp_path / "made"
    given = ["compile", str(path), "--out", str(out), "--shape", "batch=3", "--tune", "6s",
             "--database", str(tmp_path / "trials.jsonl")]  # fmt: skip
    assert main(given) == 0
    shown = capsys.readouterr().out
    assert "1 part of 2 stages" in shown
    assert "1 search in" in shown and "memory: " in shown and str(out) in shown
    x = np.random.default_rng(1).standard_normal((3, 8)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    program = (
        "import sys; sys.modules['schedlang'] = None\n"
        "import numpy as np, network\n"
        "params = network.pack(np.load('weights.npz'))\n"
        "np.save('../y.npy', network.my_model(np.load('../x.npy'), params=params))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=out, check=True, timeout=120)
    want = np.maximum(x @ w, 0)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-5, atol=1e-6)


def test_a_model_becomes_a_folder_for_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, w = model_file(tmp_path)
    out = tmp_path / "made"
    given = ["compile", str(path), "--out", str(out), "--shape", "batch=3", "--target"]
    assert main([*given, "cuda -arch=sm_80"]) == 0
    shown = capsys.readouterr().out
    installed = find_spec("numba_cuda") is not None
    assert ("kernels for sm_80: at most" if installed else "not compiled: ") in shown
    assert "def memory_of(" in (out / "network.py").read_text()
    net = sl.load(out)
    assert net.target == sl.Target("cuda", arch="sm_80")
    x = np.random.default_rng(1).standard_normal((3, 8)).astype("float32")
    np.testing.assert_allclose(net.module.simulate(x), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)


def test_a_dimension_may_be_a_size_of_each_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = model_file(tmp_path)
    # the file is tested in tests/test_network.py
    monkeypatch.setattr(NetworkModule, "compile", lambda module: module)
    out = tmp_path / "made"
    assert main(["compile", str(path), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "leaves open dimension 0 'batch'" in said and "--shape NAME=N" in said
    assert not out.exists()
    assert main(["compile", str(path), "--out", str(out), "--shape", "batch=n"]) == 0
    assert "x: float32[n, 8]" in capsys.readouterr().out
    assert "n = x.shape[0]" in (out / "network.py").read_text()
    whole = tmp_path / "whole"
    assert main(["compile", str(path), "--out", str(whole), "--shape", "x=3,8"]) == 0
    assert "x: float32[3, 8]" in capsys.readouterr().out


def open_model(folder: Path, shapes: dict[str, list[str | None]]) -> Path:
    """Write an ONNX model of a sum of inputs, whose dimensions are open, and return its path."""
    onnx = pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Sum", list(shapes), ["y"], "add")], "sum",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("y", kind, None)],
    )  # fmt: skip
    path = folder / "lambda.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)
    return path


@pytest.mark.parametrize("shapes, given, shown", [
    ({"x": ["a"], "z": ["b"]}, ["a=n", "b=n"], ["x: float32[n]", "z: float32[n]"]),
    ({"x": ["a"], "z": [None]}, ["a=n", "z=n,"], ["x: float32[n]", "z: float32[n]"]),
    ({"x": [None]}, ["x=3,"], ["x: float32[3]"]),
])  # fmt: skip
def test_shapes_of_one_dimension_and_equal_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    shapes: dict[str, list[str | None]], given: list[str], shown: list[str],
) -> None:  # fmt: skip
    path, out = open_model(tmp_path, shapes), tmp_path / "made"
    monkeypatch.setattr(NetworkModule, "compile", lambda module: module)
    options = [part for text in given for part in ("--shape", text)]
    assert main(["compile", str(path), "--out", str(out), *options]) == 0
    said = capsys.readouterr().out
    assert all(text in said for text in shown), said
    # the name of the file is a keyword
    assert "def lambda_(" in (out / "network.py").read_text()


def test_an_open_shape_of_one_dimension(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = open_model(tmp_path, {"x": [None]})
    assert main(["compile", str(path), "--out", str(tmp_path / "o"), "--shape", "x=3"]) == 2
    assert "--shape X=64, if X has one dimension" in capsys.readouterr().err


@pytest.mark.parametrize("given, message", [
    (["--target", "c"], "a folder is for a CPU or a GPU"),
    (["--target", "tpu"], "tpu"),
    (["--tune", "soon"], "this is not a time"),
    (["--shape", "batch"], "this is neither a dimension nor the shape"),
    (["--shape", "batch=-1"], "this is neither a dimension nor the shape"),
    (["--shape", "x=,"], "this is neither a dimension nor the shape"),
    (["--shape", "x=1,,"], "this is neither a dimension nor the shape"),
    (["--shape", "batch=2", "--shape", "batch=5"], "--shape batch=5: batch is given twice"),
    (["--shape", "batch=if"], "'if' cannot name a variable"),
    (["--name", "a-b"], "'a-b' cannot name a network (--name)"),
    (["--name", "class"], "'class' cannot name a network (--name)"),
])  # fmt: skip
def test_options_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], message: str
) -> None:
    assert main(["compile", "m.onnx", "--out", str(tmp_path / "o"), *given]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_with_files_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("x")
    assert main(["compile", "m.onnx", "--out", str(tmp_path)]) == 2
    assert "it exists already" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
