"""``compiler="llvm"``: kernels that LLVM compiles from the machine nest, beside numba's."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

import schedlang as sl
from benchmarks import schedules, works
from schedlang.errors import BuildError, CacheWarning, CompilerWarning
from schedlang.expr.dtypes import DTYPES, array_dtype, is_complex, is_float
from schedlang.ir.nodes import Buffer
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, For, Function, Let, Num, Op, Reg, Store, Type
from schedlang.machine.verify import verify_machine
from schedlang.networks.data import from_data, to_data
from schedlang.networks.module import NetworkModule
from schedlang.runtime.llvm import dialect
from schedlang.runtime.llvm import place as compiling
from schedlang.runtime.llvm.compiled import compiled
from schedlang.runtime.llvm.library import Subject
from schedlang.runtime.llvm.objects import Machine
from schedlang.runtime.llvm.values import ValuePrinter
from schedlang.runtime.llvm_runner import ByLlvm
from schedlang.runtime.numba_internals import machine_options
from schedlang.runtime.perf_map import functions_with_places
from schedlang.runtime.processor import processor_features
from tests.marks import slow_but
from tests.test_golden_sources import ROWS
from tests.test_network import mlp, softmax_of

FLOATS = [t for t in DTYPES if is_float(t)]
REAL = [t for t in DTYPES if not is_complex(t)]
pytestmark = pytest.mark.filterwarnings("error::schedlang.errors.CompilerWarning")


def both(s: sl.Schedule, *given: Any, args: Any = None, **options: Any) -> tuple[Any, Any]:
    """Return the results of the kernels by LLVM and by numba."""
    kernels = (sl.build(s, args, compiler=how, **options) for how in ("llvm", "numba"))
    first, second = (kernel(*given) for kernel in kernels)
    return first, second


def same_bits(s: sl.Schedule, *given: Any, **options: Any) -> Any:
    """Check that both compilers give the same bits, and return the result."""
    first, second = both(s, *given, **options)
    assert first.dtype == second.dtype and first.tobytes() == second.tobytes()
    return first


def numbers(dtype: str, count: int) -> Any:
    """Return numbers of a dtype: both signs, zeros, and large ones."""
    rng = np.random.default_rng(0)
    whole = rng.integers(-100, 100, count)
    return (whole / 8 if is_float(dtype) else whole).astype(array_dtype(dtype))


def vectorized(C: sl.Tensor, factor: int = 8) -> sl.Schedule:
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[-1], factor)[1])
    return s


@pytest.mark.parametrize("lanes", slow_but(["True"], [False, True]))
@pytest.mark.parametrize(
    "dtype", slow_but(["bool", "int8", "uint64", "float16", "bfloat16", "float32"], REAL)
)
def test_arithmetic_of_each_dtype(dtype: str, lanes: bool) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    A, B = (sl.placeholder((40,), dtype, name=name) for name in "AB")
    x, y = (lambda i: A[i]), (lambda i: B[i])
    if dtype == "bool":
        C = sl.compute((40,), lambda i: (x(i) & ~y(i)) ^ (x(i) | y(i)), name="C")
    else:
        C = sl.compute(
            (40,), lambda i: sl.select(x(i) < y(i), x(i) * y(i), sl.max(x(i) - y(i), y(i))),
            name="C",
        )  # fmt: skip
    a, b = numbers(dtype, 40), numbers(dtype, 40)[::-1].copy()
    s = vectorized(C) if lanes else sl.schedule(C)
    found = same_bits(s, a, b)
    want = (a & ~b) ^ (a | b) if dtype == "bool" else np.where(a < b, a * b, np.maximum(a - b, b))
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("lanes", slow_but(["True"], [False, True]))
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "float32"])
def test_divisions_and_remainders_are_those_of_numpy(dtype: str, lanes: bool) -> None:
    A, B = (sl.placeholder((64,), dtype, name=name) for name in "AB")
    C = sl.compute((64,), lambda i: A[i] // B[i] + A[i] % B[i], name="C")
    a, b = numbers(dtype, 64), numbers(dtype, 64)[::-1].copy()
    b[:2] = 0
    found = same_bits(vectorized(C) if lanes else sl.schedule(C), a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, a // b + a % b)


@pytest.mark.parametrize(
    "to",
    slow_but(
        ["bool", "int8", "int64", "float16"],
        [t for t in REAL if t != "bfloat16"],
    ),
)
def test_casts_to_each_dtype(to: str) -> None:
    A, B = sl.placeholder((24,), "float64", name="A"), sl.placeholder((24,), "int32", name="B")
    C, D = (
        sl.compute((24,), lambda i, T=T: sl.cast(T[i], to), name=name)
        for T, name in ((A, "C"), (B, "D"))
    )
    for made, dtype in ((C, "float64"), (D, "int32")):
        a = np.abs(numbers(dtype, 24)) if to.startswith("u") else numbers(dtype, 24)
        np.testing.assert_array_equal(same_bits(vectorized(made), a), a.astype(to))


FUNCTIONS = "exp log tanh sigmoid erf sqrt sin exp2 floor round isnan".split()


@cache
def functions_by_both(dtype: str, lanes: bool) -> tuple[Any, Any]:
    """Return the values of :data:`FUNCTIONS` by LLVM and by numba, from a kernel of each."""
    A = sl.placeholder((48,), dtype, name="A")
    C = sl.compute((48,), lambda i: tuple(getattr(sl, f)(A[i]) for f in FUNCTIONS), name="C")
    a = np.concatenate([np.linspace(-9, 9, 42), [0, -0.0, np.inf, -np.inf, np.nan, 1e30]])
    s = vectorized(C[0]) if lanes else sl.schedule(C[0])
    return both(s, a.astype(dtype), args=[A, *C])


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", slow_but(["float32"], ["float32", "float64"]))
def test_functions_have_the_bits_of_numba(function: str, dtype: str) -> None:
    for lanes in (False, True):
        first, second = (r[FUNCTIONS.index(function)] for r in functions_by_both(dtype, lanes))
        assert first.dtype == second.dtype and first.tobytes() == second.tobytes()


def test_fastmath_frees_what_numba_frees() -> None:
    A = sl.placeholder((1024,), "float32", name="A")
    k = sl.reduce_axis(1024, name="k")
    C = sl.compute((1,), lambda i: sl.sum(A[k] * A[k], axis=k), name="C")
    a = np.random.default_rng(1).random(1024, dtype="float32")
    f = sl.build(sl.schedule(C), compiler="llvm", fastmath=True)
    assert re.search(r"fadd (fast|reassoc).* <\d+ x float>", f.llvm)
    assert "fast" not in sl.build(sl.schedule(C), compiler="llvm").llvm
    np.testing.assert_allclose(f(a), [a.astype("float64") @ a], rtol=1e-6)


def test_symbolic_sizes_and_scalars() -> None:
    n = sl.var("n")
    scale, count = sl.var("scale", dtype="float32"), sl.var("count", dtype="int32")
    on = sl.var("on", dtype="bool")
    A = sl.placeholder((n, 3), "float32", name="A")
    C = sl.compute(
        (n, 3), lambda i, j: sl.select(on, A[i, j] * scale + sl.cast(count, "float32"), 0),
        name="C",
    )  # fmt: skip
    f = sl.build(sl.schedule(C), [A, scale, count, on, C], compiler="llvm")
    a = np.arange(21, dtype="float32").reshape(7, 3)
    np.testing.assert_array_equal(f(a, 2.5, 3, True), a * 2.5 + 3)
    np.testing.assert_array_equal(f(a[:2].copy(), 2.5, 3, np.bool_(False)), np.zeros((2, 3)))


def test_a_parameter_that_a_loop_assigns(tmp_path: Path) -> None:
    C, total = Array("C", Buffer("C", "float32", (1,))), Reg("total", Type("float32"))
    more = Let(total, Op("+", total, Num(1.0, total.type), total.type))
    body = (For(Reg("i"), Num(4), (more,)), Store("store", C, Num(0), total))
    nest = MachineNest((Function("count", (C, total), body),))
    verify_machine(nest)
    c = np.zeros(1, "float32")
    subject = Subject("count", "count", tmp_path / "count.py", False, False, lambda: nest)
    compiled(subject).function(c, 2.5)
    assert c[0] == 6.5


def test_parallel_loops() -> None:
    A = sl.placeholder((64, 48), "float32", name="A")
    B = sl.compute((64, 48), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((64, 48), lambda i, j: B[63 - i, j] * 2, name="C")
    s = sl.schedule(C)
    s[B].parallel(B.op.axis[0])
    outer, _ = s[C].split(C.op.axis[0], 5, tail="guard")
    s[C].parallel(outer)
    a = np.random.default_rng(2).random((64, 48), dtype="float32")
    np.testing.assert_array_equal(same_bits(s, a), ((a + 1) * 2)[::-1])


def scanned(rows: int, columns: int) -> tuple[sl.Schedule, Any]:
    """Return a recurrence whose steps are parallel loops, and its value in NumPy."""
    X = sl.placeholder((rows, columns), "float32", name="X")
    S = sl.placeholder((rows, columns), "float32", name="S")
    first = sl.compute((1, columns), lambda t, i: X[0, i], name="first")
    step = sl.compute(
        (rows, columns), lambda t, i: S[t - 1, (i + 1) % columns] * 0.5 + X[t, i], name="step"
    )
    R = sl.scan(first, step, S, [X])
    s = sl.schedule(R)
    s[step].parallel(s[step].op.axis[1])

    def expected(x: Any) -> Any:
        found = [x[0]]
        for row in x[1:]:
            found.append(np.roll(found[-1], -1) * np.float32(0.5) + row)
        return np.stack(found)

    return s, expected


def test_parallel_loops_in_a_loop_run_by_a_team() -> None:
    s, expected = scanned(40, 96)
    x = np.random.default_rng(3).random((40, 96), dtype="float32")
    f = sl.build(s, compiler="llvm")
    assert "__piece__" in f.asm
    for _ in range(20):
        np.testing.assert_allclose(f(x), expected(x), rtol=1e-6)


def test_arrays_on_the_heap_are_freed() -> None:
    resource = pytest.importorskip("resource")
    A = sl.placeholder((512, 1024), "float32", name="A")
    B = sl.compute((512, 1024), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((512, 1024), lambda i, j: B[i, 1023 - j] * 2, name="C")
    f = sl.build(sl.schedule(C), compiler="llvm")
    assert "heap_array" in f.source
    a, out = np.ones((512, 1024), "float32"), np.empty((512, 1024), "float32")
    f(a, out)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(60):
        f(a, out)
    # 60 arrays would be 120 MiB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10
    np.testing.assert_array_equal(out, np.full((512, 1024), 4, "float32"))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems promise any memory")
def test_a_lack_of_memory_is_an_error() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), "float32", name="A")
    B = sl.compute((4, n, n), lambda i, j, k: A[j] * i + A[k], name="B")
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((4,), lambda i: sl.sum(B[i, k, n - 1 - k], axis=k), name="C")
    for parallel in (False, True):
        s = sl.schedule(C)
        if parallel:
            s[C].parallel(C.op.axis[0])
            s[B].compute_at(s[C], C.op.axis[0])
        f, before = sl.build(s, compiler="llvm"), _areas_with_huge_pages()
        # B has more bytes than a process has addresses
        with pytest.raises(MemoryError, match="no memory for the arrays of a kernel"):
            f(np.ones(3_500_000, "float32"))
        assert _areas_with_huge_pages() <= before + 2


def _areas_with_huge_pages() -> int:
    """Return how many areas of this process's memory ask for huge pages."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    return sum(line.startswith("VmFlags:") and " hg" in line for line in lines)


