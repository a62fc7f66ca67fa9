"""Products of tiles by AMX: their machine code, and refusals where there are no tiles."""

from __future__ import annotations

import re
from math import isnan
from platform import machine
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import instructions
from schedlang.instructions import MemoryFunction, amx
from schedlang.runtime import processor
from tests.instructions import runs
from tests.marks import slow_but
from tests.test_instructions import agree, operands


@pytest.mark.parametrize(
    "name",
    slow_but(["tdpbusd", "tdpbf16ps"], ["tdpbusd", "tdpbssd", "tdpbsud", "tdpbuud", "tdpbf16ps"]),
)
def test_tiles_of_amx_compile(name: str) -> None:
    tile = getattr(instructions, name)
    result = tile.check(samples=4)
    assert re.search(rf"^\s{name}\s+%tmm2, %tmm1, %tmm0$", result.assembly, re.MULTILINE)
    assert result.ran == runs(tile)
    assert result.error <= tile.tolerance if result.ran else isnan(result.error)


# the tiles of a processor as arrays: Intel's manual, volume 2, TILELOADD, TILESTORED, TDPBUSD, ...
IN_SOFTWARE = """
#include <string.h>
/* each thread has its own tiles, as in the processor */
static _Thread_local struct {
  uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16];
} known;
static _Thread_local uint8_t tiles_of[8][16][64];
static void _tile_loadconfig(const void *from) { memcpy(&known, from, 64); }
static void _tile_release(void) { memset(&known, 0, 64); }
static void _tile_loadd(int t, const void *from, int64_t stride) {
  memset(tiles_of[t], 0, sizeof tiles_of[t]);
  for (int i = 0; i < known.rows[t]; i++)
    memcpy(tiles_of[t][i], (const char *)from + i * stride, known.bytes[t]);
}
static void _tile_stored(int t, void *to, int64_t stride) {
  for (int i = 0; i < known.rows[t]; i++)
    memcpy((char *)to + i * stride, tiles_of[t][i], known.bytes[t]);
}
static float wide(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
#define PRODUCT(name, left, right, result, group, value) \\
  static void name(int c, int a, int b) { \\
    for (int i = 0; i < known.rows[c]; i++) \\
      for (int q = 0; q < known.bytes[a] / 4; q++) \\
        for (int j = 0; j < known.bytes[c] / 4; j++) \\
          for (int r = 0; r < group; r++) { \\
            const left x = ((left *)tiles_of[a][i])[q * group + r]; \\
            const right y = ((right *)tiles_of[b][q])[j * group + r]; \\
            ((result *)tiles_of[c][i])[j] += value; \\
          } \\
  }
PRODUCT(_tile_dpbusd, uint8_t, int8_t, int32_t, 4, x * y)
PRODUCT(_tile_dpbssd, int8_t, int8_t, int32_t, 4, x * y)
PRODUCT(_tile_dpbsud, int8_t, uint8_t, int32_t, 4, x * y)
PRODUCT(_tile_dpbuud, uint8_t, uint8_t, int32_t, 4, x * y)
PRODUCT(_tile_dpbf16ps, uint16_t, uint16_t, float, 2, wide(x) * wide(y))
"""


def in_software(source: str) -> str:
    """Return the source of a product with arrays for tiles, which runs on any x86."""
    own = source[source.index("__attribute__") :].replace("if (!permitted()) return 1;", "")
    # other processors than those with tiles compile it
    return IN_SOFTWARE + own[own.index("int ") :]


@pytest.mark.skipif(machine() not in ("x86_64", "AMD64"), reason="this processor is not x86")
@pytest.mark.parametrize("steps", [64, 192])
@pytest.mark.parametrize("name", ["tdpbusd", "tdpbf16ps"])
def test_the_source_with_tiles_in_software(name: str, steps: int) -> None:
    """The functions address and add the tiles that the declaration says, on any x86."""
    tile = {"tdpbusd": amx.int8_product, "tdpbf16ps": amx.bf16_product}[name](steps)
    function = tile.emit["memory"]
    emit = {"memory": MemoryFunction(in_software(function.call), function.strides)}
    twin = sl.instruction(tile.name, tile.output, emit, tolerance=tile.tolerance)
    result = twin.check(samples=20)
    assert result.ran and result.error <= tile.tolerance


