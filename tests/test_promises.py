"""A step that would break the promise of an earlier step is refused and changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ScheduleError
from schedlang.lowering import build

N = sl.var("n")


def graph(n=100):
    A = sl.placeholder((n, 40), name="A")
    k = sl.reduce_axis(40, name="k")
    B = sl.compute((n, 40), lambda y, x: A[y, x] * 2, name="B")
    C = sl.compute((n, 30), lambda i, j: sl.sum(B[i, k] + j, axis=k), name="C")
    s = sl.schedule(C)
    return {"s": s, "A": A, "B": B, "C": C, "k": k, "sl": sl,
            "i": C.op.axis[0], "j": C.op.axis[1], "y": B.op.axis[0], "x": B.op.axis[1]}  # fmt: skip


CUT = "io, ii = s[C].split(i, factor=24, tail='cut')"
ROWS = [
    # cut tails
    (CUT, "s[C].split(io, factor=2)", "split(i, ..., tail='cut') could no longer be cut: "
     "i.outer was turned into i.outer.outer and i.outer.inner"),
    (CUT, "s[C].split(io, factor=3, tail='cut')", "i.outer was turned into"),
    (CUT, "s[C].fuse(ii, j); s[C].fuse(io, s[C].leaf_axes[1])", "i.outer was turned into"),
    (CUT, "s[C].fuse(io, ii)", "i.outer was turned into i.outer.i.inner.fused"),
    (CUT, "s[C].reorder(ii, io)", "i.inner is not inside i.outer"),
    (CUT, "s[C].reorder(j, k, ii, io)", "i.inner is not inside i.outer"),
    (CUT, "s[C].tile(io, j, 2, 2)", "i.outer was turned into"),
    (CUT, "s[C].vectorize(io)", "i.outer is not a plain loop: it is vectorized"),
    (CUT, "s[C].unroll(io)", "i.outer is not a plain loop: it is unrolled"),
    (CUT, "s[C].bind(io, 'blockIdx.x')", "i.outer is not a plain loop: it is bound to blockIdx.x"),
    (CUT, "s[C].bind(ii, 'threadIdx.x')", "i.inner is bound to threadIdx.x"),
    ("", "s[C].tile(k, i, 8, 24, tail='cut'); s[C].fuse(*s[C].leaf_axes[:1])", None),
    ("s[B].compute_at(s[C], i)", "xo, xi = s[B].split(x, factor=7, tail='cut'); "
     "s[B].reorder(xi, xo)", "x.inner is not inside x.outer"),
    ("s[B].compute_at(s[C], i); xo, xi = s[B].split(x, factor=8, tail='cut')",
     "s[B].reorder(xi, xo)", None),
    # lanes
    ("s[C].vectorize(j)", "s[C].vectorize(i)", "would both be vectorized"),
    ("s[C].vectorize(i)", "s[C].vectorize(j)", "would both be vectorized"),
    ("s[B].vectorize(x); s[B].parallel(y)", "s[B].reorder(x, y)", "the parallel loop y would"),
    ("s[B].vectorize(y)", "s[B].parallel(x)", "would be inside the vectorized loop y"),
    ("s[B].parallel(x)", "s[B].vectorize(y)", "would be inside the vectorized loop y"),
    ("s[B].compute_at(s[C], i); s[C].vectorize(j)", "s[C].reorder(j, i)",
     "computed at i, inside the vectorized loop j"),
    ("s[B].compute_at(s[C], j)", "s[C].vectorize(i)", "computed at j, inside the vectorized loop "
                                                      "i"),
    # windows
    ("s[B].compute_at(s[C], j); s[B].store_root()", "s[C].parallel(i)", "same storage"),
    ("s[B].compute_at(s[C], j); s[B].store_root()", "s[C].bind(i, 'vthread')", "same storage"),
    ("s[B].compute_at(s[C], j); s[C].parallel(i)", "s[B].store_root()", "same storage"),
    ("s[B].compute_at(s[C], k); s[B].store_at(s[C], i)", "s[C].parallel(j)", "same storage"),
    ("s[B].compute_at(s[C], k); s[B].store_at(s[C], i)", "s[C].vectorize(j)", "vectorized loop j"),
    ("s[B].compute_at(s[C], k); s[B].store_at(s[C], i); s[C].parallel(i)", "s[C].reorder(j, i)",
     None),
    # threads of a CPU, of a GPU
    ("s[C].parallel(i)", "s[C].bind(j, 'threadIdx.x')", "no target has both"),
    ("s[B].bind(y, 'blockIdx.x')", "s[C].parallel(i)", "no target has both"),
    # loops that go back and forth
    ("s[B].compute_at(s[C], j); s[B].store_root(); s[C].reorder(j, i)",
     "s[C].pragma(j, 'serpentine')", "rows that are kept from one iteration to the next need one"),
    ("s[C].pragma(j, 'serpentine'); s[B].compute_at(s[C], j)", "s[B].store_root()",
     "rows that are kept from one iteration to the next need one"),
    ("s[C].pragma(j, 'serpentine')", "s[C].parallel(j)", "only a serial loop goes back"),
    ("s[C].vectorize(j)", "s[C].pragma(j, 'serpentine')", "only a serial loop goes back"),
    ("s[C].pragma(j, 'serpentine')", "s[C].prefetch(B, j, 1)", "which are the earlier ones"),
    ("s[C].prefetch(B, j, 1)", "s[C].pragma(j, 'serpentine')", "which are the earlier ones"),
    ("s[C].pragma(j, 'serpentine')", "s[C].prefetch(B, k, 1)", None),
    ("s[C].pragma(j, 'serpentine'); s[B].compute_at(s[C], j)", "s[C].split(i, factor=2)", None),
    # annotations that an inlined stage would lose
    ("s[B].pragma(x, 'serpentine')", "s[B].compute_inline()", "an inlined stage has no loops"),
    ("s[B].pragma(x, 'nontemporal')", "s[B].compute_inline()", "an inlined stage has no loops"),
    ("s[B].double_buffer()", "s[B].compute_inline()", "an inlined stage has no loops"),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "step", "match"), ROWS, ids=[f"{r[0]}; {r[1]}" for r in ROWS])
def test_step(taken, step, match):
    space = graph()
    exec(taken, space)
    if match is None:
        exec(step, space)
        sl.lower(space["s"])
        return
    *before, last = step.split("; ")
    exec("; ".join(before), space)
    s = space["s"]
    kept = str(s), s.to_json(), s.state
    with pytest.raises(ScheduleError) as caught:
        exec(last, space)
    assert match in str(caught.value)
    assert (str(s), s.to_json(), s.state) == kept
    # the accepted steps still lower
    sl.lower(s)


@pytest.mark.parametrize("step", ["vectorize", "unroll"])
def test_a_stage_whose_box_had_a_fixed_size(step):
    space = graph(N)
    s, B, C = space["s"], space["B"], space["C"]
    outer, _ = s[C].split(space["i"], factor=8)
    s[B].compute_at(s[C], outer)
    getattr(s[B], step)(space["y"])
    with pytest.raises(ScheduleError, match="at root its extent is n, which is known only at run"):
        s[B].compute_root()
    assert len(s.steps) == 3


@pytest.mark.parametrize("first", ["vectorize", "parallel"])
def test_a_parallel_loop_of_unknown_length_in_lanes(first):
    A = sl.placeholder((8, N), name="A")
    B = sl.compute((8, N), lambda i, j: A[i, j] * 2, name="B")
    s = sl.schedule(B)
    (i, j), steps = B.op.axis, ["vectorize", "parallel"]
    axes = dict(zip(steps, (i, j)))
    getattr(s[B], first)(axes.pop(first))
    ((last, axis),) = axes.items()
    with pytest.raises(ScheduleError, match="loop j would be inside the vectorized loop i"):
        getattr(s[B], last)(axis)


def test_a_block_of_unknown_size():
    A = sl.placeholder((N,), name="A")
    B = sl.compute((N,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    with pytest.raises(ScheduleError, match="and the size of a block is fixed"):
        s[B].bind(B.op.axis[0], "threadIdx.x")
    assert not s.steps


def test_nested_cuts_are_right():
    """A cut inside a tail, reordered inside its loop and parallel outside, gives right results."""
    space = graph()
    s, C, A = space["s"], space["C"], space["A"]
    io, ii = s[C].split(space["i"], factor=24, tail="cut")
    im, ii = s[C].split(ii, factor=5, tail="cut")
    s[C].reorder(io, im, space["j"], ii)
    s[C].parallel(io)
    s[C].vectorize(ii)
    a = np.random.default_rng(1).integers(0, 9, (100, 40)).astype("float32")
    wanted = sl.reference(C)(a)
    np.testing.assert_array_equal(sl.build(s, [A, C], target="python")(a), wanted)


def test_checks_of_cuts_build_the_nest_of_another_stage_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copies know what earlier checks proved: a step that breaks a cut stays refused."""
    planned: list[str] = []

    def counted(stage: Any, *args: Any, **named: Any) -> Any:
        planned.append(stage.name)
        return make_plan(stage, *args, **named)

    make_plan = build.make_plan
    monkeypatch.setattr(build, "make_plan", counted)
    A = sl.placeholder((60,), name="A")
    B = sl.compute((60,), lambda i: A[i] + 1, name="B")
    C = sl.compute((60,), lambda i: B[i] * 2, name="C")
    D = sl.compute((60,), lambda i: C[i] * 2, name="D")
    s = sl.schedule(D)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], factor=10)[0])
    over, inner = s[B].split(B.op.axis[0], factor=4, tail="cut")
    for _ in range(2):
        for step in ("vectorize", "unroll"):
            with pytest.raises(ScheduleError, match="an earlier tail='cut' could no longer be"):
                getattr(s.copy()[B], step)(over)
    before = planned.count("D"), planned.count("B")
    s[B].vectorize(inner)
    assert planned.count("D") == before[0] and planned.count("B") > before[1]
    a = np.arange(60, dtype="float32")
    np.testing.assert_array_equal(sl.build(s, [A, D], target="python")(a), (a + 1) * 4)
