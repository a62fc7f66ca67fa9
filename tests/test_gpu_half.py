"""Tests of float16 on NVIDIA GPUs: the machine code, and what NVVM cannot compile."""

from __future__ import annotations

import re
from collections import Counter
from importlib.util import find_spec

import pytest

import schedlang as sl
from schedlang.errors import BuildError
from schedlang.runtime import nvidia
from tests.gpu_schedules import gemm

pytestmark = pytest.mark.skipif(
    find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)


@pytest.mark.parametrize("vector", [0, 8])
def test_eight_neighbours_of_shared_memory_are_loaded_at_once(vector: int) -> None:
    given = gemm(256, 256, 256, tile=32, rows=8, depth=32, vector=vector, dtype="float16")
    kernel = sl.build(given.schedule, target=sl.Target("cuda", arch="sm_90"))
    counts = Counter(re.findall(r"^\s*(\S+)\s", kernel.ptx, re.MULTILINE))
    assert counts["mul.f16"] == counts["add.f16"] == 64
    assert counts["ld.shared.v4.u32"] == 1
    # nothing is computed in float32
    assert not any("f32" in instruction for instruction in counts)
    assert not next(iter(kernel.resources.values())).spill_bytes


def test_a_failure_of_nvvm_is_a_build_error() -> None:
    from numba.cuda.cudadrv import nvvm

    with (
        pytest.raises(BuildError, match="kernel C for sm_90: NVVM failed to compile .*: .*\n"
                                        "  Make the tile"),
        nvidia._nvvm_errors("kernel C for sm_90"),
    ):
        raise nvvm.nvvmError(9)
    with pytest.raises(KeyError), nvidia._nvvm_errors("kernel C for sm_90"):
        raise KeyError("another")
