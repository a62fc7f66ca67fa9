"""Networks on a GPU: one source of kernels, launches in order, memory of streams; no GPU needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.network_cuda_file import HELPERS
from schedlang.errors import BuildError
from schedlang.intrinsics.dialect import GPU_NAMES
from schedlang.networks.device_module import DeviceModule
from schedlang.networks.program import KernelCall
from tests.conftest import Golden
from tests.linked_networks import Parts, add, conv, relu
from tests.test_gpu_launch import Core, Driver, OnGpu, core, driver
from tests.test_network import mlp, softmax_of
from tests.test_network_module import of_residual, random, residual, reversed_rows

__all__ = ["core", "driver"]


def bound(tensor: sl.Tensor) -> sl.Schedule:
    """Return a schedule in which each stage is a kernel of blocks of 32 threads."""
    s = sl.schedule(tensor)
    for stage in s.stages:
        if stage.op.input_tensors:
            view = s[stage]
            block, thread = view.split(view.fuse(*view.op.axis), factor=32)
            view.bind(block, "blockIdx.x")
            view.bind(thread, "threadIdx.x")
    return s


def of_target(target: str) -> tuple[Any, dict[str, np.ndarray]]:
    return residual(Parts(target), bound)


def test_no_helper_of_a_file_hides_an_intrinsic() -> None:
    assert not set(HELPERS) & set(GPU_NAMES)


def test_the_text_of_a_module(golden: Golden) -> None:
    module, _ = of_target("cuda")
    golden(module.source)


def test_the_source_agrees_with_numpy() -> None:
    module, arrays = of_target("cuda")
    x = random(4, 6, 8)
    np.testing.assert_allclose(module.simulate(x), of_residual(x, arrays), rtol=1e-4, atol=1e-6)
