"""te.extern: packed functions, BLAS, and programs of ir_builder."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as tvm
from schedlang import te
from schedlang.contrib import cblas
from schedlang.errors import SchedlangError
from tests.marks import slow_but
from tests.test_saved_files import module_of

TARGETS = ["llvm", "python", "c"]


def built(T: Any, *arrays: np.ndarray, target: str = "llvm") -> Any:
    tensor = T[0] if isinstance(T, list) else T
    s = te.create_schedule(tensor.op)
    return tvm.build(s, [*tensor.op.input_tensors, *tensor.op.outputs], target)(*arrays)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", slow_but(["float32"], ["float32", "float64"]))
@pytest.mark.parametrize("transa", [False, True])
@pytest.mark.parametrize("transb", slow_but(["True"], [False, True]))
def test_blas(transa: bool, transb: bool, dtype: str, target: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((17, 5)).astype(dtype), rng.random((5, 9)).astype(dtype)
    given = np.ascontiguousarray(a.T) if transa else a, np.ascontiguousarray(b.T) if transb else b
    A, B = (te.placeholder(x.shape, dtype, name) for x, name in zip(given, "AB"))
    C = cblas.matmul(A, B, transa, transb)
    np.testing.assert_allclose(built(C, *given, target=target), a @ b, rtol=1e-5)
    np.testing.assert_allclose(tvm.reference(C)(*given), a @ b, rtol=1e-5)


def test_blas_of_symbolic_sizes() -> None:
    n, k = te.var("n"), te.var("k")
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, 4), name="B")
    C = cblas.matmul(A, B)
    assert C.shape[0] is n
    for rows, inner in ((3, 5), (1, 1), (0, 2)):
        a, b = np.ones((rows, inner), "float32"), np.ones((inner, 4), "float32")
        np.testing.assert_allclose(built(C, a, b), a @ b)


def test_a_packed_function_of_two_outputs_and_numbers() -> None:
    @tvm.register_func("test.divided", override=True)
    def divided(x, divisor, quotient, rest, label):
        assert label == "exact" and isinstance(x, tvm.nd.NDArray)
        quotient.copyfrom(x.numpy() // divisor)
        rest[:] = x.numpy() % divisor

    A = te.placeholder((7,), "int32", "A")
    Q, R = te.extern(
        [(7,), (7,)], [A],
        lambda ins, outs: tvm.tir.call_packed(
            "test.divided", ins[0], tvm.tir.const(3), outs[0], outs[1], "exact"
        ),
        name="D",
    )  # fmt: skip
    assert (Q.dtype, R.dtype, Q.name, R.name) == ("int32", "int32", "D.v0", "D.v1")
    x = np.arange(7, dtype="int32")
    quotient, rest = built([Q, R], x)
    np.testing.assert_array_equal(quotient, x // 3)
    np.testing.assert_array_equal(rest, x % 3)


def test_register_func() -> None:
    @tvm.register_func
    def test_named_by_itself(x):
        pass

    assert tvm.get_global_func("test_named_by_itself") is test_named_by_itself
    tvm.register_func("test.other", test_named_by_itself, override=True)
    assert tvm.get_global_func("test.other") is test_named_by_itself
    assert tvm.get_global_func("test.absent", allow_missing=True) is None
    assert tvm.get_global_func("tvm.contrib.cblas.matmul") is not None


def program(write: Callable[..., None]) -> Callable[..., Any]:
    """Return the function of te.extern whose statements ``write`` writes."""

    def described(ins: Any, outs: Any) -> Any:
        ib = tvm.tir.ir_builder.create()
        write(ib, *(ib.buffer_ptr(buffer) for buffer in (*ins, *outs)))
        return ib.get()

    return described


def written(
    write: Callable[..., None], shape: Any = (8, 6), dtype: str = "float32", out: Any = None
) -> tvm.Tensor:
    A = te.placeholder(shape, dtype, "A")
    return te.extern(out or shape, [A], program(write), name="B", dtype=dtype)


def test_a_list_of_one_shape_gives_a_tensor() -> None:
    def write(ib: Any, a: Any, b: Any) -> None:
        with ib.for_range(0, 8, name="i") as i:
            b[i] = a[i] * a[i]

    C = te.compute((8,), lambda i: written(write, (8,), out=[(8,)])[i] + 1, name="C")
    x = np.random.default_rng(0).random(8, "float32")
    np.testing.assert_allclose(tvm.reference(C)(x), x * x + 1, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "kind", slow_but(["parallel", "vectorize"], ["serial", "parallel", "vectorize", "unroll"])
)
def test_loops_and_conditions(kind: str, target: str) -> None:
    def write(ib: Any, a: Any, b: Any) -> None:
        with ib.for_range(0, 8, name="i") as i:
            with ib.for_range(0, 6, name="j", kind=kind) as j:
                with ib.if_scope(i < j):
                    b[i, j] = a[i, j] * 2.0
                with ib.else_scope():
                    b[i * 6 + j] = a[i * 6 + j] + 1.0

    x = np.random.default_rng(1).random((8, 6), "float32")
    i, j = np.ogrid[:8, :6]
    B = written(write)
    expected = np.where(i < j, x * 2, x + 1)
    np.testing.assert_allclose(built(B, x, target=target), expected)
    np.testing.assert_allclose(tvm.reference(B)(x), expected)


@pytest.mark.parametrize("kind", ["serial", "parallel", "unroll"])
def test_the_other_branch_of_what_a_branch_changed(kind: str) -> None:
    def write(ib: Any, a: Any, b: Any) -> None:
        with ib.for_range(0, 48, kind=kind) as i:
            b[i] = a[i]
            with ib.if_scope(ib.likely(b[i] > 0.5)):
                b[i] = 0.0
            with ib.else_scope():
                b[i] = b[i] + 1.0

    x = np.random.default_rng(1).random((8, 6), "float32")
    np.testing.assert_allclose(built(written(write), x), np.where(x > 0.5, 0, x + 1))


def test_a_loop_that_ends_before_it_begins() -> None:
    def write(ib: Any, a: Any, b: Any) -> None:
        with ib.for_range(0, 48) as i:
            b[i] = a[i]
        with ib.for_range(5, 2) as i:
            b[i] = 100.0

    x = np.random.default_rng(1).random((8, 6), "float32")
    np.testing.assert_array_equal(built(written(write), x), x)


@pytest.mark.parametrize("dtype", ["int32", "float64", "uint8"])
def test_storage_sums_and_bounds_of_loops(dtype: str) -> None:
    def write(ib: Any, a: Any, b: Any) -> None:
        total = ib.allocate(dtype, 1, name="total", scope="local")
        with ib.for_range(2, 8, name="i", for_type="serial") as i:
            total[0] = tvm.tir.const(0, dtype)
            with ib.for_range(0, i, name="j") as j:
                total[0] = total[0] + a[i, j]
            b[i - 2] = total[0]

    B = written(write, (8, 8), dtype, (6,))
    x = (np.random.default_rng(2).random((8, 8)) * 9).astype(dtype)
    expected = [x[i, :i].sum(dtype=dtype) for i in range(2, 8)]
    np.testing.assert_allclose(built(B, x), np.array(expected, dtype), rtol=1e-6)


def test_gathered_elements() -> None:
    def gathered(ins: Any, outs: Any) -> Any:
        ib = tvm.tir.ir_builder.create()
        index, values, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with ib.for_range(0, 5) as i:
            out[i] = values[index[i]]
        return ib.get()

    index, values = te.placeholder((5,), "int32", "index"), te.placeholder((9,), name="values")
    B = te.extern((5,), [index, values], gathered, name="B", dtype="float32")
    at, v = np.array([8, 0, 3, 3, 1], "int32"), np.arange(9, dtype="float32")
    np.testing.assert_array_equal(built(B, at, v), v[at])


def extern(fcompute: Any, **options: Any) -> Any:
    return te.extern((8, 6), [te.placeholder((8, 6), name="A")], fcompute, **options)


def one(statement: Callable[..., None]) -> Callable[[], Any]:
    return lambda: written(statement)


def past(ib: Any, a: Any, b: Any) -> None:
    with ib.for_range(0, 49) as i:
        b[i] = a[0]


def racing(ib: Any, a: Any, b: Any) -> None:
    with ib.for_range(0, 6, kind="parallel") as i:
        b[0] = a[i]


def changed(ib: Any, a: Any, b: Any) -> None:
    a[0] = 1.0


def lanes(inner: Callable[[Any, Any, Any, Any], None]) -> Callable[[], Any]:
    """Return a program with ``inner`` in the lanes of a vector."""

    def write(ib: Any, a: Any, b: Any) -> None:
        with ib.for_range(0, 8, kind="vectorize") as i:
            inner(ib, a, b, i)

    return one(write)


def branches(ib: Any, a: Any, b: Any, i: Any) -> None:
    b[i] = a[i]
    with ib.if_scope(b[i] > 0.0):
        b[i] = 0.0
    with ib.else_scope():
        b[i] = 1.0


def unknown_length(ib: Any, a: Any, b: Any) -> None:
    with ib.for_range(0, tvm.tir.Cast("int64", a[0]), kind="vectorize") as i:
        b[i] = 0.0


def twice_else(ib: Any, a: Any, b: Any) -> None:
    with ib.if_scope(a[0] > 0.0):
        b[0] = 0.0
    with ib.else_scope():
        b[0] = 1.0
    with ib.else_scope():
        b[0] = 2.0


def many_copies(ib: Any, a: Any, b: Any) -> None:
    with ib.for_range(0, 9999, kind="unroll"):
        b[0] = a[0]


def left_open(ins: Any, outs: Any) -> Any:
    ib = tvm.tir.ir_builder.create()
    with ib.for_range(0, 6):
        return ib.get()


REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "no function": (lambda: extern(3), r"must be a function of inputs and outputs, got int"),
    "no statement": (lambda: extern(lambda ins, outs: None), "returns NoneType, .*not a statement"),
    "buffers": (lambda: extern(None, in_buffers=[3]), "Leave out in_buffers"),
    "no tensor": (lambda: te.extern((3,), [3], None), "inputs has 3, which is not a tensor"),
    "an unknown function": (
        lambda: extern(lambda i, o: tvm.tir.call_packed("tvm.contrib.cblas.matmull", i[0])),
        r"nothing was registered by this name; did you mean 'tvm\.contrib\.cblas\.matmul'",
    ),
    "a name": (lambda: tvm.tir.call_packed(3), "the first argument is the name"),
    "an argument": (lambda: tvm.tir.call_packed("f", te.placeholder((3,))),
                    "neither an array of the function nor a number"),
    "a name twice": (lambda: [tvm.register_func("test.twice", len) for _ in range(2)],
                     "has this name already"),
    "a name in the box": (lambda: tvm.register_func("tvm.contrib.cblas.matmul", len),
                          r"has this name already\n.*override=True"),
    "an empty name": (lambda: tvm.register_func(""), "give a name as a string"),
    "no callable": (lambda: tvm.register_func("test.number", 3), "int cannot be called"),
    "an absent name": (lambda: tvm.get_global_func("test.absent"), "nothing was registered"),
    "a call of BLAS": (lambda: tvm.get_global_func("tvm.contrib.cblas.matmul")(1),
                       "a kernel calls this function"),
    "integers for BLAS": (
        lambda: cblas.matmul(te.placeholder((3, 3), "int32"), te.placeholder((3, 3), "int32")),
        "is int32, and BLAS multiplies float32 or float64",
    ),
    "vectors for BLAS": (lambda: cblas.matmul(te.placeholder((3,)), te.placeholder((3,))),
                         "is not a matrix"),
    "shapes for BLAS": (
        lambda: cblas.matmul(te.placeholder((3, 4)), te.placeholder((3, 5)), transb=True),
        "with transb have the inner dimensions 4 and 5",
    ),
    "arguments of BLAS": (
        lambda: extern(lambda i, o: tvm.tir.call_packed("tvm.contrib.cblas.matmul", o[0], i[0])),
        "it takes the two inputs, the output and two flags",
    ),
    "another shape": (
        lambda: te.extern(
            (3, 3), [te.placeholder((3, 4), name="A"), te.placeholder((4, 5), name="B")],
            lambda i, o: tvm.tir.call_packed("tvm.contrib.cblas.matmul", *i, *o),
        ),
        r"the product has the shape \(3, 5\), but extern has \(3, 3\)",
    ),
    "an index past the end": (one(past), r"breaks a rule\n.*\n?.*0\.\.48"),
    "a race": (one(racing), "breaks a rule"),
    "a changed input": (one(changed), r"the program writes A, which is an input\n.*Write outs"),
    "too many copies": (one(many_copies), r"breaks a rule\n.*makes 9999 copies of the body"),
    "lanes of lanes": (lanes(lambda ib, a, b, i: ib.for_range(0, 3, "j", kind="vectorize")
                             .__enter__()), "both it and i, which is around it, are vectorized"),
    "lanes of unlike lengths": (lanes(lambda ib, a, b, i: ib.for_range(0, i, "j").__enter__()),
                                "its iterations, i, differ between the lanes of i"),
    "a vector of no length": (
        one(unknown_length),
        "a vectorized loop has a number of iterations, and this one has",
    ),
    "storage in lanes": (lanes(lambda ib, a, b, i: ib.allocate("float32", 1)),
                         "the loop i around it is vectorized, and all lanes would share it"),
    "branches in lanes": (lanes(branches), "change what it reads, in the lanes of i"),
    "else twice": (one(twice_else), "no ib.if_scope"),
    "a pointer": (one(lambda ib, a, b: ib.pointer("float32")), r"Use ib.buffer_ptr\(ins\[k\]\)"),
    "an open loop": (lambda: extern(left_open), "still open"),
    "a kind": (one(lambda ib, a, b: ib.for_range(0, 3, kind="fast").__enter__()),
               "kind='fast'.*choose one of serial"),
    "a condition": (one(lambda ib, a, b: ib.if_scope(a[0]).__enter__()), "is float32, not bool"),
    "else alone": (one(lambda ib, a, b: ib.else_scope().__enter__()), "no ib.if_scope"),
    "an index": (one(lambda ib, a, b: a[0.5]), "an index of A is 0.5"),
    "three indices": (one(lambda ib, a, b: a[0, 0, 0]), "it has 3 indices, and A has 2"),
    "a dtype": (one(lambda ib, a, b: b.__setitem__(0, a[0] > 0)),
                r"the value is bool, and B holds float32\n.*tvm\.tir\.Cast"),
    "a buffer": (one(lambda ib, a, b: ib.buffer_ptr(te.placeholder((3,)))), r"Pass ins\[k\]"),
    "storage": (one(lambda ib, a, b: ib.allocate("float32", (0,))), "must be of positive integers"),
    "a scope": (one(lambda ib, a, b: ib.allocate("float32", 1, scope="shared")), "the scope is"),
    "a statement": (one(lambda ib, a, b: ib.emit(3)), "written by the builder itself"),
    "a symbolic shape": (lambda: written(lambda ib, a, b: None, (te.var("n"),)),
                         "loops written by hand need numbers"),
    "hybrid": (lambda: te.hybrid.script, r"@sl\.jit.*te\.compute"),
    "another library": (lambda: tvm.contrib.cudnn, r"cudnn: .*\n.*topi"),
    "another device": (lambda: tvm.contrib.rpc, r"f\.save"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str) -> None:
    act, message = REFUSALS[case]
    with pytest.raises(SchedlangError, match=message):
        act()


def stepped(kind: str = "serial") -> tuple[tvm.Tensor, tvm.Tensor]:
    """Return an input, and running sums of its rows, which a program writes."""
    A = te.placeholder((5, 4), name="A")

    def sums(ins, outs):
        ib = tvm.tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 5, name="row", kind=kind) as row:
            total = ib.allocate("float32", (1,), name="total", scope="local")
            total[0] = 0.0
            with ib.for_range(0, 4, name="column") as column:
                total[0] = total[0] + a[row, column]
                b[row, column] = total[0]
        return ib.get()

    P = te.compute((5, 4), lambda i, j: A[i, j] * 2, name="P")
    return A, te.extern((5, 4), [P], sums, name="B")


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_a_debugger_steps_through_a_program(kind: str) -> None:
    """Its statements are lines of the kernel's file, and run as Python."""
    A, B = stepped(kind)
    f = tvm.build(te.create_schedule(B.op), [A, B], "python")
    lines = f.source.splitlines()
    (written,) = (k for k, text in enumerate(lines, 1) if text.strip().startswith("store(B, "))
    values = []

    def trace(frame, event, arg):
        if frame.f_code.co_filename != f.path:
            return None
        if event == "line" and frame.f_lineno == written:
            # the element is in a register while the loop runs
            values.append(float(frame.f_locals["total_value"]))
        return trace

    x = np.random.default_rng(0).random((5, 4), "float32")
    sys.settrace(trace)
    try:
        result = f(x)
    finally:
        sys.settrace(None)
    np.testing.assert_allclose(result, np.cumsum(x * 2, axis=1), rtol=1e-6)
    np.testing.assert_allclose(values, np.cumsum(x * 2, axis=1).reshape(-1), rtol=1e-6)
    numbers = {f.origins[k] for k, text in enumerate(lines) if "total" in text}
    assert len(numbers) == 1 and None not in numbers


