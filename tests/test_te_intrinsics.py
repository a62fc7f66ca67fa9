"""te's intrinsics: functions of C that ``te.decl_tensor_intrin`` describes."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as tvm
from schedlang import te
from schedlang.errors import (
    BuildError,
    ComputeError,
    ComputeTypeError,
    SchedlangError,
    ScheduleError,
)
from schedlang.tvm.contrib.clang import find_clang

SOURCE = """
extern "C" int gemv(float *c, const float *a, const float *b, int m, int l, int stride) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < l; ++j) c[i] += a[j] * b[i * stride + j];
  return 0;
}
"""
# the same, as Clang writes it
LLVM = """
define i32 @gemv(ptr %c, ptr %a, ptr %b, i32 %m, i32 %l, i32 %stride) {
entry:
  br label %row
row:
  %i = phi i32 [ 0, %entry ], [ %i.next, %row.end ]
  %start = mul i32 %i, %stride
  %result = getelementptr float, ptr %c, i32 %i
  br label %term
term:
  %j = phi i32 [ 0, %row ], [ %j.next, %term ]
  %at = add i32 %start, %j
  %left = getelementptr float, ptr %a, i32 %j
  %right = getelementptr float, ptr %b, i32 %at
  %x = load float, ptr %left
  %y = load float, ptr %right
  %old = load float, ptr %result
  %product = fmul float %x, %y
  %new = fadd float %old, %product
  store float %new, ptr %result
  %j.next = add i32 %j, 1
  %more = icmp slt i32 %j.next, %l
  br i1 %more, label %term, label %row.end
row.end:
  %i.next = add i32 %i, 1
  %again = icmp slt i32 %i.next, %m
  br i1 %again, label %row, label %done
done:
  ret i32 0
}
"""


def declared(m: int, terms: int) -> tuple[Any, Any, Any]:
    """Return the operands and the result of ``c[i] = sum(a[k] * b[i, k])``."""
    a, b = te.placeholder((terms,), name="a"), te.placeholder((m, terms), name="b")
    k = te.reduce_axis((0, terms), name="k")
    return a, b, te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")


def gemv(
    m: int, terms: int, parts: int = 3, stride: Any = None, call: Any = None, **how: Any
) -> Any:
    """Return an intrinsic that calls ``gemv`` of C in a body, or in its update, too."""
    a, b, c = declared(m, terms)
    own = te.var("s") if stride is None else stride
    buffers = {
        a: tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1]),
        b: tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[own, 1]),
        c: tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1]),
    }

    def body(ins: Any, outs: Any) -> Any:
        ib = tvm.tir.ir_builder.create()
        addresses = outs[0].access_ptr("rw"), ins[0].access_ptr("r"), ins[1].access_ptr("r")
        given = (*addresses, m, terms, ins[1].strides[0]) if call is None else call(ins, outs)
        ib.emit(tvm.tir.call_extern("int32", "gemv", *given))
        return ib.get()

    def several(ins: Any, outs: Any) -> Any:
        return body(ins, outs) if parts == 1 else (body(ins, outs), None, body(ins, outs))

    return te.decl_tensor_intrin(c.op, several, **{"binds": buffers, **how})


def product(terms: int = 12) -> tuple[Any, Any, Any, Any]:
    A, B = te.placeholder((5, terms), name="A"), te.placeholder((16, terms), name="B")
    k = te.reduce_axis((0, terms), name="k")
    C = te.compute((5, 16), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    return A, B, C, te.create_schedule(C.op)


def whole_rows(intrin: Any, name: str = "import_c", code: str = SOURCE) -> Any:
    A, B, C, s = product()
    yo, yi = s[C].split(C.op.axis[1], factor=8)
    s[C].tensorize(yi, intrin)
    s[C].pragma(C.op.axis[0], name, code)
    return A, B, C, s


def check(A: Any, B: Any, C: Any, s: Any, target: str) -> None:
    f = tvm.build(s, [A, B, C], target)
    a, b = (np.random.rand(*t.shape).astype("float32") for t in (A, B))
    c = np.full((5, 16), np.nan, "float32")
    f(a, b, c)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)


@pytest.mark.parametrize("target", ["llvm", "c", "python"])
@pytest.mark.parametrize(("name", "code"), [("import_c", SOURCE), ("import_llvm", LLVM)])
def test_code_of_each_language(name: str, code: str, target: str) -> None:
    check(*whole_rows(gemv(8, 12, parts=1), name, code), target)


@pytest.mark.parametrize("terms", [12, 13])
def test_parts_of_a_reduction(terms: int) -> None:
    """The tutorial of TVM is ``te_programs/tensorize.py``."""
    A, B, C, s = product(terms)
    (i, j), (k,) = C.op.axis, C.op.reduce_axis
    yo, yi = s[C].split(j, factor=8)
    ko, ki = s[C].split(k, factor=4, tail="cut")
    s[C].reorder(i, yo, ko, yi, ki)
    s[C].tensorize(yi, gemv(8, 4))
    s[C].pragma(yo, "import_c", SOURCE)
    check(A, B, C, s, "llvm")


@tvm.register_func("test.gemv", override=True)
def packed_gemv(a: Any, b: Any, c: Any) -> None:
    c.copyfrom(b.numpy() @ a.numpy())


@tvm.register_func("test.gemv_add", override=True)
def packed_update(a: Any, b: Any, c: Any) -> None:
    c.copyfrom(c.numpy() + b.numpy() @ a.numpy())


@pytest.mark.parametrize("parts", [1, 3])
def test_a_packed_function_as_a_body(parts: int) -> None:
    """TVM's own tests of ``tensorize`` have such bodies."""
    terms = 12 if parts == 1 else 4
    a, b, c = declared(8, terms)
    name = "test.gemv" if parts == 1 else "test.gemv_add"
    strides = {b: tvm.tir.decl_buffer(b.shape, name="B", strides=[te.var("s"), 1])}

    def body(ins: Any, outs: Any) -> Any:
        call = tvm.tir.call_packed(name, *ins, *outs)
        return call if parts == 1 else (None, None, call)

    intrin = te.decl_tensor_intrin(c.op, body, binds=strides)
    assert intrin.name == name.removeprefix("test.")
    A, B, C, s = product()
    (i, j), (k,) = C.op.axis, C.op.reduce_axis
    yo, yi = s[C].split(j, factor=8)
    ko, ki = s[C].split(k, factor=terms)
    s[C].reorder(i, yo, ko, yi, ki)
    s[C].tensorize(yi, intrin)
    check(A, B, C, s, "llvm")


