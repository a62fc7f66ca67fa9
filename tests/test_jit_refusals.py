"""Refusals in functions under ``sl.jit`` and ``sl.trace``, and their messages."""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Callable
from traceback import walk_tb
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallTypeError, ComputeError, ComputeTypeError, SchedlangError

MATRIX = np.arange(24, dtype="float32").reshape(6, 4)
INTS = np.array([0, 2, 2, 5])
IRREGULAR = [k * k % 101 for k in range(70)]


def refused(function, args, words, error=SchedlangError):
    """Check that the message has ``words``, in this order."""
    traced = sl.jit(function, target="python")
    pattern = "(?s)" + ".*".join(map(re.escape, words))
    with pytest.raises(error, match=pattern):
        traced(*args)


def unhoisted(x):
    k = 0
    while k > 3 or (v := x[k]) > 0:
        k += 1
    return v


def huge(x):
    for k in range(2**63 + 1):
        if x[k] < 0:
            break
    return k


def halved(x):
    return x * 1 if x.sum() > 1 else x[:1, :3]


def shifted(counts):
    counts += 1.5
    return counts


def doubled(v):
    w = np.vectorize(lambda t: t * 2)
    return w(v)


OUTSIDE = {
    "compute": lambda x: sl.compute((6,), lambda i: x[i, 0] * 2),
    "scatter": lambda x: sl.scatter((6,), (4,), lambda k: (k, x[k, 0])),
}


def largest(x, v):
    return 200 - max(v, x[0])


def largest_of_halves(x, v):
    return 200 - max(v, x[0] if x[1] > 0 else 0.5)


def one_of_two(x, v):
    return v if x[0] > 1 else x[1]


@pytest.mark.parametrize("function", [largest, largest_of_halves, one_of_two])
def test_an_integer_or_another_dtype_by_elements(function):
    words = ["a number of ", "uint8", "elements decide which one it is", "Convert both first"]
    refused(function, [MATRIX[1], np.uint8(40)], words, ComputeTypeError)


def least(x):
    low = 999
    for value in x:
        if value < low:
            low = value
    return low


def test_an_integer_before_a_loop_that_its_dtype_cannot_hold():
    refused(least, [np.full(9, 240, "uint8")], ["999", "does not fit uint8"], ComputeTypeError)


def test_converted_numbers_by_elements():
    def subtracted(x, s, v):
        for i in range(len(x)):
            s -= max(np.float32(v), x[i])
        return s

    given = MATRIX[1], np.uint8(5), np.uint8(6)
    expected = subtracted(*given)
    result = sl.jit(subtracted, target="python")(*given)
    assert (result, result.dtype) == (expected, expected.dtype)


@pytest.mark.parametrize("case", OUTSIDE)
def test_elements_at_axes(case):
    refused(
        OUTSIDE[case],
        [MATRIX],
        [
            "(6, 4)",
            "sl.compute, sl.scatter and sl.scan read tensors",
            "np.add.at",
            "sl.fori_loop",
            "T = sl.trace(f, ...)",
        ],
    )


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("gradient", lambda x: sl.gradient(x.sum(), x)),
        ("schedule", lambda x: sl.schedule(x * 2)),
        ("autoschedule", lambda x: sl.autoschedule(x * 2)),
        ("autotune", lambda x: sl.autotune(x * 2)),
        ("reference", lambda x: sl.reference(x)),
        ("assume", lambda x: sl.assume(x, within=(0, 1))),
        ("scan", lambda x: sl.scan(x, x, x)),
        ("scatter", lambda x: sl.scatter(x, (4,), lambda k: ((k, k), 1))),
    ],
)
def test_functions_of_tensors(name, function):
    refused(
        function,
        [MATRIX],
        [
            f"sl.{name} of an array of shape (",
            "Call it outside: T = sl.trace(f, ...)",
            f"sl.{name} takes them",
        ],
        ComputeTypeError,
    )


