"""The module of a network: one source, one function that runs all of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakMethod

import numpy as np

from schedlang.compute.arrays import as_numpy
from schedlang.errors import BuildError, CallTypeError, explain
from schedlang.networks.call import Layouts, Memory, as_packed, pack, with_memory
from schedlang.networks.data import CallData, ModuleData
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.size_checks import SizeChecks
from schedlang.networks.sized_memory import SizedMemory
from schedlang.runtime.arrays import empty_like_library
from schedlang.runtime.checked import Checked, checked_arguments, flat_arguments
from schedlang.runtime.fast_call import fast_call
from schedlang.runtime.on_host import OnHost
from schedlang.runtime.parameters import Binder, Signature
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest


class NetworkModule(OnHost):
    """All kernels of a network as one module: call it with the network's inputs.

    ``m(x)`` returns a new output, or a tuple of them, in the library of the first array;
    ``m(x, out)`` writes ``out`` and returns it. Arguments may be named. A call checks its arguments
    as a kernel does, and raises what that raises. Then it runs one function, without Python between
    kernels and without the GIL. Calls may run at once in several threads: each has memory of its
    own, which the next one uses again.

    ``params`` are the arrays of the network's parameters by name, or their bytes as :attr:`params`
    has them. ``whole`` is a method of the network that returns the data with the machine nest; the
    module does not keep the network alive. ``compiler`` is one of the target's, empty for the
    default one.
    """

    def __init__(
        self,
        data: ModuleData,
        params: Mapping[str, Any] | np.ndarray,
        whole: Callable[[], ModuleData] | None = None,
        compiler: str = "",
    ) -> None:
        storage, sized = data.storage, data.sized is not None
        given = (storage.param_bytes > 0, sized or storage.arena > 0, storage.threads > 0)
        behind = [*["uint8"] * sum(given), *["int64"] * sized]
        called = {call.function for call in data.calls}
        super().__init__(data, data.target.facts, "network", called, behind, compiler)
        self._data, self._compiler = data, compiler
        self._whole = None if whole is None else WeakMethod(whole)
        if not isinstance(params, np.ndarray):
            params = pack(data.storage, params)
        self._params = as_packed(params, data.storage)
        self._binder = Binder(data.signature, "network")
        self._check_sizes = SizeChecks(data.public, data.checks)
        self._fast_call = fast_call(data.signature)
        self._free: list[Memory] = []

    @property
    def name(self) -> str:
        return self._data.public

    @property
    def target(self) -> Target:
        return self._data.target

    @property
    def data(self) -> ModuleData:
        """All of this module but its parameters, as data."""
        return self._data

    @property
    def signature(self) -> Signature:
        """The parameters of a call in order, as data."""
        return self._data.signature

    @property
    def memory(self) -> MemoryPlan:
        """The place of each tensor between kernels; see :meth:`memory_at` if it depends on sizes.

        Raises :class:`~schedlang.errors.BuildError` then.
        """
        if self._data.plan is None:
            names = ", ".join(f"{name}=..." for name, _ in self._sizes())
            raise BuildError(
                explain(
                    f"memory of network {self.name}",
                    "it depends on the sizes of a call",
                    f"Use memory_at({names}).",
                )
            )
        return self._data.plan

    def memory_at(self, **sizes: int) -> MemoryPlan:
        """Return the place of each tensor between kernels at the ``sizes`` of a call, by name.

        Raises :class:`~schedlang.errors.CallTypeError` for one that is missing or unknown.
        """
        names = [name for name, _ in self._sizes()]
        if sorted(names) != sorted(sizes):
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
        return self._data.plan or cast(SizedMemory, self._data.sized).plan(sizes)

    def _sizes(self) -> list[tuple[str, int]]:
        """Return the name of each size, and its position among the arguments of the function."""
        signature = self._data.signature
        sizes = [(p.name, k) for k, p in enumerate(signature.parameters) if p.is_size]
        first = len(signature.parameters)
        return [*sizes, *((name, first + k) for k, name in enumerate(signature.sizes))]

    def sizes_in(self, flat: Sequence[Any]) -> dict[str, int]:
        """Return the value of each size by its name, of the arguments that :meth:`bound` gives."""
        return {name: int(flat[position]) for name, position in self._sizes()}

    @property
    def calls(self) -> tuple[CallData, ...]:
        """The calls of kernels, in the order in which they run."""
        return self._data.calls

    @property
    def params(self) -> np.ndarray:
        """The bytes of all parameters, at the places that ``data.storage.params`` has."""
        return self._params

    @property
    def source(self) -> str:
        """The source that runs: Python, or C."""
        return self._data.text

    @property
    def machine_nest(self) -> MachineNest:
        """The linked machine nest: the functions of all kernels, and the one that calls them.

        A module that came from the cache folder has the network make it, which divides and
        schedules the graph. Raises :class:`~schedlang.errors.BuildError` for a module without its
        network, and for one whose network was scheduled anew since.
        """
        if self._data.machine is None:
            self._data = replace(self._data, machine=self._made())
        return cast("MachineNest", self._data.machine)

    def _made(self) -> MachineNest | None:
        """Return the machine nest that the network makes."""
        whole = None if self._whole is None else self._whole()
        asked = f"machine_nest of network {self.name}"
        if whole is None:
            raise BuildError(
                explain(
                    asked,
                    "it was loaded from its source, which is all that running needs",
                    "Keep its network, net = sl.network(...) or net = sl.load(...): "
                    "net.module.machine_nest makes it. Or read .source.",
                )
            )
        linked = whole()
        if linked != self._data:
            raise BuildError(
                explain(
                    asked,
                    "the network has other schedules by now",
                    "Take net.module.machine_nest: net.module is the module that runs now.",
                )
            )
        return linked.machine

    def __repr__(self) -> str:
        return f"<NetworkModule {self.name}({self._binder.listing}) for {self.target.kind}>"

    def compile(self) -> NetworkModule:
        """Compile now, or load from the disk cache; return this module."""
        self._compile()
        return self

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if self._fast_call is not None and not named:
            bound = self._fast_call(args)
            if bound is not None:
                (self._start or self._starter())(*bound[0])
                return bound[1]
        checked = self._checked(args, named)
        flat = flat_arguments(self._data.signature, checked.arrays, checked.sizes)
        (self._start or self._starter())(*flat)
        return checked.returned

    def bound(self, *args: Any) -> tuple[Callable[..., None], list[Any]]:
        """Return the function that a call runs and what it is called with, after all checks.

        The arguments are those of a call, outputs included. The function may be called again for as
        long as the arrays live. Raises what a call raises for arguments that do not fit.
        """
        arrays, sizes, _ = self._checked(args, {})
        flat = flat_arguments(self._data.signature, arrays, sizes)
        return self._callable(), flat

    def _checked(self, args: Sequence[Any], named: Mapping[str, Any]) -> Checked:
        """Return what a call is given, after all checks."""
        return checked_arguments(
            self._binder, args, named, as_numpy, empty_like_library, lambda a: a, self._check_sizes
        )

    def stamped(self, times: np.ndarray, *args: Any) -> tuple[Callable[..., None], list[Any]]:
        """Return what :meth:`bound` does, for a copy of the module that measures its calls.

        Each run writes ``times``, of int64: the ticks of the clock at its start and after each of
        :attr:`calls`. The copy is compiled when this is first called. In a forked process without
        threads its loops are serial, as in a call.
        """
        from schedlang.machine.passes.call_stamps import with_call_stamps

        self._function()
        function, path = self._runner.function_of_nest(
            with_call_stamps(self._machine()), self.name, self._data.fastmath, self._called
        )
        _, flat = self.bound(*args)
        return self._starting(lambda *given: function(*given, times), path), flat

    def cuda_graph(self, /, *args: Any, **named: Any) -> Any:
        """Refuse: kernels of a CPU are in no CUDA graph."""
        raise BuildError(
            explain(
                f"cuda_graph of network {self.name}",
                f"it is built for target={self.target.kind!r}",
                'Build it for target="cuda", without SCHEDLANG_CUDA=emulator in the environment.',
            )
        )

    def release_memory(self) -> None:
        """Free the memory that no running call uses; the next call allocates its own again."""
        self._free.clear()

    def _starting(self, function: Callable[..., None], path: Path) -> Callable[..., None]:
        """Return ``function``, of the file at ``path``, called with memory behind its arguments."""
        function = super()._starting(function, path)
        storage, sized = self._data.storage, self._data.sized
        params = [self._params] if storage.params else []
        layouts = None if sized is None else Layouts(sized, self._sizes())
        threads = self._threads() if storage.threads else lambda: 1
        poison = self._runner.shows_unwritten
        return with_memory(function, params, storage, threads, self._free, layouts, poison)

    def __reduce__(self) -> Any:
        return NetworkModule, (self._data, self._params, None, self._compiler)


__all__ = ["NetworkModule"]