def test_a_packed_body_gets_its_own_buffers() -> None:
    elsewhere = tvm.tir.decl_buffer((4,), name="elsewhere")
    with pytest.raises(ComputeTypeError, match="elsewhere is none of the arrays that this"):
        te.decl_tensor_intrin(
            declared(4, 4)[2].op, lambda i, o: tvm.tir.call_packed("test.gemv", *i, elsewhere)
        )


def test_an_offset_of_an_address() -> None:
    def call(ins: Any, outs: Any) -> Any:
        stride = ins[1].strides[0]
        second = ins[1].access_ptr("r", offset=stride * 0)
        return outs[0].access_ptr("rw"), ins[0].access_ptr("r"), second, 8, 12, stride + 0

    check(*whole_rows(gemv(8, 12, call=call)), "llvm")


def test_strides_of_one_name_and_numbers_of_each_kind() -> None:
    a, b, c = declared(8, 12)
    binds = {
        a: tvm.tir.decl_buffer(a.shape, strides=[te.var("sizes")]),
        b: tvm.tir.decl_buffer(b.shape, strides=[te.var("sizes"), 1]),
    }

    def call(ins: Any, outs: Any) -> Any:
        inner, outer = ins[0].strides[0], ins[1].strides[0]
        numbers = outer * 2 - (outer + inner) + inner, True, -2.5
        arrays = outs[0].access_ptr("w"), ins[0].access_ptr("r"), ins[1].access_ptr("r")
        return tvm.tir.call_extern("int32", "scaled", *arrays, *numbers)

    code = """
        int scaled(float *c, float *a, float *b, int stride, int on, float by) {
          for (int i = 0; i < 8; i++) {
            c[i] = 0;
            for (int k = 0; k < 12; k++) c[i] += on * (by + 3.5f) * a[k] * b[i * stride + k];
          }
          return 0;
        }"""
    check(*whole_rows(te.decl_tensor_intrin(c.op, call, "scaled_rows", binds), code=code), "llvm")


