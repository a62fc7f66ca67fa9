"""The facts that a pass over a machine nest may ask for beside the nest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """The name of the public function, and functions that return unused names.

    ``fresh`` makes names of registers, and ``function`` names of functions.
    """

    public: str
    fresh: Callable[[str], str]
    function: Callable[[str], str]