def test_a_program_is_saved_counted_and_pickled(tmp_path: Path) -> None:
    A, B = stepped("parallel")
    x = np.random.default_rng(0).random((5, 4), "float32")
    f = tvm.build(te.create_schedule(B.op), [A, B])
    assert f(x).tolist() == module_of(f.save(tmp_path / "k.py")).B(x).tolist()
    counts = f.counters(x, caches=False)
    assert counts.unknown == () and counts["B"].stores == 2 * 5 + 20
    again = pickle.loads(pickle.dumps(B))
    np.testing.assert_allclose(tvm.reference(again)(x), np.cumsum(x * 2, axis=1), rtol=1e-6)
    # the tuner's processes get the loops as data
    assert B.op.function.is_shared and again.op.function.identity == B.op.function.identity


def test_a_program_reads_arrays_without_gaps() -> None:
    A, B = stepped()
    (P,) = B.op.input_tensors
    s = te.create_schedule(B.op)
    with pytest.raises(SchedlangError, match="B_program reads P without gaps between its rows"):
        s[P].storage_align(P.op.axis[0], 16, 1)
    s[P].double_buffer()
    x = np.ones((5, 4), "float32")
    np.testing.assert_allclose(tvm.build(s, [A, B], "python")(x), np.cumsum(x * 2, axis=1))
