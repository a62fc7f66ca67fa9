"""``target="python"``: the file of the CPU runs as it is, under a debugger."""

from __future__ import annotations

from schedlang.targets.loops import NumbaBackend


class PythonBackend(NumbaBackend):
    """The CPU's file, uncompiled. Its speed is nobody's concern, so that it warns of nothing."""

    compiled = False


__all__ = ["PythonBackend"]
