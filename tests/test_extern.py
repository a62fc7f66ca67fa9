"""Functions of users as stages: kernels on every target, compared with NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cfunc, njit, types

import schedlang as sl
from schedlang.intrinsics.cpu.foreign import numba_function
from schedlang.ir.interpret import interpret
from schedlang.runtime import numba_externs
from tests.conftest import Golden
from tests.machine_interpreter import interpret_machine
from tests.marks import slow_but

TARGETS = [("cpu", "llvm"), ("cpu", "numba"), ("python", ""), ("c", "")]
DTYPES = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "float32", "float64"]


@njit
def cumulated(a, out):
    for i in range(a.shape[0]):
        total = np.zeros(1, a.dtype)
        for j in range(a.shape[1]):
            total[0] += a[i, j]
            out[i, j] = total[0]


def cumulated_on_host(a, out):
    np.cumsum(a, axis=1, out=out)


SOURCE = """
int B(const float *a, float *out, const int64_t *sizes) {
    const int64_t *by_a = sizes + 2, *by_out = sizes + 6;
    for (int64_t i = 0; i < sizes[0]; i++) {
        float total = 0;
        for (int64_t j = 0; j < sizes[1]; j++) {
            total += a[i * by_a[0] + j * by_a[1]];
            out[i * by_out[0] + j * by_out[1]] = total;
        }
    }
    return 0;
}
"""


@cfunc(types.int32(types.CPointer(types.float32), types.CPointer(types.float32),
                   types.CPointer(types.int64)))  # fmt: skip
def cumulated_in_c(a, out, sizes):
    for i in range(sizes[0]):
        total = np.float32(0)
        for j in range(sizes[1]):
            total += a[i * sizes[2] + j]
            out[i * sizes[6] + j] = total
    return 0


class Callable2:
    """An object that can be called."""

    def __call__(self, a: np.ndarray, out: np.ndarray) -> None:
        out[...] = a.cumsum(axis=1)


CALLS = {
    "numba": cumulated,
    "host": cumulated_on_host,
    "source": SOURCE,
    "cfunc": cumulated_in_c,
    "address": cumulated_in_c.address,
    "ctypes": cumulated_in_c.ctypes,
    "object": Callable2(),
}


def between(call: Any, n: Any = 7, m: Any = 13) -> tuple[sl.Tensor, sl.Schedule]:
    """Return a stage before and one after a call for whole arrays."""
    A = sl.placeholder((n, m), name="A")
    P = sl.compute((n, m), lambda i, j: A[i, j] + 1, name="P")
    B = sl.extern((n, m), [P], call, name="B")
    C = sl.compute((n, m), lambda i, j: B[i, j] * 2 + P[i, j], name="C")
    s = sl.schedule(C)
    s[C].parallel(C.op.axis[0])
    return C, s


def expected_between(x: np.ndarray) -> np.ndarray:
    return np.cumsum(x + 1, axis=1) * 2 + (x + 1)


@pytest.mark.parametrize("target, compiler", TARGETS)
@pytest.mark.parametrize("kind", slow_but(["numba", "host", "source", "address"], CALLS))
def test_a_call_between_stages(kind: str, target: str, compiler: str) -> None:
    C, s = between(CALLS[kind])
    x = np.random.default_rng(0).random((7, 13), "float32")
    f = sl.build(s, target=target, compiler=compiler)
    for _ in range(2):
        np.testing.assert_allclose(f(x), expected_between(x), rtol=1e-5)


@pytest.mark.parametrize("kind", CALLS)
def test_the_oracle_and_the_interpreters(kind: str) -> None:
    C, s = between(CALLS[kind])
    x = np.random.default_rng(1).random((7, 13), "float32")
    np.testing.assert_allclose(sl.reference(C)(x), expected_between(x), rtol=1e-5)
    run = interpret(sl.lower(s), [x])
    np.testing.assert_allclose(run.outputs[0], expected_between(x), rtol=1e-5)
    assert run.loads["P"] == 2 * x.size and run.stores["B"] == x.size
    f = sl.build(s)
    out, functions = np.zeros(x.size, "float32"), [0, C.op.input_tensors[0].op.function.run]
    interpret_machine(f.machine_nest, [x.reshape(-1), out, functions])
    np.testing.assert_allclose(out.reshape(x.shape), expected_between(x), rtol=1e-5)


@pytest.mark.parametrize("target, compiler", TARGETS)
@pytest.mark.parametrize("kind", slow_but(["numba", "source"], ["numba", "host", "source"]))
def test_symbolic_sizes(kind: str, target: str, compiler: str) -> None:
    C, s = between(CALLS[kind], sl.var("n"), sl.var("m"))
    f = sl.build(s, target=target, compiler=compiler)
    for shape in [(7, 13), (1, 1), (0, 4), (3, 0), (16, 8)]:
        x = np.random.default_rng(2).random(shape, "float32")
        np.testing.assert_allclose(f(x), expected_between(x), rtol=1e-5)
        np.testing.assert_allclose(sl.reference(C)(x), expected_between(x), rtol=1e-5)


@njit
def turned(a, out):
    for k in range(a.shape[0]):
        out[k] = a[a.shape[0] - 1 - k]


@pytest.mark.parametrize("target", ["cpu", "python", "c"])
@pytest.mark.parametrize("dtype", slow_but(["bool", "int8"], DTYPES))
@pytest.mark.parametrize("compiled", [True, False])
def test_dtypes(dtype: str, target: str, compiled: bool) -> None:
    A = sl.placeholder((9,), dtype, name="A")
    B = sl.extern((9,), [A], turned if compiled else turned.py_func, name="B")
    assert B.dtype == dtype
    x = (np.random.default_rng(3).random(9) * 100).astype(dtype)
    x[::2] = 0
    result = sl.build(sl.schedule(B), target=target)(x)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, x[::-1])


@pytest.mark.parametrize("target, compiler", TARGETS)
def test_several_inputs_and_outputs_of_other_shapes(target: str, compiler: str) -> None:
    def summed(a, b, rows, columns, count):
        rows[...] = a.sum(axis=1) + b
        columns[...] = a.max(axis=0)
        count[...] = (a > 0.5).sum()

    A, B = sl.placeholder((6, 5), name="A"), sl.placeholder((6,), "float64", name="B")
    dtypes = ["float64", "float32", "int64"]
    R, M, K = sl.extern([(6,), (5,), ()], [A, B], summed, name="S", dtype=dtypes)
    D = sl.compute((6, 5), lambda i, j: R[i] + M[j] + K[()], name="D")
    a, b = np.random.default_rng(4).random((6, 5), "float32"), np.arange(6.0)
    expected = (a.sum(1) + b)[:, None] + a.max(0) + (a > 0.5).sum()
    f = sl.build(sl.schedule(D), target=target, compiler=compiler)
    np.testing.assert_allclose(f(a, b), expected, rtol=1e-6)
    rows, columns, count = sl.build(sl.schedule([R, M, K]), target=target)(a, b)
    np.testing.assert_allclose(rows, a.sum(1) + b, rtol=1e-6)
    np.testing.assert_array_equal(columns, a.max(0))
    assert count == (a > 0.5).sum()
    # an output that nobody reads has storage of its own
    np.testing.assert_array_equal(sl.build(sl.schedule(M), target=target)(a, b), columns)


def test_no_inputs() -> None:
    def counted(out):
        out[...] = np.arange(out.size)

    B = sl.extern((5,), [], counted, name="B", dtype="int32")
    C = sl.compute((5,), lambda i: B[i] * 3, name="C")
    np.testing.assert_array_equal(sl.build(sl.schedule(C))(), np.arange(5) * 3)


@pytest.mark.parametrize("target", ["cpu", "python", "c"])
def test_arrays_of_no_dimensions(target: str) -> None:
    @njit
    def added(a, b, out):
        out[()] = a[()] + b[()]

    A, B = sl.placeholder((), name="A"), sl.placeholder((), name="B")
    C = sl.extern((), [A, B], added, name="C")
    a, b = np.array(2, "float32"), np.array(3, "float32")
    assert sl.build(sl.schedule(C), target=target)(a, b) == sl.reference(C)(a, b) == 5
    C.op.check(a, b)


def test_an_input_twice() -> None:
    @njit
    def added(a, b, out):
        for k in range(a.shape[0]):
            out[k] = a[k] + b[k]

    A = sl.placeholder((5,), name="A")
    B = sl.extern((5,), [A, A], added, name="B")
    assert B.op.input_tensors == [A]
    x = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(sl.build(sl.schedule(B))(x), 2 * x)
    np.testing.assert_array_equal(sl.reference(B)(x), 2 * x)


FACTOR = 2


def test_stages_share_the_code_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C function around one of numba's is compiled once, and again after ``recompile``."""

    @njit
    def scaled(a, out):
        for k in range(a.shape[0]):
            out[k] = a[k] * FACTOR

    def counted(call: Any, boxes: Any) -> Any:
        compiled.append(boxes)
        return numba_function(call, boxes)

    compiled: list[Any] = []
    monkeypatch.setattr(numba_externs, "numba_function", counted)
    x = np.arange(5, dtype="float32")
    for factor in (2, 3):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        scaled.recompile()
        for target in ("cpu", "c"):
            A = sl.placeholder((5,), name="A")
            B = sl.extern((5,), [A], scaled, name="B")
            result = sl.build(sl.schedule(B), target=target)(x)
            np.testing.assert_array_equal(result, factor * x)
    assert compiled == [(("float32", 1, True),) * 2] * 2


