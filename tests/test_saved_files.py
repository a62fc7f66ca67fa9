"""Files of saved kernels and networks: the arguments that their functions take."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.errors import CallError, CallTypeError
from tests.marks import slow_but
from tests.test_network_gpu_file import File


def module_of(path: Path) -> Any:
    """Return a saved file as a module."""
    name = f"{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    # numba's cache looks for the module of a file
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def halves(name: str = "B") -> tuple[sl.Tensor, ...]:
    A = sl.placeholder((sl.var("n"),), name="A")
    low = sl.compute(A.shape, lambda i: A[i] * 2, name=name)
    high = sl.compute(A.shape, lambda i: A[i] + 1, name="C")
    return low, high


def saved_kernel(outputs: Any, folder: Path) -> tuple[Any, Any]:
    """Return a kernel, and the function of the file that it is saved in."""
    f = sl.build(sl.schedule(list(outputs)), name="run")
    return f, module_of(f.save(folder / "k.py")).run


X = np.arange(3, dtype="float32")


def test_a_kernel_and_its_file_write_the_array_of_out(tmp_path: Path) -> None:
    for run in saved_kernel(halves()[:1], tmp_path):
        y = np.empty(3, "float32")
        assert run(X, out=y) is y and y.tolist() == [0, 2, 4]
        assert run(A=X, out=y) is y
        assert run(X, out=None).tolist() == [0, 2, 4]
        z = np.empty(3, "float32")
        assert run(X, z) is z and run(X, B=z) is z
        with pytest.raises(TypeError, match="B.* given twice"):
            run(X, z, out=y)
        with pytest.raises(TypeError, match="B is given twice, by out= and by name"):
            run(X, B=z, out=y)
        for wrong in (np.empty(3), [1, 2, 3], (y,)):
            with pytest.raises((TypeError, CallError)):
                run(X, out=wrong)
        with pytest.raises((TypeError, ValueError), match="shape|n is 3 in .* and 4 in"):
            run(X, out=np.empty(4, "float32"))
        with pytest.raises(ValueError, match="strided"):
            run(X, out=np.empty(6, "float32")[::2])
        y.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            run(X, out=y)
        with pytest.raises(ValueError, match="overlap"):
            whole = np.zeros(4, "float32")
            run(whole[1:], out=whole[:3])


def test_a_kernel_and_its_file_write_the_arrays_of_out(tmp_path: Path) -> None:
    f, run_saved = saved_kernel(halves(), tmp_path)
    for run in (f, run_saved):
        b, c = np.empty(3, "float32"), np.empty(3, "float32")
        for given in ((b, c), [b, c]):
            found = run(X, out=given)
            assert found[0] is b and found[1] is c
        assert b.tolist() == [0, 2, 4] and c.tolist() == [1, 2, 3]
        assert run(X, out=(None, c))[1] is c
        assert [y.tolist() for y in run(X, out=None)] == [[0, 2, 4], [1, 2, 3]]
        assert run(X, b, out=None)[0] is b
        for wrong, count in (((b,), 1), (b, 1), ((b, c, c), 3)):
            message = f"out= has {count} of .* outputs; give an array for each: B, C"
            with pytest.raises(TypeError, match=message):
                run(X, out=wrong)
    with pytest.raises(CallTypeError, match="kernel run: B is given twice, by out= and by name"):
        f(X, B=b, out=(b, c))


def test_an_argument_that_is_called_out_is_that(tmp_path: Path) -> None:
    for run in saved_kernel(halves("out"), tmp_path):
        y = np.empty(3, "float32")
        found = run(X, out=y)
        assert found[0] is y and found[1].tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["_array", "_apart", "_given", "_holds", "_root"])
def test_a_kernel_with_the_name_of_a_helper(name: str, tmp_path: Path) -> None:
    f = sl.build(sl.schedule(halves()[0]), name=name)
    run, y = getattr(module_of(f.save(tmp_path / "k.py")), f"{name}_"), np.empty(3, "float32")
    assert run(X, out=y) is y and y.tolist() == [0, 2, 4]


def test_a_size_that_is_called_out_leaves_the_option(tmp_path: Path) -> None:
    A = sl.placeholder((sl.var("out"),), name="A")
    double = sl.compute(A.shape, lambda i: A[i] * 2, name="double")
    for run in saved_kernel([double], tmp_path):
        y = np.empty(3, "float32")
        assert run(X, out=y) is y and y.tolist() == [0, 2, 4]
        assert run(X).tolist() == [0, 2, 4]


@pytest.mark.parametrize("target", ["python", "c", "cuda-emulator"])
def test_out_of_kernels_for_other_targets(target: str) -> None:
    s = sl.schedule(halves()[0])
    if target == "cuda-emulator":
        s["B"].bind(s["B"].op.axis[0], "blockIdx.x")
    y = np.empty(3, "float32")
    assert sl.build(s, target=target)(X, out=y) is y and y.tolist() == [0, 2, 4]


def network(target: str, outputs: int) -> Any:
    x, w = sl.placeholder((sl.var("n"), 4), name="x"), sl.placeholder((3, 4), name="w")
    y = sl.named("y", topi.nn.dense(x, w))
    z = sl.named("z", topi.sum(x, 0))
    values = np.arange(12, dtype="float32").reshape(3, 4)
    return sl.network([y, z][:outputs] if outputs > 1 else y, {w: values}, target, name="net")


@pytest.mark.parametrize("target", slow_but(["cuda"], ["cpu", "cuda"]))
@pytest.mark.parametrize("outputs", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_file_of_a_network_writes_out(target: str, outputs: int, tmp_path: Path) -> None:
    net = network(target, outputs)
    path = net.save(tmp_path / "net") / "network.py"
    w = np.arange(12, dtype="float32").reshape(3, 4)
    if target == "cpu":
        module = module_of(path)
        run, given = module.net, {"params": module.pack(np.load(path.parent / "weights.npz"))}
    else:
        file = File(net.module.path)
        run = file.names["net"]
        given = {"memory": file.names["memory_of"](dict(np.load(path.parent / "weights.npz")))}
    x = np.random.default_rng(0).standard_normal((5, 4)).astype("float32")
    y, z = np.empty((5, 3), "float32"), np.empty(4, "float32")
    out = (y, z) if outputs > 1 else y
    found = run(x, out=out, **given)
    assert (found[0] if outputs > 1 else found) is y
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-4, atol=1e-5)
    if outputs > 1:
        assert found[1] is z
        np.testing.assert_allclose(z, x.sum(0), rtol=1e-4, atol=1e-5)
        with pytest.raises(TypeError, match="out= has 1 of the outputs; .*: y, z"):
            run(x, out=y, **given)
    with pytest.raises(TypeError, match="y is given twice, by out= and by name"):
        run(x, y=y, out=out, **given)
    with pytest.raises(TypeError, match="shape"):
        run(x, out=(y[:4], z) if outputs > 1 else y[:4], **given)
