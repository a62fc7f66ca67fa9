"""The benchmarks' GPU schedules are right in lockstep and compile without spills."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import schedlang as sl
from benchmarks.gpu import convolution, scheduled
from benchmarks.gpu.code import COMPARED, busiest_loop, compiled, emulated
from benchmarks.works import Work
from benchmarks.works.gpu import GPU_SMALL, GPU_WORKS
from tests.marks import slow_but


def name(work: Work) -> str:
    return work.name


# beside these, one of each kind
LARGE = ("attention", "sgemm", "conv")
SMALL = [w.name for w in GPU_SMALL if not w.name.startswith(LARGE)]
PRODUCTS = ("conv C 9^2x5>33 1x1/2",)
EMULATED = ("softmax 5x300", "column sum 100x70", "depthwise D 10^2x3/2")


@pytest.mark.parametrize("work", slow_but([*SMALL, *PRODUCTS], GPU_SMALL, name))
def test_lockstep_agrees_with_numpy(work: Work) -> None:
    arrays = work.arrays()
    checked = sl.build(*scheduled(work), target="cuda-emulator").check(*arrays.values())
    assert not work.wrong((checked,), work.expected(arrays))


@pytest.mark.parametrize("work", slow_but(EMULATED, GPU_SMALL, name))
def test_the_emulator_agrees_with_numpy(work: Work) -> None:
    assert not emulated(work)


@pytest.mark.parametrize("work", slow_but(SMALL, GPU_SMALL, name))
def test_the_source_agrees_with_numpy(work: Work) -> None:
    arrays = work.arrays()
    found = sl.build(*scheduled(work), target="cuda").simulate(*arrays.values())
    assert not work.wrong((found,), work.expected(arrays))


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("work", GPU_WORKS, ids=name)
def test_machine_code_without_spills(work: Work, arch: str) -> None:
    for row in compiled(work, arch):
        assert not row.spill_bytes and not row.local_bytes, row.kernel
        assert row.instructions > 10
        if work.name == COMPARED:
            # 16 steps of 8 by 16 multiply-adds per thread, and few other instructions
            assert row.multiply_adds == 2048 and row.loop < 2300


def test_the_busiest_loop_is_the_one_with_most_multiply_adds() -> None:
    lines = ["S2R R0", "FFMA R1", "FFMA R1", "@P0 BRA `(.L_x_1)", "FFMA R2", "BRA `(.L_x_2)"]
    text = [f"        /*{16 * k:04x}*/                   {line} ;" for k, line in enumerate(lines)]
    sass = "\n".join([text[0], ".L_x_1:", *text[1:4], ".L_x_2:", *text[4:]])
    assert busiest_loop(sass) == (6, 3, 2)


def test_stores_of_blocks_of_positions_need_no_barrier() -> None:
    # // and % of the indices of blocks and threads give rows and columns
    schedule, tensors = convolution.conv2d(1, 7, 32, 20, 20, 3, 1)
    source = sl.build(schedule, tensors, target=sl.Target("cuda")).source
    assert source.count("cuda.syncthreads()") == 2


def test_index_arithmetic_is_computed_once_per_block() -> None:
    schedule, tensors = convolution.conv2d(64, 64, 64, 56, 56, 3, 1)
    lines = sl.build(schedule, tensors, target=sl.Target("cuda")).source.splitlines()
    named = [line.strip().partition(" = ")[2] for line in lines if line.strip().startswith("t")]
    sums = [
        text for text in named if text.endswith("f_inner_outer*32 + y_inner_inner_x_inner_fused")
    ]
    # the tile of the input and the tile of the weights each have their own
    assert len(sums) == len(set(sums)) == 2
