"""The facts that a pass over a machine nest may ask for beside the nest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """The name of the public function, and ``fresh``, which makes unused names."""

    public: str
    fresh: Callable[[str], str]
