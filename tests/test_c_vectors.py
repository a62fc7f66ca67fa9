"""Vectors in C: their math functions, masks, loads by shuffles, and instructions, beside NumPy."""

from __future__ import annotations

import ctypes
import itertools
import math
import operator
import re
import shutil
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.c_masks import lanes_that_hold
from schedlang.codegen.c_math import vector_functions
from schedlang.codegen.c_streams import streams_together
from schedlang.codegen.c_values import ValuePrinter
from schedlang.expr.functions import FUNCTIONS
from schedlang.machine.nodes import Fn, Iota, Let, Num, Op, Splat, Store, Type, Value
from schedlang.machine.walks import parts
from schedlang.runtime.c_library import address
from schedlang.runtime.c_toolchain import compiler
from tests.test_c_target import in_lanes

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)
NAMES = ("exp", "log", "tanh", "sigmoid", "erf")
LANES = 8
OF_LANES = Type("int64", LANES)
WIDER = ("int16", "int32", "int64", "uint32", "float32", "float64")


def test_each_function_that_is_written_for_the_cpu_has_a_vector_form() -> None:
    assert set(NAMES) == {f.name for f in FUNCTIONS.values() if f.own_cpu}
    for name in NAMES:
        text = vector_functions(name, 4)[-1]
        assert text.startswith(f"SL sl_f32_4 sl_{name}_f32_4(sl_f32_4 x) {{")
        # nothing of Python's is left
        assert not re.search(r"np|select|fma|\bONE\b|_single", text)


def true(name: str, x: np.ndarray) -> np.ndarray:
    """Return the function in float64."""
    with np.errstate(all="ignore"):
        if name == "sigmoid":
            power = np.exp(-np.abs(x))
            return np.where(x >= 0, 1, power) / (1 + power)
        if name == "erf":
            return np.fromiter(map(math.erf, x.tolist()), float, x.size)
        return np.asarray(getattr(np, name)(x))


def error_in_ulps(values: np.ndarray, want: np.ndarray) -> float:
    """Return the largest error in units in the last place, where infinity counts as 2**128."""
    np.testing.assert_array_equal(np.isnan(values), np.isnan(want))
    kept = ~np.isnan(want)
    limit = 2.0**128
    a, b = (np.clip(v[kept].astype(float), -limit, limit) for v in (values, want))
    np.testing.assert_array_equal(np.signbit(a[b == 0]), np.signbit(b[b == 0]))
    exponents = np.where(b == 0, -149, np.maximum(np.frexp(b)[1] - 24, -149))
    return float(np.max(np.abs(a - b) / 2.0 ** exponents.astype(float)))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("option", ["", "-mno-fma"])
def test_functions_are_within_two_units(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = compiler()
    if option and not ("gcc" in command[0] or command[0].endswith("cc")):
        pytest.skip("the option is GCC's for x86")
    monkeypatch.setenv("CC", " ".join([*command, option]))
    bits = np.arange(0, 1 << 32, 10007, dtype="uint64").astype("uint32")
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-40])
    x = np.concatenate([bits.view("float32"), special])
    A = sl.placeholder(x.shape, name="A")
    C = sl.compute(x.shape, lambda i: tuple(getattr(sl, name)(A[i]) for name in NAMES), name="C")
    f = sl.build(in_lanes(C[0], LANES), [A, *C], target="c")
    assert "sl_exp_f32_8" in f.source
    for name, values in zip(NAMES, f(x)):
        with np.errstate(invalid="ignore"):
            assert error_in_ulps(values, true(name, x.astype(float))) <= 2, name


@pytest.mark.slow
@needs_compiler
def test_fast_math_leaves_the_steps_of_functions() -> None:
    x = np.concatenate([np.linspace(-103, 88.7, 20001), [1e30, -1e30]]).astype("float32")
    A = sl.placeholder(x.shape, name="A")
    C = sl.compute(x.shape, lambda i: tuple(getattr(sl, name)(A[i]) for name in NAMES), name="C")
    f = sl.build(in_lanes(C[0], LANES), [A, *C], target="c", fastmath=True)
    for name, values in zip(NAMES, f(x)):
        # a logarithm of a negative number is NaN, which fast math need not give
        kept = x > 0 if name == "log" else np.abs(x) < 104 if name == "exp" else x == x
        want = true(name, x[kept].astype(float))
        assert error_in_ulps(values[kept], want) <= 6, name


