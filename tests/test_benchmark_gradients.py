"""The gradients of convolutions that are timed, at small sizes."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from benchmarks import gradients
from benchmarks.computations import computation
from benchmarks.harness import Case, Row
from benchmarks.works import GRADIENTS, Work, convolution
from benchmarks.works.gradients import gradients as of

WORKS = [
    *of(convolution.conv2d("T1", 7, 3, 4, 3, 2, 1, batch=2)),
    *of(convolution.conv2d("T2", 5, 3, 4, 1, 2, 0)),
    *of(convolution.depthwise("T3", 7, 4, 2)),
]


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_our_gradients_are_right(work: Work) -> None:
    arrays = work.arrays()
    *_, by = computation(work)
    f = sl.reference(by)
    named = dict(zip(("G", "W" if "w" in work.inputs else "X"), arrays.values()))
    found = f(**{t.name: named[t.name] for t in f.inputs})
    assert not work.wrong((found,), work.expected(arrays))


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_gradients_of_pytorch_are_right(work: Work) -> None:
    pytest.importorskip("torch")
    from benchmarks.peers import torch_backward

    arrays = work.arrays()
    found = np.asarray(torch_backward.prepare("", work, arrays, work.empty())())
    assert not work.wrong((found,), work.expected(arrays))


def test_every_convolution_has_two_gradients() -> None:
    assert len(GRADIENTS) == 2 * len(convolution.WORKS) == 42


def test_the_score_adds_both_gradients() -> None:
    def row(by: str, implementation: str, seconds: float) -> Row:
        return Row(Case(f"conv by {by}", implementation, lambda: lambda: None), seconds, 0, True)

    theirs = gradients.TORCH.implementation
    rows = [row("input", theirs, 3.0), row("input", "ours", 1.0), row("weights", theirs, 1.0)]
    assert "no convolution" in gradients.summary(rows)
    assert "1 convolutions, both gradients: 2.00" in gradients.summary(
        [*rows, row("weights", "ours", 1.0)]
    )
