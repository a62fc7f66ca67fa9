"""Vectors of float16 in C: x86 converts a register of them by one instruction.

A value is a vector of floats, and an element of an array is 16 bits. GCC converts lane by lane
where a program does not name the instructions.
"""

from __future__ import annotations

from schedlang.codegen.c_lanes import either

# the instructions by the lanes of a register of floats
_SUFFIXES = {4: "", 8: "256"}
_TEST = "defined(__F16C__) && !defined(__clang__)"


def has_halves(lanes: int) -> bool:
    """Return whether so many float16 are converted by one instruction."""
    return lanes in _SUFFIXES


def half_moves(lanes: int) -> str:
    """Return the definitions of a load and a store of ``lanes`` float16.

    >>> print(half_moves(8))
    SL sl_f16_8 sl_vload_f16_8(const uint16_t *a) {
    #if defined(__F16C__) && !defined(__clang__)
      short bits __attribute__((vector_size(16))) = {0};
      memcpy(&bits, a, 16);
      return __builtin_ia32_vcvtph2ps256(bits);
    #else
      sl_f16_8 v;
      for (int l = 0; l < 8; l++) v[l] = sl_half_get(a[l]);
      return v;
    #endif
    }
    SL void sl_vstore_f16_8(uint16_t *a, sl_f16_8 v) {
    #if defined(__F16C__) && !defined(__clang__)
      short bits __attribute__((vector_size(16))) = __builtin_ia32_vcvtps2ph256(v, 0);
      memcpy(a, &bits, 16);
    #else
      for (int l = 0; l < 8; l++) a[l] = sl_half_put(v[l]);
    #endif
    }
    """
    kind, suffix = f"sl_f16_{lanes}", _SUFFIXES[lanes]
    each = f"for (int l = 0; l < {lanes}; l++)"
    bits = "short bits __attribute__((vector_size(16)))"
    load = [
        f"{bits} = {{0}};",
        f"memcpy(&bits, a, {2 * lanes});",
        f"return __builtin_ia32_vcvtph2ps{suffix}(bits);",
    ]
    store = [f"{bits} = __builtin_ia32_vcvtps2ph{suffix}(v, 0);", f"memcpy(a, &bits, {2 * lanes});"]
    by_lanes = [f"{kind} v;", f"{each} v[l] = sl_half_get(a[l]);", "return v;"]
    loads = either(f"SL {kind} sl_vload_f16_{lanes}(const uint16_t *a) {{", _TEST, load, by_lanes)
    head = f"SL void sl_vstore_f16_{lanes}(uint16_t *a, {kind} v) {{"
    stores = either(head, _TEST, store, [f"{each} a[l] = sl_half_put(v[l]);"])
    return f"{loads}\n{stores}"


def half_cast(source: str, lanes: int) -> str:
    """Return the definition of a cast of ``lanes`` floats to float16.

    >>> print(half_cast("f32", 8))
    SL sl_f16_8 sl_f16_of_f32_8(sl_f32_8 a) {
    #if defined(__F16C__) && !defined(__clang__)
      return __builtin_ia32_vcvtph2ps256(__builtin_ia32_vcvtps2ph256(a, 0));
    #else
      sl_f16_8 v;
      for (int l = 0; l < 8; l++) v[l] = sl_half(a[l]);
      return v;
    #endif
    }
    """
    kind, suffix = f"sl_f16_{lanes}", _SUFFIXES[lanes]
    name = f"__builtin_ia32_vcvtph2ps{suffix}(__builtin_ia32_vcvtps2ph{suffix}(a, 0))"
    each = f"for (int l = 0; l < {lanes}; l++) v[l] = sl_half(a[l]);"
    head = f"SL {kind} sl_f16_of_{source}_{lanes}(sl_{source}_{lanes} a) {{"
    return either(head, _TEST, [f"return {name};"], [f"{kind} v;", each, "return v;"])