def tiled_by_amx(name: str, steps: int) -> tuple[Any, Any, Any, Any]:
    tile = {"tdpbusd": amx.int8_product, "tdpbf16ps": amx.bf16_product}[name](steps)
    a, b = tile.operands
    group, result = int(a.shape[2]), tile.output.dtype
    A = sl.placeholder((17, steps), a.dtype, name="A")
    B = sl.placeholder((steps // group, 16, group), b.dtype, name="B")
    k = sl.reduce_axis(steps, name="k")

    def element(i: Any, j: Any) -> Any:
        y = B[k // group, j, k % group]
        return sl.sum(A[i, k].astype(result) * y.astype(result), axis=k)

    C = sl.compute((17, 16), element, name="C")
    s = sl.schedule(C)
    io, ii = s[C].split(C.op.axis[0], factor=16, tail="cut")
    jo, ji = s[C].split(C.op.axis[1], factor=16)
    ko, ki = s[C].split(k, factor=steps)
    q, r = s[C].split(ki, factor=group)
    s[C].reorder(io, jo, ko, ii, ji, q, r)
    s[C].tensorize(ii, tile)
    return A, B, C, s


@pytest.mark.parametrize("target", ["cpu", "c", "python"])
@pytest.mark.parametrize(("name", "steps"), [("tdpbusd", 64), ("tdpbf16ps", 32)])
def test_a_product_by_tiles_of_amx(name: str, steps: int, target: str) -> None:
    A, B, C, s = tiled_by_amx(name, steps)
    assert f"tensorize {name}" in str(s)
    feature = {"tdpbusd": "amx-int8", "tdpbf16ps": "amx-bf16"}[name]
    if target != "python" and not runs(getattr(instructions, name)):
        message = f"the instruction needs {feature}, which this processor lacks"
        with pytest.raises(sl.errors.BuildError, match=message):
            sl.build(s, [A, B, C], target=target)
        return
    arrays = operands(A, B)
    agree(sl.build(s, [A, B, C], target=target)(*arrays), C, *arrays)


def test_a_system_that_gives_no_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor has AMX, and the system refuses its tiles to the process."""
    features = frozenset({"amx-tile", "amx-int8", "amx-bf16"})
    monkeypatch.setattr(processor, "processor_features", lambda: features)
    monkeypatch.setattr(processor, "_has_tiles", lambda: False)
    A, B, C, s = tiled_by_amx("tdpbusd", 64)
    message = "needs amx-int8, and the system gives this process no tiles of AMX\n  Leave out"
    for target in ("cpu", "c"):
        with pytest.raises(sl.errors.BuildError, match=message):
            sl.build(s, [A, B, C], target=target)
    result = instructions.tdpbusd.check(samples=4)
    assert not result.ran and "gives this process no tiles of AMX, so nothing" in str(result)
    monkeypatch.setattr(processor, "_has_tiles", lambda: True)
    assert not processor.missing_features(["amx-int8"])


def test_a_call_of_amx_fails_where_there_are_no_tiles() -> None:
    """A kernel that comes from another machine ends in an error, not in an illegal instruction."""
    tile = instructions.tdpbusd
    if runs(tile):
        pytest.skip("this processor has AMX")
    function = tile.emit["memory"].function(tile, ())
    arrays = [np.zeros(shape, kind) for shape, kind in
              (((16, 16, 4), "uint8"), ((16, 16, 4), "int8"), ((16, 16), "int32"))]  # fmt: skip
    with pytest.raises(sl.errors.CallError, match="the C function returned 1, so it failed"):
        function.run(*arrays)


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_a_kernel_with_amx_is_built(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is compiled and linked; where there are no tiles, a call fails."""
    if runs(instructions.tdpbusd):
        pytest.skip("this processor has AMX")
    features = frozenset({"amx-tile", "amx-int8", "amx-bf16"})
    monkeypatch.setattr(processor, "processor_features", lambda: features)
    monkeypatch.setattr(processor, "_has_tiles", lambda: True)
    A, B, C, s = tiled_by_amx("tdpbusd", 64)
    f = sl.build(s, [A, B, C], target=target)
    with pytest.raises(sl.errors.CallError, match="tdpbusd"):
        f(*operands(A, B))


@pytest.mark.parametrize("steps", [0, 63, "x", 64.0])
def test_steps_that_no_tile_has(steps: Any) -> None:
    with pytest.raises(sl.errors.ComputeError, match=r"steps: a tile has 64, so give a multiple"):
        amx.int8_product(steps)
