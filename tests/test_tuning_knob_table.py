"""docs/knobs.md names exactly the knobs of the rules and the ways to compute a stage."""

from __future__ import annotations

import re
from functools import cache
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from random import Random

import pytest

import schedlang as sl
from benchmarks.computations import computation
from benchmarks.works.families import FAMILIES
from schedlang.autotune.knobs import Decision, Rejected
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.templates import template_for
from tests.draws import AVX2
from tests.graphs import product
from tests.marks import slow_but

GPU = sl.Target("cuda", arch="sm_80")
DOCUMENT = Path(__file__).parents[1] / "docs" / "knobs.md"
# enough draws of each computation to meet every knob
DRAWS = 24
# GPU candidates take longer to draw
KIND = attrgetter("kind")
# the targets in headings of tables
WHERE = {"cpu": "on a CPU", "cuda": 'for `"cuda"`'}


def outputs() -> list[sl.Tensor]:
    """Return one computation of each kind that the rules distinguish."""
    kinds = {w.kind: computation(w)[-1] for w in FAMILIES}
    A = sl.placeholder((8, 512), name="A")
    k = sl.reduce_axis(512, name="k")
    few = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    made = sl.compute((8, 512), lambda i, j: sl.exp(A[i, j]), name="E")
    B = sl.placeholder((512, 512), name="B")
    packed = sl.compute((8, 512), lambda i, j: sl.sum(made[i, k] * B[k, j], axis=k), name="P")
    C, r = sl.placeholder((4096, 16), name="C"), sl.reduce_axis(4096, name="r")
    columns = sl.compute((16,), lambda i: sl.sum(C[r, i], axis=r), name="T")
    return [*kinds.values(), few, packed, columns, product(512, 512, 512)[-1]]


@cache
def asked(target: sl.Target) -> dict[str, set[str]]:
    """Return the names of the knobs that are drawn on a target, with the values of each."""
    found: dict[str, set[str]] = {}

    def note(decisions: dict[str, Decision]) -> None:
        for name, value in decisions.items():
            found.setdefault(name, set()).add(str(value))

    for output in outputs():
        space, rng = Space((output,), target, template_for(target, 4, {}), 4), Random(0)
        for _ in range(DRAWS):
            try:
                note(dict(space.draw(rng).decisions))
            except Rejected:
                continue
    return found


def rows(heading: str) -> list[str]:
    """Return the code in the first column of a table."""
    lines = iter(DOCUMENT.read_text(encoding="utf-8").splitlines())
    assert any(line == f"| {heading} | meaning |" for line in lines), heading
    firsts = [line.split(" | ")[0] for line in takewhile(lambda line: line.startswith("|"), lines)]
    return [name for first in firsts for name in re.findall(r"`([^`]+)`", first)]


def pattern(row: str) -> re.Pattern[str]:
    """Return the pattern of a row: a capital letter is a stage or a tensor, ``i`` an axis.

    The knobs of ``C.local`` are those of ``C`` if the sum has no stage of its own.
    """
    parts = []
    for place, part in enumerate(row.split(".")):
        last = place == row.count(".")
        if re.fullmatch("[A-Z]", part):
            parts.append(r"\w+(\.rf)?" if place == 0 else r"\.\w+")
        elif part == "i":
            parts.append(r"\.\w+")
        else:
            parts.append(
                rf"(\.{part})?" if part in ("local", "global") and not last else rf"\.{part}"
            )
    return re.compile("".join(parts))


@pytest.mark.parametrize("target", slow_but(["cpu"], [AVX2, GPU], KIND))
def test_every_knob_of_the_rules_is_documented(target: sl.Target) -> None:
    found = asked(target)
    known = [pattern(row) for row in (*rows("knob"), *rows(f"knob {WHERE[target.kind]}"))]
    assert not [name for name in found if not any(row.fullmatch(name) for row in known)]
    assert not [row.pattern for row in known if not any(map(row.fullmatch, found))]


@pytest.mark.parametrize("target", slow_but(["cpu"], [AVX2, GPU], KIND))
def test_every_way_to_compute_a_stage_is_documented(target: sl.Target) -> None:
    ways = {
        way for name, values in asked(target).items() if name.endswith(".how") for way in values
    }
    assert set(rows(f"`C.how` {WHERE[target.kind]}")) == ways
