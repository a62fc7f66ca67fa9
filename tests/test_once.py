"""What is done once: a state is lowered once, and a kernel is printed when its file is needed."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.codegen import numba_file
from schedlang.compute.graph import variables
from schedlang.errors import LoweringError, SpillWarning
from schedlang.lowering.lower import lower_state
from schedlang.targets import loops
from schedlang.targets.build import unwritten_kernel


def product() -> sl.Tensor:
    A, B = sl.placeholder((64, 64), name="A"), sl.placeholder((64, 64), name="B")
    k = sl.reduce_axis(64, name="k")
    return sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


def test_a_state_is_lowered_once_for_the_same_arguments() -> None:
    C = product()
    s = sl.schedule(C)
    A, B = C.op.input_tensors
    nest = lower_state(s.state)
    assert lower_state(s.state, [A, B, C]) is nest
    assert lower_state(s.state, [B, A, C]) is not nest
    assert [b.name for b in sl.lower(s, [B, A, C], name="other").args] == ["B", "A", "C"]
    s[C].split(C.op.axis[0], 8)
    assert "i.outer" in str(lower_state(s.state)) and "i.outer" not in str(nest)


def test_the_expressions_of_an_operation_are_searched_for_sizes_once() -> None:
    n, alpha = sl.var("n"), sl.var("alpha", dtype="float32")
    A = sl.placeholder((n, 8), name="A")
    B = sl.compute((n,), lambda i: A[i, 0] * alpha, name="B")
    assert variables([B]) == [n, alpha] and B.op.variables is B.op.variables
    # the result is the caller's own
    variables([B]).clear()
    assert variables([B]) == [n, alpha]


def test_a_step_places_no_other_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the time of the steps of a chain grows as the cube of its length."""
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] + 1, name="B")
    C = sl.compute((8,), lambda i: B[i] * 2, name="C")
    s = sl.schedule(C)
    with monkeypatch.context() as patch:
        for module in ("schedlang.state.placement", "schedlang.state.primitives.placement"):
            patch.setattr(f"{module}.place", None)
        s[B].compute_at(s[C], C.op.axis[0])
    assert sl.lower(s).buffers


def test_a_strict_caller_gets_no_nest_with_notes() -> None:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] + 1, name="B")
    C = sl.compute((8,), lambda i: B[i] * 2, name="C")
    D = sl.compute((8,), lambda i: B[i] + C[i], name="D")
    s = sl.schedule(D)
    s[B].compute_at(s[C], C.op.axis[0])
    text = str(s)
    for _ in range(2):
        with pytest.raises(LoweringError, match="D"):
            lower_state(s.state)
        assert str(s) == text
    s[C].compute_at(s[D], D.op.axis[0])
    s[B].compute_at(s[D], D.op.axis[0])
    assert "No loop" not in str(lower_state(s.state))


def test_the_kernels_of_a_network_are_printed_when_a_file_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[str] = []

    def noted(what: str, function: Callable[..., object]) -> Callable[..., object]:
        return lambda *args, **named: (printed.append(what), function(*args, **named))[1]

    monkeypatch.setattr(loops, "render", noted("file", numba_file.render))
    monkeypatch.setattr(loops, "machine_nest", noted("machine nest", loops.machine_nest))
    X, W = sl.placeholder((4, 8), name="X"), sl.placeholder((8, 8), name="W")
    h = topi.nn.relu(topi.nn.dense(X, W))
    net = sl.network(topi.nn.softmax(h), target="python")
    kernel = net.kernels["dense"].kernel
    assert not printed
    assert kernel.machine_nest.entry.name and printed == ["machine nest"]
    assert "def dense" in kernel.source and printed == ["machine nest", "file"]
    again = pickle.loads(pickle.dumps(kernel))
    x, w = np.eye(4, 8, dtype="float32"), np.arange(64, dtype="float32").reshape(8, 8) - 30
    assert again.source == kernel.source
    np.testing.assert_array_equal(again(x, w), np.maximum(x @ w.T, 0))


def test_only_build_hints_at_spills() -> None:
    C = product()
    s = sl.schedule(C)
    i, j = C.op.axis
    io, jo, ii, ji = s[C].tile(i, j, 32, 32)
    s[C].reorder(io, jo, C.op.reduce_axis[0], ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    target = sl.Target("cpu", vector_bytes=32)
    with pytest.warns(SpillWarning):
        kernel = sl.build(s, target=target)
    assert unwritten_kernel(s, None, target).source == kernel.source
