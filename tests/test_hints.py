"""Next steps and explanations: legal, right, with evidence, and with code to paste."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.costs.estimate import estimate
from schedlang.errors import CallTypeError
from schedlang.hints.findings import findings
from schedlang.hints.predicted import predict, with_vectors_of_llvm
from schedlang.ir.nest import Nest
from schedlang.lowering.lower import lower_state
from schedlang.runtime import environment
from schedlang.runtime.whole_cores import cpu_limit, different_cores
from schedlang.state.state import State
from tests import graphs
from tests.marks import slow_but

TARGET = sl.Target("cpu", vector_bytes=32)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("findings.threads_of", "new_stages.threads_of", "next_steps.cores_of"):
        monkeypatch.setattr(f"schedlang.hints.{place}", lambda target: 2)


def product(n: int) -> tuple[Any, Any, Any]:
    return graphs.product(n, n, n)


def blur(height: int, width: int) -> tuple[Any, Any, Any]:
    X = sl.placeholder((height + 2, width + 2), name="X")
    H = sl.compute(
        (height + 2, width), lambda i, j: X[i, j] + X[i, j + 1] + X[i, j + 2], name="H"
    )
    V = sl.compute((height, width), lambda i, j: H[i, j] + H[i + 1, j] + H[i + 2, j], name="V")
    return X, H, V


def texts(s: Any) -> list[str]:
    return [one.text for one in sl.explain(s, target=TARGET).advice]


def test_a_plain_product_reads_a_column() -> None:
    *_, C = product(256)
    found = texts(sl.schedule(C))
    # rows of 256 float32
    assert (
        "the inner loop k accesses B[k, j] with a stride of 1,024 B: each access is in a cache "
        "line of its own"
    ) in found
    assert "stage C runs on one thread, and parallel loops have 2 here" in found


@pytest.fixture
def actual_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("findings", "new_stages"):
        monkeypatch.setattr(f"schedlang.hints.{place}.threads_of", environment.threads_of)
    monkeypatch.setattr("schedlang.hints.next_steps.cores_of", environment.cores_of)


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("cpu", "NUMBA_NUM_THREADS"),
        pytest.param("c", "OMP_NUM_THREADS", marks=pytest.mark.slow),
    ],
)
def test_one_thread_promises_nothing_of_parallel_loops(
    kind: str, variable: str, actual_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine has eight cores, of which kernels use one, or four."""
    monkeypatch.setattr(environment, "cores", lambda: 8)
    monkeypatch.setattr(environment, "whole_cores", lambda: 8)
    monkeypatch.delitem(sys.modules, "numba.np.ufunc.parallel", raising=False)
    *_, C = product(256)
    target = sl.Target(kind, vector_bytes=32)
    for other in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(other, "6")
    found: dict[str, str] = {}
    for count in ("1", "4"):
        monkeypatch.setenv(variable, count)
        found[count] = "\n".join(map(str, sl.explain(sl.schedule(C), target=target).advice))
        steps = [step.speedup for step in sl.next_steps(sl.schedule(C), target=target)
                 if step.primitive == "parallel"]  # fmt: skip
        assert max(steps, default=1.0) == pytest.approx(float(count), rel=0.05)
    assert "parallel" not in found["1"]
    assert "stage C runs on one thread, and parallel loops have 4 here" in found["4"]


