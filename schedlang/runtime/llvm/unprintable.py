"""The refusal of a machine nest that has no form in LLVM's code here."""

from __future__ import annotations

from schedlang.errors import BuildError


class Unprintable(BuildError):
    """A statement or a value of a machine nest that has no form in LLVM's code here."""
