"""The GPU schedules of the benchmarks: right in lockstep, machine code without spills."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import schedlang as sl
from benchmarks.gpu import WORKS, GpuWork, convolution
from benchmarks.gpu.code import busiest_loop, compiled


@pytest.mark.parametrize("work", WORKS, ids=lambda w: w.name)
def test_lockstep_and_emulator_give_what_numpy_gives(work: GpuWork) -> None:
    schedule, tensors = work.make(*work.small)
    inputs = work.inputs(work.small)
    wanted = work.oracle(*(x.astype("float64") for x in inputs))
    f = sl.build(schedule, tensors, target="cuda-emulator")
    for found in (f.check(*inputs), f(*inputs)):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("work", WORKS, ids=lambda w: w.name)
def test_machine_code_without_spills(work: GpuWork, arch: str) -> None:
    for row in compiled(work, arch):
        assert not row.spill_bytes and not row.local_bytes, row.kernel
        assert row.instructions > 10
        if work.name == "sgemm":
            # 8 steps of 8 by 8 multiply-adds a thread, and little beside them
            assert row.multiply_adds == 512 and row.loop < 620


def test_the_busiest_loop_is_the_one_with_most_multiply_adds() -> None:
    lines = ["S2R R0", "FFMA R1", "FFMA R1", "@P0 BRA `(.L_x_1)", "FFMA R2", "BRA `(.L_x_2)"]
    text = [f"        /*{16 * k:04x}*/                   {line} ;" for k, line in enumerate(lines)]
    sass = "\n".join([text[0], ".L_x_1:", *text[1:4], ".L_x_2:", *text[4:]])
    assert busiest_loop(sass) == (6, 3, 2)


def test_blocks_of_positions_need_no_barrier_where_they_are_written() -> None:
    # a block's number is taken apart by // and %: its rows and columns, and those of a thread
    schedule, tensors = convolution.conv2d(1, 8, 32, 20, 20, 3, 1)
    source = sl.build(schedule, tensors, target=sl.Target("cuda")).source
    assert source.count("cuda.syncthreads()") == 2


def test_index_arithmetic_is_named_once_a_block() -> None:
    schedule, tensors = convolution.conv2d(64, 64, 64, 56, 56, 3, 1)
    lines = sl.build(schedule, tensors, target=sl.Target("cuda")).source.splitlines()
    named = [line.strip().partition(" = ")[2] for line in lines if line.strip().startswith("t")]
    sums = [
        text for text in named if text.endswith("f_inner_outer*32 + y_inner_inner_x_inner_fused")
    ]
    # the tile of the input and the tile of the weights each have their own
    assert len(sums) == len(set(sums)) == 2
