"""Tests that a printed nest gives no two things one name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import schedlang as sl
from tests.nests import axis, buffer, load, loop, nest, store


def long_body(scalar: Any, A: Any) -> sl.Tensor:
    """Return a tensor whose expression is so long that its print names a part of it."""
    terms = [sl.exp(A[0] * scalar + k) for k in range(24)]
    return sl.compute((8,), lambda i: sum(terms, A[i]), name="C")


def assigned(text: str) -> set[str]:
    return set(re.findall(r"^ *(t\d+) = ", text, re.MULTILINE))


def test_a_temporary_is_not_named_like_a_scalar() -> None:
    t1, A = sl.var("t1", dtype="float32"), sl.placeholder((8,), name="A")
    assert assigned(str(sl.schedule(long_body(t1, A)))) == {"t2"}


def test_a_temporary_is_not_named_like_a_size_or_a_buffer_of_another_statement() -> None:
    t1, alpha = sl.var("t1"), sl.var("alpha", dtype="float32")
    A = sl.placeholder((8,), name="A")
    C = long_body(alpha, A)
    D = sl.compute((t1,), lambda t3: A[0] + t3, name="t2")
    text = str(sl.schedule([C, D]))
    assert "for t3 in 0..t1" in text and assigned(text) == {"t4"}


def test_a_temporary_of_a_kernel_of_threads_is_not_named_like_a_scalar() -> None:
    t1, A = sl.var("t1", dtype="float32"), sl.placeholder((8,), name="A")
    C = long_body(t1, A)
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], sl.thread_axis("threadIdx.x"))
    f = sl.build(s, target="cuda-emulator")
    assert assigned(f.program) == {"t2"}


def test_a_loop_is_not_named_like_an_argument_or_a_size() -> None:
    n, A = sl.var("n"), sl.placeholder((8,), name="A")
    D = sl.compute((n,), lambda n: A[0] * n, name="D")
    E = sl.compute((8,), lambda A_: A[A_] * 2, name="A_")
    text = str(sl.schedule([D, E]))
    assert "for D.n in 0..n:" in text and "for A_.A_ in 0..8:" in text


def test_a_stage_is_not_named_like_a_scalar_or_a_size() -> None:
    n, x = sl.var("n"), sl.var("x", dtype="float32")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * x, name="x")
    C = sl.compute((n,), lambda i: B[i] + 1, name="n")
    s = sl.schedule(C)
    assert str(s).startswith("n(A: float32[n], x: float32) -> n_1: float32[n]")
    assert "x_1: float32[n]" in str(s)
    a = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(sl.build(s, target="python")(a, 2.0), a * 2 + 1)


def test_a_nest_by_hand_keeps_its_names() -> None:
    A, C, i = buffer("A", 4), buffer("C", 4), axis("i", 4)
    assert "C[i] = A[i]" in str(nest([A], [C], loop(i, store(C, (i,), load(A, i)))))
