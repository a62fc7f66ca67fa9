"""Machine code for a GPU as text, which a kernel and the module of a network show alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlang.runtime.nvidia import Compiled, Resources


class DeviceCode(ABC):
    """A kernel or a module with kernels for a GPU; ``_lineinfo`` says that code has line tables."""

    _lineinfo = False

    @property
    @abstractmethod
    def machine_code(self) -> Mapping[str, Compiled]:
        """The PTX, machine code and resources of each kernel, by its name. It needs no GPU."""

    @property
    def resources(self) -> dict[str, Resources]:
        """Registers, spills, shared memory and occupancy of each kernel, by its name."""
        return {name: code.resources for name, code in self.machine_code.items()}

    @property
    def ptx(self) -> str:
        """The PTX of all kernels."""
        return "\n".join(code.ptx for code in self.machine_code.values())

    @property
    def sass(self) -> str:
        """The machine code of all kernels, as nvdisasm prints it."""
        codes = self.machine_code.values()
        # a module for a CPU has no part of CUDA
        from schedlang.runtime.nvidia import disassemble

        return "\n".join(disassemble(code.cubin, self._lineinfo) for code in codes)
