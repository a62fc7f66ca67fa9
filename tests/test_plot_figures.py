"""Pictures are drawn, saved and shown: every kind, the same each time, and safe in a page."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.record import Trial
from schedlang.autotune.result import TuningResult
from schedlang.errors import ComputeTypeError, MissingExtraError, PlotError, RaceError
from schedlang.networks.partition import partition
from schedlang.runtime.ceilings import Ceilings
from schedlang.runtime.evaluate import Evaluation
from schedlang.runtime.profile import OTHER, WAITING, Part, Profile
from tests.graphs import blur, matmul, product, scaled
from tests.networks import mlp
from tests.test_notebook import checked
from tests.test_plot_gpu import one_thread_each, shared_tile
from tests.test_tuning_report import HOSTILE, facts

pytestmark = pytest.mark.slow

Draw = Callable[[], sl.plot.Picture]


def tiles(name: str = "C") -> sl.Schedule:
    A = sl.placeholder((8, 8), name="A")
    C = sl.compute((8, 8), lambda i, j: A[j, i], name=name)
    s = sl.schedule(C)
    s[C].tile(*C.op.axis, 4, 4)
    return s


def stencils() -> dict[str, sl.Schedule]:
    found: dict[str, sl.Schedule] = {}
    H, V = blur()
    for where in ("root", "inline", "at"):
        s = found[where] = sl.schedule(V)
        if where == "inline":
            s[H].compute_inline()
        elif where == "at":
            s[H].compute_at(s[V], V.op.axis[0])
    return found


def timed(gflops: float, gbps: float, **more: Any) -> Evaluation:
    return Evaluation(0.001, 0.0, 0.001, 5, gflops=gflops, gbps=gbps, **more)


def roofline() -> sl.plot.Picture:
    measured = {"slow": timed(2.0, 0.1), "fast": timed(60.0, 3.0), "copy": timed(1.0, 10.0)}
    return sl.plot.roofline(measured, ceilings=Ceilings(100.0, 20.0))


def searched() -> TuningResult:
    trials = [
        Trial(k, "ok" if k % 5 else "crashed", "", seconds=0.001 * (1 + k % 3) if k % 5 else None,
              decisions={"C.rows": 2 + k % 3, "C.order": [[0, 1], [1, 0]][k % 2]})
        for k in range(12)
    ]  # fmt: skip
    made: Any = None
    return TuningResult(made, made, trials[0], facts(trials))


def profiles() -> dict[str, Profile]:
    """Return the times of a call whose two threads share 3 strips, and of one on a thread."""
    across = Part("y", "across", "serial", 1, 4e-3, 4e-3, 3)
    strip = Part("strip", "blurred", "parallel", 0, 9e-3, 5e-3, 1, (9e-3, 4.5e-3))
    many = {f"stage {k}": 1e-3 for k in range(6)}
    return {
        "two threads": Profile("blurred", "cpu", 10e-3, 10e-3, {"across": 4e-3, "blurred": 5e-3},
                               1e-3, 0.0, (strip, across), 0.0, 5),
        "one thread": Profile("blurred", "cpu", 20e-3, 20e-3, {**many, "blurred": 13e-3},
                              0.0, 1e-3, (), 0.0, 5),
    }  # fmt: skip


def raced() -> RaceError:
    """Return the race of a transpose of 3 by 3 elements through shared memory, on one block."""
    A = sl.placeholder((3, 3), name="A")
    B = sl.compute((1, 3, 3), lambda b, i, j: A[j, i] + 1, name="B")
    s = sl.schedule(B)
    S = s.cache_read(A, "shared", [B])
    b, i, j = B.op.axis
    s[S].compute_at(s[B], b)
    for axis, name in ((b, "blockIdx.x"), (i, "threadIdx.y"), (j, "threadIdx.x")):
        s[B].bind(axis, name)
    for axis, name in zip(S.op.axis, ("threadIdx.y", "threadIdx.x")):
        s[S].bind(axis, name)
    f = sl.build(s, target="cuda-emulator", barriers=False)
    with pytest.raises(RaceError) as caught:
        f.check(np.ones((3, 3), "float32"))
    return caught.value


PICTURES: dict[str, Draw] = {
    "profile": lambda: sl.plot.profile(profiles()),
    "profile of one": lambda: sl.plot.profile(profiles()["two threads"]),
    "race": lambda: sl.plot.race(raced()),
    "order": lambda: sl.plot.iteration_order({"rows": product(8, 8, 2)[2], "tiles": tiles()}),
    "operands": lambda: sl.plot.iteration_order(tiles(), ["A", "C"], common=True, touch="last"),
    "placement": lambda: sl.plot.placement(stencils()),
    "stages": lambda: sl.plot.stages(matmul()["s"]),
    "partition": lambda: sl.plot.partition(partition(mlp()[0])),
    "coalescing": lambda: sl.plot.coalescing({"a": one_thread_each(True), "b": tiles_on_gpu()}),
    "banks": lambda: sl.plot.banks({"plain": shared_tile(), "padded": shared_tile(1)}),
    "threads": lambda: sl.plot.threads(one_thread_each(False)),
    "fragments": lambda: sl.plot.fragments(sl.instructions.mma_tf32),
    "roofline": roofline,
    "search": lambda: sl.plot.search(searched()),
}


def tiles_on_gpu() -> sl.Schedule:
    _, B = scaled(64)
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    return s


def overlaps(figure: Any) -> list[tuple[str, str]]:
    """Return the texts of a figure that cover each other, or that leave it."""
    from matplotlib.text import Text

    shown: list[Any] = []
    draw = Text.draw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", lambda t, *rest: (shown.append(t), draw(t, *rest))[1])
        figure.draw_without_rendering()
    # the layout is found in a first pass
    every = {id(t): t for t in shown if t.get_visible() and t.get_text().strip()}
    boxes = [(t.get_text(), t.get_window_extent()) for t in every.values()]
    whole = figure.bbox
    found = [
        (text, "the edge")
        for text, box in boxes
        if box.x0 < -1 or box.y0 < -1 or box.x1 > whole.x1 + 1 or box.y1 > whole.y1 + 1
    ]
    for k, (text, box) in enumerate(boxes):
        for other, beside in boxes[:k]:
            wide = min(box.x1, beside.x1) - max(box.x0, beside.x0)
            high = min(box.y1, beside.y1) - max(box.y0, beside.y0)
            if wide > 1.5 and high > 1.5:
                found.append((text, other))
    return found


def within(picture: sl.plot.Picture) -> str:
    """Return a picture as HTML, which is well-formed and asks for nothing from elsewhere."""
    html = picture._repr_html_()
    # parts of one SVG name each other
    checked(html.replace("url(#", "("))
    return html


@pytest.mark.parametrize("name", PICTURES)
def test_every_kind_is_drawn_with_its_caption(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = PICTURES[name]()
    path = picture.save(tmp_path / "a.png")
    assert 10_000 < path.stat().st_size < 150_000
    written = " ".join(t.get_text() for t in picture.figure.texts)
    assert picture.title in written
    assert "".join(picture.caption.split()) in "".join(written.split())
    assert overlaps(picture.figure) == []
    within(picture)


@pytest.mark.parametrize("kind", ["png", "svg", "html", "gif"])
def test_two_runs_write_the_same_file(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = [PICTURES["order"]().save(tmp_path / f"{k}.{kind}").read_bytes() for k in range(2)]
    assert made[0] == made[1]


def test_the_animation_ends_with_every_element(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from PIL import Image

    path = sl.plot.iteration_order(tiles()).save(tmp_path / "order.gif")
    with Image.open(path) as film:
        count = int(getattr(film, "n_frames"))  # noqa: B009 - not among PIL's types
        assert count == 41
        red = []
        for number in (0, count - 1):
            film.seek(number)
            colours = film.convert("RGB").getcolors(2**24) or []
            lit = [n for n, rgb in colours if rgb[0] > 190 and rgb[1] < 120 and rgb[2] < 40]
            red.append(sum(lit))
    # what is touched now is red, and nothing is at the end
    assert red[0] > 100 and red[1] == 0


def test_a_profile_adds_up_and_says_what_it_leaves_out() -> None:
    two, one = sl.plot.profile(profiles()).data
    assert two.parts == {"across": 4e-3, "blurred": 5e-3, WAITING: 1e-3}
    assert one.parts["blurred"] == 13e-3 and one.parts[OTHER] == 1e-3
    assert [(loop.title, loop.threads) for loop in two.loops] == [
        ("strip of blurred", (9e-3, 4.5e-3))
    ]
    assert one.loops == ()
    # across, blurred and 6 others: two get no colour
    caption = sl.plot.profile(profiles()).caption
    assert "The 6 longest stages have a colour; 2 more are grey." in caption
    assert "how long each thread" in caption
    assert "how long each thread" not in sl.plot.profile([profiles()["one thread"]]).caption
    with pytest.raises(ComputeTypeError, match="profile.Evaluation.: it is not what f.profile ret"):
        sl.plot.profile(timed(1.0, 1.0))
    with pytest.raises(ComputeTypeError, match="not what f.profile returns"):
        sl.plot.profile([])
    with pytest.raises(PlotError, match="has no time"):
        sl.plot.profile(replace(profiles()["one thread"], seconds=0.0))


def test_a_race_names_every_access_around_its_element() -> None:
    error = raced()
    # thread 3 wrote element [1, 0], which thread 1 reads; all nine elements are near
    assert error.element == (1, 0) and error.threads == ((3, 0), (1, 0))
    found = sl.plot.race(error).data
    assert str(found) == (
        "thread 3 of block 0 wrote A.shared[1, 0], and thread 1 of block 0 reads it, without a "
        "barrier in between (stage B)"
    )
    wrote = {a.thread[0]: a.element for a in found.accesses if a.what == "wrote"}
    reads = {a.thread[0]: a.element for a in found.accesses if a.what == "reads"}
    # thread 3*i + j wrote [i, j] and reads [j, i]
    assert wrote == {3 * i + j: (i, j) for i in range(3) for j in range(3)}
    assert reads == {3 * i + j: (j, i) for i in range(3) for j in range(3)}
    grid = found.grid
    assert grid.elements == tuple((i, j) for i in range(3) for j in range(3))
    assert grid.pair == ((3, 3), (1, 3)) and grid.threads == tuple((k, 0) for k in range(9))
    # the element [1, 1] is written and read by thread 4
    assert grid.cells[4, 4] == "reads" and grid.cells[3, 3] == "wrote"
    # a notebook shows the grid, after pickling too
    shown = pickle.loads(pickle.dumps(error))._repr_mimebundle_()
    assert "without a barrier" in shown["text/plain"]
    page = checked(shown["text/html"])
    assert "thread 8 of block 0" in page.text and shown["text/html"].count('stroke="#d55e00"') == 2
    with pytest.raises(ComputeTypeError, match=r"race\(ValueError\): it is not a RaceError"):
        sl.plot.race(ValueError("no"))  # type: ignore[arg-type]
    with pytest.raises(PlotError, match="does not say which threads"):
        sl.plot.race(RaceError("lost", "S", (0,), None, (0, 0)))


def test_names_and_titles_are_escaped() -> None:
    pytest.importorskip("matplotlib")
    for picture in (
        sl.plot.profile({HOSTILE: profiles()["two threads"]}),
        sl.plot.iteration_order({HOSTILE: tiles()}),
        sl.plot.placement({HOSTILE: stencils()["at"]}),
        sl.plot.roofline({HOSTILE: timed(1.0, 1.0)}, ceilings=Ceilings(2.0, 2.0)),
    ):
        html = within(picture)
        assert "alert(1)</script>" not in html and "<script>alert" not in html


def test_styles_of_the_user_stay_and_do_not_count(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    plain = sl.plot.stages(tiles()).save(tmp_path / "a.png").read_bytes()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        styled = sl.plot.stages(tiles()).save(tmp_path / "b.png").read_bytes()
        assert matplotlib.rcParams["font.size"] == 30
    assert styled == plain


def test_a_missing_matplotlib_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = sl.plot.iteration_order(tiles())
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert picture.data[0].steps == 64
    for show in (lambda: picture.figure, picture._repr_html_, lambda: picture.save("a.gif")):
        with pytest.raises(MissingExtraError, match=r'pip install "schedlang\[viz\]"') as caught:
            show()
        assert "\n" not in str(caught.value)


def test_importing_draws_nothing() -> None:
    script = (
        "import sys, schedlang as sl\n"
        "assert 'schedlang.plot' not in sys.modules\n"
        "sl.plot.iteration_order\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_saving_says_what_it_cannot_do(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = sl.plot.stages(tiles())
    with pytest.raises(PlotError, match=r"End the name in \.png, \.svg, \.pdf or \.html"):
        picture.save(tmp_path / "a.gif")
    with pytest.raises(PlotError, match="No such file or directory"):
        picture.save(tmp_path / "nowhere" / "a.png")
    page = picture.save(tmp_path / "a.html").read_text("utf-8")
    assert re.search(r'<svg role="img" aria-label="Arrows go', page)


def test_an_arrow_past_a_stage_bends_around_it() -> None:
    """The bytes on the arrow from A to C stand beside B, and those of the others between boxes."""
    pytest.importorskip("matplotlib")
    A = sl.placeholder((8, 8), name="A")
    B = sl.compute((8, 8), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((8, 8), lambda i, j: A[i, j] + B[i, j], name="C")
    (axes,) = sl.plot.stages(C).figure.axes
    to_data = axes.transData.inverted()
    drawn = [patch for patch in axes.patches if patch.get_zorder() == 3]
    boxes = [patch.get_window_extent().transformed(to_data) for patch in drawn]
    labels = [t.get_position() for t in axes.texts if t.get_bbox_patch() is not None]
    assert len(boxes) == len(labels) == 3
    assert not [(x, y) for x, y in labels for box in boxes if box.contains(x, y)]


def test_points_of_a_roofline() -> None:
    found = roofline().data
    assert found.ridge == 5.0
    slow, fast, copy = found.points
    assert (slow.intensity, slow.bound, slow.fraction) == (20.0, "arithmetic", 0.02)
    assert (fast.intensity, fast.bound, fast.fraction) == (20.0, "arithmetic", 0.6)
    # 0.1 flops per byte times 20 GB/s allow 2 GFLOP/s
    assert (copy.bound, copy.fraction) == ("memory", 0.5)
    assert "Best: fast, at 60% of what arithmetic allows." in roofline().caption


def test_rooflines_and_searches_say_what_they_need() -> None:
    with pytest.raises(ComputeTypeError, match="not what sl.evaluate returns"):
        sl.plot.roofline({"a": 3})
    with pytest.raises(ComputeTypeError, match="is not what sl.evaluate returns"):
        sl.plot.roofline(None)
    with pytest.raises(PlotError, match="does not know the operations"):
        sl.plot.roofline(Evaluation(1.0, 0.0, 1.0, 5))
    with pytest.raises(PlotError, match="a CPU emulated the GPU"):
        sl.plot.roofline(timed(1.0, 1.0, emulated=True))
    with pytest.raises(PlotError, match='choose "cpu" or "cuda"'):
        sl.plot.roofline(timed(1.0, 1.0), target="gpu")
    with pytest.raises(ComputeTypeError, match="not the result of a search"):
        sl.plot.search(3)  # type: ignore[arg-type]


def test_knobs_of_a_search() -> None:
    picture = sl.plot.search(searched())
    rows = next(effect for effect in picture.data if effect.name == "C.rows")
    # the time follows the rows: 2, 3 and 4 take 1, 2 and 3 ms
    assert rows.explained == pytest.approx(1.0)
    assert [(c.label, c.median) for c in rows.columns] == [
        ("2", 0.001), ("3", 0.002), ("4", 0.003)
    ]  # fmt: skip
