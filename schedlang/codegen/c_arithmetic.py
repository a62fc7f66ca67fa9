"""Arithmetic of vectors in C by instructions of x86, which GCC does not make of operators.

Clang makes them of the other body of each function.
"""

from __future__ import annotations

from schedlang.codegen.c_lanes import FLOATS, either

# the instructions of minima and maxima, and the operators
_EXTREMES = {"minimum": ("min", "<"), "maximum": ("max", ">")}
# the bytes of the integers that have instructions for these and for magnitudes, how instructions
# call them, and their types there
_INTEGERS = {"8": (1, "b", "char"), "16": (2, "w", "short"), "32": (4, "d", "int")}
# the modes of x86's rounding, which raise no flag of inexactness
_ROUNDING = {"floor": 9, "ceil": 10, "trunc": 11, "round_even": 8}


def instruction(name: str, tag: str, lanes: int) -> str:
    """Return the definition of a function of vectors by an instruction of x86, if it has one.

    >>> print(instruction("sqrt", "f32", 8))
    SL sl_f32_8 sl_sqrt_f32_8(sl_f32_8 a) {
    #if defined(__AVX__) && !defined(__clang__)
      return __builtin_ia32_sqrtps256(a);
    #else
      sl_f32_8 v;
      for (int l = 0; l < 8; l++) v[l] = sl_sqrt_f32(a[l]);
      return v;
    #endif
    }
    """
    size, suffix = FLOATS.get(tag, (0, ""))
    if size * lanes not in (16, 32) or name not in ("sqrt", *_ROUNDING):
        return ""
    wide = size * lanes == 32
    suffix += "256" * wide
    feature = "__AVX__" if wide else "__SSE4_1__" if name in _ROUNDING else "__SSE2__"
    kind, full = f"sl_{tag}_{lanes}", f"sl_{name}_{tag}_{lanes}"
    call = f"sqrt{suffix}(a)" if name == "sqrt" else f"round{suffix}(a, {_ROUNDING[name]})"
    each = f"for (int l = 0; l < {lanes}; l++) v[l] = sl_{name}_{tag}(a[l]);"
    head = f"SL {kind} {full}({kind} a) {{"
    by_lanes = [f"{kind} v;", each, "return v;"]
    # Clang makes the instruction of the other body
    test = f"defined({feature}) && !defined(__clang__)"
    return either(head, test, [f"return __builtin_ia32_{call};"], by_lanes)


def is_extreme(name: str) -> bool:
    """Return whether a function is a minimum or a maximum."""
    return name in _EXTREMES


def extreme(name: str, tag: str, lanes: int) -> str:
    """Return the definition of a minimum or maximum of vectors, in which NaN wins.

    >>> print(extreme("maximum", "u16", 16))
    SL sl_u16_16 sl_maximum_u16_16(sl_u16_16 a, sl_u16_16 b) {
    #if defined(__AVX2__) && !defined(__clang__)
      typedef short operand __attribute__((vector_size(32)));
      return (sl_u16_16)__builtin_ia32_pmaxuw256((operand)a, (operand)b);
    #else
      return sl_choose_u16_16(b > a, b, a);
    #endif
    }
    """
    short, op = _EXTREMES[name]
    kind, choose = f"sl_{tag}_{lanes}", f"sl_choose_{tag}_{lanes}"
    head = f"SL {kind} sl_{name}_{tag}_{lanes}({kind} a, {kind} b) {{"
    if "f" not in tag:
        sign = "u" if tag.startswith("u") else "s"
        other = f"return {choose}(b {op} a, b, a);"
        return _of_integers(head, f"p{short}{sign}", tag, lanes, "ab", [other])
    # Clang warns of a comparison of a name with itself
    copy = f"{kind} same = b;"
    other = f"return {choose}((b {op} a) | (b != same), b, a);"
    size, suffix = FLOATS.get(tag, (0, ""))
    if size * lanes not in (16, 32):
        return "\n".join([head, f"  {copy}", f"  {other}", "}"])
    wide = size * lanes == 32
    # the instruction returns its second operand where one of them is NaN
    best = f"__builtin_ia32_{short}{suffix}{'256' * wide}(b, a)"
    # GCC makes two instructions of a choice by operators
    blend = f"__builtin_ia32_blendv{suffix}{'256' * wide}"
    own = f"return {blend}({best}, b, ({kind})(b != same));"
    # Clang makes the instructions of the other body
    test = f"defined({'__AVX__' if wide else '__SSE4_1__'}) && !defined(__clang__)"
    return either(head, test, [copy, own], [copy, other])


def magnitude(tag: str, lanes: int) -> str:
    """Return the definition of the magnitude of vectors of signed integers.

    >>> print(magnitude("i32", 8))
    SL sl_i32_8 sl_absolute_i32_8(sl_i32_8 a) {
    #if defined(__AVX2__) && !defined(__clang__)
      typedef int operand __attribute__((vector_size(32)));
      return (sl_i32_8)__builtin_ia32_pabsd256((operand)a);
    #else
      sl_i32_8 negative = (sl_i32_8)(a < 0);
      return (a ^ negative) - negative;
    #endif
    }
    """
    kind = f"sl_{tag}_{lanes}"
    head = f"SL {kind} sl_absolute_{tag}_{lanes}({kind} a) {{"
    others = [f"{kind} negative = ({kind})(a < 0);", "return (a ^ negative) - negative;"]
    return _of_integers(head, "pabs", tag, lanes, "a", others)


def _of_integers(
    head: str, name: str, tag: str, lanes: int, operands: str, others: list[str]
) -> str:
    """Return a function by an instruction of x86 for integers, if there is one of that size."""
    size, suffix, element = _INTEGERS.get(tag[1:], (0, "", ""))
    if size * lanes not in (16, 32):
        return "\n".join([head, *(f"  {line}" for line in others), "}"])
    given = ", ".join(f"(operand){operand}" for operand in operands)
    call = f"__builtin_ia32_{name}{suffix}{8 * size * lanes}({given})"
    own = [
        f"typedef {element} operand __attribute__((vector_size({size * lanes})));",
        f"return (sl_{tag}_{lanes}){call};",
    ]
    feature = "__AVX2__" if size * lanes == 32 else "__SSE4_1__"
    return either(head, f"defined({feature}) && !defined(__clang__)", own, others)


def limit(name: str, lanes: int) -> str:
    """Return the definition of ``at_most`` or ``at_least``, which keep NaN, of ``lanes`` float32.

    The limit is in all lanes. Another number of lanes than a register has is not one instruction.
    """
    short, op = {"at_most": ("min", ">"), "at_least": ("max", "<")}[name]
    kind = f"sl_f32_{lanes}"
    head = f"SL {kind} sl_{name}_f32_{lanes}({kind} x, sl_f32 limit) {{"
    other = f"  return sl_choose_f32_{lanes}(x {op} limit, sl_splat_f32_{lanes}(limit), x);"
    if lanes not in (4, 8):
        return "\n".join([head, other, "}"])
    feature, suffix = ("__SSE2__", "") if lanes == 4 else ("__AVX__", "256")
    own = f"return __builtin_ia32_{short}ps{suffix}(sl_splat_f32_{lanes}(limit), x);"
    return either(head, f"defined({feature}) && !defined(__clang__)", [own], [other.strip()])
