"""The arguments of a call on a GPU: arrays of any library, on one stream."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.compute.arrays import as_numpy
from schedlang.compute.torch_tensors import detach, is_tensor
from schedlang.errors import CallError, CallTypeError, explain
from schedlang.expr.dtypes import array_dtype, storage_dtype
from schedlang.gpu_lowering.limits import check_limits
from schedlang.gpu_lowering.program import Launch
from schedlang.runtime import nvidia
from schedlang.runtime.device_arrays import (
    Described,
    address_of,
    copied_to_host,
    describe,
    is_on_device,
    streams_of,
)
from schedlang.runtime.launch import Memory
from schedlang.runtime.parameters import Signature
from schedlang.target import DEVICES, Device, Target


def check_gpu(what: str) -> None:
    """Raise :class:`~schedlang.errors.CallError` if this machine has no NVIDIA GPU."""
    if not nvidia.driver().is_available():
        raise CallError(
            explain(
                what,
                "it needs an NVIDIA GPU, and none is available on this machine",
                'To run it on the CPU, build it for target="cuda-emulator", or set '
                "SCHEDLANG_CUDA=emulator.",
            )
        )


def device_for(what: str, target: Target, have: tuple[int, ...]) -> Device:
    """Return the device to compile for, on a GPU of the compute capability ``have``.

    It is the device of ``target`` if its machine code runs there, else a later GPU's. Raises
    :class:`~schedlang.errors.CallError` for an older GPU and for one that is not known.
    """
    own, arch = target.device, "sm_{}{}".format(*have)
    later = have > own.capability and not own.specific
    if have == own.capability or (later and have[0] == own.capability[0]):
        return own
    if not later or arch not in DEVICES:
        raise CallError(
            f"{what} is built for {target.arch}, but this GPU is {arch}: "
            f'build it for sl.Target("cuda", arch={arch!r})'
        )
    return DEVICES[arch]


def check_later(launches: Sequence[Launch], target: Target, have: tuple[int, ...]) -> None:
    """Check the limits of a later GPU: it may have less shared memory, as sm_89 than sm_80."""
    arch = "sm_{}{}".format(*have)
    if have > target.device.capability and not target.device.specific and arch in DEVICES:
        for launch in launches:
            check_limits(launch, Target("cuda", arch=arch))


def device_view(value: Any, what: str, is_output: bool, stream: int) -> np.ndarray:
    """Return an array of NumPy over an argument, which describes memory of a GPU.

    Raises :class:`~schedlang.errors.CallTypeError` for a masked array.
    """
    if is_tensor(value):
        value = detach(value, what)
    if not is_on_device(value) or isinstance(value, np.ndarray):
        return as_numpy(value, what, is_output)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None and interface.get("mask") is not None:
        raise CallTypeError(f"{what} is a masked array: pass only its data")
    if is_tensor(value) and str(value.dtype) == "torch.bfloat16":
        # the protocol has no name for it
        short = sys.modules["torch"].int16
        return describe(value.view(short), stream).view(array_dtype("bfloat16"))
    return describe(value, stream)


def device_elements(value: Any) -> Any:
    """Return an argument whose elements can be read: the call waits for a copy of them."""
    return copied_to_host(value) if isinstance(value, Described) else value


class DeviceArguments:
    """The arguments of a launch: memory of the GPU, with copies of the arrays of the host.

    ``given`` are the arguments; :meth:`finish` copies outputs back to the host.
    """

    def __init__(
        self, arrays: Sequence[Any], signature: Signature, alignment: Sequence[int], number: int
    ) -> None:
        cuda, self._stream = nvidia.driver(), nvidia.stream_of(number)
        self.given: list[Any] = []
        self._copied: list[tuple[Any, np.ndarray, bool]] = []
        for value, p, unit in zip(arrays, signature.parameters, alignment):
            if p.is_scalar:
                self.given.append(value)
                continue
            flat = value.reshape(-1)
            flat = flat.view(storage_dtype(p.dtype)) if storage_dtype(p.dtype) != p.dtype else flat
            if isinstance(value, Described):
                address = address_of(flat, p.name, unit)
                self.given.append(Memory(address, flat.size, flat.itemsize))
                continue
            self.given.append(cuda.to_device(flat, stream=self._stream))
            self._copied.append((self.given[-1], flat, p.is_output))

    def finish(self) -> None:
        for there, here, is_output in self._copied:
            if is_output:
                there.copy_to_host(here, stream=self._stream)
        if self._copied:
            # after the call its arrays may change and the copies are freed
            self._stream.synchronize()


def one_stream(
    values: Sequence[Any], interfaces: Sequence[Mapping[str, Any]] | None = None
) -> tuple[int, bool]:
    """Return the number of the stream to launch on, and whether the arrays are on others too.

    It waits for the work on the others. The caller waits for its launch, so that later work on them
    comes after it.
    """
    number, *others = streams_of(values, interfaces) or (0,)
    for other in others:
        nvidia.stream_of(other).synchronize()
    return number, bool(others)
