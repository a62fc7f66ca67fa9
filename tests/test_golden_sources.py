"""Golden source of the benchmarks' schedules, as each printer writes it.

A change of the compiler that should not change what it emits leaves these as they are. The text is
what differs between kernels: the schedule and the nest in the header are in the goldens of nests,
and helpers that every file has are left out.
"""

from __future__ import annotations

import re

import pytest

import schedlang as sl
from benchmarks import gpu, schedules, works
from benchmarks.works.gpu import GPU_WORKS
from schedlang.host import Cache
from tests.conftest import Golden

CACHES = Cache(32 << 10, 8), Cache(2 << 20, 16)
AVX2, AVX512, C = (
    sl.Target(kind, vector_bytes=size, caches=CACHES)
    for kind, size in (("cpu", 32), ("cpu", 64), ("c", 32))
)
# one or two of each family
ROWS = (
    "sgemm 512^3", "sgemm 1000x1003x997", "sgemm 3136x64x576", "gemv 4096x4096",
    "batched 64x(128x64x128)", "conv C1 224^2x3>64 7x7/2", "conv C2 56^2x64>64 3x3/1",
    "conv C11 14^2x256>512 1x1/2", "depthwise D3 56^2x128/1", "softmax 4096x1024",
    "layer norm 4096x1024", "row sum 4096x4096", "box blur 2048^2", "Jacobi 2048^2",
    "transpose 4096^2", "unsharp mask 1536x2560", "Harris 1536x2560", "LSTM cell 64x512",
    "attention 8x512x64", "max pool 3x3/2 64x112^2",
)  # fmt: skip
ON_AVX512 = ("sgemm 1000x1003x997", "conv C2 56^2x64>64 3x3/1", "softmax 4096x1024")
ON_A_GPU = {
    work.name: work for work in GPU_WORKS
    if work.kind not in ("conv2d", "depthwise", "sgemm")
    or work.name in ("sgemm 1024^3", "sgemm 1000x1003x997")
    or work.sizes.get("batch") == 1 and re.search(r"\b(C2|D2)\b", work.name)
}  # fmt: skip
# C has no store that bypasses the cache
STREAMED = ("Jacobi 2048^2", "transpose 4096^2", "unsharp mask 1536x2560", "Harris 1536x2560")
IN_C = [row for row in ROWS if row not in STREAMED]


def built(row: str, target: sl.Target) -> sl.Kernel:
    work = works.TABLE[row]
    s, args = schedules.of(work)[schedules.MAIN].make(work, target)
    return sl.build(s, args, target=target)


def functions(source: str) -> str:
    """Return a numba file without its header and the checks of its public function."""
    start, end = re.search(r"^(from|import) ", source, re.M), source.find("\n\ndef _array")
    assert start is not None
    return source[start.start() : end if end > 0 else None]


pytestmark = pytest.mark.filterwarnings("ignore::schedlang.errors.SpillWarning")


@pytest.mark.parametrize("row", ROWS)
def test_numba(row: str, golden: Golden) -> None:
    golden(functions(built(row, AVX2).source))


@pytest.mark.parametrize("row", ON_AVX512)
def test_numba_with_avx512(row: str, golden: Golden) -> None:
    golden(functions(built(row, AVX512).source))


@pytest.mark.parametrize("row", IN_C)
def test_c(row: str, golden: Golden) -> None:
    source = built(row, C).source
    start = re.search(r"^typedef |^static void |^void ", source, re.M)
    assert start is not None
    golden(source[start.start() :])


@pytest.mark.parametrize("row", ON_A_GPU)
def test_cuda(row: str, golden: Golden) -> None:
    s, args = gpu.scheduled(ON_A_GPU[row])
    golden(functions(sl.build(s, args, target=sl.Target("cuda", arch="sm_90")).source))


def test_the_same_schedule_has_the_same_source() -> None:
    """Sets of buffers are ordered by addresses, which differ from build to build."""
    kept, sources = [], set()
    for count in range(4):
        s, args = gpu.scheduled(ON_A_GPU["sgemm 1000x1003x997"])
        sources.add(sl.build(s, args, target="cuda-emulator").source)
        kept.append([object() for _ in range(137 * count)])
    assert len(sources) == 1
