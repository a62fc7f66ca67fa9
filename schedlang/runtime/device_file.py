"""The CUDA file of a program: its text, its path and its machine code. It needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from schedlang.codegen.listing import Listing
from schedlang.codegen.numba_cuda import GpuSource, emit_program
from schedlang.codegen.numba_cuda_file import render_program
from schedlang.codegen.refused_sizes import Refusals
from schedlang.errors import BuildError
from schedlang.gpu_lowering.program import Program
from schedlang.runtime import files, nvidia
from schedlang.runtime.bundle import DEVICE_PACKAGE, bundle
from schedlang.runtime.nvidia import Compiled
from schedlang.target import Device, Target


@dataclass(frozen=True)
class DeviceFile:
    """The forms of a program for ``target="cuda"``, each made when it is first needed.

    ``steps`` is the schedule as Python, for the header of the file. With ``lineinfo`` the machine
    code names the lines of the file. ``refused`` are sizes that the launcher refuses.
    """

    program: Program
    arch: str
    public: str
    steps: str
    fastmath: bool
    lineinfo: bool = False
    refused: tuple[Refusals, ...] = ()

    @cached_property
    def source(self) -> GpuSource:
        """The emitted kernels and their launcher, in parts."""
        return emit_program(self.program, Target("cuda", arch=self.arch), self.public)

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.listing.text

    @cached_property
    def listing(self) -> Listing:
        """The whole file, with the statements of the nest that its lines come from."""
        return render_program(self.program, self.source, self.steps, self.fastmath, self.refused)

    @cached_property
    def path(self) -> Path:
        """The path of the file."""
        return files.write(self.text, self.public)

    @property
    def device(self) -> Device:
        return Target("cuda", arch=self.arch).device

    @cached_property
    def machine_code(self) -> Mapping[str, Compiled]:
        """Each kernel compiled for the GPU that it is built for, by kernel name."""
        return self.compiled(self.device)

    def compiled(self, device: Device) -> dict[str, Compiled]:
        """Return each kernel compiled for ``device``."""
        nvidia.driver()
        module = files.load(self.path)
        options = self.fastmath, self.lineinfo
        forms = [k.form for k in self.source.kernels]
        return {k.name: nvidia.compile_kernel(module, k, device, *options) for k in forms}

    def bundled(self) -> str:
        """Return the file with the intrinsics of its kernels, which needs only numba-cuda."""
        large = next((k for k in self.source.kernels if k.dynamic_bytes), None)
        if large is not None:
            raise BuildError(
                f"save: kernel {large.name} needs {large.launch.shared_bytes:,} B of shared "
                f"memory, but in a file of its own it may have {self.device.shared_static:,} B: "
                "make the shared tiles smaller"
            )
        return bundle(self.text, DEVICE_PACKAGE)

    def __reduce__(self) -> Any:
        # the path and the machine code are valid on this machine only
        return DeviceFile, tuple(getattr(self, f.name) for f in fields(self))
