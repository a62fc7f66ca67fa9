"""The ceiling of a work, measured as an implementation in turns with the others.

A call does a fixed number of multiply-adds, or copies a fixed number of bytes. ``part`` in the
facts is the work's amount as a fraction of the call's.
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
