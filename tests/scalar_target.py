"""A target that a package of the user's brings: C without vectors, for a processor with one core.

``tests/test_targets.py`` builds kernels for it, by its object and by its name.
"""

from __future__ import annotations

from dataclasses import replace

from schedlang.targets import CBackend


class Scalar(CBackend):
    """C without vectors and threads: vectorized loops are loops, and so are parallel ones."""

    facts = replace(
        CBackend.facts, name="scalar", vectors=False, threads=False, vector_registers=16,
        measured_as="scalar",
    )  # fmt: skip


__all__ = ["Scalar"]