def value_at(value: Value, lane: int) -> int:
    """Return an index at a lane."""
    if isinstance(value, Num):
        return int(value.value)
    if isinstance(value, Iota):
        return lane
    if isinstance(value, Splat):
        return value_at(value.a, lane)
    assert isinstance(value, Op)
    functions = {"+": operator.add, "-": operator.sub, "*": operator.mul}
    return functions[value.op](value_at(value.a, lane), value_at(value.b, lane))


@pytest.mark.parametrize("test", ["<", "<=", ">", ">="])
def test_masks_of_the_first_lanes(test: str) -> None:
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[test]
    for step, start, limit in itertools.product((-3, -2, -1, 1, 2, 3), (-9, 0, 4), (-5, -4, 1, 6)):
        lanes = Op("*", Iota(OF_LANES), Splat(Num(step), OF_LANES), OF_LANES, True)
        index = Op("+", lanes, Splat(Num(start), OF_LANES), OF_LANES, True)
        held = lanes_that_hold(Op(test, index, Splat(Num(limit), OF_LANES), Type("bool", LANES)))
        assert held is not None and held.step > 0
        for lane in range(LANES):
            below = value_at(held.start, 0) + held.step * lane < value_at(held.end, 0)
            assert (below != held.negated) == compare(step * lane + start, limit)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "float16"])
def test_loads_and_stores_of_a_known_number_of_first_lanes(dtype: str) -> None:
    for n in range(17, 32):
        A = sl.placeholder((n,), dtype, name="A")
        C = sl.compute((n,), lambda i, A=A: A[i] * 2 + 1, name="C")
        s = sl.schedule(C)
        outer, inner = s[C].split(C.op.axis[0], factor=16, tail="guard")
        s[C].unroll(outer)
        s[C].vectorize(inner)
        f = sl.build(s, [A, C], target="c")
        if dtype == "int8":
            assert f"sl_vstore_first_{n - 16}_i8_16(C + 16, " in f.source
            assert "sl_b8_16 m" not in f.source
        a = np.arange(n + 1).astype(dtype)
        out = np.zeros(n + 1, dtype)
        f(a[:n], out[:n])
        np.testing.assert_array_equal(out, np.append(a[:n] * 2 + 1, 0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vectors_stay_in_registers_for_several_products_only(dtype: str) -> None:
    A, B = (sl.placeholder((4, 8), dtype, name=name) for name in "AB")
    C = sl.compute(
        (4, 8),
        lambda i, j: (A[i, j] * A[i, j] + B[i, j], A[i, j] + B[i, j] * B[0, j]),
        name="C",
    )
    source = sl.build(in_lanes(C[0], 8), [A, B, *C], target="c").source
    assert "sl_in_register" not in source
    D = sl.compute((4, 8), lambda i, j: A[i, j] * B[i, 0] + A[i, j] * B[i, 1] + B[i, j], name="D")
    source = sl.build(in_lanes(D, 8), [A, B, D], target=sl.Target("c", vector_bytes=32)).source
    assert set(re.findall(r"= sl_in_register_\w+\(sl_vload_\w+\((\w)", source)) == {"A"}


@pytest.mark.slow
@needs_compiler
def test_masks_by_any_number_of_an_array() -> None:
    limits = np.iinfo("int64")
    L, n = sl.placeholder((1,), "int64", name="L"), 21
    tests = [
        lambda i, m: i < m, lambda i, m: i <= m, lambda i, m: m < i, lambda i, m: m <= i,
        lambda i, m: 5 - i < m, lambda i, m: 5 - i <= m, lambda i, m: m < 5 - 2 * i,
        lambda i, m: m <= 3 * i - 4,
    ]  # fmt: skip
    C = sl.compute(
        (n,), lambda i: tuple(sl.select(t(i, L[0]), np.int64(1), i) for t in tests), name="C"
    )
    f = sl.build(in_lanes(C[0], LANES), [L, *C], target="c")
    assert "sl_first_" in f.source
    i = np.arange(n)
    for limit in (limits.min, limits.min + 3, -1, 0, 7, n, limits.max - 3, limits.max):
        for t, values in zip(tests, f(np.array([limit]))):
            # NumPy compares with a Python number exactly
            np.testing.assert_array_equal(values, np.where(t(i, int(limit)), 1, i))


def test_other_comparisons_are_no_masks_of_the_first_lanes() -> None:
    lanes, one = Iota(OF_LANES), Splat(Num(1), OF_LANES)
    wrapping = Op("+", lanes, one, OF_LANES, False)
    square = Op("*", lanes, lanes, OF_LANES, True)
    bools = Type("bool", LANES)
    for test in (Op("==", lanes, one, bools), Op("<", wrapping, one, bools),
                 Op("<", square, one, bools), Op("<", one, one, bools)):  # fmt: skip
        assert lanes_that_hold(test) is None


def test_streamed_stores_of_a_line_stand_side_by_side() -> None:
    A = sl.placeholder((4, 32), name="A")
    B = sl.compute((4, 32), lambda i, j: A[i, j] * 2, name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[1])
    s[B].pragma(B.op.axis[0], "nontemporal")
    nest = sl.build(s, [A, B], target=sl.Target("c", vector_bytes=32)).machine_nest
    (loop,) = nest.entry.body[:1]
    body = streams_together(loop.body)
    kinds = [type(stmt) for stmt in body]
    assert kinds.index(Store) >= 4 and kinds[kinds.index(Store) :] == [Store] * 4
    assert [stmt.value for stmt in body if isinstance(stmt, Store)] == [
        stmt.reg for stmt in body if isinstance(stmt, Let)
    ][-4:]


@needs_compiler
def test_a_streamed_row_is_stored_before_the_next_one_reads_it() -> None:
    A, state = sl.placeholder((4, 16), name="A"), sl.placeholder((4, 16), name="state")
    first = sl.compute((1, 16), lambda _, j: A[0, j], name="first")
    row = sl.compute((4, 16), lambda t, j: state[t - 1, j] * 2 + A[t, j], name="row")
    C = sl.scan(first, row, state, inputs=[A])
    s = sl.schedule(C)
    s[row].vectorize(row.op.axis[1])
    s[row].pragma(row.op.axis[1], "nontemporal")
    s[C].unroll(s[C].leaf_axes[0])
    f = sl.build(s, [A, C], target=sl.Target("c", vector_bytes=32))
    a = np.arange(64, dtype="float32").reshape(4, 16)
    want = a.copy()
    for t in range(1, 4):
        want[t] += 2 * want[t - 1]
    assert "sl_vstore_stream" in f.source
    np.testing.assert_array_equal(f(a), want)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "uint16", "float16"])
