"""The machine code of both compilers: each statement has the same instructions in both.

How often a loop is unrolled differs, as the passes have other levels. So each line of the file is
compared by the kinds of its instructions: the operation, and the width of the register.
"""

from __future__ import annotations

import re
from collections import defaultdict
from platform import machine

import pytest

import schedlang as sl
from benchmarks import schedules, works
from tests.marks import NARROW, WIDE, slow_but

# LLVM moves a part of these statements to the line of another one, or they compute no floats
MOVED = ("Harris 1536x2560", "LSTM cell 64x512", "relu(ab+c)sigmoid(a) 16M", "transpose 4096^2")
ROWS = [row for row in works.TABLE if row not in MOVED]
_LINE = re.compile(r"\s*# (\d+): ")
_ARITHMETIC = re.compile(r"\s*v(fn?m|add|sub|mul|div|max|min|sqrt)\w*?([ps][sd]) ")
_REGISTER = re.compile(r"%([xyz])mm")


def instructions(asm: str) -> dict[int, set[str]]:
    """Return the kinds of a listing's arithmetic, for each line of the file."""
    kinds: dict[int, set[str]] = defaultdict(set)
    number = 0
    for line in asm.splitlines():
        place, arithmetic = _LINE.match(line), _ARITHMETIC.match(line)
        number = int(place[1]) if place else number
        if arithmetic:
            name = "fused" if arithmetic[1].startswith("f") else arithmetic[1]
            width = max(_REGISTER.findall(line), default="")
            kinds[number].add(f"{name} {arithmetic[2]} {width}")
    return dict(kinds)


def test_the_kinds_of_a_listing() -> None:
    asm = " # 7: y\n vfmadd231ps %zmm1, %zmm2, %zmm3\n vaddss 8(%rdi), %xmm1, %xmm1\n vmovaps %zmm1"
    assert instructions(f"{asm}\n # 9: z\n vmaxpd %ymm1, %ymm2, %ymm3") == {
        7: {"fused ps z", "add ss x"},
        9: {"max pd y"},
    }


@pytest.mark.skipif(machine() not in ("x86_64", "AMD64"), reason="instructions of x86")
@pytest.mark.parametrize("row", slow_but(["box blur 2048^2"], ROWS))
def test_each_statement_has_the_same_instructions(row: str) -> None:
    if row == "max pool 3x3/2 64x112^2" and not WIDE:
        pytest.skip(NARROW)
    work = works.TABLE[row]
    s, args = schedules.of(work)[schedules.MAIN].make(work, sl.Target("cpu"))
    by_llvm, by_numba = (sl.build(s, args, compiler=how) for how in ("llvm", "numba"))
    assert by_llvm.path == by_numba.path
    kinds = instructions(by_llvm.asm)
    assert kinds and kinds == instructions(by_numba.asm)
