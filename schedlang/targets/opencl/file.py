"""The OpenCL file of a program: its kernels and its text. It needs no device."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from schedlang.codegen.listing import Listing
from schedlang.codegen.opencl_source import OpenClSource, opencl_source
from schedlang.gpu_lowering.program import Program
from schedlang.target import Target


@dataclass(frozen=True)
class OpenClFile:
    """The forms of a program for ``target="opencl"``, each made when it is first needed.

    ``steps`` is the schedule as Python, for the header of the file.
    """

    program: Program
    public: str
    steps: str
    fastmath: bool

    @cached_property
    def source(self) -> OpenClSource:
        """The kernels, and how they are launched."""
        return opencl_source(self.program, Target("opencl"), self.public, self.steps)

    @property
    def listing(self) -> Listing:
        """The whole file, with the statements of the nest that its lines come from."""
        return self.source.listing

    def __reduce__(self) -> Any:
        return OpenClFile, tuple(getattr(self, f.name) for f in fields(self))
