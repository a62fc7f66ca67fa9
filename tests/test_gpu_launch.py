"""Tests of calls on a GPU and the passed arguments, with a driver that uses host memory."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.numba_cuda import KernelForm
from schedlang.errors import BuildError, CallError, CallTypeError
from schedlang.instructions import PythonFunction
from schedlang.runtime import gpu, launch
from schedlang.runtime.launch import Memory
from schedlang.runtime.nvidia import Compiled
from schedlang.runtime.simulator import simulate_file
from tests.gpu_schedules import numbers, scaled


class OnGpu:
    """An array that claims to be in a GPU's memory."""

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
    """An array that names its GPU by DLPack alone."""

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
    """A replacement for the parts of ``numba.cuda`` that kernels use; it records the streams."""

    def __init__(self, capability: tuple[int, int] = (9, 0), count: int = 2) -> None:
        self.count = count
        self.streams: list[int] = []
        self.waited: list[int] = []
        self.copied = self.allocated = 0
        self.device = 0
        self.visited: list[int] = []
        self.capability = capability

    def is_available(self) -> bool:
        return True

    def get_current_device(self) -> Any:
        return SimpleNamespace(compute_capability=self.capability, id=self.device)

    @property
    def gpus(self) -> list[Any]:
        """The devices, each as a context manager that makes it the current one."""

        @contextmanager
        def current(number: int) -> Iterator[None]:
            before, self.device = self.device, number
            self.visited.append(number)
            yield
            self.device = before

        devices: list[Any] = [current(number) for number in range(self.count)]
        for device in devices:
            device.name = "a GPU that is not there"
        return devices

    def external_stream(self, number: int) -> Any:
        self.streams.append(number)
        return SimpleNamespace(synchronize=lambda: self.waited.append(number))

    def default_stream(self) -> Any:
        return SimpleNamespace(synchronize=lambda: self.waited.append(0))

    def to_device(self, array: np.ndarray, stream: Any = None) -> np.ndarray:
        self.copied += 1
        return array.copy().view(Copied)

    def device_array(self, shape: Any, dtype: Any) -> OnGpu:
        self.allocated += 1
        return OnGpu(np.zeros(shape, dtype))


class Copied(np.ndarray):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return OnGpu(self.view(np.ndarray)).__cuda_array_interface__

    def copy_to_host(self, target: np.ndarray, stream: Any = None) -> None:
        target[:] = self


class Core:
    """A replacement for ``cuda.core`` that runs kernels in the simulator."""

    def __init__(self) -> None:
        self.codes: list[tuple[Any, KernelForm]] = []
        self.archs: list[str] = []
        self.streams: list[int] = []
        self.bytes_of_a_size = 8
        self.Stream = SimpleNamespace(from_handle=lambda number: number)
        self.ObjectCode = SimpleNamespace(from_cubin=self.loaded)

    def LaunchConfig(self, grid: Any, block: Any, shmem_size: int) -> Any:  # noqa: N802
        # the real one takes no NumPy integers
        assert all(type(n) is int for n in (*grid, *block, shmem_size))
        return SimpleNamespace(grid=grid, block=block, shmem_size=shmem_size)

    def compiled(self, module: Any, kernel: KernelForm, device: Any, *_: bool) -> Compiled:
        self.codes.append((module.launch.__globals__[kernel.name], kernel))
        self.archs.append(device.arch)
        return Compiled("", bytes([len(self.codes) - 1]), None)  # type: ignore[arg-type]

    def loaded(self, cubin: bytes) -> Any:
        run, source = self.codes[cubin[0]]
        sizes: list[int] = []
        for p in source.parameters:
            if p.is_array:
                sizes += [8] * 7
            elif p.dtype == "int64":
                sizes.append(self.bytes_of_a_size)
            else:
                sizes.append(np.dtype(p.dtype).itemsize)
        kernel = SimpleNamespace(arguments_info=[(0, n) for n in sizes], run=run, source=source)
        return SimpleNamespace(get_kernel=lambda name: kernel)

    def launch(self, stream: int, config: Any, kernel: Any, *args: Any) -> None:
        self.streams.append(stream)
        given, waiting = [], list(args)
        for p in kernel.source.parameters:
            if not p.is_array:
                given.append(waiting.pop(0).value)
                continue
            (zero, null, count, itemsize, address, length, stride), waiting = (
                waiting[:7],
                waiting[7:],
            )
            dtype = np.dtype(p.dtype)
            assert (zero, null, length, stride) == (0, 0, count, itemsize)
            assert itemsize == dtype.itemsize
            given.append(
                np.frombuffer((ctypes.c_char * (count * itemsize)).from_address(address), dtype)
            )
        assert not waiting
        kernel.run[config.grid, config.block, stream, config.shmem_size](*given)


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Core:
    found = Core()
    monkeypatch.setattr(launch, "core", lambda: found)
    monkeypatch.setattr(gpu.nvidia, "compile_kernel", found.compiled)
    return found


