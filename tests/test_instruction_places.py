"""The memory that an instruction needs its operands in, and refusals that show both nests."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import te, tvm
from schedlang.errors import ComputeError, ComputeTypeError, ScheduleError
from schedlang.instructions import Intrinsic, MemoryFunction, PythonFunction

FMA = Intrinsic("llvm.fma.v8f32", ("f32x8", "f32x8", "f32x8"), order=(1, 2, 0))


def scaled_row(scopes: Any) -> sl.Instruction:
    a, b = sl.placeholder((1,), name="a"), sl.placeholder((8,), name="b")
    q = sl.reduce_axis(1, name="q")
    c = sl.compute((8,), lambda i: sl.sum(a[q] * b[i], axis=q), name="c")
    return sl.instruction("row8", c, emit={"llvm": FMA}, tolerance=2.0**-22, scopes=scopes)


def product() -> tuple[list[sl.Tensor], sl.Schedule, Any, Any]:
    A, B = sl.placeholder((6, 20), name="A"), sl.placeholder((20, 16), name="B")
    k = sl.reduce_axis(20, name="k")
    C = sl.compute((6, 16), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    return [A, B, C], sl.schedule(C), C, k


def test_an_operand_in_another_memory() -> None:
    (A, B, C), s, _, k = product()
    columns, lanes = s[C].split(C.op.axis[1], factor=8)
    s[C].reorder(columns, C.op.axis[0], k, lanes)
    needs_local = scaled_row({"b": "local"})
    message = """\
tensorize(j.inner, row8) on stage C: B is in global memory, and row8 needs b in local memory
  Let it read a copy there, by s.cache_read(B, "local", [C]).
    for j.outer in 0..2:
      for i in 0..6:
        for j.inner in 0..8:
          C[i, j.outer*8 + j.inner] = 0
        for k in 0..20:
          for j.inner in 0..8:    <-- here
            C[i, j.outer*8 + j.inner] += A[i, k] * B[k, j.outer*8 + j.inner]
    row8(a: float32[1], b: float32[8]) -> c: float32[8]
      for i in 0..8:
        for q in 0..1:
          c[i] += a[q] * b[i]"""
    with pytest.raises(ScheduleError) as refusal:
        s[C].tensorize(lanes, needs_local)
    assert str(refusal.value) == message and "tensorize" not in s.as_python()
    copy = s.cache_read(B, "local", [C])
    s[copy].compute_at(s[C], columns)
    s[C].tensorize(lanes, needs_local)
    x, y = np.random.default_rng(0).random((2, 20, 20), "float32")
    x, y = x[:6], np.ascontiguousarray(y[:, :16])
    np.testing.assert_allclose(sl.build(s, [A, B, C])(x, y), x @ y, rtol=1e-5)


def test_a_result_in_another_memory() -> None:
    _, s, C, k = product()
    columns, lanes = s[C].split(C.op.axis[1], factor=8)
    s[C].reorder(columns, C.op.axis[0], k, lanes)
    why = """\
C is in global memory, and row8 needs c in local memory
  Tensorize the stage that s.cache_write(C, "local") returns.
