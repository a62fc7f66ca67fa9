"""The module of a network on a GPU: a call launches its kernels in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from schedlang.errors import BuildError, CallError, explain
from schedlang.expr.dtypes import array_dtype
from schedlang.markup.progress import Setting, tell, working
from schedlang.networks.backend import ModuleBackend
from schedlang.networks.call import Layouts, new_bytes
from schedlang.networks.data import DeviceData, ModuleData
from schedlang.networks.device_graph import CudaGraph
from schedlang.networks.device_launch import NetworkLauncher
from schedlang.runtime import files, nvidia
from schedlang.runtime.bundle import DEVICE_PACKAGE, bundle
from schedlang.runtime.checked import Checked, flat_arguments
from schedlang.runtime.cuda_graph import driver_errors
from schedlang.runtime.device_arrays import Described, device_of, empty_on_device
from schedlang.runtime.device_call import (
    DeviceArguments,
    check_gpu,
    device_elements,
    device_for,
    device_view,
    one_stream,
)
from schedlang.runtime.device_fast_call import device_fast_call
from schedlang.runtime.gpu_profile import Watch, gpu_profile
from schedlang.runtime.launch import Memory, launch_argument
from schedlang.runtime.nvidia import Compiled
from schedlang.runtime.simulator import simulate_file
from schedlang.target import DEVICES, Device

_RECORDING = (
    "While a graph is recorded, no other thread may wait for the whole GPU, and its memory must "
    "have room for one more arena: release_memory() frees the arenas of calls. To do without a "
    "graph, call the network."
)


class DeviceBackend(ModuleBackend):
    """Launches of a module's kernels, on the GPU and the stream of the arrays of each call."""

    def __init__(
        self,
        data: ModuleData,
        params: np.ndarray,
        whole: Callable[[], ModuleData] | None,
        compiler: str,
        progress: Setting,
    ) -> None:
        super().__init__(data, params, whole, compiler, progress)
        assert data.device is not None
        self._device: DeviceData = data.device
        self.fast_call = device_fast_call(data.signature, self._device.alignment)
        # launchers by the number of the GPU
        self._ready: dict[int, NetworkLauncher] = {}
        self._codes: dict[Device, Mapping[str, Compiled]] = {}
        self._preparing = Lock()

    def file(self) -> Path:
        return files.write(self.data.text, self.data.public)

    @property
    def machine_code(self) -> Mapping[str, Compiled]:
        return self._code_of(self.data.target.device)

    def compile(self) -> None:
        self._code_of(self.data.target.device)

    def _code_of(self, device: Device) -> Mapping[str, Compiled]:
        """Return the machine code of each kernel for ``device``."""
        code = self._codes.get(device)
        if code is None:
            nvidia.driver()
            self._check_limits(device)
            module, fastmath = files.load(self.file()), self.data.fastmath
            code, forms = {}, self._device.kernels
            with working(self.what, self.progress):
                tell("compiling")
                for done, form in enumerate(forms):
                    tell("compiling {} kernels", done, len(forms))
                    code[form.name] = nvidia.compile_kernel(module, form, device, fastmath)
            self._codes[device] = code
        return code

    def _check_limits(self, device: Device) -> None:
        """Check the shared memory of kernels: a later GPU may have less."""
        for form in self._device.kernels:
            if form.shared_bytes > device.shared_opt_in:
                raise BuildError(
                    f"{self.what} for {device.arch}: kernel {form.name} needs "
                    f"{form.shared_bytes:,} B of shared memory, and {device.arch} allows "
                    f"{device.shared_opt_in:,} B: build the network for "
                    f'sl.Target("cuda", arch={device.arch!r})'
                )

    def _launcher(self) -> NetworkLauncher:
        """Return the launcher for the current GPU."""
        here = nvidia.driver().get_current_device()
        launcher = self._ready.get(here.id)
        if launcher is not None:
            return launcher
        with self._preparing:
            launcher = self._ready.get(here.id)
            if launcher is None:
                have = tuple(here.compute_capability)
                device = device_for(self.what, self.data.target, have)
                self._check_limits(DEVICES.get("sm_{}{}".format(*have), device))
                code = self._code_of(device)
                sized, storage = self.data.sized, self.data.storage
                launcher = self._ready[here.id] = NetworkLauncher(
                    files.load(self.file()),
                    self._device.kernels,
                    code,
                    [call.function for call in self.data.calls],
                    self.params if storage.params else None,
                    storage,
                    None if sized is None else Layouts(sized, self.data.signature),
                )
            return launcher

    def _starter(self) -> Callable[..., None]:
        return lambda args, *known: self.run(args, {}, *known)

    def run(
        self,
        args: Sequence[Any],
        named: Mapping[str, Any],
        memory: Sequence[Memory] | None = None,
        interfaces: Sequence[Mapping[str, Any]] | None = None,
    ) -> Any:
        """Return the outputs of a call, after all checks of its arguments.

        With the ``memory`` of all arguments, from the fast path, it only starts the call.
        """
        if not self._ready:
            check_gpu(self.what)
        values = (*args, *named.values())
        with nvidia.on_gpu(device_of(values)):
            number, several = one_stream(values, interfaces)
            try:
                if memory is not None:
                    return self._launcher().start(memory, number)
                checked = self._checked_on(args, named, number)
                self._start_checked(self._launcher(), checked, number)
                return checked.returned
            finally:
                if several:
                    nvidia.stream_of(number).synchronize()

    def _checked_on(self, args: Sequence[Any], named: Mapping[str, Any], number: int) -> Checked:
        """Return what a call on a stream is given, after all checks."""
        return self.checked(
            args,
            named,
            lambda value, what, written: device_view(value, what, written, number),
            empty_on_device,
            device_elements,
        )

    def _start_checked(self, launcher: NetworkLauncher, checked: Checked, number: int) -> None:
        given = self._copied(checked, number)
        launcher.start(self._passed(given, checked), number)
        given.finish()

    def _copied(self, checked: Checked, number: int) -> DeviceArguments:
        return DeviceArguments(checked.arrays, self.data.signature, self._device.alignment, number)

    def _passed(self, given: DeviceArguments, checked: Checked) -> list[Any]:
        sizes = (checked.sizes[name] for name in self.data.signature.sizes)
        return [*map(launch_argument, given.given), *sizes]

    def cuda_graph(self, /, *args: Any, **named: Any) -> CudaGraph:
        what = f"cuda_graph of {self.what}"
        if not nvidia.driver().is_available():
            raise CallError(
                explain(
                    what,
                    "a graph is recorded by an NVIDIA GPU, and none is available here",
                    'Call the network instead; for target="cuda-emulator" it runs on the CPU.',
                )
            )
        if self.binder.has_facts:
            raise CallError(
                explain(
                    what,
                    "a call checks what sl.assume says of elements, and a replay cannot",
                    "Call the network instead.",
                )
            )
        values = (*args, *named.values())
        with nvidia.on_gpu(device_of(values)):
            number, _ = one_stream(values)
            checked = self._checked_on(args, named, number)
            for array, p in zip(checked.arrays, self.data.signature.parameters):
                if not p.is_scalar and not isinstance(array, Described):
                    raise CallError(
                        explain(
                            what,
                            f"{p.name} is in the memory of the host, but each replay reads "
                            "and writes the same memory of a GPU",
                            "Pass arrays of the GPU: torch.from_numpy(x).cuda(), cupy.asarray(x) "
                            "or numba.cuda.to_device(x).",
                        )
                    )
            launcher = self._launcher()
            given = self._passed(self._copied(checked, number), checked)
            with driver_errors(what, _RECORDING):
                try:
                    graph, memory = launcher.recorded(given, number)
                finally:
                    # a replay on another stream would not wait for this first run
                    nvidia.stream_of(number).synchronize()
            return CudaGraph(
                self.data.public,
                graph,
                [*values, *checked.results],
                checked.returned,
                nvidia.driver().get_current_device().id,
                [checked, launcher, memory],
            )

    def timed(self, repeat: int, *args: Any) -> tuple[list[float], int, dict[str, int]]:
        check_gpu(f"profile of {self.what}")
        there = [nvidia.driver().to_device(a) if isinstance(a, np.ndarray) else a for a in args]
        with nvidia.on_gpu(device_of(there)):
            number, launcher = one_stream(there)[0], self._launcher()
            checked = self._checked_on(there, {}, number)

            def run(watch: Watch | None) -> None:
                watched = launcher if watch is None else launcher.watched(watch)
                self._start_checked(watched, checked, number)

            names = {str(k): str(k) for k in range(len(self.data.calls))}
            measured = gpu_profile(
                self.data.public, self.data.target.kind, names, run, number, repeat
            )
        seconds = {part.name: part.seconds for part in measured.parts}
        return [seconds[name] for name in names], repeat, checked.sizes

    def simulate(self, *args: Any) -> Any:
        checked = self.checked(
            args,
            {},
            lambda value, *_: np.asarray(value),
            lambda first, shape, dtype: np.empty(shape, array_dtype(dtype)),
        )
        signature, sized = self.data.signature, self.data.sized
        flat = flat_arguments(signature, checked.arrays, checked.sizes)
        # the bytes of the arena, and the places in it if they depend on sizes
        layout = (self.data.storage.arena,) if sized is None else Layouts(sized, signature)(flat)
        arena = new_bytes(layout[0])
        # a read before the first write shows
        arena.fill(0xFF)
        names, places = simulate_file(self.file()), (list(map(int, p)) for p in layout[1:])
        with np.errstate(all="ignore"):
            names["launch"](*flat, names["views"](self.params, arena, *places))
        return checked.returned

    def release_memory(self) -> None:
        for launcher in self._ready.values():
            launcher.release_memory()

    def standalone(self) -> str:
        return standalone(self.data)


def standalone(data: ModuleData) -> str:
    """Return the source of a module with the intrinsics that it uses."""
    assert data.device is not None
    most = data.target.device.shared_static
    for form in data.device.kernels:
        if form.dynamic_bytes:
            raise BuildError(
                f"save: kernel {form.name} of network {data.public} needs {form.shared_bytes:,} B "
                f"of shared memory, but in a file of its own it may have {most:,} B: choose a "
                "schedule with smaller tiles for its part"
            )
    return bundle(data.text, DEVICE_PACKAGE)
