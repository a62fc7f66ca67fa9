"""The works to time: the rows of ``benchmarks/cpu.py``, operator families, and gradients."""

from __future__ import annotations

from benchmarks.works import convolution, linear, memory
from benchmarks.works.families import FAMILIES
from benchmarks.works.gradients import GRADIENTS
from benchmarks.works.work import Arrays, Work, aligned

# the rows of benchmarks/cpu.py
TABLE: dict[str, Work] = {
    w.name: w
    for w in (
        *linear.WORKS, *convolution.WORKS, *memory.WORKS, *convolution.LAYERS, *linear.LAYERS,
    )
}  # fmt: skip
# all works that a worker knows, by name
ALL: dict[str, Work] = TABLE | {w.name: w for w in (*FAMILIES, *GRADIENTS)}

__all__ = ["ALL", "FAMILIES", "GRADIENTS", "TABLE", "Arrays", "Work", "aligned"]
