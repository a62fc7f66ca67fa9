"""Tests of the te module: whole programs, each name, and refusals."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
import schedlang as tvm
from schedlang import te
from schedlang.errors import (
    BuildError,
    CallError,
    CallTypeError,
    ComputeError,
    ComputeTypeError,
    SchedlangError,
    ScheduleError,
)  # fmt: skip
from schedlang.tvm.aliases import FACES
from tests.marks import slow_but

PROGRAMS = sorted(Path(__file__).with_name("te_programs").glob("*.py"))
# each of the others takes seconds to compile
QUICK = ("get_started", "gpu_scan", "intrin_math", "scan", "tensorize", "tuple_inputs")
# files of tvm/ that modules there have names of
PARTS = ("buffers", "extern", "extern_calls", "imported_objects", "intrinsic_calls",
         "ir_builder", "matrix_intrinsics", "packed", "te_dtypes", "te_schedule",
         "tensor_intrin")  # fmt: skip
GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "porting-from-te.md"


@pytest.mark.parametrize("program", slow_but(QUICK, PROGRAMS, lambda p: p.stem))
def test_program_of_te_runs(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")
    np.random.seed(0)
    runpy.run_path(str(program), run_name="__main__")
    printed = capsys.readouterr().out
    assert "for " in printed and "TODO" not in printed


def test_programs_import_nothing_else() -> None:
    for program in PROGRAMS:
        text = program.read_text().splitlines()
        lines = [line for line in text if re.match(r"(import|from) ", line)]
        ours = [line for line in lines if "schedlang" in line]
        assert ours[:1] == ["import schedlang as tvm"] and "from schedlang import te" in ours
        assert set(ours[1:]) <= {
            "import schedlang.testing", "from schedlang import te", "from schedlang import topi",
            "from schedlang import autotvm", "from schedlang import auto_scheduler",
            "from schedlang.contrib import cblas", "from schedlang.contrib import nvcc",
            "from schedlang.topi.utils import get_const_tuple",
        }  # fmt: skip


def value(fcompute: Callable[..., Any], *arrays: np.ndarray, shape: Any = None) -> np.ndarray:
    """Evaluate ``te.compute`` of ``fcompute(tensors, i)`` for 1-d ``arrays``."""
    tensors = [te.placeholder(a.shape, a.dtype, f"X{k}") for k, a in enumerate(arrays)]
    T = te.compute(shape or arrays[0].shape, lambda i: fcompute(*tensors, i), name="T")
    s = te.create_schedule(T.op)
    return np.asarray(tvm.build(s, [*tensors, T], "python")(*arrays))


REALS = np.array([-2.5, -1.5, -0.75, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5], "float32")
WHOLE = np.array([-7, -6, -1, 0, 1, 5, 7, 8, 123, -128], "int32")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("exp", np.exp), ("tanh", np.tanh), ("sin", np.sin), ("cos", np.cos), ("tan", np.tan),
        ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc),
        ("nearbyint", np.rint), ("abs", np.abs), ("atan", np.arctan), ("sinh", np.sinh),
        ("cosh", np.cosh), ("exp2", np.exp2), ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ],
)  # fmt: skip
def test_function_of_any_number(name: str, expected: Callable[[Any], Any]) -> None:
    got = value(lambda X, i: getattr(te, name)(X[i]), REALS)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected(REALS), rtol=1e-6)


def test_round_takes_ties_away_from_zero() -> None:
    x = np.array([0.5, -0.5, 1.5, -2.5, 0.49999997, 8388609.0, np.inf, np.nan, 2.25], "float32")
    expected = np.array([1, -1, 2, -3, 0, 8388609, np.inf, np.nan, 2], "float32")
    np.testing.assert_array_equal(value(lambda X, i: te.round(X[i]), x), expected)


@pytest.mark.parametrize(
    "name", ["log", "log2", "log10", "sqrt", "rsqrt", "erf", "isnan", "isfinite"]
)
def test_function_of_positive_numbers(name: str) -> None:
    import math

    x = np.abs(REALS) + np.float32(0.25)
    known = {"rsqrt": lambda v: 1 / np.sqrt(v), "erf": np.vectorize(math.erf)}
    expected = known.get(name) or getattr(np, name)
    np.testing.assert_allclose(
        value(lambda X, i: getattr(te, name)(X[i]), x), expected(x), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("divisor", [3, -3])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("truncdiv", lambda a, b: np.trunc(a / b).astype("int32")),
        ("truncmod", np.fmod), ("fmod", np.fmod), ("floordiv", np.floor_divide),
        ("floormod", np.mod), ("indexdiv", np.floor_divide), ("indexmod", np.mod),
        ("div", lambda a, b: np.trunc(a / b).astype("int32")),
    ],
)  # fmt: skip
def test_integer_division(name: str, divisor: int, expected: Callable[..., Any]) -> None:
    got = value(lambda X, i: getattr(te, name)(X[i], divisor), WHOLE)
    np.testing.assert_array_equal(got, expected(WHOLE, divisor))


def test_division_of_axes_needs_no_check() -> None:
    T = te.compute((12,), lambda i: te.truncdiv(i, 4) + te.truncmod(i, 4), name="T")
    assert "select" not in str(te.create_schedule(T.op))
    got = tvm.build(te.create_schedule(T.op), [T], "python")()
    np.testing.assert_array_equal(got, np.arange(12) // 4 + np.arange(12) % 4)


def test_division_of_floats() -> None:
    np.testing.assert_array_equal(value(lambda X, i: te.div(X[i], 2), REALS), REALS / 2)
    np.testing.assert_allclose(value(lambda X, i: te.fmod(X[i], 1), REALS), np.fmod(REALS, 1))
    with pytest.raises(ComputeTypeError, match="is float32, not an integer"):
        value(lambda X, i: te.truncdiv(X[i], 2), REALS)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint16", "uint64"])
def test_popcount(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, 1, 2, 3, 100, info.max, info.max - 1, info.min], dtype)
    bits = 8 * x.itemsize
    expected = [bin(int(v) % (1 << bits)).count("1") for v in x]
    got = value(lambda X, i: te.popcount(X[i]), x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, expected)


def test_operands_and_limits() -> None:
    ones = np.ones(10, "float32")
    np.testing.assert_array_equal(
        value(lambda X, Y, i: te.max(X[i], Y[i], te.const(0.5)), REALS, -REALS),
        np.maximum(np.abs(REALS), 0.5),
    )
    np.testing.assert_array_equal(value(lambda X, i: te.min(X[i], 1), REALS), np.minimum(REALS, 1))
    np.testing.assert_array_equal(value(lambda X, i: te.power(X[i], 2), REALS), REALS**2)
    np.testing.assert_array_equal(value(lambda X, i: te.sum(X[i], X[i]), ones), 2 * ones)
    assert te.min_value("int8").value == -128 and te.max_value("uint16").value == 65535
    assert te.min_value("float32").value == np.finfo("float32").min
    assert te.infinity("float64").value == np.inf and te.const(3, "float32").value == 3.0
    assert tvm.tir.IntImm("int32", 4).value == 4
    assert tvm.tir.FloatImm("float32", 0.5).dtype == "float32"
    assert tvm.tir.Cast("float", tvm.tir.const(1)).dtype == "float32"


def test_conditions() -> None:
    got = value(
        lambda X, i: te.if_then_else(te.all(i >= 1, i < 9), X[i - 1], tvm.tir.const(0.0)), REALS
    )
    np.testing.assert_array_equal(got, np.concatenate([[0], REALS[:8], [0]]))
    got = value(lambda X, i: tvm.tir.Select(te.any(X[i] < -1, X[i] > 1), X[i], 0.0), REALS)
    np.testing.assert_array_equal(got, np.where(np.abs(REALS) > 1, REALS, 0))


def test_values_without_a_tensor_have_the_dtypes_of_te() -> None:
    kinds = {
        "int32": lambda i: i * 2, "float32": lambda i: 0.5, "bool": lambda i: i < 2,
    }  # fmt: skip
    for dtype, fcompute in kinds.items():
        assert te.compute((4,), fcompute, name="T").dtype == dtype
    k = te.reduce_axis((0, 4), "k")
    assert te.compute((), lambda: te.sum(k, axis=k), name="T").dtype == "int32"
    A = te.placeholder((4,), "float16", "A")
    assert te.compute((4,), lambda i: A[i] * 0.5 + i, name="T").dtype == "float16"
    assert te.placeholder((4,), "float").dtype == "float32"
    assert te.placeholder((4,), "int").dtype == "int32"


def test_extents_may_be_integral_floats() -> None:
    assert te.placeholder((64 / 16, np.float64(8)), name="A").shape == (4, 8)
    assert te.compute((64 / 16,), lambda i: i, name="B").shape == (4,)
    assert te.reduce_axis((0, 64 / 16), "k").extent == 4
    with pytest.raises(ComputeError, match=r"dimension of placeholder A is 2\.5"):
        te.placeholder((5 / 2,), name="A")


def test_variables() -> None:
    assert te.var("n").is_size and te.size_var("n", "int64").is_size
    assert te.var("alpha", "float32").dtype == "float32" and not te.var("x", "float32").is_size
    assert te.var().name.startswith("tindex") and te.var().name != te.var().name


def test_thread_axis_forms() -> None:
    for axis in (te.thread_axis("threadIdx.x"), te.thread_axis(tag="threadIdx.x", name="tx")):
        assert (axis.tag, axis.extent, axis.kind) == ("threadIdx.x", 0, "thread")
    assert te.thread_axis((0, 64), "threadIdx.x").extent == 64
    assert te.thread_axis((0, 2), "vthread", name="vx").tag == "vthread"
    assert te.thread_axis("vthread").tag == "vthread"
    with pytest.raises(ComputeError, match="'threadIdx' is not a thread"):
        te.thread_axis("threadIdx")
    with pytest.raises(ComputeTypeError, match=r"give \(0, extent\)"):
        te.thread_axis((1, 64), "threadIdx.x")


def test_thread_axis_forms_under_the_name_of_schedlang() -> None:
    for axis in (
        sl.thread_axis((0, 64), "threadIdx.x"), sl.thread_axis(64, "threadIdx.x"),
        sl.thread_axis("threadIdx.x", 64), sl.thread_axis(tag="threadIdx.x", dom=(0, 64)),
    ):  # fmt: skip
        assert (axis.tag, axis.extent) == ("threadIdx.x", 64)
    with pytest.raises(ComputeError, match="'x' is not a thread; choose one of blockIdx.x"):
        sl.thread_axis((0, 4), "x")
    for wrong in (0, -1, True, 2.5, (1, 4), (0, 4, 2), "threadIdx.y", sl.var("n")):
        with pytest.raises(ComputeTypeError, match=r"give \(0, extent\) or an extent"):
            sl.thread_axis("threadIdx.x", wrong)


def test_extent_of_a_thread_axis_is_checked() -> None:
    A = te.placeholder((256,), name="A")
    B = te.compute((256,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=64)
    with pytest.raises(ScheduleError, match="64 iterations, but threadIdx.x has 32 threads"):
        s[B].bind(tx, te.thread_axis((0, 32), "threadIdx.x"))
    s[B].bind(tx, te.thread_axis((0, 64), "threadIdx.x"))


def test_names_of_axes_come_from_the_lambda() -> None:
    A = te.placeholder((4, 5), name="A")
    B = te.compute(A.shape, lambda row, col: A[row, col], name="B", tag="copy", attrs={"x": 1})
    C = te.compute(A.shape, lambda *i: B(*i) + 1, name="C")
    assert [a.name for a in B.op.axis] == ["row", "col"] and C.op.axis[1].name == "i1"
    assert B.op.input_tensors == [A] and C.op.output(0) is C and A.shape[0] == 4


def test_predicate_over_a_thread_axis_is_recorded() -> None:
    A = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(k, tx)
    s[B].set_store_predicate(tx.var.equal(0))
    assert str(tvm.Schedule.from_json(s.to_json(), B)) == str(s)


def test_pragma_and_groups_of_ops() -> None:
    A = te.placeholder((8,), name="A")
    with te.tag_scope("injective"):
        B = te.compute((8,), lambda i: A[i] + 1, name="B")
    C = te.compute((8,), lambda i: A[i] + 2, name="C")
    s = te.create_schedule([B.op, C.op])
    s[B].pragma(B.op.axis[0], "auto_unroll_max_step", 16)
    assert s.outputs == (B, C) and "auto_unroll_max_step" in str(tvm.lower(s, [A, B, C]))


def vector_sum() -> tuple[Any, list[Any]]:
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: A[i] + 1, name="B")
    return te.create_schedule(B.op), [A, B]


def test_lower_and_build_take_the_options_of_te() -> None:
    s, args = vector_sum()
    nest = tvm.lower(s, args, simple_mode=True, name="plus_one")
    assert str(nest).startswith("plus_one(A: float32[6]) -> B: float32[6]")
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
        f = tvm.build(s, args, target="llvm", target_host="llvm", name="plus_one")
    assert f.entry_name == "plus_one" and f["plus_one"] is f.get_function("plus_one") is f
    assert "def plus_one(" in f.get_source() == f.imported_modules[0].get_source()
    with pytest.raises(BuildError, match="no function 'other'"):
        f["other"]
    with pytest.raises(BuildError, match="no source in that format"):
        f.get_source("asm")
    with pytest.raises(BuildError, match=r"a library ends in \.so"):
        f.export_library("k.tar")


def test_time_evaluator() -> None:
    s, args = vector_sum()
    f = tvm.build(s, args, "llvm", name="timed")
    a, b = tvm.nd.array(np.zeros(6, "float32")), tvm.nd.empty((6,))
    times = f.time_evaluator(f.entry_name, tvm.cpu(0), number=2, repeat=3, min_repeat_ms=1)(a, b)
    assert len(times.results) == 3 and 0 < times.min <= times.median <= times.max
    assert times.min <= times.mean <= times.max and times.std >= 0
    np.testing.assert_array_equal(b.numpy(), 1)


def test_arrays() -> None:
    start = np.arange(6, dtype="float64").reshape(2, 3)
    a = tvm.nd.array(start, tvm.cpu(0))
    start[0, 0] = 9
    assert a.shape == (2, 3) and a.dtype == "float64" and a.ndim == 2 and len(a) == 2
    assert a.numpy()[0, 0] == 0 and a.asnumpy() is not a.numpy()
    a[:] = 5
    b = tvm.nd.empty((2, 3), "float64", tvm.cpu(0))
    assert a.copyto(b) is b and b[1, 2] == 5
    assert b.copyfrom(np.zeros((2, 3))).numpy().sum() == 0
    assert a.copyto(tvm.cpu(0)).same_as(a) is False
    assert np.shares_memory(np.asarray(a), np.from_dlpack(a))
    assert np.shares_memory(np.asarray(tvm.nd.from_dlpack(start)), start)
    assert np.asarray(a, dtype="float32").dtype == np.float32 and "cpu(0)" in repr(a)
    with pytest.raises(CallError, match=r"shape \(3,\), expected \(2, 3\)"):
        b.copyfrom(np.zeros(3))
    with pytest.raises(CallTypeError, match="copyto"):
        a.copyto("cpu")  # type: ignore[arg-type]


def test_devices_and_targets() -> None:
    assert str(tvm.cpu(0)) == "cpu(0)" and tvm.cpu().exist and tvm.cpu() == tvm.device("llvm", 0)
    assert tvm.cuda(1) == tvm.device("cuda", 1) == tvm.gpu(1) and tvm.cuda().device_type == 2
    assert tvm.device("llvm -libs=mkl").device_id == 0
    target = tvm.target.Target("llvm -num-cores=4")
    assert tvm.device(target, 0) == tvm.device(target.kind.name, 0) == tvm.cpu(0)
    assert tvm.target.Target(target="cuda", host="llvm").kind.name == "cuda"
    assert tvm.runtime.enabled("llvm") and not tvm.runtime.enabled("rocm")
    other = tvm.device("opencl", 0)
    assert (str(other), other.device_type, other.exist) == ("opencl(0)", 4, False)
    with pytest.raises(CallError, match=r"opencl\(0\).*ask device\.exist before"):
        tvm.nd.array(np.zeros(3), other)
    with pytest.raises(CallError, match="'opencll'"):
        tvm.device("opencll", 0)


def test_cuda_exists_under_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")
    assert tvm.cuda(0).exist and tvm.runtime.enabled("cuda")
    # no toolkit of today builds for a GPU of 2010
    assert tvm.runtime.enabled("nvptx") and not tvm.runtime.enabled("nvptx -mcpu=sm_20")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: tvm.tir.call_intrin("float32", "tir.exp", x), np.exp),
        (lambda x: tvm.tir.call_intrin("float32", "tir.fabs", x), np.abs),
        (lambda x: tvm.tir.call_pure_extern("float32", "__expf", x), np.exp),
        (lambda x: tvm.tir.call_pure_extern("float32", "rint", x * 3), lambda x: np.rint(x * 3)),
        (lambda x: tvm.tir.call_pure_extern("float32", "powf", x, x), lambda x: np.power(x, x)),
        (lambda x: tvm.tir.call_intrin("float32", "tir.pow", x, x), lambda x: np.power(x, x)),
        (
            lambda x: tvm.tir.call_intrin("float32", "tir.if_then_else", x > 0.5, x, -x),
            lambda x: np.where(x > 0.5, x, -x),
        ),
    ],
)
def test_functions_by_their_names_in_tvm(call: Any, expected: Any) -> None:
    A = te.placeholder((13,), name="A")
    B = te.compute((13,), lambda i: call(A[i]), name="B")
    a = np.random.default_rng(0).random(13, "float32") + np.float32(0.1)
    f = tvm.build(te.create_schedule(B.op), [A, B], target="python")
    np.testing.assert_allclose(f(a), expected(a), rtol=1e-6)


def test_assert_allclose() -> None:
    tvm.testing.assert_allclose(np.ones(3), np.ones(3) + 1e-8)
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.ones(3), np.ones(3) + 1e-3)
    with pytest.raises(AssertionError, match="shapes differ"):
        tvm.testing.assert_allclose(np.ones(3), np.ones(1))


@pytest.mark.parametrize(
    ("reach", "hint"),
    [
        (lambda: te.tensorize, r"te\.decl_tensor_intrin"),
        (lambda: te.TensorIntrin, r"te\.decl_tensor_intrin"),
        (lambda: tvm.tir.call_llvm_pure_intrin, r"sl\.instruction"),
        (lambda: tvm.tir.call_intrin("int32x16", "llvm.x86.vpdpbusd"), r"sl\.instruction"),
        (lambda: tvm.tir.call_intrin("float32", "tir.exq", 1.0), r"did you mean 'exp'"),
        (lambda: tvm.tir.call_intrin("int32", "tir.exp", te.var("x", "float32")), "is float32"),
        (lambda: tvm.tir.call_intrin("int32", "tir.exp", 1.0), "is float64"),
        (lambda: te.hybrid.script, r"sl\.jit"),
        (lambda: te.create_prim_func, r"te\.create_schedule"),
        (lambda: tvm.topi.argwhere, r"topi\.argwhere: .*\n.*topi.where"),
        (lambda: tvm.relay, "models"),
        (lambda: tvm.runtime.load_module("x.so"), r"load_module.*the file does not exist"),
        (lambda: tvm.runtime.Module, r"runtime\.Module: .*\n.*tvm\.build"),
        (lambda: tvm.target.rocm(), r"tvm\.target\.rocm: .*\n.*Target\(\"llvm\"\)"),
        (lambda: tvm.transform.Sequential([]), r"transform\.Sequential: .*\n.*tvm\.lower"),
        (lambda: tvm.autotvm.RPCRunner, "sl.autotune"),
        (lambda: tvm.contrib.graph_executor, r"sl\.frontend"),
        (lambda: tvm.IRModule, r"tvm\.lower"),
        (lambda: tvm.tir.call_tir, r"te\.exp"),
        (lambda: tvm.tir.call_pure_extern("float32", "expp", 1.0), r"did you mean 'exp'"),
        (
            lambda: tvm.tir.call_pure_extern("int32", "expf", te.var("x", "float32")),
            r"call_pure_extern\('int32', 'expf', \.\.\.\): the result is float32",
        ),
        (lambda: tvm.auto_scheduler._ffi_api, r"sl\.autotune"),
        (lambda: tvm.tir.For, r"tvm\.tir\.For: statements.*\n.*ir_builder"),
        (lambda: tvm.tir.Add, r"te\.max\(a, b\)"),
        (lambda: tvm.tir.transform.Simplify(), r"tvm\.lower"),
        (lambda: tvm.tir.analysis.estimate_tir_flops, r"sl\.cost\(C\)\.flops"),
        (lambda: tvm.tir.IterVar, r"te\.thread_axis"),
        (lambda: tvm.ir.IRModule, r"tvm\.ir\.IRModule: .*\n.*tvm\.lower"),
        (lambda: tvm.ir.register_intrin_lowering, r"tvm\.ir\..*\n.*te\.exp"),
        (lambda: te.schedule.InferBound, r"te\.schedule\.Infer.*\n.*tvm\.lower"),
        (lambda: te.operation.ComputeOp, r"te\.ComputeOp"),
        (lambda: tvm.opencl(), r"NVIDIA GPUs\n.*tvm\.cuda\(\)"),
        (lambda: tvm.get_global_func("f"), r"tvm\.register_func"),
    ],
)  # fmt: skip
def test_unsupported_names_give_advice(reach: Callable[[], Any], hint: str) -> None:
    with pytest.raises(SchedlangError, match=hint):
        reach()


def test_tensorize_of_another_object_is_refused() -> None:
    s, (_, B) = vector_sum()
    before = str(s)
    with pytest.raises(ScheduleError, match="is not an instruction\n  Declare one: sl.instruction"):
        s[B].tensorize(B.op.axis[0], object())
    assert str(s) == before


def test_unknown_names_are_refused() -> None:
    for module in (tvm, te, tvm.tir, tvm.ir, tvm.nd):
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            module.nonsense  # noqa: B018
    with pytest.raises(SchedlangError, match="graphs of models"):
        from schedlang import relay  # type: ignore[attr-defined] # noqa: F401


def test_exported_names_exist() -> None:
    for module in (te, tvm.tir, tvm.nd, tvm.testing, tvm.topi, tvm.transform):
        assert all(hasattr(module, name) for name in module.__all__)


def test_names_of_te_load_on_demand() -> None:
    script = (
        "import sys, schedlang\n"
        "loaded = {m for m in sys.modules if m.startswith('schedlang.tvm.')}\n"
        "assert loaded == {'schedlang.tvm.aliases'}, loaded\n"
        "schedlang.te.placeholder; schedlang.nd.array; assert 'numba' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SPELLINGS = (
    "import schedlang.{0}; found = schedlang.{0}",
    "import schedlang.{0} as found",
    "import schedlang as tvm; found = tvm.{0}",
    "from schedlang import {0} as found",
    "from schedlang.tvm import {0} as found",
    "from importlib import import_module; found = import_module('schedlang.{0}')",
)


@pytest.mark.parametrize("spelling", slow_but(SPELLINGS[1:2], SPELLINGS))
def test_each_spelling_of_an_import_gives_one_module(spelling: str) -> None:
    lines = [f"{spelling.format(face)}; faces.append(found)" for face in FACES]
    for face in FACES:
        lines += [f"from schedlang.{face} import *", f"import schedlang.tvm.{face} as real"]
        lines += ["import schedlang", f"assert faces.pop(0) is real is schedlang.{face}"]
        lines += [f"import sys; assert sys.modules['schedlang.{face}'] is real"]
        lines += ["assert not [n for n in real.__all__ if globals()[n] is not getattr(real, n)]"]
    script = "\n".join(["faces = []", *lines])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_each_face_is_an_alias_with_a_stub() -> None:
    folder = Path(tvm.__file__).parent
    modules = {path.stem for path in (folder / "tvm").glob("*.py")}
    modules |= {path.parent.name for path in (folder / "tvm").glob("*/__init__.py")}
    assert modules - {"__init__", "aliases", "names", *PARTS} == set(FACES)
    assert {path.stem for path in folder.glob("*.pyi")} == {"__init__", *FACES}
    stub = (folder / "__init__.pyi").read_text(encoding="utf-8")
    assert all(f"from schedlang import {face} as {face}\n" in stub for face in FACES)
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        import_module("schedlang.te.nothing")


def test_guide_shows_code_that_runs_only() -> None:
    """Its blocks run in tests/test_docs.py."""
    fences = re.findall(r"^```(\w*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(fences[::2]) <= {"python", "diff", "text"} and set(fences[1::2]) == {""}

    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: A[i] + 1, name="B")
    C = te.compute((6,), lambda i: B[i] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    a, b, c = (np.zeros(6, "float32") for _ in range(3))
    tvm.build(s, [A, B, C], "python")(a, b, c)
    assert (b == 1).all() and (c == 2).all()


def test_build_uses_the_enclosing_target() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    assert tvm.target.Target.current() is None
    with tvm.target.Target("cuda") as around:
        s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
        assert tvm.target.Target.current(allow_none=False) is around
        assert (around.max_num_threads, around.thread_warp_size) == (1024, 32)
        with tvm.target.Target("llvm"):
            assert tvm.target.Target.current().kind == "cpu"
        assert tvm.build(s, [A, B]).target == around
    assert tvm.target.Target.current() is None
    with pytest.raises(SchedlangError, match="call it inside `with Target"):
        tvm.target.Target.current(allow_none=False)
