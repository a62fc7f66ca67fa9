"""Kernels made of blocks and threads: their program, its checks and its counters, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.errors import BuildError, CallError
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Var
from schedlang.grid.counters import Counters
from schedlang.grid.printer import program_text
from schedlang.grid.program import Program
from schedlang.grid.requests import counted, decided_by_data
from schedlang.grid.simt import Simulation, simulate
from schedlang.ir.nest import Nest
from schedlang.runtime.arrays import as_numpy
from schedlang.runtime.kernel import Built, Kernel
from schedlang.runtime.parameters import scalar
from schedlang.schedule.schedule import Schedule


def _compiled_only(name: str) -> Any:
    """What a kernel for ``target="cuda"`` has, and this one says so."""

    def refuse(kernel: Kernel) -> Any:
        raise AttributeError(
            f"kernel {kernel.name} runs on the emulator and has no {name}: build it for "
            'target="cuda" without SCHEDLANG_CUDA=emulator in the environment; that needs no GPU'
        )

    return property(refuse)


class GpuKernel(Kernel):
    """A :class:`Kernel` of blocks and threads; for ``target="cuda-emulator"`` it runs on the CPU.

    There blocks run in parallel and threads in loops, compiled, at real sizes. ``check`` and
    ``counters`` run the same program in lockstep, slowly.
    """

    machine_code = _compiled_only("machine_code")
    ptx = _compiled_only("ptx")
    resources = _compiled_only("resources")
    sass = _compiled_only("sass")
    simulate = _compiled_only("simulate")

    def __init__(self, built: Built, schedule: Schedule, nest: Nest, program: Program) -> None:
        super().__init__(built, schedule, nest)
        self._program = program
        self._grids_known_good: set[tuple[int, ...]] = set()

    @property
    def program(self) -> str:
        """What the host launches and what each thread runs, with its barriers, as text."""
        return program_text(self._program)

    def _check_sizes(self, sizes: dict[str, int]) -> None:
        super()._check_sizes(sizes)
        key = tuple(sizes.values())
        if key in self._grids_known_good:
            return
        # a size may be an argument too
        given_sizes = (*self._nest.sizes, *(a for a in self._nest.args if isinstance(a, Var)))
        known: dict[Any, int] = {v: sizes[v.name] for v in given_sizes if v.name in sizes}
        for launch in self._program.launches:
            for index in launch.grid:
                if isinstance(index.extent, int):
                    continue
                count = int(evaluate(index.extent, known))
                most = self.target.device.grid[index.letter]
                if count > most:
                    given = ", ".join(f"{n}={v}" for n, v in sizes.items())
                    raise CallError(
                        f"kernel {self.name} where {given}: {index.tag} of {launch.name} would run "
                        f"over {count}, {self.target.arch} allows {most}"
                    )
        self._grids_known_good.add(key)

    def check(self, *args: Any, order: str = "forward", **named: Any) -> Any:
        """New outputs, computed in lockstep with every access checked; for small sizes.

        Takes the inputs of a call as NumPy arrays. ``order`` (``"forward"``, ``"reverse"``,
        ``"shuffle"``) is that in which threads store. Raises
        :class:`~schedlang.errors.VerifyError` for races between barriers, barriers that some
        threads of a block do not reach, accesses outside of a buffer, and elements that are read
        before they are written.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((100,), name="A")
        >>> B = sl.compute((100,), lambda i: A[i] * 2, name="B")
        >>> s = sl.schedule(B)
        >>> block, thread = s[B].split(B.op.axis[0], factor=32)
        >>> s[B].bind(block, "blockIdx.x"); s[B].bind(thread, "threadIdx.x")
        >>> f = sl.build(s, target="cuda-emulator")
        >>> bool((f.check(np.ones(100, "float32")) == 2).all())
        True
        """
        found = self._simulated(args, named, order, True).outputs
        return found[0] if len(found) == 1 else found

    def counters(self, *args: Any, **named: Any) -> dict[str, Counters]:
        """What the warps of each kernel ask of memory, by kernel name.

        Takes the inputs of a call as NumPy arrays, and counts the program as written: a compiler
        may do with less. Where addresses depend on data (gathers) it is for moderate sizes.
        """
        if decided_by_data(self._program):
            return dict(self._simulated(args, named, "forward", False).counters)
        given, found = self._bound(args, named)
        scalars: dict[Any, Any] = {v: found[v.name] for v in self._nest.sizes}
        inputs = [a for a in self._nest.args if isinstance(a, Var) or a not in self._nest.outputs]
        scalars.update((a, value) for a, value in zip(inputs, given) if isinstance(a, Var))
        return counted(self._program, scalars)

    def _simulated(
        self, args: tuple[Any, ...], named: Mapping[str, Any], order: str, watched: bool
    ) -> Simulation:
        given, found = self._bound(args, named)
        sizes: dict[Var, int] = {v: found[v.name] for v in self._nest.sizes}
        return simulate(self._program, given, sizes, order, 0, watched)

    def _bound(
        self, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, int]]:
        """The inputs of a call as NumPy arrays and scalars, and the sizes they determine."""
        binder = self._binder
        values = binder.order(args, named)
        arrays: list[Any] = []
        given: list[Any] = []
        for k, (p, value) in enumerate(zip(binder.signature.parameters, values)):
            if p.is_output:
                arrays.append(None if value is None else as_numpy(value, binder.places[k]))
                continue
            if p.is_scalar:
                given.append(scalar(value, p.dtype, binder.places[k]))
            else:
                given.append(as_numpy(value, binder.places[k]))
                binder.check(k, given[-1])
            arrays.append(given[-1])
        sizes = binder.sizes(arrays) if binder.symbolic else {}
        if sizes:
            self._check_sizes(sizes)
        return given, sizes

    def save(self, path: Any) -> Any:
        raise BuildError(
            f"save: kernel {self.name} runs on the emulator; its source for a GPU is that of "
            'sl.build(..., target="cuda")'
        )

    def __reduce__(self) -> Any:
        return GpuKernel, (self._built, self.schedule, self._nest, self._program)


__all__ = ["GpuKernel"]
