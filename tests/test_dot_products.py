"""Tests of the dot products of processors in searches and hints.

They pretend that the processor has every instruction, and run the schedules uncompiled, where loops
stand for the instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from unittest import mock

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.expr.dtypes import array_dtype

WIDE = sl.Target("cpu", vector_bytes=64)
NARROW = sl.Target("cpu", vector_bytes=32)


@pytest.fixture(autouse=True)
def every_instruction() -> Iterator[None]:
    with mock.patch("schedlang.autotune.tactics.cpu.dot_products.lacks", lambda declared: False):
        with mock.patch("schedlang.hints.findings.lacks", lambda declared: False):
            yield


def product(
    m: int, n: int, k: int, left: str = "uint8", right: str = "int8", result: str = "int32",
    transposed: bool = False,
) -> list[sl.Tensor]:  # fmt: skip
    A = sl.placeholder((m, k), left, name="A")
    B = sl.placeholder((n, k) if transposed else (k, n), right, name="B")
    r = sl.reduce_axis(k, name="k")

    def dot(i: sl.Axis, j: sl.Axis) -> object:
        b = B[j, r] if transposed else B[r, j]
        return sl.sum(A[i, r].astype(result) * b.astype(result), axis=r)

    return [A, B, sl.compute((m, n), dot, name="C")]


def arrays(tensors: list[sl.Tensor]) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    operands = []
    for tensor in tensors[:2]:
        values = draw.integers(0 if tensor.dtype[0] == "u" else -9, 9, tensor.shape)
        operands.append(values.astype(array_dtype(tensor.dtype)))
    return operands


def check(s: sl.Schedule, tensors: list[sl.Tensor], transposed: bool = False) -> None:
    a, b = arrays(tensors)
    wanted = a.astype("int64") @ (b.T if transposed else b).astype("int64")
    f = sl.build(s, tensors, target="python")
    np.testing.assert_array_equal(np.asarray(f(a, b)).astype("int64"), wanted)


INSTRUCTIONS = pytest.mark.parametrize(
    "target, kinds, name",
    [
        pytest.param(WIDE, ("uint8", "int8", "int32"), "vpdpbusd", id="vpdpbusd"),
        pytest.param(WIDE, ("int16", "int16", "int32"), "vpdpwssd", id="vpdpwssd"),
        pytest.param(WIDE, ("bfloat16", "bfloat16", "float32"), "vdpbf16ps", id="vdpbf16ps"),
        pytest.param(NARROW, ("uint8", "int8", "int32"), "vpdpbusd_256", id="vpdpbusd_256"),
        pytest.param(NARROW, ("int16", "int16", "int32"), "vpdpwssd_256", id="vpdpwssd_256"),
    ],
)


@INSTRUCTIONS
def test_the_cost_model_chooses_the_instruction(
    target: sl.Target, kinds: tuple[str, str, str], name: str
) -> None:
    C = product(128, 256, 128, *kinds)[-1]
    assert f"sl.instructions.{name})" in sl.autoschedule(C, target).as_python()


@INSTRUCTIONS
def test_a_candidate_of_each_dtype(
    target: sl.Target, kinds: tuple[str, str, str], name: str
) -> None:
    tensors = product(9, 70, 18, *kinds)
    check(candidates(tensors[-1], target)[0], tensors)


def candidates(C: sl.Tensor, target: sl.Target) -> list[sl.Schedule]:
    """Return the candidates of some draws that use an instruction."""
    space, rng, schedules = Space(Problem((C,), target, 2)), Random(1), []
    for _ in range(16):
        try:
            s = space.draw(rng, {}).schedule
        except Rejected:
            continue
        if "tensorize" in s.as_python():
            schedules.append(s)
    return schedules


@pytest.mark.parametrize("sizes", [(7, 50, 13), (6, 40, 21)], ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_odd_sizes(sizes: tuple[int, int, int], transposed: bool) -> None:
    tensors = product(*sizes, transposed=transposed)
    drawn = candidates(tensors[-1], WIDE)
    assert drawn
    for s in drawn[:2]:
        check(s, tensors, transposed)


@pytest.mark.parametrize(
    "kinds",
    [("float32", "float32", "float32"), ("int8", "int8", "int32"), ("uint8", "int8", "int64"),
     ("int8", "uint8", "int32")],
    ids=str,
)  # fmt: skip
def test_other_dtypes_have_no_instruction(kinds: tuple[str, str, str]) -> None:
    tensors = product(16, 64, 32, *kinds)
    assert not candidates(tensors[-1], WIDE)


def test_next_steps_offer_the_instruction_and_explain_names_it() -> None:
    tensors = product(48, 64, 32)
    s = sl.schedule(tensors[-1])
    (step,) = [x for x in sl.next_steps(s, WIDE) if x.primitive == "tensorize"]
    assert step.speedup > 1
    check(step.schedule, tensors)
    text = str(sl.explain(s, target=WIDE))
    assert (
        "stage C multiplies uint8 and int8 without the dot product of this processor, vpdpbusd"
        in text
    )
    assert "without the dot product" not in str(sl.explain(step.schedule, target=WIDE))
