"""The printed nest of a traced function says what each loop of its source became.

Lines of this file stand in the golden texts: add functions at the end.
"""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from tests.conftest import Golden


def three_loops(x, y):
    for i in range(1, 12):
        y[i] = x[i] * 2
    for i in range(1, 12):
        x[i] = x[i - 1] * 0.5 + y[i]
    total = 0.0
    for i in range(12):
        total += x[i]
    return total


def product(a, b):
    c = np.zeros((4, 5))
    for i in range(4):
        for j in range(5):
            for k in range(6):
                c[i, j] += a[i, k] * b[k, j]
    return c


def sweep(a):
    for i in range(1, 7):
        for j in range(1, 8):
            a[i, j] = (a[i, j - 1] + a[i - 1, j]) * 0.5
    return a


def inputs(**shapes):
    return [sl.placeholder(shape, "float64", name=name) for name, shape in shapes.items()]


def test_a_map_a_scan_and_a_reduction(golden: Golden) -> None:
    total = sl.trace(three_loops, *inputs(x=(12,), y=(12,)))
    golden(sl.schedule(total))


def test_a_product(golden: Golden) -> None:
    golden(sl.schedule(sl.trace(product, *inputs(a=(4, 6), b=(6, 5)))))


def test_a_stage_has_the_remarks_of_stages_in_it() -> None:
    s = sl.schedule(sl.trace(product, *inputs(a=(4, 6), b=(6, 5))))
    lines = [line.strip() for line in str(s).splitlines() if "# line" in line]
    start = product.__code__.co_firstlineno
    assert lines == [
        f"# line {start + 2}: a map",
        f"# line {start + 3}: a map",
        f"# line {start + 4}: a reduction",
    ]


@pytest.mark.parametrize("function", [three_loops, product, sweep])
def test_the_emitted_source_says_so_too(function) -> None:
    shapes = {three_loops: ((12,), (12,)), product: ((4, 6), (6, 5)), sweep: ((7, 8),)}[function]
    jitted = sl.jit(function, target="python")
    jitted(*(np.ones(shape) for shape in shapes))
    lines = jitted.loops.splitlines()
    assert len(lines) == {three_loops: 3, product: 3, sweep: 2}[function]
    comments = [text.lstrip("# ") for text in jitted.source.splitlines()]
    for line in lines:
        assert line.strip() in comments, line
        # as a comment above loops in a page, too
        assert any(line.strip() in k.loop_nest._repr_html_() for k in jitted.kernels)
