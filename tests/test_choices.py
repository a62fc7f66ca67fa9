"""Tests of ``if_then_else`` nested deeper than Python's indentation may be."""

from random import Random

import numpy as np
import pytest

import schedlang as sl
from schedlang.ir.interpret import interpret
from tests.marks import slow_but

SIZE = 37


def one_sided(depth: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Return stages that each read the previous one under a condition on the index."""
    A = sl.placeholder((SIZE,), name="A")
    tensor = sl.compute((SIZE,), lambda i: sl.if_then_else(i < 5, A[i], 0.0), name="T")
    for k in range(depth):
        last = tensor
        tensor = sl.compute(
            (SIZE,),
            lambda i, last=last, k=k: sl.if_then_else(i < SIZE - 1 - k % 5, last[i] + 1, 0.0),
            name=f"T{k}",
        )
    return A, tensor


def by_data(depth: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Return stages with choices on data, both branches of which hold deeper choices."""
    A = sl.placeholder((SIZE,), name="A")
    tensor: sl.Tensor = A
    for k in range(depth):
        last = tensor
        tensor = sl.compute(
            (SIZE,),
            lambda i, last=last, k=k: sl.if_then_else(
                A[i] > k * 0.02, sl.if_then_else(A[i] < 0.9, last[i] * 0.5, A[i]) + 0.25, A[i] - k
            ),
            name=f"T{k}",
        )
    return A, tensor


def inlined(A: sl.Tensor, tensor: sl.Tensor) -> sl.Schedule:
    s = sl.schedule(tensor)
    for stage in s.stages:
        if stage.op.outputs[0] is not tensor:
            stage.compute_inline()
    return s


@pytest.mark.parametrize(
    ("depth", "target", "make"),
    [
        (30, "cpu", one_sided), (400, "python", one_sided),
        *(pytest.param(depth, target, by_data, marks=pytest.mark.slow)
          for depth, target in ((30, "cpu"), (400, "python"))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lanes", slow_but(["True"], [False, True]))
def test_nested_choices(make, lanes: bool, depth: int, target: str):
    A, tensor = make(depth)
    s = inlined(A, tensor)
    if lanes:
        s[tensor].vectorize(tensor.op.axis[0])
    a = np.random.default_rng(3).random(SIZE).astype(np.float32)
    f = sl.build(s, [A, tensor], target=target)
    np.testing.assert_allclose(f(a), sl.reference(tensor)(a), rtol=1e-6)
    assert max(len(line) - len(line.lstrip()) for line in f.source.splitlines()) < 100


def test_a_branch_out_of_bounds_is_never_read():
    A = sl.placeholder((SIZE,), name="A")
    tensor = A
    for k in range(50):
        last = tensor
        tensor = sl.compute(
            (SIZE,),
            lambda i, last=last: sl.if_then_else(i + 1 < SIZE, last[i + 1] + 1, 0.0),
            name=f"T{k}",
        )
    s = inlined(A, tensor)
    a = np.random.default_rng(4).random(SIZE).astype(np.float32)
    expected = a
    for _ in range(50):
        expected = np.append(expected[1:] + 1, np.float32(0))
    for target in ("python", "cpu"):
        np.testing.assert_allclose(sl.build(s, [A, tensor], target=target)(a), expected, rtol=1e-6)


def shared_stages(depth: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Return stages in which two of three branches read the same element of the previous stage."""
    A = sl.placeholder((SIZE,), name="A")
    tensor = A
    for q in range(depth):
        last = tensor
        tensor = sl.compute(
            (SIZE,),
            lambda i, last=last, q=q: sl.if_then_else(
                i < q, last[i], sl.if_then_else(i < q + 20, last[i] * 0.5 + 1, 0.0)
            ),
            name=f"S{q}",
        )
    return A, tensor


def shared_values(depth: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Return one stage in which several branches, chosen by data, need the same value."""
    A = sl.placeholder((SIZE,), name="A")

    def value(i):
        found = sl.if_then_else(i + 1 < SIZE, A[i + 1], 0.0)
        for k in range(depth):
            found = sl.if_then_else(
                A[i] < k * 0.02, found + 1, sl.if_then_else(A[i] > k * 0.03, found, A[i] + k)
            )
        return found

    return A, sl.compute((SIZE,), value, name="P")


@pytest.mark.parametrize("make", [shared_stages, shared_values])
@pytest.mark.parametrize("lanes", slow_but(["True"], [False, True]))
def test_values_that_several_branches_need_are_written_once(make, lanes: bool):
    a = np.random.default_rng(6).random(SIZE).astype(np.float32)
    lengths = []
    for depth in (12, 24, 48):
        A, tensor = make(depth)
        s = inlined(A, tensor)
        if lanes:
            s[tensor].vectorize(tensor.op.axis[0])
        f = sl.build(s, [A, tensor], target="cpu" if depth == 12 else "python")
        expected = sl.reference(tensor)(a)
        np.testing.assert_allclose(f(a), expected, rtol=1e-6)
        np.testing.assert_allclose(interpret(s.nest(), [a]).outputs[0], expected, rtol=1e-6)
        lengths.append(len(f.source))
    assert lengths[2] < 5 * lengths[0]


def shared_conditions(seed: int, count: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Return a stage of choices whose conditions and sides read each other's values."""
    rng = Random(seed)
    A = sl.placeholder((SIZE,), "float64", name="A")

    def value(i):
        values, tests = [A[i]], [A[i] > 0.1]
        for _ in range(count):
            a, b = rng.choice(values[-6:]), rng.choice(values[-6:])
            test = rng.choice(tests[-4:])
            form = rng.random()
            if form < 0.5:
                values.append(sl.if_then_else(test, a, b))
            elif form < 0.6:
                values.append(a * 0.5 + b)
            elif form < 0.8:
                tests.append(a > rng.random())
            else:
                tests.append(sl.if_then_else(test, a > b, rng.choice(tests[-4:])))
        return values[-1]

    return A, sl.compute((SIZE,), value, name="D")


@pytest.mark.parametrize("seeds", slow_but(["6"], [6, 20]))
@pytest.mark.parametrize("count", [12, 24, 40])
def test_a_shared_part_inside_of_one_that_stays_where_it_is_used(count: int, seeds: int):
    """The flag of the inner part is true wherever evaluation reaches a use of the outer one."""
    for seed in range(seeds):
        A, tensor = shared_conditions(seed, count)
        a = np.random.default_rng(seed).random(SIZE)
        expected = sl.reference(tensor)(a)
        kernel = sl.build(sl.schedule(tensor), [A, tensor], target="python")
        np.testing.assert_allclose(kernel(a), expected, rtol=1e-12)


def test_tests_that_need_what_a_side_needs_do_not_double() -> None:
    """Flags of loops that returns end have this form: each is in the next test and in a side."""
    A = sl.placeholder((), name="A", dtype="int64")
    lengths = []
    for depth in (5, 10, 20):

        def flag(depth: int = depth) -> sl.Expr:
            value, test = A[()] <= 2, ~(A[()] <= 5)
            for _ in range(depth):
                test = test & ~sl.if_then_else(test, value, False)
                value = sl.if_then_else(test, sl.if_then_else(A[()] <= 5, True, value), value)
            return value

        T = sl.compute((), flag, name="T")
        f = sl.build(sl.schedule(T), [A, T], target="python")
        lengths.append(len(f.source))
        for number in (1, 4, 9):
            value, test = number <= 2, not number <= 5
            for _ in range(depth):
                test = test and not (test and value)
                value = (number <= 5 or value) if test else value
            assert f(np.array(number)) == value
    assert lengths[2] < 5 * lengths[0]
