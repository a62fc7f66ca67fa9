"""``sl.jit``: functions over NumPy as kernels, compared with the same functions under NumPy."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import CodeType

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, CallTypeError, ComputeError, ComputeTypeError
from schedlang.tracing.statements import lines_of


def check(function, *args, rtol=1e-5, **named):
    """Compare a function under ``sl.jit`` with itself: its results, and what it writes."""
    theirs = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
    ours = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
    expected = function(*theirs, **named)
    traced = sl.jit(function, target="python")
    found = traced(*ours, **named)
    same(found, expected, rtol)
    for a, b in zip(ours, theirs):
        same(a, b, rtol)
    return traced


def same(found, expected, rtol):
    if isinstance(expected, (tuple, list)):
        assert type(found) is type(expected) and len(found) == len(expected)
        for a, b in zip(found, expected):
            same(a, b, rtol)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            same(found[key], expected[key], rtol)
    elif expected is None or isinstance(expected, str):
        assert found == expected
    else:
        assert np.shape(found) == np.shape(expected)
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-6)


def numbers(*shape, dtype="float32", seed=0):
    made = np.random.default_rng(seed).normal(size=shape) * 3
    return made.astype(dtype)


def test_elementwise_work_and_a_sum():
    def f(x, y):
        z = np.exp(-np.abs(x)) + 2 * y
        return z, z.sum(axis=1), {"mean": z.mean()}

    check(f, numbers(5, 7), numbers(7, seed=1))


def test_slices_are_views_that_assignments_change():
    def f(x):
        row = x[1]
        inner = x[1:-1, ::2]
        inner += 1
        row[0] = 7
        x[-1] = row * 2
        turned = x.T
        turned[0, :] = 5
        return inner, turned.sum()

    check(f, numbers(6, 9))


@pytest.mark.parametrize(
    "item",
    [slice(1, -1), slice(None, None, 2), slice(None, None, -1), slice(7, 2, -2), -1, 3, Ellipsis,
     slice(20, 30), slice(4, 4)],
    ids=str,
)  # fmt: skip
def test_assignments_to_slices(item):
    def f(x, y):
        x[item] = y[item] * 2
        x[item] -= 1
        return x.sum()

    check(f, numbers(10), numbers(10, seed=1))


def test_masks_choose_elements_to_assign():
    def f(x):
        x[x < 0] = 0
        x[x > 1] = x[x > 1] ** 2
        return x

    check(f, numbers(4, 5))


def test_out_and_copies():
    def f(x):
        y = np.copy(x)
        y *= 2
        np.add(x, y, out=y)
        z = np.zeros_like(x)
        z[:, 0] = y[:, 1]
        w = np.full((2, 3), 4.0, like=x)
        w[0] = z[0, :3]
        return y, z, w

    check(f, numbers(3, 4))


def test_an_argument_that_is_returned_is_the_caller_s_array():
    @sl.jit(target="python")
    def f(x, y):
        x += 1
        return x, y

    x, y = numbers(3), numbers(3, seed=1)
    before = x.copy()
    first, second = f(x, y)
    assert first is x and second is y
    np.testing.assert_allclose(x, before + 1, rtol=1e-6)


def test_scalars_may_change_without_a_new_trace():
    def f(x, alpha, beta):
        return alpha * x + beta

    traced = check(f, numbers(4), 2.5, np.float32(3))
    np.testing.assert_allclose(traced(np.ones(4, "float32"), 4.0, np.float32(1)), np.full(4, 5.0))
    assert len(traced.specializations) == 1


def test_python_integers_and_strings_are_fixed():
    seen = []

    @sl.jit(target="python")
    def power(x, n, kind="up"):
        seen.append((n, kind))
        for _ in range(n - 1):
            x = x * x if kind == "up" else x + x
        return x

    x = numbers(3)
    np.testing.assert_allclose(power(x, 2), x * x, rtol=1e-6)
    np.testing.assert_allclose(power(x, 3, kind="sum"), 4 * x, rtol=1e-6)
    power(x, 2)
    assert seen == [(2, "up"), (3, "sum")]


def test_static_arguments_and_a_bounded_cache():
    @sl.jit(target="python", static_argnames="scale", static_argnums=-1, cache_size=2)
    def f(x, scale, axis):
        return (x * scale).sum(axis=axis)

    x = numbers(2, 3)
    for scale in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(f(x, scale, axis=0), (x * scale).sum(axis=0), rtol=1e-5)
    assert len(f.specializations) == 2


def test_names_of_variables_become_names_of_stages():
    @sl.jit(target="python")
    def layer(x, w, b):
        h = x @ w + b
        y = np.maximum(h, 0)
        return y

    layer(numbers(2, 3), numbers(3, 4), numbers(4))
    names = list(layer.schedule.state.stages)
    assert "h" in names and "y" in names
    assert "y[" in str(layer.schedule)
    assert "def layer" in layer.source


def test_a_loop_with_a_carry():
    def f(x):
        return sl.fori_loop(0, 5, lambda i, c: (c[0] * 0.5 + i, c[1] + c[0].sum()), (x, 0.0))

    traced = sl.jit(f, target="python")
    x = numbers(6)
    expected = f(x)
    found = traced(x)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)


def test_a_loop_that_assigns_to_arrays_around_it():
    def f(a, b):
        @sl.fori_loop(1, 6)
        def step(t):
            b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
            a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3 + t

    traced = check(f, numbers(11), numbers(11, seed=1))
    assert len(traced.kernels) == 1


def test_nested_loops_and_elements_by_index():
    def f(x):
        total = np.zeros_like(x)
        y = x * 2

        @sl.fori_loop(0, 4)
        def outer(i):
            @sl.fori_loop(0, 3)
            def inner(j):
                total[:] = total + y[i] * j

            total[i] = 9

        return total

    check(f, numbers(4))


def test_carries_that_change_places():
    def f(x, y):
        return sl.fori_loop(0, 5, lambda i, c: (c[1], c[0] + c[1]), (x, y))

    check(f, numbers(3), numbers(3, seed=1))


def test_swapped_carries_do_not_overwrite_the_caller_s_arrays():
    x, y = numbers(3), numbers(3, seed=1)
    kept = x.copy(), y.copy()
    f = sl.jit(lambda x, y: sl.fori_loop(0, 7, lambda i, c: (c[1], c[0] + c[1]), (x, y)),
               target="python")  # fmt: skip
    f(x, y)
    np.testing.assert_array_equal((x, y), kept)


REFUSED = {
    "if": (lambda x: x if x.sum() > 0 else -x, ComputeTypeError, r"truth value.*np\.where"),
    "while": (lambda x: _while(x), ComputeTypeError, "truth value"),
    "float": (lambda x: float(x[0]) * x, ComputeTypeError, r"float\(\).*astype"),
    "int": (lambda x: int(x[0]) * x, ComputeTypeError, r"int\(\).*astype"),
    "range": (lambda x: [x for _ in range(x.sum().astype("int64"))], ComputeTypeError, "static"),
    "item": (lambda x: x.item() + x, ComputeTypeError, "item"),
    "list": (lambda x: x.tolist(), ComputeTypeError, "tolist"),
    "mask": (lambda x: len(x[x > 0]), ComputeTypeError, "np.where"),
    "attribute": (lambda x: x.sorted(), AttributeError, "sorted"),
    "returned": (lambda x: "text", ComputeTypeError, "returns str"),
    "shape": (lambda x: _assign(x, slice(0, 2), np.ones(3, "float32")), ComputeError, "broadcast"),
    "index": (lambda x: _assign(x, 9, 1), IndexError, "index 0"),
    "into": (lambda x: _assign(np.zeros(3), 0, x[0]), ComputeTypeError, "zeros_like"),
    "reshaped": (
        lambda x: _assign(np.reshape(np.outer(x, x).T * 2, -1), 0, 1),
        ComputeError,
        r"line \d+, .*strides.*np.copy",
    ),
    "unrolled": (lambda x: _many(x), ComputeError, "fori_loop"),
    "out": (lambda x: np.add(x, 1, out=np.zeros(4)), ComputeTypeError, "empty_like"),
    "in place": (lambda x: _in_place(x.astype("int32")), ComputeTypeError, "float"),
    "carry": (lambda x: sl.fori_loop(0, 2, lambda i, c: c[1:], x), ComputeError, "shape"),
    "no carry": (lambda x: sl.fori_loop(0, 2, lambda i: x), ComputeError, "no init"),
    "bounds": (lambda x: sl.fori_loop(0, 2.5, lambda i, c: c, x), ComputeTypeError, "integers"),
}


def _while(x):
    while x[0] > 0:
        x = x - 1
    return x


def _assign(x, item, value):
    x[item] = value
    return x


def _in_place(x):
    x += 0.5
    return x


def _many(x):
    for _ in range(1000):
        x = x + 1
    return x


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    function, kind, words = REFUSED[case]
    with pytest.raises(kind, match=f"(?s){words}"):
        sl.jit(function, target="python")(numbers(4))


def test_control_flow_without_a_source_is_refused_at_its_line():
    text = "def f(x):\n    y = x + 1\n    return x if y[0] > 0 else y\n"
    names: dict = {}
    exec(text, names)
    words = r"truth value of .* line 3: (.|\n)* Its source cannot be read: define it by def"
    with pytest.raises(ComputeTypeError, match=words):
        sl.jit(names["f"], target="python")(numbers(3))
    with pytest.raises(ComputeTypeError, match="A lambda keeps no branches"):
        sl.jit(lambda x: x if x[0] > 0 else -x, target="python")(numbers(3))


def test_a_value_of_a_loop_body_is_not_read_after_the_loop():
    def f(x):
        kept = []
        sl.fori_loop(0, 3, lambda i, c: (kept.append(c * 2), c)[1], x)
        return kept[0] + 1

    with pytest.raises(ComputeError, match="part of the carry"):
        sl.jit(f, target="python")(numbers(3))


def test_arguments_that_do_not_fit():
    f = sl.jit(lambda x, y: x + y, target="python")
    with pytest.raises(CallTypeError, match="missing a required argument"):
        f(numbers(3))
    with pytest.raises(CallTypeError, match="hash"):
        f(numbers(3), {1, 2})
    with pytest.raises(CallError, match="not called yet"):
        print(sl.jit(lambda x: x).source)
    with pytest.raises(ComputeTypeError, match="no such parameter"):
        sl.jit(lambda x: x, static_argnames="n")
    with pytest.raises(ComputeTypeError, match="2 parameters"):
        sl.jit(lambda x, y: x, static_argnums=2)


def test_arguments_that_share_memory_are_refused_if_one_is_written():
    def f(x, y):
        x += y

    x = numbers(5)
    with pytest.raises(CallError, match="share memory"):
        sl.jit(f, target="python")(x[:4], x[1:])
    x.flags.writeable = False
    with pytest.raises(CallError, match="read-only"):
        sl.jit(f, target="python")(x, numbers(5))


def test_arrays_of_a_finished_trace_are_refused():
    kept = []
    sl.jit(lambda x: kept.append(x), target="python")(numbers(2))
    with pytest.raises(ComputeError, match="after the function returned"):
        _ = kept[0] + 1


def test_compiled():
    def f(a, b, alpha):
        c = a @ b
        c[c < 0] = 0
        return alpha * c + 1

    a, b = numbers(33, 17), numbers(17, 29)
    np.testing.assert_allclose(sl.jit(f)(a, b, 2.0), f(a, b, 2.0), rtol=1e-5, atol=1e-5)


def test_a_kernel_writes_into_an_argument_where_it_may():
    @sl.jit(target="python")
    def f(x, y, z):
        x += y
        z[1:] = z[:-1]

    x, y, z = numbers(5), numbers(5, seed=1), numbers(5, seed=2)
    expected = x + y, np.concatenate([z[:1], z[:-1]])
    f(x, y, z)
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(z, expected[1])
    (made,) = f.specializations
    assert [direct for *_, direct in made.written] == [True, False]


def test_trace_returns_tensors_to_schedule():
    n = sl.var("n")
    X = sl.placeholder((n, 4), name="X")

    def f(x, scale):
        high = x.max(axis=1)
        return {"high": high, "scaled": x * scale}

    made = sl.trace(f, X, 2.0)
    assert made["high"].shape == (n,) and made["high"].op.name == "high"
    s = sl.schedule([made["high"], made["scaled"]])
    x = numbers(3, 4)
    high, scaled = sl.build(s, target="python")(x)
    np.testing.assert_array_equal(high, x.max(axis=1))
    np.testing.assert_array_equal(scaled, x * 2)


def test_trace_returns_what_a_function_writes():
    def f(x, y):
        x[0] = y.sum()

    X = sl.trace(f, numbers(3), np.zeros((2, 2)))
    assert (X.shape, X.dtype, X.op.input_tensors[-1].name) == ((3,), "float32", "x")
    assert sl.trace(lambda x: x.sum(), numbers(3)).shape == ()
    with pytest.raises(ComputeTypeError, match="function"):
        sl.trace(numbers(3))


def test_a_result_and_an_argument_of_one_value_are_two_arrays():
    def f(x, y):
        z = x + y
        x[:] = z
        return z

    x, y = numbers(4), numbers(4, seed=1)
    z = sl.jit(f, target="python")(x, y)
    np.testing.assert_array_equal(z, x)
    assert not np.shares_memory(z, x)


def test_elements_and_sums_are_scalars_that_never_change():
    def f(x, i, scale):
        t = x[0]
        x[0] = x[1]
        x[1] = t
        s = x.sum()
        before = s
        s += 1
        count = i.sum()
        count += 0.5
        twice = scale
        scale *= 2
        return s, before, count, x * twice * scale

    check(f, numbers(4), np.arange(3), 2.5)


def test_scalars_are_not_assigned_to():
    f = sl.jit(lambda x: np.add(x[0], 1, out=x[0]), target="python")
    with pytest.raises(ComputeTypeError, match="scalar"):
        f(numbers(3))


def test_arrays_without_dimensions_change():
    def f(x, y):
        same = x
        same += 1
        z = np.copy(x)
        z[...] = 7
        y[...] = z * x

    check(f, np.array(3.0, "float32"), np.array(1.0, "float32"))


def test_arrays_of_indices_copy():
    def f(x, i):
        y = x[i]
        x[:] = 0
        return y

    check(f, numbers(4), np.array([0, 2]))


def test_masked_elements_change_in_place():
    def f(x):
        x[x > 0] += 1
        x[x < 0] *= 2

    check(f, numbers(5))


def test_results_are_copies_where_numpy_copies():
    def swapped(x, y):
        t = x.copy()
        x[:] = y
        y[:] = t

    def kept(x):
        y = x.copy()
        x += 1
        return y, y.copy()

    check(swapped, numbers(4), numbers(4, seed=1))
    check(kept, numbers(4))
    x = numbers(4)
    y, z = sl.jit(kept, target="python")(x)
    assert not np.shares_memory(x, y) and not np.shares_memory(y, z)


def test_constants_are_those_of_the_moment_and_no_caller_changes_them():
    def f(x):
        c = np.zeros(4, "float32")
        a = x + c
        c[0] = 1
        return a, x + c, c

    traced = check(f, numbers(4))
    traced(numbers(4))[2][:] = 9
    same(traced(numbers(4)), f(numbers(4)), 1e-6)


def test_flipped_and_split_arrays_are_views():
    def f(x):
        y, (a, b) = np.flip(x, 0), np.split(x, 2)
        same = x.astype("float32", copy=False)
        same[0] = 5
        return y + 0, a + 0, b + 0

    check(f, numbers(4, 3))


@pytest.mark.parametrize("assigns", [False, True])
def test_what_a_reshaped_copy_holds_after_an_assignment(assigns):
    def f(x, assigns):
        y = x.T.reshape(-1)
        z = sl.fori_loop(0, 2, lambda i, c: c + y, x[0, 0] * y)
        if assigns:
            x[0] = 5
        return z + y

    check(f, numbers(3, 4), assigns)


def test_what_a_reshaped_array_of_unknown_strides_holds_after_an_assignment_is_refused():
    def f(x):
        y = x.T * 2
        z = y.reshape(-1)
        y[0] = 5
        return z

    with pytest.raises(ComputeError, match=r"(?s)strides.*np\.copy"):
        sl.jit(f, target="python")(numbers(3, 4))


def test_a_loop_that_assigns_to_its_carry():
    def f(x):
        def body(i, c):
            c[0] += 1
            return c

        y = sl.fori_loop(0, 3, body, x)
        y[1] = 9
        z = sl.fori_loop(2, 2, lambda i, c: c + 1, x)
        z[2] = 4
        return x

    check(f, numbers(4))


def _swaps(x):
    def body(i, c):
        a, b = c
        a[0] += 1
        return b, a

    return sl.fori_loop(0, 3, body, (x, x * 2))


def _twice(x):
    def body(i, c):
        c[0][0] += 1
        return c

    return sl.fori_loop(0, 3, body, (x, x))


def _by_its_other_name(x):
    def body(i, c):
        x[0] = 1
        return c * 2

    return sl.fori_loop(0, 3, body, x)


@pytest.mark.parametrize("function", [_swaps, _twice, _by_its_other_name])
def test_carries_of_two_names_are_not_assigned_to(function):
    with pytest.raises(ComputeError, match=r"(?s)two names are one array.*np\.copy"):
        sl.jit(function, target="python")(numbers(3))


def test_a_traced_function_in_another_is_a_part_of_it():
    inner = sl.jit(lambda a, n: a if n == 0 else inner(a + 1, n - 1) * 2, target="python")
    x = numbers(3)
    found = sl.jit(lambda a: inner(a, 2) + 1, target="python")(x)
    np.testing.assert_allclose(found, (x + 2) * 4 + 1, rtol=1e-6)


def test_integer_scalars_may_be_negative():
    traced = check(lambda x, n: (x * n, n + 1), numbers(3), np.int64(-3))
    np.testing.assert_array_equal(traced(np.ones(3), np.int64(-5))[0], np.full(3, -5.0))
    np.testing.assert_array_equal(traced(np.ones(3), np.int64(5))[0], np.full(3, 5.0))
    check(lambda x, n: x * n, numbers(3).astype("int32"), np.int8(-128))


def test_negative_indices_count_from_the_end_also_if_only_the_call_knows_them():
    def f(x, n, i):
        y = np.zeros_like(x)

        @sl.fori_loop(-3, 3)
        def step(t):
            y[t] = x[t - 1] * 2

        y[n] += x[i[0]]
        return y

    check(f, numbers(6), np.int64(-1), np.array([-2, 1]))


def test_static_values_that_are_equal_but_differ():
    f = sl.jit(lambda x, s: np.copysign(x, s[0]) * s[0], target="python", static_argnames="s")
    x = np.arange(1, 3)
    for s in ((1,), (1.0,), (0.0,), (-0.0,)):
        found, expected = f(x, s), np.copysign(x, s[0]) * s[0]
        same(found, expected, 0)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_a_view_of_an_array_without_dimensions():
    def f(x):
        y = x[...]
        y[...] = 8
        return x

    check(f, np.array(3.0, "float32"))


def test_the_lines_of_functions_are_those_of_inspect():
    tops = [compile(Path(__file__).read_text(encoding="utf-8"), __file__, "exec")]
    compared = 0
    while tops:
        inner = [c for c in tops.pop().co_consts if isinstance(c, CodeType)]
        tops += inner
        for code in inner:
            # the version of Python decides where inspect looks for a comprehension
            if not code.co_name.startswith("<") or code.co_name == "<lambda>":
                assert lines_of(code) == inspect.getsourcelines(code)
                compared += 1
    assert compared > 40


def test_a_scalar_of_much_work_is_a_stage_of_its_own():
    def f(a):
        t = 0.0
        for i in range(4):
            t += np.tanh(a[i, i])
        b = a + t
        t = t * a[0, 1] + np.exp(a[1, 1])
        b[0] = t
        return b * t, np.where(a > t, a, 1), a * a[0, 0], t

    traced = check(f, numbers(4, 4))
    assert sum("tanh" in str(s.op.body) for s in traced.schedule.stages) == 1


def test_the_index_of_a_loop_stays_an_expression():
    def f(x):
        return sl.fori_loop(0, 3, lambda i, c: c * (i * 2 + 1 + np.sqrt(i * 1.5)) + np.exp(c[0]), x)

    check(f, numbers(3, dtype="float64") / 9)