@pytest.mark.parametrize("step", [-4, -3, -2, 2, 3, 4])
def test_strided_loads(step: int, dtype: str) -> None:
    n = 45
    size = abs(step) * (n - 1) + 1
    first = size - 1 if step < 0 else 0
    A = sl.placeholder((size,), dtype, name="A")
    B = sl.compute((n,), lambda i: A[first + step * i], name="B")
    # the first and the last elements lie outside
    C = sl.compute(
        (n,),
        lambda i: sl.if_then_else(
            (first + step * i + 3 >= 0) & (first + step * i + 3 < size), A[first + step * i + 3], 7
        ),
        name="C",
    )
    a = np.random.default_rng(0).integers(0, 100, size).astype(dtype)
    for tensor in (B, C):
        for lanes in (2, 4, 8, 16):
            f = sl.build(in_lanes(tensor, lanes), [A, tensor], target="c")
            np.testing.assert_array_equal(f(a), sl.reference(tensor)(a))
    np.testing.assert_array_equal(f(a)[~((first + step * np.arange(n) + 3) // size == 0)], 7)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_operations_of_one_instruction(lanes: int, dtype: str) -> None:
    n = 61
    A, B = (sl.placeholder((n,), dtype, name=name) for name in "AB")
    if dtype.startswith("float"):
        special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 2.5, -2.5, 0.5], dtype)
        a, b = (np.resize(x.ravel(), n) for x in np.meshgrid(special, special))

        def of(i: Any) -> tuple[Any, ...]:
            x = A[i]
            return (np.sqrt(x), np.abs(x), np.floor(x), np.ceil(x), np.trunc(x), np.rint(x),
                    sl.max(x, B[i]), sl.min(x, B[i]), sl.select(x < B[i], x, 1))  # fmt: skip
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        special = np.array([low, high, 0, -1, 1, low + 1, 77, -77], dtype)
        a, b = (np.resize(x.ravel(), n) for x in np.meshgrid(special, special))

        def of(i: Any) -> tuple[Any, ...]:
            x = A[i]
            return (np.abs(x), sl.max(x, B[i]), sl.min(x, B[i]), sl.select(x < B[i], x, 1),
                    sl.select(x == B[i], x.astype("float64"), 1))  # fmt: skip

    C = sl.compute((n,), of, name="C")
    f = sl.build(in_lanes(C[0], lanes), [A, B, *C], target="c")
    with np.errstate(all="ignore"):
        wanted = sl.reference([*C])(a, b)
    for position, (values, want) in enumerate(zip(f(a, b), wanted)):
        np.testing.assert_array_equal(values, want, err_msg=str(position))
        if dtype.startswith("float"):
            there = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(values[there]), np.signbit(want[there]))


