"""Tests of complex numbers: the language, and kernels that compute real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.data import from_data, structure, to_data
from schedlang.compute.work import flops
from schedlang.errors import CallTypeError, ComputeError, ComputeTypeError
from schedlang.ir.interpret import interpret
from schedlang.lowering.complex_storage import split_complex
from tests.marks import slow_but

N = 32
rng = np.random.default_rng(0)


def draw(*shape: int, dtype: str = "complex64") -> np.ndarray:
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def run(target: str, outputs: Any, given: list[np.ndarray]) -> tuple[Any, ...]:
    if target == "reference":
        found: Any = sl.reference(list(outputs))(*given)
        return found if isinstance(found, tuple) else (found,)
    s = sl.schedule(list(outputs))
    axis = s[outputs[0]].op.axis[-1]
    if target.startswith("lanes"):
        s[outputs[0]].vectorize(s[outputs[0]].split(axis, factor=8)[1])
    if target == "interpreter":
        return interpret(sl.lower(s), given).outputs
    if target == "cuda-emulator":
        s[outputs[0]].bind(s[outputs[0]].split(axis, factor=16)[1], "threadIdx.x")
    found = sl.build(s, target=target.removeprefix("lanes "))(*given)
    return found if isinstance(found, tuple) else (found,)


OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda a, b, x: a + b - 2, "product": lambda a, b, x: a * b * (1 + 2j),
    "quotient": lambda a, b, x: a / b, "by a real": lambda a, b, x: a / x + x / b,
    "power": lambda a, b, x: a**3 + b**-2 + a**0, "negative": lambda a, b, x: -a.conj(),
    "exp": lambda a, b, x: np.exp(a), "turn": lambda a, b, x: np.exp(1j * x),
    "real": lambda a, b, x: a.real + np.imag(b), "abs": lambda a, b, x: abs(a) + np.abs(b * 2),
    "angle": lambda a, b, x: np.angle(a), "equal": lambda a, b, x: (a == b) | (a != 1j),
    "where": lambda a, b, x: np.where(x > 0, a, 2 * b),
    "cast": lambda a, b, x: x.astype("complex64"),
    "conjugate": lambda a, b, x: np.conj(a) * a, "finite": lambda a, b, x: np.isfinite(a),
    "wide": lambda a, b, x: a.astype("complex128") * 2,
}  # fmt: skip


@pytest.mark.parametrize("target", slow_but(
    ["reference", "lanes python"],
    ["reference", "interpreter", "python", "lanes python", "lanes cpu", "lanes c", "cuda-emulator"],
))  # fmt: skip
def test_operations_agree_with_numpy(target: str) -> None:
    a, b, x = draw(N), draw(N), rng.normal(size=N).astype("float32")
    b[:4] = a[:4]
    A, B, X = (sl.placeholder((N,), t, name=n) for n, t in
               (("A", "complex64"), ("B", "complex64"), ("X", "float32")))  # fmt: skip
    made = sl.compute(
        (N,), lambda i: tuple(f(A[i], B[i], X[i]) for f in OPERATIONS.values()), name="C"
    )
    for name, got, f in zip(OPERATIONS, run(target, made, [a, b, x]), OPERATIONS.values()):
        want = np.asarray(f(a, b, x))
        assert got.dtype == want.dtype, name
        np.testing.assert_allclose(got, want, rtol=3e-6, atol=3e-6, err_msg=name)


@pytest.mark.parametrize("target", ["python", "lanes python", "cpu"])
def test_quotients_and_magnitudes_do_not_overflow(target: str) -> None:
    a = np.array([3e38 + 3e38j, 1e-30 + 1e-30j, 1 + 1j, 0, 5, np.inf + 1j, -1j, 2], "complex64")
    b = np.array([3e38 - 3e38j, 1e-30 - 1e-30j, 3e38j, 1j, 2, 1, 1e-38j, 3e-38], "complex64")
    A, B = (sl.placeholder((8,), "complex64", name=n) for n in "AB")
    C = sl.compute((8,), lambda i: (A[i] / B[i], sl.abs(A[i])), name="C")
    quotient, size = run(target, C, [a, b])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(quotient[:5], (a / b)[:5], rtol=1e-6)
        np.testing.assert_allclose(quotient[6:], (a / b)[6:], rtol=1e-6)
        np.testing.assert_allclose(size, np.abs(a), rtol=1e-6)


def matrices(n: int = N) -> tuple[Any, Any, Any]:
    A, B = (sl.placeholder((n, n), "complex64", name=name) for name in "AB")
    k = sl.reduce_axis(n, name="k")
    return A, B, sl.compute((n, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


def tiled(C: Any) -> sl.Schedule:
    s = sl.schedule(C)
    (i, j), (k,) = C.op.axis, C.op.reduce_axis
    io, ii = s[C].split(i, factor=2)
    jo, ji = s[C].split(j, factor=8)
    s[C].reorder(io, jo, k, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    return s


def test_a_matrix_product_keeps_vectors_of_sums_in_registers() -> None:
    _, _, C = matrices()
    s = tiled(C)
    a, b = draw(N, N), draw(N, N)
    f = sl.build(s)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-4, atol=1e-4)
    nest = str(f.machine_nest)
    inner = nest[nest.index("for k in") : nest.index("vstore")]
    # one load for both parts and all rows
    assert inner.count("(B, ") == inner.count("vload_columns(B, k*64 + j_outer*16, 2, 2, 8)") == 1
    assert "C_sum + (t * B_parts[0] - t_1 * B_parts[1])" in inner
    assert "store" not in inner and "complex" not in nest
    np.testing.assert_allclose(sl.build(s, target="c")(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_intermediate_parts_are_arrays_of_their_own() -> None:
    A, B, C = matrices()
    s = tiled(C)
    packed = s.cache_read(B, "global", [C])
    s[packed].vectorize(s[packed].split(s[packed].op.axis[1], factor=8)[1])
    f = sl.build(s, target="python")
    a, b = draw(N, N), draw(N, N)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert "vload(B_global_re, " in f.source and "vload(B_global_im, " in f.source


def test_the_nest_shows_complex_numbers_and_its_parts(golden: Any) -> None:
    A = sl.placeholder((4, 6), "complex64", name="A")
    k = sl.reduce_axis(6, name="k")
    B = sl.compute((4,), lambda i: sl.prod(A[i, k] + 2j, axis=k, init=1 - 1j), name="B")
    C = sl.compute((4,), lambda i: sl.if_then_else(i > 0, B[i] * np.exp(1j * i), 0), name="C")
    nest = sl.lower(sl.schedule(C))
    golden(f"{nest}\n\n{split_complex(nest)}\n\n{C.latex()}")


def test_discrete_fourier_transform() -> None:
    X = sl.placeholder((N,), "complex64", name="X")
    k = sl.reduce_axis(N, name="k")
    W = sl.compute((N, N), lambda j, i: np.exp(-2j * np.pi / N * (i * j % N)), name="W")
    F = sl.compute((N,), lambda i: sl.sum(X[k] * W[k, i], axis=k), name="F")
    assert W.dtype == F.dtype == "complex64"
    s = sl.schedule(F)
    s[W].vectorize(s[W].split(W.op.axis[1], factor=8)[1])
    outer, inner = s[F].split(F.op.axis[0], factor=8)
    s[F].reorder(outer, k, inner)
    s[F].vectorize(inner)
    x = draw(N)
    for target in ("python", "cpu"):
        f = sl.build(s, target=target)
        np.testing.assert_allclose(f(x), np.fft.fft(x), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sl.reference(F)(x), np.fft.fft(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_reductions(dtype: str) -> None:
    a = draw(5, 13, dtype=dtype)
    A, k = sl.placeholder((5, 13), dtype, name="A"), sl.reduce_axis(13, name="k")
    T = sl.compute(
        (5,),
        lambda i: (sl.sum(A[i, k], axis=k, init=1j), sl.prod(A[i, k], axis=k),
                   sl.max(abs(A[i, k]), axis=k), sl.any(A[i, k].real > 1, axis=k)), name="T",
    )  # fmt: skip
    wanted = [a.sum(1) + 1j, a.prod(1), np.abs(a).max(1), (a.real > 1).any(1)]
    for target in ("reference", "interpreter", "python"):
        for got, want in zip(run(target, T, [a]), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5)
    s = sl.schedule(list(T))
    _, inner = s[T[0]].split(k, factor=4)
    S = s.rfactor(T[0], inner)
    s[S[0]].vectorize(S[0].op.axis[0])
    for got, want in zip(sl.build(s, target="python")(a), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5)


def test_padding_gathers_symbolic_sizes_and_tails() -> None:
    n = sl.var("n")
    A, J = sl.placeholder((n,), "complex64", name="A"), sl.placeholder((n,), "int32", name="J")
    P = sl.pad(A, 1, value=1j, name="P")
    C = sl.compute((n,), lambda i: P[i] + A[J[i]] * P[i + 2], name="C")
    s = sl.schedule(C)
    s[P].compute_inline()
    s[C].vectorize(s[C].split(C.op.axis[0], factor=8)[1])
    f = sl.build(s, target="python")
    for size in (0, 1, 13):
        a, j = draw(size), rng.integers(0, max(size, 1), size).astype("int32")
        p = np.pad(a, 1, constant_values=1j)
        np.testing.assert_allclose(f(a, j), p[:-2] + a[j] * p[2:], rtol=1e-5, atol=1e-6)


def test_an_output_may_be_an_input_and_a_0_d_array() -> None:
    A = sl.placeholder((N,), "complex64", name="A")
    Z = sl.placeholder((), "complex64", name="Z")
    C = sl.compute((N,), lambda i: A[i] * Z[()], name="C")
    f = sl.build(sl.schedule(C))
    a, z = draw(N), np.array(2 - 1j, "complex64")
    want = a * z
    np.testing.assert_allclose(f(a, z), want, rtol=1e-6)
    assert f(a, z, a) is a
    np.testing.assert_allclose(a, want, rtol=1e-6)


def test_threads_of_a_gpu_add_complex_numbers() -> None:
    A, k = sl.placeholder((4, 64), "complex64", name="A"), sl.reduce_axis(64, name="k")
    C = sl.compute((4,), lambda i: sl.sum(A[i, k] * 1j, axis=k), name="C")
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "blockIdx.x")
    s[C].bind(s[C].split(k, factor=32)[1], "threadIdx.x")
    a = draw(4, 64)
    f = sl.build(s, target="cuda-emulator")
    np.testing.assert_allclose(f.check(a), (a * 1j).sum(1), rtol=1e-5)
    if find_spec("numba_cuda"):
        np.testing.assert_allclose(f.simulate(a), (a * 1j).sum(1), rtol=1e-5)
        assert "ld.global" in sl.build(s, target=sl.Target("cuda", arch="sm_90")).ptx


def test_a_saved_file_and_counters(tmp_path: Any) -> None:
    A = sl.placeholder((N,), "complex64", name="A")
    C = sl.compute((N,), lambda i: A[i] * A[i], name="C")
    f = sl.build(sl.schedule(C))
    path = tmp_path / "k.py"
    f.save(path)
    space: dict[str, Any] = {"__name__": "k", "__file__": str(path)}
    exec(compile(path.read_text().replace("cache=True, ", ""), str(path), "exec"), space)
    a = draw(N)
    np.testing.assert_allclose(space["C"](a), a * a, rtol=1e-6)
    assert flops([C]) == 6 * N
    counted = f.counters(a, caches=False)
    assert "multiply" in str(counted) or "*" in str(counted)


def test_data_form() -> None:
    A = sl.placeholder((4,), "complex64", name="A")
    C = sl.compute((4,), lambda i: np.exp(A[i].conj() * (0.5 + 2j)) + 1j * i, name="C")
    (again,) = from_data(to_data(C))
    a = draw(4)
    np.testing.assert_array_equal(sl.reference(again)(a), sl.reference(C)(a))
    assert structure(again) == structure(C)
    for change in (lambda c: c.__setitem__(2, 3), lambda c: c.__setitem__(2, [1]),
                   lambda c: c.__setitem__(2, [1, "x"])):  # fmt: skip
        data = to_data(C)
        change(next(i for i in data["items"] if i[0] == "const" and i[1].startswith("complex")))
        with pytest.raises(ComputeError, match="of the data"):
            from_data(data)


def test_dtypes() -> None:
    kinds = {"bool": "complex128", "int32": "complex128", "float16": "complex64",
             "bfloat16": "complex64", "float32": "complex64", "float64": "complex128",
             "complex64": "complex64", "complex128": "complex128"}  # fmt: skip
    for dtype, want in kinds.items():
        A = sl.placeholder((4,), dtype, name="A")
        assert sl.compute((4,), lambda i, A=A: 1j * A[i]).dtype == want
    A = sl.placeholder((4,), "complex64", name="A")
    D = sl.placeholder((4,), "float64", name="D")
    found = sl.compute(
        (4,), lambda i: (A[i] * D[i], A[i] * 2 + i, abs(A[i]), 1j * i, A[i].real, D[i].imag)
    )
    assert [t.dtype for t in found] == [
        "complex128", "complex64", "float32", "complex64", "float32", "float64"
    ]  # fmt: skip


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    A = sl.placeholder((8,), "complex64", name="A")
    C = sl.compute((8,), lambda i: A[i] * A[i], name="C")
    t = torch.randn(8, dtype=torch.complex64)
    found = sl.build(sl.schedule(C), target="python")(t)
    assert found.dtype == torch.complex64 and torch.allclose(found, t * t)


A = sl.placeholder((4,), "complex64", name="A")
R = sl.placeholder((4,), name="R")
k = sl.reduce_axis(4, name="k")
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "order": (lambda i: A[i] < 1, r"A\[i\] < 1: complex numbers have no order\n.*z.real"),
    "max of two": (lambda i: sl.max(A[i], R[i]), "no order"),
    "max": (lambda i: sl.max(A[k], axis=k), r"no order\n.*sl.max\(sl.abs\(z\), axis=k\)"),
    "argmin": (lambda i: sl.argmin(A[k], axis=k), "no order"),
    "floor division": (lambda i: A[i] // 2, "// takes no complex numbers"),
    "bits": (lambda i: A[i] & 1, "& takes no complex numbers"),
    "invert": (lambda i: ~A[i], "~ takes an integer"),
    "function": (lambda i: np.sin(A[i]), r"sl.sin\(A\[i\]\): it takes no complex numbers; .*exp"),
    "cast": (lambda i: A[i].astype("float32"), r"drop the imaginary part.*\n.*z.real"),
    "index": (lambda i: R[A[i]], "must be an integer"),
    "reducer": (
        lambda i: sl.comm_reducer(lambda x, y: x + y, lambda t: 0, name="add")(A[k], axis=k),
        r"combines no complex numbers\n.*\(z.real, z.imag\)"),
    "round": (lambda i: np.round(A[i]), "takes no complex numbers"),
    "popcount": (lambda i: sl.popcount(A[i]), "takes no complex numbers"),
    "saturating cast": (lambda i: sl.saturating_cast(A[i], "int8"), "takes no complex numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    body, message = REFUSED[case]
    with pytest.raises(ComputeTypeError, match=message):
        sl.compute((4,), body, name="C")


def test_other_refusals() -> None:
    with pytest.raises(ComputeTypeError, match=r"pass a 0-d array: z = sl.placeholder\(\(\), 'com"):
        sl.var("z", "complex64")
    C = sl.compute((4,), lambda i: A[i] * 2, name="C")
    with pytest.raises(CallTypeError, match="got dtype complex128: convert it"):
        sl.build(sl.schedule(C), target="python")(np.zeros(4, "complex128"))


@pytest.mark.parametrize("target", ["python", "cpu", "cuda-emulator"])
def test_comparisons_in_a_kernel_without_complex_arrays(target: str) -> None:
    r = np.array([1, 4, 9, 0], "float32")
    C = sl.compute((4,), lambda i: sl.select(sl.sqrt(R[i]) + 0j != 2 + 0j, 1, 2), name="C")
    np.testing.assert_array_equal(run(target, [C], [r])[0], [1, 2, 1, 1])


def test_numpy_scalars_and_constants() -> None:
    found = sl.compute(
        (4,),
        lambda i: (np.complex64(2j) * R[i], R[i] - np.complex128(1), sl.const(1j, "complex64")),
        name="C",
    )
    assert [t.dtype for t in found] == ["complex64", "complex128", "complex64"]
    r = np.arange(4, dtype="float32")
    for got, want in zip(run("python", found, [r]), [2j * r, r - 1, [1j] * 4], strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "bfloat16"])
def test_the_tuner_poisons_packs_and_compares_arrays(dtype: str) -> None:
    from schedlang.autotune.runner.outputs import Guarded, unequal
    from schedlang.autotune.runner.task import _pack, _unpack
    from schedlang.expr.dtypes import array_dtype

    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    want = np.array([1, np.nan, -2, 0], array_dtype(dtype))
    out = Guarded((4,), dtype)
    out.poison(want)
    assert not ((out.array == want) | (np.isnan(out.array) & np.isnan(want))).any() and out.intact()
    again = _unpack(_pack(want))
    assert again.dtype == want.dtype and again.tobytes() == want.tobytes()
    assert unequal("C", want, want, 0.0) == ""
    off = want.copy()
    off[2] = -2.5
    assert "C[2] is" in unequal("C", off, want, 0.01) and unequal("C", off, want, 0.5) == ""


def test_a_custom_reducer_of_parts() -> None:
    """The check of a combiner samples complex inputs, too."""
    A, r = sl.placeholder((N,), "complex64", name="A"), sl.reduce_axis(N, name="r")
    both = sl.comm_reducer(
        lambda x, y: (x[0] + y[0], sl.max(x[1], y[1])), lambda t, u: (0, float("-inf")), name="both"
    )
    made = sl.compute((), lambda: both((A[r].real, sl.abs(A[r])), axis=r), name="C")
    a = draw(N)
    got = sl.build(sl.schedule(list(made)), target="python")(a)
    np.testing.assert_allclose(got, (a.real.sum(), abs(a).max()), rtol=1e-5, atol=1e-6)
