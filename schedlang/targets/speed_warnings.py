"""Warnings of tiles that leave registers and of lanes that are far apart, for compiled CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.diagnostics.spills import guarded, spills
from schedlang.diagnostics.strides import strided
from schedlang.errors import SpillWarning, StrideWarning
from schedlang.ir.nest import Nest
from schedlang.target import Target


def speed_warnings(nest: Nest, target: Target) -> Iterator[tuple[str, type[Warning]]]:
    """Yield what makes a nest slow on a CPU."""
    for text in (*spills(nest, target), *guarded(nest, target)):
        yield text, SpillWarning
    for text in strided(nest, target):
        yield text, StrideWarning


__all__ = ["speed_warnings"]
