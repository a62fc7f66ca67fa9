"""The way of a call to a GPU, with a driver whose device memory is the host's: what is passed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, CallTypeError
from schedlang.runtime import gpu
from schedlang.runtime.simulator import launcher
from tests.gpu_schedules import numbers, scaled


class OnGpu:
    """An array that says it lies in a GPU's memory."""

    def __init__(self, data: np.ndarray, stream: int | None = None) -> None:
        self.data = data
        self.stream = stream

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        known = dict(self.data.__array_interface__)
        return {"shape": known["shape"], "typestr": known["typestr"], "data": known["data"],
                "strides": known["strides"], "version": 3, "stream": self.stream}  # fmt: skip


class ByDlpack:
    """An array that says by DLPack alone on which GPU it lies."""

    def __init__(self, data: np.ndarray, device: int = 0) -> None:
        self.data = data
        self.device = device
        self.asked: list[int] = []

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, stream: int, **options: Any) -> Any:
        self.asked.append(stream)
        return self.data.__dlpack__(**options)


class Driver:
    """What kernels ask of numba.cuda; it notes the streams."""

    def __init__(self, capability: tuple[int, int] = (9, 0)) -> None:
        self.streams: list[int] = []
        self.copied = 0
        self.device = 0
        self.visited: list[int] = []
        self.capability = capability

    def is_available(self) -> bool:
        return True

    def get_current_device(self) -> Any:
        return SimpleNamespace(compute_capability=self.capability, id=self.device)

    @property
    def gpus(self) -> list[Any]:
        """Each makes itself the current one."""

        @contextmanager
        def current(number: int) -> Iterator[None]:
            before, self.device = self.device, number
            self.visited.append(number)
            yield
            self.device = before

        return [current(number) for number in range(2)]

    def external_stream(self, number: int) -> int:
        self.streams.append(number)
        return number

    def as_cuda_array(self, value: Any) -> np.ndarray:
        known = {**value.__cuda_array_interface__, "version": 3}
        return np.asarray(type("Holder", (), {"__array_interface__": known})())

    def to_device(self, array: np.ndarray, stream: int = 0) -> np.ndarray:
        self.copied += 1
        return array.copy().view(Copied)

    def device_array(self, shape: Any, dtype: Any) -> OnGpu:
        return OnGpu(np.zeros(shape, dtype))

    def synchronize(self) -> None:
        return


class Copied(np.ndarray):
    def copy_to_host(self, target: np.ndarray, stream: int = 0) -> None:
        target[:] = self


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(gpu.nvidia, "driver", lambda: found)
    monkeypatch.setattr(gpu.files, "load", lambda path: SimpleNamespace(launch=launcher(path)))
    return found


def kernel(n: Any = 100) -> Any:
    case = scaled(n, 32)
    return sl.build(case.schedule, case.args, target="cuda")


def test_numpy_arrays_are_copied_there_and_back(driver: Driver) -> None:
    f, a = kernel(), numbers(100)
    np.testing.assert_array_equal(f(a), a * 2)
    out = np.zeros(100, "float32")
    assert f(a, out) is out
    np.testing.assert_array_equal(out, a * 2)
    assert driver.copied == 4


def test_arrays_of_a_gpu_are_passed_by_address(driver: Driver) -> None:
    f, a = kernel(), numbers(100)
    found = f(OnGpu(a))
    assert isinstance(found, OnGpu)
    np.testing.assert_array_equal(found.data, a * 2)
    out = OnGpu(np.zeros(100, "float32"))
    assert f(OnGpu(a), out) is out
    np.testing.assert_array_equal(out.data, a * 2)
    assert driver.copied == 0


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_dlpack_will_do(driver: Driver) -> None:
    f, a = kernel(), numbers(100)
    given = ByDlpack(a)
    found = f(given)
    # the producer is told of the stream that reads, here the default one
    assert isinstance(found, OnGpu) and set(given.asked) == {1}
    np.testing.assert_array_equal(found.data, a * 2)
    out = ByDlpack(np.zeros(100, "float32"))
    assert f(given, out) is out
    np.testing.assert_array_equal(out.data, a * 2)
    with pytest.raises(CallError, match="A is strided|is strided"):
        f(ByDlpack(numbers(200)[::2]))
    frozen = np.zeros(100, "float32")
    frozen.flags.writeable = False
    with pytest.raises(CallError, match="read-only"):
        f(given, ByDlpack(frozen))


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_it_runs_on_the_gpu_that_has_the_arrays(driver: Driver) -> None:
    f, a = kernel(), numbers(100)
    for _ in range(2):
        f(ByDlpack(a, device=1))
    f(ByDlpack(a, device=0))
    assert driver.visited == [1, 1] and driver.device == 0 and f._ready == {0, 1}
    with pytest.raises(CallError, match="lie on the GPUs 0 and 1: a kernel runs on one"):
        f(ByDlpack(a), ByDlpack(numbers(100), device=1))


