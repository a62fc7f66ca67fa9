"""Searches of computations with functions of users: candidates, records, what a record names."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.model.problems import problem_of, space_of
from schedlang.compute.data import structure
from schedlang.errors import BuildError, ComputeTypeError, TuningError
from tests.marks import slow_but
from tests.test_extern import BLURRED as SOURCE
from tests.test_extern import blurred
from tests.test_extern import blurred_on_host as on_host

X = np.random.default_rng(0).random((66, 40), "float32")


def blur(call: Any, n: Any = 64, m: Any = 40, boxes: bool = True) -> sl.Tensor:
    A = sl.placeholder((n + 2, m), name="A")
    P = sl.compute((n + 2, m), lambda i, j: A[i, j] * 3, name="P")
    reads = (lambda y, x: np.s_[y.start : y.stop + 2, x]) if boxes else None
    B = sl.extern((n, m), [P], call, name="B", reads=reads)
    return sl.compute((n, m), lambda i, j: B[i, j] * 2 + 1, name="C")


def expected(x: np.ndarray) -> np.ndarray:
    p = x * 3
    return (p[:-2] + p[1:-1] + p[2:]) * 2 + 1


CASES = [f"{target} {how} {n}" for target in ("cpu", "c", "python")
         for how in ("whole", "boxes") for n in (64, "n")]  # fmt: skip


@pytest.mark.parametrize("case", slow_but(["cpu boxes n", "c whole 64", "python boxes 64"], CASES))
def test_autoschedule(case: str) -> None:
    target, how, n = case.split()
    C = blur(on_host, sl.var("n") if n == "n" else int(n), boxes=how == "boxes")
    s = sl.autoschedule(C, target=target)
    np.testing.assert_allclose(sl.build(s, target=target)(X), expected(X), rtol=1e-5)


def test_autoschedule_schedules_the_stages_around_a_call() -> None:
    C = blur(blurred, 2000, 1000)
    text = str(sl.autoschedule(C))
    assert "B = blurred(P" in text and text.count("vectorize") >= 2


def test_the_tactics_place_calls_at_loops() -> None:
    """No element is computed twice there; a search finds which loop is fastest."""
    A = sl.placeholder((64, 40), name="A")

    def doubled(a, out):
        out[...] = a + a

    B = sl.extern((64, 40), [A], doubled, name="B", reads=lambda y, x: np.s_[y, x])
    C = sl.compute((64, 40), lambda i, j: B[i, j] * 2 + 1, name="C")
    inside = {bool(re.search(r"^ +B = doubled", text, re.MULTILINE)) for text in drawn(C, 60)}
    assert inside == {True, False}
    # the neighbours of a box would be computed twice
    D = sl.compute((62, 40), lambda i, j: B[i, j] + B[i + 1, j] + B[i + 2, j], name="D")
    assert all("\nB = doubled(A)" in text for text in drawn(D, 20))


def drawn(C: sl.Tensor, count: int) -> list[str]:
    """Return the nests of random candidates."""
    problem = problem_of([C], sl.Target("cpu", vector_bytes=64), {})
    space, rng, texts = space_of(problem), Random(0), list[str]()
    for _ in range(count):
        texts.append(str(space.draw(rng).schedule))
    return texts


@pytest.mark.slow
def test_a_search_and_its_record(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    C = blur(blurred)
    result = sl.autotune(C, trials=2, database=records, seed=0)
    np.testing.assert_allclose(sl.build(result.schedule)(X), expected(X), rtol=1e-5)
    text = records.read_text()
    assert "def blurred" not in text and '"ok"' in text
    again = sl.best(blur(blurred), database=records)
    assert str(again.schedule) == str(result.schedule)
    # another function is another computation
    with pytest.raises(TuningError, match="no schedule of C for cpu is known"):
        sl.best(blur(on_host), database=records)


@pytest.mark.slow
@pytest.mark.parametrize("call", [on_host, SOURCE])
def test_searches_of_other_functions(call: Any, tmp_path: Path) -> None:
    result = sl.autotune(blur(call), trials=3, database=tmp_path / "records.jsonl", seed=0)
    np.testing.assert_allclose(sl.build(result.schedule)(X), expected(X), rtol=1e-5)
    assert sl.best(blur(call), database=tmp_path / "records.jsonl").schedule.steps is not None


def test_keys_name_functions() -> None:
    """A function of a module has its name in the key, and C source its text."""
    one = structure(blur(blurred)).key
    assert one == structure(blur(blurred, 30, 20)).key
    keys = [one, *(structure(blur(call)).key for call in (on_host, SOURCE, SOURCE + " "))]
    keys.append(structure(blur(lambda a, out: None)).key)
    keys.append(structure(blur(lambda a, out: None)).key)
    assert len({*keys}) == len(keys)
    assert structure(blur(SOURCE)).key == structure(blur(SOURCE)).key


def test_no_record_keeps_a_function_of_this_process_alone() -> None:
    table = np.ones(3, "float32")

    def of_a_table(a, out):
        out[...] = (a[:-2] + a[1:-1] + a[2:]) * table[0]

    of_an_address = sl.extern(
        (4, 4), [sl.placeholder((6, 4))], SOURCE, name="B"
    ).op.function.call  # fmt: skip
    for call, why in [
        (of_a_table, "of_a_table reads table of its program, which is ndarray"),
        (lambda a, out: None, "it is a lambda"),
        (of_an_address, "it is known by its address"),
    ]:
        with pytest.raises(
            ComputeTypeError,
            match=rf"sl.autotune: B is computed by .*, and candidates run in processes of their "
            rf"own, which do not know .*: {why}.*\n  Give the text of its C source",
        ):
            sl.autotune(blur(call), trials=2)
        assert sl.autoschedule(blur(call)).outputs[0].name == "C"


@pytest.mark.parametrize("target", ["cuda", "cuda-emulator"])
def test_a_gpu_cannot_call(target: str) -> None:
    message = "stage B is computed by blurred, which runs on the CPU"
    for search in (sl.autoschedule, sl.autotune):
        with pytest.raises(BuildError, match=message):
            search(blur(blurred), target=target)
