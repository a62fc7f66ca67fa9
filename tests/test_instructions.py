"""Instructions of processors: what kernels compute with them, and what they print."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import instructions
from schedlang.expr.dtypes import array_dtype
from tests.conftest import Golden
from tests.fuzz.instructions import ROWS, run_case
from tests.instructions import FAMILIES, fused, packed, runs, scaled_row, tensorized
from tests.marks import slow_but

# the CPU by both of its compilers, C, and the declaration alone
BUILDS: dict[str, dict[str, Any]] = {
    "llvm": {"target": "cpu", "compiler": "llvm"},
    "numba": {"target": "cpu", "compiler": "numba"},
    "c": {"target": "c"},
    "python": {"target": "python"},
}
needs_vnni = pytest.mark.skipif(
    not runs(instructions.vpdpbusd), reason="this processor has no AVX-512 VNNI"
)
needs_fma = pytest.mark.skipif(not runs(fused()), reason="this processor has no FMA")
HERE = [name for name in FAMILIES if runs(getattr(instructions, name))]


def operands(*tensors: Any, seed: int = 0) -> list[np.ndarray]:
    """Return random arrays, integers over all of their range."""
    draw, arrays = np.random.default_rng(seed), []
    for tensor in tensors:
        dtype, shape = array_dtype(tensor.dtype), tuple(tensor.shape)
        if np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype)
            arrays.append(draw.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        else:
            arrays.append(draw.standard_normal(shape).astype(dtype))
    return arrays


def agree(result: np.ndarray, C: Any, *arrays: np.ndarray) -> None:
    """Assert that ``result`` is what ``C`` computes, exactly if it is of integers."""
    want = sl.reference(C)(*arrays)
    assert result.dtype == want.dtype
    if np.issubdtype(want.dtype, np.integer):
        np.testing.assert_array_equal(result, want)
    else:
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("how", BUILDS)
@pytest.mark.parametrize("family", HERE)
@pytest.mark.parametrize("size", slow_but(
    ["(1, 16, 4)", "(5, 35, 18)"], [(1, 16, 4), (3, 16, 3), (5, 35, 18), (2, 50, 64), (7, 15, 9)]
))  # fmt: skip
def test_a_product_of_an_odd_size(size: tuple[int, int, int], family: str, how: str) -> None:
    A, B, C = packed(*size, family)
    declared = getattr(instructions, family)
    if size[1] < declared.lanes or size[2] < declared.op.reduce_axis[0].extent:
        with pytest.raises(sl.errors.ScheduleError, match="the loops from there inwards are"):
            tensorized(C, declared)
        return
    f = sl.build(tensorized(C, declared), [A, B, C], **BUILDS[how])
    assert (family in str(f.machine_nest)) == (how != "python")
    arrays = operands(A, B)
    agree(f(*arrays), C, *arrays)


@pytest.mark.parametrize("tail", ["auto", "cut", "guard"])
def test_each_tail(tail: str) -> None:
    A, B, C = packed(5, 35, 18, "vpdpwssd")
    if tail == "guard":
        with pytest.raises(sl.errors.ScheduleError, match="no part of C computes all elements"):
            tensorized(C, instructions.vpdpwssd, tail)
        return
    s = tensorized(C, instructions.vpdpwssd, tail)
    assert str(s).count("tensorize vpdpwssd") == 1
    arrays = operands(A, B)
    agree(sl.build(s, [A, B, C], target="python")(*arrays), C, *arrays)


@needs_fma
@pytest.mark.parametrize("row", slow_but(["written_row", "assembled_row"], ROWS))
@pytest.mark.parametrize("how", slow_but(["llvm", "c", "python"], BUILDS))
def test_a_sum_of_floats_with_a_repeated_factor(how: str, row: str) -> None:
    A, B = sl.placeholder((5, 7), name="A"), sl.placeholder((7, 19), name="B")
    k = sl.reduce_axis(7, name="k")
    C = sl.compute((5, 19), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s, declared = sl.schedule(C), scaled_row(row)
    i, j = s[C].op.axis
    jo, ji = s[C].split(j, factor=8, tail="cut")
    s[C].reorder(i, jo, k, ji)
    s[C].tensorize(ji, declared)
    if how == "c" and row == "assembled_row":
        with pytest.raises(sl.errors.BuildError, match="no form for target='c'"):
            sl.build(s, [A, B, C], target="c")
        return
    arrays = operands(A, B)
    agree(sl.build(s, [A, B, C], **BUILDS[how])(*arrays), C, *arrays)


@needs_fma
@pytest.mark.parametrize("how", slow_but(["llvm", "numba", "python"], BUILDS))
def test_elements_without_a_sum(how: str) -> None:
    declared = fused()
    A, B, D = (sl.placeholder((3, 21), name=name) for name in "ABD")
    Y = sl.compute((3, 21), lambda i, j: A[i, j] * B[i, j] + D[i, j], name="Y")
    s = sl.schedule(Y)
    s[Y].tensorize(s[Y].split(Y.op.axis[1], factor=8, tail="cut")[1], declared)
    arrays = operands(A, B, D)
    agree(sl.build(s, [A, B, D, Y], **BUILDS[how])(*arrays), Y, *arrays)


@pytest.mark.slow
@needs_fma
@pytest.mark.parametrize("how", BUILDS)
def test_symbolic_sizes(how: str) -> None:
    m, n, terms = sl.var("m"), sl.var("n"), sl.var("terms")
    A, B = sl.placeholder((m, terms), name="A"), sl.placeholder((terms, n), name="B")
    k = sl.reduce_axis(terms, name="k")
    C = sl.compute((m, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=8, tail="cut")
    s[C].reorder(i, jo, k, ji)
    s[C].parallel(i)
    s[C].tensorize(ji, scaled_row())
    f = sl.build(s, [A, B, C], **BUILDS[how])
    draw = np.random.default_rng(0)
    for rows, columns, count in ((3, 8, 5), (2, 21, 1), (1, 7, 2), (0, 8, 3), (2, 16, 0)):
        a, b = draw.random((rows, count), "float32"), draw.random((count, columns), "float32")
        np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


@needs_vnni
@pytest.mark.parametrize("how", BUILDS)
def test_a_plain_operand_is_packed_by_a_cache_stage(how: str) -> None:
    A, B = sl.placeholder((6, 22), "uint8", name="A"), sl.placeholder((22, 40), "int8", name="B")
    k = sl.reduce_axis(22, name="k")

    def term(i: Any, j: Any) -> Any:
        return A[i, k].astype("int32") * B[k, j].astype("int32")

    C = sl.compute((6, 40), lambda i, j: sl.sum(term(i, j), axis=k), name="C")
    s = sl.schedule(C)
    # the layout fills up the last panel
    P = s.cache_read(B, "global", [C])
    s[P].transform_layout(lambda k, j: (j // 16, k // 4, j % 16, k % 4))
    L = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*C.op.axis, 3, 16, tail="cut")
    s[L].compute_at(s[C], jo)
    ko, ki = s[L].split(s[L].op.reduce_axis[0], factor=4, tail="cut")
    li, lj = s[L].op.axis
    s[L].reorder(ko, li, lj, ki)
    s[L].unroll(li)
    s[L].tensorize(lj, instructions.vpdpbusd)
    s[C].vectorize(ji)
    f = sl.build(s, [A, B, C], **BUILDS[how])
    arrays = operands(A, B)
    agree(f(*arrays), C, *arrays)


@needs_vnni
@pytest.mark.parametrize("how", BUILDS)
def test_a_whole_reduction_in_one_instruction(how: str) -> None:
    """The result is set to 0 ahead of the loops that the instruction replaces."""
    A, B, C = packed(3, 16, 4, "vpdpbusd")
    s = sl.schedule(C)
    s[C].tensorize(C.op.axis[1], instructions.vpdpbusd)
    assert str(s).index("C[i, j] = 0") < str(s).index("tensorize")
    arrays = operands(A, B)
    agree(sl.build(s, [A, B, C], **BUILDS[how])(*arrays), C, *arrays)


@needs_vnni
@pytest.mark.parametrize("how", BUILDS)
def test_the_terms_outside_of_the_lanes(how: str) -> None:
    A, B, C = packed(3, 35, 18, "vpdpbusd")
    s = sl.schedule(C)
    (i, j), (k,) = C.op.axis, C.op.reduce_axis
    jo, ji = s[C].split(j, factor=16, tail="cut")
    ko, ki = s[C].split(k, factor=4, tail="cut")
    s[C].reorder(i, jo, ko, ki, ji)
    s[C].tensorize(ki, instructions.vpdpbusd)
    arrays = operands(A, B)
    agree(sl.build(s, [A, B, C], **BUILDS[how])(*arrays), C, *arrays)


@needs_vnni
@pytest.mark.parametrize("how", BUILDS)
def test_a_product_at_a_loop_of_its_reader(how: str) -> None:
    A, B, C = packed(4, 37, 12, "vpdpwssd")
    E = sl.compute((4, 37), lambda i, j: C[i, j] // 3 - 7, name="E")
    s = sl.schedule(E)
    io, jo = s[E].split(E.op.axis[1], factor=16, tail="cut")
    s[E].parallel(E.op.axis[0])
    s[C].compute_at(s[E], io)
    (i, j), (k,) = s[C].op.axis, s[C].op.reduce_axis
    ko, ki = s[C].split(k, factor=2)
    s[C].reorder(ko, i, j, ki)
    s[C].tensorize(j, instructions.vpdpwssd)
    f = sl.build(s, [A, B, E], **BUILDS[how])
    arrays = operands(A, B)
    agree(f(*arrays), E, *arrays)


def test_int8_product_as_text(golden: Golden) -> None:
    A, B, C = packed(5, 35, 18, "vpdpbusd")
    s = tensorized(C, instructions.vpdpbusd)
    golden(str(s) + "\n\n" + s.as_python())


@needs_vnni
def test_int8_product_for_numba(golden: Golden) -> None:
    A, B, C = packed(5, 32, 16, "vpdpbusd")
    s = tensorized(C, instructions.vpdpbusd)
    source = sl.build(s, [A, B, C], target=sl.Target("cpu", vector_bytes=64)).source
    start = re.search(r"^from ", source, re.M)
    assert start is not None
    golden(source[start.start() : source.index("\n\ndef _array")])


@needs_vnni
def test_int8_product_for_c(golden: Golden) -> None:
    A, B, C = packed(5, 32, 16, "vpdpbusd")
    s = tensorized(C, instructions.vpdpbusd)
    source = sl.build(s, [A, B, C], target=sl.Target("c", vector_bytes=64)).source
    start = re.search(r"^typedef ", source, re.M)
    assert start is not None
    golden(source[start.start() :])


def test_a_schedule_round_trips() -> None:
    A, B, C = packed(5, 35, 18, "vpdpbusd")
    s = tensorized(C, instructions.vpdpbusd)
    twin = pickle.loads(pickle.dumps(s))
    assert str(twin) == str(s) and twin.to_json() == s.to_json()
    again = sl.Schedule.from_json(s.to_json(), packed(5, 35, 18, "vpdpbusd")[2])
    assert str(again) == str(s)
    space: dict[str, Any] = {"sl": sl, "A": A, "B": B, "C": C}
    exec(s.as_python(), space)
    assert "s[C].tensorize(j_inner, sl.instructions.vpdpbusd)" in s.as_python()
    assert str(space["s"]) == str(s)


def test_an_instruction_of_the_user_round_trips() -> None:
    Y, s = _fused_rows()
    declared = s.steps[-1].args["instruction"]
    again = sl.Schedule.from_json(s.to_json(), Y, instructions=[declared])
    assert str(again) == str(s) and again.to_json() == s.to_json()
    twin = pickle.loads(pickle.dumps(s))
    assert str(twin) == str(s) and twin.to_json() == s.to_json()
    assert "s[Y].tensorize(j, fused)" in s.as_python()


def test_an_instruction_with_the_name_of_an_axis() -> None:
    x = sl.placeholder((8,), name="x")
    y = sl.compute((8,), lambda i: x[i] * 2, name="y")
    emit = {"llvm": instructions.Intrinsic("llvm.fabs.v8f32", ("f32x8",))}
    declared = sl.instruction("i", y, emit=emit)
    A = sl.placeholder((3, 8), name="A")
    C = sl.compute((3, 8), lambda i, j: A[i, j] * 2, name="C")
    s = sl.schedule(C)
    s[C].tensorize(C.op.axis[1], declared)
    space = {"sl": sl, "A": A, "C": C, "i": declared}
    exec(s.as_python(), space)
    assert str(space["s"]) == str(s)


def _fused_rows() -> tuple[Any, Any]:
    A, B, D = (sl.placeholder((3, 8), name=name) for name in "ABD")
    Y = sl.compute((3, 8), lambda i, j: A[i, j] * B[i, j] + D[i, j], name="Y")
    s = sl.schedule(Y)
    s[Y].tensorize(Y.op.axis[1], fused())
    return Y, s


@needs_vnni
def test_a_saved_file_runs_without_schedlang(tmp_path: Path) -> None:
    A, B, C = packed(5, 35, 18, "vpdpbusd")
    arrays = operands(A, B)
    sl.build(tensorized(C, instructions.vpdpbusd), [A, B, C]).save(tmp_path / "product.py")
    _run_saved(tmp_path, arrays)
    agree(np.load(tmp_path / "result.npy"), C, *arrays)


@pytest.mark.slow
@needs_fma
def test_a_saved_file_with_assembly_runs_without_schedlang(tmp_path: Path) -> None:
    A, B = sl.placeholder((1,), name="A"), sl.placeholder((8,), name="B")
    k = sl.reduce_axis(1, name="k")
    C = sl.compute((8,), lambda j: sl.sum(A[k] * B[j], axis=k), name="C")
    s = sl.schedule(C)
    s[C].reorder(k, C.op.axis[0])
    s[C].tensorize(C.op.axis[0], scaled_row("assembled_row"))
    arrays = operands(A, B)
    sl.build(s, [A, B, C]).save(tmp_path / "product.py")
    _run_saved(tmp_path, arrays)
    agree(np.load(tmp_path / "result.npy"), C, *arrays)


def _run_saved(folder: Path, arrays: list[np.ndarray]) -> None:
    """Run the saved function C in a process that cannot import schedlang."""
    for name, array in zip("ab", arrays):
        np.save(folder / f"{name}.npy", array)
    program = (
        "import sys; sys.modules['schedlang'] = None\n"
        "import numpy as np, product\n"
        "np.save('result.npy', product.C(np.load('a.npy'), np.load('b.npy')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@needs_vnni
def test_an_instruction_counts_as_one_operation() -> None:
    A, B, C = packed(3, 32, 12, "vpdpbusd")
    f = sl.build(tensorized(C, instructions.vpdpbusd), [A, B, C])
    total = f.counters(*operands(A, B)).total
    named = {work.name: times for work, times in total.operations.items()}
    assert named == {"vpdpbusd": 3 * 2 * 3}
    assert total.loads == 18 * (4 + 64) and total.stores == 3 * 32


# one of each kind, of a pair with a longer form and of one with rows
QUICK = [
    *(n for n in instructions.__all__ if not n.startswith("v")),
    "vpdpbusd", "vpdpbusd_su_256", "vpdpwssd_rows", "vpmaddwd_256", "vpmaddwd_us_rows_256",
    "vdpbf16ps_256",
]  # fmt: skip


@pytest.mark.parametrize("name", slow_but(QUICK, instructions.__all__))
def test_each_instruction_in_the_box_is_checked(name: str) -> None:
    declared = getattr(instructions, name)
    if not isinstance(declared, sl.Instruction):
        return
    assert declared in instructions.IN_THE_BOX
    if "llvm" not in declared.emit:
        return
    result = declared.check(samples=60)
    assert result.ran == runs(declared)
    assert result.error <= declared.tolerance or (not result.ran and isnan(result.error))
    mnemonic = name.split("_")[0]
    # the processor may take a longer form of it for names of registers
    assert re.search(rf"^\t(\{{e?vex\}}\t)?{mnemonic}\b", result.assembly, re.M)


@needs_fma
@pytest.mark.parametrize("declared", [fused(), *map(scaled_row, ROWS)], ids=str)
def test_instructions_of_the_user_are_checked(declared: sl.Instruction) -> None:
    result = declared.check()
    assert result.ran and 0 < result.error <= declared.tolerance
    assert str(result).startswith(f"{declared}: {result.compared} elements, the largest error is")


def test_a_comparison_says_what_the_processor_lacks() -> None:
    on_x86 = [i for i in instructions.IN_THE_BOX if {"llvm", "memory"} & {*i.emit}]
    declared = next((i for i in on_x86 if not runs(i)), None)
    if declared is None:
        pytest.skip("this processor has them all")
    result = declared.check()
    assert not result.ran and not result.compared and isnan(result.error)
    said = rf"{declared} compiles; it needs [\w-]+, which this processor lacks, so nothing ran"
    assert re.fullmatch(said, str(result))


@pytest.mark.parametrize("number", slow_but(["0", "3", "4", "5", "6"], range(12)))
def test_a_random_product(number: int) -> None:
    """``python -m tests.fuzz.instructions`` runs more."""
    outcome = run_case("tests", number, all_targets=number < 3)
    assert outcome == "equal" or outcome.startswith("refused: ")
