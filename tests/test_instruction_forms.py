"""Instructions as functions of Python and as snippets of C."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.instructions import CSnippet, PythonFunction
from schedlang.intrinsics.cpu import bfloat_value, broadcast, float32, fma, instruct, reduce_add
from tests.instructions import runs
from tests.test_instructions import agree, operands

pytestmark = pytest.mark.slow

HALF = 0.5
CPU: dict[str, dict[str, Any]] = {
    "llvm": {"target": "cpu", "compiler": "llvm"},
    "numba": {"target": "cpu", "compiler": "numba"},
}


def dot(lanes: int, terms: int, left: str, right: str, result: str) -> Any:
    a = sl.placeholder((terms,), left, name="a")
    b = sl.placeholder((lanes, terms), right, name="b")
    q = sl.reduce_axis(terms, name="q")

    def element(i: Any) -> Any:
        return sl.sum(a[q].astype(result) * b[i, q].astype(result), axis=q)

    return sl.compute((lanes,), element, name="c")


def fused(c: Any, a: Any, b: Any) -> Any:
    """Comments and docstrings stay behind."""
    return fma(broadcast(a, 8), b, c)  # so does this


def of_bfloats(c: Any, a: Any, b: Any) -> Any:
    wide = broadcast(bfloat_value(a), 16)
    return fma(wide, bfloat_value(b), c)


def added(c: Any, a: Any, b: Any) -> Any:
    return c + reduce_add(a * b)


def pairs(c: Any, a: Any, b: Any) -> Any:
    c += instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (a, b))
    return c


FUNCTIONS: dict[str, tuple[Callable[..., Any], Any, float, str]] = {
    "floats": (fused, dot(8, 1, "float32", "float32", "float32"), 2.0**-22, "fma"),
    "short floats": (of_bfloats, dot(16, 1, "bfloat16", "bfloat16", "float32"), 2.0**-22, "fma"),
    "one lane": (added, dot(1, 8, "float32", "float32", "float32"), 2.0**-20, "avx"),
    "a scalar of integers": (added, dot(1, 16, "int32", "int32", "int32"), 0, "avx2"),
    "an instruction inside": (pairs, dot(8, 2, "int16", "int16", "int32"), 0, "avx2"),
}


def declared(which: str) -> sl.Instruction:
    function, output, tolerance, needs = FUNCTIONS[which]
    emit = {"llvm": PythonFunction(function)}
    return sl.instruction("tile", output, emit, needs, tolerance)


def product(tile: sl.Instruction, m: int, n: int, k: int) -> tuple[Any, Any, Any, Any]:
    """Return A, B, C and a schedule of C that uses an instruction of the form of :func:`dot`."""
    a, b = tile.operands
    lanes, terms, result = tile.lanes, int(a.shape[0]), tile.output.dtype
    A = sl.placeholder((m, k), a.dtype, name="A")
    shape = (-(-k // terms), -(-n // lanes), lanes, terms)
    B = sl.placeholder(shape, b.dtype, name="B")
    r = sl.reduce_axis(k, name="k")

    def element(i: Any, j: Any) -> Any:
        y = B[r // terms, j // lanes, j % lanes, r % terms]
        return sl.sum(A[i, r].astype(result) * y.astype(result), axis=r)

    C = sl.compute((m, n), element, name="C")
    s = sl.schedule(C)
    (i, j), (k_axis,) = C.op.axis, C.op.reduce_axis
    jo, ji = s[C].split(j, factor=lanes, tail="cut")
    ko, ki = s[C].split(k_axis, factor=terms, tail="cut")
    s[C].reorder(i, jo, ko, ji, ki)
    s[C].tensorize(ji if lanes > 1 else ki, tile)
    return A, B, C, s


def skip_unless(tile: sl.Instruction) -> None:
    if not runs(tile):
        pytest.skip(f"this processor lacks {tile.needs}")


@pytest.mark.parametrize("how", CPU)
@pytest.mark.parametrize("which", FUNCTIONS)
def test_a_function_of_python(which: str, how: str) -> None:
    tile = declared(which)
    skip_unless(tile)
    A, B, C, s = product(tile, 3, 2 * tile.lanes + 3, 37)
    f = sl.build(s, [A, B, C], **CPU[how])
    assert "def tile(c, a, b):" in f.source and re.search(r"\btile\(C_", f.source)
    arrays = operands(A, B)
    agree(f(*arrays), C, *arrays)


@pytest.mark.parametrize("which", FUNCTIONS)
def test_a_function_of_python_is_checked(which: str) -> None:
    tile = declared(which)
    skip_unless(tile)
    result = tile.check(samples=20)
    assert result.ran and result.error <= tile.tolerance


def test_the_text_of_a_function_of_python() -> None:
    by = 2.0

    def scaled(x: Any) -> Any:
        return x * float32(by * HALF)

    x = sl.placeholder((8,), name="x")
    y = sl.compute((8,), lambda i: x[i] * sl.const(1.0, "float32"), name="y")
    tile = sl.instruction("scaled", y, emit={"llvm": PythonFunction(scaled)})
    A = sl.placeholder((16,), name="A")
    B = sl.compute((16,), lambda i: A[i] * sl.const(1.0, "float32"), name="B")
    s = sl.schedule(B)
    s[B].tensorize(s[B].split(B.op.axis[0], factor=8)[1], tile)
    f = sl.build(s)
    assert "@njit(**OPTIONS)\ndef scaled(x):\n    return x * float32(2.0 * 0.5)\n" in f.source
    assert "vstore(B, i_outer*8, scaled(vload(A, i_outer*8, 8)))" in f.source
    a = np.arange(16, dtype="float32")
    np.testing.assert_array_equal(f(a), a)


def test_a_saved_file_has_the_function(tmp_path: Path) -> None:
    tile = declared("an instruction inside")
    skip_unless(tile)
    A, B, C, s = product(tile, 3, 19, 12)
    arrays = operands(A, B)
    sl.build(s, [A, B, C]).save(tmp_path / "product.py")
    for name, array in zip("ab", arrays):
        np.save(tmp_path / f"{name}.npy", array)
    program = (
        "import sys; sys.modules['schedlang'] = None\n"
        "import numpy as np, product\n"
        "np.save('result.npy', product.C(np.load('a.npy'), np.load('b.npy')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    agree(np.load(tmp_path / "result.npy"), C, *arrays)


def test_a_function_of_python_is_pickled_and_counted() -> None:
    tile = declared("floats")
    twin = pickle.loads(pickle.dumps(tile))
    assert twin.emit == tile.emit
    skip_unless(tile)
    A, B, C, s = product(twin, 3, 16, 5)
    total = sl.build(s, [A, B, C]).counters(*operands(A, B)).total
    assert {work.name: n for work, n in total.operations.items()} == {"tile": 3 * 2 * 5}


SNIPPETS = {
    "lanes": (
        CSnippet("c = _mm256_add_epi32(c, _mm256_madd_epi16(a, b));",
                 {"c": "__m256i", "a": "__m256i", "b": "__m256i"}, "immintrin.h"),
        dot(8, 2, "int16", "int16", "int32"), "avx2",
    ),
    "one lane": (
        CSnippet("""
        for (int q = 0; q < 4; q++)
          c += (uint8_t)(a >> 8 * q) * (int8_t)(b >> 8 * q);
        """, {"c": "int32_t", "a": "uint32_t", "b": "uint32_t"}),
        dot(1, 4, "uint8", "int8", "int32"), (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", SNIPPETS)
def test_a_snippet_of_c(which: str) -> None:
    snippet, output, needs = SNIPPETS[which]
    tile = sl.instruction("tile", output, {"c": snippet}, needs)
    skip_unless(tile)
    result = tile.check(samples=20)
    assert result.ran and result.target == "c" and "tile:" in result.assembly
    A, B, C, s = product(tile, 3, 2 * tile.lanes + 3, 38)
    f = sl.build(s, [A, B, C], target="c")
    assert "sl_instruction_tile(" in f.source
    arrays = operands(A, B)
    agree(f(*arrays), C, *arrays)
