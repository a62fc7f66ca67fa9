"""Products of tiles by AMX: bytes in int32, and bfloat16 in float32, as functions of C.

A call configures the tiles, computes one tile of the result, and releases them. ``int8_product``
and ``bf16_product`` declare calls of more steps, which keep the result in its tile for longer.

Sources: Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 1, "Programming
with Intel Advanced Matrix Extensions"; Linux, "Using XSTATE features in user space applications".
"""

from __future__ import annotations

from schedlang.compute.define import compute
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as sum_over
from schedlang.compute.tensor import placeholder
from schedlang.errors import ComputeError, text_of
from schedlang.host import is_whole
from schedlang.instructions.declaration import Instruction, instruction
from schedlang.instructions.emission import MemoryFunction

# rows of a tile, and groups of 4 bytes in a row
ROWS = 16
# 0x1023 and 18 are ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA
_SOURCE = """
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>

long syscall(long, ...);

/* 1 if the processor has tiles, and Linux gives them to this process */
static int permitted(void) {
  static _Atomic int known;
  if (!known) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    const unsigned needed = 1u << 24 | 1u << BIT;
    const int has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & needed) == needed;
    known = has && !syscall(SYS_arch_prctl, 0x1023, 18) ? 1 : -1;
  }
  return known == 1;
}

__attribute__((target("amx-tile,FEATURE")))
int NAME(const LEFT *a, const RIGHT *b, RESULT *c, const int64_t *sizes) {
  struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } tiles;
  if (!permitted()) return 1;
  memset(&tiles, 0, sizeof tiles);
  tiles.palette = 1;
  for (int k = 0; k < 3; k++) tiles.bytes[k] = 64, tiles.rows[k] = 16;
  _tile_loadconfig(&tiles);
  _tile_loadd(0, c, sizes[14] * 4);
  for (int64_t q = 0; q < sizes[1]; q += 16) {
    _tile_loadd(1, a + q * sizes[4], sizes[3] * sizeof *a);
    _tile_loadd(2, b + q * sizes[9], sizes[9] * sizeof *b);
    PRODUCT(0, 1, 2);
  }
  _tile_stored(0, c, sizes[14] * 4);
  _tile_release();
  return 0;
}
"""


class _Tiles(MemoryFunction):
    """C source that is compiled when a kernel or a check needs it, since schedules only name it."""

    def check(self, declared: Instruction) -> None:
        """Compile nothing yet."""


def _product(
    name: str, steps: int, dtypes: tuple[str, str, str], types: tuple[str, str, str], feature: str,
    bit: int, function: str, tolerance: float = 0.0, note: str = "",
) -> Instruction:  # fmt: skip
    """Return ``c[i, j] += a[i, q, r] * b[q, j, r]`` over 16 rows and columns, and ``steps``."""
    left, right, result = dtypes
    group = 4 if result == "int32" else 2
    if not is_whole(steps) or steps < 1 or steps % (ROWS * group):
        raise ComputeError(
            f"{name} of {text_of(steps)} steps: a tile has {ROWS * group}, so give a multiple of it"
        )
    a = placeholder((ROWS, steps // group, group), left, name="a")
    b = placeholder((steps // group, ROWS, group), right, name="b")
    q, r = reduce_axis(steps // group, name="q"), reduce_axis(group, name="r")
    c = compute(
        (ROWS, ROWS),
        lambda i, j: sum_over(a[i, q, r].astype(result) * b[q, j, r].astype(result), axis=[q, r]),
        name="c",
    )
    full = name if steps == ROWS * group else f"{name}_{steps}"
    source = _SOURCE
    words = ("LEFT", "RIGHT", "RESULT", "NAME", "FEATURE", "BIT", "PRODUCT")
    for word, text in zip(words, (*types, full, feature, str(bit), function)):
        source = source.replace(word, text)
    strides = ((None, group, 1), (None, group, 1), (None, 1))
    emit = {"memory": _Tiles(source, strides)}
    return instruction(full, c, emit, [feature], tolerance, note)


def int8_product(steps: int = 64) -> Instruction:
    """Return the product of uint8 and int8 of 16 x 16 elements and ``steps``, a multiple of 64.

    Raise :class:`~schedlang.errors.ComputeError` for another number of steps.

    >>> int8_product(128)
    <Instruction tdpbusd_128(a: uint8[16, 32, 4], b: int8[32, 16, 4]) -> c: int32[16, 16]>
    """
    return _product(
        "tdpbusd", steps, ("uint8", "int8", "int32"), ("uint8_t", "int8_t", "int32_t"), "amx-int8",
        25, "_tile_dpbusd",
    )  # fmt: skip


def bf16_product(steps: int = 32) -> Instruction:
    """Return the product of bfloat16 of 16 x 16 elements and ``steps``, a multiple of 32.

    Raise :class:`~schedlang.errors.ComputeError` for another number of steps.
    """
    return _product(
        "tdpbf16ps", steps, ("bfloat16", "bfloat16", "float32"), ("uint16_t", "uint16_t", "float"),
        "amx-bf16", 22, "_tile_dpbf16ps",
        # each step adds two products, with a rounding of half a unit in the last place each
        tolerance=2 * steps * 2.0**-24,
        note="denormal numbers are taken as 0",
    )  # fmt: skip


tdpbusd = int8_product()
tdpbf16ps = bf16_product()
