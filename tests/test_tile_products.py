"""Tests of the tiles of AMX in searches and hints.

A target names the features. Schedules run uncompiled, where loops stand for the instructions, and
compiled with tiles in software.
"""

from __future__ import annotations

from collections.abc import Collection
from platform import machine
from random import Random

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.record import target_text
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.instructions import MemoryFunction, amx
from schedlang.instructions.box import named
from tests.instructions import runs
from tests.test_amx import in_software
from tests.test_dot_products import arrays, check, product

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        machine() not in ("x86_64", "AMD64"),
        reason="LLVM knows the features of this processor alone",
    ),
]
FEATURES = ("amx-bf16", "amx-int8", "amx-tile", "avx512bf16", "avx512vnni")
TILES = sl.Target("cpu", vector_bytes=64, features=FEATURES)
KINDS = {
    "tdpbusd": ("uint8", "int8", "int32"), "tdpbssd": ("int8", "int8", "int32"),
    "tdpbsud": ("int8", "uint8", "int32"), "tdpbuud": ("uint8", "uint8", "int32"),
    "tdpbf16ps": ("bfloat16", "bfloat16", "float32"),
}  # fmt: skip


def candidate(C: sl.Tensor, name: str, steps: Collection[str] = ()) -> sl.Schedule:
    """Return the first candidate of some draws with an instruction and the primitives ``steps``."""
    space, rng = Space(Problem((C,), TILES, 2)), Random(1)
    wanted = {"C.how": "tile", "C.local.instruction": name}
    for _ in range(60):
        try:
            s = space.draw(rng, wanted).schedule
        except Rejected:
            continue
        if {*steps} <= {step.primitive for step in s.steps} and f"tensorize {name}" in str(s):
            return s
    raise AssertionError(f"no draw has {name} and {steps}")


@pytest.mark.parametrize("name", KINDS)
def test_the_cost_model_takes_tiles(name: str) -> None:
    C = product(256, 256, 1024, *KINDS[name])[-1]
    s = sl.autoschedule(C, TILES)
    assert f"tensorize {name}_" in str(s)
    scope = {"sl": sl, "C": C, "A": C.op.input_tensors[0], "B": C.op.input_tensors[1]}
    exec(s.as_python(), scope)
    assert str(scope["s"]) == str(s)
    assert str(sl.Schedule.from_json(s.to_json(), C)) == str(s)
    without = sl.Target("cpu", vector_bytes=64, features=("avx512bf16", "avx512vnni"))
    assert "tdp" not in str(sl.autoschedule(C, without))


CASES = {
    "whole tiles": ("tdpbusd", (16, 32, 64), False),
    "zeros in all axes": ("tdpbssd", (61, 62, 125), False),
    "columns": ("tdpbuud", (16, 16, 64), True),
    "bfloat16": ("tdpbf16ps", (16, 16, 32), False),
}


@pytest.mark.parametrize("case", CASES)
def test_candidates_with_tiles(case: str) -> None:
    name, sizes, transposed = CASES[case]
    tensors = product(*sizes, *KINDS[name], transposed=transposed)
    s = candidate(tensors[-1], name, ["pad_einsum"] if case == "zeros in all axes" else [])
    check(s, tensors, transposed)


def test_data_whose_steps_are_apart() -> None:
    A, B = sl.placeholder((64, 16), "uint8", name="A"), sl.placeholder((64, 16), "int8", name="B")
    k = sl.reduce_axis(64, name="k")

    def element(i: sl.Axis, j: sl.Axis) -> object:
        return sl.sum(A[k, i].astype("int32") * B[k, j].astype("int32"), axis=k)

    C = sl.compute((16, 16), element, name="C")
    a, b = arrays([A, B])
    f = sl.build(candidate(C, "tdpbusd"), [A, B, C], target="python")
    np.testing.assert_array_equal(f(a, b), a.T.astype("int32") @ b.astype("int32"))