def scaled_rows(columns: int, dtype: str) -> tuple[sl.Tensor, ...]:
    """Return rows times a number each, which is in all lanes of the vectors of a row."""
    A = sl.placeholder((4, columns), dtype, name="A")
    W = sl.placeholder((4,), dtype, name="W")
    return A, W, sl.compute((4, columns), lambda i, j: A[i, j] * W[i], name="C")


def rows_as_vectors(C: sl.Tensor) -> sl.Schedule:
    s = sl.schedule(C)
    s[C].vectorize(C.op.axis[-1])
    return s


def test_splats_are_parts_of_the_widest_one() -> None:
    target = sl.Target("c", vector_bytes=32)
    A, W, C = scaled_rows(14, "float32")
    source = sl.build(rows_as_vectors(C), [A, W, C], target=target).source
    assert source.count("return __builtin_ia32_ps_ps256(sl_splat_f32_8(x));") == 1
    assert "sl_f32_4 v = sl_splat_f32_4(x);" in source
    A, W, C = scaled_rows(4, "float32")
    source = sl.build(rows_as_vectors(C), [A, W, C], target=target).source
    assert "ps256" not in source and "typedef float sl_f32_8" not in source


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8"])
@pytest.mark.parametrize("columns", [3, 6, 7, 10, 12, 14, 15, 31])
def test_splats_of_several_widths(columns: int, dtype: str) -> None:
    A, W, C = scaled_rows(columns, dtype)
    f = sl.build(rows_as_vectors(C), [A, W, C], target="c")
    a, w = np.arange(4 * columns).reshape(4, -1).astype(dtype), np.arange(2, 6).astype(dtype)
    np.testing.assert_array_equal(f(a, w), a * w[:, None])


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "float16"])
@pytest.mark.parametrize("columns", [3, 4, 7, 16])
def test_loads_of_adjacent_columns(
    columns: int, dtype: str, old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = compiler()
    if old:
        if "clang" in command[0] or command[-1] == "cc" and len(command) > 1:
            pytest.skip("the option is for GCC")
        # a GCC without shuffles of vectors
        monkeypatch.setenv("CC", " ".join([*command, "-U__GNUC__", "-D__GNUC__=11"]))
    for lanes in (2, 4, 8, 16):
        A = sl.placeholder((lanes, 5 * columns), dtype, name="A")
        C = sl.compute((5 * columns, lanes), lambda k, i, A=A: A[i, k] + 1, name="C")
        s = sl.schedule(C)
        s[C].unroll(s[C].split(C.op.axis[0], factor=columns)[1])
        s[C].vectorize(C.op.axis[1])
        f = sl.build(s, [A, C], target="c")
        assert "vload_columns" in str(f.machine_nest) or columns < 4 or lanes == 2
        a = np.arange(lanes * 5 * columns).reshape(lanes, -1).astype(dtype)
        np.testing.assert_array_equal(f(a), a.T + np.ones((), dtype))


@pytest.mark.parametrize("terms, line", [(3, "sl_read_again();"), (64, "#pragma GCC unroll 4")])
def test_loops_whose_sums_fill_the_registers(terms: int, line: str) -> None:
    A, B = sl.placeholder((10, terms), name="A"), sl.placeholder((terms, 8), name="B")
    k = sl.reduce_axis(terms, name="k")
    C = sl.compute((10, 8), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    for rows, count in ((10, 1), (5, 0)):
        s = sl.schedule(C)
        outer, inner = s[C].split(C.op.axis[0], factor=rows)
        s[C].reorder(outer, k, inner, C.op.axis[1])
        s[C].unroll(inner)
        s[C].vectorize(C.op.axis[1])
        source = sl.build(s, [A, B, C], target=sl.Target("c", vector_bytes=32)).source
        body = source[source.index("void C_kernel") :]
        assert (body.count("sl_read_again();"), body.count("#pragma GCC unroll")) == (
            count * (terms == 3), count * (terms == 64)
        )  # fmt: skip
        assert (line in body) == bool(count)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_casts_to_integers_and_inverse_roots(lanes: int, dtype: str) -> None:
    a = np.linspace(-127.9, 126.9, 61).astype(dtype)
    kinds = ("int8", "int16", "int32", "int64", "uint8", "uint16")
    A = sl.placeholder(a.shape, dtype, name="A")
    C = sl.compute(
        a.shape,
        lambda i: (
            *(sl.cast(sl.abs(A[i]) if k[0] == "u" else A[i], k) for k in kinds), sl.rsqrt(A[i])
        ),
        name="C",
    )  # fmt: skip
    *casts, roots = sl.build(in_lanes(C[0], lanes), [A, *C], target="c")(a)
    for kind, values in zip(kinds, casts):
        want = (np.abs(a) if kind[0] == "u" else a).astype(kind)
        np.testing.assert_array_equal(values, want, err_msg=kind)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(roots, (1 / np.sqrt(a)).astype(dtype))


def test_addresses_of_arrays() -> None:
    fixed = np.arange(6.0)
    fixed.flags.writeable = False
    for array in (np.arange(6, dtype="int8")[2:], fixed, np.empty(0, "float32")):
        assert address(array) == array.ctypes.data


@needs_compiler
def test_calls_with_writable_and_read_only_arrays() -> None:
    A = sl.placeholder((6,), dtype="float64", name="A")
    f = sl.build(sl.schedule(sl.compute((6,), lambda i: A[i] * 2, name="B")), target="c")
    fixed = np.arange(6.0)
    fixed.flags.writeable = False
    for array in (np.ones(6), fixed, np.full(6, 3.0)):
        np.testing.assert_array_equal(f(array), array * 2)
    with pytest.raises(ctypes.ArgumentError):
        f.unchecked([0.0] * 6, np.empty(6))


class Counting(ValuePrinter):
    """A printer that counts the values that it prints."""

    count = 0

    def value(self, value: Value) -> tuple[str, int]:
        self.count += 1
        return super().value(value)


def test_operands_of_nested_calls_are_printed_once() -> None:
    of_type = Type("float32", LANES)
    zero = Splat(Num(0.0, Type("float32")), of_type)
    roots = chosen = zero
    for _ in range(8):
        roots = Fn("rsqrt", (roots,), of_type)
        test = Op("<", zero, zero, Type("bool", LANES))
        chosen = Fn("select", (test, chosen, zero), of_type)
    for value in (roots, chosen):
        printer = Counting()
        printer.text(value)
        assert printer.count <= len(parts(value))


@needs_compiler
@pytest.mark.parametrize("lanes", [4, 8])
def test_short_floats_are_converted_as_numpy_does(lanes: int) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(5)
    bits = np.arange(65536, dtype="uint32")
    floats = np.concatenate([rng.integers(0, 2**32, 65536, "uint32"), bits << 16, (bits << 16) + 1])
    near = rng.normal(size=65536).astype("float32") * np.float32(1e-4)
    x = np.concatenate([floats.view("float32"), near, np.exp2(np.arange(-32, 32, dtype="float32"))])
    for dtype in ("float16", "bfloat16"):
        H = sl.placeholder((65536,), dtype, name="H")
        X = sl.placeholder((len(x),), name="X")
        wide = sl.compute(H.shape, lambda i, H=H: sl.cast(H[i], "float32"), name="wide")
        narrow = sl.compute(X.shape, lambda i, X=X, d=dtype: sl.cast(X[i], d), name="narrow")
        again = sl.compute(X.shape, lambda i, X=X, d=dtype: sl.cast(X[i], d) + X[i], name="again")
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        h = bits.astype("uint16").view(kind)
        with np.errstate(all="ignore"):
            wants = [h.astype("float32"), x.astype(kind), x.astype(kind).astype("float32") + x]
        for T, given, want in zip((wide, narrow, again), (h, x, x), wants):
            result = sl.build(in_lanes(T, lanes), target="c")(given)
            np.testing.assert_array_equal(
                result.astype("float32"), want.astype("float32"), err_msg=f"{dtype} {T.name}"
            )


@needs_compiler
@pytest.mark.parametrize("lanes", [4, 8])
def test_casts_of_small_integers_to_wider_types(lanes: int) -> None:
    for source in ("int8", "uint8", "bool", "int16", "uint16"):
        a = np.random.default_rng(6).integers(0, 256, 64).astype(source)
        kinds = [to for to in WIDER if np.dtype(source).itemsize < np.dtype(to).itemsize]
        A = sl.placeholder((64,), source, name="A")
        B = sl.compute(
            (64,), lambda i, A=A, kinds=kinds: tuple(sl.cast(A[i], to) for to in kinds), name="B"
        )
        for to, values in zip(kinds, sl.build(in_lanes(B[0], lanes), [A, *B], target="c")(a)):
            np.testing.assert_array_equal(values, a.astype(to), err_msg=f"{source} {to}")


@needs_compiler
def test_prefetches_with_quotients_are_written_out() -> None:
    W = sl.placeholder((6, 5, 3, 256), name="W")
    r, q = sl.reduce_axis(6, name="r"), sl.reduce_axis(5, name="q")
    C = sl.compute((3, 256), lambda i, j: sl.sum(W[r, q, i, j], axis=[r, q]), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    both = s[C].fuse(r, q)
    s[C].reorder(both, i, j)
    s[C].vectorize(s[C].split(j, factor=8)[1])
    s[C].prefetch(W, both, 1)
    f = sl.build(s, target="c")
    assert re.search(r"#pragma GCC unroll 3\n *for .*W_row.*\n *__builtin_prefetch", f.source)
    w = np.random.default_rng(8).random((6, 5, 3, 256), "float32")
    np.testing.assert_allclose(f(w), w.sum((0, 1)), rtol=1e-5)


@needs_compiler
@pytest.mark.parametrize(
    ("length", "first"), [(108, "0 8 16 24 32 40 48 56 0 8"), (90, "0 8 16 24 32 40 48 56 64 72")]
)
def test_terms_of_sums_that_the_registers_cannot_hold(length: int, first: str) -> None:
    A, W = sl.placeholder((5, length + 2), name="A"), sl.placeholder((3,), name="W")
    u = sl.reduce_axis(3, name="u")
    Z = sl.compute((5, length), lambda c, p: sl.sum(A[c, p + u] * W[u], axis=u), name="Z")
    B = sl.compute((5, length), lambda c, p: Z[c, p] + 1, name="B")
    s = sl.schedule(B)
    s[Z].compute_at(s[B], B.op.axis[0])
    s[Z].set_scope("local")
    outer, inner = s[Z].split(Z.op.axis[1], factor=8)
    s[Z].reorder(u, outer, inner)
    s[Z].unroll(u), s[Z].unroll(outer), s[Z].vectorize(inner)
    s[B].vectorize(B.op.axis[1])
    f = sl.build(s, [A, W, B], target=sl.Target("c", vector_bytes=32))
    places = re.findall(r"sl_vstore\w*\(Z \+ (\d+),", f.source)
    assert " ".join(places).startswith(first)
    # the last vector is moved whole
    assert f"float Z[{-(-length // 8) * 8}]" in f.source
    assert f"sl_vload_whole_{length % 8}_f32_8(Z + {length // 8 * 8})" in f.source
    a, w = (np.random.default_rng(9).random(shape, "float32") for shape in ((5, length + 2), 3))
    want = sum(a[:, k : k + length] * w[k] for k in range(3)) + 1
    np.testing.assert_allclose(f(a, w), want, rtol=1e-5)
