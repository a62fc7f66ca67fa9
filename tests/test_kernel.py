"""Tests of kernels: calls, refusals, caches, saved files, threads."""

from __future__ import annotations

import errno
import os
import pickle
import runpy
import subprocess
import sys
import textwrap
import threading
import traceback
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import (
    BuildError,
    CallError,
    CallTypeError,
    ComputeError,
    LoweringError,
    SchedlangError,
)
from schedlang.intrinsics.dialect import NAMES, RESERVED, SAVED
from schedlang.runtime import thread_safety
from schedlang.runtime.bundle import read_library
from schedlang.targets.build import unwritten_kernel
from tests.marks import slow_but


def axpy(n: Any = 7, dtype: str = "float32") -> tuple[Any, ...]:
    X = sl.placeholder((n,), dtype, name="X")
    Y = sl.placeholder((n,), dtype, name="Y")
    Z = sl.compute((n,), lambda i: X[i] * 2 + Y[i], name="Z")
    return X, Y, Z


@pytest.fixture(params=["python", "cpu"])
def kernel(request: Any) -> Any:
    X, Y, Z = axpy()
    return sl.build(sl.schedule(Z), [X, Y, Z], target=request.param)


x = np.arange(7, dtype="float32")
y = np.ones(7, "float32")
z = x * 2 + y


def test_returns_a_new_output(kernel: Any) -> None:
    np.testing.assert_array_equal(kernel(x, y), z)


def test_writes_a_given_output_and_returns_it(kernel: Any) -> None:
    out = np.empty(7, "float32")
    assert kernel(x, y, out) is out
    np.testing.assert_array_equal(out, z)


