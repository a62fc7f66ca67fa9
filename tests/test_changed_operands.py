"""Tests of pad_einsum and shift_operand against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import ScheduleError

SIZES = st.tuples(*[st.integers(1, 9)] * 3)
OTHER = {"int8": "uint8", "uint8": "int8", "int16": "uint16", "uint16": "int16"}


def product(
    sizes: tuple[int, int, int], kinds: tuple[str, str], result: str, start: bool
) -> list[sl.Tensor]:
    m, n, k = sizes
    A, B = sl.placeholder((m, k), kinds[0], name="A"), sl.placeholder((k, n), kinds[1], name="B")
    Z = sl.placeholder((n,), result, name="Z")
    r = sl.reduce_axis(k, name="r")

    def dot(i: sl.Axis, j: sl.Axis) -> Any:
        init = {"init": Z[j]} if start else {}
        return sl.sum(A[i, r].astype(result) * B[r, j].astype(result), axis=r, **init)

    C = sl.compute((m, n), dot, name="C")
    return [A, B, Z, C] if start else [A, B, C]


def check(s: sl.Schedule, tensors: list[sl.Tensor], seed: int) -> None:
    draw, arrays = np.random.default_rng(seed), []
    for tensor in tensors[:-1]:
        ends = np.iinfo(tensor.dtype)
        values = draw.integers(ends.min, ends.max, tensor.shape, tensor.dtype, endpoint=True)
        # the ends of the range are where a shift goes wrong
        values.flat[0], values.flat[-1] = ends.min, ends.max
        arrays.append(values)
    dtype = tensors[-1].dtype
    expected = arrays[0].astype(dtype) @ arrays[1].astype(dtype)
    if len(arrays) > 2:
        expected = expected + arrays[2]
    result = sl.build(s, tensors, target="python")(*arrays)
    np.testing.assert_array_equal(result, expected)


@settings(max_examples=12, deadline=None)
@given(
    sizes=SIZES, left=st.sampled_from(sorted(OTHER)), right=st.sampled_from(sorted(OTHER)),
    result=st.sampled_from(["int32", "int64"]), first=st.booleans(), start=st.booleans(),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_a_shifted_operand_changes_no_sum(
    sizes: tuple[int, int, int], left: str, right: str, result: str, first: bool, start: bool,
    seed: int,
) -> None:  # fmt: skip
    tensors = product(sizes, (left, right), result, start)
    s, operand = sl.schedule(tensors[-1]), tensors[0 if first else 1]
    shifted, sums = s.shift_operand(tensors[-1], operand, OTHER[operand.dtype])
    assert shifted.dtype == OTHER[operand.dtype] and sums.shape == (sizes[1 if first else 0],)
    check(s, tensors, seed)


@settings(max_examples=12, deadline=None)
@given(sizes=SIZES, padding=st.tuples(*[st.integers(1, 5)] * 3), seed=st.integers(0, 99))
def test_zeros_change_no_sum(
    sizes: tuple[int, int, int], padding: tuple[int, int, int], seed: int
) -> None:
    tensors = product(sizes, ("int8", "int16"), "int32", False)
    C = tensors[-1]
    s = sl.schedule(C)
    sums = s.cache_write(C, "local")
    longer = [n + -n % multiple for n, multiple in zip(sizes, padding)]
    if longer == [*sizes]:
        with pytest.raises(ScheduleError, match="multiples of these numbers already"):
            s.pad_einsum(sums, padding)
        return
    copies = {copy.name: copy.shape for copy in s.pad_einsum(sums, padding)}
    m, n, k = longer
    assert copies.get("A.pad", (m, k)) == (m, k) and copies.get("B.pad", (k, n)) == (k, n)
    assert s[sums].op.reduce_axis[0].extent == k
    row, column = s[sums].op.axis
    s[sums].split(column, factor=padding[1], tail="guard")
    check(s, tensors, seed)


def test_the_printed_schedule_shows_both_steps() -> None:
    tensors = product((5, 7, 6), ("int8", "int8"), "int32", False)
    s = sl.schedule(tensors[-1])
    s.shift_operand(tensors[-1], tensors[1], "uint8")
    s.pad_einsum(tensors[-1], [1, 16, 4])
    assert [line for line in s.as_python().splitlines() if " = s." in line] == [
        'B_shift, C_sums = s.shift_operand(C, B, "uint8")',
        "A_pad, B_shift_pad = s.pad_einsum(C, [1, 16, 4])",
    ]
    assert "B.shift[ax0, ax1] = uint8(B[ax0, ax1]) ^ 128" in str(s)


def test_zeros_times_infinity() -> None:
    A, B = sl.placeholder((3, 6), name="A"), sl.placeholder((6, 5), name="B")
    k = sl.reduce_axis(6, name="k")
    body = lambda i, j: sl.sum(A[i, k] * B[k, j] * float("inf"), axis=k)  # noqa: E731
    C = sl.compute((3, 5), body, name="C")
    with pytest.raises(ScheduleError, match="and zero times inf is NaN\n  Multiply the sum by it"):
        sl.schedule(C).pad_einsum(C, [1, 1, 4])