@pytest.mark.parametrize("name", ["tdpbusd", "tdpbssd", "tdpbf16ps"])
@pytest.mark.parametrize("target", ["cpu", "c"])
def test_compiled_with_tiles_in_software(name: str, target: str) -> None:
    """The kernel passes the tiles that the function of the instruction addresses."""
    tensors = product(48, 32, 256, *KINDS[name])
    s = candidate(tensors[-1], name)
    tile = next(i for step in s.steps for i in step.args.values() if isinstance(i, sl.Instruction))
    function = tile.emit["memory"]
    emit = {"memory": MemoryFunction(in_software(function.call), function.strides)}
    twin = sl.instruction(tile.name, tile.output, emit, tolerance=tile.tolerance)
    again = sl.Schedule.from_json(s.to_json(), tensors[-1], instructions=[twin])
    a, b = arrays(tensors)
    exact = a.astype("int64") @ b.astype("int64")
    result = np.asarray(sl.build(again, tensors, target=target)(a, b))
    np.testing.assert_array_equal(result, exact.astype("int32").astype(result.dtype))


@pytest.mark.parametrize("sizes", [(16, 1, 64), (1, 16, 64), (4, 64, 64), (32, 32, 24)], ids=str)
def test_few_rows_columns_or_steps_have_no_tiles(sizes: tuple[int, int, int]) -> None:
    drawn = Space(Problem((product(*sizes)[-1],), TILES, 2)).draw(None, {})
    options = drawn.options.get("C.local.instruction") or []
    assert "tdpbusd" not in options


def test_next_steps_offer_tiles_and_explain_names_them() -> None:
    tensors = product(16, 16, 64)
    s = sl.schedule(tensors[-1])
    steps = [x for x in sl.next_steps(s, TILES) if x.primitive == "tensorize"]
    (step,) = [x for x in steps if "tdpbusd" in x.code]
    assert step.speedup > 1
    check(step.schedule, tensors)
    sentence = "multiplies uint8 and int8 without the tiles of this processor, tdpbusd"
    assert sentence in str(sl.explain(s, target=TILES))
    assert "without the" not in str(sl.explain(step.schedule, target=TILES))


def test_a_build_for_a_processor_without_tiles() -> None:
    C = product(32, 32, 128)[-1]
    s = candidate(C, "tdpbusd")
    if not runs(sl.instructions.tdpbusd):
        with pytest.raises(sl.errors.BuildError, match="the instruction needs amx-int8, which"):
            sl.build(s, target=TILES)


def test_the_names_of_products_with_more_steps() -> None:
    assert named("tdpbssd_640") is amx.int8_product(640, "int8", "int8")
    for name in ("tdpbssd_64", "tdpbssd_100", "tdpbssd_0640", "tdpbxxd_128", "vpdpbusd_128"):
        assert named(name) is None
    with pytest.raises(sl.errors.ComputeError, match="the factors are bytes; give uint8 or int8"):
        amx.int8_product(64, "int16")


def test_features_of_a_target() -> None:
    assert sl.Target("cpu", features=["avx2", "avx2"]).features == ("avx2",)
    assert sl.Target(TILES, vector_bytes=32).features == FEATURES
    # a record for other features is another one
    assert target_text(TILES).endswith("of 64 bytes, " + ", ".join(FEATURES))
    for features, match in (
        (["amx-int9"], "names amx-int9, which LLVM does not know.*did you mean 'amx-int8'"),
        ("amx-int8", "features are a list"), ([64], "features are a list"),
        (["avx512vnni or avxvnni"], "features are a list"),
        (["sm_90"], "features are of CPUs; give arch"),
    ):  # fmt: skip
        with pytest.raises(sl.errors.BuildError, match=match):
            sl.Target("cpu", features=features)  # type: ignore[arg-type]
    with pytest.raises(sl.errors.BuildError, match="features are of CPUs; give arch"):
        sl.Target("cuda", features=["avx2"])