def test_sizes_come_from_shapes(driver: Driver) -> None:
    f = kernel(sl.var("n"))
    for n in (1, 33, 100):
        a = numbers(n)
        np.testing.assert_array_equal(f(OnGpu(a)).data, a * 2)


def test_the_stream_that_an_array_names_is_the_launch_s(driver: Driver) -> None:
    kernel()(OnGpu(numbers(100), stream=7))
    assert driver.streams == [7]


def test_what_does_not_fit_is_refused(driver: Driver) -> None:
    f, a = kernel(), numbers(101)
    with pytest.raises(CallError, match="dimension 0 must be 100"):
        f(OnGpu(a))
    with pytest.raises(CallTypeError, match="got dtype float64"):
        f(OnGpu(a[:100].astype("float64")))
    with pytest.raises(CallError, match="A is strided|is strided"):
        f(OnGpu(numbers(200)[::2]))
    data = numbers(116)
    with pytest.raises(CallError, match="overlaps A"):
        f(OnGpu(data[:100]), OnGpu(data[16:]))


def test_only_what_is_accessed_several_elements_at_once_must_be_aligned(driver: Driver) -> None:
    data = numbers(200)
    np.testing.assert_array_equal(kernel()(OnGpu(data[1:101])).data, data[1:101] * 2)
    A, B = sl.placeholder((128,), name="A"), sl.placeholder((128,), name="B")
    C = sl.compute((128,), lambda i: A[i] + B[127 - i], name="C")
    s = sl.schedule(C)
    thread, lanes = s[C].split(C.op.axis[0], 4)
    s[C].bind(thread, "threadIdx.x")
    s[C].vectorize(lanes)
    f = sl.build(s, target="cuda")
    found = f(OnGpu(data[4:132]), OnGpu(data[1:129]))
    np.testing.assert_array_equal(found.data, data[4:132] + data[128:0:-1])
    with pytest.raises(CallError, match="A starts at an address that is no multiple of 16 bytes"):
        f(OnGpu(data[1:129]), OnGpu(data[:128]))


def test_an_older_gpu_is_named(driver: Driver) -> None:
    driver.capability = (8, 0)
    with pytest.raises(CallError, match="built for sm_90, and this GPU is sm_80.*arch=.sm_80."):
        kernel()(numbers(100))


def test_shared_memory_beyond_the_static_limit_is_asked_for(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    A = sl.placeholder((8, 2048), name="A")
    B = sl.compute((8, 2048), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((8, 2048), lambda i, j: B[i, 2047 - j] + 1, name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], s[C].op.axis[0])
    _, thread = s[C].split(C.op.axis[1], 64)
    s[C].bind(thread, "threadIdx.x")
    block = s[C].fuse()
    s[C].reorder(block, C.op.axis[0])
    s[C].bind(block, "blockIdx.x")
    s[B].compute_at(s[C], block)
    _, x = s[B].split(B.op.axis[1], 64)
    s[B].bind(x, "threadIdx.x")
    asked: list[int] = []
    monkeypatch.setattr(gpu.nvidia, "allow_shared", lambda m, k: asked.append(k.dynamic_bytes))
    a = numbers(8, 2048)
    f = sl.build(s, [A, C], target="cuda")
    np.testing.assert_array_equal(f(a), (a * 2)[:, ::-1] + 1)
    assert asked == [8 * 2048 * 4]
