"""Kernels of blocks and threads for NVIDIA GPUs: their CUDA file, which needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from schedlang.errors import BuildError, explain
from schedlang.expr.dtypes import array_dtype, storage_dtype
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import For, walk
from schedlang.runtime.device_code import DeviceCode
from schedlang.runtime.device_file import DeviceFile
from schedlang.runtime.kernel import Built
from schedlang.runtime.nvidia import Compiled
from schedlang.runtime.profile import Profile
from schedlang.runtime.simulator import launcher
from schedlang.runtime.thread_kernel import ThreadKernel
from schedlang.schedule.schedule import Schedule


class GpuKernel(DeviceCode, ThreadKernel):
    """A :class:`Kernel` of blocks and threads; for ``target="cuda-emulator"`` it runs on the CPU.

    A call on the CPU runs compiled code at real sizes: blocks in parallel, the threads of a block
    in loops. ``check`` and ``counters`` run the same program in lockstep, which is slow. ``ptx``,
    ``sass``, ``resources`` and ``simulate`` use the CUDA file of ``target="cuda"``; they need no
    GPU.
    """

    def __init__(self, built: Built, schedule: Schedule, nest: Nest, file: DeviceFile) -> None:
        super().__init__(built, schedule, nest, file.program)
        self._file, self._lineinfo = file, file.lineinfo

    def profile(
        self, *args: Any, repeat: int = 5, levels: int = 3, share: float = 0.05, **named: Any
    ) -> Profile:
        raise BuildError(
            explain(
                f"profile of kernel {self.name}",
                "the CPU emulates a GPU here, and its times say nothing about one",
                'Count the requests of memory with .counters(...), or build for target="cuda" on a '
                "machine with a GPU.",
            )
        )

    @property
    def machine_code(self) -> Mapping[str, Compiled]:
        return self._file.machine_code

    def simulate(self, *args: Any, **named: Any) -> Any:
        """Return new outputs by running the emitted source in Python, one thread at a time.

        Only tiny sizes are practical. The arguments are the inputs of a call, as NumPy arrays.
        Instructions of the user's compute what they declare. A debugger stops at breakpoints in the
        CUDA file, which is at ``path`` for a kernel for ``"cuda"``.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((10,), name="A")
        >>> B = sl.compute((10,), lambda i: A[i] * 2, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].bind(B.op.axis[0], "threadIdx.x")
        >>> sl.build(s, target=sl.Target("cuda")).simulate(np.ones(10, "float32")).tolist()
        [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
        """
        bound, sizes = self._bound(args, named)
        inputs = iter(bound)
        arrays: list[Any] = []
        for p in self._built.signature.parameters:
            if not p.is_output:
                arrays.append(next(inputs))
                continue
            arrays.append(np.empty(self._binder.shape(p, sizes), array_dtype(p.dtype)))
        flat = [
            a if p.is_scalar else a.reshape(-1).view(storage_dtype(p.dtype))
            for a, p in zip(arrays, self._built.signature.parameters)
        ]
        loops = [s for launch in self._program.launches for s, _ in walk(launch.body)]
        used = dict.fromkeys(
            s.instruction for s in loops if isinstance(s, For) and s.instruction is not None
        )
        launch = launcher(self._file.path, used)
        with np.errstate(all="ignore"):
            launch(*flat, *(sizes[n] for n in self._built.signature.sizes))
        outputs = [a for a, p in zip(arrays, self._built.signature.parameters) if p.is_output]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _standalone(self) -> str:
        return self._file.bundled()

    def __reduce__(self) -> Any:
        return type(self), (self._built, self.schedule, self._nest, self._file)
