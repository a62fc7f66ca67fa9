"""The module of a network on a GPU: one source, whose kernels a call launches in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from schedlang.errors import BuildError, CallError, explain
from schedlang.expr.dtypes import array_dtype
from schedlang.markup.progress import tell
from schedlang.networks.call import Layouts, new_bytes
from schedlang.networks.data import DeviceData, ModuleData
from schedlang.networks.device_graph import CudaGraph
from schedlang.networks.device_launch import NetworkLauncher
from schedlang.networks.module import NetworkModule
from schedlang.runtime import files, nvidia
from schedlang.runtime.bundle import DEVICE_PACKAGE, bundle
from schedlang.runtime.checked import Checked, checked_arguments, flat_arguments
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
from schedlang.runtime.device_fast_call import Passed, device_fast_call
from schedlang.runtime.gpu_profile import Watch, gpu_profile
from schedlang.runtime.launch import launch_argument
from schedlang.runtime.nvidia import Compiled, Resources
from schedlang.runtime.simulator import simulate_file
from schedlang.target import DEVICES, Device

_RECORDING = (
    "While a graph is recorded, no other thread may wait for the whole GPU, and its memory must "
    "have room for one more arena: release_memory() frees those of calls. To do without a graph, "
    "call the network."
)


class DeviceModule(NetworkModule):
    """A :class:`NetworkModule` for ``target="cuda"``.

    A call launches all kernels in order on the stream of its arrays, and returns before they
    have run, as kernels do. It uses arrays in the memory of a GPU in place, and copies NumPy's
    there and back. The parameters are copied to a GPU by the first call on it. What kernels pass to
    each other stays in the memory of the GPU: each stream has an arena, which its next call uses
    again, and calls that are launched at once have one each.
    """

    def __init__(
        self,
        data: ModuleData,
        params: Mapping[str, Any] | np.ndarray,
        whole: Callable[[], ModuleData] | None = None,
        compiler: str = "",
    ) -> None:
        super().__init__(data, params, whole, compiler)
        assert data.device is not None
        self._device: DeviceData = data.device
        # the fast path of a CPU takes NumPy's arrays
        self._fast_call = None
        self._quick = device_fast_call(data.signature, self._device.alignment)
        # launchers by the number of the GPU
        self._ready: dict[int, NetworkLauncher] = {}
        self._codes: dict[Device, Mapping[str, Compiled]] = {}
        self._preparing = Lock()

    @property
    def machine_code(self) -> Mapping[str, Compiled]:
        """The PTX, machine code and resources of each kernel, by its name. It needs no GPU."""
        return self._code_of(self.target.device)

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
        return "\n".join(nvidia.disassemble(code.cubin) for code in codes)

    def compile(self) -> DeviceModule:
        """Compile every kernel to machine code now, and return this module."""
        assert self.machine_code is not None
        return self

    def _code_of(self, device: Device) -> Mapping[str, Compiled]:
        """Return the machine code of each kernel for ``device``."""
        code = self._codes.get(device)
        if code is None:
            nvidia.driver()
            self._check_limits(device)
            module, fastmath = files.load(self._path), self._data.fastmath
            code, forms = {}, self._device.kernels
            with self._working("compiling"):
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
                    f"network {self.name} for {device.arch}: kernel {form.name} needs "
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
                device = device_for(f"network {self.name}", self.target, have)
                self._check_limits(DEVICES.get("sm_{}{}".format(*have), device))
                code = self._code_of(device)
                sized, storage = self._data.sized, self._data.storage
                launcher = self._ready[here.id] = NetworkLauncher(
                    files.load(self._path),
                    self._device.kernels,
                    code,
                    [call.function for call in self._data.calls],
                    self._params if storage.params else None,
                    storage,
                    None if sized is None else Layouts(sized, self._sizes()),
                )
            return launcher

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if not self._ready:
            check_gpu(f"network {self.name}")
        values = (*args, *named.values())
        with nvidia.on_gpu(device_of(values)):
            known = self._quick(args) if self._quick is not None and not named else None
            number, several = one_stream(values, None if known is None else known.interfaces)
            try:
                if known is not None:
                    return self._started(known, args, number)
                checked = self._checked_on(args, named, number)
                self._run(self._launcher(), checked, number)
                return checked.returned
            finally:
                if several:
                    nvidia.stream_of(number).synchronize()

    def _started(self, known: Passed, args: Sequence[Any], number: int) -> Any:
        """Start a call whose arguments are all on the GPU, and return its outputs."""
        self._launcher().start(known.memory, number)
        outputs = [v for v, p in zip(args, self.signature.parameters) if p.is_output]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _checked_on(self, args: Sequence[Any], named: Mapping[str, Any], number: int) -> Checked:
        """Return what a call on a stream is given, after all checks."""

        def view(value: Any, what: str, written: bool) -> np.ndarray:
            return device_view(value, what, written, number)

        return checked_arguments(
            self._binder, args, named, view, empty_on_device, device_elements, self._check_sizes
        )

    def _run(self, launcher: NetworkLauncher, checked: Checked, number: int) -> None:
        given = self._copied(checked, number)
        launcher.start(self._passed(given, checked), number)
        given.finish()

    def _copied(self, checked: Checked, number: int) -> DeviceArguments:
        return DeviceArguments(checked.arrays, self.signature, self._device.alignment, number)

    def _passed(self, given: DeviceArguments, checked: Checked) -> list[Any]:
        sizes = [checked.sizes[name] for name in self.signature.sizes]
        return [*map(launch_argument, given.given), *sizes]

    def cuda_graph(self, /, *args: Any, **named: Any) -> CudaGraph:
        """Make a CUDA graph of a call: ``replay()`` launches all its kernels at once.

        The arguments are those of a call, outputs too where they are given; all arrays must be in
        the memory of one GPU. The graph keeps their addresses: to compute with other inputs, write
        them into these arrays. It keeps the value of a scalar. The call is run once, so that
        ``outputs`` holds its results.

        Raises what a call raises, and :class:`~schedlang.errors.CallError` for arrays of the host,
        for a network with facts about elements (``sl.assume``), which each call checks, and where
        the driver cannot record.
        """
        what = f"cuda_graph of network {self.name}"
        if not nvidia.driver().is_available():
            raise CallError(
                explain(
                    what,
                    "a graph is recorded by an NVIDIA GPU, and none is available here",
                    'Call the network instead; for target="cuda-emulator" it runs on the CPU.',
                )
            )
        if self._binder.has_facts:
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
            for array, p in zip(checked.arrays, self.signature.parameters):
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
                self.name,
                graph,
                [*values, *checked.results],
                checked.returned,
                nvidia.driver().get_current_device().id,
                [checked, launcher, memory],
            )

    def bound(self, *args: Any) -> Any:
        """Refuse: what a call launches depends on the GPU and the stream of its arrays."""
        raise BuildError(
            explain(
                f"bound of network {self.name}",
                "what a call launches depends on the GPU and the stream of its arrays",
                "Call the module, with its outputs: module(x, out).",
            )
        )

    def stamped(self, times: np.ndarray, *args: Any) -> Any:
        """Refuse: the kernels of a GPU are timed by its events."""
        raise BuildError(
            explain(
                f"stamped of network {self.name}",
                "a GPU has no clock that its kernels share",
                "Use timed(repeat, *args), whose times are by events of the GPU.",
            )
        )

    def timed(self, repeat: int, *args: Any) -> tuple[list[float], int, dict[str, int]]:
        """Return the seconds of each of :attr:`calls`, the number of runs, and the sizes.

        The seconds are by events of the GPU. The arguments are those of a call; NumPy's arrays are
        copied to the GPU once, before.
        """
        check_gpu(f"profile of network {self.name}")
        cuda = nvidia.driver()
        there = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in args]
        with nvidia.on_gpu(device_of(there)):
            number, launcher = one_stream(there)[0], self._launcher()
            checked = self._checked_on(there, {}, number)

            def run(watch: Watch | None) -> None:
                watched = launcher if watch is None else launcher.watched(watch)
                self._run(watched, checked, number)

            names = {str(k): str(k) for k in range(len(self.calls))}
            measured = gpu_profile(self.name, self.target.kind, names, run, number, repeat)
        seconds = {part.name: part.seconds for part in measured.parts}
        return [seconds[name] for name in names], repeat, checked.sizes

    def simulate(self, *args: Any) -> Any:
        """Return new outputs by running the source in Python, one thread of the GPU at a time.

        Only tiny networks are practical. The arguments are the inputs of a call, as NumPy arrays. A
        debugger stops at breakpoints in the file at :attr:`path`.
        """
        checked = checked_arguments(
            self._binder,
            args,
            {},
            lambda value, *_: np.asarray(value),
            lambda first, shape, dtype: np.empty(shape, array_dtype(dtype)),
            lambda value: value,
            self._check_sizes,
        )
        flat = flat_arguments(self.signature, checked.arrays, checked.sizes)
        size, places = self._data.storage.arena, []
        if self._data.sized is not None:
            size, table = Layouts(self._data.sized, self._sizes())(flat)
            places = [list(map(int, table))]
        arena = new_bytes(size)
        # a read before the first write shows
        arena.fill(0xFF)
        names = simulate_file(self._path)
        with np.errstate(all="ignore"):
            names["launch"](*flat, names["views"](self._params, arena, *places))
        return checked.returned

    def release_memory(self) -> None:
        for launcher in self._ready.values():
            launcher.release_memory()

    def standalone(self) -> str:
        """Return the source with the intrinsics that it uses, which needs numba-cuda alone.

        Raises :class:`~schedlang.errors.BuildError` for a kernel that needs more shared memory than
        a launch by numba may have.
        """
        return standalone(self._data)

    def __reduce__(self) -> Any:
        return DeviceModule, (self._data, self._params)


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
