"""A target that a package of the user's brings: C without vectors, for a processor with one core.

``tests/test_targets.py`` builds kernels for it, by its object and by its name.
"""

from __future__ import annotations

from dataclasses import replace

from schedlang.machine.nest import MachineNest
from schedlang.machine.passes.serial import serial
from schedlang.targets import CBackend, Lowered, Request


class Scalar(CBackend):
    """C without vectors and threads: vectorized loops are loops, and so are parallel ones."""

    facts = replace(
        CBackend.facts, name="scalar", backend="", vectors=False, vector_bytes=1,
        vector_registers=16, openmp=False, measured_as="scalar",
    )  # fmt: skip

    def machine(self, request: Request[Lowered]) -> MachineNest:
        return serial(super().machine(request))


__all__ = ["Scalar"]