def test_a_schedule_with_code_pickles_and_is_refused_in_a_file() -> None:
    A, B, C, s = whole_rows(gemv(8, 12))
    twin = pickle.loads(pickle.dumps(s))
    assert str(twin) == str(s) and "# pragma import_c\n" in str(s)
    intrin = next(v for step in s.steps for v in step.args.values()
                  if isinstance(v, tvm.Instruction))  # fmt: skip
    with pytest.raises(ScheduleError, match="step 3, pragma, cannot be replayed: 'import_c' brings "
                       "code, and a schedule in a file is data"):  # fmt: skip
        tvm.Schedule.from_json(s.to_json(), C, [intrin])


@pytest.mark.parametrize("target", ["llvm", "c", "cuda-emulator"])
def test_code_that_nothing_calls(target: str) -> None:
    A, B, C, s = product()
    s[C].pragma(C.op.axis[0], "import_c", SOURCE)
    with pytest.raises(BuildError, match="no instruction of the schedule calls its code"):
        tvm.build(s, [A, B, C], target)


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("import_c", SOURCE.replace("gemv", "gemw"), "undefined symbol: gemv"),
        ("import_c", SOURCE.replace("++j)", "++j"), "the C compiler refuses its source"),
        ("import_llvm", "define i32 @gemv(ptr %c) {", "LLVM cannot read its code"),
    ],
)
def test_code_that_is_wrong(name: str, code: str, message: str) -> None:
    A, B, C, s = whole_rows(gemv(8, 12), name, code)
    with pytest.raises(SchedlangError, match=message):
        tvm.build(s, [A, B, C])


def test_a_body_alone_needs_the_whole_reduction() -> None:
    A, B, C, s = product()
    (i, j), (k,) = C.op.axis, C.op.reduce_axis
    yo, yi = s[C].split(j, factor=8)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(i, yo, ko, yi, ki)
    with pytest.raises(ScheduleError, match="gemv computes all terms of a sum at once, and k"):
        s[C].tensorize(yi, gemv(8, 4, parts=1))


def test_a_stride_that_the_array_does_not_have() -> None:
    A, B, C, s = product()
    yo, yi = s[C].split(C.op.axis[1], factor=8)
    with pytest.raises(ScheduleError, match="the elements of B are 12 apart along dimension 0 of "
                       "b, and gemv needs 16"):  # fmt: skip
        s[C].tensorize(yi, gemv(8, 12, stride=16))


def _foreign(ins: Any, outs: Any) -> Any:
    return (tvm.tir.decl_buffer((4,), name="elsewhere").access_ptr("r"),)


