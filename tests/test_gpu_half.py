"""Tests of float16 on NVIDIA GPUs: the machine code, and what NVVM cannot compile."""

from __future__ import annotations

import re
from collections import Counter
from importlib.util import find_spec

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError
from schedlang.runtime import nvidia
from tests.gpu_schedules import gemm
from tests.marks import slow_but

pytestmark = pytest.mark.skipif(
    find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)


@pytest.mark.parametrize("vector", slow_but(["8"], [0, 8]))
def test_eight_neighbours_of_shared_memory_are_loaded_at_once(vector: int) -> None:
    given = gemm(256, 256, 256, tile=32, rows=8, depth=32, vector=vector, dtype="float16")
    kernel = sl.build(given.schedule, target=sl.Target("cuda", arch="sm_90"))
    counts = Counter(re.findall(r"^\s*(\S+)\s", kernel.ptx, re.MULTILINE))
    assert counts["mul.f16"] == counts["add.f16"] == 64
    assert counts["ld.shared.v4.u32"] == 1
    # nothing is computed in float32
    assert not any("f32" in instruction for instruction in counts)
    assert not next(iter(kernel.resources.values())).spill_bytes


def test_neighbours_are_copied_to_local_memory() -> None:
    # NVVM merges the stores, and refuses to compile eight float16 at once
    A = sl.placeholder((24,), "float16", name="A")
    B = sl.compute((24,), lambda i: A[23 - i] * 2, name="B")
    s = sl.schedule(B)
    local = s.cache_read(A, "local", [B])
    block, thread = s[B].split(B.op.axis[0], 12)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    s[local].compute_at(s[B], block)
    kernel = sl.build(s, [A, B], target=sl.Target("cuda", arch="sm_90"))
    assert not next(iter(kernel.resources.values())).spill_bytes
    a = np.arange(24, dtype="float16")
    np.testing.assert_array_equal(kernel.simulate(a), a[::-1] * 2)


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
