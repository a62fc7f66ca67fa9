"""The numbers behind pictures of iteration order, by hand and against the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeTypeError, PlotError
from schedlang.ir.interpret import interpret
from schedlang.ir.nodes import Buffer
from schedlang.ir.scalars import HELPERS
from schedlang.plot import timeline
from schedlang.plot.borders import lines_of
from schedlang.plot.touches import Touches
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.record import Case
from tests.fuzz.search import schedule_randomly
from tests.graphs import blur, chain, product, scaled


def order(what: Any, buffer: Any = None, **options: Any) -> Touches:
    return sl.plot.iteration_order(what, buffer, **options).data[0]


def tiled(n: int, tile: int) -> sl.Schedule:
    _, C = scaled(n, n)
    s = sl.schedule(C)
    s[C].tile(*C.op.axis, tile, tile)
    return s


def test_tiles_of_a_4_by_4_array() -> None:
    found = order(tiled(4, 2))
    assert found.first.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert found.steps == 16 and (found.count == 1).all()
    levels = {level.loop: level.iteration.tolist() for level in found.levels}
    assert levels["i.outer"] == [[0] * 4, [0] * 4, [1] * 4, [1] * 4]
    assert levels["j.inner"] == [[0, 1, 0, 1]] * 4
    assert [(level.loop, line) for level, line in lines_of(found)] == [
        ("i.outer", 0), ("j.outer", 0)
    ]  # fmt: skip


def test_a_reduction_starts_then_adds() -> None:
    A, B, C = product(2, 2, 3)
    found = order(C)
    # an element takes a step for its start and three for k
    assert found.first.tolist() == [[0, 4], [8, 12]]
    assert found.last.tolist() == [[3, 7], [11, 15]]
    assert found.steps == 16 and (found.count == 4).all()
    operand = order(C, "B")
    assert operand.first.tolist() == [[1, 5], [2, 6], [3, 7]]
    assert operand.last.tolist() == [[9, 13], [10, 14], [11, 15]]
    assert order(C, "C", access="load").first.tolist() == [[1, 5], [9, 13]]
    with pytest.raises(PlotError, match="never stores to A"):
        order(C, A, access="store")


def test_lanes_take_a_step_together_and_steps_in_order() -> None:
    _, C = scaled(2, 8)
    s = sl.schedule(C)
    outer, lanes = s[C].split(C.op.axis[1], factor=4)
    s[C].vectorize(lanes)
    found = order(s)
    assert found.first.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1], [2, 2, 2, 2, 3, 3, 3, 3]]
    assert found.steps == 4
    assert found.frames(2).tolist() == [[[True] * 8, [False] * 8], [[False] * 8, [True] * 8]]


def test_gpu_threads_take_a_step_together() -> None:
    _, C = scaled(2, 4)
    s = sl.schedule(C)
    s[C].bind(C.op.axis[1], "threadIdx.x")
    picture = sl.plot.iteration_order(s)
    assert picture.data[0].first.tolist() == [[0] * 4, [1] * 4]
    assert "GPU threads take one step together." in picture.caption


def test_guarded_iterations_take_no_step() -> None:
    _, C = scaled(5)
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=3, tail="guard")
    s[C].reorder(inner, outer)
    # inner 0: 0, 3; inner 1: 1, 4; inner 2: 2, and 5 is skipped
    assert order(s).first.tolist() == [0, 2, 4, 1, 3]
    assert order(s).steps == 5


def test_a_box_is_drawn_at_its_place_in_the_tensor() -> None:
    A, B, C = chain(4)
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=2)
    s[B].compute_at(s[C], outer)
    found = order(s, B, access="store")
    # 4 elements of B, 2 of C, and again: elements 2 and 3 are computed twice
    assert found.first.tolist() == [0, 1, 2, 3, 8, 9]
    assert found.last.tolist() == [0, 1, 6, 7, 8, 9]
    assert found.count.tolist() == [1, 1, 2, 2, 1, 1]


def test_updates_that_a_condition_skips_take_no_step() -> None:
    A = sl.placeholder((4, 4), name="A")
    k = sl.reduce_axis(4, name="k")
    C = sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k, where=k <= i), name="C")
    assert order(C, A).first.tolist() == [
        [1, -1, -1, -1], [3, 4, -1, -1], [6, 7, 8, -1], [10, 11, 12, 13]
    ]  # fmt: skip


Record = list[tuple[str, int]]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Record]:
    """Return a function that runs a nest in the interpreter and lists the stores to a buffer."""
    seen: Record = []

    def recording(helper: Callable[..., None]) -> Callable[..., None]:
        def store(memory: Any, *rest: Any) -> None:
            *index, _ = rest
            flat = np.ravel_multi_index([int(i) for i in index], memory.shape) if index else 0
            seen.append((memory.name, int(flat)))
            helper(memory, *rest)

        return store

    # the interpreter runs the lanes of a vector one after the other
    monkeypatch.setattr(timeline, "TOGETHER", ())
    for name, helper in list(HELPERS.items()):
        if name.startswith(("store", "final")):
            monkeypatch.setitem(HELPERS, name, recording(helper))

    def run(nest: sl.Nest, args: Any) -> Record:
        seen.clear()
        interpret(nest, args, complete=False)
        return list(seen)

    return run


def inputs_of(nest: sl.Nest) -> list[np.ndarray]:
    given = [a for a in nest.args if isinstance(a, Buffer) and a not in nest.outputs]
    return [np.ones(a.shape, a.dtype) for a in given]  # type: ignore[arg-type]


def agree(found: Touches, run: Record) -> None:
    """Check that the stores of an output are those of the interpreter, in its order."""
    assert found.elements.tolist() == [flat for name, flat in run if name == found.buffer]


@pytest.mark.parametrize("kind", ["cut", "guard", "reordered", "fused", "window", "scan"])
def test_stores_are_in_the_interpreters_order(kind: str, recorded: Any) -> None:
    if kind == "window":
        H, V = blur()
        s = sl.schedule(V)
        outer, _ = s[V].split(V.op.axis[0], factor=16)
        s[H].compute_at(s[V], s[V].leaf_axes[1])
        s[H].store_at(s[V], outer)
    elif kind == "scan":
        X = sl.placeholder((4, 3), name="X")
        S = sl.placeholder((4, 3), name="S")
        first = sl.compute((1, 3), lambda t, i: X[0, i], name="first")
        step = sl.compute((4, 3), lambda t, i: S[t - 1, i] + X[t, i], name="step")
        s = sl.schedule(sl.scan(first, step, S, inputs=[X], name="R"))
    else:
        _, _, C = product(7, 10, 3)
        s = sl.schedule(C)
        i, j = C.op.axis
        if kind == "fused":
            s[C].split(s[C].fuse(i, j), factor=8, tail="guard")
        else:
            tail = "guard" if kind == "reordered" else kind
            io, ii = s[C].split(i, factor=4, tail=tail)
            jo, ji = s[C].split(j, factor=4, tail=tail)
            s[C].reorder(*((io, jo, C.op.reduce_axis[0], ii, ji) if tail == "guard" else (io, ii)))
            s[C].vectorize(ji)
    nest = s.nest()
    found = order(s, access="store")
    run = recorded(nest, inputs_of(nest))
    agree(found, run)
    assert found.steps == len(run)


def test_random_schedules_are_in_the_interpreters_order(recorded: Any) -> None:
    checked = 0
    for number in range(12):
        rng = Random(f"plot:{number}")
        case = Case(str(number), random_graph(rng, symbolic=0.0))
        space = build(case.graph)
        s = schedule_randomly(rng, case, [space[n] for n in case.graph.outputs], False)
        nest = s.nest()
        if nest.sizes or not all(isinstance(a, Buffer) for a in nest.args):
            continue
        try:
            found = order(s, access="store")
        except PlotError as error:
            # indices that read tensors
            assert "values of" in str(error)
            continue
        if not found.cut:
            agree(found, recorded(nest, inputs_of(nest)))
            checked += 1
    assert checked >= 6


def test_large_spaces_are_drawn_in_part() -> None:
    A, B, C = product(1024, 1024, 1024)
    s = sl.schedule(C)
    s[C].tile(*C.op.axis, 32, 32)
    found = order(s)
    kept = {cut.loop: (cut.kept, cut.extent) for cut in found.cut}
    assert kept == {"i.outer": (4, 32), "j.outer": (4, 32), "k": (4, 1024)}
    assert found.first.shape == (128, 128) and (found.first >= 0).all()
    # whole tiles: the second begins after 32*32 elements of 1 + 4 steps
    assert found.first[0, 32] == 32 * 32 * 5
    caption = sl.plot.iteration_order(s).caption
    assert "4 of 32 of i.outer" in caption and "4 of 1,024 iterations of k" in caption


def test_storage_in_a_loop_that_is_cut_into_edges() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    C = sl.compute((64,), lambda i: B[i] + A[sl.max(i - 1, 0)], name="C")
    s = sl.schedule(C)
    outer, lanes = s[C].split(C.op.axis[0], 8)
    s[C].vectorize(lanes)
    s[B].compute_at(s[C], outer)
    # the first iteration alone clamps its lanes
    assert "for i.outer in 0..7" in str(s)
    at = np.arange(64)
    # eight steps for B, then one for the lanes of C
    assert (order(s, B, access="store").first == 9 * (at // 8) + at % 8).all()


def test_arrays_are_as_large_as_what_is_drawn() -> None:
    """Of 2^28 elements that are read backwards, the last rows are drawn."""
    n = 2**14
    A = sl.placeholder((n, n), name="A")
    C = sl.compute((n, n), lambda i, j: A[n - 1 - i, j], name="C")
    picture = sl.plot.iteration_order(C, [C, A])
    written, read = picture.data
    rows, columns = written.first.shape
    assert rows * columns <= 2**14 and written.origin == (0, 0)
    assert read.first.shape == (rows, columns) and read.origin == (n - rows, 0)
    assert (read.first == written.first[::-1]).all() and (read.count == 1).all()
    far = sl.compute((64, 64), lambda i, j: A[i * 256, j * 256], name="far")
    with pytest.raises(PlotError, match="box of 16,129 x 16,129, and a picture has room for"):
        sl.plot.iteration_order(far, A)


def test_sizes_need_numbers() -> None:
    n = sl.var("n")
    A = sl.placeholder((n, n), name="A")
    C = sl.compute((n, n), lambda i, j: A[j, i], name="C")
    assert order(C, sizes={n: 3}).first.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    with pytest.raises(PlotError, match=r'sizes=\{"n": 32\}'):
        order(C)
    with pytest.raises(PlotError, match="a size is 1 or more"):
        order(C, sizes={"n": 0})
    with pytest.raises(PlotError, match=r"sizes=\[3\]\): sizes is not a mapping"):
        order(C, sizes=[3])
    with pytest.raises(PlotError, match="give at least one buffer"):
        sl.plot.iteration_order(C, [], sizes={"n": 3})


def test_data_that_decide_the_order_are_refused() -> None:
    P = sl.placeholder((4,), "int64", name="P")
    A = sl.placeholder((4,), name="A")
    C = sl.compute((4,), lambda i: A[P[i]], name="C")
    assert order(C).first.tolist() == [0, 1, 2, 3]
    with pytest.raises(PlotError, match="depends on the values of P"):
        order(C, A)


def test_refusals_say_what_to_give() -> None:
    _, C = scaled(4)
    with pytest.raises(PlotError, match="Its buffers are A, B"):
        order(C, "Z")
    with pytest.raises(PlotError, match='choose "first" or "last"'):
        order(C, touch="middle")
    with pytest.raises(PlotError, match="choose one of touch, store, load"):
        order(C, access="read")
    with pytest.raises(ComputeTypeError, match="not a schedule, a tensor, a nest or a kernel"):
        order(3)
    with pytest.raises(ComputeTypeError, match="give at least one schedule"):
        order({})


def test_kernels_and_nests_are_drawn_too() -> None:
    s = tiled(4, 2)
    wanted = order(s).first.tolist()
    assert order(s.nest()).first.tolist() == wanted
    assert order(sl.build(s, target="python")).first.tolist() == wanted
