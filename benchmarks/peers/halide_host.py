"""The target of Halide's kernels: the machine that runs them."""

from __future__ import annotations

import halide as hl
from llvmlite.binding import get_host_cpu_features


def host_target() -> hl.Target:
    """Return a target with the features of this machine.

    Halide takes the features from the processor's model. A virtual machine may hide the model's
    AVX-512, and code that uses it would crash.
    """
    target = hl.get_host_target()
    if not get_host_cpu_features().get("avx512f", False):
        for name in dir(hl.TargetFeature):
            if name.startswith("AVX512"):
                target = target.without_feature(getattr(hl.TargetFeature, name))
    return target
