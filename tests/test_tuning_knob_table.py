"""The tactics declare exactly the knobs that they ask for; docs/reference/knobs.md lists them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random

import pytest

import schedlang as sl
from benchmarks.computations import computation
from benchmarks.works.families import FAMILIES
from schedlang.autotune.knobs import Decision, Rejected
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.driver import SHARED
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tactics.registries import CPU, CUDA, registry_for
from tests.cpu_candidates import AVX2
from tests.graphs import product, recurrence, recurrent
from tests.knob_table import sections

pytestmark = pytest.mark.slow

GPU = sl.Target("cuda", arch="sm_80")
DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "knobs.md"
# a target and the draws of each computation: on a CPU, the first six meet every knob
HERE = sl.Target(AVX2, features=("amx-int8", "amx-tile", "avxvnni"))
CASES = [(HERE, 8), (HERE, 32), (GPU, 24)]

# decisions of an output behind which there are knobs that few draws would meet
RARE = {("cpu", "R"): {"P.how": "tile", "P.at": -1}}


def outputs() -> list[sl.Tensor]:
    """Return one computation of each kind that the tactics distinguish."""
    kinds = {w.kind: computation(w)[-1] for w in FAMILIES}
    A = sl.placeholder((8, 512), name="A")
    k = sl.reduce_axis(512, name="k")
    few = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    made = sl.compute((8, 512), lambda i, j: sl.exp(A[i, j]), name="E")
    B = sl.placeholder((512, 512), name="B")
    packed = sl.compute((8, 512), lambda i, j: sl.sum(made[i, k] * B[k, j], axis=k), name="P")
    C, r = sl.placeholder((4096, 16), name="C"), sl.reduce_axis(4096, name="r")
    columns = sl.compute((16,), lambda i: sl.sum(C[r, i], axis=r), name="T")
    starts = sl.assume(sl.placeholder((257,), "int32", name="starts"), within=(0, 1 << 17),
                       monotonic=True)  # fmt: skip
    V = sl.placeholder((1 << 17,), name="V")

    def segment(i: sl.Axis) -> object:
        k = sl.reduce_axis((starts[i], starts[i + 1]), name="k")
        return sl.sum(V[k], axis=k)

    segments = sl.compute((256,), segment, name="R")
    pixels = sl.placeholder((128, 6, 4, 8), name="pixels")
    weights = sl.placeholder((4, 128, 8, 8), name="weights")
    c, q = sl.reduce_axis(128, name="c"), sl.reduce_axis(8, name="q")
    blocked = sl.compute(
        (4, 6, 4, 8),
        lambda o, y, x, p: sl.sum(pixels[c, y, x, q] * weights[o, c, q, p], axis=[c, q]),
        name="L",
    )
    X, Y = sl.placeholder((65536,), "uint8", name="X"), sl.placeholder((65536, 64), name="Y")
    counts = sl.scatter((64,), (65536,), lambda t: (X[t], sl.const(1, "int32")), name="H")
    rows = sl.scatter((64, 64), Y.shape, lambda t, j: ((X[t], j), Y[t, j]), name="D")
    A8 = sl.placeholder((64, 62), "uint8", name="A8")
    B8, k8 = sl.placeholder((62, 64), "int8", name="B8"), sl.reduce_axis(62, name="k")

    def dot(i: sl.Axis, j: sl.Axis) -> object:
        return sl.sum(A8[i, k8].astype("int32") * B8[k8, j].astype("int32"), axis=k8)

    integers = sl.compute((64, 64), dot, name="I")
    V8, v8 = sl.placeholder((200,), "int8", name="V8"), sl.reduce_axis(200, name="k")
    R8 = sl.placeholder((64, 200), "int8", name="R8")

    def row_dot(i: sl.Axis) -> object:
        return sl.sum(R8[i, v8].astype("int32") * V8[v8].astype("int32"), axis=v8)

    in_rows = sl.compute((64,), row_dot, name="V")
    H1, H2 = (sl.placeholder((128, 128), "float16", name=n) for n in ("H1", "H2"))
    h = sl.reduce_axis(128, name="k")

    def half_dot(i: sl.Axis, j: sl.Axis) -> object:
        return sl.sum(H1[i, h].astype("float32") * H2[h, j].astype("float32"), axis=h)

    halves = sl.compute((128, 128), half_dot, name="U")
    G, g = sl.placeholder((1024, 512), name="G"), sl.reduce_axis(512, name="k")
    gram = sl.compute((1024, 1024), lambda i, j: sl.sum(G[i, g] * G[j, g], axis=g), name="M")
    others = [halves, integers, in_rows, gram, columns, segments, blocked, counts, rows,
              recurrent(2048)[-1], recurrence()["out"]]  # fmt: skip
    return [*kinds.values(), few, packed, product(512, 512, 512)[-1], product(2560, 2560, 2560)[-1],
            *others]  # fmt: skip


def name_of(case: tuple[sl.Target, int]) -> str:
    return f"{case[0].kind}-{case[1]}"


@cache
def asked(case: tuple[sl.Target, int]) -> dict[str, set[str]]:
    """Return the names of the knobs that are drawn on a target, with the values of each."""
    target, draws = case
    found: dict[str, set[str]] = {}

    def note(decisions: dict[str, Decision]) -> None:
        for name, value in decisions.items():
            found.setdefault(name, set()).add(str(value))

    _draw_all(target, draws, note)
    return found


def _draw_all(target: sl.Target, draws: int, note: Callable[[dict[str, Decision]], None]) -> None:
    for output in outputs():
        space, rng = Space(Problem((output,), target, 4)), Random(0)
        for _ in range(draws):
            try:
                note(dict(space.draw(rng, RARE.get((target.kind, output.name), {})).decisions))
            except Rejected:
                continue


def pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a knob: a capital letter is a stage or a tensor, ``i`` an axis.

    The knobs of ``C.local`` are those of ``C`` if the sum has no stage of its own.
    """
    parts = []
    for place, part in enumerate(name.split(".")):
        last = place == name.count(".")
        if re.fullmatch("[A-Z]", part):
            parts.append(r"\w+(\.(rf|pad|shift|sums))*" if place == 0 else r"\.\w+")
        elif part == "i":
            parts.append(r"\.\w+")
        else:
            parts.append(
                rf"(\.{part})?" if part in ("local", "global") and not last else rf"\.{part}"
            )
    return re.compile("".join(parts))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_knob_is_declared_with_its_values(case: tuple[sl.Target, int]) -> None:
    found = asked(case)
    known = {pattern(knob.name): knob for knob in (*SHARED, *registry_for(case[0]).knobs)}
    assert not [name for name in found if not any(row.fullmatch(name) for row in known)]
    assert not [row.pattern for row in known if not any(map(row.fullmatch, found))]
    for name, values in found.items():
        # several declarations may fit a name: C.local.unroll is also C.unroll
        allowed = [known[row].values for row in known if row.fullmatch(name)]
        assert any(isinstance(v, str) or values <= {*map(str, v)} for v in allowed), (name, values)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_tactic_is_drawn(case: tuple[sl.Target, int]) -> None:
    drawn = {
        name for knob, values in asked(case).items() if knob.endswith(".how") for name in values
    }
    assert {t.name for t in registry_for(case[0]).tactics if not t.implied} == drawn


def test_each_tactic_has_a_file_of_its_own() -> None:
    for registry in (CPU, CUDA):
        folder = f"schedlang.autotune.tactics.{registry.kind}"
        modules = [tactic.applies.__module__ for tactic in registry.tactics]
        assert len({*modules}) == len(modules)
        for module, tactic in zip(modules, registry.tactics):
            assert module.rpartition(".")[0] == folder
            assert import_module(module).TACTIC is tactic


def test_the_tables_are_made_from_the_registries(request: pytest.FixtureRequest) -> None:
    """``--update-golden`` writes them anew."""
    start = "## On all targets"
    introduction, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(start)
    if request.config.getoption("--update-golden"):
        DOCUMENT.write_text(introduction + sections(), encoding="utf-8", newline="\n")
    else:
        assert start + rest == sections(), "a tactic changed: run this test with --update-golden"
