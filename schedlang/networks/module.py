"""The module of a network: one source, whose kernels one call runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from schedlang.errors import BuildError, CallTypeError, explain
from schedlang.markup.progress import Setting
from schedlang.networks.backend import ModuleBackend
from schedlang.networks.call import as_packed, pack, size_positions
from schedlang.networks.data import CallData, ModuleData
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.sized_memory import SizedMemory
from schedlang.runtime.device_code import DeviceCode
from schedlang.runtime.parameters import Signature
from schedlang.target import Target
from schedlang.target_kinds import placed_at

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest
    from schedlang.networks.device_graph import CudaGraph
    from schedlang.runtime.nvidia import Compiled

Bound = tuple[Callable[..., None], list[Any]]


class NetworkModule(DeviceCode):
    """All kernels of a network as one module: call it with the network's inputs.

    ``m(x)`` returns a new output, or a tuple of them, in the library of the first array;
    ``m(x, out)`` writes ``out`` and returns it. Arguments may be named. A call checks its arguments
    by a kernel's rules, and raises a kernel's errors. Then it runs one function, without Python
    between kernels and without the GIL. Calls may run at once in several threads: each has memory
    of its own, which the next one uses again.

    On a GPU a call launches all kernels in order on the stream of its arrays. Like a call of a
    kernel, it returns before they have run. It uses arrays in the memory of a GPU in place, and
    copies NumPy's there and back. The parameters are copied to a GPU by the first call on it. What
    kernels pass to each other stays in the memory of the GPU: each stream has an arena, which its
    next call uses again, and calls that are launched at once have one each.

    ``params`` are the arrays of the network's parameters by name, or their bytes as :attr:`params`
    has them. ``whole`` is a method of the network that returns the data with the machine nest; the
    module does not keep the network alive. ``compiler`` is one of the target's, empty for the
    default one. ``progress`` is false if no line says that the module is being compiled. The facts
    of the target name the backend that runs the module.
    """

    def __init__(
        self,
        data: ModuleData,
        params: Mapping[str, Any] | np.ndarray,
        whole: Callable[[], ModuleData] | None = None,
        compiler: str = "",
        progress: Setting = None,
    ) -> None:
        if not isinstance(params, np.ndarray):
            params = pack(data.storage, params)
        packed, backend = as_packed(params, data.storage), data.target.facts.network_backend
        self._backend: ModuleBackend = placed_at(backend)(data, packed, whole, compiler, progress)
        self._fast_call = self._backend.fast_call

    @property
    def name(self) -> str:
        return self.data.public

    @property
    def target(self) -> Target:
        return self.data.target

    @property
    def data(self) -> ModuleData:
        """All of this module but its parameters, as data."""
        return self._backend.data

    @property
    def signature(self) -> Signature:
        """The parameters of a call in order, as data."""
        return self.data.signature

    @property
    def memory(self) -> MemoryPlan:
        """The place of each tensor between kernels; see :meth:`memory_at` if it depends on sizes.

        Raises :class:`~schedlang.errors.BuildError` then.
        """
        if self.data.plan is None:
            names = ", ".join(f"{name}=..." for name in size_positions(self.signature))
            raise BuildError(
                explain(
                    f"memory of network {self.name}",
                    "it depends on the sizes of a call",
                    f"Use memory_at({names}).",
                )
            )
        return self.data.plan

    def memory_at(self, **sizes: int) -> MemoryPlan:
        """Return the place of each tensor between kernels at the ``sizes`` of a call, by name.

        Raises :class:`~schedlang.errors.CallTypeError` for one that is missing or unknown.
        """
        names = size_positions(self.signature)
        if names.keys() != sizes.keys():
            wanted = ", ".join(names) if names else "none"
            raise CallTypeError(
                f"memory_at of network {self.name}: its sizes are {wanted}, got "
                f"{', '.join(sizes) if sizes else 'none'}"
            )
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, Integral):
                raise CallTypeError(
                    f"memory_at of network {self.name}: {name}={size!r} must be an integer"
                )
        return self.data.plan or cast(SizedMemory, self.data.sized).plan(sizes)

    @property
    def calls(self) -> tuple[CallData, ...]:
        """The calls of kernels, in the order in which they run."""
        return self.data.calls

    @property
    def params(self) -> np.ndarray:
        """The bytes of all parameters, at the places that ``data.storage.params`` has."""
        return self._backend.params

    @property
    def source(self) -> str:
        """The source that runs: Python, or C."""
        return self.data.text

    @property
    def path(self) -> str:
        """The path of the file with the source: open it, set a breakpoint, profile it."""
        return str(self._backend.file())

    @property
    def machine_nest(self) -> MachineNest:
        """The linked machine nest: the functions of all kernels, and the one that calls them.

        A module that came from the cache folder has the network make it, which divides and
        schedules the graph. Raises :class:`~schedlang.errors.BuildError` for a module without its
        network, and for one whose network was scheduled anew since.
        """
        return self._backend.machine_nest

    @property
    def machine_code(self) -> Mapping[str, Compiled]:
        return cast("Mapping[str, Compiled]", self._backend.having("machine_code"))

    def __repr__(self) -> str:
        return f"<NetworkModule {self.name}({self._backend.binder.listing}) for {self.target.kind}>"

    def compile(self) -> NetworkModule:
        """Compile now, or load from the disk cache; return this module."""
        self._backend.compile()
        return self

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if self._fast_call is not None and not named:
            bound = self._fast_call(args)
            if bound is not None:
                (self._backend._start or self._backend._starter())(*bound[0])
                return bound[1]
        return self._backend.run(args, named)

    def bound(self, *args: Any) -> Bound:
        """Return the function that a call runs and what it is called with, after all checks.

        It takes the arguments of a call, outputs included. The function may be called again for as
        long as the arrays live. Raises what a call raises for arguments that do not fit, and
        :class:`~schedlang.errors.BuildError` for a GPU.
        """
        return cast(Bound, self._backend.having("bound")(*args))

    def stamped(self, times: np.ndarray, *args: Any) -> Bound:
        """Return what :meth:`bound` does, for a copy of the module that measures its calls.

        Each run writes ``times``, of int64: the ticks of the clock at its start and after each of
        :attr:`calls`. The copy is compiled when this is first called. In a forked process without
        threads its loops are serial, as in a call. Raises :class:`~schedlang.errors.BuildError` for
        a GPU.
        """
        return cast(Bound, self._backend.having("stamped")(times, *args))

    def timed(self, repeat: int, *args: Any) -> tuple[list[float], int, dict[str, int]]:
        """Return the seconds of each of :attr:`calls`, the number of runs, and the sizes.

        It takes the arguments of a call. On a CPU, the fastest of at least ``repeat`` runs counts.
        On a GPU its events measure the seconds; NumPy's arrays are copied to it once, before.
        """
        return self._backend.timed(repeat, *args)

    def cuda_graph(self, /, *args: Any, **named: Any) -> CudaGraph:
        """Make a CUDA graph of a call: ``replay()`` launches all its kernels at once.

        It takes the arguments of a call, and outputs if they are given; all arrays must be in the
        memory of one GPU. The graph keeps their addresses: to compute with other inputs, write them
        into these arrays. It keeps the value of a scalar. The call is run once, so that ``outputs``
        holds its results.

        Raises what a call raises, and :class:`~schedlang.errors.CallError` for arrays of the host,
        for a network with facts about elements (``sl.assume``), which each call checks, and where
        the driver cannot record. Raises :class:`~schedlang.errors.BuildError` for a CPU.
        """
        return cast("CudaGraph", self._backend.having("cuda_graph")(*args, **named))

    def simulate(self, *args: Any) -> Any:
        """Return new outputs by running the source for a GPU in Python, one thread at a time.

        Only tiny networks are practical. The arguments are the inputs of a call, as NumPy arrays. A
        debugger stops at breakpoints in the file at :attr:`path`. Raises
        :class:`~schedlang.errors.MissingNameError` for a CPU.
        """
        return self._backend.having("simulate")(*args)

    def standalone(self) -> str:
        """Return the source for a GPU with the intrinsics that it uses, which needs numba-cuda.

        Raises :class:`~schedlang.errors.BuildError` for a kernel that needs more shared memory than
        a launch by numba may have, and :class:`~schedlang.errors.MissingNameError` for a CPU.
        """
        return str(self._backend.having("standalone")())

    def release_memory(self) -> None:
        """Free the memory that no running call uses; the next call allocates its own again."""
        self._backend.release_memory()

    def __reduce__(self) -> Any:
        return NetworkModule, (self.data, self.params, None, self._backend.compiler)


__all__ = ["NetworkModule"]
