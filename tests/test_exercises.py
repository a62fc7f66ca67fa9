"""``sl.testing.check``: what it says of right, wrong and open answers to exercises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.course.exercises.differences import difference
from schedlang.course.exercises.requirements import _advice
from schedlang.course.exercises.speed import race
from schedlang.errors import CallError, CallTypeError, CheckError, RaceError
from schedlang.target import Cache

N = 8
PYTHON = "python"


def product() -> tuple[sl.Tensor, sl.Schedule]:
    A, B = (sl.placeholder((N, N), name=name) for name in "AB")
    k = sl.reduce_axis(N, name="k")
    C = sl.compute((N, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    return C, sl.schedule(C)


def tiled() -> tuple[sl.Tensor, sl.Schedule]:
    C, s = product()
    s[C].tile(*C.op.axis, 4, 4)
    return C, s


def said(capsys: pytest.CaptureFixture[str], *args: Any, **options: Any) -> str:
    assert sl.testing.check(*args, **options) is None
    return capsys.readouterr().out.strip()


def message(*args: Any, **options: Any) -> list[str]:
    with pytest.raises(CheckError) as found:
        sl.testing.check(*args, **options)
    return str(found.value).splitlines()


def test_right_answers(capsys: pytest.CaptureFixture[str]) -> None:
    C, s = tiled()
    right = "Correct: all 64 elements of C are right"
    assert said(capsys, C, lambda a, b: a @ b) == f"{right}."
    assert said(capsys, s, target=PYTHON) == f"{right}."
    assert said(capsys, sl.build(s, target=PYTHON), C) == f"{right}."
    a = np.eye(N, dtype="float32")
    assert said(capsys, C, np.eye(N), a, a) == f"{right}."
    assert said(capsys, (3, 2.5), (3, 2.5)) == "Correct."
    assert said(capsys, np.arange(3), [[0, 1, 2]]) == "Correct."


def test_an_answer_may_read_its_inputs_in_any_order(capsys: pytest.CaptureFixture[str]) -> None:
    A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((8, 6), name="B")
    k = sl.reduce_axis(8, name="k")
    wanted = sl.compute((4, 6), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="W")
    C = sl.compute((4, 6), lambda i, j: sl.sum(B[k, j] * A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    s[C].split(k, factor=4)
    rng = np.random.default_rng(0)
    a, b = rng.random((4, 8), "float32"), rng.random((8, 6), "float32")
    for answer in (C, s, sl.build(s, [A, C, B], target=PYTHON)):
        for expected in (lambda a, b: a @ b, lambda b, a: a @ b, wanted):
            assert said(capsys, answer, expected, target=PYTHON).startswith("Correct")
        assert said(capsys, answer, lambda a, b: a @ b, a, b, target=PYTHON).startswith("Correct")
        assert said(capsys, answer, lambda b, a: a @ b, b, a, target=PYTHON).startswith("Correct")
        assert said(capsys, answer, wanted, a, b, target=PYTHON).startswith("Correct")
    # with other names, they are those of sl.reference
    assert said(capsys, C, lambda x, y: y @ x).startswith("Correct")
    fast = {"faster_than": lambda a, b: a @ b, "times": 1e-6, "counts": {"stores": 24}}
    f = sl.build(s, [A, C, B], target=PYTHON)
    assert "24 stores" in said(capsys, f, lambda a, b: a @ b, **fast)
    assert "as fast" in said(capsys, f, faster_than=sl.schedule(wanted), times=1e-3)


def test_open_answers(capsys: pytest.CaptureFixture[str]) -> None:
    C, s = product()
    _, begun = tiled()
    for args in ((...,), (..., 3), (None, 3), ((1, ...), (1, 2))):
        assert said(capsys, *args).startswith("Not solved yet: write your code")
    for answer, start in ((s, None), (begun.copy(), begun)):
        found = said(capsys, answer, start=start, has="vectorize")
        assert found.startswith("Not solved yet: the schedule of C has no step of yours;")


def test_wrong_results_say_where_and_how() -> None:
    C, _ = product()
    a = np.arange(64, dtype="float32").reshape(N, N)
    i = np.eye(N, dtype="float32")
    assert message(C, lambda a, b: a.T, a, i, hint="Look at i.") == [
        "C[0, 1] is 1 and should be 8; 56 of 64 elements differ",
        "  Look at i.",
        "  C is the transpose of the expected result: exchange its two axes.",
    ]
    assert message(C, lambda a, b: 2 * a, a, i)[1:] == [
        "  Every element is 0.5 times the expected one."
    ]
    assert message(C, a[:4], a, i) == [
        "C has shape (8, 8), and the expected result has shape (4, 8)"
    ]
    last = a.copy()
    last[7] = 0
    assert message(C, last, a, i) == [
        "C[7, 0] is 56 and should be 0; 8 of 64 elements differ, all with index 7 in dimension 0"
    ]


def test_a_shifted_result_is_recognized() -> None:
    wanted = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0])
    found = difference("B", np.array([1.0, 4.0, 1.0, 5.0, 9.0, 2.0]), wanted, 1e-6)
    assert found is not None and found.hint.startswith("B is shifted by one element in dimension 0")
    nan = np.array([np.nan, 1.0])
    assert difference("B", nan, nan, 1e-6) is None
    assert difference("B", nan, np.array([0.0, 1.0]), 1e-6) is not None


def test_a_wrong_number_is_not_told() -> None:
    assert message(63, 64, hint="Count the corners, too.") == [
        "the answer, 63, is not right", "  Count the corners, too.",
    ]  # fmt: skip
    assert message((1, 2), (1, 3)) == ["answer 2, 2, is not right"]
    assert message((1,), (1, 3)) == ["there is 1 answer, and 2 are asked for"]


def test_steps_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    C, s = tiled()
    assert message(s, has=["tile", "parallel", "vectorize"], target=PYTHON) == [
        "the schedule of C does not use parallel or vectorize: its steps are tile"
    ]
    assert said(capsys, s, has="tile", target=PYTHON).startswith("Correct")
    assert message(s, has=["tile", "tile"], target=PYTHON) == [
        "the schedule of C does not use tile 2 times: its steps are tile"
    ]
    with pytest.raises(CallError, match="no primitive; did you mean 'vectorize'"):
        sl.testing.check(s, has="vectorise", target=PYTHON)


def test_other_steps_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    C, s = product()
    s[C].reorder(*reversed(C.op.axis))
    assert said(capsys, s, only="reorder", target=PYTHON).startswith("Correct")
    begun = s.copy()
    s[C].vectorize(s[C].split(C.op.axis[1], factor=4)[1])
    assert message(s, only="reorder", target=PYTHON, hint="One step.") == [
        "the schedule of C uses split and vectorize; only reorder is allowed", "  One step.",
    ]  # fmt: skip
    assert message(s, only=["split", "tile", "reorder"], target=PYTHON) == [
        "the schedule of C uses vectorize; only split, tile and reorder are allowed"
    ]
    # the steps of the start are not the student's
    only = ["split", "vectorize"]
    assert said(capsys, s, only=only, start=begun, target=PYTHON).startswith("Correct")
    with pytest.raises(CallError, match="only='reorde'.*did you mean 'reorder'"):
        sl.testing.check(s, only="reorde", target=PYTHON)


def test_stages_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[i] + 1, name="B")
    C = sl.compute((4,), lambda i: B[i] * B[3 - i], name="C")
    right = lambda a: (a + 1) * (a + 1)[::-1]  # noqa: E731
    assert said(capsys, C, right, stages=2).startswith("Correct")
    assert message(C, right, stages=1, hint="One.") == [
        "C has 2 stages; 1 is asked for", "  One.",
    ]  # fmt: skip
    assert message(B, lambda a: a + 1, stages=2) == ["B has 1 stage; 2 are asked for"]


def test_a_wrong_number_has_its_own_word() -> None:
    mistakes = {63: "The corners count, too.", (1, ...): "Not one.", (..., 4): "Not four."}
    assert message(63, 64, mistakes=mistakes, hint="Count.") == [
        "the answer, 63, is not right", "  The corners count, too.",
    ]  # fmt: skip
    assert message(62, 64, mistakes=mistakes, hint="Count.")[1] == "  Count."
    assert message((1, 4), (2, 3), mistakes=mistakes)[1:] == ["  Not one."]
    assert message((2, 4), (2, 3), mistakes=mistakes) == [
        "answer 2, 4, is not right", "  Not four.",
    ]  # fmt: skip
    C, s = tiled()
    words = {"mistakes": {64: "Each element once."}, "target": PYTHON, "hint": "Count."}
    assert message(s, counts={"stores": 63}, **words)[1:] == ["  Each element once."]
    assert message(s, most={"stores": 1}, **words) == [
        "C has 64 stores; at most 1 is asked for", "  Each element once.",
    ]  # fmt: skip


def test_advice_keeps_to_the_topic() -> None:
    A, B = (sl.placeholder((64, 64), name=name) for name in "AB")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    s[C].reorder(*reversed(C.op.axis))
    avx2 = sl.Target("python", vector_bytes=32)
    kernel = sl.build(s, target=avx2)
    every, order, none = (_advice(kernel, topic) for topic in ((), ("reorder",), ("pragma",)))
    assert "vectorize" in every and every.endswith("print(sl.explain(s)) shows the steps.")
    assert "with a stride of 256 B" in order and "vector" not in order and "try" not in order
    assert none == ""


def test_a_narrow_sum_is_not_rounding(capsys: pytest.CaptureFixture[str]) -> None:
    """2048 ones more are lost in float16, which the estimate of rounding would allow."""
    H = sl.placeholder((4096,), "float16", name="H")
    k = sl.reduce_axis(4096, name="k")
    ones = np.ones(4096, "float16")

    def summed(dtype: str) -> sl.Kernel:
        S = sl.compute((1,), lambda i: sl.sum(H[k], axis=k, dtype=dtype), name="S")
        return sl.build(sl.schedule(S), target=PYTHON)

    narrow, wide = summed("float16"), summed("float32")
    assert message(narrow, np.array([4096]), ones)[0].startswith("S[0] is 2048 and should be 4096")
    assert said(capsys, wide, np.array([4096]), ones) == "Correct: S is right."


def test_a_nest_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    C, s = product()
    wanted = str(s)
    i, j = C.op.axis
    s[C].reorder(j, i)
    assert message(s, nest=wanted, target=PYTHON) == [
        "the loop nest of C is another one", "  --- wanted", "  +++ yours", "  -for i in 0..8:",
        "  -  for j in 0..8:", "  +for j in 0..8:", "  +  for i in 0..8:", "       C[i, j] = 0",
        "       for k in 0..8:",
    ]  # fmt: skip
    for nest in (str(s), s.copy(), "\n".join(str(s).splitlines()[2:]) + "\n"):
        assert said(capsys, s, nest=nest, target=PYTHON).startswith("Correct")


def test_counts_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    x = sl.compute((4,), lambda i: sl.sin(i) + 1, name="x")
    s = sl.schedule(x)
    s[x].unroll(x.op.axis[0])
    asked = {"counts": {"sin": 4, "stores": 4, "exp": 0}, "most": {"loads": 0}}
    assert said(capsys, s, target=PYTHON, **asked) == (
        "Correct: all 4 elements of x are right; 4 calls of sin; 4 stores; 0 calls of exp; "
        "0 loads (at most 0)."
    )
    assert message(s, counts={"sin": 5}, target=PYTHON) == ["x has 4 calls of sin, not 5"]
    assert message(s, most={"stores": 3}, target=PYTHON)[0] == (
        "x has 4 stores; at most 3 are asked for"
    )
    for name in ("lods", "arithmetic", "sinus", "L9"):
        with pytest.raises(CallError, match="check.counts"):
            sl.testing.check(s, counts={name: 1}, target=PYTHON)


def test_cache_lines_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    A = sl.placeholder((32,), name="A")
    B = sl.compute((32,), lambda i: A[i] + 1, name="B")
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=4)
    # 32 floats are two lines of 64 bytes, each brought in once for A and once for B
    options = {"counts": {"L1": 4}, "caches": [Cache(4096, 4)], "target": PYTHON}
    assert said(capsys, s, **options).endswith("4 L1 lines.")


def test_a_count_that_is_too_large_has_its_reason() -> None:
    avx2 = sl.Target("python", vector_bytes=32)
    A = sl.placeholder((64, 64), name="A")
    T = sl.compute((64, 64), lambda i, j: A[j, i], name="T")
    s = sl.schedule(T)
    s[T].split(T.op.axis[0], factor=8)
    # each read of a column brings in a line, and each line of T one more
    assert message(s, most={"L1": 600}, caches=[Cache(2048, 32)], target=avx2) == [
        "T has 4,352 L1 lines; at most 600 are asked for",
        "  the inner loop j accesses A[j, i.outer*8 + i.inner] with a stride of 256 B: each access "
        "is in a cache line of its own",
    ]
    H = sl.compute((66, 64), lambda i, j: sl.exp(A[sl.min(i, 63), j]), name="H")
    V = sl.compute((64, 64), lambda i, j: H[i, j] + H[i + 1, j] + H[i + 2, j], name="V")
    s = sl.schedule(V)
    s[H].compute_at(s[V], V.op.axis[0])
    lines = message(s, most={"exp": 66 * 64}, target=avx2)
    assert lines[0] == "V has 12,288 calls of exp; at most 4,224 are asked for"
    assert lines[1].startswith("  stage H stores 12,288 values, 2.9 times as many as H has")


def test_gpu_counts_and_races(capsys: pytest.CaptureFixture[str]) -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[63 - i], name="B")
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    # a warp of each of two blocks asks once, and its busiest thread reads one element
    asked = {"counts": {"global_loads": 2, "most_global_reads": 1}, "target": "cuda-emulator"}
    assert "2 global loads; 1 global read in one thread" in said(capsys, s, **asked)
    with pytest.raises(CallError, match="emulates the GPU"):
        sl.testing.check(s, faster_than=sl.schedule(B), target="cuda-emulator")
    tile = s.cache_read(A, "shared", [B])
    s[tile].compute_at(s[B], block)
    s[tile].bind(tile.op.axis[0], "threadIdx.x")
    racing = sl.build(s, target="cuda-emulator", barriers=False)
    with pytest.raises(RaceError):
        sl.testing.check(racing)


def test_speed_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    C, s = tiled()
    slow = sl.build(s, target=PYTHON)
    told = said(capsys, slow, faster_than=lambda a, b: [a @ b for _ in range(20_000)], times=2)
    assert "times as fast (" in told
    lines = message(slow, faster_than=np.matmul, times=3)
    assert lines[0].endswith("; 3 times is asked for")
    # advice of sl.explain, without the code of its steps
    assert lines[-1] == "  print(sl.explain(s)) shows the steps." and "(try " in lines[1]
    assert not any("s[C]" in line for line in lines)


def test_a_race_is_run_again_if_it_fails() -> None:
    calls = [0, 0]

    def count(k: int) -> None:
        calls[k] += 1

    found = race(lambda: count(0), lambda: count(1), 1e9)
    assert found.speedup < 1e9 and min(calls) > 9


def test_wrong_calls_are_refused() -> None:
    C, s = tiled()
    n = sl.var("n")
    X = sl.placeholder((n,), name="X")
    Y = sl.compute((n,), lambda i: X[i] + 1, name="Y")
    for args, options, text in (
        ((C,), {}, "a tensor alone has nothing to compare"),
        ((C, 1), {"has": "tile"}, "a tensor has no schedule"),
        ((3, 3), {"has": "tile"}, "only a schedule or a kernel"),
        ((3,), {}, "it compares tensors, schedules"),
        ((print, 3), {}, "it compares tensors, schedules"),
        ((s,), {"times": 0}, "give a number above 0"),
        ((s,), {"rtol": -1}, "give a number of 0 or more"),
        ((s,), {"rtol": "1e-3"}, "give a number of 0 or more"),
        ((s,), {"faster_than": 3, "target": PYTHON}, "give a schedule, a kernel or a function"),
        ((Y, np.cos), {}, "it has no value for n"),
    ):
        with pytest.raises((CallError, CallTypeError), match=text):
            sl.testing.check(*args, **options)


def test_the_arrays_of_an_answer_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    C, _ = product()
    a = np.ones((N, N), "float32")

    def spoiling(x: Any, y: Any) -> Any:
        found = x @ y
        x[:] = 0
        return found

    assert said(capsys, C, spoiling, a, a).startswith("Correct") and (a == 1).all()
