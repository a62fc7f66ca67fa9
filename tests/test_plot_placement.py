"""The numbers behind pictures of placement and of stage graphs, by hand and against sl.cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import PlotError
from schedlang.plot.stored_elements import Placed
from tests.browser import needs_browser, opened
from tests.graphs import blur, chain, matmul, recurrence, scaled


def at(what: Any, *which: Any, **options: Any) -> Placed:
    return sl.plot.placement(what, *which, **options).data[0]


def stencil(where: str) -> sl.Schedule:
    """Return ``C[i] = B[i] + B[i + 1] + B[i + 2]`` of 8 elements, with ``B`` at a place."""
    _, B, C = chain(8)
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    if where == "inline":
        s[B].compute_inline()
    elif where in ("outer", "window in a tile"):
        s[B].compute_at(s[C], outer if where == "outer" else inner)
    elif where == "window":
        s[B].compute_at(s[C], inner)
        s[B].store_root()
    if where == "window in a tile":
        s[B].store_at(s[C], outer)
    return s


# at C[5], the second element of the second tile of 4
@pytest.mark.parametrize(
    ("where", "text", "earlier", "now", "stored", "computed", "size"),
    [
        ("root", "compute_root", [1] * 10, [0] * 10, range(10), 10, 40),
        ("inline", "inline", [1, 2, 3, 3, 3, 2, 1, 0, 0, 0], [0] * 5 + [1] * 3 + [0] * 2, [], 24,
         0),
        ("outer", "compute_at i.outer of C", [1] * 6 + [0] * 4, [0] * 4 + [1] * 6, range(4, 10), 12,
         24),
        ("window in a tile", "compute_at i.inner of C, store_at i.outer of C",
         [1] * 4 + [2] * 2 + [1] + [0] * 3, [0] * 7 + [1, 0, 0], range(4, 8), 12, 16),
    ],
)  # fmt: skip
def test_a_stencil_at_every_placement(
    where: str, text: str, earlier: list[int], now: list[int], stored: Any, computed: int, size: int
) -> None:
    found = at(stencil(where), element=5)
    assert (found.producer, found.consumer, found.where) == ("B", "C", text)
    assert found.earlier.tolist() == earlier and found.now.tolist() == now
    assert np.flatnonzero(found.stored).tolist() == list(stored)
    assert np.flatnonzero(found.read).tolist() == [5, 6, 7]
    assert (found.computed, found.distinct, found.bytes) == (computed, 10, size)
    assert np.flatnonzero(found.consumer_now).tolist() == [5]
    assert np.flatnonzero(found.consumer_earlier).tolist() == [0, 1, 2, 3, 4]
    assert found.reused == (where == "window in a tile")


def test_a_folded_window_keeps_the_last_row_of_each_place() -> None:
    A, B, C = chain(8)
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].store_root()
    # three rows are in use, and a ring has 4: B[0] and B[1] are overwritten by B[4] and B[5]
    found = at(s, element=3)
    assert np.flatnonzero(found.stored).tolist() == [2, 3, 4, 5] and found.bytes == 16
    assert found.now.tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0] and found.reused


def test_loops_that_both_share_have_their_iterations() -> None:
    found = at(stencil("outer"), element=5)
    assert found.loops == (("i.outer", 1),)
    assert np.flatnonzero(found.consumer_iteration).tolist() == [4, 5, 6, 7]
    assert at(stencil("root")).loops == () and not at(stencil("root")).consumer_iteration.any()


@pytest.mark.parametrize("where", ["root", "outer", "window", "window in a tile"])
def test_evaluations_are_those_of_the_cost(where: str) -> None:
    s = stencil(where)
    stores = {b.name: int(b.stores) for b in sl.cost(s).buffers}
    assert at(s).computed == stores["B"]


def test_a_reduction_reads_its_producer_term_by_term() -> None:
    graph = matmul()
    s = graph["s"]
    found = at(s, "D", "C", element=(3, 5))
    assert np.argwhere(found.read).tolist() == [[3, 0]]
    s[graph["D"]].compute_at(s[graph["C"]], graph["k"])
    found = at(s, "D", "C", element=(3, 5))
    assert found.loops == (("i", 3), ("j", 5), ("k", 0)) and found.bytes == 4
    # computed before for the columns 0 to 4 of C
    assert found.earlier[3, 0] == 5 and np.argwhere(found.now).tolist() == [[3, 0]]
    s[graph["D"]].compute_inline()
    inlined = at(s, "D", "C", element=(3, 5))
    # each row of D for each of 48 columns of C
    assert inlined.computed == 64 * 48 * 32 and inlined.now.sum() == 32
    assert inlined.earlier[3].tolist() == [5] * 32 and inlined.earlier[2].tolist() == [48] * 32


def test_inlined_stages_between_are_followed() -> None:
    A, B, C = chain(6)
    D = sl.compute((4,), lambda i: C[i] + C[i + 2], name="D")
    s = sl.schedule(D)
    s[B].compute_inline()
    s[C].compute_inline()
    found = at(s, B, D, element=0)
    # D[0] reads C[0] and C[2], which read B[0..3) and B[2..5)
    assert found.now.tolist() == [1, 1, 2, 1, 1, 0, 0, 0]
    assert at(s).producer == "C" and at(s, "B").consumer == "D"


def test_the_lanes_of_a_vector_are_one_step() -> None:
    H, V = blur()
    s = sl.schedule(V)
    outer, lanes = s[V].split(V.op.axis[1], factor=8)
    s[V].vectorize(lanes)
    s[H].compute_at(s[V], V.op.axis[0])
    found = at(s, element=(2, 3))
    assert np.argwhere(found.consumer_now).tolist() == [[2, x] for x in range(8)]
    assert np.flatnonzero(found.read.any(axis=1)).tolist() == [2, 3, 4]


def test_refusals_name_the_stages() -> None:
    A, B, C = chain(8)
    with pytest.raises(PlotError, match="choose one of B, C"):
        at(C, "Z")
    with pytest.raises(PlotError, match=r"C has the shape \(8,\)"):
        at(C, element=8)
    with pytest.raises(PlotError, match="no stage outside of scans reads C"):
        at(C, "C")
    with pytest.raises(PlotError, match="one stage, B, and no producer"):
        at(scaled(4)[1])
    with pytest.raises(PlotError, match="give its schedule"):
        at(sl.lower(sl.schedule(C)))
    with pytest.raises(PlotError, match="Declare the computation at a smaller size"):
        at(chain(2_100_000)[2])
    inlined = stencil("inline")
    D = sl.compute((8,), lambda i: C[i] + 1, name="D")
    s = sl.schedule(D)
    s[C].compute_inline()
    with pytest.raises(PlotError, match="it is inlined; choose a stage that is stored"):
        at(s, "B", "C")
    assert at(inlined).where == "inline"
    with pytest.raises(PlotError, match="D does not read D"):
        at(D, "D", "D")


def test_each_output_of_a_tuple_names_its_stage() -> None:
    A = sl.placeholder((6,), name="A")
    low, high = sl.compute((6,), lambda i: (A[i] - 1, A[i] + 1), name="B")
    C = sl.compute((6,), lambda i: low[i] * high[i], name="C")
    assert at(C, low).producer == at(C, high).producer == "B"


def test_scans_are_left_out() -> None:
    with pytest.raises(PlotError, match="stage outside of scans reads"):
        at(recurrence()["s"], "out")
    with pytest.raises(PlotError, match="choose one of twice, out"):
        at(recurrence()["s"], "first")


def test_boxes_of_the_stage_graph() -> None:
    H, V = blur()
    s = sl.schedule(V)
    outer, _ = s[V].split(V.op.axis[0], factor=8)
    s[H].compute_at(s[V], outer)
    found = {box.name: box for box in sl.plot.stages(s).data}
    assert [found[name].layer for name in ("X", "H", "V")] == [0, 1, 2]
    # 10 rows of 64 floats at a time, of 66
    assert found["H"].lines == ("float32[66, 64]", "2560 B of 16.5 KiB", "at y.outer of V")
    assert found["V"].output and found["X"].computed == "input"
    plain = {box.name: box.lines for box in sl.plot.stages(V).data}
    assert plain["H"] == ("float32[66, 64]", "16.5 KiB")


def test_a_graph_of_many_stages_is_refused() -> None:
    tensor = sl.placeholder((4,), name="A")
    for k in range(41):
        source = tensor
        tensor = sl.compute((4,), lambda i, source=source: source[i] + 1, name=f"T{k}")
    with pytest.raises(PlotError, match="42 stages, and a picture 40"):
        sl.plot.stages(tensor)


def five(size: int = 4) -> dict[str, sl.Schedule]:
    """Return five placements of a producer of which each of ``size`` squared points reads four."""
    P = sl.compute((size + 1, size + 1), lambda y, x: sl.sin(x * y), name="P")
    C = sl.compute(
        (size, size), lambda y, x: P[y, x] + P[y + 1, x] + P[y, x + 1] + P[y + 1, x + 1], name="C"
    )
    y, x = C.op.axis
    schedules = {name: sl.schedule(C) for name in ("root", "inline", "row", "window", "least")}
    schedules["inline"][P].compute_inline()
    for name, loop in (("row", y), ("window", y), ("least", x)):
        schedules[name][P].compute_at(schedules[name][C], loop)
    for name in ("window", "least"):
        schedules[name][P].store_root()
    return schedules


def test_a_placement_moves_through_all_elements() -> None:
    picture = sl.plot.placement(five(), moves=True)
    steps = dict(zip(five(), picture.movie.steps))
    so_far = {
        name: [int((s.earlier + s.now).sum()) for s in every] for name, every in steps.items()
    }
    assert so_far["root"] == [25] * 16
    assert so_far["inline"] == list(range(4, 65, 4))
    assert so_far["row"] == [n for n in (10, 20, 30, 40) for _ in range(4)]
    assert so_far["window"] == [n for n in (10, 15, 20, 25) for _ in range(4)]
    # the first row needs 2 by 2 elements, then columns of 2; later rows what is new of them
    assert so_far["least"] == [4, 6, 8, 10, 12, 13, 14, 15, 17, 18, 19, 20, 22, 23, 24, 25]
    assert [s.element for s in steps["least"]] == list(np.ndindex(4, 4))
    # the still picture is that of the element in the middle
    assert [one.element for one in picture.data] == [(2, 2)] * 5


def test_the_steps_are_in_the_order_of_the_schedule() -> None:
    A = sl.placeholder((4, 4), name="A")
    B = sl.compute((4, 4), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((4, 4), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    s[C].reorder(*reversed(C.op.axis))
    (steps,) = sl.plot.placement(s, moves=True).movie.steps
    assert [step.element for step in steps] == [(i, j) for j in range(4) for i in range(4)]
    large = sl.compute((40, 40), lambda i, j: sl.sin(i * j), name="large")
    reader = sl.compute((40, 40), lambda i, j: large[i, j] + 1, name="reader")
    with pytest.raises(PlotError, match="reader has 1,600 elements, and a picture that moves"):
        sl.plot.placement(reader, moves=True)


@pytest.mark.slow
@needs_browser
def test_a_placement_plays_in_a_page(tmp_path: Path) -> None:
    """The cells of a step have the colours of what the placement computes and keeps there."""
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    picture = sl.plot.placement(five(), moves=True)
    script = """<script>
      const slider = document.querySelector(".schedlang-placement input"), found = [];
      for (const at of [0, 5, 15]) {
        slider.value = at; slider.dispatchEvent(new Event("input"));
        found.push([...document.querySelectorAll(".schedlang-placement figure")].map((f) =>
          [...f.querySelectorAll("svg")].map((svg) => ["k1", "k2", "k3", "stored"].map((name) =>
            svg.querySelectorAll("." + name).length).concat(
            svg.querySelectorAll(".read").length))));
      }
      document.title = JSON.stringify(found);
    </script></body>"""
    path = picture.save(tmp_path / "placement.html")
    page = path.read_text("utf-8")
    path.write_text(page.replace("</body>", script), "utf-8")
    result = opened(path)
    assert not result.console
    for at, panels in zip((0, 5, 15), json.loads(result.title)):
        for steps, (above, below) in zip(picture.movie.steps, panels):
            one = steps[at]
            again = (one.now > 1) | ((one.now > 0) & (one.earlier > 0))
            wanted = [
                ((one.earlier > 0) & (one.now == 0)).sum(), ((one.now == 1) & ~again).sum(),
                again.sum(), one.stored.sum(), one.read.sum(),
            ]  # fmt: skip
            assert above == wanted, (at, one.title)
            assert below[0] + below[1] == at and below[2:] == [0, 0, 1]


@pytest.mark.slow
def test_a_placement_moves_in_a_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    schedules = {name: s for name, s in five(2).items() if name in ("row", "least")}
    path = sl.plot.placement(schedules, moves=True).save(tmp_path / "placement.gif")
    with image.open(path) as movie:
        assert movie.n_frames == 4
