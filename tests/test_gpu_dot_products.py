"""Tests of the dot products of GPUs in searches: dp4a, in tiles of blocks."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.knobs import Decisions, Rejected
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.facts import Problem
from tests.marks import compiles, slow_but
from tests.test_dot_products import arrays, product

GPU = sl.Target("cuda", arch="sm_90")
KINDS = {("uint8", "int8"): "dp4a", ("int8", "uint8"): "dp4a", ("int8", "int8"): "dp4a_ss",
         ("uint8", "uint8"): "dp4a_uu"}  # fmt: skip


def candidate(C: sl.Tensor, wanted: Decisions, draws: int = 200) -> sl.Schedule:
    """Return the first candidate of some draws with an instruction and the decisions ``wanted``."""
    space, rng = Space(Problem((C,), GPU)), Random(1)
    for _ in range(draws):
        try:
            drawn = space.draw(rng, {"C.how": "tile", **wanted})
        except Rejected:
            continue
        if "dp4a" in drawn.schedule.as_python() and wanted.items() <= drawn.decisions.items():
            return drawn.schedule
    raise AssertionError("no draw has the instruction")


def agrees(s: sl.Schedule, tensors: list[sl.Tensor], transposed: bool = False) -> None:
    a, b = arrays(tensors)
    exact = a.astype("int64") @ (b.T if transposed else b).astype("int64")
    f = sl.build(s, tensors, target="cuda-emulator")
    np.testing.assert_array_equal(f.check(a, b, order="shuffle"), exact)


@pytest.mark.parametrize("kinds", slow_but(["('uint8', 'int8')", "('int8', 'int8')"], KINDS))
def test_the_cost_model_takes_dp4a(kinds: tuple[str, str]) -> None:
    tensors = product(1024, 1024, 1024, *kinds)
    s = sl.autoschedule(tensors[-1], GPU)
    assert f"sl.instructions.{KINDS[kinds]})" in s.as_python()
    assert "dp4a" in sl.build(s, tensors, target=GPU).source
    assert str(sl.Schedule.from_json(s.to_json(), tensors[-1])) == str(s)


CASES = {
    "rows": ((33, 40, 24), ("uint8", "int8"), False, {}),
    "columns": ((33, 40, 24), ("int8", "int8"), True, {}),
    "steps filled up": ((17, 24, 19), ("int8", "uint8"), True, {}),
    "shares": ((16, 24, 64), ("uint8", "uint8"), False, {"C.shares": 2}),
    "copies": ((24, 24, 32), ("int8", "int8"), True, {"C.shared.A": True, "C.shared.B": True}),
    "no copies": ((24, 24, 22), ("int8", "int8"), True, {}),
}


@pytest.mark.parametrize(
    "name", slow_but(["copies", "steps filled up"], CASES)
)
def test_candidates_with_dp4a(name: str) -> None:
    sizes, kinds, transposed, wanted = CASES[name]
    tensors = product(*sizes, *kinds, transposed=transposed)
    agrees(candidate(tensors[-1], wanted), tensors, transposed)


def test_a_convolution_with_dp4a() -> None:
    X = sl.placeholder((8, 9, 9), "uint8", name="X")
    W = sl.placeholder((16, 8, 3, 3), "int8", name="W")
    c, v, u = (sl.reduce_axis(n, name=name) for n, name in ((8, "c"), (3, "v"), (3, "u")))

    def element(o: sl.Axis, y: sl.Axis, x: sl.Axis) -> object:
        pixel = X[c, y + v, x + u].astype("int32")
        return sl.sum(pixel * W[o, c, v, u].astype("int32"), axis=(c, v, u))

    C = sl.compute((16, 7, 7), element, name="C")
    s = candidate(C, {})
    x, w = arrays([X, W])
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("int32"), (3, 3), (1, 2))
    exact = np.einsum("cyxvu,ocvu->oyx", windows, w.astype("int32"))
    f = sl.build(s, [X, W, C], target="cuda-emulator")
    np.testing.assert_array_equal(f.check(x, w), exact)


def test_the_emitted_text_in_simulation() -> None:
    tensors = product(16, 16, 8)
    s = candidate(tensors[-1], {})
    a, b = arrays(tensors)
    exact = a.astype("int32") @ b.astype("int32")
    np.testing.assert_array_equal(sl.build(s, tensors, target=GPU).simulate(a, b), exact)


@pytest.mark.parametrize("kinds", [("int8", "int16"), ("float32", "float32")], ids=str)
def test_other_dtypes_have_no_instruction(kinds: tuple[str, str]) -> None:
    result = "float32" if "float32" in kinds else "int32"
    C = product(64, 64, 64, *kinds, result)[-1]
    with pytest.raises(AssertionError, match="no draw"):
        candidate(C, {}, 8)


@compiles
@pytest.mark.slow
@pytest.mark.parametrize("kinds", KINDS, ids=str)
def test_the_machine_code_has_dp4a(kinds: tuple[str, str]) -> None:
    tensors = product(512, 512, 512, *kinds)
    f = sl.build(candidate(tensors[-1], {"C.shares": 1}), tensors, target=GPU)
    assert "dp4a." in f.ptx and "IDP.4A" in f.sass
    assert all(kernel.spill_bytes == 0 for kernel in f.resources.values())