REFUSALS = [
    (lambda: gemv(8, 12, scalar_params=[te.var("x")]), "scalar_params are not supported"),
    (lambda: gemv(8, 12, call=lambda i, o: (te.var("z"),)),
     "gemv gets z, which is the stride of none of its buffers"),
    (lambda: gemv(8, 12, call=lambda i, o: (i[1].strides[0] // 2,)),
     "which is neither a finite number nor made of strides by +, - and *\n  Compute the rest in"),
    (lambda: gemv(8, 12, call=lambda i, o: (float("inf"),)), "gemv gets inf, which is neither"),
    (lambda: gemv(8, 12, call=lambda i, o: (i[0].access_ptr("r", offset=0.5),)),
     "A.access_ptr: the offset 0.5 is not an integer"),
    (lambda: gemv(8, 12, binds={declared(8, 12)[0]: 3}), "binds= must map a, b, c to buffers of"),
    (lambda: gemv(8, 12, binds=[3]), "binds= must map a, b, c to buffers of"),
    (lambda: te.decl_tensor_intrin(declared(4, 4)[2].op, 3),
     "fcompute must be a function of inputs and outputs, got int"),
    (lambda: te.decl_tensor_intrin(declared(4, 4)[2].op, lambda i, o: (None,) * 4),
     "its function returns 4 statements; return a body, or a body, a reset and an update"),
    (lambda: gemv(8, 12, call=_foreign), "gemv gets elsewhere, which is another intrinsic's"),
    (lambda: gemv(8, 12, call=lambda i, o: ("text",)), "is neither an address nor a number"),
    (lambda: te.decl_tensor_intrin(declared(4, 4)[2], lambda i, o: None),
     "the operation is Tensor; give c.op of a te.compute"),
    (lambda: te.decl_tensor_intrin(declared(4, 4)[2].op, lambda i, o: 3),
     "its function returns int, which calls no function of C"),
    (lambda: tvm.tir.call_extern("int32", "f();"), "'f();' is not the name of a function of C"),
    (lambda: tvm.tir.decl_buffer((4,), offset_factor=-1), "offset_factor=-1 is not a number of"),
    (lambda: tvm.tir.decl_buffer((4,), data_alignment=48), "data_alignment=48 is not a number"),
    (lambda: tvm.tir.decl_buffer((4,), strides=[1, 1]), "2 strides for 1 dimensions"),
    (lambda: tvm.tir.decl_buffer((4,), scope="wmma"), "the scope 'wmma' is not one of global"),
    (lambda: tvm.tir.decl_buffer((te.var("n"),)), "a dimension is n; give a number"),
    (lambda: tvm.tir.decl_buffer((4,), elem_offset=te.var("o")), "elem_offset is not used here"),
    (lambda: tvm.tir.decl_buffer((4, 4), strides=[(v := te.var("s")), v]),
     "one te.var stands for two strides"),
    (lambda: tvm.tir.decl_buffer((4,)).vload([0], "float32x4"), "te's vectors are not part of"),
    (lambda: tvm.tir.decl_buffer((4,)).vstore([0], 1), "te's vectors are not part of"),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "message"), REFUSALS, ids=[row[1][:40] for row in REFUSALS])
def test_a_declaration_is_refused(declare: Any, message: str) -> None:
    with pytest.raises(SchedlangError, match=re.escape(message)):
        declare()


def test_a_buffer_of_another_shape() -> None:
    a, b, c = declared(8, 12)
    with pytest.raises(ComputeError, match=r"a is float32\[12\], and its buffer is float32\[8\]"):
        te.decl_tensor_intrin(
            c.op, lambda i, o: None, binds={a: tvm.tir.decl_buffer((8,), name="A")}
        )


def test_create_llvm_runs_clang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that writes the code in place of Clang gets the sources and the options."""
    clang = tmp_path / "clang"
    clang.write_text(f'#!/bin/sh\nprintf %s "$*" > {tmp_path}/asked\n'
                     'while [ "$1" != -o ]; do shift; done\necho code > "$2"\n')  # fmt: skip
    clang.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    folder = tvm.contrib.utils.tempdir()
    path = folder.relpath("code.ll")
    assert tvm.contrib.clang.create_llvm(SOURCE, output=path, options=["-O1"]) == "code\n"
    assert folder.listdir() == ["code.ll"] and Path(path).read_text() == "code\n"
    assert re.match(r"-O3 -emit-llvm -S -O1 -o \S+ \S+\.cc$", (tmp_path / "asked").read_text())
    clang.write_text("#!/bin/sh\necho 'input.cc:1: error: no' >&2\nexit 1\n")
    with pytest.raises(BuildError, match="create_llvm: .*clang fails\n  input.cc:1: error: no"):
        tvm.contrib.clang.create_llvm(SOURCE)
    folder.remove()
    assert not Path(path).parent.exists()


def test_without_clang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="there is no clang on the path\n  Install Clang, or give"):
        tvm.contrib.clang.create_llvm(SOURCE)


@pytest.mark.skipif(not find_clang(required=False), reason="no clang on the path")
@pytest.mark.parametrize("target", ["llvm", "c", "python"])
def test_the_code_of_a_real_clang(target: str) -> None:
    code = tvm.contrib.clang.create_llvm([SOURCE], options=["-O2"])
    assert "define" in code and "@gemv(" in code
    check(*whole_rows(gemv(8, 12, parts=1), "import_llvm", code), target)
    with pytest.raises(BuildError, match=r"clang\S* fails\n  .*input0\.cc:1:\d+: error: "):
        tvm.contrib.clang.create_llvm("int f( {")