@njit
def blurred(a, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = a[i, j] + a[i + 1, j] + a[i + 2, j]


def blurred_on_host(a, out):
    out[...] = a[:-2] + a[1:-1] + a[2:]


BLURRED = """
int B(const float *a, float *out, const int64_t *s) {
    for (int64_t i = 0; i < s[4]; i++)
        for (int64_t j = 0; j < s[5]; j++) {
            const float *from = a + i * s[2] + j * s[3];
            out[i * s[6] + j * s[7]] = from[0] + from[s[2]] + from[2 * s[2]];
        }
    return 0;
}
"""
BLURS = {"numba": blurred, "host": blurred_on_host, "source": BLURRED}


def two_blurs(call: Any, n: Any, m: Any) -> tuple[sl.Tensor, sl.Tensor, sl.Tensor]:
    A = sl.placeholder((n + 4, m), name="A")
    P = sl.compute((n + 4, m), lambda i, j: A[i, j] * 3, name="P")
    B = sl.extern(
        (n + 2, m), [P], call, name="B",
        reads=lambda y, x: np.s_[y.start : y.stop + 2, x.start : x.stop],
    )  # fmt: skip
    return P, B, sl.compute((n, m), lambda i, j: B[i, j] + B[i + 1, j] + B[i + 2, j], name="C")


def expected_blurs(x: np.ndarray) -> np.ndarray:
    p = x * 3
    b = p[:-2] + p[1:-1] + p[2:]
    return b[:-2] + b[1:-1] + b[2:]


def rows(s: sl.Schedule, P: sl.Tensor, B: sl.Tensor, C: sl.Tensor) -> None:
    s[B].compute_at(s[C], C.op.axis[0])


def strips(s: sl.Schedule, P: sl.Tensor, B: sl.Tensor, C: sl.Tensor) -> None:
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    s[P].compute_at(s[C], outer)
    s[C].parallel(outer)


def cut_strips(s: sl.Schedule, P: sl.Tensor, B: sl.Tensor, C: sl.Tensor) -> None:
    outer, _ = s[C].split(C.op.axis[0], factor=4, tail="cut")
    s[B].compute_at(s[C], outer)


def tiles(s: sl.Schedule, P: sl.Tensor, B: sl.Tensor, C: sl.Tensor) -> None:
    _, columns, _, lanes = s[C].tile(*C.op.axis, 5, 8)
    s[B].compute_at(s[C], columns)
    s[B].set_scope("local")
    s[C].vectorize(lanes)


def unrolled(s: sl.Schedule, P: sl.Tensor, B: sl.Tensor, C: sl.Tensor) -> None:
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    four, _ = s[C].split(inner, factor=2)
    s[C].unroll(four)
    s[B].compute_at(s[C], four)
    s[P].compute_at(s[C], outer)


def copied(s: sl.Schedule, P: sl.Tensor, B: sl.Tensor, C: sl.Tensor) -> None:
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    T = s.cache_read(P, "local", [s[B]])
    s[B].compute_at(s[C], outer)
    s[T].compute_at(s[C], outer)
    s[T].storage_align(s[T].op.axis[0], 32, 5)


def sliding(s: sl.Schedule, P: sl.Tensor, B: sl.Tensor, C: sl.Tensor) -> None:
    s[B].compute_at(s[C], C.op.axis[0])
    s[P].compute_at(s[C], C.op.axis[0])
    s[P].store_root()


PLACES = [rows, strips, cut_strips, tiles, unrolled, copied, sliding]


BOXES: dict[str, tuple[str, Callable[..., None], Any]] = {
    f"{kind} {place.__name__} {size}": (kind, place, size)
    for kind, size in (("numba", (23, 30)), ("host", (1, 1)), ("source", (16, 9)),
                       ("numba", "symbolic"))
    for place in PLACES
    if size != "symbolic" or place not in (copied, unrolled)
}  # fmt: skip
# numba compiles the others for a second each
QUICK_BOXES = [
    *(case for case, (kind, *_) in BOXES.items() if kind != "numba"),
    "numba strips (23, 30)", "numba rows symbolic", "numba sliding symbolic",
]  # fmt: skip


@pytest.mark.parametrize("case", slow_but(QUICK_BOXES, BOXES))
def test_boxes_at_loops(case: str) -> None:
    kind, schedule, size = BOXES[case]
    symbolic = size == "symbolic"
    n, m = (sl.var("n"), sl.var("m")) if symbolic else size
    P, B, C = two_blurs(BLURS[kind], n, m)
    s = sl.schedule(C)
    schedule(s, P, B, C)
    shapes = [(11, 17), (4, 1), (4, 3)] if symbolic else [(size[0] + 4, size[1])]
    for shape in shapes:
        x = np.random.default_rng(5).random(shape, "float32")
        expected = expected_blurs(x)
        np.testing.assert_allclose(sl.reference(C)(x), expected, rtol=1e-5)
        np.testing.assert_allclose(interpret(sl.lower(s), [x]).outputs[0], expected, rtol=1e-5)
        for target, compiler in TARGETS if kind == "numba" else TARGETS[::2]:
            f = sl.build(s, target=target, compiler=compiler)
            np.testing.assert_allclose(f(x), expected, rtol=1e-5, err_msg=f"{target} {compiler}")
            assert f.unproven == () and not f.checked_by_size


def test_a_printed_nest(golden: Golden) -> None:
    texts = []
    for n, m in ((23, 30), (sl.var("n"), sl.var("m"))):
        P, B, C = two_blurs(blurred, n, m)
        s = sl.schedule(C)
        strips(s, P, B, C)
        texts += [str(s), str(sl.build(s).machine_nest)]
    golden("\n\n".join(texts))


def test_a_printed_file(golden: Golden) -> None:
    P, B, C = two_blurs(blurred, 8, 6)
    s = sl.schedule(C)
    rows(s, P, B, C)
    texts = [sl.build(s, target=target).source for target in ("cpu", "c")]
    golden("\n\n".join([texts[0], texts[1][texts[1].index("void C_kernel") :]]))


@pytest.mark.parametrize("target", slow_but(["python", "c"], ["cpu", "python", "c"]))
def test_boxes_that_leave_the_tensor_are_clipped(target: str) -> None:
    @njit
    def one_more(a, out):
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = a[i, j] + 1

    def padded(i: Any, j: Any) -> Any:
        return sl.if_then_else((i > 0) & (i < 10), B[i - 1, j], 0.0)

    A = sl.placeholder((9, 19), name="A")
    B = sl.extern((9, 19), [A], one_more, name="B", reads=lambda y, x: np.s_[y, x])
    C = sl.compute((11, 19), padded, name="C")
    s = sl.schedule(C)
    _, columns, _, lanes = s[C].tile(*C.op.axis, 4, 8)
    s[B].compute_at(s[C], columns)
    s[C].vectorize(lanes)
    x = np.random.default_rng(6).random((9, 19), "float32")
    expected = np.pad(x + 1, ((1, 1), (0, 0)))
    np.testing.assert_array_equal(sl.build(s, target=target)(x), expected)
    np.testing.assert_array_equal(interpret(sl.lower(s), [x]).outputs[0], expected)


@pytest.mark.parametrize("n", [5, "n"])
@pytest.mark.parametrize("factor", [1, 2])
def test_no_call_for_a_tile_outside_of_the_tensor(n: Any, factor: int) -> None:
    """A padding of two columns on each side asks for tiles in which no element is."""
    starts = []

    def negated(a, out):
        assert out.size
        starts.append(out.shape)
        out[...] = -a[:, 1:]

    n = sl.var("n") if n == "n" else n
    A = sl.placeholder((n, n + 1), name="A")
    reads = {"reads": lambda y, x: np.s_[y, x.start : x.stop + 1]}
    B = sl.extern((n, n), [A], negated, name="B", **reads)

    def padded(i: Any, j: Any) -> Any:
        return sl.if_then_else((j >= 2) & (j < n + 2), B[i, j - 2], 0.0)

    C = sl.compute((n, n + 4), padded, name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[1], factor=factor)
    s[B].compute_at(s[C], outer)
    assert "# elements of B" in str(s)
    x = np.random.default_rng(11).random((5, 6), "float32")
    expected = np.pad(-x[:, 1:], ((0, 0), (2, 2)))
    np.testing.assert_array_equal(interpret(sl.lower(s), [x]).outputs[0], expected)
    for target in ("cpu", "python", "c"):
        starts.clear()
        np.testing.assert_array_equal(sl.build(s, target=target)(x), expected)
        assert len(starts) == 5 * -(-5 // factor)


@pytest.mark.parametrize("target", ["cpu", "python", "c"])
def test_clamped_reads(target: str) -> None:
    """A call for rows near an edge gets fewer rows, and knows by their number."""

    def near(y: slice) -> Any:
        return np.s_[sl.max(y.start - 1, 0) : sl.min(y.stop + 1, 12)]

    def surplus(a, out):
        out[...] = len(a) - len(out)

    A = sl.placeholder((12,), name="A")
    B = sl.extern((12,), [A], surplus, name="B", reads=near)
    C = sl.compute((12,), lambda i: B[i] + A[i], name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    x = np.zeros(12, "float32")
    result = sl.build(s, target=target)(x)
    np.testing.assert_array_equal(result, [1] * 4 + [2] * 4 + [1] * 4)


@pytest.mark.parametrize("target", ["cpu", "python", "c"])
def test_a_call_may_write_more_than_is_asked_for(target: str, golden: Golden) -> None:
    def ordered(a, out):
        out[...] = np.sort(a, axis=1)

    A = sl.placeholder((12, 10), name="A")
    B = sl.extern(
        (12, 10), [A], ordered, name="B",
        reads=lambda y, x: np.s_[y, x], writes=lambda y, x: np.s_[y, :],
    )  # fmt: skip
    C = sl.compute((12, 5), lambda i, j: B[i, j + 5] - B[i, j], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[1])
    x = np.random.default_rng(7).random((12, 10), "float32")
    expected = np.sort(x, axis=1)[:, 5:] - np.sort(x, axis=1)[:, :5]
    np.testing.assert_allclose(sl.build(s, target=target)(x), expected)
    golden(s)


def test_a_chain_of_calls() -> None:
    @njit
    def plus(a, out):
        for k in range(a.shape[0]):
            out[k] = a[k] + 1

    def times(a, out):
        out[:] = a * 3

    A = sl.placeholder((10,), name="A")
    box = {"reads": lambda i: np.s_[i]}
    B = sl.extern((10,), [A], plus, name="B", **box)
    C = sl.extern((10,), [B], times, name="C", **box)
    D = sl.extern((10,), [C], plus, name="D", **box)
    E = sl.compute((10,), lambda i: D[i] + B[i], name="E")
    s = sl.schedule(E)
    outer, _ = s[E].split(E.op.axis[0], factor=3)
    for stage in (D, C, B):
        s[stage].compute_at(s[E], outer)
    x = np.arange(10, dtype="float32")
    np.testing.assert_array_equal(sl.build(s)(x), ((x + 1) * 3 + 1) + x + 1)


def test_a_scan_around_a_call() -> None:
    """A call may come before a scan and after it."""
    X = sl.placeholder((6, 4), name="X")
    P = sl.extern((6, 4), [X], cumulated, name="P")
    state = sl.placeholder((6, 4), name="state")
    first = sl.compute((1, 4), lambda _, i: P[0, i], name="first")
    step = sl.compute((6, 4), lambda t, i: state[t - 1, i] + P[t, i], name="step")
    S = sl.scan(first, step, state, inputs=[P])
    Y = sl.extern((6, 4), [S], cumulated, name="Y")
    x = np.random.default_rng(8).random((6, 4), "float32")
    expected = x.cumsum(1).cumsum(0).cumsum(1)
    np.testing.assert_allclose(sl.build(sl.schedule(Y))(x), expected, rtol=1e-5)
    np.testing.assert_allclose(sl.reference(Y)(x), expected, rtol=1e-5)


def test_threads_call_at_the_same_time() -> None:
    @njit(nogil=True)
    def slow(a, out):
        for i in range(out.shape[0]):
            total = np.float64(0)
            for k in range(1000):
                total += np.sqrt(a[i] + k)
            out[i] = total

    A = sl.placeholder((64,), "float64", name="A")
    B = sl.extern((64,), [A], slow, name="B", reads=lambda i: np.s_[i])
    C = sl.compute((64,), lambda i: B[i] + 0.0, name="C")
    s = sl.schedule(C)
    s[C].parallel(C.op.axis[0])
    s[B].compute_at(s[C], C.op.axis[0])
    x = np.random.default_rng(9).random(64)
    expected = np.sqrt(x[:, None] + np.arange(1000)).sum(axis=1)
    np.testing.assert_allclose(sl.build(s)(x), expected)


def test_one_file_calls_the_function_of_its_kernel() -> None:
    """Two kernels of one text share machine code, and have functions of their own."""
    A = sl.placeholder((4,), name="A")
    kernels = []
    for factor in (2, 3):

        def scaled(a, out, factor=factor):
            out[...] = a * factor

        kernels.append(sl.build(sl.schedule(sl.extern((4,), [A], scaled, name="B"))))
    assert kernels[0].source == kernels[1].source
    x = np.ones(4, "float32")
    assert [float(f(x)[0]) for f in kernels] == [2, 3]


def test_what_a_kernel_offers() -> None:
    C, s = between(cumulated)
    x = np.random.default_rng(10).random((7, 13), "float32")
    f = sl.build(s)
    expected, out = expected_between(x), np.empty((7, 13), "float32")
    run, given = f.bound(x, out)
    run(*given)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    out[...] = 0
    f.unchecked(x.reshape(-1), out.reshape(-1))
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert "C_kernel" in f.llvm and f.asm
    assert sl.evaluate(f, x, repeat=2).gflops is None
    assert f.profile(x, repeat=1)["P"] >= 0
    assert [loop.stage for loop in f.loop_nest.loops] == ["P", "P", "C", "C"]
    assert "B = cumulated(P)" in str(f.loop_nest)
    assert s.graph().nodes["B"]["kind"] == "extern"
    assert r"\mathrm{cumulated}(P)" in C.latex()
    again = sl.Schedule.from_json(s.to_json(), C)
    assert str(again) == str(s)
    np.testing.assert_allclose(sl.build(s.copy())(x), expected, rtol=1e-5)


def test_an_output_is_not_taken_for_an_input() -> None:
    """A function may read an input after it wrote an output, so these must be two arrays."""

    def shifted(a, out):
        out[...] = np.roll(a, 1)

    A = sl.placeholder((6,), name="A")
    B = sl.extern((6,), [A], shifted, name="B")
    f = sl.build(sl.schedule(B))
    x = np.arange(6, dtype="float32")
    with pytest.raises(sl.errors.CallError, match="overlap|share"):
        f(x, x)


def test_a_rule_gives_the_derivative() -> None:
    def squared(a, out):
        np.multiply(a, a, out=out)

    A = sl.placeholder((5,), name="A")
    B = sl.extern((5,), [A], squared, name="B")
    k = sl.reduce_axis(5, name="k")
    y = sl.compute((), lambda: sl.sum(B[k], axis=k), name="y")

    def rule(head: sl.Tensor) -> dict[sl.Tensor, sl.Tensor]:
        return {A: sl.compute((5,), lambda i: 2 * A[i] * head[i], name="A_grad")}

    (gradient,) = sl.gradient(y, [A], rules={B: rule})
    x = np.arange(5, dtype="float32")
    np.testing.assert_allclose(sl.reference(gradient)(x), 2 * x)


def test_ctypes_functions_stay_alive() -> None:
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, *[ctypes.POINTER(ctypes.c_float)] * 2, ctypes.POINTER(ctypes.c_int64)
    )

    def made() -> Any:
        def negated(a: Any, out: Any, sizes: Any) -> int:
            for k in range(sizes[0]):
                out[k] = -a[k]
            return 0

        return kind(negated)

    A = sl.placeholder((5,), name="A")
    f = sl.build(sl.schedule(sl.extern((5,), [A], made(), name="B")))
    x = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(f(x), -x)
