"""Names of TVM that programs use: old ones with a warning, absent ones with a sentence."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
import schedlang as tvm
from schedlang import te, topi
from schedlang.errors import (
    BuildError,
    CallTypeError,
    ComputeError,
    ComputeTypeError,
    MissingModuleError,
    SchedlangError,
    ScheduleError,
    UnknownNameError,
)

A = te.placeholder((12,), name="A")
B = te.compute((12,), lambda i: A[i] + 1, name="B")
C = te.compute((12,), lambda i: B[i] * 2, name="C")
VALUES = np.arange(12, dtype="float32")


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("relay", "operators of topi"), ("relay.testing", "operators of topi"), ("rpc", "f.save"),
        ("contrib.mxnet", "sl.frontend"), ("contrib.graph_executor", "sl.frontend"),
        ("contrib.download", "urllib"), ("te.hybrid", "@sl.jit"), ("tir.stmt_functor", "tvm.lower"),
        ("driver.build_module", "tvm.build"), ("script", "te.compute"), ("micro", "this machine"),
        ("ir.transform", "tvm.lower"), ("tir.transform", "lower"),
    ],
)  # fmt: skip
def test_an_import_of_an_absent_module_says_so(module: str, hint: str) -> None:
    with pytest.raises(MissingModuleError, match="^import schedlang") as refusal:
        import_module(f"schedlang.{module}")
    assert hint in str(refusal.value) and isinstance(refusal.value, ImportError)


def test_the_driver_has_the_names_of_lower_and_build() -> None:
    f = tvm.driver.build(te.create_schedule(C.op), [A, C], "python")
    assert np.array_equal(f(VALUES), (VALUES + 1) * 2)
    assert import_module("schedlang.driver").lower is tvm.lower
    with pytest.raises(SchedlangError, match="steps have no names.*\n  Use tvm.lower"):
        tvm.driver.build_module.build()


@pytest.mark.parametrize("module", ["nothing", "contrib.nothing", "te.nothing", "topi.nn.nothing"])
def test_an_import_of_an_unknown_module_fails_as_usual(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named") as refusal:
        import_module(f"schedlang.{module}")
    assert not isinstance(refusal.value, SchedlangError)


OLD: dict[str, Callable[[], Any]] = {
    "tvm.context": lambda: (tvm.context("llvm", 0), tvm.nd.cpu()),
    "tvm.build_config": lambda: tvm.build_config(auto_unroll_max_step=16).config,
    "tvm.target.create": lambda: tvm.target.create("llvm"),
    "tvm.nd.array": lambda: tvm.nd.array(VALUES, ctx=tvm.cpu(0)),
    "tvm.nd.empty": lambda: tvm.nd.empty((3,), ctx=tvm.cpu(0)),
    "time_evaluator": lambda: tvm.build(te.create_schedule(C.op), [A, C], "python")
    .time_evaluator("main", ctx=tvm.cpu(0), number=1)(VALUES, VALUES * 0),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_an_old_name_works_with_a_warning(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"{name}.* is an old name of TVM") as told:
        OLD[name]()
    assert [w.filename for w in told] == [__file__]


def test_the_old_name_of_a_module_works_with_a_warning() -> None:
    for old, new in (("topi.util", topi.utils), ("contrib.util", tvm.contrib.utils)):
        with pytest.warns(DeprecationWarning, match=f"tvm.{old} is an old name"):
            assert import_module(f"schedlang.{old}") is new
    assert tvm.contrib.util is tvm.contrib.utils and topi.util is topi.utils


def test_a_device_has_one_name_in_a_call() -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(CallTypeError, match="give device= alone"):
        tvm.nd.array(VALUES, device=tvm.cpu(), ctx=tvm.cpu())
    assert tvm.nd.array(VALUES).ctx == tvm.cpu()


def test_convert() -> None:
    n = tvm.convert(12)
    assert (n.value, tvm.runtime.convert([1, 2.5])[1].value) == (12, 2.5)
    assert tvm.convert(A) is A and tvm.convert("x") == "x" and tvm.convert({"a": 1})["a"].value == 1
    D = te.compute((n,), lambda i: A[i] * tvm.convert(2), name="D")
    assert (D.shape, D.dtype) == ((12,), "float32")
    np.testing.assert_array_equal(tvm.build(te.create_schedule(D.op))(VALUES), VALUES * 2)
    with pytest.raises(ComputeTypeError, match="a set has no order"):
        tvm.convert({1, 2})


def test_kinds_of_nodes() -> None:
    n = te.var("n")
    X = te.placeholder((n, 3), name="X")
    assert isinstance(tvm.tir.IntImm("int32", 3), tvm.tir.IntImm)
    assert not isinstance(3, tvm.tir.IntImm) and not isinstance(n, tvm.tir.IntImm)
    assert isinstance(te.const(0.5), tvm.tir.FloatImm) and isinstance(n, tvm.tir.Var)
    assert isinstance(X.op, te.PlaceholderOp) and isinstance(C.op, te.ComputeOp)
    assert tvm.tir.Var("m", "int32").name == "m"


def test_extents_that_are_numbers_have_a_value() -> None:
    n = te.var("n")
    A = te.placeholder((4, n), name="A")
    B, C = te.compute(A.shape, lambda i, j: (A[i, j] * A.shape[0], A[i, j] + 1), name="B")
    k = te.reduce_axis((1, B.shape[0]), name="k")
    D = te.compute((n,), lambda j: te.sum(B[k, j] + C[k, j], axis=k), name="D")
    assert (A.shape[0].value, C.shape[0].value, k.dom.extent.value, k.dom.min.value) == (4, 4, 3, 1)
    assert isinstance(A.shape[0], tvm.tir.IntImm) and A.shape == (4, n) and str(A.shape[0]) == "4"
    s = te.create_schedule(D.op)
    s[B].split(B.op.axis[0], factor=B.op.axis[0].dom.extent)
    s[D].split(D.op.reduce_axis[0], nparts=A.shape[0])
    again = tvm.Schedule.from_json(s.to_json(), D)
    assert again.as_python() == s.as_python()
    a = np.arange(12, dtype="float32").reshape(4, 3)
    d = tvm.build(s, [A, D], "python")(a)
    np.testing.assert_allclose(d, (5 * a + 1)[1:].sum(0), rtol=1e-6)
    assert pickle.loads(pickle.dumps(A)).shape[0] == 4


def test_sizes_without_a_name_are_different_sizes() -> None:
    X = te.placeholder((te.var(), te.var()), name="X")
    Y = te.compute(X.shape, lambda i, j: X[i, j] + 1, name="Y")
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(tvm.build(te.create_schedule(Y.op), [X, Y])(x), x + 1)


def test_errors_have_the_classes_of_tvm() -> None:
    s = te.create_schedule(C.op)
    for kind in (tvm.TVMError, tvm.error.TVMError, RuntimeError, ValueError):
        with pytest.raises(kind):
            s[C].split(C.op.axis[0], factor=0)
    assert issubclass(sl.errors.LoweringError, RuntimeError)


def test_a_lowered_schedule_is_built() -> None:
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    lowered = tvm.lower(s, [A, C], name="twice")
    s[C].vectorize(C.op.axis[0])
    f = tvm.build(lowered, target="llvm", target_host="llvm")
    assert f.name == "twice" and "vectorize" not in str(f.schedule)
    np.testing.assert_array_equal(f(VALUES), (VALUES + 1) * 2)
    assert tvm.build(tvm.lower(s, [A, C]), name="other").name == "other"
    assert lowered.astext() == lowered["main"].script() == str(lowered)
    with pytest.raises(UnknownNameError, match='its only function is "main"'):
        lowered["mian"]
    with pytest.raises(ComputeTypeError, match=r"lower it with these arguments: sl\.build"):
        tvm.build(lowered, [A, C])
    with pytest.raises(ComputeTypeError, match="give the schedule"):
        tvm.build(s.nest())


def test_a_target_of_a_target() -> None:
    small = tvm.target.Target("cpu", vector_bytes=16, caches=(sl.target.Cache(1 << 15, 8),))
    assert tvm.target.Target(small) == tvm.target.Target(small, host="llvm") == small
    assert tvm.target.Target(tvm.target.Target("cuda -arch=sm_80")).arch == "sm_80"
    assert tvm.target.Target(small, vector_bytes=32) == tvm.target.Target("cpu", vector_bytes=32)
    assert tvm.target.Target("llvm").keys == ("cpu",)
    pair = tvm.target.Target.check_and_update_host_consist("cuda", "llvm")
    assert pair == (tvm.target.Target("cuda"), tvm.target.Target("llvm"))
    assert tvm.target.Target.check_and_update_host_consist(small, None) == (small, None)
    with pytest.raises(BuildError, match="leave host out"):
        tvm.target.Target.check_and_update_host_consist("llvm", "cuda")


def test_marks_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")

    def case() -> None: ...

    def on_devices(dev: Any, target: str) -> None: ...

    def on_targets(target: str) -> None: ...

    def skips(marks: Any) -> list[bool]:
        return [mark.args[0] for mark in marks]

    assert skips(tvm.testing.requires_gpu()) == skips(tvm.testing.requires_llvm()) == [False]
    assert tvm.testing.requires_cuda(case) is case and tvm.testing.uses_gpu()(case) is case
    marked = tvm.testing.parametrize_targets("cuda", "opencl")(on_devices)
    names, cases = marked.pytestmark[-1].args
    assert names == ["target", "dev"] and [skips(c.marks) for c in cases] == [[False], [True]]
    assert cases[0].values == ("cuda", tvm.cuda(0))
    every = tvm.testing.parametrize_targets(on_targets).pytestmark[-1].args
    assert every[0] == ["target"] and [c.values for c in every[1]] == [("llvm",), ("cuda",)]


def test_tags() -> None:
    assert te.compute((3,), lambda i: i, tag="mine", attrs={"a": 1}).op.attrs == {"a": 1}

    @te.tag_scope("scaled")
    def scaled(x: Any) -> Any:
        return te.compute(x.shape, lambda i: x[i] * 2)

    assert (scaled(A).op.tag, scaled(A).op.tag, B.op.tag, A.op.tag) == ("scaled", "scaled", "", "")
    with te.tag_scope(tag="outer"):
        with pytest.raises(ComputeError, match="a computation has one tag"):
            scaled(A)
        with pytest.raises(ComputeError, match="a computation has one tag"):
            te.compute((3,), lambda i: i, tag="own")
    assert te.compute((3,), lambda i: i).op.tag == ""


def test_stages_are_inlined_all_at_once() -> None:
    X = te.placeholder((6, 4), name="X")
    k = te.reduce_axis((0, 4), name="k")
    P = te.compute((6, 4), lambda i, j: X[i, j] * 2, name="P")
    Q = te.compute((4, 6), lambda i, j: P[j, i], name="Q")
    R = te.compute((6,), lambda i: te.sum(Q[k, i], axis=k), name="R")
    S = te.compute((6,), lambda i: R[i] + 1, name="S")
    x = np.random.default_rng(0).random((6, 4)).astype("float32")
    inlined = {te.AutoInlineInjective: "RS", te.schedule.AutoInlineElemWise: "QRS",
               sl.schedule.AutoInlineBroadcast: "RS"}  # fmt: skip
    for inline, left in inlined.items():
        s = te.create_schedule(S.op)
        inline(s)
        nest = str(s)
        assert [name for name in "PQRS" if f"  {name}[" in nest] == [*left], nest
        np.testing.assert_allclose(tvm.build(s, [X, S])(x), x.sum(1) * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize(("read", "places"), [
    (lambda X, i, j: X[i, j] * 2, "EBI"), (lambda X, i, j: X[i, 0] + 1, "I"),
    (lambda X, i, j: X[j, i], "BI"), (lambda X, i, j: X[i, (j + 1) % 4], "I"),
], ids=["own", "column", "transposed", "rolled"])  # fmt: skip
def test_stages_are_inlined_by_the_places_that_they_read(read: Any, places: str) -> None:
    X = te.placeholder((4, 4), name="X")
    P = te.compute((4, 4), lambda i, j: read(X, i, j), name="P")
    Q = te.compute((4, 4), lambda i, j: P[i, j] + 1, name="Q")
    inline = {"E": te.AutoInlineElemWise, "B": te.AutoInlineBroadcast, "I": te.AutoInlineInjective}
    for letter, function in inline.items():
        s = te.create_schedule(Q.op)
        function(s)
        assert ("P[" not in str(s)) == (letter in places), letter


def test_a_group_of_stages_is_attached_at_once() -> None:
    D = te.compute((12,), lambda i: C[i] - 3, name="D")
    s = te.create_schedule(D.op)
    group = s.create_group(outputs=C, inputs=A)
    assert group.stages == ("B", "C")
    assert s.create_group(outputs=[C], inputs=[B]).stages == ("C",)
    assert s.create_group(outputs=C, inputs=B, include_inputs=True).stages == ("B", "C")
    before = str(s)
    with pytest.raises(ScheduleError):
        group.compute_at(s[D], C.op.axis[0])
    assert str(s) == before
    outer, _ = s[D].split(D.op.axis[0], factor=4)
    group.compute_at(s[D], outer)
    s[B].compute_at(s[C], C.op.axis[0])
    np.testing.assert_array_equal(tvm.build(s, [A, D])(VALUES), (VALUES + 1) * 2 - 3)
    assert "B: float32[1]" in str(s) and "C: float32[4]" in str(s)
    with pytest.raises(ScheduleError, match="no stage lies between"):
        s.create_group(outputs=B, inputs=C)


def test_top_level_names_of_earlier_versions() -> None:
    D = te.compute((12,), lambda i: A[tvm.indexdiv(i, 4) * 4 + tvm.indexmod(i, 4)], name="D")
    np.testing.assert_array_equal(tvm.build(te.create_schedule(D.op))(VALUES), VALUES)


def test_what_a_gpu_can_do() -> None:
    nvcc = tvm.contrib.nvcc
    with tvm.target.Target("cuda -arch=sm_86"):
        assert nvcc.get_target_compute_version() == "8.6"
        assert nvcc.have_tensorcore() and nvcc.have_bf16("8.0") and not nvcc.have_fp16("5.2")
    assert nvcc.parse_compute_version("sm_90") == (9, 0) and nvcc.have_int8("6.1")
    with pytest.raises(BuildError, match='such as "8.6"'):
        nvcc.parse_compute_version("new")
    with pytest.raises(BuildError, match="Choose one of ptx"):
        nvcc.compile_cuda("", "elf")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_library_of_c(tmp_path: Path) -> None:
    import ctypes

    source, library = tmp_path / "twice.c", tmp_path / "twice.so"
    source.write_text("int twice(int x) { return 2 * x; }")
    tvm.contrib.cc.create_shared(str(library), str(source), options=["-O2"])
    assert ctypes.CDLL(str(library)).twice(21) == 42
    source.write_text("int twice(int x) { return 2 * y; }")
    with pytest.raises(BuildError, match="error"):
        tvm.contrib.cc.create_shared(library, [source], cc=tvm.contrib.cc.get_cc())


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_compiler_with_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    source, library = tmp_path / "twice.c", tmp_path / "twice.so"
    source.write_text("int twice(int x) { return FACTOR * x; }")
    monkeypatch.setenv("CC", "cc -O1")
    cc = tvm.contrib.cc
    assert cc.get_cc() == "cc -O1"
    cc.create_shared(library, source, options="-DFACTOR=2", cc=cc.get_cc())
    assert ctypes.CDLL(str(library)).twice(21) == 42
    monkeypatch.setattr(cc, "SECONDS", 0)
    with pytest.raises(BuildError, match="cc takes longer than 0 s"):
        cc.create_shared(library, source, options=["-DFACTOR=2"])


def test_a_callback_of_the_compiler_warns() -> None:
    with pytest.warns(UserWarning, match="no kernel calls it"):
        tvm.register_func("tvm_callback_cuda_compile", lambda code: code, override=True)
