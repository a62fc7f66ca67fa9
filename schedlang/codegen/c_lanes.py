"""Loads, stores and splats of vectors in C that need more than operators: shuffles, masks.

A shuffle names its lanes, so that each number of lanes has its own text. Where a vector fills a
register of x86, GCC has instructions that it does not make of a loop over the lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

# strided loads of up to this step read whole vectors and shuffle their lanes, as on the CPU target
LARGEST_SHUFFLED_STEP = 4
# fewer lanes are loaded one by one
FEWEST_SHUFFLED = 4
# the bytes of the types that have instructions, and how instructions call them
FLOATS = {"f32": (4, "ps"), "f64": (8, "pd")}
# the same for vectors that are parts of a register
_SPLATS = {**FLOATS, "i32": (4, "si")}
# the same for loads and stores
_MASKED = {"f32": (4, "ps"), "f64": (8, "pd"), "i32": (4, "d")}


def is_shuffled(lanes: int, step: int) -> bool:
    """Return whether a strided load reads whole vectors."""
    return lanes >= FEWEST_SHUFFLED and 1 < abs(step) <= LARGEST_SHUFFLED_STEP


def in_register(tag: str, lanes: int) -> str:
    """Return the definition of a function that gives its vector back, from a register.

    GCC may else read a vector again for each of its uses, which takes longer where these are
    several products. The definition is empty for other types than floats.

    >>> print(in_register("f32", 8))
    SL sl_f32_8 sl_in_register_f32_8(sl_f32_8 v) {
    #if defined(__AVX__) && !defined(__clang__)
      __asm__("" : "+x"(v));
    #endif
      return v;
    }
    """
    feature = {16: "__SSE2__", 32: "__AVX__"}.get(FLOATS.get(tag, (0, ""))[0] * lanes)
    if feature is None:
        return ""
    kind = f"sl_{tag}_{lanes}"
    return (
        f"SL {kind} sl_in_register_{tag}_{lanes}({kind} v) {{\n"
        f"#if defined({feature}) && !defined(__clang__)\n"
        '  __asm__("" : "+x"(v));\n#endif\n  return v;\n}'
    )


def with_shared_splats(definitions: Iterable[str]) -> list[str]:
    """Return ``definitions``, where a splat is the first part of a wider one that is there too.

    GCC makes the vector of each width by a shuffle of its own. It looks neither into the function
    that gives a part of a register nor into assembly, and neither costs an instruction.

    >>> given = ["SL_VECTOR(f32, 4)", "SL_SPLAT(f32, 4)", "SL_VECTOR(f32, 8)", "SL_SPLAT(f32, 8)"]
    >>> for text in with_shared_splats(given):
    ...     print(text)
    SL_VECTOR(f32, 4)
    SL_VECTOR(f32, 8)
    SL_SPLAT(f32, 8)
    SL sl_f32_4 sl_splat_f32_4(sl_f32 x) {
    #if defined(__AVX2__) && !defined(__clang__)
      return __builtin_ia32_ps_ps256(sl_splat_f32_8(x));
    #else
      return x - (sl_f32_4){0};
    #endif
    }
    """
    given = dict.fromkeys(definitions)
    shared: dict[str, tuple[str, ...]] = {}
    for tag, (size, suffix) in _SPLATS.items():
        full, half, quarter = (count // size for count in (32, 16, 8))
        splats = [f"SL_SPLAT({tag}, {lanes})" for lanes in (full, half, quarter)]
        vectors = [f"SL_VECTOR({tag}, {lanes})" for lanes in (full, half)]
        if splats[0] in given:
            part = f"return __builtin_ia32_{suffix}_{suffix}256(sl_splat_{tag}_{full}(x));"
            shared[splats[1]] = vectors[0], splats[0], _splat(tag, half, "__AVX2__", [part])
        if quarter > 1 and not given.keys().isdisjoint(splats[:2]):
            wide = f"sl_{tag}_{half} v = sl_splat_{tag}_{half}(x);"
            first = ", ".join(f"v[{lane}]" for lane in range(quarter))
            own = [wide, '__asm__("" : "+x"(v));', f"return (sl_{tag}_{quarter}){{{first}}};"]
            above = vectors[1], *shared.get(splats[1], splats[1:2])
            shared[splats[2]] = *above, _splat(tag, quarter, "__SSE2__", own)
    return list(dict.fromkeys(text for key in given for text in shared.get(key, (key,))))


def _splat(tag: str, lanes: int, feature: str, own: list[str]) -> str:
    """Return the definition of a splat, which GCC compiles as ``own`` with a feature of x86."""
    head = f"SL sl_{tag}_{lanes} sl_splat_{tag}_{lanes}(sl_{tag} x) {{"
    test = f"defined({feature}) && !defined(__clang__)"
    return either(head, test, own, [f"return x - (sl_{tag}_{lanes}){{0}};"])


def masked_access(how: str, tag: str, element: str, lanes: int, whole: str) -> tuple[str, str]:
    """Return the definitions of a masked load or store: by a mask of ``whole``, and of bytes.

    ``tag`` and ``element`` are the types of a lane and in memory, and ``whole`` of the mask's lane.
    """
    size, suffix = _MASKED.get(tag, (0, ""))
    suffix += "256" * (size * lanes == 32)
    feature = "__AVX2__" if tag.startswith("i") else "__AVX__"
    kind, mask = f"sl_{tag}_{lanes}", f"sl_{whole}_{lanes}"
    each = f"for (int l = 0; l < {lanes}; l++)"
    wide = f"-__builtin_convertvector(m, {mask})"
    # an int64_t is a long, and the instruction's lane a long long
    operand = f"(long long __attribute__((vector_size({size * lanes}))))m" if tag == "f64" else "m"
    end = f"{tag}_{lanes}"
    if how == "vload_masked":
        takes = f"const {element} *a"
        heads = [f"SL {kind} sl_vload_{x}_{end}({takes}, " for x in ("where", "masked")]
        own = f"return __builtin_ia32_maskload{suffix}((const {kind} *)a, {operand});"
        lane = [f"{kind} v;", f"{each} v[l] = m[l] ? a[l] : 0;", "return v;"]
        by_bytes = f"return sl_vload_where_{end}(a, {wide});"
    else:
        takes = f"{element} *a, {kind} v"
        heads = [f"SL void sl_vstore_{x}_{end}({takes}, " for x in ("where", "masked")]
        own = f"__builtin_ia32_maskstore{suffix}(({kind} *)a, {operand}, v);"
        lane = [f"{each} if (m[l]) a[l] = v[l];"]
        by_bytes = f"sl_vstore_where_{end}(a, v, {wide});"
    head = f"{heads[0]}{mask} m) {{"
    if size * lanes in (16, 32):
        if how == "vload_masked":
            where = either(head, f"defined({feature})", [own], lane)
        else:
            # AMD's instruction takes longer than moves of the lanes of a mask that is known
            test = f"#if defined({feature})\n  if (!__builtin_constant_p(m[0])) {{"
            where = "\n".join(
                [head, test, f"    {own}", "    return;", "  }", "#endif", f"  {lane[0]}", "}"]
            )
    else:
        where = "\n".join([head, *(f"  {line}" for line in lane), "}"])
    return where, "\n".join([f"{heads[1]}sl_b8_{lanes} m) {{", f"  {by_bytes}", "}"])


def first_access(how: str, tag: str, element: str, lanes: int, count: int) -> str:
    """Return the definition of a load or store of the ``count`` first lanes, as whole vectors.

    The other lanes of a load are 0. GCC keeps an array in registers if only whole vectors and
    single elements of it are moved.

    >>> print(first_access("vstore_masked", "f32", "float", 8, 6))
    SL void sl_vstore_first_6_f32_8(float *a, sl_f32_8 v) {
    #if defined(__clang__) || __GNUC__ >= 12
      sl_vstore_f32_4(a, __builtin_shufflevector(v, v, 0, 1, 2, 3));
      sl_vstore_f32_2(a + 4, __builtin_shufflevector(v, v, 4, 5));
    #else
      for (int l = 0; l < 6; l++) a[l] = v[l];
    #endif
    }
    """
    name, kind = first_name(how, count), f"sl_{tag}_{lanes}"
    each = f"for (int l = 0; l < {count}; l++)"
    if how == "vload_masked":
        head = f"SL {kind} sl_{name}_{tag}_{lanes}(const {element} *a) {{"
        own = [f"return {_joined(tag, lanes, count, 0)};"]
        by_lanes = [f"{kind} v = {{0}};", f"{each} v[l] = a[l];", "return v;"]
        return _by_shuffles(head, own, by_lanes)
    own, at = [], 0
    for size in first_pieces(count):
        place = f"a + {at}" if at else "a"
        if size == 1:
            own.append(f"a[{at}] = v[{at}];")
        else:
            piece = _shuffled("v", "v", range(at, at + size))
            own.append(f"sl_vstore_{tag}_{size}({place}, {piece});")
        at += size
    head = f"SL void sl_{name}_{tag}_{lanes}({element} *a, {kind} v) {{"
    return _by_shuffles(head, own, [f"{each} a[l] = v[l];"])


def whole_load(tag: str, element: str, lanes: int, count: int) -> str:
    """Return the definition of a load of the ``count`` first lanes, which reads all of them.

    >>> print(whole_load("f32", "float", 4, 3))
    SL sl_f32_4 sl_vload_whole_3_f32_4(const float *a) {
    #if defined(__clang__) || __GNUC__ >= 12
      return __builtin_shufflevector(sl_vload_f32_4(a), (sl_f32_4){0}, 0, 1, 2, 4);
    #else
      sl_f32_4 v = {0};
      for (int l = 0; l < 3; l++) v[l] = a[l];
      return v;
    #endif
    }
    """
    kind, order = f"sl_{tag}_{lanes}", [*range(count), *range(lanes, 2 * lanes - count)]
    own = f"return {_shuffled(f'sl_vload_{tag}_{lanes}(a)', f'({kind}){{0}}', order)};"
    head = f"SL {kind} sl_vload_whole_{count}_{tag}_{lanes}(const {element} *a) {{"
    each = f"for (int l = 0; l < {count}; l++) v[l] = a[l];"
    return _by_shuffles(head, [own], [f"{kind} v = {{0}};", each, "return v;"])


def first_name(how: str, count: int) -> str:
    """Return what a load or store of the ``count`` first lanes is called, before the type."""
    return f"{how.removesuffix('_masked')}_first_{count}"


def first_pieces(count: int) -> list[int]:
    """Return the lanes of the vectors that ``count`` lanes are.

    >>> first_pieces(7)
    [4, 2, 1]
    """
    return [1 << bit for bit in reversed(range(count.bit_length())) if count >> bit & 1]


def _joined(tag: str, lanes: int, count: int, at: int) -> str:
    """Return a vector of ``lanes``, a power of 2, of the ``count`` elements from ``at`` on."""
    kind, place = f"sl_{tag}_{lanes}", f"a + {at}" if at else "a"
    if count == lanes > 1:
        return f"sl_vload_{tag}_{lanes}({place})"
    if count == 0 or lanes <= 2:
        return f"({kind}){{{f'a[{at}]' if count else 0}}}"
    half = lanes // 2
    low = _joined(tag, half, min(count, half), at)
    return _shuffled(low, _joined(tag, half, max(count - half, 0), at + half), range(lanes))


def _by_shuffles(head: str, own: list[str], by_lanes: list[str]) -> str:
    """Return a function that shuffles, but by lanes with a GCC before 12, which has no such."""
    if not any("__builtin_shufflevector" in line for line in own):
        return "\n".join([head, *(f"  {line}" for line in own), "}"])
    return either(head, "defined(__clang__) || __GNUC__ >= 12", own, by_lanes)


def either(head: str, test: str, own: list[str], others: list[str]) -> str:
    """Return a function with a body for where a test of the preprocessor holds, and another."""
    bodies = (f"#if {test}", *(f"  {x}" for x in own), "#else", *(f"  {x}" for x in others))
    return "\n".join([head, *bodies, "#endif", "}"])


def strided_name(step: int, masked: bool) -> str:
    """Return what a strided load by shuffles is called, before the type and the lanes."""
    return f"vload_every_{'m' * (step < 0)}{abs(step)}{'_masked' * masked}"


def strided_load(tag: str, element: str, lanes: int, step: int, whole: str = "") -> str:
    """Return the definition of a load of elements a small ``step`` apart.

    It reads whole vectors, none before the first of these elements or after the last. A masked one
    has a mask of bytes, of which it makes one of ``whole``.

    >>> print(strided_load("f32", "float", 4, 2))
    SL sl_f32_4 sl_vload_every_2_f32_4(const float *a) {
    #if defined(__clang__) || __GNUC__ >= 12
      sl_f32_4 v = sl_vload_f32_4(a);
      sl_f32_4 w = sl_vload_f32_4(a + 3);
      return __builtin_shufflevector(v, w, 0, 2, 5, 7);
    #else
      sl_f32_4 v;
      for (int l = 0; l < 4; l++) v[l] = a[l * 2];
      return v;
    #endif
    }
    """
    kind, mask = f"sl_{tag}_{lanes}", f"sl_{whole}_{lanes}"
    name = f"sl_{strided_name(step, bool(whole))}_{tag}_{lanes}"
    takes = f"const {element} *a{f', sl_b8_{lanes} bytes' if whole else ''}"
    head = f"SL {kind} {name}({takes}) {{"
    one = f"a[l * {step}]"
    each = f"for (int l = 0; l < {lanes}; l++) v[l] = {f'bytes[l] ? {one} : 0' if whole else one};"
    by_lanes = [f"{kind} v;", each, "return v;"]
    lines: list[str] = []
    if whole:
        lines.append(f"{mask} m = -__builtin_convertvector(bytes, {mask}), never = {{0}};")
    parts = list(_parts(lanes, step))
    loads: list[str] = []
    for start, lane_of in parts:
        place = f"a{f' + {start}' if start > 0 else f' - {-start}' if start else ''}"
        if whole:
            # whether the lanes that these elements go to are in the mask
            own = f"m{len(loads)}"
            lines.append(f"{mask} {own} = {_shuffled('m', 'never', lane_of)};")
            loads.append(f"sl_vload_where_{tag}_{lanes}({place}, {own})")
        else:
            loads.append(f"sl_vload_{tag}_{lanes}({place})")
    lines += [f"{kind} v = {loads[0]};", f"{kind} w = {loads[1]};"]
    if step == 2 and lanes == 8:
        # x86 shuffles two vectors half by half, and pairs of a float faster than single ones
        lines.append(f"v = {_shuffled('v', 'w', (0, 2, 9, 11, 4, 6, 13, 15))};")
        if tag == "f32":
            pairs = _shuffled("(sl_f64_4)v", "(sl_f64_4)v", (0, 2, 1, 3))
            lines.append(f"return ({kind}){pairs};")
        else:
            lines.append(f"return {_shuffled('v', 'v', (0, 1, 4, 5, 2, 3, 6, 7))};")
        return _by_shuffles(head, lines, by_lanes)
    # where each lane of the result is in the two vectors
    order = [0] * lanes
    for number, (_, lane_of) in enumerate(parts):
        for at, lane in enumerate(lane_of):
            if lane < lanes:
                order[lane] = at + lanes * min(number, 1)
        if number > 1:
            lines.append(f"w = {loads[number]};")
        if number == len(parts) - 1:
            lines.append(f"return {_shuffled('v', 'w', order)};")
        elif number:
            lines.append(f"v = {_shuffled('v', 'w', order)};")
            order = list(range(lanes))
    return _by_shuffles(head, lines, by_lanes)


def columns_load(tag: str, element: str, lanes: int) -> str:
    """Return the definition of a load of adjacent columns, of the rows a step apart, if it has one.

    It loads 16 bytes of each row, and transposes these blocks. An instruction of x86 shuffles two
    vectors 16 bytes by 16 bytes.

    >>> print(columns_load("f64", "double", 4))
    SL void sl_vload_transposed_f64_4(sl_f64_4 *v, const double *a, sl_i64 step, int columns) {
      int k = 0;
    #if defined(__clang__) || __GNUC__ >= 12
      _Pragma("GCC unroll 16") for (; k + 2 <= columns; k += 2) {
        sl_f64_4 r[2], t[2];
        for (int l = 0; l < 2; l++)
          r[l] = __builtin_shufflevector(
              sl_vload_f64_2(a + l * step + k), sl_vload_f64_2(a + (l + 2) * step + k), 0, 1, 2, 3);
        for (int l = 0; l < 1; l++) {
          t[2 * l] = __builtin_shufflevector(r[l], r[l + 1], 0, 4, 2, 6);
          t[2 * l + 1] = __builtin_shufflevector(r[l], r[l + 1], 1, 5, 3, 7);
        }
        for (int l = 0; l < 2; l++) v[k + l] = t[l];
      }
    #endif
      for (; k < columns; k++) v[k] = sl_vload_strided_f64_4(a + k, step);
    }
    """
    size = _MASKED.get(tag, (0, ""))[0]
    if size * lanes not in (16, 32):
        return ""
    side, kind, end = 16 // size, f"sl_{tag}_{lanes}", f"{tag}_{lanes}"
    if lanes == side:
        rows = [f"r[l] = sl_vload_{end}(a + l * step + k);"]
    else:
        part = f"sl_vload_{tag}_{side}"
        low, high = f"{part}(a + l * step + k)", f"{part}(a + (l + {side}) * step + k)"
        order = ", ".join(map(str, range(lanes)))
        rows = ["r[l] = __builtin_shufflevector(", f"    {low}, {high}, {order});"]
    # lanes of the first and the second half of each 16 bytes, from two vectors in turns
    halves = [
        [lane + block + which for block in range(0, lanes, side)
         for lane in range(half, half + side // 2) for which in (0, lanes)]
        for half in (0, side // 2)
    ]  # fmt: skip
    rounds = []
    for source, to in (("r", "t"), ("t", "r"))[: side.bit_length() - 1]:
        pair = f"{source}[l]", f"{source}[l + {side // 2}]"
        rounds += [
            f"    for (int l = 0; l < {side // 2}; l++) {{",
            f"      {to}[2 * l] = {_shuffled(*pair, halves[0])};",
            f"      {to}[2 * l + 1] = {_shuffled(*pair, halves[1])};",
            "    }",
        ]
    return "\n".join(
        [
            f"SL void sl_vload_transposed_{end}({kind} *v, const {element} *a, sl_i64 step, "
            "int columns) {",
            "  int k = 0;",
            "#if defined(__clang__) || __GNUC__ >= 12",
            f'  _Pragma("GCC unroll 16") for (; k + {side} <= columns; k += {side}) {{',
            f"    {kind} r[{side}], t[{side}];",
            f"    for (int l = 0; l < {side}; l++)",
            *(f"      {row}" for row in rows),
            *rounds,
            f"    for (int l = 0; l < {side}; l++) v[k + l] = {to}[l];",
            "  }",
            "#endif",
            f"  for (; k < columns; k++) v[k] = sl_vload_strided_{end}(a + k, step);",
            "}",
        ]
    )


def _parts(lanes: int, step: int) -> Iterator[tuple[int, list[int]]]:
    """Yield where each vector starts, and the lanes that its elements go to, or ``lanes``."""
    low = min(step * (lanes - 1), 0)
    place = [step * lane - low for lane in range(lanes)]
    starts = [min(k * lanes, max(place) + 1 - lanes) for k in range(abs(step))]
    for number, start in enumerate(starts):
        lane_of = [lanes] * lanes
        for lane, at in enumerate(place):
            if min(at // lanes, len(starts) - 1) == number:
                lane_of[at - start] = lane
        yield start + low, lane_of


def _shuffled(a: str, b: str, order: Sequence[int]) -> str:
    return f"__builtin_shufflevector({a}, {b}, {', '.join(map(str, order))})"
