"""Kernels on this machine's NVIDIA GPU; skipped on a machine without one."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from benchmarks.gpu import scheduled
from benchmarks.works import Work
from benchmarks.works.gpu import GPU_SMALL
from schedlang.errors import CallError
from schedlang.target import Target
from tests.fuzz.gpu import run_gpu_case, this_gpu
from tests.gpu_schedules import CASES, Scheduled, gemm, numbers, scaled


def has_gpu() -> bool:
    if find_spec("numba_cuda") is None:
        return False
    from numba import cuda

    return bool(cuda.is_available())


pytestmark = pytest.mark.skipif(not has_gpu(), reason="this machine has no NVIDIA GPU")


@pytest.fixture
def gpu() -> Target:
    return this_gpu()


def through_several_kernels(n: int = 4096) -> Scheduled:
    """Return two kernels with a buffer between them."""
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] + 1, name="B")
    C = sl.compute((n,), lambda i: B[n - 1 - i] * 2, name="C")
    s = sl.schedule(C)
    for stage in (B, C):
        block, thread = s[stage].split(stage.op.axis[0], 128)
        s[stage].bind(block, "blockIdx.x")
        s[stage].bind(thread, "threadIdx.x")
    a = numbers(n)
    return Scheduled(s, [A, C], (a,), (a[::-1] + 1) * 2)


def with_large_shared_memory(rows: int = 24, width: int = 2048) -> Scheduled:
    """Return a kernel whose blocks reverse ``rows`` rows in more than 48 KiB of shared memory."""
    A = sl.placeholder((2 * rows, width), name="A")
    B = sl.compute(A.shape, lambda i, j: A[i, width - 1 - j] + 1, name="B")
    s = sl.schedule(B)
    shared = s.cache_read(A, "shared", [B])
    block, row = s[B].split(B.op.axis[0], rows)
    outer, thread = s[B].split(B.op.axis[1], 256)
    s[B].reorder(block, thread, row, outer)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    s[shared].compute_at(s[B], thread)
    _, lane = s[shared].split(s[shared].op.axis[1], 256)
    s[shared].bind(lane, "threadIdx.x")
    a = numbers(2 * rows, width)
    return Scheduled(s, [A, B], (a,), a[:, ::-1] + 1)


@pytest.mark.parametrize("name", CASES)
def test_schedules_agree_with_numpy(name: str, gpu: Target) -> None:
    case = CASES[name]()
    f = sl.build(case.schedule, case.args, target=gpu)
    for _ in range(3):
        np.testing.assert_allclose(f(*case.inputs), case.expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("work", GPU_SMALL, ids=lambda w: w.name)
def test_benchmark_schedules_agree_with_numpy(work: Work, gpu: Target) -> None:
    arrays = work.arrays()
    found = sl.build(*scheduled(work), target=gpu)(*arrays.values())
    assert not work.wrong((found,), work.expected(arrays))


@pytest.mark.parametrize("index", range(40))
def test_random_schedules(index: int) -> None:
    case = run_gpu_case("device", index, on_gpu=True)
    assert case.outcome != "failed", f"{case.snippet}\n{case.failure}"


@pytest.mark.parametrize("make", [through_several_kernels, with_large_shared_memory])
def test_scratch_and_large_shared_memory(make: Any, gpu: Target) -> None:
    case = make()
    f = sl.build(case.schedule, case.args, target=gpu)
    for _ in range(3):
        np.testing.assert_array_equal(f(*case.inputs), case.expected)


def test_symbolic_sizes(gpu: Target) -> None:
    case = scaled(sl.var("n"), 256)
    f = sl.build(case.schedule, case.args, target=gpu)
    for n in (1, 255, 256, 257, 100_001):
        a = numbers(n)
        np.testing.assert_array_equal(f(a), a * 2)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int64"])
def test_dtypes(dtype: str, gpu: Target) -> None:
    A = sl.placeholder((1000,), dtype, name="A")
    B = sl.compute((1000,), lambda i: A[i] * A[i] + A[999 - i], name="B")
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], 128)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    a = numbers(1000, dtype=dtype)
    with np.errstate(over="ignore"):
        expected = a * a + a[::-1]
    np.testing.assert_array_equal(sl.build(s, [A, B], target=gpu)(a), expected)


class TestTorch:
    """PyTorch's tensors and streams."""

    @pytest.fixture(autouse=True)
    def torch(self) -> Any:
        self.torch = pytest.importorskip("torch")

    def test_a_result_is_a_tensor_on_the_gpu(self, gpu: Target) -> None:
        case = gemm(64, 64, 64)
        f = sl.build(case.schedule, case.args, target=gpu)
        a, b = (self.torch.from_numpy(v).cuda() for v in case.inputs)
        made = f(a, b)
        assert made.is_cuda and made.dtype == self.torch.float32
        np.testing.assert_allclose(made.cpu().numpy(), case.expected, rtol=1e-5, atol=1e-5)
        out = self.torch.empty_like(made)
        assert f(a, b, out) is out
        np.testing.assert_array_equal(out.cpu().numpy(), made.cpu().numpy())

    def test_work_on_a_stream_stays_in_order(self, gpu: Target) -> None:
        torch, n = self.torch, 1 << 24
        case = scaled(n, at=4)
        f = sl.build(case.schedule, case.args, target=gpu)
        a = torch.zeros(n, device="cuda")
        out = torch.empty_like(a)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(10):
                # long enough for the kernel to be launched before the sum is there
                torch.cuda._sleep(2_000_000)
                a.add_(1)
                f(a, out)
                a.copy_(out)
            found = a.sum(dtype=torch.float64)
        side.synchronize()
        # x -> 2 (x + 1), ten times from 0
        assert found.item() == (2**11 - 2) * n

    def test_a_cuda_graph_captures_calls(self, gpu: Target) -> None:
        torch, case = self.torch, through_several_kernels()
        f = sl.build(case.schedule, case.args, target=gpu)
        a = torch.from_numpy(case.inputs[0]).cuda()
        out = torch.zeros_like(a)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            f(a, out)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            f(a, out)
        a.copy_(torch.arange(a.numel(), device="cuda", dtype=a.dtype))
        graph.replay()
        expected = (np.arange(a.numel(), dtype="float32")[::-1] + 1) * 2
        np.testing.assert_array_equal(out.cpu().numpy(), expected)

    def test_threads_call_one_kernel(self, gpu: Target) -> None:
        torch, case = self.torch, through_several_kernels(1 << 20)
        f = sl.build(case.schedule, case.args, target=gpu)
        wrong: list[int] = []

        def work(number: int) -> None:
            stream = torch.cuda.Stream()
            a = torch.full((1 << 20,), float(number), device="cuda")
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                for _ in range(50):
                    out = f(a)
                    if not bool((out == (number + 1) * 2).all()):
                        wrong.append(number)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_a_tensor_on_the_cpu_beside_one_on_the_gpu(self, gpu: Target) -> None:
        case = gemm(64, 64, 64)
        f = sl.build(case.schedule, case.args, target=gpu)
        a, b = (self.torch.from_numpy(v) for v in case.inputs)
        np.testing.assert_allclose(f(a, b), case.expected, rtol=1e-5, atol=1e-5)
        found = f(a.cuda(), b)
        np.testing.assert_allclose(np.asarray(found.cpu()), case.expected, rtol=1e-5, atol=1e-5)

    def test_views_that_are_not_aligned_are_refused(self, gpu: Target) -> None:
        case = gemm(64, 64, 64, vector=4)
        f = sl.build(case.schedule, case.args, target=gpu)
        a, b = (self.torch.from_numpy(v).cuda() for v in case.inputs)
        shifted = self.torch.empty(64 * 64 + 1, device="cuda")[1:].view(64, 64)
        shifted.copy_(a)
        with pytest.raises(CallError, match="multiple of 16 bytes"):
            f(shifted, b)


