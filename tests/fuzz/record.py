"""The record of one case."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.fuzz.values import Graph


class Mismatch(Exception):
    """A check that failed."""


@dataclass
class Case:
    """A case and its outcome; ``failure`` says what went wrong.

    ``applied`` lists the applied primitives in order, ``features`` the covered features, and
    ``counts`` how often each check ran.
    """

    key: str
    graph: Graph
    source: str = ""
    applied: list[str] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    outcome: str = "passed"
    failure: str = ""

    @property
    def snippet(self) -> str:
        sizes = f"# sizes: {self.graph.sizes}\n" if self.graph.sizes else ""
        return (
            f"import numpy as np\nimport schedlang as sl\n{sizes}{self.graph.source}{self.source}"
        )


__all__ = ["Case", "Mismatch"]
