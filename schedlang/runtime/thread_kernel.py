"""Kernels of blocks and threads on any target: the program, its checks and its counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.compute.arrays import as_numpy
from schedlang.counting.trace import Trace
from schedlang.errors import BuildError, CallError, explain
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Var
from schedlang.gpu_lowering.counted_program import KernelCounters
from schedlang.gpu_lowering.memory_requests import count_requests, depends_on_data
from schedlang.gpu_lowering.printer import program_text
from schedlang.gpu_lowering.program import Program
from schedlang.gpu_lowering.simt import Simulation, simulate
from schedlang.ir.nest import Nest
from schedlang.runtime.counted_call import MOST, MOST_TRACED
from schedlang.runtime.kernel import Built, Kernel
from schedlang.runtime.parameters import scalar
from schedlang.schedule.schedule import Schedule


class ThreadKernel(Kernel):
    """A :class:`Kernel` of blocks and threads, whose ``launches`` a device or the CPU runs.

    ``check`` and ``counters`` run the program in lockstep on the CPU, which is slow.
    """

    def __init__(self, built: Built, schedule: Schedule, nest: Nest, program: Program) -> None:
        super().__init__(built, schedule, nest)
        self._program = program
        self._checked_grids: set[tuple[int, ...]] = set()

    @property
    def program(self) -> str:
        """The launches on the host and the program of each thread, with barriers, as text."""
        return program_text(self._program)

    @property
    def launches(self) -> Program:
        """The launches on the host in order, as data."""
        return self._program

    def check_sizes(self, sizes: dict[str, int]) -> None:
        super().check_sizes(sizes)
        key = tuple(sizes.values())
        if key in self._checked_grids:
            return
        # a size may be an argument too
        given_sizes = (*self._nest.sizes, *(a for a in self._nest.args if isinstance(a, Var)))
        numbers: dict[Any, int] = {v: sizes[v.name] for v in given_sizes if v.name in sizes}
        for launch in self._program.launches:
            for index in launch.grid:
                if isinstance(index.extent, int):
                    continue
                count = int(evaluate(index.extent, numbers))
                most = self.target.device.grid[index.letter]
                if count > most:
                    sizes_text = ", ".join(f"{n}={v}" for n, v in sizes.items())
                    raise CallError(
                        f"kernel {self.name} where {sizes_text}: {index.tag} of {launch.name} "
                        "would "
                        f"have "
                        f"extent {count}; {self.target.device.arch} allows {most}"
                    )
        self._checked_grids.add(key)

    def check(self, *args: Any, order: str = "forward", **named: Any) -> Any:
        """Return new outputs, computed in lockstep with every access checked; for small sizes.

        The arguments are the inputs of a call, as NumPy arrays. ``order`` is the order of the
        threads that store: ``"forward"``, ``"reverse"`` or ``"shuffle"``. Raises
        :class:`~schedlang.errors.VerifyError` for races between barriers, for barriers that some
        threads of a block do not reach, for accesses outside a buffer, and for elements read before
        they are written.

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
        outputs = self._simulated(args, named, order, True).outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def counters(
        self, *args: Any, caches: Any = True, most: int = MOST, **named: Any
    ) -> KernelCounters:
        """Return the memory requests of the warps, by kernel name.

        The arguments are the inputs of a call, as NumPy arrays. The requests are counted in the
        program as written; compiled code may make fewer. If addresses depend on data, as in a
        gather, only moderate sizes are practical.

        Raises :class:`~schedlang.errors.CallError` for ``caches`` or ``most``, which are for CPU
        kernels: no cache of a GPU is simulated.
        """
        if caches is not True or most != MOST:
            raise CallError(
                f"counters of kernel {self.name}: caches= and most= are for kernels of a CPU; no "
                "cache of a GPU is simulated, so leave them out"
            )
        if depends_on_data(self._program):
            run = self._simulated(args, named, "forward", False)
            return KernelCounters(run.ledgers, self._program)
        inputs_bound, sizes_bound = self._bound(args, named)
        scalars: dict[Any, Any] = {v: sizes_bound[v.name] for v in self._nest.sizes}
        inputs = [a for a in self._nest.args if isinstance(a, Var) or a not in self._nest.outputs]
        scalars.update((a, value) for a, value in zip(inputs, inputs_bound) if isinstance(a, Var))
        return KernelCounters(count_requests(self._program, scalars), self._program)

    def trace(self, *args: Any, most: int = MOST_TRACED, **named: Any) -> Trace:
        """Refuse: the threads of a GPU have no order of accesses."""
        raise BuildError(
            explain(
                f"trace of kernel {self.name}",
                "it is built for a GPU, whose threads run in no fixed order",
                'Build the schedule for target="cpu", or use counters(...), which counts the '
                "requests of the warps.",
            )
        )

    def _simulated(
        self, args: tuple[Any, ...], named: Mapping[str, Any], order: str, watched: bool
    ) -> Simulation:
        inputs, sizes_bound = self._bound(args, named)
        sizes: dict[Var, int] = {v: sizes_bound[v.name] for v in self._nest.sizes}
        program = self._program
        if watched and any(launch.copies_asynchronously for launch in program.launches):
            # a copy may also happen at once, while others still read
            simulate(program, inputs, sizes, order, 0, watched, late=False)
        return simulate(program, inputs, sizes, order, 0, watched)

    def _bound(
        self, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, int]]:
        """Return the inputs of a call as NumPy arrays and scalars, and the sizes they determine."""
        binder = self._binder
        values = binder.order(args, named)
        arrays: list[Any] = []
        inputs: list[Any] = []
        for k, (p, value) in enumerate(zip(binder.signature.parameters, values)):
            if p.is_output:
                arrays.append(None if value is None else as_numpy(value, binder.places[k]))
                continue
            if p.is_scalar:
                inputs.append(scalar(value, p.dtype, binder.places[k]))
            else:
                inputs.append(as_numpy(value, binder.places[k]))
                binder.check(k, inputs[-1], value)
            arrays.append(inputs[-1])
        sizes = binder.sizes(arrays) if binder.symbolic else {}
        if sizes:
            self.check_sizes(sizes)
        return inputs, sizes
