"""Short-circuit choices nested deeper than Python's indentation."""

import numpy as np
import pytest

import schedlang as sl

SIZE = 37


def one_sided(depth: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Each stage reads the one before it in some places only, the first far out of bounds."""
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
    """The choice depends on what is read, and both sides hold deeper choices."""
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


@pytest.mark.parametrize("make", [one_sided, by_data])
@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize(("depth", "target"), [(40, "cpu"), (400, "python")])
def test_nested_choices(make, lanes: bool, depth: int, target: str):
    A, tensor = make(depth)
    s = inlined(A, tensor)
    if lanes:
        s[tensor].vectorize(tensor.op.axis[0])
    a = np.random.default_rng(3).random(SIZE).astype(np.float32)
    f = sl.build(s, [A, tensor], target=target)
    np.testing.assert_allclose(f(a), sl.reference(tensor)(a), rtol=1e-6)
    assert max(len(line) - len(line.lstrip()) for line in f.source.splitlines()) < 100


def test_a_side_out_of_bounds_is_never_read():
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
