"""Functions of users: what is refused, and with which words."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cfunc, njit, types

import schedlang as sl
from schedlang.errors import CallError, SchedlangError
from tests.marks import slow_but

X = np.ones((4, 6), "float32")
FLOATS, SIZES = types.CPointer(types.float32), types.CPointer(types.int64)


def same(a, out):
    out[...] = a


@njit
def compiled(a, out):
    out[...] = a


@njit
def raising(a, out):
    if a[0, 0] > 0:
        raise ValueError("too large")


def given(dtype: str = "float32") -> sl.Tensor:
    return sl.placeholder((4, 6), dtype, name="A")


def stage(call: Any = same, **options: Any) -> Any:
    A = options.pop("input", None)
    inputs = [given() if A is None else A]
    return sl.extern(options.pop("shape", (4, 6)), inputs, call, **{"name": "B", **options})


def scheduled(call: Any = same, **options: Any) -> tuple[sl.Schedule, sl.Tensor, sl.Tensor]:
    """Return the schedule of a stage that reads a call, and both stages."""
    B = stage(call, **options)
    C = sl.compute((4, 6), lambda i, j: B[i, j] + 1, name="C")
    return sl.schedule(C), B, C


def boxed() -> tuple[sl.Schedule, sl.Tensor, sl.Tensor]:
    return scheduled(reads=lambda y, x: np.s_[y, x])


def at_loop(call: Any = same) -> None:
    s, B, C = scheduled(call)
    s[B].compute_at(s[C], C.op.axis[0])


def inlined_input() -> None:
    A = given()
    P = sl.compute((4, 6), lambda i, j: A[i, j] + 1, name="P")
    s = sl.schedule(sl.extern((4, 6), [P], same, name="B"))
    s[P].compute_inline()


def transformed(reader: bool) -> None:
    A = given()
    P = sl.compute((4, 6), lambda i, j: A[i, j] + 1, name="P")
    B = sl.extern((4, 6), [P], same, name="B")
    C = sl.compute((4, 6), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    if reader:
        s[P].transform_layout(lambda i, j: (j, i))
    else:
        s[B].transform_layout(lambda i, j: (j, i))


def scan_of_a_call() -> None:
    S = sl.placeholder((4, 6), name="S")
    first = sl.compute((1, 6), lambda _, i: 0.0, name="first")
    B = sl.extern((4, 6), [S], same, name="B")
    step = sl.compute((4, 6), lambda t, i: S[t - 1, i] + B[t, i], name="step")
    sl.scan(first, step, S)


def in_a_lambda() -> None:
    A = given()
    sl.compute((4,), lambda i: compiled(A[i, 0], A[i, 1]), name="C")


def two_pointers(result: Any) -> Any:
    kind = ctypes.CFUNCTYPE(result, ctypes.c_void_p, ctypes.c_void_p)
    return kind(lambda a, b: 0)


def pointers(element: Any, result: Any = ctypes.c_int) -> Any:
    kind = ctypes.CFUNCTYPE(
        result, ctypes.POINTER(element), ctypes.POINTER(element), ctypes.POINTER(ctypes.c_int64)
    )
    return kind(lambda a, b, c: 0)


@cfunc(types.int32(types.CPointer(types.float64), types.CPointer(types.float64), SIZES))
def of_doubles(a, out, sizes):
    return 0


@cfunc(types.int32(FLOATS, FLOATS))
def without_sizes(a, out):
    return 0


@cfunc(types.void(FLOATS, FLOATS, SIZES))
def of_no_status(a, out, sizes):
    pass


C = "int B(const float *a, float *out, const int64_t *sizes) {{ {} }}"

DEFINITIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "no function": (lambda: stage(None), "its call is None, which cannot be called"),
    "a list": (lambda: stage([1]), r"its call is list, .*\n.*numba\.njit"),
    "a class": (lambda: stage(dict), "its call is type, which cannot be called"),
    "no address": (lambda: stage(0), "the number 0, which is not the address"),
    "a small number": (lambda: stage(8), "the number 8, which is not the address"),
    "a negative address": (lambda: stage(-8), "the number -8, which is not the address"),
    "one parameter": (lambda: stage(lambda a: None),
                      r"takes 1 argument, but is called with 2: A, B\n.*then for each output"),
    "three parameters": (lambda: stage(lambda a, b, c: None), "takes 3 arguments, .* 2: A, B"),
    "parameters of numba": (lambda: stage(njit(lambda a: None)), "takes 1 argument"),
    "no sizes": (lambda: stage(without_sizes), "takes 2 arguments, .* 3: A, B, sizes"),
    "no sizes in ctypes": (lambda: stage(two_pointers(ctypes.c_int)), "takes 2 arguments, .* 3"),
    "a status of ctypes": (lambda: stage(pointers(ctypes.c_float, ctypes.c_double)),
                           r"returns c_double, .*\n  Return ctypes\.c_int"),
    "no status": (lambda: stage(of_no_status), r"returns none, .*\n  Return numba\.int32"),
    "other pointers": (lambda: stage(of_doubles), "a pointer to float64 for A, which is float32"),
    "other pointers of ctypes": (lambda: stage(pointers(ctypes.c_int32)),
                                 "a pointer to int32 for A, which is float32"),
    "no tensor": (lambda: sl.extern((4,), [3], same), "inputs has 3, which is not a tensor"),
    "no shapes": (lambda: sl.extern([], [given()], same), "the list of shapes is empty"),
    "a shape of floats": (lambda: stage(shape=(4.5,)), "must be an integer"),
    "a name": (lambda: stage(name="two words"), "cannot name a tensor"),
    "a name of Python": (lambda: stage(name="lambda"), "cannot name a tensor"),
    "two dtypes": (lambda: stage(dtype=["int8", "int8"]), "2 dtypes for 1 output"),
    "an unknown dtype": (lambda: stage(dtype="float8"), "float8"),
    "a short dtype": (lambda: stage(dtype="float16"), r"B is float16, .*\n.*sl\.cast"),
    "a complex input": (lambda: stage(input=given("complex64")), "A is complex64, and functions"),
    "no dtype": (lambda: sl.extern((4,), [], lambda out: None), r"nothing says .*\n.*dtype="),
    "inputs of two dtypes": (
        lambda: sl.extern((4,), [given(), given("int8")], lambda a, b, c: None),
        "its inputs are float32, int8",
    ),
    "writes alone": (lambda: stage(writes=lambda y, x: np.s_[y, x]), "needs reads="),
    "reads that are no function": (lambda: stage(reads=3), "must be a function .* got int"),
    "reads of one range": (lambda: stage(reads=lambda y: y), r"called with 2 slices, .*raises"),
    "reads of a number": (lambda: stage(reads=lambda y, x: np.s_[0, x]),
                          r"gives 0 in dimension 0 of A, .*\n.*i:i \+ 1"),
    "reads of steps": (lambda: stage(reads=lambda y, x: np.s_[::2, x]), "not a slice of step 1"),
    "reads of one dimension": (lambda: stage(reads=lambda y, x: y), "gives 1 slice for A"),
    "reads past the end": (lambda: stage(reads=lambda y, x: np.s_[y.start : y.stop + 1, x]),
                           r"start0:stop0 \+ 1 .* 0\.\.4\n  Clamp it, with sl\.min"),
    "reads before the start": (lambda: stage(reads=lambda y, x: np.s_[y.start - 1 : y.stop, x]),
                               r"not always inside of 0\.\.4\n  Clamp it, with sl\.max"),
    "reads backwards": (lambda: stage(reads=lambda y, x: np.s_[y.stop : y.start, x]),
                        "may end before it begins"),
    "reads of data": (lambda: stage(reads=lambda y, x: np.s_[given("int64")[0, 0] :, x]),
                      r"depends on"),
    "reads of another axis": (lambda: stage(reads=lambda y, x: np.s_[sl.reduce_axis(3) :, x]),
                              "depends on"),
    "reads of two inputs": (
        lambda: sl.extern((4, 6), [given(), given()], lambda a, b, c: None, name="B",
                          reads=lambda y, x: np.s_[y, x]),
        r"returns 1 index for 2 inputs .*\n.*a list with an index for each",
    ),
    "writes less": (
        lambda: stage(reads=lambda y, x: np.s_[y, x],
                      writes=lambda y, x: np.s_[y.start + 1 : y.stop + 1, x]),
        "not always inside|does not contain",
    ),
    "boxes of two shapes": (
        lambda: sl.extern([(4,), (6,)], [given()], lambda a, b, c: None, reads=lambda y: y),
        "its outputs differ in shape",
    ),
    "no C": (lambda: stage("some text"), r"the C compiler refuses its source: B:1:.*error"),
    "an undeclared name": (lambda: stage(C.format("return missing;")), "B:1:.*missing"),
    "another C function": (lambda: stage("int F(void) { return 0; }"), "defines no function B"),
    "a static C function": (
        lambda: stage("static " + C.format("return 0;")), "the C compiler refuses|defines no"),
    "another signature": (lambda: stage("int B(double *a) { return 0; }"),
                          r"conflicting types.*\n.*\n  int B\(const float \*, float \*"),
    "a name of C": (lambda: stage(C.format("return 0;").replace("B(", "sin("), name="sin"),
                    "the C compiler refuses its source"),
    "a name with a point": (lambda: stage(C.format("return 0;"), name="B.x"),
                            "a C function cannot have the name B.x"),
    "a step of a scan": (scan_of_a_call, "scan scan: its step calls same"),
    "a call in a lambda": (in_a_lambda, r"compiled .*\n.*\n.*sl\.extern"),
}  # fmt: skip


@pytest.mark.parametrize("case", DEFINITIONS)
def test_definitions(case: str) -> None:
    define, message = DEFINITIONS[case]
    with pytest.raises(SchedlangError, match=message):
        define()


def steps(act: Callable[[sl.Schedule, sl.Tensor, sl.Tensor], Any]) -> Callable[[], Any]:
    return lambda: act(*scheduled())


SCHEDULES: dict[str, tuple[Callable[[], Any], str]] = {
    "split": (steps(lambda s, B, C: s[B].split(C.op.axis[0], factor=2)),
              r"split\(i, factor=2\) on stage B: B has no loops: one call of same computes it"),
    "parallel": (steps(lambda s, B, C: s[B].parallel(C.op.axis[0])), "B has no loops"),
    "vectorize": (steps(lambda s, B, C: s[B].vectorize(C.op.axis[1])), "B has no loops"),
    "tensorize": (steps(lambda s, B, C: s[B].tensorize(C.op.axis[1], sl.instructions.vpdpbusd)),
                  "B has no loops"),
    "compute_at": (at_loop, r"compute_at\(C, i\) on stage B: B is computed whole, .*\n.*reads="),
    "compute_inline": (steps(lambda s, B, C: s[B].compute_inline()), "same, which writes arrays"),
    "an inlined input": (inlined_input, "the function of B reads P as an array"),
    "cache_write": (steps(lambda s, B, C: s.cache_write(B, "local")), "writes its array itself"),
    "rfactor": (steps(lambda s, B, C: s.rfactor(B, C.op.axis[0])), "B is not a reduction"),
    "storage_align": (steps(lambda s, B, C: s[B].storage_align(C.op.axis[0], 8)),
                      "i is not a dimension of B"),
    "the layout of a result": (lambda: transformed(False), "computes B as an array"),
    "the layout of an input": (lambda: transformed(True), "reads P as an array"),
    "a predicate": (steps(lambda s, B, C: s[B].set_store_predicate(C.op.axis[0] > 1)),
                    "B is a call and stores nothing itself"),
    "rows that are kept": (lambda: stored(), "computes B a box at a time"),
    "a GPU": (steps(lambda s, B, C: sl.build(s, target="cuda-emulator")),
              r"stage B is computed by same, which runs on the CPU\n.*target=\"cpu\""),
}  # fmt: skip


def stored() -> None:
    s, B, C = boxed()
    s[B].compute_at(s[C], C.op.axis[1])
    s[B].store_at(s[C], C.op.axis[0])


@pytest.mark.parametrize("case", SCHEDULES)
def test_schedules(case: str) -> None:
    act, message = SCHEDULES[case]
    with pytest.raises(SchedlangError, match=message):
        act()


@pytest.mark.parametrize(
    "asked, act",
    [
        ("sl.network", lambda B: sl.network(B, target="cuda")),
        (r"sl.gradient\(y", lambda B: sl.gradient(total(B), B.op.input_tensors)),
    ],
)
def test_what_looks_inside(asked: str, act: Callable[[sl.Tensor], Any]) -> None:
    with pytest.raises(
        SchedlangError, match=f"{asked}.*: B is computed by same, into which schedlang cannot look"
    ):
        act(stage())


def total(B: sl.Tensor) -> sl.Tensor:
    i, j = sl.reduce_axis(4, name="i"), sl.reduce_axis(6, name="j")
    return sl.compute((), lambda: sl.sum(B[i, j], axis=(i, j)), name="y")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda a, out: a, r"it returns array\(float32, 2d, C\).*\n.*return nothing"),
        (lambda a, out: a.missing, r"numba cannot compile it for \(array.*\n.*attribute 'missing'"),
    ],
)
def test_numba_refuses(call: Any, message: str) -> None:
    s = sl.schedule(stage(njit(call)))
    with pytest.raises(sl.errors.BuildError, match=message) as error:
        sl.build(s)
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("parallel", slow_but(["True"], [False, True]))
def test_a_function_that_raises(target: str, parallel: bool) -> None:
    def divided(a, out):
        out[...] = 1 / 0

    for call, kind, message in (
        (divided, ZeroDivisionError, "division by zero"),
        (raising, sl.errors.CallError, r"raising raised .*\n.*target=\"python\""),
        (C.format("return 7;"), sl.errors.CallError, "B returned a number other than 0"),
    ):
        s, B, D = scheduled(call, reads=lambda y, x: np.s_[y, x])
        if parallel:
            s[D].parallel(D.op.axis[0])
            s[B].compute_at(s[D], D.op.axis[0])
        f = sl.build(s, target=target)
        with pytest.raises(kind, match=message):
            f(X)
        if call is raising:
            np.testing.assert_array_equal(f(-X).shape, X.shape)


def test_a_function_that_raises_under_a_debugger() -> None:
    with pytest.raises(ValueError, match="too large"):
        sl.build(sl.schedule(stage(raising)), target="python")(X)
    with pytest.raises(ValueError, match="too large"):
        sl.reference(stage(raising))(X)


CHANGED = (
    "sl.extern calls changed: it writes to an array that is read-only, as its input A is\n"
    r"  Write the outputs alone, and copy an input before you change it, as in A.copy\(\)\."
)


@pytest.mark.parametrize("target", ["cpu", "python", "reference"])
def test_results_and_inputs_of_functions_on_the_host(target: str) -> None:
    def run(call: Any) -> Any:
        B = stage(call)
        return sl.reference(B) if target == "reference" else sl.build(sl.schedule(B), target=target)

    def returned(a, out):
        return a + 1

    def changed(a, out):
        a[0, 0] = 5

    def misshapen(a, out):
        out[...] = np.ones(5)

    with pytest.raises(sl.errors.CallTypeError, match=r"it returns ndarray.*\n.*return nothing"):
        run(returned)(X)
    with pytest.raises(sl.errors.VerifyError, match=CHANGED) as refusal:
        run(changed)(X)
    # the line of the function is in the traceback
    if target != "cpu":
        assert "assignment destination is read-only" in str(refusal.value.__context__)
    with pytest.raises(ValueError, match="broadcast"):
        run(misshapen)(X)
    with pytest.raises(sl.errors.VerifyError, match=CHANGED):
        stage(changed).op.check(X)


def test_the_oracle_sees_a_failure_of_c() -> None:
    with pytest.raises(sl.errors.CallError, match="the C function returned 7, so it failed"):
        sl.reference(stage(C.format("return 7;")))(X)


def outside(a, out):
    rows, columns = out.shape
    np.lib.stride_tricks.as_strided(out, (rows + 1, columns), out.strides)[...] = 1
    out[...] = a


def half(a, out):
    out[: len(out) // 2] = a[: len(out) // 2]


@njit
def changing(a, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j]
    a[0, 0] = 5


def relative(a, out):
    out[...] = a - a[0, 0]


def peeking(a, out):
    rows, columns = out.shape
    out[...] = np.lib.stride_tricks.as_strided(a, (rows, columns + 1), a.strides)[:, 1:]


@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize(
    "call, message",
    [
        (outside, "outside computes: in .*, it writes outside of the box of B"),
        (half, r"element \[.*\] of B is not written"),
        (changing, "it changes its input A\n  Write the outputs alone"),
        (peeking, "depends on memory outside of the boxes"),
        (relative, r"the box \[\d:\d, \d:\d\] of B differs from these elements of the whole"),
    ],
)
def test_check_finds_what_leaves_its_boxes(call: Any, message: str, boxes: bool) -> None:
    B = stage(call, reads=(lambda y, x: np.s_[y, x]) if boxes else None)
    x = np.random.default_rng(0).random((4, 6), "float32")
    if call is relative and not boxes:
        B.op.check(x)
        return
    with pytest.raises(sl.errors.VerifyError, match=message):
        B.op.check(x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "int64"])
def test_check_passes(dtype: str) -> None:
    n = sl.var("n")
    A = sl.placeholder((n, 6), dtype, name="A")
    B = sl.extern((n, 6), [A], same, name="B", reads=lambda y, x: np.s_[y, x])
    for rows in (0, 1, 5):
        B.op.check((np.random.default_rng(1).random((rows, 6)) * 9).astype(dtype))


def test_a_check_names_the_argument_that_lacks_elements() -> None:
    def below(a, out):
        rows, columns = out.shape
        if rows < 4:
            a = np.lib.stride_tricks.as_strided(a, (rows + 1, columns), a.strides)[1:]
        out[...] = a

    B = stage(below, reads=lambda y, x: np.s_[y, x])
    message = (
        "(?s)in the box .* depends on memory outside of the boxes\n  Write each element of its "
        "outputs, from the boxes that reads= gives alone"
    )
    with pytest.raises(sl.errors.VerifyError, match=message):
        B.op.check(np.random.default_rng(0).random((4, 6), "float32"))
    with pytest.raises(sl.errors.VerifyError, match="whole output.*\n.*from its inputs alone"):
        stage(peeking).op.check(np.ones((4, 6), "float32"))


def test_check_takes_the_inputs() -> None:
    with pytest.raises(sl.errors.CallError, match=re.escape("A")):
        stage().op.check(np.ones((3, 3), "float32"))


@pytest.mark.parametrize("name, value", [("cases", -1), ("cases", 2.5), ("seed", "x")])
def test_the_numbers_of_a_check(name: str, value: Any) -> None:
    message = f"B.op.check(..., {name}={value!r}): {name} is a whole number, at least 0"
    with pytest.raises(CallError, match=re.escape(message)):
        stage().op.check(X, **{name: value})