def test_arguments_by_name(kernel: Any) -> None:
    np.testing.assert_array_equal(kernel(Y=y, X=x), z)
    np.testing.assert_array_equal(kernel(x, Y=y, Z=np.empty(7, "float32")), z)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((x,), CallTypeError, "Y is missing"),
        ((x, y, z.copy(), z), CallTypeError, "takes 2 inputs and may take 1 output"),
        (
            (x.astype("float64"), y),
            CallTypeError,
            r"argument 0 \(X: float32\[7\]\) got dtype float64",
        ),
        ((x[:5], y), CallError, r"got shape \(5,\): dimension 0 must be 7"),
        ((x.reshape(1, 7), y), CallError, "which has 2 dimensions"),
        ((np.zeros(14, "float32")[::2], y), CallError, r"strided .*np.ascontiguousarray\(X\)"),
        (([1.0] * 7, y), CallTypeError, r"kernel Z: argument 0 \(X: .* is of type list: pass"),
        ((x, "seven"), CallTypeError, "is of type str: pass an array"),
    ],
)
def test_bad_arguments(kernel: Any, args: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        kernel(*args)
    assert isinstance(caught.value, SchedlangError)


def test_unknown_and_doubled_names(kernel: Any) -> None:
    with pytest.raises(CallTypeError, match="has no argument 'W'"):
        kernel(x, y, W=z)
    with pytest.raises(CallTypeError, match="'X' is given twice"):
        kernel(x, y, X=x)


def test_read_only_output_is_refused_and_input_is_taken(kernel: Any) -> None:
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(kernel(frozen, y), z)
    with pytest.raises(CallError, match="read-only"):
        kernel(x, y, frozen)


def test_output_may_be_an_input_where_the_nest_is_elementwise(kernel: Any) -> None:
    out = x.copy()
    kernel(out, y, out)
    np.testing.assert_array_equal(out, z)


def test_partial_overlap_is_refused(kernel: Any) -> None:
    memory = np.zeros(10, "float32")
    with pytest.raises(CallError, match="output Z overlaps X"):
        kernel(memory[:7], y, memory[3:])


def test_output_as_input_is_refused_where_neighbours_are_read() -> None:
    X = sl.placeholder((8,), name="X")
    B = sl.compute((8,), lambda i: X[7 - i], name="B")
    f = sl.build(sl.schedule(B), target="python")
    memory = np.arange(8, dtype="float32")
    with pytest.raises(CallError, match=r"output B overlaps X.*X.copy\(\)"):
        f(memory, memory)


class Exported:
    """An array of another library that has only DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class OnDevice(Exported):
    def __dlpack_device__(self) -> Any:
        return (2, 0)


class Interface:
    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


def test_array_protocols(kernel: Any) -> None:
    np.testing.assert_array_equal(kernel(Exported(x), Interface(y)), z)
    with pytest.raises(CallTypeError, match="is in GPU memory"):
        kernel(OnDevice(x), y)


def test_symbolic_sizes_come_from_shapes() -> None:
    n, m = sl.var("n"), sl.var("m")
    A = sl.placeholder((n, m), name="A")
    B = sl.placeholder((m,), name="B")
    C = sl.compute((m, n), lambda i, j: A[j, i] + B[i], name="C")
    for target in ("python", "cpu"):
        f = sl.build(sl.schedule(C), target=target)
        for shape in ((3, 5), (1, 1), (0, 4), (4, 0)):
            a = np.random.default_rng(0).random(shape, dtype="float32")
            b = np.ones(shape[1], "float32")
            np.testing.assert_array_equal(f(a, b), a.T + b[:, None])
        with pytest.raises(CallError, match="m is 5 in dimension 1 of A and 4 in dimension 0 of B"):
            f(np.zeros((3, 5), "float32"), np.zeros(4, "float32"))


def test_derived_extents_are_checked() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n * 2,), lambda i: A[i // 2], name="B")
    f = sl.build(sl.schedule(B), target="python")
    a = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(f(a), np.repeat(a, 2))
    with pytest.raises(CallError, match=r"needs \(6,\) where n=3"):
        f(a, np.zeros(5, "float32"))


def test_sizes_are_solved_from_derived_extents() -> None:
    n = sl.var("n")
    A = sl.placeholder((n * 2 + 1,), name="A")
    B = sl.compute((n,), lambda i: A[i * 2 + 1] + A[i * 2], name="B")
    a = np.arange(9, dtype="float32")
    f = sl.build(sl.schedule(B), target="python")
    np.testing.assert_array_equal(f(a), a[1::2] + a[:-1:2])
    module: dict[str, Any] = {}
    exec(f.source, module)
    np.testing.assert_array_equal(module["B"](a), a[1::2] + a[:-1:2])
    with pytest.raises(CallError, match="no input determines n"):
        f(a[:8])


def test_scalar_tensors_and_scalar_arguments() -> None:
    x, T = sl.var("x", "float32"), sl.placeholder((), name="T")
    B = sl.compute((4,), lambda i: T * x + i, name="B")
    f = sl.build(sl.schedule(B), [x, T, B], target="python")
    assert f(2.0, np.array(3.0, "float32")).tolist() == [6, 7, 8, 9]


def test_a_size_that_is_passed_is_checked_too() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] + 1, name="B")
    f = sl.build(sl.schedule(B), [n, A, B], target="python")
    np.testing.assert_array_equal(f(5, x[:5]), x[:5] + 1)
    with pytest.raises(CallError, match="n is 4 in its own argument and 5 in dimension 0 of A"):
        f(4, x[:5])


def test_a_read_that_only_some_sizes_allow_is_checked_at_the_call() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[sl.min(i + 2, 7)], name="B")
    f = sl.build(sl.schedule(B), target="python")
    a = np.arange(9, dtype="float32")
    np.testing.assert_array_equal(f(a), a[np.minimum(np.arange(9) + 2, 7)])
    twin = pickle.loads(pickle.dumps(f))
    for kernel in (f, twin):
        with pytest.raises(CallError, match="cannot run where n=5: .*index 0 of A.*outside 0..5"):
            kernel(a[:5])


def test_a_clamped_gather_from_a_tensor_of_unknown_width() -> None:
    m = sl.var("m")
    rows = sl.placeholder((7,), "int32", name="rows")
    A = sl.placeholder((4, m), name="A")
    clamped = sl.max(sl.min(rows[0], 3), 0)
    B = sl.compute((7, m), lambda i, j: A[sl.max(sl.min(rows[i], 3), 0), j] + A[clamped, j])
    f = sl.build(sl.schedule(B), [A, rows, B], target="python")
    at = np.array([0, 1, 2, 3, 9, -4, 1], "int32")
    for width in (0, 1, 5):
        a = np.arange(4 * width, dtype="float32").reshape(4, width)
        np.testing.assert_array_equal(f(a, at), a[np.clip(at, 0, 3)] + a[0])


def test_scalar_arguments() -> None:
    alpha = sl.var("alpha", dtype="float32")
    X = sl.placeholder((5,), name="X")
    Y = sl.compute((5,), lambda i: X[i] * alpha, name="Y")
    for target in ("python", "cpu"):
        f = sl.build(sl.schedule(Y), target=target)
        np.testing.assert_array_equal(f(x[:5], 1.5), x[:5] * np.float32(1.5))
        np.testing.assert_array_equal(f(X=x[:5], alpha=2), x[:5] * 2)
        for wrong, message in (
            (x, "is a scalar, got an array"),
            ("2", r"kernel Y: argument 1 \(alpha: float32\) is a float32, got '2': pass a number"),
            (1e40, r"which cannot hold 1e\+40: pass a number of at most 3.40282e\+38"),
        ):
            with pytest.raises(CallTypeError, match=message):
                f(x[:5], wrong)


def test_integer_scalars_that_do_not_fit_are_refused() -> None:
    alpha, flag = sl.var("alpha", dtype="int8"), sl.var("flag", dtype="bool")
    X = sl.placeholder((5,), "int8", name="X")
    Y = sl.compute((5,), lambda i: sl.select(flag, X[i] * alpha, 0), name="Y")
    f = sl.build(sl.schedule(Y), [X, alpha, flag, Y], target="python")
    ones = np.ones(5, "int8")
    np.testing.assert_array_equal(f(ones, np.int64(-128), True), ones * np.int8(-128))
    for wrong in (300, np.int64(300), -129, 2**70):
        with pytest.raises(CallTypeError) as caught:
            f(ones, wrong, True)
        assert str(caught.value) == (
            f"kernel Y: argument 1 (alpha: int8) is an int8, which cannot hold {wrong!r}: "
            "pass an integer, -128..127"
        )
    for wrong in ("x", 1.5):
        with pytest.raises(CallTypeError, match=f"an int8, got {wrong!r}: pass an integer, -128"):
            f(ones, wrong, True)
    with pytest.raises(CallTypeError, match="is a bool, got 2: pass True or False"):
        f(ones, 1, 2)


def test_several_outputs_and_zero_dimensions() -> None:
    A = sl.placeholder((4,), name="A")
    P, Q = sl.compute((4,), lambda i: (A[i] + 1, A[i] * 2), name="P")
    k = sl.reduce_axis(4, name="k")
    S = sl.compute((), lambda: sl.sum(P[k] * Q[k], axis=k), name="S")
    for target in ("python", "cpu"):
        f = sl.build(sl.schedule([P, Q, S]), target=target)
        p, q, total = f(x[:4])
        np.testing.assert_array_equal(p, x[:4] + 1)
        np.testing.assert_array_equal(q, x[:4] * 2)
        assert total.shape == () and total == ((x[:4] + 1) * x[:4] * 2).sum()


@pytest.mark.parametrize("kernels", [1, 4])
def test_parallel_kernels_called_from_four_threads(kernels: int) -> None:
    def times(n: int) -> Any:
        A = sl.placeholder((64, 64), name="A")
        B = sl.compute((64, 64), lambda i, j: A[j, i] * n, name="B")
        s = sl.schedule(B)
        s[B].parallel(B.op.axis[0])
        return sl.build(s)

    fs = [times(2 + k) for k in range(kernels)] * (4 // kernels)
    arrays = [np.random.default_rng(k).random((64, 64), dtype="float32") for k in range(4)]
    results: list[Any] = [None] * 4
    ready = threading.Barrier(4)

    def work(k: int) -> None:
        ready.wait()
        for _ in range(50):
            results[k] = fs[k](arrays[k])

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for k, (a, b) in enumerate(zip(arrays, results)):
        np.testing.assert_array_equal(b, a.T * (2 + k % kernels))


@pytest.mark.slow
def test_four_threads_with_the_workqueue_layer() -> None:
    """The workqueue layer would abort on two launches at once, of one kernel or of several."""
    here = f"{__file__}::{test_parallel_kernels_called_from_four_threads.__name__}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", here]
    env = {**os.environ, "NUMBA_THREADING_LAYER": "workqueue"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_concurrent_requests_return_the_same_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "THREADING_LAYER", "workqueue")
    monkeypatch.setattr(thread_safety, "running_layer", lambda: "workqueue")
    # without the cache, as for two calls at once
    first, second = thread_safety.guard.__wrapped__(), thread_safety.guard.__wrapped__()
    assert first is not None and first is second


@pytest.mark.parametrize(("layer", "locks"), [("forksafe", True), ("OMP", False)])
def test_a_requested_threading_layer_is_kept(
    layer: str, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requested layer stays; "forksafe" needs a lock, since it may be workqueue."""
    monkeypatch.setattr(numba.config, "THREADING_LAYER", layer)
    monkeypatch.setattr(thread_safety, "running_layer", lambda: "")
    assert (thread_safety.guard.__wrapped__() is not None) is locks
    assert numba.config.THREADING_LAYER == layer


def test_pickled_kernel_with_a_cache_stage_runs() -> None:
    """``global`` is a keyword, but no name in source: that is A_global."""
    A = sl.placeholder((4, 8), name="A")
    B = sl.compute((4, 8), lambda i, j: A[i, j] * 2, name="B")
    s = sl.schedule(B)
    s[s.cache_read(A, "global", [B])].compute_at(s[B], B.op.axis[0])
    a = np.arange(32, dtype="float32").reshape(4, 8)
    twin = pickle.loads(pickle.dumps(sl.build(s, target="python")))
    np.testing.assert_array_equal(twin(a), 2 * a)
    assert "A.global" in str(twin.loop_nest)


def test_pickled_kernel_runs(kernel: Any) -> None:
    twin = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(twin(x, y), z)
    assert twin.source == kernel.source
    assert str(twin.loop_nest) == str(kernel.loop_nest)
    assert twin.schedule.to_json() == kernel.schedule.to_json()


def test_source_is_the_file_and_is_deterministic() -> None:
    X, Y, Z = axpy()
    first = sl.build(sl.schedule(Z), [X, Y, Z])
    X, Y, Z = axpy()
    second = sl.build(sl.schedule(Z), [X, Y, Z])
    assert Path(first.path).read_text() == first.source == second.source
    assert first.path == second.path


def test_python_target_shows_its_lines_in_a_traceback() -> None:
    A = sl.placeholder((4,), name="A")
    I = sl.placeholder((4,), "int64", name="I")  # noqa: E741
    B = sl.compute((4,), lambda i: A[I[i]], name="B")
    f = sl.build(sl.schedule(B), target="python")
    with pytest.raises(IndexError, match="load at offset 9 of A, an array of 4 el") as caught:
        f(x[:4], np.array([0, 1, 9, 2]))
    shown = "".join(traceback.format_exception(caught.value))
    assert f.path in shown and "load(A, load(I, i))" in shown


def test_saved_file_runs_without_schedlang(tmp_path: Path) -> None:
    X, Y, Z = axpy()
    s = sl.schedule(Z)
    outer, inner = s[Z].split(Z.op.axis[0], factor=4)
    s[Z].vectorize(inner)
    path = sl.build(s, [X, Y, Z]).save(tmp_path / "axpy.py")
    script = textwrap.dedent(
        """
        import sys, runpy
        import numpy as np
        sys.modules["schedlang"] = None
        f = runpy.run_path(sys.argv[1])["Z"]
        x = np.arange(7, dtype="float32")
        assert (f(x, np.ones(7, "float32")) == x * 2 + 1).all()
        try:
            f(x[:3], x)
        except TypeError as error:
            print(error)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "X must be a float32 array of shape (7,), got float32 of shape (3,)" in done.stdout


def test_saved_file_checks_what_it_is_given(tmp_path: Path) -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[n - 1 - i] + 1, name="B")
    module = runpy.run_path(str(sl.build(sl.schedule(B)).save(tmp_path / "k.py")))
    a = np.arange(6, dtype="float32")
    np.testing.assert_array_equal(module["B"](a), a[::-1] + 1)
    with pytest.raises(ValueError, match="B and A overlap"):
        module["B"](a, a)
    with pytest.raises(ValueError, match="B is read-only"):
        module["B"](a, np.frombuffer(bytes(24), "float32"))
    with pytest.raises(ValueError, match="A is strided"):
        module["B"](np.zeros(12, "float32")[::2])


def test_saved_file_finds_sizes_in_outputs(tmp_path: Path) -> None:
    n = sl.var("n")
    B = sl.compute((n,), lambda i: i * 2, name="B")
    module = runpy.run_path(str(sl.build(sl.schedule(B), [B]).save(tmp_path / "k.py")))
    np.testing.assert_array_equal(module["B"](np.empty(4, "int64")), [0, 2, 4, 6])
    with pytest.raises(TypeError, match="B must be given: no input determines n"):
        module["B"]()


class Copies:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.zeros(7, "float32")


def test_outputs_must_share_their_memory(kernel: Any) -> None:
    with pytest.raises(CallTypeError, match="is of type Copies, which does not share its memory"):
        kernel(x, y, Copies())
    np.testing.assert_array_equal(kernel(Copies(), y), y)
    with pytest.raises(CallTypeError, match="masked array"):
        kernel(np.ma.masked_array(x), y)
    f = sl.build(sl.schedule(sl.compute((), lambda: sl.const(4, "float32"), name="S")))
    with pytest.raises(CallTypeError, match="NumPy scalar, which cannot be written"):
        f(np.float32(0))


def test_sizes_are_not_negative() -> None:
    n = sl.var("n")
    A = sl.placeholder((n + 5,), name="A")
    C = sl.compute((n,), lambda i: A[i], name="C")
    f = sl.build(sl.schedule(C), target="python")
    with pytest.raises(CallError, match="n is -2 in dimension 0 of A, but sizes must be 0 or more"):
        f(np.zeros(3, "float32"))


@pytest.mark.parametrize("name", ["load", "exp", "range", "float32"])
def test_outputs_named_like_what_the_file_imports(name: str) -> None:
    X = sl.placeholder((8,), name="X")
    C = sl.compute((8,), lambda i: sl.exp(X[i]), name=name)
    for target in ("python", "cpu"):
        f = sl.build(sl.schedule(C), target=target)
        np.testing.assert_allclose(f(np.zeros(8, "float32")), 1)


@pytest.mark.slow
def test_second_process_loads_from_the_disk_cache(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import numpy as np, schedlang as sl
        A = sl.placeholder((33,), name="A")
        B = sl.compute((33,), lambda i: A[i] * 7, name="B")
        f = sl.build(sl.schedule(B))
        assert (f(np.ones(33, "float32")) == 7).all()
        import sys
        print("schedlang.runtime.llvm.printed" in sys.modules)
        """
    )
    env = {**os.environ, "SCHEDLANG_CACHE": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [r.stdout.split() for r in runs] == [["True"], ["False"]], runs[1].stderr


def test_compile_now_and_fastmath() -> None:
    X, Y, Z = axpy()
    f = sl.build(sl.schedule(Z), fastmath=True, name="scaled").compile()
    assert f.name == "scaled" and "fastmath=True" in f.source
    np.testing.assert_allclose(f(x, y), z)


def test_targets_and_names_are_checked() -> None:
    X, Y, Z = axpy()
    s = sl.schedule(Z)
    with pytest.raises(BuildError, match="unknown target 'tpu'"):
        sl.build(s, target="tpu")
    with pytest.raises(SchedlangError, match="cannot name a kernel"):
        sl.build(s, name="import os")
    with pytest.raises(LoweringError, match="Y is missing from the arguments"):
        sl.build(s, [X, Z])
    s[Z].bind(Z.op.axis[0], "threadIdx.x")
    with pytest.raises(BuildError, match="bound to threadIdx.x"):
        sl.build(s)
    assert sl.build(sl.schedule(Z), target="llvm").target.kind == "cpu"


def test_intermediate_among_the_arguments() -> None:
    A = sl.placeholder((5,), name="A")
    B = sl.compute((5,), lambda i: A[i] + 1, name="B")
    C = sl.compute((5,), lambda i: B[i] * 2, name="C")
    f = sl.build(sl.schedule(C), [A, B, C], target="python")
    b, c = f(x[:5])
    np.testing.assert_array_equal(b, x[:5] + 1)
    np.testing.assert_array_equal(c, (x[:5] + 1) * 2)


def test_cache_folder_that_cannot_be_written(monkeypatch: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SCHEDLANG_CACHE", str(blocked / "below"))
    X, Y, Z = axpy(9)
    with pytest.raises(BuildError, match="set SCHEDLANG_CACHE"):
        sl.build(sl.schedule(Z))


@pytest.mark.parametrize("factor", [None, 8])
def test_a_vector_around_more_loops_than_python_can_nest(factor: int | None) -> None:
    ks = [sl.reduce_axis(2 if q < 2 else 1, name=f"k{q}") for q in range(17)]
    A = sl.placeholder((20, *[k.extent for k in ks]), name="A")
    C = sl.compute((20,), lambda i: sl.sum(A[(i, *ks)], axis=ks), name="C")
    s = sl.schedule(C)
    lanes = C.op.axis[0]
    if factor is not None:
        # 8 does not divide 20, so the last vector is masked
        outer, lanes = s[C].split(lanes, factor=factor, tail="guard")
        s[C].reorder(outer, lanes, *[a for a in s[C].leaf_axes if a.is_reduce])
    s[C].vectorize(lanes)
    a = np.arange(80, dtype="float32").reshape(A.shape)
    found = sl.build(s, [A, C], target="python")(a)
    np.testing.assert_array_equal(found, a.reshape(20, -1).sum(1))


def test_too_many_unrolled_copies_are_refused() -> None:
    A = sl.placeholder((64, 64), name="A")
    C = sl.compute((64, 64), lambda i, j: A[i, j] + 1, name="C")
    s = sl.schedule(C)
    for axis in C.op.axis:
        s[C].unroll(axis)
    with pytest.raises(BuildError, match="4096 copies of the body, which would not compile"):
        sl.build(s, [A, C])


@pytest.mark.parametrize("target", ["cpu", "c", "python"])
def test_too_many_statements_are_refused(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loop has few copies, but there are many loops."""
    A = sl.placeholder((30, 60), name="A")
    B = sl.compute((30, 60), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((30, 60), lambda i, j: B[i, j] * B[29 - i, j], name="C")
    s = sl.schedule(C)
    for tensor in (B, C):
        s[tensor].unroll(tensor.op.axis[1])
    monkeypatch.setattr("schedlang.machine.loops.statement_count.MOST_STATEMENTS", 122)
    with pytest.raises(BuildError, match="kernel C: .* it has 123 statements"):
        sl.build(s, [A, C], target=target)
    monkeypatch.setattr("schedlang.machine.loops.statement_count.MOST_STATEMENTS", 123)
    x = np.ones((30, 60), "float32")
    np.testing.assert_array_equal(sl.build(s, [A, C], target="python")(x), 4 * x)


def test_the_unchecked_entry_inside_compiled_code():
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2 + 1, name="B")
    f = sl.build(sl.schedule(B), [A, B])
    step = f.unchecked

    @numba.njit
    def three_times(a, b):
        for _ in range(3):
            step(a, b, a.size)
            for k in range(a.size):
                a[k] = b[k]

    a = np.arange(5, dtype="float32")
    three_times(a, np.empty_like(a))
    np.testing.assert_array_equal(a, np.arange(5) * 8 + 7)


def test_storage_in_an_unrolled_loop_is_allocated_once() -> None:
    """One array per copy would be four times the storage of the nest."""
    A = sl.placeholder((66,), name="A")
    B = sl.compute((66,), lambda i: A[i] * 2, name="B")
    C = sl.compute((64,), lambda i: B[i] + B[i + 2], name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], nparts=4)
    s[C].unroll(outer)
    s[B].compute_at(s[C], outer)
    s[B].set_scope("local")
    f = sl.build(s, [A, C])
    assert f.source.count("stack_array(18") == 1
    a = np.arange(66, dtype="float32")
    np.testing.assert_array_equal(f(a), a[:64] * 2 + a[2:] * 2)


def test_the_source_is_available_where_its_file_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "file" / "cache"))
    X, Y, Z = axpy()
    f = unwritten_kernel(sl.schedule(Z), [X, Y, Z], sl.Target())
    assert "def Z" in f.source
    for needs_it in (lambda: f(x, y), lambda: f.path):
        with pytest.raises(BuildError, match="cache folder .* cannot be created"):
            needs_it()
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    np.testing.assert_array_equal(f(x, y), z)


def test_a_failed_write_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*paths: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "replace", full)
    X, Y, Z = axpy()
    with pytest.raises(BuildError, match="No space left on device"):
        sl.build(sl.schedule(Z), [X, Y, Z]).compile()
    assert list((tmp_path / "kernels").iterdir()) == []


@pytest.mark.parametrize("target", ["cpu", "python", "cuda-emulator"])
def test_a_size_in_no_shape_is_checked(target: str) -> None:
    """A size that is only an argument is checked at the call, since all shapes are fixed."""
    n, A = sl.var("n"), sl.placeholder((4, 64), name="A")
    k = sl.reduce_axis(n, name="k")
    S = sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k), name="S")

    def bound(output: sl.Tensor) -> sl.Schedule:
        s = sl.schedule(output)
        if target == "cuda-emulator":
            s[output].bind(output.op.axis[0], "threadIdx.x")
        return s

    f, a = sl.build(bound(S), [A, n, S], target=target), np.ones((4, 64), "float32")
    np.testing.assert_array_equal(f(a, 5), np.full(4, 5))
    with pytest.raises(CallError, match="cannot run where n=65"):
        f(a, 65)
    B = sl.compute((16,), lambda i: sl.if_then_else(i + n < 16, A[0, i + n], 0.0), name="B")
    g = sl.build(bound(B), [A, n, B], target=target)
    assert g(a, 3).sum() == 13
    with pytest.raises(CallError, match="n is -3 in its own argument, but sizes must be 0 or more"):
        g(a, -3)


def test_a_saved_kernel_refuses_a_negative_size(tmp_path: Path) -> None:
    n, A = sl.var("n"), sl.placeholder((16,), name="A")
    B = sl.compute((16,), lambda i: sl.if_then_else(i + n < 16, A[i + n], 0.0), name="B")
    path = sl.build(sl.schedule(B), [A, n, B]).save(tmp_path / "k.py")
    saved, a = runpy.run_path(str(path))["B"], np.ones(16, "float32")
    assert saved(a, 3).sum() == 13
    with pytest.raises(ValueError, match="n is -3, but sizes must be 0 or more"):
        saved(a, -3)


def test_a_scalar_that_is_too_large_for_its_dtype() -> None:
    alpha, (X, _, _) = sl.var("alpha", dtype="float32"), axpy()
    B = sl.compute((7,), lambda i: X[i] * alpha, name="B")
    f = sl.build(sl.schedule(B), [X, alpha, B], target="python")
    for value in (10**39, 1e39, 10**400):
        with pytest.raises(CallTypeError, match="cannot hold"):
            f(x, value)
    assert np.isinf(f(x + 1, float("inf"))).all()


@pytest.mark.parametrize("name", slow_but(["types"], ["ir", "types", "signature", "_array"]))
def test_an_output_named_like_a_name_of_its_file(name: str, tmp_path: Path) -> None:
    X, Y, _ = axpy()
    Z = sl.compute((7,), lambda i: sl.exp(X[i]) + Y[i], name=name)
    s = sl.schedule(Z)
    s[Z].vectorize(Z.op.axis[0])
    path = sl.build(s, [X, Y, Z]).save(tmp_path / "k.py")
    f, a = runpy.run_path(str(path))[f"{name}_"], np.ones(7, "float32")
    np.testing.assert_allclose(f(a, a), np.e + 1, rtol=1e-6)


def test_every_name_of_a_saved_file_is_reserved() -> None:
    assert set(read_library().imports) <= SAVED | RESERVED | set(NAMES)


@pytest.mark.parametrize("length", [100, 300, 500])
@pytest.mark.parametrize("target", ["cpu", "python", "cuda-emulator"])
def test_a_long_name_makes_a_short_file_name(length: int, target: str) -> None:
    A = sl.placeholder((8,), name="A" * length)
    C, D = (sl.compute((8,), lambda i, k=k: A[i] * k, name="C" * length) for k in (2, 3))
    for factor, tensor in ((2, C), (3, D)):
        s = sl.schedule(tensor)
        if target == "cuda-emulator":
            s[tensor].bind(tensor.op.axis[0], sl.thread_axis("threadIdx.x"))
        f = sl.build(s, target=target)
        assert f.name == "C" * length and len(Path(f.path).name) < 100
        assert sl.build(s, target=target).path == f.path
        np.testing.assert_array_equal(f(np.ones(8, "float32")), np.full(8, factor, "float32"))


def test_a_longer_name_is_refused() -> None:
    with pytest.raises(ComputeError, match=r"501 characters \(A{20}\.{3}\) cannot name a placeh"):
        sl.placeholder((8,), name="A" * 501)
    A = sl.placeholder((8,), name="A")
    s = sl.schedule(sl.compute((8,), lambda i: A[i], name="C"))
    with pytest.raises(ComputeError, match="cannot name a kernel.*at most 500 characters"):
        sl.build(s, name="k" * 501)