@pytest.mark.parametrize("width", slow_but(["32"], [16, 32, 64]))
def test_parallel_loops_promise_no_more_than_the_cores_that_threads_share(
    width: int, actual_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four threads have two cores; also of a tile whose outer loops are fused."""
    monkeypatch.setattr(environment, "threads_of", lambda target: 4)
    monkeypatch.setattr(environment, "whole_cores", lambda: 2)
    target = sl.Target("cpu", vector_bytes=width)
    *_, C = product(512)
    plain = sl.schedule(C)
    steps = sl.next_steps(plain, target)
    tile = next(step.schedule for step in steps if step.primitive == "register tile")
    for s in (plain, tile):
        steps = sl.next_steps(s, target)
        promised = [step.speedup for step in steps if step.primitive == "parallel"]
        assert len(promised) == 2 and max(promised) == pytest.approx(2.0, rel=0.02)


def test_hardware_threads_of_one_core_and_the_limit_of_a_container(tmp_path: Path) -> None:
    for n, siblings in enumerate(("0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7")):
        place = tmp_path / f"cpu{n}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(f"{siblings}\n", "ascii")
    assert different_cores([*range(8)], tmp_path) == 4
    assert different_cores([0, 1, 4], tmp_path) == 2
    # a system that does not say
    assert different_cores([0, 1, 4], tmp_path / "none") == 3
    groups, own = tmp_path / "groups", tmp_path / "own"
    new, old = groups / "a" / "b", groups / "cpu" / "c"
    for place in (new, old):
        place.mkdir(parents=True)
    own.write_text("0::/a/b\n", "ascii")
    assert cpu_limit(groups, own) is None
    (new / "cpu.max").write_text("max 100000\n", "ascii")
    assert cpu_limit(groups, own) is None
    # the group above has one
    (groups / "a" / "cpu.max").write_text("250000 100000\n", "ascii")
    assert cpu_limit(groups, own) == 2.5
    own.write_text("3:cpu,cpuacct:/c\n0::/\n", "ascii")
    (old / "cpu.cfs_quota_us").write_text("-1\n", "ascii")
    (old / "cpu.cfs_period_us").write_text("100000\n", "ascii")
    assert cpu_limit(groups, own) is None
    (old / "cpu.cfs_quota_us").write_text("200000\n", "ascii")
    assert cpu_limit(groups, own) == 2.0


def test_the_threads_of_numba_may_change_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    before = numba.get_num_threads()
    for count in {1, before}:
        numba.set_num_threads(count)
        assert environment.threads_of(sl.Target("cpu")) == count


def test_repeated_rows_are_counted() -> None:
    _, H, V = blur(512, 512)
    s = sl.schedule(V)
    s[H].compute_at(s[V], V.op.axis[0])
    repeated = next(a for a in sl.explain(s, target=TARGET).advice if "stores" in a.text)
    # 512 iterations compute 3 rows of 512 elements; H has 514 of them
    assert f"stage H stores {512 * 3 * 512:,} values, 3 times as many as H has" in repeated.text
    assert "s[H].store_at(s[V], i_outer)" in repeated.code


def test_steps_that_later_would_not_lower_are_left_out() -> None:
    """B is inlined into C and reads A's copy in the loop k of C: a stage of its own, it cannot."""
    A = sl.placeholder((64, 8), name="A")
    B = sl.compute((64, 8), lambda i, j: A[i, j] * 2, name="B")
    k = sl.reduce_axis(8, name="k")
    C = sl.compute((64,), lambda i: sl.sum(B[i, k], axis=k), name="C")
    s = sl.schedule(C)
    s[B].compute_inline()
    copy = s.cache_read(A, "local", [B])
    s[copy].compute_at(s[C], k)
    steps = [step for step in sl.next_steps(s) if step.stage == "B"]
    # at k, also once it is split, A.local is still inside of the loop; at root and at i it would be
    # outside of B
    assert {step.code.splitlines()[-1] for step in steps if "_at" in step.primitive} == {
        "s[B].compute_at(s[C], k)", "s[B].store_at(s[C], k_outer)",
    }  # fmt: skip
    for step in sl.next_steps(s):
        sl.build(step.schedule, target="python")
    s[B].compute_root()
    with pytest.raises(sl.errors.LoweringError, match="B reads A.local outside that loop"):
        sl.explain(s)


def test_rows_that_a_window_keeps_are_not_called_repeated() -> None:
    _, H, V = blur(512, 512)
    s = sl.schedule(V)
    s[H].compute_at(s[V], V.op.axis[0])
    s[H].store_root()
    # the loops around H run 3 times for each row, and its window computes each row once
    assert not any("values" in finding.text for finding in findings(s.nest(), TARGET))


def test_a_sum_in_memory_is_stored_with_a_stride() -> None:
    A = sl.placeholder((64, 64, 64), name="A")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((64, 64), lambda i, j: sl.sum(A[k, j, i], axis=k), name="C")
    s = sl.schedule(C)
    s[C].reorder(k, C.op.axis[1], C.op.axis[0])
    # rows of 64 float32
    strided = [f.text for f in findings(s.nest(), TARGET) if "stride of 256 B" in f.text]
    assert any("loop i accesses C[i, j]" in text for text in strided)


def test_loops_of_one_name_are_told_apart() -> None:
    A = sl.placeholder((64, 64), name="A")
    k = sl.reduce_axis(64, name="i")
    P = sl.compute((64, 64), lambda i, j: A[i, j] * 2, name="P")
    G = sl.compute((64,), lambda i: sl.sum(P[i, k], axis=k), name="G")
    found = [n.code for n in sl.next_steps(sl.schedule(G)) if n.primitive == "compute_at"]
    assert sorted(found) == [
        "(i,) = s[G].op.axis\ns[P].compute_at(s[G], i)",
        "(i,) = s[G].op.reduce_axis\ns[P].compute_at(s[G], i)",
    ]


def test_sizes_that_are_unknown_or_0() -> None:
    n, m = sl.var("n"), sl.var("m")
    X = sl.placeholder((n + m,), name="X")
    H = sl.compute((n + m,), lambda i: X[i] * 2, name="H")
    k = sl.reduce_axis(m, name="k")
    V = sl.compute((n,), lambda i: sl.sum(H[i + k], axis=k), name="V")
    # a window of m rows
    steps = sl.next_steps(sl.schedule(V))
    assert any("H slides along i.inner" in str(step.nest) for step in steps)
    E = sl.compute((0, 4), lambda i, j: sl.cast(i + j, "float32"), name="E")
    assert not sl.explain(sl.schedule(E)).advice
    assert all(step.speedup == 1 for step in sl.next_steps(sl.schedule(E)))


def test_a_window_that_slides_computes_nothing_again() -> None:
    _, H, V = blur(512, 512)
    s = sl.schedule(V)
    strip, i = s[V].split(V.op.axis[0], factor=64)
    s[H].compute_at(s[V], i)
    s[H].store_at(s[V], strip)
    assert not any("stores" in text for text in texts(s))


def test_loops_that_llvm_vectorizes_need_no_vectors() -> None:
    """Vectors along plain loops of adjacent elements change nothing, so they are no advice."""
    _, H, V = blur(1024, 1024)
    s = sl.schedule(V)
    steps = sl.next_steps(s, TARGET)
    along = [step for step in steps if step.primitive == "vectorize"]
    # one width of each stage, along its rows: lanes down a column would be far apart
    assert [step.stage for step in along if "j_inner" in step.code] in (["H", "V"], ["V", "H"])
    assert len(along) == 2 and all(0.95 < step.speedup < 1.05 for step in along)
    assert not any("is vectorized" in text for text in texts(s))
    # in a product, LLVM may not reorder the sum: the loop stays scalar
    *_, C = product(64)
    plain = sl.schedule(C).nest()
    assert with_vectors_of_llvm(plain, TARGET).loops[-1].kind == "serial"
    ordered = sl.schedule(C)
    i, j = C.op.axis
    ordered[C].reorder(i, C.op.reduce_axis[0], j)
    kinds = [loop.kind for loop in with_vectors_of_llvm(ordered.nest(), TARGET).loops]
    assert kinds == ["serial", "vectorize", "serial", "vectorize"]
    # a maximum of floats is the same in any order, and fewer than 16 elements are no vector
    X, k = sl.placeholder((4, 64), name="X"), sl.reduce_axis(64, name="k")
    M = sl.compute((4,), lambda i: sl.max(X[i, k], axis=k), name="M")
    kinds = [loop.kind for loop in with_vectors_of_llvm(sl.schedule(M).nest(), TARGET).loops]
    assert kinds == ["serial", "vectorize"]
    assert not any("waits" in text for text in texts(sl.schedule(M)))


@pytest.mark.parametrize(("cores", "width"), [(2, 64), (16, 32), (64, 64)])
def test_threads_share_elements_before_the_terms_of_a_sum(
    cores: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("findings.threads_of", "new_stages.threads_of", "next_steps.cores_of"):
        monkeypatch.setattr(f"schedlang.hints.{place}", lambda target: cores)
    target = sl.Target("cpu", vector_bytes=width)
    *_, C = product(512)
    assert sl.next_steps(sl.schedule(C), target)[0].primitive in ("register tile", "parallel")
    # of one number, threads can only share the terms
    X, k = sl.placeholder((1 << 20,), name="X"), sl.reduce_axis(1 << 20, name="k")
    total = sl.compute((), lambda: sl.sum(X[k], axis=k), name="total")
    steps = sl.next_steps(sl.schedule(total), target)
    assert any("total_rf].parallel" in step.code for step in steps)


@pytest.mark.parametrize(
    ("rows", "columns", "by_llvm"),
    [
        (3, 3, True),
        pytest.param(5, 5, True, marks=pytest.mark.slow),
        (8, 9, True),
        pytest.param(16, 1, True, marks=pytest.mark.slow),
        pytest.param(1, 49, True, marks=pytest.mark.slow),
        (9, 9, False),
        pytest.param(1, 64, False, marks=pytest.mark.slow),
    ],
)
def test_llvm_unrolls_a_filter_and_vectorizes_the_loop_around(
    rows: int, columns: int, by_llvm: bool
) -> None:
    """No step promises what LLVM does by itself."""
    X, W = sl.placeholder((72, 264), name="X"), sl.placeholder((rows, columns), name="W")
    p, q = sl.reduce_axis(rows, name="p"), sl.reduce_axis(columns, name="q")
    F = sl.compute(
        (57, 200), lambda y, x: sl.sum(X[y + p, x + q] * W[p, q], axis=(p, q)), name="F"
    )
    s = sl.schedule(F)
    steps = [step for step in sl.next_steps(s, TARGET) if step.primitive == "vectorize"]
    best = max(step.speedup for step in steps)
    assert best < 1.05 if by_llvm else best > 4
    assert any("is vectorized" in text for text in texts(s)) != by_llvm


def test_a_sum_along_memory_is_split_into_lanes() -> None:
    X, x = sl.placeholder((64, 512), name="X"), sl.placeholder((512,), name="x")
    k = sl.reduce_axis(512, name="k")
    y = sl.compute((64,), lambda i: sl.sum(X[i, k] * x[k], axis=k), name="y")
    first = sl.explain(sl.schedule(y), target=TARGET).advice[0]
    assert first.text == (
        "each iteration of k waits for the sum of the previous one in stage y, and no compiler may "
        "change the order of floats: partial results in the lanes of a vector do not wait"
    )
    # an addition has a latency of 4 cycles, and a vector has 8 lanes
    assert 4 < first.step.speedup < 16
    s = first.step.schedule
    assert not {a.step.primitive for a in sl.explain(s, target=TARGET).advice} & {
        "rfactor", "vectorize"
    }  # fmt: skip
    a, b = np.random.default_rng(0).random((64, 512), "float32"), np.ones(512, "float32")
    f = sl.build(s, target="python")
    np.testing.assert_allclose(f(a, b), a.sum(1), rtol=1e-5)
    space: dict[str, Any] = {"sl": sl, "X": X, "x": x, "y": y}
    exec(f"s = sl.schedule(y)\n{first.code}", space)
    assert str(space["s"]) == str(s)


@pytest.mark.parametrize(("threads", "faster"), [(1, 1), (4, 2), (16, 4)])
def test_cores_share_memory(threads: int, faster: float) -> None:
    """A copy waits for memory: 4 cores read it twice as fast as one, 16 four times."""
    A = sl.placeholder((2**14, 2**14), name="A")
    B = sl.compute((2**14, 2**14), lambda i, j: A[i, j] * 2, name="B")
    alone, shared = sl.schedule(B), sl.schedule(B)
    shared[B].parallel(B.op.axis[0])
    one = predict(alone.nest(), TARGET, threads)
    found = predict(shared.nest(), TARGET, threads)
    # 2**28 float32 are read, and as many written, at 8 bytes a cycle of 0.3 ns
    assert one.memory == pytest.approx(2 * 2**28 * 4 / 8 * 3e-10)
    assert found.memory == pytest.approx(one.memory / faster)


def test_a_bound_by_memory_is_named() -> None:
    A = sl.placeholder((2**14, 2**14), name="A")
    B = sl.compute((2**14, 2**14), lambda i, j: A[i, j] * 2, name="B")
    s = sl.schedule(B)
    s[B].parallel(B.op.axis[0])
    found = sl.explain(s, target=TARGET)
    assert found.bound.endswith("stages computed where they are read, smaller dtypes.")
    assert str(found).endswith(found.bound) and "% of the time is spent on reading" in found.bound
    assert "all cores share" in found._repr_html_()
    assert sl.explain(sl.schedule(product(64)[2]), target=TARGET).bound == ""


def test_a_page_of_an_explanation_keeps_the_lines_of_its_code() -> None:
    found = sl.explain(sl.schedule(product(256)[2]), target=TARGET)
    html = found._repr_html_()
    assert len(found.advice) > 1
    for one in found.advice:
        # nothing of this code needs an escape
        assert f"<code>{one.code.rstrip()}</code></pre>" in html.replace("\n</code>", "</code>")
        assert "\n" in one.code.strip()


def test_an_intermediate_larger_than_the_cache() -> None:
    _, _, V = blur(2048, 2048)
    found = sl.explain(sl.schedule(V), target=TARGET)
    large = [a for a in found.advice if a.text.startswith("H takes")]
    bytes_ = 4 * 2050 * 2048
    assert len(large) == 1 and f"H takes {bytes_:,} B" in large[0].text


def test_each_next_step_keeps_the_result() -> None:
    X, _, V = blur(20, 24)
    x = np.random.default_rng(0).integers(0, 9, (22, 26)).astype("float32")
    h = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    steps = sl.next_steps(sl.schedule(V), TARGET)
    assert len(steps) > 12
    for step in steps:
        f = sl.build(step.schedule, [X, V], target="python")
        np.testing.assert_array_equal(f(x), h[:-2] + h[1:-1] + h[2:], step.code)


def test_following_the_advice_makes_a_product_fast_and_right() -> None:
    A, B, C = product(64)
    s = sl.schedule(C)
    names = set()
    for _ in range(4):
        found = sl.explain(s, target=TARGET).advice
        if not found:
            break
        names.add(found[0].step.primitive)
        s = found[0].step.schedule
    assert {"vectorize", "register tile", "parallel"} <= names
    a, b = np.random.default_rng(0).random((2, 64, 64), "float32")
    np.testing.assert_allclose(sl.build(s, [A, B, C], target="python")(a, b), a @ b, rtol=1e-5)


def test_the_code_of_a_step_can_be_pasted() -> None:
    A, B, C = product(64)
    s = sl.schedule(C)
    for step in sl.next_steps(s, TARGET):
        space: dict[str, Any] = {"sl": sl, "A": A, "B": B, "C": C}
        exec(f"s = sl.schedule(C)\n{step.code}", space)
        assert str(space["s"]) == str(step.schedule)


def test_steps_are_ranked_and_the_schedule_is_left_alone() -> None:
    *_, C = product(64)
    s = sl.schedule(C)
    steps = sl.next_steps(s, TARGET)
    assert not s.steps
    assert [x.speedup for x in steps] == sorted((x.speedup for x in steps), reverse=True)
    assert len({str(x.nest) for x in steps}) == len(steps)


def test_warnings_of_lowering_reach_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose nest warns is left out, and one of a schedule that warns already stays."""
    *_, C = product(64)

    def lower(state: State, **options: Any) -> Nest:
        if "unroll" in {kind for stage in state.stages.values() for kind in stage.kinds.values()}:
            warnings.warn("an unrolled loop", stacklevel=2)
        return lower_state(state, **options)

    for place in ("autotune.space", "hints.next_steps"):
        monkeypatch.setattr(f"schedlang.{place}.lower_state", lower)
    warned = sl.schedule(C)
    warned[C].unroll(warned[C].split(C.op.axis[1], factor=4)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps = sl.next_steps(sl.schedule(C), TARGET)
        sl.explain(warned, target=TARGET)
    assert {step.primitive for step in steps} >= {"vectorize", "parallel", "tile"}
    assert not {step.primitive for step in steps} & {"unroll", "register tile"}


def test_a_kernel_is_measured_with_its_arrays() -> None:
    A, B, C = product(4)
    s = sl.schedule(C)
    f = sl.build(s, [A, B, C], target="python")
    a, b = np.ones((2, 4, 4), "float32")
    found = sl.explain(f, a, b)
    assert found.measured is not None and str(found.measured) in str(found).splitlines()[0]


def test_nothing_to_say() -> None:
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[i], name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[0])
    assert "No single step helps" in str(sl.explain(s, target=TARGET))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda C, s: sl.explain(C), "it explains schedules and kernels"),
        (lambda C, s: sl.explain(s, target="opencl"), "there are none for this target"),
        (lambda C, s: sl.explain(s, np.ones(3)), "a schedule is not called"),
        (lambda C, s: sl.next_steps(C), "it takes a schedule"),
        (lambda C, s: sl.next_steps(s, "opencl"), "there are none for this target"),
    ],
)
def test_refusals(call: Any, what: str) -> None:
    *_, C = product(8)
    with pytest.raises(CallTypeError, match=what):
        call(C, sl.schedule(C))


def test_a_short_sum_is_not_split_into_lanes_that_add_nothing() -> None:
    X, W = sl.placeholder((68, 68), name="X"), sl.placeholder((5, 5), name="W")
    p, q = sl.reduce_axis(5, name="p"), sl.reduce_axis(5, name="q")
    C = sl.compute(
        (64, 64), lambda i, j: sl.sum(X[i + p, j + q] * W[p, q], axis=(p, q)), name="C"
    )
    steps = sl.next_steps(sl.schedule(C), sl.Target("cpu", vector_bytes=64))
    assert steps and not any("rfactor" in step.code for step in steps)
    # a sum of 32 elements fills its lanes
    k = sl.reduce_axis(32, name="k")
    D = sl.compute((64,), lambda i: sl.sum(X[i, k], axis=k), name="D")
    steps = sl.next_steps(sl.schedule(D), sl.Target("cpu", vector_bytes=64))
    widths = {
        int(width) for step in steps if "rfactor" in step.code
        for width in re.findall(r"split\(k, factor=(\d+)\)", step.code)
    }  # fmt: skip
    assert widths and max(widths) <= 32


def test_factors_of_advice_divide_their_axes() -> None:
    """Of 1,001 rows and 1,000 columns, 7 rows make a tile, and 8 columns a vector."""
    A, B = (sl.placeholder(shape, name=n) for shape, n in (((1001, 60), "A"), ((60, 1000), "B")))
    k = sl.reduce_axis(60, name="k")
    C = sl.compute((1001, 1000), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    for step in sl.next_steps(sl.schedule(C), TARGET):
        for name, factor in re.findall(r"split\((\w+), factor=(\d+)\)", step.code):
            extents = {"i": 1001, "j": 1000, "k": 60}
            near = range(int(factor) // 2 + 1, int(factor) + 1)
            exact = [f for f in near if not extents.get(name, int(factor)) % f]
            assert not exact or int(factor) in exact, step.code


def taps_of(rows: int) -> Any:
    """Return the schedule of a convolution of three taps in a tile of so many rows."""
    X, W = sl.placeholder((66, 32), name="X"), sl.placeholder((3, 32, 16), name="W")
    d, c = sl.reduce_axis(3, name="d"), sl.reduce_axis(32, name="c")
    Y = sl.compute((64, 16), lambda x, o: sl.sum(X[x + d, c] * W[d, c, o], axis=(d, c)), name="Y")
    s = sl.schedule(Y)
    x, o = Y.op.axis
    strip, row = s[Y].split(x, factor=rows)
    s[Y].reorder(strip, c, d, row, o)
    s[Y].unroll(row)
    s[Y].vectorize(o)
    return s


def test_short_sums_that_stay_loops_are_named() -> None:
    # 12 vectors of sums, two of weights, and the elements that the next tap reads again
    (says,) = sl.explain(taps_of(6), target=TARGET).loops
    assert says in str(sl.explain(taps_of(6), target=TARGET))
    assert re.match(r"The loop d of stage Y stays a loop: its 3 iterations.*there are 16", says)
    assert not sl.explain(taps_of(2), target=TARGET).loops


def copy_in_parallel(vectors: int) -> sl.Schedule:
    """Return the schedule of a copy that bypasses the caches, of so many vectors an iteration."""
    X = sl.placeholder((1 << 20,), name="X")
    Y = sl.compute((1 << 20,), lambda i: X[i], name="Y")
    s = sl.schedule(Y)
    strip, lane = s[Y].split(Y.op.axis[0], factor=8)
    part, strip = s[Y].split(strip, factor=vectors)
    s[Y].vectorize(lane)
    s[Y].parallel(part)
    s[Y].pragma(part, "nontemporal")
    return s


def test_fences_after_few_bytes_are_named() -> None:
    (says,) = sl.explain(copy_in_parallel(16), target=TARGET).loops
    assert re.match(r"Each iteration of the parallel loop i\.outer\.outer of.* 512 B\.", says)
    assert not sl.explain(copy_in_parallel(1024), target=TARGET).loops
    few, many = (estimate(sl.lower(copy_in_parallel(n)), TARGET).seconds for n in (16, 1024))
    assert few > 1.5 * many