def test_an_array_of_no_rows() -> None:
    """Its extent, ``min(n*2 - 1, n)``, is negative where ``n`` is 0."""
    n = sl.var("n")
    A = sl.placeholder((3, n, 8), "uint32", name="A")
    k = sl.reduce_axis(3, name="k")
    B = sl.compute(
        (3, n, 8), lambda i, j, c: sl.sum(A[i // 2, j, c // 2] - A[i, j, k], axis=k), name="B"
    )
    C = sl.compute((3, n, 8), lambda i, j, c: B[i, j, c] - B[0, sl.min(j * 2, n - 1), c], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    # LLVM leaves out an array that nothing uses
    s[C].prefetch(B, C.op.axis[1], 1)
    f = sl.build(s, compiler="llvm")
    i, c = np.arange(3)[:, None, None] // 2, np.arange(8) // 2
    for rows in (0, 1, 5):
        j = np.arange(rows)[:, None]
        given = np.arange(3 * rows * 8, dtype="uint32").reshape(3, rows, 8)
        sums = 3 * given[i, j, c] - given[:, :, :3].sum(2, "uint32", keepdims=True)
        wanted = sums - sums[0, np.minimum(j[:, 0] * 2, rows - 1)]
        np.testing.assert_array_equal(f(given), wanted)


def test_calls_without_checks() -> None:
    A = sl.placeholder((4,), "float32", name="A")
    C = sl.compute((4,), lambda i: A[i] * 2, name="C")
    run = sl.build(sl.schedule(C), compiler="llvm").unchecked
    a, c = np.ones(4, "float32"), np.zeros(4, "float32")
    assert run(a, c) is None
    np.testing.assert_array_equal(c, [2, 2, 2, 2])
    with pytest.raises(TypeError, match="C_kernel takes 2 arguments"):
        run(a)
    with pytest.raises(TypeError, match="C_kernel takes no names"):
        run(a, c, stream=3)
    with pytest.raises(TypeError, match="C must be a NumPy array"):
        run(a, [1.0])
    # a derived class has the same memory
    run(a.view(np.memmap), c)


def test_each_instruction_has_the_line_of_its_statement() -> None:
    A = sl.placeholder((64, 32), "float32", name="A")
    B = sl.compute((64, 32), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((64, 32), lambda i, j: sl.select(i < 5, B[i, j], A[i, j] * 3), name="C")
    s = vectorized(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].parallel(C.op.axis[0])
    f = sl.build(s, compiler="llvm")
    shown, stores = "", 0
    for line in f.llvm.splitlines():
        if found := re.match(r"\s*; (\d+): (.*)", line):
            shown = found[2]
            assert f.source.splitlines()[int(found[1]) - 1].strip() == shown
        elif re.search(r"store (float|<8 x float>)", line):
            assert "store(" in shown, (shown, line)
            stores += 1
    assert stores and re.search(r"# \d+: .*vstore\(C, ", f.asm)


def test_the_code_before_and_after_the_passes() -> None:
    A = sl.placeholder((64,), "float32", name="A")
    C = sl.compute((64,), lambda i: sl.exp(A[i]) + 1, name="C")
    s = vectorized(C)
    s[C].parallel(s[C].leaf_axes[0])
    f = sl.build(s, compiler="llvm")
    parts = f.llvm.removeprefix("; before LLVM's passes\n").split("\n; after LLVM's passes\n")
    before, after = (re.findall(r'^define .*@"?(.+?)"?\(', part, re.M) for part in parts)
    names = [function.name for function in f.machine_nest.functions]
    # the exponential is a function of its own until it is inlined
    assert {*names, "exp_single.Vec"} <= set(before)
    assert names[-1] in after and "exp_single.Vec" not in after
    for part in parts:
        assert re.search(r"; \d+: .*vstore\(C, ", part) and "!dbg" not in part


@pytest.mark.parametrize("lanes, level", [(True, 2), (False, 3)])
def test_plain_loops_have_more_passes(
    lanes: bool, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = []
    optimize = Machine.optimize

    def noted(self: Machine, module: Any, level: int) -> None:
        levels.append(level)
        optimize(self, module, level)

    monkeypatch.setattr(Machine, "optimize", noted)
    A = sl.placeholder((96,), "float32", name="A")
    C = sl.compute((96,), lambda i: A[i] * 11 + lanes, name="C")
    f = sl.build(vectorized(C) if lanes else sl.schedule(C), compiler="llvm")
    assert ("<8 x float>" in f.llvm.partition("; after")[0]) == lanes
    assert levels == [level]


def test_profiles_are_those_of_the_kernel() -> None:
    s, _ = scanned(8, 64)
    profile = sl.build(s, compiler="llvm").profile(np.ones((8, 64), "float32"), repeat=1)
    assert "step" in str(profile)


def test_perf_knows_the_names_of_functions() -> None:
    s, _ = scanned(8, 64)
    f = sl.build(s, compiler="llvm").compile()
    (code,) = f._runner.codes(f.unchecked)
    names = [function.name for function in f.machine_nest.functions]
    found = {name: size for _, size, name in functions_with_places(code, names)}
    assert {names[-1], f"{names[-1]}.from_python"} <= set(found)
    assert all(size > 0 for size in found.values())


CACHED = """
import sys
import numpy as np, schedlang as sl
A = sl.placeholder((64,), name="A")
C = sl.compute((64,), lambda i: sl.exp(A[i]) + 1, name="C")
s = sl.schedule(C)
s[C].parallel(s[C].split(C.op.axis[0], 16)[0])
f = sl.build(s, compiler="llvm")
np.testing.assert_allclose(f(np.zeros(64, "float32")), np.full(64, 2), rtol=1e-6)
assert ("schedlang.runtime.llvm.printed" in sys.modules) == (sys.argv[1] == "first")
"""


@pytest.mark.slow
def test_machine_code_is_kept_in_the_cache_folder(tmp_path: Path) -> None:
    env = {**os.environ, "SCHEDLANG_CACHE": str(tmp_path)}
    for turn in ("first", "again"):
        subprocess.run([sys.executable, "-c", CACHED, turn], env=env, check=True)
    assert len([*(tmp_path / "kernels").glob("*.nbc")]) == 1


@pytest.mark.slow
def test_damaged_machine_code_is_made_again_by_a_new_process(tmp_path: Path) -> None:
    env = {**os.environ, "SCHEDLANG_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", CACHED, "first"], env=env, check=True)
    (kept,) = (tmp_path / "kernels").glob("*.nbc")
    content = kept.read_bytes()
    kept.write_bytes(content[:100] + b"x" + content[101:])
    damaged = subprocess.run(
        [sys.executable, "-c", CACHED, "first"], env=env, check=True, stderr=subprocess.PIPE
    )
    assert CacheWarning.__name__.encode() in damaged.stderr
    assert kept.read_bytes() == content


def test_what_has_no_form_is_compiled_by_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    A = sl.placeholder((16,), "float32", name="A")
    C = sl.compute((16,), lambda i: A[i] * 7, name="C")
    f = sl.build(vectorized(C), compiler="llvm")

    def unknown(self: Any, *_: Any) -> Any:
        from schedlang.runtime.llvm.dialect import Unprintable

        raise Unprintable("an operation has no form in LLVM's code")

    monkeypatch.setattr(ValuePrinter, "_operation", unknown)
    why = "an operation has no form in LLVM's code, so numba"
    with pytest.warns(CompilerWarning, match=why) as caught:
        np.testing.assert_array_equal(f(np.ones(16, "float32")), np.full(16, 7))
    assert [warning.filename for warning in caught] == [__file__]


def refused_by_parser(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    return builder.shl(a, b)


def refused_by_verifier(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    with builder.if_then(ir.IntType(1)(1)):
        return builder.fmul(a, b)


def refused_by_printer(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    raise TypeError("no such instruction")


@pytest.mark.parametrize(
    "emit, why",
    [
        (refused_by_parser, "invalid operand type for instruction"),
        (refused_by_verifier, "Instruction does not dominate all uses!"),
        (refused_by_printer, "no such instruction"),
    ],
)
def test_what_llvm_refuses_is_named(
    emit: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    monkeypatch.setattr(compiling, "_KNOWN", {})
    A = sl.placeholder((16,), "float32", name="A")
    B = sl.compute((16,), lambda i: A[i] + 1, name="B")
    C = sl.compute((16,), lambda i: B[15 - i] * 7, name="C")
    s = vectorized(C)
    with monkeypatch.context() as patched:
        patched.setitem(dialect.ARITHMETIC, "*", emit)
        for use in (lambda f: f(np.ones(16, "float32")), lambda f: f.llvm):
            with pytest.raises(BuildError) as refused:
                use(sl.build(s, compiler="llvm"))
            message = str(refused.value)
            assert message.startswith("kernel C, at vstore(C, ")
            assert why in message and 'Give compiler="numba", and report this' in message
            (kept,) = (tmp_path / "kernels").glob("*.ll")
            assert message.endswith(f"which is in {kept}.") and "define" in kept.read_text()
            kept.unlink()
    assert not list((tmp_path / "kernels").glob("*.nbc"))
    for compiler in ("numba", "llvm"):
        f = sl.build(s, compiler=compiler)
        np.testing.assert_array_equal(f(np.ones(16, "float32")), np.full(16, 14))


def test_what_llvm_cannot_generate_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*of: Any) -> None:
        raise RuntimeError("Cannot select: intrinsic %llvm.strange")

    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    monkeypatch.setattr(Machine, "optimize", fails)
    A = sl.placeholder((16,), "float32", name="A")
    f = sl.build(sl.schedule(sl.compute((16,), lambda i: A[i] * 9, name="C")), compiler="llvm")
    why = r"kernel C: LLVM does not compile it \(Cannot select: .*\n.* which is in .*\.ll"
    with pytest.raises(BuildError, match=why):
        f(np.ones(16, "float32"))


def test_other_compilers_are_refused() -> None:
    A = sl.placeholder((16,), "float32", name="A")
    s = sl.schedule(sl.compute((16,), lambda i: A[i] * 2, name="C"))
    with pytest.raises(BuildError, match='Give compiler="llvm" or compiler="numba"'):
        sl.build(s, compiler="gcc")
    with pytest.raises(BuildError, match="Leave out compiler="):
        sl.build(s, target="c", compiler="llvm")
    assert isinstance(sl.build(s, compiler="llvm")._runner, ByLlvm)
    assert not isinstance(sl.build(s, compiler="numba")._runner, ByLlvm)


@pytest.mark.slow
def test_both_compilers_of_a_network(tmp_path: Path) -> None:
    """A network runs by both compilers from one file, also pickled and loaded."""
    nets = {how: mlp(target="cpu", compiler=how) for how in ("llvm", "numba", "")}
    results, runners = {}, {}
    for how, (net, w, b, x) in nets.items():
        results[how] = net(x)
        np.testing.assert_allclose(results[how], softmax_of(x, w, b), rtol=1e-5)
        again = pickle.loads(pickle.dumps(net))
        np.testing.assert_array_equal(again(x), results[how])
        loaded = sl.load(net.save(tmp_path / f"by_{how}"), compiler=how)
        np.testing.assert_array_equal(loaded(x), results[how])
        kernels = [kernel.kernel for n in (net, again, loaded) for kernel in n.kernels]
        modules = [n.module._backend for n in (net, again, loaded)]
        runs = [*modules, *kernels]
        runners[how] = {type(run._runner).__name__ for run in runs}
    assert runners == {"llvm": {"ByLlvm"}, "numba": {"ByNumba"}, "": {"ByLlvm"}}
    assert nets["llvm"][0].source == nets["numba"][0].source


@pytest.mark.slow
def test_a_module_without_its_nest_is_compiled_by_numba(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    net, w, b, x = mlp(target="cpu", name="alone")
    data = from_data(to_data(net.module.data), net.module.source, net.module.data.serial_text)
    module = NetworkModule(data, net.module.params)
    with pytest.warns(CompilerWarning, match="loaded from its source.*so numba compiles it"):
        np.testing.assert_allclose(module(x), softmax_of(x, w, b), rtol=1e-5)


def test_compilers_that_a_network_lacks_are_refused(tmp_path: Path) -> None:
    for target, known in [("cpu", 'compiler="llvm" or'), ("c", "Leave out compiler=")]:
        with pytest.raises(BuildError, match=f"compiler='gcc' for target='{target}'.*\n.*{known}"):
            mlp(target=target, compiler="gcc")
    net, *_ = mlp(target="cpu")
    with pytest.raises(BuildError, match="compiler='gcc'"):
        sl.load(net.save(tmp_path / "saved"), compiler="gcc")


@pytest.mark.parametrize("row", slow_but(["softmax 4096x1024"], ROWS))
def test_works(row: str) -> None:
    """Works of the benchmark give the same results by both compilers."""
    work = works.TABLE[row]
    s, args = schedules.of(work)[schedules.MAIN].make(work, sl.Target("cpu"))
    ahead = schedules.of(work)[schedules.MAIN].ahead
    arrays = work.arrays()
    given = list(arrays.values()) if ahead is None else ahead(arrays)
    first, second = both(s, *given, args=args)
    for found, by_numba in zip(_several(first), _several(second)):
        np.testing.assert_allclose(found, by_numba, rtol=1e-5, atol=1e-5)


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_kernels_with_vectors_are_compiled_without_sse4a() -> None:
    """LLVM moves bytes by its instructions, which are slow next to those of AVX."""
    features = machine_options()["target"]["features"].split(",")
    assert not {"+avx", "+sse4a"} <= {*features}
    assert "sse4a" not in processor_features() or "avx" not in processor_features()
