"""Tests of ``set_store_predicate`` over a thread that another stage of the kernel binds."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError, LoweringError
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.simt import simulate
from schedlang.lowering.lower import lower_state

N = 32
TX = sl.thread_axis("threadIdx.x")


def epilogue(predicate=None, bound=True):
    """Return te's epilogue: row sums across threads, attached at a block's loop of a consumer."""
    A, k = sl.placeholder((N, N), name="A"), sl.reduce_axis(N, name="k")
    B = sl.compute((N,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    C = sl.compute((N,), lambda i: B[i] * 2 + 1, name="C")
    s = sl.schedule(C)
    _, inner = s[B].split(k, factor=16)
    s[C].bind(C.op.axis[0], "blockIdx.x")
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope("shared")
    if bound:
        s[B].bind(inner, "threadIdx.x")
    if predicate is not None:
        s[C].set_store_predicate(predicate)
    return s, A, C


@pytest.mark.parametrize("predicate", [None, TX == 0, TX == 7, (TX == 3) & (TX < 9)])
def test_the_consumer_of_a_sum_across_threads(predicate):
    s, A, C = epilogue(predicate)
    a = np.random.default_rng(0).integers(0, 9, (N, N)).astype("float32")
    f = sl.build(s, [A, C], target="cuda-emulator")
    np.testing.assert_array_equal(f(a), a.sum(1) * 2 + 1)
    assert f.unproven == ()
    run = simulate(device_program(lower_state(s.state), sl.Target("cuda")), [a], {})
    np.testing.assert_array_equal(run.outputs[0], a.sum(1) * 2 + 1)


def test_a_thread_predicate_is_printed_and_recorded():
    s, _, C = epilogue(TX == 0)
    assert "  if threadIdx.x == 0:   # store predicate\n    C[i] = B[0] * 2 + 1" in str(s)
    assert str(sl.Schedule.from_json(s.to_json(), C)) == str(s)


def test_a_thread_that_the_kernel_does_not_have():
    s, A, C = epilogue(sl.thread_axis("threadIdx.y") == 0)
    with pytest.raises(LoweringError, match="no loop of its kernel is bound to threadIdx.y"):
        sl.build(s, [A, C], target="cuda-emulator")
    assert "# set_store_predicate(threadIdx.y == 0) on stage C: no loop" in str(s)


def test_a_thread_of_another_kernel():
    A = sl.placeholder((N,), name="A")
    B = sl.compute((N,), lambda i: A[i] * 2, name="B")
    C = sl.compute((N,), lambda i: B[i] + 1, name="C")
    s = sl.schedule(C)
    s[B].bind(B.op.axis[0], "threadIdx.x")
    s[C].bind(C.op.axis[0], "blockIdx.x")
    s[C].set_store_predicate(TX == 0)
    with pytest.raises(LoweringError, match="or of another stage of the same kernel"):
        sl.lower(s, [A, C])


def test_a_predicate_in_a_nest_without_threads():
    A = sl.placeholder((N,), name="A")
    B = sl.compute((N,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    s[B].set_store_predicate(TX == 0)
    with pytest.raises(LoweringError, match="no loop of its kernel is bound to threadIdx.x"):
        sl.build(s, [A, B])


def test_a_cpu_target_refuses_a_thread_predicate():
    s, A, C = epilogue(TX == 0)
    with pytest.raises(BuildError, match="is bound to blockIdx.x"):
        sl.build(s, [A, C], target="cpu")