REFUSED = {
    "histogram2d": (lambda x: np.histogram2d(x, x), [INTS], ["histogram2d", "np.add.at(bins, x"]),
    "bins": (lambda x, n: np.histogram(x, n), [INTS, np.int64(3)],
             ["only a call knows the number of bins", "static_argnames"]),
    "apply_along_axis": (lambda x: np.apply_along_axis(np.sum, 0, x), [MATRIX], ["whole arrays"]),
    "solve": (lambda x: np.linalg.solve(x, x), [MATRIX], ["shape (6, 4)", "square matrices"]),
    "a size of data": (
        lambda x: np.zeros(x[x > 1].size, like=x), [INTS], ["where NumPy takes an integer"]),
    "a length of data": (lambda x: len(np.unique(x)), [INTS], ["len()", "x.size or x.shape[0]"]),
    "a loop over a length of data": (lambda x: [v + 1 for v in np.unique(x)], [INTS], ["x.size"]),
    "two lengths of data": (lambda x: x[x > 1] + x[x < 1], [INTS], ["not known to be equal"]),
    "as_strided": (
        lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)), [INTS], ["sliding_window_view("]),
    "place": (lambda x: np.place(x, x > 1, [1, 2]), [INTS], ["x[indices] = values"]),
    "a ufunc": (lambda x: np.gcd(x, x, dtype="int32"), [INTS], ['the page "NumPy code" of']),
    "a reduction": (lambda x: np.hypot.reduce(x), [MATRIX], ["np.hypot.reduce", "sl.fori_loop"]),
    "running": (lambda x: np.hypot.accumulate(x), [MATRIX], ["hypot.accumulate", "sl.fori_loop"]),
    "a bound": (lambda x, n: sl.fori_loop(0, n, lambda i, c: c * 2, x), [MATRIX, np.int64(3)],
                ["hi is n", "the bounds of sl.fori_loop must be Python integers",
                 "Pass n as an int, or name it in static_argnames"]),
    "an outer index": (
        lambda x: sl.fori_loop(0, 3, lambda i, c: sl.fori_loop(i, 5, lambda k, d: d + 1, c), x),
        [MATRIX], ["lo is i", "must be Python integers", "An outer loop over range"]),
    "arange": (lambda x, n: np.arange(n) * x[0], [INTS, np.int64(3)], ["as a Python int"]),
    "zeros": (lambda x, n: np.zeros(n) + x[0], [INTS, np.int64(3)], ["as a Python int"]),
    "an array": (lambda x: np.array([x[0], x[1]]), [INTS], ["np.stack([a, b])."]),
    "asarray": (lambda x: np.asarray(x), [INTS], ["already: leave np.asarray out; np.copy(x)"]),
    "a sum": (lambda x: np.sum([x[0], x[1]]), [INTS], ["np.sum(np.stack([a, b]))"]),
    "vectorize": (doubled, [INTS], ["np.vectorize has no form", "f(x)"]),
    "reshape": (lambda x, n: x.reshape(n, -1), [MATRIX, np.int64(3)], ["as a Python int"]),
    "broadcast_to": (lambda x, n: np.broadcast_to(x, (n, 4)), [INTS, np.int64(3)],
                     ["as a Python int"]),
    "an axis": (lambda x, n: x.sum(axis=n), [MATRIX, np.int64(1)], ["as a Python int"]),
    "a slice": (lambda x, n: x[:n], [MATRIX, np.int64(3)], ["as a Python int"]),
    "a name in a test": (unhoisted, [INTS], ["Assign the name in a line of its own", ":="]),
    "a range beyond int64": (huge, [INTS], ["more numbers than int64", str(2**63 - 1)]),
    "a result beyond int64": (lambda x: 2**63, [INTS], ["returns 9223372036854775808", "int64"]),
    "if": (halved, [MATRIX], ["if at line", "(6, 4) on one side", "(1, 3) on the other"]),
    "a float into integers": (shifted, [INTS], ["float64 into counts of int64", "counts = ..."]),
    "a large number": (lambda a: a + 300, [INTS.astype("uint8")],
                       ["a + 300: 300 does not fit uint8", "a.astype('int64')"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusal(case):
    function, args, words = REFUSED[case]
    refused(function, args, words)


def halves_of_divisors(x):
    return np.gcd.reduce(x) / 2


@pytest.mark.parametrize("call", [
    lambda: sl.jit(halves_of_divisors)(INTS),
    lambda: sl.jit(halves_of_divisors).specialized(INTS),
    lambda: sl.trace(halves_of_divisors, INTS),
    lambda: sl.jit(halves_of_divisors)(INTS.astype(object)),
])  # fmt: skip
def test_tracebacks_have_the_lines_of_the_user(call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the call and the line that is refused, schedlang has one frame, unless asked."""
    ours = []
    for _ in range(2):
        with pytest.raises(SchedlangError) as caught:
            call()
        frames = [frame for frame, _ in walk_tb(caught.value.__traceback__)]
        ours.append(sum(f.f_globals["__name__"].startswith("schedlang") for f in frames))
        own = [f.f_code.co_name for f in frames if f.f_globals["__name__"] == __name__]
        in_function = "np.gcd" in str(caught.value)
        assert own[:2] == ["test_tracebacks_have_the_lines_of_the_user", "<lambda>"]
        assert own[2:] == ["halves_of_divisors"] * in_function
        monkeypatch.setenv("SCHEDLANG_TRACEBACK", "full")
    short, full = ours
    assert short == 1 and full > 3


def test_a_call_with_a_tensor():
    A = sl.placeholder((4,), name="A")
    f = sl.jit(halved, target="python")
    for given, text in ((A, "A"), ([A, A], "A"), (sl.var("n"), "n"), (A[0] * 2, "A[0] * 2")):
        match = rf"(?s){re.escape(text)} describes.*sl\.trace\(halved, {re.escape(text)}\)"
        with pytest.raises(CallTypeError, match=match):
            f(given)


def test_bounds_outside_of_a_trace_are_integers():
    assert sl.fori_loop(0, np.int64(3), lambda i, c: c * 2, 2) == 16
    for wrong in (2.0, True, sl.placeholder((), "int64", name="n")):
        with pytest.raises(ComputeTypeError, match="must be Python integers"):
            sl.fori_loop(0, wrong, lambda i, c: c, 0)


@pytest.mark.parametrize("shape", [(3,), (0,), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64"])
def test_uniform_arrays_of_a_trace_are_stages(shape, dtype):
    made = np.ones(shape, dtype)
    y = sl.trace(lambda x: x + made, sl.placeholder(shape, dtype, name="x"))
    x = np.zeros(shape, dtype)
    np.testing.assert_array_equal(sl.build(sl.schedule(y), target="python")(x), x + made)


@pytest.mark.parametrize(
    "made",
    [
        np.arange(6),
        np.arange(6, dtype="float32"),
        np.arange(9, -9, -3),
        np.full(6, np.nan),
        np.arange(12, dtype="float16")[::2],
        np.arange(3, 9, dtype="uint8"),
        np.full(6, -0.0),
        np.array([2**52, 2**52 + 1, 2**52 + 2, 2**52 + 3, 2**52 + 4, 2**52 + 5]),
    ],
)
def test_progressions_of_a_trace_are_stages(made):
    def f(x):
        return np.where(x > 0, made, made)

    y = sl.trace(f, sl.placeholder((6,), name="x"))
    found = sl.build(sl.schedule(y), target="python")(np.zeros(6, "float32"))
    assert found.dtype == made.dtype and found.tobytes() == np.ascontiguousarray(made).tobytes()


def test_a_matrix_of_a_trace_in_row_major_order():
    def f(x):
        return x + np.arange(6).reshape(2, 3) * np.eye(2, 3, like=x)

    y = sl.trace(f, sl.placeholder((2, 3), "float64", name="x"))
    found = sl.build(sl.schedule(y), target="python")(np.zeros((2, 3)))
    np.testing.assert_array_equal(found, [[0, 0, 0], [0, 4, 0]])


@pytest.mark.parametrize(
    "made", [np.array([0.0, 0.1]), np.array([1, 2, 4]), np.eye(2), np.array([0.0, -0.0]),
             np.array([np.nan, 1]), np.array([2**62, 2**62 + 1])],
)  # fmt: skip
def test_other_arrays_of_a_trace_are_refused(made):
    match = (
        rf"sl\.trace\(f, \.\.\.\): an array of shape {re.escape(str(made.shape))} and {made.dtype} "
        r"at line \d+, `return x \* made`.*\n.*[Pp]ass it as an argument of f"
    )

    def f(x):
        return x * made

    with pytest.raises(ComputeError, match=match):
        sl.trace(f, sl.placeholder(made.shape, "float64", name="x"))


def test_known_indices_of_a_trace():
    def f(x):
        return x[np.array([3, 0, 1])] + x[[True, False, True, True]], x[np.array(IRREGULAR[:2])]

    first, second = sl.trace(f, sl.placeholder((4,), name="x"))
    x = np.array([1, 2, 4, 8], "float32")
    call = sl.build(sl.schedule([first, second]), target="python")
    for found, expected in zip(call(x), f(x)):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ComputeError, match=r"array of shape \(70,\) and int64.*\n.*argument of"):
        sl.trace(lambda x: x[IRREGULAR], sl.placeholder((101,), name="x"))


def test_a_long_list_of_indices():
    x = np.arange(101, dtype="float32")
    found = sl.jit(lambda x: x[IRREGULAR], target="python")(x)
    np.testing.assert_array_equal(found, x[IRREGULAR])


def test_sizes_of_a_trace_may_be_symbolic():
    n = sl.var("n")
    y = sl.trace(
        lambda x: x + np.arange(len(INTS)).sum() + np.arange(x.shape[0], like=x),
        sl.placeholder((n,), name="x"),
    )
    found = sl.build(sl.schedule(y), target="python")(np.ones(3, "float32"))
    np.testing.assert_array_equal(found, [7, 8, 9])


def test_numbers_are_not_formatted_while_a_function_is_traced() -> None:
    x = np.ones((2, 2))
    for shown in (
        lambda x: f"{x[0, 0]:.2f}", lambda x: f"{x}", lambda x: print(x), lambda x: str(x[0]),
        lambda x: format(x[0, 0], ".3"), lambda x: print(x[x > 1]), lambda x: print([x.sum()], x),
        lambda x: "%.2f" % x[0, 0],  # noqa: UP031 - what is tested
    ):  # fmt: skip
        with pytest.raises(ComputeTypeError, match=r"(?s)the text of .* at line \d+, .*print or f"):
            sl.jit(shown)(x)
    # a debugger shows it
    shapes: list[str] = []
    sl.jit(lambda x: x * len(shapes.append(repr(x)) or shapes), target="python")(x)
    assert "shape=(2, 2)" in shapes[0]


@pytest.mark.parametrize("function", [np.exp, np.add, functools.partial(np.sum, axis=0)])
def test_what_has_no_python_code_is_refused(function) -> None:
    with pytest.raises(ComputeTypeError, match="no code of Python to trace; write a function"):
        sl.jit(function)


TABLE = np.zeros(7)


def by_steps(x: np.ndarray) -> np.ndarray:
    total = TABLE[:4]
    for k in range(3):
        total += x[k : k + 4]
    return total


def into_table(x: np.ndarray) -> np.ndarray:
    np.add(x, x, out=TABLE)
    return TABLE


def moved_into_table(x: np.ndarray) -> np.ndarray:
    TABLE[1:5] += x[:4]
    return TABLE


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (by_steps, "an assignment in by_steps at line"),
        (into_table, "out= in into_table at line"),
        (moved_into_table, "an assignment in moved_into_table at line"),
    ],
)
def test_results_into_arrays_of_numpy(function: Callable[..., Any], what: str) -> None:
    """The message says what the user wrote: out= only where it is in the line."""
    with pytest.raises(ComputeTypeError, match=re.escape(what)) as error:
        sl.jit(function)(np.ones(7, "float32"))
    text = str(error.value)
    assert "np.zeros(shape, dtype, like=x)" in text and "ndarray" not in text
    assert ("out=" in text) == (function is into_table)


def test_the_line_is_the_users_where_a_library_computes() -> None:
    """A function of the standard library calls NumPy, too."""
    with pytest.raises(ComputeTypeError) as error:
        sl.jit(lambda x: statistics.fmean(x))(np.ones(7, "float32"))
    text = str(error.value)
    assert "statistics asks for" in text and "statistics.fmean(x)" in text
    assert "with NumPy's functions" in text
    # a function of the library itself that is traced has lines of its own
    assert "statistics asks for" not in refusal(statistics.fmean)


def refusal(function: Callable[..., Any]) -> str:
    with pytest.raises(ComputeTypeError) as error:
        sl.jit(function)(np.ones(7, "float32"))
    return str(error.value)


def test_a_truth_value_without_if() -> None:
    assert "sorted(x)" in (text := refusal(lambda x: sorted(x)))
    assert "np.sort(x)" in text and "instead of if" not in text
    assert "np.maximum(a, b)" in refusal(lambda x: max(x[0], x[1]))
    assert "instead of if" in refusal(lambda x: x if x[0] else -x)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda a: a[1:] - a[:-1], [1.0, 2.0, 4.0]),
        (lambda a: a[:, 0], [[1.0, 2.0], [3.0, 4.0]]),
        (lambda a: a[1:] * a[:-1], (1, 2, 4)),
    ],
)
def test_a_list_in_the_place_of_an_array(function: Callable[..., Any], given: Any) -> None:
    sequence = r"a is a (list|tuple) of \d in the function"
    with pytest.raises(ComputeTypeError, match=sequence) as error:
        sl.jit(function)(given)
    assert "Pass an array: np.array(a)." in str(error.value)
    assert isinstance(error.value.__cause__, TypeError)
    # another error of a function that takes a list is the function's own
    with pytest.raises(TypeError) as other:
        sl.jit(lambda a: len(3) + a[0])(given)
    assert type(other.value) is TypeError and "np.array" not in str(other.value)


def test_functions_in_the_place_of_tensors() -> None:
    """What takes tensors names sl.trace, for a function under sl.jit and for a plain one."""

    def scaled(a: np.ndarray) -> np.ndarray:
        return a * 2

    takers = (sl.autotune, sl.schedule, sl.autoschedule, sl.reference, sl.network)
    calls = [*takers, lambda y: sl.gradient(y, [y])]
    for call in calls:
        for function in (scaled, sl.jit(scaled)):
            with pytest.raises(ComputeTypeError, match="scaled is a function, and sl") as error:
                call(function)
            assert "C = sl.trace(scaled, *args)" in str(error.value)
    C = sl.trace(sl.jit(scaled), np.ones((3, 5), "float32"))
    a = np.arange(15, dtype="float32").reshape(3, 5)
    np.testing.assert_array_equal(sl.build(sl.autoschedule(C))(a), a * 2)


@pytest.mark.parametrize(
    ("fold", "words"),
    [
        (lambda x, a, k: np.cumsum(x, out=a), r"np.cumsum\(..., out=\) .*\(3, 4\): .*\(4,"),
        (lambda x, a, k: np.add.reduce(a[:, :1], out=x), r"np.add.reduce\(..., out=\) .*\(4,"),
        (lambda x, a, k: np.matmul(a, a.T[:, :1], out=a), r"np.matmul.*\(3, 4\): .*\(3, 1\)"),
        (lambda x, a, k: np.sum(a, axis=0, out=k), r"of float64 into an array of int64"),
    ],
)
def test_results_that_do_not_fit_into_out(fold, words: str) -> None:
    """NumPy raises for another shape, and converts to another kind while it sums."""
    x, a = np.arange(4.0), np.ones((3, 4))
    with pytest.raises(SchedlangError, match=words):
        sl.jit(fold, target="python")(x, a, np.arange(4))
