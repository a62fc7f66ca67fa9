"""The module of a network on a CPU: one function that runs all kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from schedlang.markup.progress import Setting
from schedlang.networks.backend import ModuleBackend
from schedlang.networks.call import Layouts, Memory, size_positions, with_memory
from schedlang.runtime.checked import flat_arguments
from schedlang.runtime.fast_call import fast_call
from schedlang.runtime.on_host import OnHost

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest
    from schedlang.networks.data import ModuleData

# the least seconds of all measured calls
WINDOW = 0.3


class HostCode(OnHost):
    """The function of a module's file, which is compiled without the module's parameters."""

    def __init__(self, data: ModuleData, compiler: str) -> None:
        storage, sized = data.storage, data.sized is not None
        given = (storage.param_bytes > 0, sized or storage.arena > 0, storage.threads > 0)
        has_table = bool(data.functions)
        behind = [*["int64"] * has_table, *["uint8"] * sum(given), *["int64"] * sized]
        called = {call.function for call in data.calls}
        super().__init__(data, data.target.facts, "network", called, behind, compiler)
        self.data = data

    def _function(self) -> Any:
        if triple := self.data.target.triple:
            from schedlang.runtime.c_processors import refuse_call

            refuse_call("network", self.data.public, triple, 'net.save(folder, target="c")')
        return super()._function()

    def _starting(self, function: Callable[..., None], path: Path) -> Callable[..., None]:
        """Return ``function``, which takes the functions of users, as one without them."""
        data = self.data
        if data.functions:
            from schedlang.runtime.extern_table import ExternTable

            signature, interpreted = data.signature, data.target.facts.interpreted
            at = len(signature.parameters) + len(signature.sizes)
            table = ExternTable(data.functions, f"network {data.public}", at, interpreted)
            table.prepare()
            function = table.with_table(function)
        return super()._starting(function, path)

    @property
    def machine_nest(self) -> MachineNest:
        return cast("MachineNest", self.data.machine)


class HostBackend(ModuleBackend, HostCode):
    """The function of a module's file, called with memory that no other running call uses."""

    def __init__(
        self,
        data: ModuleData,
        params: np.ndarray,
        whole: Callable[[], ModuleData] | None,
        compiler: str,
        progress: Setting,
    ) -> None:
        ModuleBackend.__init__(self, data, params, whole, compiler, progress)
        HostCode.__init__(self, data, compiler)
        self.fast_call = fast_call(data.signature)
        self._free: list[Memory] = []

    @classmethod
    def code(cls, data: ModuleData, compiler: str) -> HostCode:
        return HostCode(data, compiler)

    def file(self) -> Path:
        return self._path

    def compile(self) -> None:
        self._compile()

    def run(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        arrays, sizes, *_ = checked = self.checked(args, named)
        (self._start or self._starter())(*flat_arguments(self.data.signature, arrays, sizes))
        return checked.returned

    def bound(self, *args: Any) -> tuple[Callable[..., None], list[Any]]:
        arrays, sizes, *_ = self.checked(args, {})
        flat = flat_arguments(self.data.signature, arrays, sizes)
        return self._callable(), flat

    def stamped(self, times: np.ndarray, *args: Any) -> tuple[Callable[..., None], list[Any]]:
        from schedlang.machine.passes.call_stamps import with_call_stamps

        self._function()
        function, path = self._runner.function_of_nest(
            with_call_stamps(self._machine()), self.data.public, self.data.fastmath, self._called
        )
        _, flat = self.bound(*args)
        return self._starting(lambda *given: function(*given, times), path), flat

    def timed(self, repeat: int, *args: Any) -> tuple[list[float], int, dict[str, int]]:
        times = np.zeros(len(self.data.calls) + 1, "int64")
        start, flat = self.stamped(times, *args)
        start(*flat)
        began, first = perf_counter(), int(times[-1])
        rows: list[np.ndarray] = []
        while len(rows) < repeat or perf_counter() - began < WINDOW:
            start(*flat)
            ended = perf_counter()
            rows.append(np.diff(times))
        # from the ends of the first and the last run by both clocks
        per_tick = (ended - began) / max(1, int(times[-1]) - first)
        # other work on the machine only adds to the time
        fastest = min(rows, key=lambda row: int(row.sum()))
        seconds = [float(ticks) * per_tick for ticks in fastest]
        sizes = size_positions(self.data.signature)
        return seconds, len(rows), {name: int(flat[k]) for name, k in sizes.items()}

    def release_memory(self) -> None:
        self._free.clear()

    def _starting(self, function: Callable[..., None], path: Path) -> Callable[..., None]:
        """Return ``function``, of the file at ``path``, called with memory behind its arguments."""
        function = super()._starting(function, path)
        storage, sized = self.data.storage, self.data.sized
        params = [self.params] if storage.params else []
        layouts = None if sized is None else Layouts(sized, self.data.signature)
        threads = self._threads() if storage.threads else lambda: 1
        poison = self._runner.shows_unwritten
        return with_memory(function, params, storage, threads, self._free, layouts, poison)
