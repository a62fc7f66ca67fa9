"""Gradients that are refused, with what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import te
from schedlang.errors import ComputeError, ComputeTypeError

A = sl.placeholder((4,), name="A")
INDEX = sl.placeholder((4,), "int64", name="index")
k = sl.reduce_axis(4, name="k")
C = sl.compute((4,), lambda i: A[i] * 2, name="C")
T = sl.compute((), lambda: sl.sum(A[k], axis=k), name="T")


def head(*shape: Any, dtype: str = "float32") -> sl.Tensor:
    return sl.placeholder(shape, dtype, name="head")


def custom() -> sl.Tensor:
    reduce = sl.comm_reducer(
        lambda x, y: x * x * y * y, lambda t: 1.0, name="odd", trusted=True
    )
    m = sl.reduce_axis(4, name="m")
    S = sl.compute((), lambda: reduce(A[m], axis=m), name="S")
    return sl.compute((), lambda: S[()] * 2, name="Z")


S0 = sl.placeholder((1, 4), name="S0")


def looked_up_in_a_scan() -> sl.Tensor:
    state = sl.placeholder((5, 4), name="state")
    first = sl.compute((1, 4), lambda _, i: S0[0, i], name="first")
    step = sl.compute((5, 4), lambda t, i: state[t - 1, INDEX[i]] * 2, name="step")
    found: sl.Tensor = sl.scan(first, step, state, name="walk")
    return found


def stage(body: Any, name: str = "Z") -> sl.Tensor:
    return sl.compute((4,), body, name=name)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: sl.gradient(C, A), r"C has the shape \(4,\), and without a head .*\n.*head="),
        (lambda: sl.gradient(C, A, head(5)), r"head has the shape \(5,\), but C has \(4,\)"),
        (lambda: sl.gradient(C, A, head(4, 1)), r"\(4, 1\), but C has \(4,\)"),
        (lambda: sl.gradient(T, sl.placeholder((4,), name="B")),
         r"T does not depend on B, .*\n.*Leave B out\. T depends on A"),
        (lambda: sl.gradient(custom(), A),
         r'stage S: its reducer odd is a custom one.*\n.*gradient="fold".*rules=\{S: \.\.\.\}'),
        (lambda: sl.gradient(stage(lambda i: sl.cast(A[i], "int32") * 1.5), A,
                             head(4, dtype="float64")),
         r"stage Z: it converts A\[i\] to int32.*\n.*sl\.trunc.*rules=\{Z: None\}"),
        (lambda: sl.gradient(stage(lambda i: stage(lambda j: A[j].astype("int8"), "Q")[i] * 0.5),
                             A, head(4, dtype="float64")),
         r"through stage Q: it converts A\[j\] to int8"),
        (lambda: sl.gradient(looked_up_in_a_scan(), S0, head(5, 4)),
         r"depends on data.*\n.*where=.*rules="),
        (lambda: sl.comm_reducer(lambda x, y: x + y, lambda t: 0.0, gradient="chain"),
         r"gradient is 'chain'; give \"fold\""),
    ],
)  # fmt: skip
def test_computations_without_a_gradient(made: Any, message: str) -> None:
    with pytest.raises(ComputeError, match=message):
        made()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: sl.gradient(C, A, head(4, dtype="float64")), "head is float64, but C is float32"),
        (lambda: sl.gradient(C, A, 1.0), r"head=1\.0\): give a tensor of the shape of C"),
        (lambda: sl.gradient(C, "A", head(4)), r"'A'\): give a tensor, or a list"),
        (lambda: sl.gradient(T, sl.var("alpha", "float32")),
         r"alpha\): .*\n.*sl\.placeholder\(\(\)"),
        (lambda: sl.gradient(T, A[0]), r"A\[0\] is a scalar or an element"),
        (lambda: sl.gradient(2.0, A), "give the tensor to differentiate"),
        (lambda: sl.gradient(C[0], A), r'sl\.named\("loss", C\[0\]\), and sl\.gradient'),
        (lambda: sl.gradient(C, np.zeros((300, 400)), head(4)),
         r"^sl\.gradient\(\.\.\., array\(.{1,60}\.\.\.\): give a tensor"),
        (lambda: sl.gradient(stage(lambda i: A[INDEX[i]] * 1), INDEX, head(4)),
         "index is int64.*\n.*Make index float32"),
        (lambda: sl.gradient(stage(lambda i: INDEX[i] * 2), A), "Z is int64: its gradient"),
        (lambda: sl.gradient(T, A, rules=[C]), "rules=.*: give a dict"),
        (lambda: sl.gradient(T, A, rules={"T": None}), "a rule belongs to a tensor"),
        (lambda: sl.gradient(T, A, rules={T: 3}), r"\{T: 3\}\): give a function"),
        (lambda: sl.gradient(T, A, rules={T: lambda g: g}), "returns Tensor; return a dict"),
        (lambda: sl.gradient(T, A, rules={T: lambda g: {A: 1.0}}), "both must be tensors"),
        (lambda: sl.gradient(T, A, rules={T: lambda g: {A: head(4, dtype="float16")}}),
         "a gradient of float16 for A, which is float32"),
        (lambda: te.gradient(C, [A], head(4, dtype="float64")), "head is float64"),
        (lambda: te.gradient(C, [A], 1), "head=1"),
    ],
)  # fmt: skip
def test_arguments_of_a_wrong_kind(made: Any, message: str) -> None:
    with pytest.raises(ComputeTypeError, match=message):
        made()


def recurrence() -> tuple[sl.Tensor, ...]:
    S = sl.placeholder((4,), name="S")
    first = sl.compute((1,), lambda t: A[0], name="first")
    twice = sl.compute((4,), lambda t: S[t - 1] * 2, name="twice")
    step = sl.compute((4,), lambda t: twice[t] + A[t], name="step")
    return S, twice, sl.scan(first, step, S, name="R")


@pytest.mark.parametrize("part", [0, 1])
def test_parts_of_a_scan_have_no_gradient(part: int) -> None:
    S, twice, R = recurrence()
    inner = (S, twice)[part]
    message = f"{inner.name} is a part of scan R and exists only"
    with pytest.raises(ComputeError, match=message):
        sl.gradient(R, [A, inner], head(4))
    with pytest.raises(ComputeError, match=message):
        sl.gradient(R, A, head(4), rules={inner: None})


def test_a_step_that_reads_rows_at_a_varying_distance() -> None:
    S = sl.placeholder((6,), name="S")
    first = sl.compute((3,), lambda t: A[t], name="first")
    d = sl.reduce_axis(2, name="d")
    recent = sl.compute((6,), lambda t: sl.sum(S[sl.max(t - 1 - d, 0)], axis=d), name="recent")
    step = sl.compute((6,), lambda t: sl.tanh(recent[t]), name="step")
    with pytest.raises(ComputeError, match="scan R: its steps read rows at a distance that varies"):
        sl.gradient(sl.scan(first, step, S, name="R"), A, head(6))


def test_rules_of_other_computations() -> None:
    with pytest.raises(ComputeError, match="T does not depend on C; leave out the rule"):
        sl.gradient(T, A, rules={C: None})


def test_gradients_of_rules_have_the_shape_of_their_tensors() -> None:
    with pytest.raises(ComputeError, match=r"for A of shape \(4,\) a gradient of shape \(3,\)"):
        sl.gradient(T, A, rules={T: lambda g: {A: head(3)}})


def test_a_constant_by_a_rule_cuts_the_way_to_its_inputs() -> None:
    by = sl.gradient(T, A, rules={T: None})
    assert (sl.reference(by)() == 0).all()


def test_a_head_of_te_ends_with_the_shape_of_the_output() -> None:
    with pytest.raises(ComputeError, match=r"does not end with that of C, \(4,\)\n.*prefix"):
        te.gradient(C, [A], head(4, 3))
