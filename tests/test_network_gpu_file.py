"""The public function of a network's file for a GPU, with kernels in the simulator.

Arrays on the GPU are those of NumPy that claim to be there.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.runtime.simulator import simulate_file
from tests.test_network_gpu import block, of_rows, rows, symbolic
from tests.test_network_module import of_residual, random


class There(np.ndarray):
    """An array that claims to be on the GPU, as numba has them."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {}

    @property
    def device_ctypes_pointer(self) -> Any:
        return SimpleNamespace(value=self.ctypes.data)

    def is_c_contiguous(self) -> bool:
        return self.flags.c_contiguous

    def copy_to_host(self, target: np.ndarray, stream: Any = 0) -> None:
        target[:] = self


class File:
    """The ``names`` of a file, what its calls ``waited`` for, and the bytes of their ``arenas``."""

    def __init__(self, path: str | Path) -> None:
        self.names = simulate_file(Path(path))
        self.waited: list[object] = []
        self.arenas: list[int] = []
        device = self.names["cuda"]
        device.to_device = lambda array, stream=0: array.copy().view(There)
        device.device_array = self._device_array
        device.as_cuda_array = lambda value: value
        device.synchronize = lambda: self.waited.append("all")
        device.default_stream = lambda: SimpleNamespace(synchronize=lambda: self.waited.append(0))

    def _device_array(self, shape: Any, dtype: Any, stream: Any = 0) -> np.ndarray:
        made = np.empty(shape, dtype).view(There)
        if dtype == np.uint8:
            self.arenas.append(made.nbytes)
        # storage that is read before it is written shows
        made.view(np.uint8).fill(255)
        return made


def test_it_takes_arrays_of_numpy_and_of_the_gpu() -> None:
    module, arrays = block()
    file = File(module.path)
    run, waited = file.names["block"], file.waited
    memory = file.names["memory_of"](arrays)
    assert waited.pop() == "all"
    x = random(4, 6, 8)
    wanted = of_residual(x, arrays)
    np.testing.assert_allclose(run(x, memory=memory), wanted, rtol=1e-4, atol=1e-6)
    assert waited == [0]
    out = np.zeros((4, 6, 8), "float32")
    assert run(x, out, memory=memory) is out
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-6)
    found = run(x.view(There), memory=memory)
    assert isinstance(found, There) and waited == [0, 0]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="out and x overlap"):
        run(x.view(There), x.view(There), memory=memory)
    with pytest.raises(TypeError, match=r"x must be a float32 array of shape \(4, 6, 8\)"):
        run(x[:2].view(There), memory=memory)
    with pytest.raises(ValueError, match="x is strided"):
        run(random(8, 6, 8)[::2].view(There), memory=memory)


def test_it_takes_any_batch() -> None:
    """The arena is made by the first call, and again by a call that needs a larger one."""
    module = rows(sl.var("n"))
    file = File(module.path)
    memory = file.names["memory_of"]({"w": np.arange(40, dtype="float32")})
    arenas, known = [len(file.arenas)], []
    for size in (3, 5, 3, 1, 5, 0):
        x = random(size, 40)
        np.testing.assert_allclose(file.names["rows"](x, memory=memory), of_rows(x), rtol=1e-5)
        arenas.append(len(file.arenas))
        known.append(len(memory.views))
    assert arenas == [0, 1, 2, 2, 2, 2, 2]
    assert known == [1, 1, 2, 3, 3, 4]
    found = file.names["rows"](random(2, 40).view(There), memory=memory)
    assert isinstance(found, There) and found.shape == (2, 40)
    with pytest.raises(TypeError, match=r"x must be a float32 array of shape \(2, 40\)"):
        file.names["rows"](random(2, 41).view(There), memory=memory)


@pytest.mark.slow
def test_a_network_of_any_batch(tmp_path: Path) -> None:
    net, w = symbolic()
    text = (net.save(tmp_path / "net") / "network.py").read_text()
    assert f"def {net.name}(x, shares=None, *, out=None, memory, stream=0):" in text
    file = File(net.module.path)
    memory = file.names["memory_of"](dict.fromkeys(file.names["PARAMS"], w))
    for size in (1, 4, 7):
        x = random(size, 6)
        found = file.names[net.name](x, memory=memory)
        np.testing.assert_allclose(found, softmax_of_relu(x @ w.T), rtol=1e-5, atol=1e-6)


def softmax_of_relu(x: np.ndarray) -> np.ndarray:
    e = np.exp(np.maximum(x, 0))
    found: np.ndarray = e / e.sum(-1, keepdims=True)
    return found


def test_a_size_may_be_solved_for() -> None:
    """One of the sizes comes from the extent ``n*n + 1`` of an input."""
    n, k = sl.var("n"), sl.var("k")
    x = sl.placeholder((n * n + 1,), name="x")
    twice = sl.compute((n * n + 1,), lambda i: x[i] * 2, name="twice")
    y = sl.placeholder((k, 2), name="y")
    out = sl.compute((k, 2), lambda i, j: y[i, j] + twice[0], name="out")
    net = sl.network([topi.nn.relu(twice), out], target="cuda", name="two")
    file = File(net.module.path)
    memory = file.names["memory_of"]()
    for sizes in ((2, 3), (1, 1), (3, 4)):
        a, b = random(sizes[0] ** 2 + 1), random(sizes[1], 2)
        one, other = file.names["two"](a, b, memory=memory)
        np.testing.assert_allclose(one, np.maximum(2 * a, 0), rtol=1e-6)
        np.testing.assert_allclose(other, b + 2 * a[0], rtol=1e-6)
    with pytest.raises((TypeError, ValueError)):
        file.names["two"](random(6), random(1, 2), memory=memory)
