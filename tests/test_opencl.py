"""Tests of ``target="opencl"``: its text and refusals, and kernels on a device (slow)."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError, CallError, MissingExtraError, SchedlangError
from schedlang.targets.opencl import devices
from tests.conftest import Golden
from tests.fuzz.gpu import run_gpu_case
from tests.gpu_schedules import CASES, Scheduled, gemm, numbers, row_reduction, scaled, softmax
from tests.graphs import product
from tests.marks import opencl  # noqa: F401
from tests.test_gpu_instructions import by_threads as with_dp4a
from tests.test_scatter_gpu import by_global_atomics, by_shared_copies, counts, x

on_a_device = pytest.mark.usefixtures("opencl")
FLOATS = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-12}
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def built(case: Scheduled) -> Any:
    return sl.build(case.schedule, case.args, target="opencl")


def by_threads(T: Any, threads: int = 8) -> Any:
    """Return a schedule whose threads compute an element each."""
    s = sl.schedule(T)
    tensors = T if isinstance(T, (list, tuple)) else [T]
    for tensor in tensors[:1]:
        axis = s[tensor].fuse(*tensor.op.axis)
        block, thread = s[tensor].split(axis, factor=threads)
        s[tensor].bind(block, "blockIdx.x")
        s[tensor].bind(thread, "threadIdx.x")
    return s


def elementwise(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[Any, Any]:
    """Return the results of a device and of NumPy for a function of elements."""
    inputs = [sl.placeholder(a.shape, a.dtype.name, name=n) for a, n in zip(arrays, "ABC")]
    R = sl.compute(arrays[0].shape, lambda *i: function(*(t[i] for t in inputs)), name="R")
    f = sl.build(by_threads(R), [*inputs, *(R if isinstance(R, tuple) else (R,))], target="opencl")
    with np.errstate(all="ignore"):
        return f(*arrays), sl.reference(R)(*arrays)


@pytest.mark.parametrize("name", ["scaled", "gemm", "softmax", "argmax", "atomics"])
def test_source(name: str, golden: Golden) -> None:
    if name == "atomics":
        s, H = by_global_atomics("float32", "max")
        golden(sl.build(s, target="opencl").source)
        return
    case = {"scaled": scaled, "argmax": lambda: row_reduction(33, 100, 16, 3, "argmax"),
            "gemm": lambda: gemm(64, 64, 64, vector=4, double=True, dtype="float16"),
            "softmax": lambda: softmax(20, 100, 24)}[name]()  # fmt: skip
    golden(built(case).source)


def test_the_file_is_the_same_each_time() -> None:
    first, again = built(gemm(33, 20, 17)), built(gemm(33, 20, 17))
    assert first.source == again.source and first.path == again.path
    assert first.path.endswith(".cl") and Path(first.path).read_text() == first.source


@pytest.mark.parametrize(
    "needed", ["kernel exp float4", "read_only vec_step as_float", "image2d_array_t vload4 vstore2"]
)
def test_names_that_opencl_needs_are_others(needed: str) -> None:
    first, second, last = needed.split()
    A, B = sl.placeholder((9,), name=first), sl.placeholder((9,), name=second)
    local = sl.compute((9,), lambda half: A[half] * B[half], name=last)
    source = sl.build(by_threads(local), target="opencl").source
    (head,) = re.findall(r"^void .*$", source, re.M)
    assert not {*re.findall(r"\w+", head)} & {first, second, last}


def test_a_file_has_the_helpers_that_it_uses() -> None:
    assert "Helpers" not in built(scaled()).source
    assert "sl_quotient" in built(gemm(16, 16, 16, vector=4)).source


@pytest.mark.parametrize("offset", [0, 1])
def test_vectors_that_two_products_read(offset: int) -> None:
    A = sl.placeholder((8, 9), name="A")
    B = sl.compute(
        (8, 8),
        lambda i, j: A[i, j + offset] * A[i, 0] + A[i, j + offset] * A[i, 2],
        name="B",
    )
    s = sl.schedule(B)
    i, j = B.op.axis
    outer, inner = s[B].split(j, factor=4)
    s[B].bind(i, "blockIdx.x")
    s[B].bind(outer, "threadIdx.x")
    s[B].vectorize(inner)
    source = sl.build(s, [A, B], target="opencl").source
    assert "float4 t = vload4(0, " in source
    assert not re.search(r"\bsl_|asm", source)


def test_lines_have_their_statements() -> None:
    f = built(scaled())
    lines = {n: line for line, n in zip(f.source.splitlines(), f.origins) if n is not None}
    assert len(f.origins) == len(f.source.splitlines()) and "B[" in lines[max(lines)]


def test_save(tmp_path: Path) -> None:
    f = built(scaled())
    assert f.save(tmp_path / "k.cl").read_text() == f.source
    with pytest.raises(BuildError, match="it is OpenCL C\n  Give a name ending in .cl"):
        f.save(tmp_path / "k.py")


def test_without_pyopencl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    case = scaled()
    message = r'kernel B needs pyopencl: pip install "schedlang\[opencl\]" installs it.'
    with pytest.raises(MissingExtraError, match=message):
        built(case)(*case.inputs)
    with pytest.raises(MissingExtraError, match="a search needs pyopencl"):
        sl.autotune(not_bound().outputs[0], target="opencl", trials=1)


def not_bound() -> Any:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] * 2, name="B")
    return sl.schedule(B)


def parallel() -> Any:
    s = not_bound()
    s[s.outputs[0]].parallel(s.outputs[0].op.axis[0])
    return s


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "instruction": (
        lambda: sl.build(with_dp4a(sl.instructions.dp4a, 7, 13, 32)[-1], target="opencl"),
        r"no instructions of a processor\n  Leave out tensorize, .*, or build for target=\"cuda\"",
    ),
    "no thread": (lambda: sl.build(not_bound(), target="opencl"), "blockIdx"),
    "parallel": (lambda: sl.build(parallel(), target="opencl"), "parallel"),
    "architecture": (lambda: sl.Target("opencl", arch="sm_80"), "leave it out for opencl"),
    "lineinfo": (
        lambda: sl.build(scaled().schedule, target="opencl", lineinfo=True), "lineinfo"
    ),
    "compiler": (
        lambda: sl.build(scaled().schedule, target="opencl", compiler="llvm"),
        "this target has no such compiler",
    ),
    "too many threads": (
        lambda: built(scaled(5000, threads=2048)),
        "a block of 2048 threads is too large; OpenCL allows 1024",
    ),
    "network": (
        lambda: sl.network(not_bound().outputs[0], {}, target="opencl"),
        "this target runs kernels, and no networks",
    ),
    "assembly": (lambda: built(scaled()).asm, "the device's driver compiles it"),
    "unchecked": (lambda: built(scaled()).unchecked, "depends on the queue of the arrays"),
    "PTX": (lambda: built(scaled()).ptx, "ptx"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(SchedlangError, match=message):
        call()


def a_device(**changed: Any) -> Any:
    limits = {
        "name": "A device", "extensions": "", "max_work_group_size": 256,
        "max_work_item_sizes": [256, 256, 64], "local_mem_size": 32 * 1024,
    }  # fmt: skip
    return SimpleNamespace(**{**limits, **changed})


@pytest.mark.parametrize(
    "case, device, message",
    [
        (lambda: scaled(threads=512), a_device(),
         "kernel B, B_kernel: its work-groups have 512 work-items, and A device allows 256\n  S"),
        (lambda: scaled(), a_device(max_work_item_sizes=[128, 1, 1]),
         "threadIdx.x has extent 256, and A device allows 128"),
        (lambda: gemm(64, 64, 64, tile=16, depth=4), a_device(local_mem_size=100),
         r"it needs 512 B of local memory, and A device has 100 B: A.shared has 256 B, B.shared"),
        (lambda: gemm(8, 8, 8, tile=8, dtype="float64"), a_device(),
         r"it has float64, which A device lacks \(it has no cl_khr_fp64\)\n  Compute in float32"),
        (lambda: row_reduction(2, 64, 32), a_device(local_mem_size=64),
         "it needs 256 B of local memory, and A device has 64 B\n"),
        (lambda: Scheduled(*by_global_atomics("int64"), (), counts), a_device(),
         "atomic updates of 8 bytes, which A device lacks"),
    ],
    ids=["work-group", "extent", "local memory", "float64", "exchanges", "atomics"],
)  # fmt: skip
def test_limits_of_a_device(case: Any, device: Any, message: str) -> None:
    made = case()
    f = sl.build(made.schedule, target="opencl")
    source = f._file.source
    with pytest.raises(CallError, match=message):
        devices.check_device(f"kernel {f.name}", device, source.listing.text, source.kernels)


def test_a_kernel_is_checked_and_counted_without_a_device() -> None:
    case = softmax(3, 40, 32)
    f = pickle.loads(pickle.dumps(built(case)))
    np.testing.assert_allclose(f.check(*case.inputs), case.expected, rtol=1e-5)
    assert f.counters(*case.inputs)["C"].barriers > 0


@on_a_device
@pytest.mark.slow
def test_without_the_device_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOPENCL_CTX", "no such platform")
    case = scaled()
    with pytest.raises(CallError, match="PYOPENCL_CTX='no such platform' names no device"):
        built(case)(*case.inputs)


@on_a_device
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if "pipelines" not in name])
def test_schedules_agree_with_numpy(name: str) -> None:
    case = CASES[name]()
    np.testing.assert_allclose(built(case)(*case.inputs), case.expected, rtol=1e-5, atol=1e-5)


@on_a_device
@pytest.mark.slow
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype: str) -> None:
    limits, draw = np.iinfo(dtype), np.random.default_rng(1)
    a, b = draw.integers(limits.min, limits.max, (2, 37), dtype=dtype, endpoint=True)
    a[0], b[0], b[1] = limits.min, -1 if limits.min else 0, 0

    def function(p: Any, q: Any) -> Any:
        total = (p + q) * p - q
        mixed = total ^ (p // q) ^ (p % q) ^ sl.min(p, q) ^ sl.max(-p, q)
        short = (p << (q & 7)) ^ (p >> (q & 7)) ^ sl.abs(p)
        return (mixed ^ short, sl.cast(p, "float16"), sl.cast(p, "float32"),
                sl.cast(sl.cast(p, "bfloat16"), "float32"), sl.popcount(p))  # fmt: skip

    for result, wanted in zip(*elementwise(function, a, b)):
        np.testing.assert_array_equal(result, wanted)


@on_a_device
@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype: str) -> None:
    draw = np.random.default_rng(2)
    a, b = (draw.standard_normal((2, 37)) * 3).astype(dtype)
    a[:5], b[2:4] = (np.inf, np.nan, -np.inf, 7, -0.0), (np.nan, 0)

    def function(p: Any, q: Any) -> Any:
        near = sl.max(sl.min(p, 1.0), -1.0)
        return (
            p * q + p - q / p, sl.min(p, q) + sl.max(p, q), p % q, p // q,
            sl.select((p > q) | sl.isnan(p), p, q), sl.abs(p) ** q, sl.floor(p) + sl.round(p),
            sl.exp(near) + sl.log(sl.abs(q)), sl.sin(near) + sl.tanh(p), sl.erf(p) * sl.sigmoid(q),
            sl.sqrt(sl.abs(p)) + sl.rsqrt(sl.abs(q)), sl.cast(p, "float16"),
            sl.cast(sl.select(sl.isfinite(p), p, sl.cast(0, dtype)), "int32"),
        )  # fmt: skip

    for k, (result, wanted) in enumerate(zip(*elementwise(function, a, b))):
        result, wanted = result.astype("float64"), wanted.astype("float64")
        tolerance = 20 * max(FLOATS[dtype], FLOATS["float16"] * (k == 11) / 20)
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance, err_msg=str(k))


@on_a_device
@pytest.mark.slow
def test_every_half_is_rounded_as_numpy_rounds() -> None:
    halves = np.arange(1 << 16, dtype="uint16").view("float16").astype("float32")
    finite = np.sort(halves[np.isfinite(halves)])
    middles = ((finite[1:].astype("float64") + finite[:-1]) / 2).astype("float32")
    edges = np.concatenate([halves, middles, np.nextafter(middles, np.float32(np.inf)),
                            np.nextafter(middles, np.float32(-np.inf))])  # fmt: skip
    edges = np.append(edges, np.array([65504, 65519, 65520, 1e30, -1e30, 2**-25], "float32"))
    with np.errstate(over="ignore"):
        for function in (lambda v: v.astype("float16"), lambda v: v.astype("float16") * 1):
            result, wanted = elementwise(function, edges)
            np.testing.assert_array_equal(result, wanted)


@on_a_device
@pytest.mark.slow
def test_atomic_updates() -> None:
    for s, _ in (by_global_atomics(), by_global_atomics("int64"), by_shared_copies()):
        np.testing.assert_array_equal(sl.build(s, target="opencl")(x), counts)
    s, _ = by_global_atomics("float32")
    np.testing.assert_array_equal(sl.build(s, target="opencl")(x), counts.astype("float32"))
    for combine, wanted in (("max", 1), ("prod", 1)):
        s, _ = by_global_atomics("float64", combine)
        np.testing.assert_array_equal(sl.build(s, target="opencl")(x), np.full(32, wanted))


@on_a_device
@pytest.mark.slow
def test_sizes_scalars_and_several_kernels() -> None:
    n, alpha = sl.var("n"), sl.var("alpha", dtype="float32")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * alpha, name="B")
    C = sl.compute((n,), lambda i: B[n - 1 - i] + 1, name="C")
    s = sl.schedule(C)
    for T in (B, C):
        block, thread = s[T].split(T.op.axis[0], 32)
        s[T].bind(block, "blockIdx.x")
        s[T].bind(thread, "threadIdx.x")
    f = sl.build(s, [A, alpha, C], target="opencl")
    for size in (0, 1, 31, 32, 100):
        a = numbers(size)
        np.testing.assert_array_equal(f(a, 0.5), a[::-1] * np.float32(0.5) + 1)
    profile = f.profile(numbers(100), 2.0, repeat=2)
    assert list(profile.stages) == ["B", "C"] and profile.seconds > 0
    timed = sl.evaluate(f, numbers(100), 2.0, repeat=3, min_time=0.0)
    assert timed.runs == 3 and timed.seconds > 0 and timed.fraction is None


@on_a_device
@pytest.mark.slow
def test_a_recurrence_is_a_loop_of_the_host() -> None:
    X = sl.placeholder((5, 20), name="X")
    state = sl.placeholder((5, 20), name="state")
    init = sl.compute((1, 20), lambda t, j: X[0, j], name="init")
    update = sl.compute((5, 20), lambda t, j: state[t - 1, j] * 2 + X[t, j], name="update")
    T = sl.scan(init, update, state, inputs=[X])
    s = sl.schedule(T)
    for stage in (init, update):
        s[stage].bind(stage.op.axis[1], "threadIdx.x")
    a, wanted = numbers(5, 20), numbers(5, 20)
    for t in range(1, 5):
        wanted[t] += 2 * wanted[t - 1]
    np.testing.assert_array_equal(sl.build(s, target="opencl")(a), wanted)


@on_a_device
@pytest.mark.slow
def test_arrays_of_pyopencl() -> None:
    import pyopencl as cl
    from pyopencl.array import Array, empty, to_device

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    case = scaled(64, 32, 64)
    f = built(case)
    a = to_device(queue, case.inputs[0])
    result = f(a)
    assert isinstance(result, Array) and result.queue == queue
    np.testing.assert_array_equal(result.get(), case.expected)
    out = empty(queue, 64, "float32")
    assert f(a, out) is out
    np.testing.assert_array_equal(out.get(), case.expected)
    # an output of NumPy's is written when the call returns
    there = np.empty(64, "float32")
    np.testing.assert_array_equal(f(a, there), case.expected)
    np.testing.assert_array_equal(f(a, a).get(), case.expected)
    whole = to_device(queue, numbers(128))
    np.testing.assert_array_equal(f(whole[64:]).get(), numbers(128)[64:] * 2)
    other = to_device(cl.CommandQueue(context), case.inputs[0])
    with pytest.raises(CallError, match=r"B and A are arrays of two queues.*\n.*B.with_queue\(A"):
        f(a, other)
    elsewhere = to_device(cl.CommandQueue(cl.Context(context.devices)), case.inputs[0])
    with pytest.raises(CallError, match="B and A are arrays of two contexts of OpenCL"):
        f(a, elsewhere)
    with pytest.raises(CallError, match="A starts 4 B into its buffer"):
        f(whole[1:65])
    with pytest.raises(CallError, match="output B overlaps A"):
        f(whole[:64], whole[32:96])
    with pytest.raises(SchedlangError, match="A.*float64"):
        f(to_device(queue, case.inputs[0].astype("float64")))


@on_a_device
@pytest.mark.slow
def test_text_that_the_compiler_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    case = scaled()
    f = built(case)
    listing = f._file.source.listing
    monkeypatch.setitem(listing.__dict__, "text", listing.text + "\nno C")
    with pytest.raises(BuildError, match=r"refuses the file .*\.cl\n  It says:\n(.*\n)*.*error"):
        f(*case.inputs)


@on_a_device
@pytest.mark.slow
def test_a_search(tmp_path: Path) -> None:
    """Candidates are timed by events of the device, and records name it."""
    A, B, C = product(48, 40, 56)
    database = tmp_path / "tuning.jsonl"
    result = sl.autotune(C, target="opencl", trials=2, database=database, progress=False)
    a, b = (numbers(*T.shape) for T in (A, B))
    np.testing.assert_allclose(result.kernel(a, b), a @ b, rtol=1e-4, atol=1e-4)
    device = devices.default_queue("a test").device.name
    for record in map(json.loads, database.read_text().splitlines()):
        assert (record["machine"], record["target"].split(",")[0]) == (device, "opencl")
    assert {trial.outcome for trial in result.trials} == {"ok"} and result.seconds > 0
    timed = sl.evaluate(result.kernel, a, b).seconds
    assert result.seconds / 20 < timed < result.seconds * 20


@on_a_device
@pytest.mark.slow
def test_random_schedules() -> None:
    cases = [run_gpu_case("opencl", index, by_opencl=True) for index in range(30)]
    assert not [case.failure for case in cases if case.outcome == "failed"]
    assert sum(case.outcome == "passed" for case in cases) > 15