@pytest.fixture(params=[2, 1], ids=["two GPUs", "one GPU"])
def driver(request: pytest.FixtureRequest, core: Core, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Install a driver with one or two GPUs.

    With one GPU, a second call with arrays on it takes the fast path.
    """
    found = Driver(count=request.param)
    monkeypatch.setattr(gpu.nvidia, "driver", lambda: found)
    monkeypatch.setattr(gpu.nvidia, "gpu_of", lambda address: None)
    monkeypatch.setattr(gpu.files, "load", lambda path: SimpleNamespace(**simulate_file(path)))
    return found


@pytest.fixture
def two_gpus(driver: Driver) -> Driver:
    driver.count = 2
    return driver


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
def test_arrays_with_dlpack_alone_are_accepted(driver: Driver) -> None:
    f, a = kernel(), numbers(100)
    given = ByDlpack(a)
    found = f(given)
    # the producer gets the stream that reads, here the default one
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
def test_a_kernel_runs_on_the_gpu_that_has_its_arrays(two_gpus: Driver) -> None:
    driver = two_gpus
    f, a = kernel(), numbers(100)
    for _ in range(2):
        f(ByDlpack(a, device=1))
    f(ByDlpack(a, device=0))
    assert driver.visited == [1, 1] and driver.device == 0 and set(f._ready) == {0, 1}
    with pytest.raises(CallError, match="are on the GPUs 0 and 1, but a kernel runs on one"):
        f(ByDlpack(a), ByDlpack(numbers(100), device=1))


def test_sizes_come_from_shapes(driver: Driver) -> None:
    f = kernel(sl.var("n"))
    for n in (1, 33, 100):
        a = numbers(n)
        np.testing.assert_array_equal(f(OnGpu(a)).data, a * 2)


def test_a_kernel_launches_on_the_stream_of_its_array(driver: Driver, core: Core) -> None:
    f = kernel()
    f(OnGpu(numbers(100), stream=7))
    f(OnGpu(numbers(100)))
    assert driver.streams == [7] and core.streams == [7, 0]


def test_storage_between_kernels_is_kept_for_each_stream(driver: Driver) -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    C = sl.compute((n,), lambda i: B[n - 1 - i] + 1, name="C")
    s = sl.schedule(C)
    for stage in (B, C):
        block, thread = s[stage].split(stage.op.axis[0], 32)
        s[stage].bind(block, "blockIdx.x")
        s[stage].bind(thread, "threadIdx.x")
    f = sl.build(s, [A, C], target="cuda")
    counts = []
    for size, stream in ((40, 0), (33, 0), (40, 3), (40, 3), (90, 0), (50, 0)):
        a, out = numbers(size), np.zeros(size, "float32")
        f(OnGpu(a, stream or None), OnGpu(out))
        np.testing.assert_array_equal(out, (a * 2)[::-1] + 1)
        counts.append(driver.allocated)
    assert counts == [1, 1, 2, 2, 3, 3]


def test_scalars_of_every_kind_reach_the_kernel(driver: Driver) -> None:
    A = sl.placeholder((40,), name="A")
    scale, add = sl.var("scale", dtype="float32"), sl.var("add", dtype="int8")
    B = sl.compute((40,), lambda i: A[i] * scale + add.astype("float32"), name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "threadIdx.x")
    f, a = sl.build(s, target="cuda"), numbers(40)
    np.testing.assert_allclose(f(OnGpu(a), scale=2.5, add=-3).data, a * 2.5 - 3, rtol=1e-6)
    out = np.zeros(40, "float32")
    given = dict(zip(("A", "B", "scale", "add"), (OnGpu(a), OnGpu(out), 2.0, 1)))
    f.unchecked(*(given[p.name] for p in f.signature.parameters), stream=5)
    np.testing.assert_allclose(out, a * 2 + 1, rtol=1e-6)


def test_each_architecture_has_its_own_machine_code(driver: Driver, core: Core) -> None:
    for capability, arch in (((9, 0), "sm_90"), ((10, 0), "sm_100"), ((12, 1), "sm_121")):
        driver.capability = capability
        f, a = kernel(), numbers(100)
        np.testing.assert_array_equal(f(OnGpu(a)).data, a * 2)
        assert core.archs[-1] == arch
    case = scaled(100, 32)
    f = sl.build(case.schedule, case.args, target=sl.Target("cuda", arch="sm_80"))
    driver.capability = (8, 9)
    f(OnGpu(numbers(100)))
    assert core.archs[-1] == "sm_80"
    for capability, arch in (((9, 9), "sm_90a"), ((14, 0), "sm_90")):
        driver.capability = capability
        f = sl.build(case.schedule, case.args, target=sl.Target("cuda", arch=arch))
        with pytest.raises(CallError, match=f"built for {arch}, but this GPU is sm_"):
            f(OnGpu(numbers(100)))


def test_machine_code_with_other_parameters_is_refused(driver: Driver, core: Core) -> None:
    core.bytes_of_a_size = 4
    with pytest.raises(BuildError, match=r"takes parameters of \[8, .*4\] bytes in its machine"):
        kernel(sl.var("n"))(OnGpu(numbers(100)))


def double_by_size(target: str, size_is_given: bool) -> Any:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], 32)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    return sl.build(s, [n, A, B] if size_is_given else [A, B], target=target)


def test_a_size_may_be_a_numpy_integer(driver: Driver) -> None:
    a = numbers(100)
    given, taken = (double_by_size("cuda", is_given) for is_given in (True, False))
    for size in (np.int64(100), 100):
        out, other = np.zeros(100, "float32"), np.zeros(100, "float32")
        given(size, a, out)
        taken.unchecked(OnGpu(a), OnGpu(other), size)
        np.testing.assert_array_equal(out, a * 2)
        np.testing.assert_array_equal(other, a * 2)


def test_a_size_may_be_an_argument_of_the_emulator() -> None:
    a, out = numbers(100), np.zeros(100, "float32")
    double_by_size("cuda-emulator", True)(100, a, out)
    np.testing.assert_array_equal(out, a * 2)


def test_a_call_waits_for_its_copies_and_for_other_streams(driver: Driver) -> None:
    A, B = sl.placeholder((40,), name="A"), sl.placeholder((40,), name="B")
    C = sl.compute((40,), lambda i: A[i] + B[i], name="C")
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "threadIdx.x")
    f, a, out = sl.build(s, target="cuda"), numbers(40), OnGpu(np.zeros(40, "float32"), stream=5)
    f(OnGpu(a, stream=5), OnGpu(a, stream=7), out)
    # the call starts after earlier work of the other stream, and before its later work
    assert driver.waited == [7, 5]
    # the copy of a NumPy array must live while the kernel runs
    f(OnGpu(a, stream=5), a, out)
    assert driver.waited == [7, 5, 5]
    f(OnGpu(a, stream=5), OnGpu(a, stream=5), out)
    assert driver.waited == [7, 5, 5]
    np.testing.assert_array_equal(out.data, a * 2)


def test_the_address_of_an_array_without_dlpack_tells_its_gpu(
    two_gpus: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = two_gpus
    f, a, out = kernel(), numbers(100), np.zeros(100, "float32")
    places = {a.ctypes.data: 1, out.ctypes.data: 1}
    monkeypatch.setattr(gpu.nvidia, "gpu_of", places.get)
    f(OnGpu(a), OnGpu(out))
    assert driver.visited == [1] and set(f._ready) == {1}
    f.unchecked(OnGpu(a), OnGpu(out))
    with pytest.raises(CallError, match="are on the GPUs 0 and 1"):
        f(OnGpu(a), ByDlpack(out))


def test_a_later_gpu_with_less_shared_memory_is_named(driver: Driver) -> None:
    s, args = shares_more_than_is_static(4096)
    f = sl.build(s, args, target=sl.Target("cuda", arch="sm_80"))
    driver.capability = (8, 9)
    with pytest.raises(BuildError, match="for sm_89: it needs 131,072 B of shared memory; sm_89"):
        f(numbers(8, 4096))
    with pytest.raises(BuildError, match="save: kernel C_kernel needs 131,072 B of shared memory"):
        f.save("never.py")


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_machine_code_has_the_parameters_that_are_passed() -> None:
    n, scale = sl.var("n"), sl.var("scale", dtype="float16")
    flag, add = sl.var("flag", dtype="bool"), sl.var("add", dtype="int16")
    A = sl.placeholder((n,), name="A", dtype="float16")
    on = sl.placeholder((n,), name="on", dtype="bool")

    def body(i: Any) -> Any:
        return sl.if_then_else(on[i] & flag, A[i] * scale + add.astype("float16"), A[i])

    B = sl.compute((n,), body, name="B")
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], 32)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    f = sl.build(s, target="cuda")
    (source,) = f._file.source.kernels
    bits = [int(b) for b in re.findall(r"\.param \.[a-z](\d+)", f.ptx)]
    passed: list[int] = []
    for p in source.form.parameters:
        cast = launch._cast(p)
        passed += [64] * launch.ARRAY if cast is None else [8 * ctypes.sizeof(cast)]
    assert bits == passed and len(bits) == 3 * 7 + 4


def test_the_memory_of_an_array_by_its_interface() -> None:
    data = numbers(12)
    known = OnGpu(data).__cuda_array_interface__
    assert Memory.of(known) == (data.ctypes.data, 12, 4)


def test_the_fast_path_reads_the_interface_of_an_array_once(
    driver: Driver, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.count = 1
    f, a = kernel(), numbers(100)
    out = OnGpu(np.zeros(100, "float32"), stream=7)
    f(OnGpu(a), out)
    asked = []
    interface = OnGpu.__cuda_array_interface__

    def once(array: OnGpu) -> Any:
        asked.append(array)
        return interface.fget(array)  # type: ignore[attr-defined]

    monkeypatch.setattr(OnGpu, "__cuda_array_interface__", property(once))
    there = OnGpu(a + 1)
    assert f(there, out) is out and asked == [there, out] and core.streams == [7, 7]
    np.testing.assert_array_equal(out.data, (a + 1) * 2)
    frozen = OnGpu(np.zeros(100, "float32"))
    frozen.data.flags.writeable = False
    both = numbers(150)
    for refused in ((there, frozen), (OnGpu(both[:100]), OnGpu(both[50:])),
                    (there, OnGpu(np.zeros((100, 1), "float32")))):  # fmt: skip
        with pytest.raises(CallError):
            f(*refused)


class Managed(np.ndarray):
    """Memory that the CPU and a GPU share, like numba's managed and mapped arrays."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return OnGpu(self.view(np.ndarray)).__cuda_array_interface__


def test_a_call_waits_where_the_cpu_shares_the_memory(driver: Driver) -> None:
    f, a = kernel(), numbers(100)
    out = np.zeros(100, "float32").view(Managed)
    for _ in range(2):
        driver.waited.clear()
        out[:] = 0
        assert f(a.view(Managed), out) is out and driver.waited == [0]
        np.testing.assert_array_equal(out.view(np.ndarray), a * 2)


def test_masked_arrays_are_refused(driver: Driver) -> None:
    f, a = kernel(), numbers(100)
    interface = {**OnGpu(a).__cuda_array_interface__, "mask": OnGpu(a > 0)}
    masked = SimpleNamespace(__cuda_array_interface__=interface, dtype=a.dtype)
    for given in (masked, np.ma.masked_array(a, a > 0)):
        with pytest.raises(CallTypeError, match="is a masked array"):
            f(given)


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


def test_only_vectorized_accesses_need_alignment(driver: Driver) -> None:
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
    with pytest.raises(CallError, match="A starts at an address that is not a multiple of 16 "
                                        "bytes"):
        f(OnGpu(data[1:129]), OnGpu(data[:128]))


def test_an_instruction_needs_an_aligned_address(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(path: Path) -> Any:
        functions = simulate_file(path)
        functions["double"] = double
        return SimpleNamespace(**functions)

    monkeypatch.setattr(gpu.files, "load", loaded)
    a = sl.placeholder((8,), name="a")
    b = sl.compute((8,), lambda i: a[i] + a[i], name="b")
    emit = {"cuda": PythonFunction(double)}
    A = sl.placeholder((8, 8), name="A")
    B = sl.compute((8, 8), lambda i, j: A[i, j] + A[i, j], name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "threadIdx.x")
    s[B].tensorize(B.op.axis[1], sl.instruction("double", b, emit, alignment={"a": 32}))
    f, room = sl.build(s, [A, B], target="cuda"), numbers(100)
    data = room[-room.ctypes.data % 64 // 4 :]
    x, y = data[:64].reshape(8, 8), data[4:68].reshape(8, 8)
    np.testing.assert_array_equal(f(OnGpu(x)).data, x * 2)
    # an array of the host is copied
    np.testing.assert_array_equal(f(y), y * 2)
    for _ in range(2):
        with pytest.raises(CallError, match="A starts .* not a multiple of 32 bytes.* pass a copy"):
            f(OnGpu(y), OnGpu(np.zeros_like(x)))


def double(a: Any) -> Any:
    return a + a


def test_an_older_gpu_is_named(driver: Driver) -> None:
    driver.capability = (8, 0)
    with pytest.raises(CallError, match="built for sm_90, but this GPU is sm_80.*arch=.sm_80."):
        kernel()(numbers(100))


def shares_more_than_is_static(columns: int) -> tuple[sl.Schedule, list[sl.Tensor]]:
    A = sl.placeholder((8, columns), name="A")
    B = sl.compute((8, columns), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((8, columns), lambda i, j: B[i, columns - 1 - j] + 1, name="C")
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
    return s, [A, C]


def test_shared_memory_beyond_the_static_limit_is_dynamic(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, args = shares_more_than_is_static(2048)
    asked: list[int] = []
    monkeypatch.setattr(gpu.nvidia, "allow_shared", lambda kernel, count: asked.append(count))
    a = numbers(8, 2048)
    f = sl.build(s, args, target="cuda")
    np.testing.assert_array_equal(f(a), (a * 2)[:, ::-1] + 1)
    assert asked == [8 * 2048 * 4]
