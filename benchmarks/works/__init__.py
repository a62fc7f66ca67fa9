"""The work of ``benchmarks/cpu.py``, one object a row."""

from __future__ import annotations

from benchmarks.works import convolution, linear, memory
from benchmarks.works.work import Arrays, Work, aligned

ALL: dict[str, Work] = {
    w.name: w
    for w in (
        *linear.WORKS, *convolution.WORKS, *memory.WORKS, *convolution.LAYERS, *linear.LAYERS,
    )
}  # fmt: skip

__all__ = ["ALL", "Arrays", "Work", "aligned"]
