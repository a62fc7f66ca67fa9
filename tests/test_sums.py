"""Tests of sums that stay in registers over the innermost reduction loops."""

import numpy as np
import pytest

import schedlang as sl
from schedlang.index.linear import Lin
from schedlang.ir.nodes import Buffer
from schedlang.machine.nodes import Array, Let, Load, Num, Reg, Store, Type
from schedlang.machine.select.sums import Sum, Sums, starts_of
from tests.marks import slow_but

DTYPES = ("float32", "float64", "float16", "int32", "uint8", "int64")


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(5).random(shape) * 5 - 1).astype(dtype)


def inside_loops(f: sl.Kernel, axis: str) -> str:
    """Return the lines of the innermost loop over ``axis``."""
    lines = f.source.splitlines()
    start = max(n for n, line in enumerate(lines) if line.strip().startswith(f"for {axis} in"))
    depth = len(lines[start]) - len(lines[start].lstrip())
    inner = []
    for line in lines[start + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        inner.append(line)
    return "\n".join(inner)


@pytest.mark.parametrize("dtype", slow_but(["float32", "uint8"], DTYPES))
@pytest.mark.parametrize("lanes", [False, True])
def test_a_block_of_the_reduction_outside_the_tile(dtype: str, lanes: bool):
    M, N, K = 13, 34, 21
    A = sl.placeholder((M, K), dtype, name="A")
    B = sl.placeholder((K, N), dtype, name="B")
    k = sl.reduce_axis(K, name="k")
    C = sl.compute((M, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 2, 16, tail="cut")
    ko, ki = s[C].split(k, factor=8, tail="cut")
    s[C].reorder(ko, io, jo, ki, ii, ji)
    s[C].unroll(ii)
    if lanes:
        s[C].vectorize(ji)
    f = sl.build(s, [A, B, C])
    if lanes:
        assert "store" not in inside_loops(f, "k_inner")
    a, b = values(M, K, dtype=dtype), values(K, N, dtype=dtype)
    rtol = {"float16": 2e-2, "float32": 1e-5}.get(dtype, 1e-9)
    np.testing.assert_allclose(f(a, b), sl.reference(C)(a, b), rtol=rtol)
    python = sl.build(s, [A, B, C], target="python")
    np.testing.assert_allclose(python(a, b), f(a, b), rtol=rtol)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize("target", ["cpu", "python"])
def test_sums_start_from_a_constant_in_registers(dtype: str, target: str):
    """Each element is stored once, after the loop, even without any steps."""
    n = sl.var("n")
    A = sl.placeholder((6, n), dtype, name="A")
    k = sl.reduce_axis(n, name="k")
    B = sl.compute((6,), lambda i: sl.max(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    outer, inner = s[B].split(B.op.axis[0], factor=3)
    s[B].reorder(outer, k, inner)
    s[B].unroll(inner)
    f = sl.build(s, [A, B], target=target)
    kernel = f.source.partition("def B_kernel")[2].partition("def _array")[0]
    assert "load(B" not in kernel and "load_half(B" not in kernel
    assert kernel.count("store") == 3
    a = values(6, 7, dtype=dtype)
    np.testing.assert_array_equal(f(a), a.max(axis=1))
    least = {"int8": -128, "int64": -(2**63), "bool": False}.get(dtype, -np.inf)
    np.testing.assert_array_equal(f(a[:, :0].copy()), np.full(6, least, dtype))


def test_an_argmax_starts_from_both_constants():
    A = sl.placeholder((5, 9), name="A")
    k = sl.reduce_axis(9, name="k")
    B = sl.compute((5,), lambda i: sl.argmax(A[i, k], axis=k), name="B")
    f = sl.build(sl.schedule(B), [A, B])
    a = values(5, 9)
    np.testing.assert_array_equal(f(a), a.argmax(axis=1))
    kernel = f.source.partition("def B_kernel")[2].partition("def _array")[0]
    assert "load(B" not in kernel and "B_sum = -1" in kernel


def test_sums_that_cannot_start_in_registers():
    """Sums start in memory if an element is stored twice, or if the init stores other elements."""
    B = Buffer("B", "float32", (4,), "global")
    array, kind = Array("B", B), Type("float32")
    spots = [(B, Lin.of(n), 0, 1) for n in range(3)]
    stores = [Store("store", array, Num(n), Num(0.0, kind)) for n in range(3)]
    constant = dict(zip(stores, spots))
    named = {spot: Sum(Reg(f"B_sum_{n}", kind), Num(n)) for n, spot in enumerate(spots)}
    sums = Sums(frozenset([B]), named=named)
    assert starts_of(stores, constant, sums) == dict(zip(spots, stores))
    assert not starts_of(stores[:2], constant, sums)
    again = Store("store", array, Num(0), Num(1.0, kind))
    assert not starts_of([*stores, again], {**constant, again: spots[0]}, sums)
    other = Store("store", array, Num(3), Num(0.0, kind))
    assert not starts_of([*stores, other], {**constant, other: (B, Lin.of(3), 0, 1)}, sums)
    offset, element = Let(Reg("i"), Num(1)), Let(Reg("t", kind), Load("load", array, Num(0), kind))
    assert starts_of([*stores, offset], constant, sums)
    assert not starts_of([*stores, element], constant, sums)
    assert not starts_of([*stores, Store("store", array, Num(0), Reg("t", kind))], constant, sums)


def test_nested_reduction_loops_hold_one_sum():
    X, W = sl.placeholder((12, 9), name="X"), sl.placeholder((3, 3), name="W")
    y, x = sl.reduce_axis(3, name="y"), sl.reduce_axis(3, name="x")
    C = sl.compute((10, 7), lambda i, j: sl.sum(X[i + y, j + x] * W[y, x], axis=(y, x)), name="C")
    f = sl.build(sl.schedule(C), [X, W, C])
    assert "store" not in inside_loops(f, "x")
    assert "load(C" not in inside_loops(f, "y")
    a, w = values(12, 9), values(3, 3)
    np.testing.assert_allclose(f(a, w), sl.reference(C)(a, w), rtol=1e-5)


@pytest.mark.parametrize("order", ["tile inside", "lanes around"])
@pytest.mark.parametrize("unrolled", ["x", "y", "yx"])
def test_unrolled_reductions_hold_their_sums(order: str, unrolled: str):
    X, W = sl.placeholder((10, 34), name="X"), sl.placeholder((3, 3), name="W")
    y, x = sl.reduce_axis(3, name="y"), sl.reduce_axis(3, name="x")
    C = sl.compute((8, 32), lambda i, j: sl.sum(X[i + y, j + x] * W[y, x], axis=(y, x)), name="C")
    s = sl.schedule(C)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 2, 16)
    s[C].reorder(*((io, jo, y, x, ii, ji) if order == "tile inside" else (io, jo, ii, ji, y, x)))
    s[C].unroll(ii)
    s[C].vectorize(ji)
    for axis in (y, x):
        if axis.name in unrolled:
            s[C].unroll(axis)
    a, w = values(10, 34), values(3, 3)
    for target in ("python", "cpu"):
        f = sl.build(s, [X, W, C], target=target)
        # the updates of a row of sums
        assert f.source.count("vstore(C") == 2
        assert "vload(C" not in f.source
        np.testing.assert_allclose(f(a, w), sl.reference(C)(a, w), rtol=1e-5)


def test_masked_lanes_keep_no_sums_in_registers():
    n = sl.var("n")
    X = sl.placeholder((n, 3), name="X")
    k = sl.reduce_axis(3, name="k")
    C = sl.compute((n,), lambda i: sl.sum(X[i, k], axis=k), name="C")
    s = sl.schedule(C)
    _, lanes = s[C].split(C.op.axis[0], factor=8, tail="guard")
    s[C].vectorize(lanes)
    s[C].unroll(k)
    for target in ("python", "cpu"):
        f = sl.build(s, [X, C], target=target)
        for size in (0, 3, 8, 11):
            x = values(size, 3)
            np.testing.assert_allclose(f(x), x.sum(axis=1), rtol=1e-5)


def test_both_values_of_an_index_reduction_are_held():
    A = sl.placeholder((7, 19), name="A")
    k = sl.reduce_axis(19, name="k")
    C = sl.compute((7,), lambda i: sl.argmax(A[i, k], axis=k), name="C")
    f = sl.build(sl.schedule(C), [A, C])
    a = values(7, 19)
    np.testing.assert_array_equal(f(a), a.argmax(axis=1))


def test_an_element_under_a_bounds_guard_is_not_loaded_early():
    """In this loop order the guard is inside the reduction."""
    A = sl.placeholder((9, 10), name="A")
    k = sl.reduce_axis(10, name="k")
    C = sl.compute((9,), lambda i: sl.sum(A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=4, tail="guard")
    s[C].reorder(outer, k, inner)
    s[C].unroll(inner)
    for target in ("python", "cpu"):
        f = sl.build(s, [A, C], target=target)
        assert "_sum" not in f.source
        a = values(9, 10)
        np.testing.assert_allclose(f(a), a.sum(axis=1), rtol=1e-5)


def matmul(M: int, N: int, K: int) -> tuple[sl.Tensor, sl.Tensor, sl.Tensor]:
    A, B = sl.placeholder((M, K), name="A"), sl.placeholder((K, N), name="B")
    k = sl.reduce_axis(K, name="k")
    return A, B, sl.compute((M, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


@pytest.mark.parametrize("steps", [None, 4])
def test_a_tile_that_does_not_divide_keeps_its_sums_by_default(steps: int | None):
    A, B, C = matmul(20, 32, 23)
    s = sl.schedule(C)
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    io, ii = s[C].split(i, factor=6)
    jo, ji = s[C].split(j, factor=16)
    inner = [k] if steps is None else list(s[C].split(k, factor=steps))
    s[C].reorder(io, jo, *inner, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    if steps is not None:
        s[C].unroll(inner[1])
    assert not sl.lower(s).guards
    f = sl.build(s, [A, B, C])
    assert "store(C" not in inside_loops(f, inner[0].name.replace(".", "_"))
    a, b = values(20, 23), values(23, 32)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


def test_a_guard_on_the_steps_alone_leaves_the_sums_in_registers():
    n = sl.var("n")
    A = sl.placeholder((8, n), name="A")
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    ko, ki = s[C].split(k, factor=4, tail="guard")
    s[C].reorder(ko, ki, C.op.axis[0])
    s[C].unroll(C.op.axis[0])
    for target in ("python", "cpu"):
        f = sl.build(s, [A, C], target=target)
        assert "if k_outer*4 + k_inner < n:" in inside_loops(f, "k_inner")
        assert "store(C" not in inside_loops(f, "k_inner")
        for size in (0, 1, 4, 11):
            a = values(8, size)
            np.testing.assert_allclose(f(a), a.sum(axis=1), rtol=1e-5)


def test_more_sums_than_registers_stay_in_memory():
    A = sl.placeholder((64, 10), name="A")
    k = sl.reduce_axis(10, name="k")
    C = sl.compute((64,), lambda i: sl.sum(A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    s[C].reorder(k, C.op.axis[0])
    s[C].unroll(C.op.axis[0])
    f = sl.build(s, [A, C])
    assert "_sum" not in f.source
    a = values(64, 10)
    np.testing.assert_allclose(f(a), a.sum(axis=1), rtol=1e-5)


def upsampled(size: int, tile: int) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Return a 1-d transposed convolution of stride 2, with ``where=`` for the steps at inputs."""
    X, W = sl.placeholder((size + 2,), name="X"), sl.placeholder((4, 16), name="W")
    k = sl.reduce_axis(4, name="k")
    Y = sl.compute(
        (2 * size, 16),
        lambda i, o: sl.sum(X[(i + k) // 2] * W[3 - k, o], axis=k, where=(i + k) % 2 == 0),
        name="Y",
    )
    s = sl.schedule(Y)
    local = s.cache_write(Y, "local")
    i, o = Y.op.axis
    outer, inner = s[Y].split(i, factor=tile)
    s[Y].vectorize(o)
    s[local].compute_at(s[Y], outer)
    row, lanes = s[local].op.axis
    (k,) = s[local].op.reduce_axis
    s[local].reorder(k, row, lanes)
    for axis in (k, row):
        s[local].unroll(axis)
    s[local].vectorize(lanes)
    return s, [X, W, Y]


@pytest.mark.parametrize("target", ["cpu", "python"])
def test_conditions_decided_by_unrolled_loops_leave_sums_in_registers(target: str) -> None:
    schedule, tensors = upsampled(6, 4)
    rng = np.random.default_rng(5)
    x, w = rng.random(8, "float32"), rng.random((4, 16), "float32")
    f = sl.build(schedule, tensors, target=target)
    spread = np.zeros(15)
    spread[::2] = x
    wanted = [sum(spread[i + k] * w[3 - k] for k in range(4)) for i in range(12)]
    np.testing.assert_allclose(f(x, w), wanted, rtol=1e-5)
    body = f.source.partition("Y_local_sum")[2].partition("vstore(")[0]
    # four rows of two steps each, without any condition
    assert body.count("* W_el") == 8 and "if " not in body


def causal(
    rows: int, columns: int, steps: int, dtype: str = "float32", kind: str = "sum"
) -> tuple[sl.Tensor, sl.Tensor, sl.Tensor]:
    """Return sums in which each row has one step more than the row before."""
    A, B = (
        sl.placeholder((rows, steps), dtype, name="A"),
        sl.placeholder((steps, columns), dtype, name="B"),
    )
    k = sl.reduce_axis(steps, name="k")
    over = getattr(sl, kind)
    Y = sl.compute(
        (rows, columns), lambda i, j: over(A[i, k] * B[k, j], axis=k, where=k < i), name="Y"
    )
    return A, B, Y


def tile_of_sums(Y: sl.Tensor, lanes: str, tail: str) -> sl.Schedule:
    s = sl.schedule(Y)
    local = s.cache_write(Y, "local")
    io, jo, ii, ji = s[Y].tile(*Y.op.axis, 4, 8, tail=tail)
    s[local].compute_at(s[Y], jo)
    i, j = s[local].op.axis
    (k,) = s[local].op.reduce_axis
    row, across = (i, j) if lanes == "j" else (j, i)
    if lanes == "i":
        s[local].transform_layout(lambda i, j: (j, i))
    s[local].reorder(k, row, across)
    s[local].unroll(row)
    s[local].vectorize(across)
    return s


@pytest.mark.parametrize("target", ["python", "cpu"])
@pytest.mark.parametrize("lanes", ["i", "j"])
def test_steps_skipped_by_a_row_leave_its_sums_in_registers(lanes: str, target: str) -> None:
    A, B, Y = causal(13, 19, 11)
    f = sl.build(tile_of_sums(Y, lanes, "cut"), [A, B, Y], target=target)
    inside = inside_loops(f, "k")
    assert "Y_local_sum" in inside and "store" not in inside
    assert ("select(" in f.source) == (lanes == "i")
    a, b = values(13, 11), values(11, 19)
    np.testing.assert_allclose(f(a, b), np.tril(a, -1) @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lanes", ["i", "j"])
def test_an_additional_tail_guard_keeps_sums_in_memory(lanes: str) -> None:
    A, B, Y = causal(13, 19, 11)
    for target in ("python", "cpu"):
        f = sl.build(tile_of_sums(Y, lanes, "guard"), [A, B, Y], target=target)
        assert "_sum" not in f.source
        a, b = values(13, 11), values(11, 19)
        np.testing.assert_allclose(f(a, b), np.tril(a, -1) @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "dtype", slow_but(["float16", "int8"], ["float16", "int8", "bool", "float64"])
)
@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("lanes", ["i", "j"])
def test_masked_lanes_keep_their_values(lanes: str, kind: str, dtype: str) -> None:
    """Masked lanes keep their values, also in the first row, which has no step at all."""
    A, B, Y = causal(8, 16, 9, dtype, kind)
    s = tile_of_sums(Y, lanes, "auto")
    a, b = values(8, 9, dtype=dtype), values(9, 16, dtype=dtype)
    wanted = sl.reference(Y)(a, b)
    for target in ("python", "cpu"):
        f = sl.build(s, [A, B, Y], target=target)
        assert "vload(Y_local" not in f.source and "store" not in inside_loops(f, "k")
        np.testing.assert_allclose(f(a, b), wanted, rtol=2e-2 if dtype == "float16" else 1e-6)


def test_masked_lanes_keep_both_values_of_a_pair() -> None:
    A = sl.placeholder((7, 8), name="A")
    k = sl.reduce_axis(7, name="k")
    pair = sl.comm_reducer(
        lambda x, y: (x[0] + y[0], sl.max(x[1], y[1])),
        lambda t0, t1: (sl.const(0, t0), sl.const(-9, t1)), name="pair",
    )  # fmt: skip
    S, M = sl.compute((8,), lambda i: pair((A[k, i], A[k, i]), axis=k, where=k < i), name="Y")
    s = sl.schedule([S, M])
    s[S].reorder(k, *S.op.axis)
    s[S].vectorize(S.op.axis[0])
    a = values(7, 8)
    counts = np.arange(7)[:, None] < np.arange(8)
    for target in ("python", "cpu"):
        f = sl.build(s, [A, S, M], target=target)
        assert inside_loops(f, "k").count("select(") == 2
        sums, most = f(a)
        np.testing.assert_allclose(sums, (a * counts).sum(axis=0), rtol=1e-5)
        np.testing.assert_allclose(most, np.where(counts, a, -9).max(axis=0), rtol=1e-5)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("size", [16, 13])
def test_a_gpu_thread_keeps_its_sum_over_skipped_steps(size: int, lanes: int) -> None:
    A, B, Y = causal(size, 8, 9)
    s = sl.schedule(Y)
    i, j = Y.op.axis
    if lanes > 1:
        j, lane = s[Y].split(j, factor=lanes)
        s[Y].reorder(i, j, lane, Y.op.reduce_axis[0])
        s[Y].vectorize(lane)
    block, thread = s[Y].split(s[Y].fuse(i, j), factor=6)
    s[Y].bind(block, "blockIdx.x")
    s[Y].bind(thread, "threadIdx.x")
    f = sl.build(s, [A, B, Y], target="cuda")
    inside = inside_loops(f, "k")
    assert "Y_sum" in inside and "store" not in inside
    a, b = values(size, 9), values(9, 8)
    np.testing.assert_allclose(f.simulate(a, b), np.tril(a, -1) @ b, rtol=1e-4, atol=1e-5)
    emulated = sl.build(s, [A, B, Y], target="cuda-emulator")
    np.testing.assert_allclose(emulated(a, b), np.tril(a, -1) @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["python", "cpu"])
def test_steps_skipped_by_elements_leave_sums_in_registers(target: str) -> None:
    M, A = sl.placeholder((7, 21), "int8", name="M"), sl.placeholder((7, 21), name="A")
    k = sl.reduce_axis(7, name="k")
    Y = sl.compute((21,), lambda j: sl.sum(A[k, j], axis=k, where=M[k, j] > 0), name="Y")
    s = sl.schedule(Y)
    outer, lanes = s[Y].split(Y.op.axis[0], factor=8, tail="cut")
    s[Y].reorder(outer, k, lanes)
    s[Y].vectorize(lanes)
    f = sl.build(s, [M, A, Y], target=target)
    assert "store" not in inside_loops(f, "k")
    rng = np.random.default_rng(5)
    m, a = rng.integers(-1, 2, (7, 21), dtype="int8"), rng.random((7, 21), "float32")
    np.testing.assert_allclose(f(m, a), (a * (m > 0)).sum(axis=0), rtol=1e-5)


@pytest.mark.parametrize("target", ["python", "cpu"])
def test_a_sum_is_loaded_early_by_defined_names(target: str) -> None:
    """The index of the sum does not use a name that only the loop assigns."""
    A = sl.placeholder((24, 9), name="A")
    k = sl.reduce_axis(9, name="k")
    Y = sl.compute(
        (24,),
        lambda row_of_the_result_in_the_end: sl.sum(
            A[row_of_the_result_in_the_end, k], axis=k, where=k <= row_of_the_result_in_the_end
        ),
        name="Y",
    )
    s = sl.schedule(Y)
    outer, inner = s[Y].split(Y.op.axis[0], factor=6)
    over, under = s[Y].split(outer, factor=2)
    block, step = s[Y].split(k, factor=3)
    s[Y].reorder(block, over, under, inner, step)
    f = sl.build(s, [A, Y], target=target)
    inside = inside_loops(f, "k_inner")
    before = f.source[: f.source.index(inside)]
    assert "t_1 = row" in before and "t_1 =" not in inside and "store" not in inside
    a = values(24, 9)
    np.testing.assert_allclose(f(a), np.tril(a).sum(axis=1), rtol=1e-5)
