"""The seven families of operators that are timed beside PyTorch, at small sizes."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from benchmarks import operators
from benchmarks.computations import computation
from benchmarks.harness import Case, Row
from benchmarks.works import OPERATORS, TABLE, memory
from benchmarks.works import operators as works
from tests.marks import slow_but

SMALL = {
    w.kind: w
    for w in (
        works.add(3, 5), works.bias_relu(2, 3, 4, 5), works.dense(3, 7, 4),
        memory.column_sum(5, 16), works.average_pool(6, 3, 2, batch=2),
        works.global_pool(3, 5, 2), works.lstm(4, 2, 3), works.gru(4, 2, 3),
        *(works.activation(kind, 3, 7) for kind in works.ACTIVATIONS),
    )
}  # fmt: skip


def test_there_are_seven_families_and_each_kind_has_a_small_case() -> None:
    assert list(OPERATORS) == [
        "element-wise", "matrix", "convolution", "reduction", "activation", "pooling", "recurrent",
    ]  # fmt: skip
    own = [w for w in chain(*OPERATORS.values()) if w.name not in TABLE]
    assert {w.kind for w in own} == set(SMALL)
    assert all(len(rows) >= 3 for rows in OPERATORS.values())
    assert operators.family("softmax 4096x1024") == "activation"


@pytest.mark.parametrize("kind", SMALL)
def test_our_operators_agree_with_the_oracle(kind: str) -> None:
    work = SMALL[kind]
    arrays = work.arrays()
    output = computation(work)[-1]
    found = sl.reference(output)(**{name.upper(): array for name, array in arrays.items()})
    assert not work.wrong((found,), work.expected(arrays))


@pytest.mark.parametrize(
    "kind", slow_but([kind for kind in SMALL if not kind.endswith("_sequence")], SMALL)
)
def test_autoschedule_takes_every_operator(kind: str) -> None:
    work = SMALL[kind]
    tensors = computation(work)
    # steps are data, which fit the same computation made again
    steps = operators.by_model(work, {}).to_json()
    kernel = sl.build(sl.Schedule.from_json(steps, tensors[-1]), tensors, target="python")
    arrays, outs = work.arrays(), work.empty()
    kernel(*arrays.values(), *outs.values())
    assert not work.wrong(tuple(outs.values()), work.expected(arrays))


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("kind", SMALL)
def test_pytorch_agrees_with_the_oracle(kind: str) -> None:
    import torch

    from benchmarks.peers import torch_operators

    work = SMALL[kind]
    arrays, outs = work.arrays(), work.empty()
    enabled = torch.is_grad_enabled()
    try:
        result: Any = torch_operators.prepare("torch eager", work, arrays, outs)()
    finally:
        # a worker turns gradients off for its process
        torch.set_grad_enabled(enabled)
    got = tuple(outs.values()) if result is None else (np.asarray(result),)
    assert not work.wrong(got, work.expected(arrays))


def test_an_lstm_of_one_step_by_hand() -> None:
    work = works.lstm(1, 1, 1)
    x, w_x, b = np.array([[[2.0]]]), np.array([[0.0], [0.0], [1.0], [0.0]]), np.zeros(4)
    # gates of 1/2, and a new cell of tanh(2)
    (found,) = work.expected({"x": x, "w_x": w_x, "w_h": w_x, "b_x": b, "b_h": b})
    np.testing.assert_allclose(found, 0.5 * np.tanh(0.5 * np.tanh(2.0)), rtol=1e-12)


def test_a_gru_of_one_step_by_hand() -> None:
    work = works.gru(1, 1, 1)
    x, w_x = np.array([[[2.0]]]), np.array([[0.0], [0.0], [1.0]])
    b_x, b_h = np.zeros(3), np.array([0.0, 0.0, 4.0])
    # half of the bias passes the reset gate, and half of the new state the update gate
    (found,) = work.expected({"x": x, "w_x": w_x, "w_h": w_x, "b_x": b_x, "b_h": b_h})
    np.testing.assert_allclose(found, 0.5 * np.tanh(2.0 + 0.5 * 4.0), rtol=1e-12)


def test_the_summary_has_a_mean_for_each_family_and_the_slow_rows() -> None:
    def row(work: str, implementation: str, seconds: float, correct: bool = True) -> Row:
        return Row(Case(work, implementation, lambda: lambda: None), seconds, 0.0, correct)

    add, gemv, softmax = "add 4096x4096", "gemv 4096x4096", "softmax 4096x1024"
    rows = [
        row(add, "torch eager", 1.0), row(add, "torch.compile", 0.8), row(add, "autoschedule", 2.0),
        row(add, "by hand", 0.5), row(gemv, "torch eager", 1.0), row(gemv, "autoschedule", 2.0),
        row(softmax, "torch eager", 1.0), row(softmax, "autoschedule", 0.1, correct=False),
    ]  # fmt: skip
    assert operators.summary(rows).splitlines() == [
        "element-wise: 2.00 of eager PyTorch (1 rows)",
        "matrix: 0.50 of eager PyTorch (1 rows)",
        "all families: 1.00 (geometric mean of 2 rows)",
        "autoschedule alone below 0.8 of eager PyTorch: "
        "add 4096x4096 (0.50), gemv 4096x4096 (0.50)",
    ]
    texts = [[c.text(r, rows[:4]) for c in operators.COLUMNS] for r in rows[:4]]
    assert texts == [["1.00", "0.80"], ["1.25", "1.00"], ["0.50", "0.40"], ["2.00", "1.60"]]
    assert operators.speeds_of_ours(rows) == {
        add: {"autoschedule": 0.5, "by hand": 2.0}, gemv: {"autoschedule": 0.5},
    }  # fmt: skip
    assert "no row" in operators.summary(rows[:2])


def test_the_picture_has_a_bar_for_each_operator(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    def row(implementation: str, seconds: float) -> Row:
        return Row(Case("add 4096x4096", implementation, lambda: lambda: None), seconds, 0.0, True)

    operators.plot([row("torch eager", 1.0), row("autoschedule", 0.5)], tmp_path / "bars.png")
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
