"""Arrays in a GPU's memory, of any library: their address, shape and GPU, and their stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.errors import CallError
from schedlang.expr.dtypes import array_dtype
from schedlang.runtime import nvidia

# DLPack's codes for the memory of an NVIDIA GPU and for the default stream
CUDA_DEVICE, DEFAULT_STREAM = 2, 1


class Described(np.ndarray):
    """The shape, dtype and address of an array in a GPU's memory, which NumPy must not read."""


class Holder:
    """An ``__array_interface__`` of a GPU's memory, which keeps its ``owner`` alive."""

    def __init__(self, owner: Any, interface: Mapping[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": interface["shape"], "typestr": interface["typestr"],
            "data": interface["data"], "strides": interface.get("strides"), "version": 3,
        }  # fmt: skip


def is_on_device(value: Any) -> bool:
    """Return whether ``value`` has a protocol of arrays in a GPU's memory."""
    return hasattr(value, "__cuda_array_interface__") or _device(value) is not None


def describe(value: Any, stream: int = 0) -> np.ndarray:
    """Return a NumPy array itself, and an array of a GPU as :class:`Described`.

    Work on ``stream`` waits until a DLPack array is ready.
    """
    if isinstance(value, np.ndarray):
        return value
    interface = getattr(value, "__cuda_array_interface__", None)
    owner = value
    if interface is None:
        owner, interface = _by_dlpack(value, stream or DEFAULT_STREAM)
    return np.asarray(Holder(owner, interface)).view(Described)


class _There:
    """A C-contiguous array in a GPU's memory, for numba."""

    def __init__(self, value: Described) -> None:
        self.owner = value
        self.__cuda_array_interface__ = {
            "shape": value.shape,
            "typestr": value.dtype.str,
            "version": 3,
            "data": (value.ctypes.data, True),
        }


def copied_to_host(value: Described) -> np.ndarray:
    """Return a copy of a C-contiguous :class:`Described` array in the memory of the host."""
    if not value.size:
        return np.empty(value.shape, value.dtype)
    return np.asarray(nvidia.driver().as_cuda_array(_There(value)).copy_to_host())


def _by_dlpack(value: Any, stream: int) -> tuple[Any, dict[str, Any]]:
    """Return the owner of a DLPack array's memory, and a ``__cuda_array_interface__`` of it."""
    from cuda.core.utils import StridedMemoryView

    # makes the stream wait for the producer's work
    view = StridedMemoryView.from_dlpack(value, stream)
    dtype = np.dtype(view.dtype)
    strides = view.strides and tuple(n * dtype.itemsize for n in view.strides)
    return view, {
        "shape": view.shape,
        "typestr": dtype.str,
        "data": (view.ptr, view.readonly),
        "strides": strides,
    }


def _device(value: Any) -> int | None:
    """Return the number of the GPU that an array is on; ``None`` if it is on none."""
    dlpack_device = getattr(value, "__dlpack_device__", None)
    if dlpack_device is not None:
        kind, number = dlpack_device()
        return int(number) if kind == CUDA_DEVICE else None
    interface = getattr(value, "__cuda_array_interface__", None)
    return None if interface is None else nvidia.gpu_of(interface["data"][0])


def device_of(values: Sequence[Any]) -> int | None:
    """Return the number of the GPU that one call's arrays are on; ``None`` if there are none."""
    numbers = sorted({number for value in values if (number := _device(value)) is not None})
    if len(numbers) > 1:
        listed = " and ".join(map(str, numbers))
        raise CallError(
            f"the arrays of one call are on the GPUs {listed}, but a kernel runs on one GPU: copy "
            "the arrays to one"
        )
    return numbers[0] if numbers else None


def address_of(flat: np.ndarray, name: str, alignment: int) -> int:
    """Return the address of a :class:`Described` array.

    Raise :class:`~schedlang.errors.CallError` if it is not a multiple of ``alignment``: the kernel
    accesses as many bytes at once, or an instruction needs it there.
    """
    address = int(flat.ctypes.data)
    if address % alignment and flat.size:
        raise CallError(
            f"{name} starts at an address that is not a multiple of {alignment} bytes, as a view "
            "of another array may, but this kernel needs it there: pass a copy"
        )
    return address


def library_of(value: Any) -> str:
    """Return the top-level package of a value's type, e.g. ``"torch"``."""
    return type(value).__module__.partition(".")[0]


def streams_of(
    values: Sequence[Any], interfaces: Sequence[Mapping[str, Any]] | None = None
) -> tuple[int, ...]:
    """Return the current streams of the arrays' libraries, or those that the arrays name.

    The default stream is 0. ``interfaces`` are the arrays' ``__cuda_array_interface__``, if the
    caller has read them already.
    """
    streams: dict[int, None] = {}
    for number, value in enumerate(values):
        library = library_of(value)
        if library == "torch":
            if not value.is_cuda:
                continue
            import torch

            streams[int(torch.cuda.current_stream(value.device).cuda_stream)] = None
        elif library == "cupy":
            import cupy

            streams[int(cupy.cuda.get_current_stream().ptr)] = None
        else:
            interface = (
                getattr(value, "__cuda_array_interface__", None)
                if interfaces is None
                else interfaces[number]
            )
            if interface is not None and interface.get("stream"):
                streams[int(interface["stream"])] = None
    return tuple(streams)


def empty_on_device(first: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return an uninitialised array of the library of ``first``, on its device."""
    library = library_of(first)
    if library == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=first.device)
    if library == "cupy":
        import cupy

        return cupy.empty(shape, dtype)
    if is_on_device(first):
        return nvidia.driver().device_array(shape, array_dtype(dtype))
    return np.empty(shape, array_dtype(dtype))
