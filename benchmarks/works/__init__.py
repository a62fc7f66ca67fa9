"""The works to time: single operators, families of them, gradients, whole networks."""

from __future__ import annotations

from itertools import chain

from benchmarks.works import convolution, linear, memory
from benchmarks.works.families import FAMILIES
from benchmarks.works.gradients import GRADIENTS
from benchmarks.works.networks import NETWORKS, SMALL
from benchmarks.works.operators import OPERATORS
from benchmarks.works.work import Arrays, Work, aligned

# the rows of benchmarks/cpu.py
TABLE: dict[str, Work] = {
    w.name: w
    for w in (
        *linear.WORKS, *convolution.WORKS, *memory.WORKS, *convolution.LAYERS, *linear.LAYERS,
    )
}  # fmt: skip
# all works that a worker knows, by name
ALL: dict[str, Work] = TABLE | {
    w.name: w
    for w in (*FAMILIES, *GRADIENTS, *chain(*OPERATORS.values()), *NETWORKS, *SMALL)
}  # fmt: skip

__all__ = [
    "ALL", "FAMILIES", "GRADIENTS", "NETWORKS", "OPERATORS", "SMALL", "TABLE", "Arrays", "Work",
    "aligned",
]  # fmt: skip
