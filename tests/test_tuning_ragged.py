"""Tests of the tactic ``ragged``, and of estimates of loops over ragged ranges."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.costs.averages import average_loops
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.options import checked_inputs
from schedlang.autotune.runner.candidate_runner import CandidateRunner
from schedlang.autotune.runner.task import Task
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.compute.graph import placeholders
from schedlang.errors import TuningError
from schedlang.ir.trimmed import trim_loop
from tests.cpu_candidates import AVX512, drawn
from tests.test_ragged import csr, trmm


def rows(n: int, nnz: int, columns: int = 0) -> sl.Tensor:
    """Return a sparse product of ``n`` rows, with a vector or with ``columns`` columns."""
    indptr, indices, data = csr(n, nnz)
    sl.assume(indices, within=(0, n - 1))
    x = sl.placeholder((n, columns) if columns else (n,), name="x")

    def element(i: Any, *j: Any) -> Any:
        k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
        return sl.sum(data[k] * x[(indices[k], *j)], axis=k)

    return sl.compute((n, columns) if columns else (n,), element, name="y")


def test_rows_of_a_sparse_product_have_loops_of_their_own() -> None:
    for candidate in drawn(rows(512, 512 * 200), 8):
        assert dict(candidate.decisions)["y.how"] == "ragged"
        reduced = [f for f in candidate.nest.loops if f.axis.is_reduce and f.axis.name != "k.inner"]
        assert any(trim_loop(loop).tests for loop in reduced), candidate.nest


def test_long_rows_may_have_lanes_and_short_ones_not() -> None:
    vectors = {
        nnz: {dict(c.decisions)["y.row_vectors"] for c in found}
        for nnz in (1 << 19, 1 << 15)
        if (found := drawn_or_none(rows(1 << 14, nnz)))
    }
    assert vectors[1 << 15] == {0}
    assert max(vectors[1 << 19]) > 0


def drawn_or_none(tensor: sl.Tensor) -> list[Any]:
    space = Space(Problem((tensor,), AVX512, 2))
    rng, found = Random(0), []
    for _ in range(12):
        try:
            found.append(space.draw(rng))
        except Rejected:
            continue
    return found


def test_columns_of_a_sparse_times_dense_product_are_lanes() -> None:
    for candidate in drawn(rows(64, 64 * 20, 128), 4):
        lanes = [f for f in candidate.nest.loops if f.kind == "vectorize"]
        assert lanes and all(f.axis.name.startswith("j") or "i1" in f.axis.name for f in lanes)


@pytest.mark.parametrize("n, nnz, expected", [(512, 512 * 20, 20), (512, 512, 1)])
def test_estimates_take_average_rows(n: int, nnz: int, expected: int) -> None:
    nest = average_loops(sl.lower(sl.schedule(rows(n, nnz))), {})
    assert nest.loops[-1].extent == expected


def test_estimates_take_half_of_an_unknown_box_and_of_a_triangle() -> None:
    assert abs(average_loops(sl.lower(sl.schedule(trmm(100, 1))), {}).loops[-1].extent - 50.5) < 5
    lengths = sl.placeholder((8,), "int32", name="lengths")
    X = sl.placeholder((8, 40), name="X")

    def row(i: Any) -> Any:
        k = sl.reduce_axis((0, lengths[i]), name="k")
        return sl.sum(X[i, k], axis=k)

    nest = sl.lower(sl.schedule(sl.compute((8,), row, name="R")))
    assert average_loops(nest, {}).loops[-1].extent == 20


def test_triangular_candidates_are_drawn() -> None:
    for candidate in drawn(trmm(64, 64), 8):
        assert dict(candidate.decisions)["C.how"] != "ragged"


def test_inputs_that_break_a_fact_are_refused() -> None:
    y = rows(4, 9)
    given = {
        "indptr": np.array([0, 2, 12, 4, 9], "int32"), "indices": np.zeros(9, "int32"),
        "data": np.zeros(9, "float32"), "x": np.zeros(4, "float32"),
    }  # fmt: skip
    with pytest.raises(TuningError, match=r"inputs=.*indptr\[3\] is 4, less than indptr\[2\]"):
        checked_inputs([y], given, {})


def test_made_inputs_keep_the_facts(tmp_path: Path) -> None:
    y = rows(40, 300)
    runner = CandidateRunner(Task((y,), AVX512, {}), tmp_path)
    made = dict(zip((t.name for t in placeholders([y])), runner.inputs))
    assert (made["indptr"][0], made["indptr"][-1]) == (0, 300)
    assert (np.diff(made["indptr"]) >= 0).all()
    assert made["indices"].min() >= 0 and made["indices"].max() <= 39
