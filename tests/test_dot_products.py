"""Tests of the dot products of processors in searches and hints.

They name the processor's features, and run the schedules uncompiled, where loops stand for the
instructions.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.model.problems import problem_of, space_of
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.expr.dtypes import array_dtype

pytestmark = pytest.mark.slow

FEATURES = ("avx512vnni", "avx512bf16")
WIDE = sl.Target("cpu", vector_bytes=64, features=FEATURES)
NARROW = sl.Target("cpu", vector_bytes=32, features=FEATURES)
# AVX-VNNI has AVX2's instructions, too
AVX2 = sl.Target("cpu", vector_bytes=32, features=("avx2",))
BOTH = sl.Target("cpu", vector_bytes=32, features=("avx2", "avxvnni"))


def product(
    m: int, n: int, k: int, left: str = "uint8", right: str = "int8", result: str = "int32",
    transposed: bool = False,
) -> list[sl.Tensor]:  # fmt: skip
    A = sl.placeholder((m, k), left, name="A")
    B = sl.placeholder((n, k) if transposed else (k, n), right, name="B")
    r = sl.reduce_axis(k, name="k")

    def dot(i: sl.Axis, j: sl.Axis) -> object:
        b = B[j, r] if transposed else B[r, j]
        return sl.sum(A[i, r].astype(result) * b.astype(result), axis=r)

    return [A, B, sl.compute((m, n), dot, name="C")]


def arrays(tensors: list[sl.Tensor]) -> list[np.ndarray]:
    """Return operands with integers from the whole range, the ends included, or small floats."""
    draw = np.random.default_rng(0)
    operands = []
    for tensor in tensors[:2]:
        low, high = -9, 9
        if tensor.dtype != "bfloat16":
            low, high = np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max
        values = draw.integers(low, high, tensor.shape, endpoint=True)
        values.flat[:2] = low, high
        operands.append(values.astype(array_dtype(tensor.dtype)))
    return operands


def check(s: sl.Schedule, tensors: list[sl.Tensor], transposed: bool = False) -> None:
    a, b = arrays(tensors)
    exact = a.astype("int64") @ (b.T if transposed else b).astype("int64")
    f = sl.build(s, tensors, target="python")
    result = np.asarray(f(a, b))
    # sums of int32 wrap
    np.testing.assert_array_equal(result, exact.astype("int32").astype(result.dtype))


INSTRUCTIONS: dict[str, tuple[sl.Target, tuple[str, str, str]]] = {
    "vpdpbusd": (WIDE, ("uint8", "int8", "int32")),
    "vpdpwssd": (WIDE, ("int16", "int16", "int32")),
    "vdpbf16ps": (WIDE, ("bfloat16", "bfloat16", "float32")),
    "vpdpbusd_256": (NARROW, ("uint8", "int8", "int32")),
    "vpdpwssd_256": (NARROW, ("int16", "int16", "int32")),
    "vpmaddwd_us_256": (AVX2, ("uint8", "int8", "int32")),
    "vpmaddwd_su_256": (AVX2, ("int8", "uint8", "int32")),
    "vpmaddwd_ss_256": (AVX2, ("int8", "int8", "int32")),
    "vpmaddwd_uu_256": (AVX2, ("uint8", "uint8", "int32")),
    "vpmaddwd_256": (AVX2, ("int16", "int16", "int32")),
    "vpdpbusd_su_256": (BOTH, ("int8", "int8", "int32")),
}


@pytest.mark.parametrize("signs", [("uint8", "int8"), ("int8", "int8")])
@pytest.mark.parametrize(
    "size", [(100, 20, 1000), (37, 61, 103), (33, 65, 1001), (20, 100, 1000), (96, 24, 1001),
             (4096, 8, 4096)],
)  # fmt: skip
def test_the_cost_model_chooses_the_instruction_for_odd_sizes(
    size: tuple[int, int, int], signs: tuple[str, str]
) -> None:
    """Most need other lanes than the first ones that the descent tries, or sums for a shift.

    At the first two sizes, these schedules were 1.5 to 3.7 times as fast as the best of 20 plain
    ones, with two AVX2 instructions in place of the dot product.
    """
    C = product(*size, *signs)[-1]
    assert ".tensorize(" in sl.autoschedule(C, NARROW).as_python()


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_the_cost_model_chooses_the_instruction(name: str) -> None:
    target, kinds = INSTRUCTIONS[name]
    C = product(128, 256, 128, *kinds)[-1]
    assert f"sl.instructions.{name})" in sl.autoschedule(C, target).as_python()


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_a_candidate_of_each_dtype(name: str) -> None:
    target, kinds = INSTRUCTIONS[name]
    tensors = product(9, 70, 18, *kinds)
    check(candidates(tensors[-1], target)[0], tensors)


def candidates(C: sl.Tensor, target: sl.Target, most: int = 2) -> list[sl.Schedule]:
    """Return up to ``most`` candidates of some draws that use an instruction."""
    space, rng, schedules = Space(Problem((C,), target, 2)), Random(1), []
    for _ in range(16):
        try:
            s = space.draw(rng, {}).schedule
        except Rejected:
            continue
        if "tensorize" in s.as_python():
            schedules.append(s)
            if len(schedules) == most:
                break
    return schedules


@pytest.mark.parametrize("sizes", [(7, 50, 13), (6, 40, 21)])
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_odd_sizes(sizes: tuple[int, int, int], transposed: bool) -> None:
    tensors = product(*sizes, transposed=transposed)
    drawn = candidates(tensors[-1], WIDE)
    assert drawn
    for s in drawn:
        check(s, tensors, transposed)


@pytest.mark.parametrize(
    "kinds",
    [("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")],
)
def test_two_bytes_of_any_sign(kinds: tuple[str, str]) -> None:
    """An operand that has the wrong sign for the instruction is shifted, by a step."""
    assert "tensorize" in sl.autoschedule(product(128, 256, 128, *kinds)[-1], WIDE).as_python()
    tensors = product(7, 50, 13, *kinds)
    drawn = candidates(tensors[-1], WIDE)
    assert drawn
    for s in drawn:
        assert ("shift_operand" in s.as_python()) == (kinds[0] == kinds[1])
        check(s, tensors)


@pytest.mark.parametrize("kinds", [("uint8", "int8", "int32"), ("bfloat16",) * 2 + ("float32",)])
def test_few_columns_fill_a_shorter_vector(kinds: tuple[str, str, str]) -> None:
    tensors = product(5, 9, 26, *kinds)
    (s,) = candidates(tensors[-1], WIDE, 1)
    assert "_256)" in s.as_python()
    check(s, tensors)


@pytest.mark.parametrize("columns", [8, 9, 20])
def test_operands_that_are_side_by_side_already(columns: int) -> None:
    tensors = product(5, columns, 4, transposed=True)
    (s,) = candidates(tensors[-1], WIDE, 1)
    assert "cache_read" not in s.as_python()
    check(s, tensors, transposed=True)


def test_zeros_fill_operands_up() -> None:
    tensors = product(7, 50, 13)
    s = next(s for s in candidates(tensors[-1], WIDE, 16) if "pad_einsum" in s.as_python())
    assert "without the dot product" not in str(sl.explain(s, target=WIDE))
    check(s, tensors)


@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_convolutions_of_odd_sizes(data: str) -> None:
    X = sl.placeholder((1, 6, 5, 7), data, name="X")
    W = sl.placeholder((20, 6, 3, 3), "int8", name="W")
    XP = sl.pad(X, (0, 0, 1, 1), (0, 0, 1, 1), name="XP")
    c, v, u = (sl.reduce_axis(n, name=name) for n, name in ((6, "c"), (3, "v"), (3, "u")))

    def element(n: sl.Axis, o: sl.Axis, y: sl.Axis, x: sl.Axis) -> object:
        pixel = XP[n, c, 2 * y + v, 2 * x + u]
        return sl.sum(pixel.astype("int32") * W[o, c, v, u].astype("int32"), axis=(c, v, u))

    Y = sl.compute((1, 20, 3, 4), element, name="Y")
    (s,) = candidates(Y, WIDE, 1)
    x, w = arrays([X, W])
    padded = np.pad(x.astype("int32"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded[0], (3, 3), (1, 2))[:, ::2, ::2]
    expected = np.einsum("cyxvu,ocvu->oyx", windows, w.astype("int32"))[None]
    f = sl.build(s, [X, W, Y], target="python")
    np.testing.assert_array_equal(f(x, w), expected)


ROWS = pytest.mark.parametrize(
    "kinds, name",
    [
        (("uint8", "int8", "int32"), "vpdpbusd_rows"), (("int8", "int8", "int32"), "vpdpbusd_rows"),
        (("int16", "int16", "int32"), "vpdpwssd_rows"),
        (("bfloat16", "bfloat16", "float32"), "vdpbf16ps_rows"),
    ],
    ids=str,
)  # fmt: skip


@ROWS
@pytest.mark.parametrize("first", [False, True], ids=["rows times vector", "vector times rows"])
def test_sums_along_rows(kinds: tuple[str, str, str], name: str, first: bool) -> None:
    sizes = (1, 17, 64) if first else (17, 1, 150)
    tensors = product(*sizes, *kinds, transposed=first)
    (s,) = candidates(tensors[-1], WIDE, 1)
    assert f"{name})" in s.as_python()
    assert ("shift_operand" in s.as_python()) == (kinds[0] == "int8")
    check(s, tensors, first)


@ROWS
def test_the_cost_model_chooses_the_instruction_for_rows(
    kinds: tuple[str, str, str], name: str
) -> None:
    for target, ending in ((WIDE, ""), (NARROW, "_256")):
        C = product(512, 1, 1024, *kinds)[-1]
        assert f"sl.instructions.{name}{ending})" in sl.autoschedule(C, target).as_python()


@pytest.mark.parametrize("length", [63, 100])
def test_short_rows_have_no_instruction(length: int) -> None:
    assert not candidates(product(5, 1, length)[-1], WIDE, 1)


@pytest.mark.parametrize(
    "kinds",
    [("float32", "float32", "float32"), ("uint8", "int8", "int64"), ("int8", "int8", "int16")],
    ids=str,
)
def test_other_dtypes_have_no_instruction(kinds: tuple[str, str, str]) -> None:
    tensors = product(16, 64, 32, *kinds)
    assert not candidates(tensors[-1], WIDE)


def test_next_steps_offer_the_instruction_and_explain_names_it() -> None:
    tensors = product(48, 64, 32)
    s = sl.schedule(tensors[-1])
    # on a full datapath so few rows do not pay for the copy
    target = sl.Target("cpu", vector_bytes=64, datapath_bytes=32, features=FEATURES)
    (step,) = [x for x in sl.next_steps(s, target) if x.primitive == "tensorize"]
    assert step.speedup > 1
    check(step.schedule, tensors)
    text = str(sl.explain(s, target=target))
    assert (
        "stage C multiplies uint8 and int8 without the dot product of this processor, vpdpbusd"
        in text
    )
    assert "without the dot product" not in str(sl.explain(step.schedule, target=target))


def test_explain_names_the_instruction_behind_steps_by_hand() -> None:
    """The loops of a tile have no place for the step, and the sentence stays."""
    C = product(48, 64, 32)[-1]
    s = sl.schedule(C)
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    over, lanes = s[C].split(j, factor=16)
    s[C].reorder(i, over, k, lanes)
    s[C].vectorize(lanes)
    assert not [x for x in sl.next_steps(s, WIDE) if x.primitive == "tensorize"]
    (says,) = sl.explain(s, target=WIDE).loops
    what = "Stage C multiplies uint8 and int8 without the dot product of this processor, vpdpbusd"
    assert says.startswith(what) and "begin with that step" in says
    assert says in str(sl.explain(s, target=WIDE))
    floats = product(48, 64, 32, "float32", "float32", "float32")[-1]
    t = sl.schedule(floats)
    t[floats].vectorize(t[floats].split(floats.op.axis[1], factor=16)[1])
    assert not sl.explain(t, target=WIDE).loops


def test_partial_sums_of_several_rows_fit_the_registers() -> None:
    """The sums of rows for a shift start with as many rows as registers hold, and not with more."""
    C = product(64, 64, 512, "int8", "int8")[-1]
    first = {"C.lane": 1, "C.local.instruction": "vpdpbusd_su_256"}
    candidate = space_of(problem_of([C], NARROW, {})).draw_unverified(None, first)
    decided = candidate.decisions
    assert decided["C.local.sums.vectors"] * decided["C.local.sums.rows"] < 16


def test_a_tile_of_few_pixels_reads_weights_for_a_row() -> None:
    """Weights in the order of the instruction: a tile has several pixels, and 2 blocks of channels.

    Bytes become words in two registers for each operand, so 2 rows of 7 pixels would leave the
    registers.
    """
    X = sl.placeholder((64, 7, 7, 8), "uint8", name="X")
    W = sl.placeholder((256, 64, 2, 8, 4), "int8", name="W")
    c, h, q = (sl.reduce_axis(n, name=name) for n, name in ((64, "c"), (2, "h"), (4, "q")))

    def element(b: sl.Axis, y: sl.Axis, x: sl.Axis, j: sl.Axis) -> object:
        terms = X[c, y, x, h * 4 + q].astype("int32") * W[b, c, h, j, q].astype("int32")
        return sl.sum(terms, axis=(c, h, q))

    C = sl.compute((256, 7, 7, 8), element, name="C")
    text = str(sl.autoschedule(C, target=AVX2))
    assert "tensorize vpmaddwd_us_256" in text
    assert "C.local: int32[2, 4, 1, 8]" in text
