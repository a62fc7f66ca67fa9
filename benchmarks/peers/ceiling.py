"""The ceiling that bounds a work, in turns with those it bounds: what the machine allows them.

A call does a fixed amount of multiply-adds, or of copying; ``part`` in the facts says how much of
that the work is.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers import Call
from benchmarks.works import Arrays, Work
from schedlang.runtime.ceilings import copies, multiply_adds

CEILING = "ceiling"


def prepare(label: str, work: Work, arrays: Arrays, outs: Arrays) -> tuple[Call, dict[str, Any]]:
    if work.bound == "fma":
        assert work.flops is not None, f"{work.name} has no flops"
        probe, amount = multiply_adds("float32"), work.flops
    else:
        probe, amount = max(copies(), key=lambda way: way.rate()), work.bytes
    return probe.faster(), {"part": amount / probe.amount}
