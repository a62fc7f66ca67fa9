"""Products of tiles by AMX: bytes in int32, and bfloat16 in float32, as functions of C.

A call configures the tiles, computes one tile of the result, and releases them. ``int8_product``
and ``bf16_product`` declare calls of more steps, which keep the result in its tile for longer.

Sources: Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 1, "Programming
with Intel Advanced Matrix Extensions"; Linux, "Using XSTATE features in user space applications".
"""

from __future__ import annotations

from functools import cache

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
# cycles of a call around its products, and of each product, which waits for the one before
# by Intel's manual of optimization, "Intel AMX instruction latency"; nobody has measured them
CALL, PRODUCT = 250, 52
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


@cache
def _product(
    name: str, steps: int, dtypes: tuple[str, str, str], types: tuple[str, str, str], feature: str,
    bit: int, function: str, tolerance: float = 0.0, note: str = "",
) -> Instruction:  # fmt: skip
    """Return ``c[i, j] += a[i, q, r] * b[q, j, r]`` over 16 rows and columns, and ``steps``."""
    left, right, result = dtypes
    group = 4 if result == "int32" else 2
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
    cycles = CALL + PRODUCT * steps // (ROWS * group)
    emit = {"memory": _Tiles(source, strides, cycles=cycles)}
    return instruction(full, c, emit, [feature], tolerance, note)


def _checked(name: str, steps: int, tile: int) -> int:
    """Return a number of steps, a multiple of the steps of a tile."""
    if not is_whole(steps) or steps < 1 or steps % tile:
        raise ComputeError(
            f"{name} of {text_of(steps)} steps: a tile has {tile}, so give a multiple of it"
        )
    return int(steps)


def int8_product(steps: int = 64, left: str = "uint8", right: str = "int8") -> Instruction:
    """Return the product of bytes of 16 x 16 elements and ``steps``, a multiple of 64.

    ``left`` and ``right`` are the dtypes of the factors, ``"uint8"`` or ``"int8"``. The same
    arguments return the same instruction. Raise :class:`~schedlang.errors.ComputeError` for another
    number of steps, and for another dtype.

    >>> int8_product(128)
    <Instruction tdpbusd_128(a: uint8[16, 32, 4], b: int8[32, 16, 4]) -> c: int32[16, 16]>
    >>> int8_product(64, "int8").name
    'tdpbssd'
    """
    signs = {"uint8": "u", "int8": "s"}
    for dtype in (left, right):
        if not isinstance(dtype, str) or dtype not in signs:
            raise ComputeError(
                f"int8_product of {text_of(dtype)}: the factors are bytes; give uint8 or int8"
            )
    name = f"tdpb{signs[left]}{signs[right]}d"
    types = f"{left}_t", f"{right}_t", "int32_t"
    return _product(
        name, _checked(name, steps, 64), (left, right, "int32"), types, "amx-int8", 25,
        name.replace("tdp", "_tile_dp"),
    )  # fmt: skip


def bf16_product(steps: int = 32) -> Instruction:
    """Return the product of bfloat16 of 16 x 16 elements and ``steps``, a multiple of 32.

    The same steps return the same instruction. Raise :class:`~schedlang.errors.ComputeError` for
    another number of steps.
    """
    return _product(
        "tdpbf16ps", _checked("tdpbf16ps", steps, 32), ("bfloat16", "bfloat16", "float32"),
        ("uint16_t", "uint16_t", "float"), "amx-bf16", 22, "_tile_dpbf16ps",
        # each step adds two products, with a rounding of half a unit in the last place each
        tolerance=2 * steps * 2.0**-24,
        note="denormal numbers are taken as 0",
    )  # fmt: skip


tdpbusd = int8_product()
tdpbssd = int8_product(64, "int8", "int8")
tdpbsud = int8_product(64, "int8", "uint8")
# the sum is of integers without a sign, which have the same bits
tdpbuud = int8_product(64, "uint8", "uint8")
tdpbf16ps = bf16_product()


def with_steps(declared: Instruction, steps: int) -> Instruction:
    """Return one of the instructions above with another number of steps."""
    if declared is tdpbf16ps:
        return bf16_product(steps)
    return int8_product(steps, *(tensor.dtype for tensor in declared.operands))


def spelling(declared: Instruction) -> str:
    """Return the call that returns a product.

    >>> spelling(int8_product(128)), spelling(bf16_product(64))
    ("int8_product(128, 'uint8', 'int8')", 'bf16_product(64)')
    """
    left, right = declared.operands
    steps = int(left.shape[1]) * int(left.shape[2])
    if left.dtype == "bfloat16":
        return f"bf16_product({steps})"
    return f"int8_product({steps}, {left.dtype!r}, {right.dtype!r})"