"""
    with pytest.raises(ScheduleError, match=re.escape(why)):
        s[C].tensorize(lanes, scaled_row({"c": "local"}))
    s[C].tensorize(lanes, scaled_row({"a": "global", "b": "global", "c": "global"}))


def chain(scope: str = "") -> tuple[list[sl.Tensor], sl.Schedule]:
    """Return a product element by element of A and of an intermediate, in memory ``scope``."""
    A, U = sl.placeholder((4, 8), name="A"), sl.placeholder((4, 8), name="U")
    B = sl.compute((4, 8), lambda i, j: U[i, j] + 1, name="B")
    C = sl.compute((4, 8), lambda i, j: A[i, j] * B[i, j], name="C")
    s = sl.schedule(C)
    if scope:
        s[B].set_scope(scope)
    return [A, U, B, C], s


def times8(scopes: Any) -> sl.Instruction:
    a, b = sl.placeholder((8,), name="a"), sl.placeholder((8,), name="b")
    c = sl.compute((8,), lambda i: a[i] * b[i], name="c")
    emit = {"llvm": PythonFunction(multiply)}
    return sl.instruction("times8", c, emit=emit, scopes=scopes)


def multiply(a: Any, b: Any) -> Any:
    return a * b


@pytest.mark.parametrize("near", ["a", "b"])
def test_either_factor_may_be_the_operand_in_this_memory(near: str) -> None:
    (A, U, _, C), s = chain("local")
    s[C].tensorize(C.op.axis[1], times8({near: "local"}))
    x, u = np.random.default_rng(0).random((2, 4, 8), "float32")
    np.testing.assert_array_equal(sl.build(s, [A, U, C])(x, u), x * (u + 1))


def test_a_step_that_moves_an_operand_is_one_that_runs() -> None:
    (A, U, B, C), s = chain()
    needed = times8({"a": "local", "b": "local"})
    with pytest.raises(ScheduleError, match="A is in global.*\n.*A, .local., .C.\\)\\.\n") as first:
        s[C].tensorize(C.op.axis[1], needed)
    assert "set_scope" not in str(first.value)
    s.cache_read(A, "local", [C])
    why = 's.cache_read(B, "local", [C]), or keep B there by set_scope("local").\n'
    with pytest.raises(ScheduleError, match=re.escape(why)):
        s[C].tensorize(C.op.axis[1], needed)
    s[B].set_scope("local")
    s[C].tensorize(C.op.axis[1], needed)
    x, u = np.random.default_rng(0).random((2, 4, 8), "float32")
    np.testing.assert_array_equal(sl.build(s, [A, U, C])(x, u), x * (u + 1))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s, C, j, k: s[C].reorder(C.op.axis[0], k, j), "the loops from there inwards are j"),
        (lambda s, C, j, k: None, "j in 0..16, k in 0..20, and row8 has i in 0..8"),
    ],
)
def test_both_nests_are_shown(change: Any, why: str) -> None:
    _, s, C, k = product()
    change(s, C, C.op.axis[1], k)
    nests = r"for j in 0\.\.16:    <-- here\n.*row8\(a: float32\[1\], b: .*\n +c\[i\] \+= a\[q\]"
    with pytest.raises(ScheduleError, match=f"(?s){re.escape(why)}.*{nests}"):
        s[C].tensorize(C.op.axis[1], scaled_row({}))


@pytest.mark.parametrize(
    ("scopes", "kind", "why"),
    [
        ("local", ComputeTypeError, "scopes='local' does not say which operand is where"),
        ({"d": "local"}, ComputeError, "scopes= names 'd', and the instruction has a, b, c"),
        ({"b": "wmma"}, ComputeError, "gives b the scope 'wmma'; give one of global, shared"),
        ({"b": 3}, ComputeError, "gives b the scope 3; give one of global, shared, local"),
    ],
)
def test_scopes_that_say_nothing(scopes: Any, kind: type[Exception], why: str) -> None:
    with pytest.raises(kind, match=re.escape(why)):
        scaled_row(scopes)


def test_scopes_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(scaled_row({"b": "local"}))).scopes == {"b": "local"}


def test_the_scope_of_a_buffer_of_te() -> None:
    a, b = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
    c = te.compute((8,), lambda i: a[i] * b[i], name="c")

    def called(ins: Any, outs: Any) -> Any:
        addresses = [buffer.access_ptr("r") for buffer in (*ins, *outs)]
        return tvm.tir.call_extern("int32", "times8", *addresses)

    local = tvm.tir.decl_buffer((8,), "float32", name="b", scope="local")
    times8 = te.decl_tensor_intrin(c.op, called, binds={b: local})
    assert times8.scopes == {"b": "local"} and isinstance(times8.emit["memory"], MemoryFunction)
    A, B = te.placeholder((4, 8), name="A"), te.placeholder((4, 8), name="B")
    C = te.compute((4, 8), lambda i, j: A[i, j] * B[i, j], name="C")
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match="B is in global memory, and times8 needs b in local"):
        s[C].tensorize(C.op.axis[1], times8)
    s.cache_read(B, "local", [C])
    s[C].tensorize(C.op.axis[1], times8)
