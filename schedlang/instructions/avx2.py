"""Dot products of AVX2, which has none for bytes: ``vpmaddwd``, after bytes become words.

Two bytes in a word become two words by shifts, which keep or drop the sign. So no sum is cut off,
as in ``vpmaddubsw``.

Emitted files hold the source of a function, so each pair of signs has a function of its own.

Source: Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.instructions.c_forms import CSnippet
from schedlang.instructions.declaration import Instruction, instruction
from schedlang.instructions.python_function import PythonFunction
from schedlang.instructions.x86 import dot

# intrinsics that emitted files have; their modules stand above this one
instruct: Any = None
int32: Any = None


def words(c: Any, a: Any, b: Any) -> Any:
    """Return ``c`` with the products of two words in each lane."""
    return c + instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (a, b))


def unsigned_by_signed(c: Any, a: Any, b: Any) -> Any:
    """Return ``c`` with the products of four unsigned and four signed bytes in each lane."""
    high_a = instruct("i16x16 llvm.x86.avx2.pslli.w(i16x16, i32)", (a, int32(8)))
    even_a = instruct("i16x16 llvm.x86.avx2.psrli.w(i16x16, i32)", (high_a, int32(8)))
    odd_a = instruct("i16x16 llvm.x86.avx2.psrli.w(i16x16, i32)", (a, int32(8)))
    high_b = instruct("i16x16 llvm.x86.avx2.pslli.w(i16x16, i32)", (b, int32(8)))
    even_b = instruct("i16x16 llvm.x86.avx2.psrai.w(i16x16, i32)", (high_b, int32(8)))
    odd_b = instruct("i16x16 llvm.x86.avx2.psrai.w(i16x16, i32)", (b, int32(8)))
    even = instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (even_a, even_b))
    odd = instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (odd_a, odd_b))
    return c + even + odd


def signed_by_unsigned(c: Any, a: Any, b: Any) -> Any:
    """Return ``c`` with the products of four signed and four unsigned bytes in each lane."""
    high_a = instruct("i16x16 llvm.x86.avx2.pslli.w(i16x16, i32)", (a, int32(8)))
    even_a = instruct("i16x16 llvm.x86.avx2.psrai.w(i16x16, i32)", (high_a, int32(8)))
    odd_a = instruct("i16x16 llvm.x86.avx2.psrai.w(i16x16, i32)", (a, int32(8)))
    high_b = instruct("i16x16 llvm.x86.avx2.pslli.w(i16x16, i32)", (b, int32(8)))
    even_b = instruct("i16x16 llvm.x86.avx2.psrli.w(i16x16, i32)", (high_b, int32(8)))
    odd_b = instruct("i16x16 llvm.x86.avx2.psrli.w(i16x16, i32)", (b, int32(8)))
    even = instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (even_a, even_b))
    odd = instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (odd_a, odd_b))
    return c + even + odd


def signed_by_signed(c: Any, a: Any, b: Any) -> Any:
    """Return ``c`` with the products of four signed and four signed bytes in each lane."""
    high_a = instruct("i16x16 llvm.x86.avx2.pslli.w(i16x16, i32)", (a, int32(8)))
    even_a = instruct("i16x16 llvm.x86.avx2.psrai.w(i16x16, i32)", (high_a, int32(8)))
    odd_a = instruct("i16x16 llvm.x86.avx2.psrai.w(i16x16, i32)", (a, int32(8)))
    high_b = instruct("i16x16 llvm.x86.avx2.pslli.w(i16x16, i32)", (b, int32(8)))
    even_b = instruct("i16x16 llvm.x86.avx2.psrai.w(i16x16, i32)", (high_b, int32(8)))
    odd_b = instruct("i16x16 llvm.x86.avx2.psrai.w(i16x16, i32)", (b, int32(8)))
    even = instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (even_a, even_b))
    odd = instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (odd_a, odd_b))
    return c + even + odd


def unsigned_by_unsigned(c: Any, a: Any, b: Any) -> Any:
    """Return ``c`` with the products of four unsigned and four unsigned bytes in each lane."""
    high_a = instruct("i16x16 llvm.x86.avx2.pslli.w(i16x16, i32)", (a, int32(8)))
    even_a = instruct("i16x16 llvm.x86.avx2.psrli.w(i16x16, i32)", (high_a, int32(8)))
    odd_a = instruct("i16x16 llvm.x86.avx2.psrli.w(i16x16, i32)", (a, int32(8)))
    high_b = instruct("i16x16 llvm.x86.avx2.pslli.w(i16x16, i32)", (b, int32(8)))
    even_b = instruct("i16x16 llvm.x86.avx2.psrli.w(i16x16, i32)", (high_b, int32(8)))
    odd_b = instruct("i16x16 llvm.x86.avx2.psrli.w(i16x16, i32)", (b, int32(8)))
    even = instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (even_a, even_b))
    odd = instruct("i32x8 llvm.x86.avx2.pmadd.wd(i16x16, i16x16)", (odd_a, odd_b))
    return c + even + odd


_WORDS = "c = _mm256_add_epi32(c, _mm256_madd_epi16(a, b));"
_BYTES = """
const __m256i even_a = _mm256_LEFT_epi16(_mm256_slli_epi16(a, 8), 8);
const __m256i even_b = _mm256_RIGHT_epi16(_mm256_slli_epi16(b, 8), 8);
const __m256i odd_a = _mm256_LEFT_epi16(a, 8), odd_b = _mm256_RIGHT_epi16(b, 8);
c = _mm256_add_epi32(c, _mm256_madd_epi16(even_a, even_b));
c = _mm256_add_epi32(c, _mm256_madd_epi16(odd_a, odd_b));
"""
_SHIFTS = {"int8": "srai", "uint8": "srli"}


def _of_words(name: str, rows: bool = False) -> Instruction:
    declared = dot(8, 2, "int16", "int16", "int32", rows)
    return _declared(name, declared, words, _WORDS)


def _of_bytes(
    name: str, function: Callable[..., Any], left: str, right: str, rows: bool = False
) -> Instruction:
    text = _BYTES.replace("LEFT", _SHIFTS[left]).replace("RIGHT", _SHIFTS[right])
    return _declared(name, dot(8, 4, left, right, "int32", rows), function, text)


def _declared(name: str, output: Tensor, function: Callable[..., Any], text: str) -> Instruction:
    types = {"c": "__m256i", "a": "__m256i", "b": "__m256i"}
    return instruction(
        name, output, needs=["avx2"],
        emit={"llvm": PythonFunction(function), "c": CSnippet(text, types, "immintrin.h")},
    )  # fmt: skip


vpmaddwd_256 = _of_words("vpmaddwd_256")
vpmaddwd_rows_256 = _of_words("vpmaddwd_rows_256", rows=True)
vpmaddwd_us_256 = _of_bytes("vpmaddwd_us_256", unsigned_by_signed, "uint8", "int8")
vpmaddwd_us_rows_256 = _of_bytes(
    "vpmaddwd_us_rows_256", unsigned_by_signed, "uint8", "int8", rows=True
)
vpmaddwd_su_256 = _of_bytes("vpmaddwd_su_256", signed_by_unsigned, "int8", "uint8")
vpmaddwd_su_rows_256 = _of_bytes(
    "vpmaddwd_su_rows_256", signed_by_unsigned, "int8", "uint8", rows=True
)
vpmaddwd_ss_256 = _of_bytes("vpmaddwd_ss_256", signed_by_signed, "int8", "int8")
vpmaddwd_ss_rows_256 = _of_bytes(
    "vpmaddwd_ss_rows_256", signed_by_signed, "int8", "int8", rows=True
)
vpmaddwd_uu_256 = _of_bytes("vpmaddwd_uu_256", unsigned_by_unsigned, "uint8", "uint8")
vpmaddwd_uu_rows_256 = _of_bytes(
    "vpmaddwd_uu_rows_256", unsigned_by_unsigned, "uint8", "uint8", rows=True
)
