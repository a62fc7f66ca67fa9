"""Scans inside loops: data axes outside of time, scans computed at a loop of their reader, time in
blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.tactics.cpu.scan_rows import WIDE
from schedlang.errors import LoweringError, ScheduleError
from schedlang.schedule.schedule import Schedule
from tests.cpu_candidates import AVX2, drawn

STEPS, ROWS = 13, 21
x = np.random.default_rng(0).random((ROWS, STEPS), "float32")


def filtered(a: np.ndarray, back: int = 1) -> np.ndarray:
    """Return the recursive filter along the last axis of ``a``."""
    y = a.copy()
    for t in range(back, a.shape[1]):
        y[:, t] = y[:, t - back] * np.float32(0.5) + a[:, t]
    return y


def row_filter(
    rows: Any = ROWS, steps: Any = STEPS, back: int = 1, backward: bool = False
) -> dict[str, Any]:
    """Return a filter along the rows of a matrix, with the stages of the scan by their names."""
    X = sl.placeholder((rows, steps), name="X")
    S = sl.placeholder((steps, rows), name="S")

    def at(t: Any) -> Any:
        return steps - 1 - t if backward else t

    first = sl.compute((back, rows), lambda t, i: X[i, at(t)], name="first")
    step = sl.compute((steps, rows), lambda t, i: S[t - back, i] * 0.5 + X[i, at(t)], name="step")
    R = sl.scan(first, step, S, inputs=[X], name="R")
    out = sl.compute((rows, steps), lambda i, t: R[at(t), i], name="out")
    return {"first": first, "step": step, "R": R, "out": out}


def check(s: Schedule, given: np.ndarray, wanted: np.ndarray, **sizes: Any) -> None:
    """Check the kernels of a schedule, and that its record gives the same nest."""
    again = Schedule.from_json(s.to_json(), list(s.outputs))
    assert str(again) == str(s)
    for target in ("python", "cpu"):
        f = sl.build(s, target=target)
        assert f.unproven == ()
        np.testing.assert_allclose(f(given), wanted, rtol=1e-5)


@pytest.mark.parametrize("kind", ["", "parallel", "unroll"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_rows_run_outside_of_time(kind: str, lanes: int) -> None:
    r = row_filter()
    s = sl.schedule(r["R"])
    R, step = s[r["R"]], s[r["step"]]
    (i,) = R.op.axis
    if lanes > 1:
        i, _ = R.split(i, factor=lanes)
        step.vectorize(step.op.axis[1])
    R.reorder(i, R.op.scan_axis)
    if kind:
        getattr(R, kind)(i)
    check(s, x, filtered(x).T)


@pytest.mark.parametrize("tail", ["guard", "cut"])
@pytest.mark.parametrize("backward", [False, True])
def test_a_scan_is_computed_at_a_loop_of_its_reader(backward: bool, tail: str) -> None:
    """Its storage holds the rows of one iteration."""
    r = row_filter(backward=backward)
    s = sl.schedule(r["out"])
    out, step = s[r["out"]], s[r["step"]]
    outer, inner = out.split(out.op.axis[0], factor=4, tail=tail)
    out.reorder(outer, out.op.axis[1], inner)
    out.parallel(outer)
    s[r["R"]].compute_at(out, outer)
    step.vectorize(step.op.axis[1])
    assert f"R: float32[{STEPS}, 4]" in str(s)
    wanted = filtered(x[:, ::-1])[:, ::-1] if backward else filtered(x)
    check(s, x, wanted)


@pytest.mark.parametrize("attached", [False, True])
def test_the_states_of_a_scan_have_its_scope(attached: bool) -> None:
    r = row_filter()
    s = sl.schedule(r["out"])
    s[r["R"]].set_scope("local")
    if attached:
        s[r["R"]].compute_at(s[r["out"]], r["out"].op.axis[0])
    assert [b.scope for b in sl.lower(s).buffers if b.name == "R"] == ["local"]
    check(s, x, filtered(x))


def test_the_scope_of_a_scan_that_is_an_output_is_global() -> None:
    r = row_filter()
    with pytest.raises(ScheduleError, match="Leave it there, or make a stage that reads it the"):
        sl.schedule(r["R"])[r["R"]].set_scope("local")


def test_lanes_along_a_loop_of_the_scan_are_those_of_its_update() -> None:
    """The refusal of ``vectorize`` says what to do, and that works."""
    r = row_filter()
    s = sl.schedule(r["R"])
    R, step = s[r["R"]], s[r["step"]]
    (i,) = R.op.axis
    R.reorder(i, R.op.scan_axis)
    with pytest.raises(ScheduleError, match="All of i is outside of R.t now; split it, and keep"):
        R.vectorize(R.op.scan_axis)
    outer, inner = R.split(i, factor=8)
    R.reorder(outer, R.op.scan_axis, inner)
    step.vectorize(step.op.axis[1])
    assert any(loop.kind == "vectorize" for loop in sl.lower(s).loops)
    check(s, x, filtered(x).T)


def test_a_step_of_one_element_has_no_lanes() -> None:
    S = sl.placeholder((STEPS,), name="S")
    first = sl.compute((1,), lambda t: 1.0, name="first")
    step = sl.compute((STEPS,), lambda t: S[t - 1] * 0.5, name="step")
    R = sl.scan(first, step, S, name="R")
    s = sl.schedule(R)
    with pytest.raises(ScheduleError, match="one element, and has no loop for lanes"):
        s[R].vectorize(R.op.scan_axis)


def test_a_reader_of_the_last_row_keeps_two_rows() -> None:
    r = row_filter()
    last = sl.compute((ROWS,), lambda i: r["R"][STEPS - 1, i], name="last")
    s = sl.schedule(last)
    outer, _ = s[last].split(last.op.axis[0], factor=8)
    s[r["R"]].compute_at(s[last], outer)
    assert "R: float32[2, 8]" in str(s)
    check(s, x, filtered(x)[:, -1])


@pytest.mark.parametrize("back", [1, 3])
@pytest.mark.parametrize("rows_between", [False, True])
def test_time_runs_in_blocks(rows_between: bool, back: int) -> None:
    """The state goes from one block to the next; a stage computes a block of inputs."""
    r = row_filter(back=back)
    s = sl.schedule(r["R"])
    R, step = s[r["R"]], r["step"]
    X = step.op.input_tensors[1]
    block, time = R.split(R.op.scan_axis, factor=4)
    if rows_between:
        outer, _ = R.split(R.op.axis[0], factor=8)
        R.reorder(block, outer, time)
    R.unroll(time)
    copy = s.cache_read(X, "global", [step])
    s[copy].compute_at(R, block)
    assert f"{copy.name}: float32[{ROWS}, 4]" in str(s)
    check(s, x, filtered(x, back).T)


@pytest.mark.filterwarnings("ignore::schedlang.errors.StrideWarning")
def test_a_scan_is_computed_at_a_loop_of_a_symbolic_extent() -> None:
    r = row_filter(rows=sl.var("n"), steps=sl.var("m"))
    s = sl.schedule(r["out"])
    out, step = s[r["out"]], s[r["step"]]
    outer, _ = out.split(out.op.axis[0], factor=4)
    s[r["R"]].compute_at(out, outer)
    step.vectorize(step.op.axis[1])
    for target in ("python", "cpu"):
        f = sl.build(s, target=target)
        for shape in ((ROWS, STEPS), (4, 1), (1, 7)):
            a = np.random.default_rng(1).random(shape, "float32")
            np.testing.assert_allclose(f(a), filtered(a), rtol=1e-5)


def recurrent(batch: int, width: int) -> tuple[Any, Any]:
    """Return a recurrent layer over a batch with two states, and its product."""
    X = sl.placeholder((STEPS, batch, width), name="X")
    W, k = sl.placeholder((width, width), name="W"), sl.reduce_axis(width, name="k")
    shape = (STEPS, batch, width)
    h, c = sl.placeholder(shape, name="h"), sl.placeholder((STEPS, batch), name="c")
    product = sl.compute(
        shape, lambda t, b, j: sl.sum(h[t - 1, b, k] * W[j, k], axis=k), name="product"
    )
    count = sl.compute((STEPS, batch), lambda t, b: c[t - 1, b] + 1, name="count")
    layer = sl.compute(
        shape, lambda t, b, j: sl.tanh(product[t, b, j] + X[t, b, j]) + count[t, b], name="layer"
    )
    firsts = [
        sl.compute((1, batch, width), lambda t, b, j: X[0, b, j], name="h0"),
        sl.compute((1, batch), lambda t, b: 0.0, name="c0"),
    ]
    states = sl.scan(firsts, [layer, count], [h, c], inputs=[X, W], name="net")
    return states, product


def test_a_batch_runs_outside_of_the_time_of_a_layer() -> None:
    """Its features depend on each other, and its elements of a batch do not."""
    batch, width = 5, 6
    states, product = recurrent(batch, width)
    s = sl.schedule(states)
    net = s[states[0]]
    b, _ = net.op.axis
    assert [a.name for a in net.leaf_axes] == ["net.t", "b"]
    outer, _ = net.split(b, factor=2)
    net.reorder(outer, net.op.scan_axis)
    net.parallel(outer)
    s[product].vectorize(s[product].op.axis[2])
    assert "product: float32[1, 2, 6]" in str(s)
    rng = np.random.default_rng(2)
    a, w = rng.random((STEPS, batch, width), "float32"), rng.random((width, width), "float32")
    wanted = a.copy()
    for t in range(1, STEPS):
        wanted[t] = np.tanh(wanted[t - 1] @ w.T + a[t]) + np.float32(t)
    for target in ("python", "cpu"):
        h, c = sl.build(s, target=target)(a, w)
        np.testing.assert_allclose(h, wanted, rtol=1e-4)
        np.testing.assert_array_equal(c, np.arange(STEPS)[:, None] + np.zeros(batch))


def test_an_axis_that_a_step_mirrors_stays_in_it() -> None:
    S = sl.placeholder((STEPS, ROWS), name="S")
    first = sl.compute((1, ROWS), lambda t, i: i * 1.0, name="first")
    step = sl.compute((STEPS, ROWS), lambda t, i: S[t - 1, ROWS - 1 - i] + 1, name="step")
    R = sl.scan(first, step, S, name="R")
    out = sl.compute((ROWS, STEPS), lambda i, t: R[t, i], name="out")
    s = sl.schedule(out)
    assert list(s[R].leaf_axes) == [R.op.scan_axis]
    with pytest.raises(
        ScheduleError,
        match="each iteration of i reads other elements along i "
        "of R, which would compute all of its steps again\n"
        "  Leave R at root, or attach it outside of i.",
    ):
        s[R].compute_at(s[out], out.op.axis[0])


def test_a_loop_over_time_computes_no_scan_through_another_stage() -> None:
    r = row_filter()
    twice = sl.compute((STEPS, ROWS), lambda t, i: r["R"][t, i] * 2, name="twice")
    last = sl.compute((ROWS, STEPS), lambda i, t: twice[t, i] + 1, name="last")
    s = sl.schedule(last)
    i, t = last.op.axis
    s[last].reorder(t, i)
    s[twice].compute_inline()
    s[r["R"]].compute_at(s[last], t)
    with pytest.raises(LoweringError, match="each iteration of t reads other rows of R, which "):
        sl.build(s)
    s = sl.schedule(last)
    s[twice].compute_inline()
    s[r["R"]].compute_at(s[last], i)
    check(s, x, filtered(x) * 2 + 1)


@pytest.mark.parametrize("attached", [False, True])
def test_blocks_and_threads_run_rows(attached: bool) -> None:
    """All of time runs in one kernel."""
    r = row_filter()
    s = sl.schedule(r["out"])
    out = s[r["out"]]
    block, thread = out.split(out.op.axis[0], factor=8)
    out.bind(block, "blockIdx.x")
    out.bind(thread, "threadIdx.x")
    if attached:
        s[r["R"]].compute_at(out, thread)
    else:
        R = s[r["R"]]
        block, thread = R.split(R.op.axis[0], factor=8)
        R.reorder(block, thread, R.op.scan_axis)
        R.bind(block, "blockIdx.x")
        R.bind(thread, "threadIdx.x")
    f = sl.build(s, target="cuda-emulator")
    assert len(f.counters(x)) == (1 if attached else 2)
    np.testing.assert_allclose(f(x), filtered(x), rtol=1e-5)


def test_threads_past_the_end_compute_no_row() -> None:
    X, S = sl.placeholder((4, 8), name="X"), sl.placeholder((4, 8), name="S")
    first = sl.compute((1, 8), lambda t, i: X[t, i], name="first")
    half = sl.compute((4, 8), lambda t, i: S[t - 1, i] * 0.5, name="half")
    step = sl.compute((4, 8), lambda t, i: half[t, i] + X[t, i], name="step")
    R = sl.scan(first, step, S, name="R")
    s = sl.schedule(R)
    block, thread = s[R].split(R.op.axis[0], factor=3)
    s[R].reorder(block, thread, R.op.scan_axis)
    s[R].bind(block, "blockIdx.x")
    s[R].bind(thread, "threadIdx.x")
    # all threads compute this stage, so that the test of the tail is inside of time
    s[half].set_scope("local")
    x = np.random.default_rng(0).random((4, 8)).astype("float32")
    rows = [x[0]]
    for row in x[1:]:
        rows.append(rows[-1] * np.float32(0.5) + row)
    np.testing.assert_allclose(sl.build(s, target="cuda-emulator")(x), rows, rtol=1e-6)


def test_many_adjacent_rows_go_through_time_together() -> None:
    """A step of the tactic reads whole lines side by side, and the last block is narrower."""
    steps, rows = 37, 150
    X, S = (sl.placeholder((steps, rows), name=name) for name in "XS")
    first = sl.compute((1, rows), lambda t, i: X[steps - 1, i], name="first")
    step = sl.compute(
        (steps, rows), lambda t, i: S[t - 1, i] * 0.5 + X[steps - 1 - t, i], name="step"
    )
    R = sl.scan(first, step, S, inputs=[X], name="R")
    Y = sl.compute((steps, rows), lambda t, i: R[steps - 1 - t, i], name="Y")
    wide = WIDE * AVX2.vector_width("float32")
    candidate = drawn(Y, 1, given={"Y.tactic": "scan", "Y.scan_rows": wide})[0]
    assert f"R: float32[{steps}, {wide}]" in str(candidate.schedule)
    a = np.random.default_rng(0).random((steps, rows), "float32")
    check(candidate.schedule, a, filtered(a[::-1].T).T[::-1])