def test_cupy_arrays_and_streams(gpu: Target) -> None:
    cupy = pytest.importorskip("cupy")
    case = gemm(64, 64, 64)
    f = sl.build(case.schedule, case.args, target=gpu)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        a, b = (cupy.asarray(v) for v in case.inputs)
        made = f(a, b)
        stream.synchronize()
    assert isinstance(made, cupy.ndarray)
    np.testing.assert_allclose(made.get(), case.expected, rtol=1e-5, atol=1e-5)


def test_arrays_by_dlpack(gpu: Target) -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("jax has no GPU")
    case = scaled(1000)
    f = sl.build(case.schedule, case.args, target=gpu)
    out = f(jax.numpy.asarray(case.inputs[0]))
    np.testing.assert_array_equal(out.copy_to_host(), case.expected)


def test_evaluate_times_the_gpu(gpu: Target) -> None:
    n = 1 << 26
    case = scaled(n, at=n)
    f = sl.build(case.schedule, case.args, target=gpu)
    found = sl.evaluate(f, *case.inputs, min_time=0.0)
    assert found.bound == "memory" and found.fraction is not None and 0.3 < found.fraction < 1.2
    # 512 MiB take longer to copy to a GPU than a kernel takes to read them
    assert found.gbps is not None and found.gbps > 100


def test_a_saved_file_runs_alone(gpu: Target, tmp_path: Path) -> None:
    case = through_several_kernels()
    f = sl.build(case.schedule, case.args, target=gpu)
    f.save(tmp_path / "alone.py")
    text = f"""
import sys
sys.modules["schedlang"] = None
sys.path.insert(0, {str(tmp_path)!r})
import alone
import numpy as np
from numba import cuda
a = cuda.to_device(np.arange(4096, dtype="float32"))
out = cuda.device_array(4096, "float32")
alone.launch(a, out)
cuda.synchronize()
print((out.copy_to_host() == (np.arange(4096)[::-1] + 1) * 2).all())
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == "True", done.stderr


def test_a_search_measures_on_the_gpu(
    gpu: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    A, B = sl.placeholder((256, 256), name="A"), sl.placeholder((256, 256), name="B")
    k = sl.reduce_axis(256, name="k")
    C = sl.compute((256, 256), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    tuned = sl.autotune(C, target=gpu, trials=12, seed=0)
    a, b = numbers(256, 256), numbers(256, 256, seed=1)
    np.testing.assert_allclose(sl.build(tuned.schedule, [A, B, C], target=gpu)(a, b), a @ b)
