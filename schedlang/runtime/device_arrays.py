"""Arrays in a GPU's memory, of any library: address and shape, their GPU, the caller's stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.errors import CallError
from schedlang.runtime import nvidia

# DLPack's numbers: memory of an NVIDIA GPU, and the default stream
CUDA_DEVICE, DEFAULT_STREAM = 2, 1


class Described(np.ndarray):
    """An array that lies in a GPU's memory: shape, dtype and address, which is not read here."""


class Holder:
    """Memory for NumPy to describe; it keeps ``owner``, whose memory it is."""

    def __init__(self, owner: Any, known: Mapping[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": known["shape"], "typestr": known["typestr"], "data": known["data"],
            "strides": known.get("strides"), "version": 3,
        }  # fmt: skip


def is_on_device(value: Any) -> bool:
    """Return whether ``value`` says that it is an array in a GPU's memory."""
    return hasattr(value, "__cuda_array_interface__") or _device(value) is not None


def described(value: Any, stream: int = 0) -> np.ndarray:
    """Return a NumPy array as it is, one of a GPU as :class:`Described`, ready on ``stream``."""
    if isinstance(value, np.ndarray):
        return value
    known = getattr(value, "__cuda_array_interface__", None)
    owner = value
    if known is None:
        owner, known = _by_dlpack(value, stream or DEFAULT_STREAM)
    return np.asarray(Holder(owner, known)).view(Described)


def _by_dlpack(value: Any, stream: int) -> tuple[Any, dict[str, Any]]:
    """Describe a DLPack array in the words of ``__cuda_array_interface__``; also return what keeps
    its memory.
    """
    from cuda.core.utils import StridedMemoryView

    # the producer's work comes before ours
    view = StridedMemoryView.from_dlpack(value, stream)
    dtype = np.dtype(view.dtype)
    strides = view.strides and tuple(n * dtype.itemsize for n in view.strides)
    return view, {
        "shape": view.shape, "typestr": dtype.str, "data": (view.ptr, view.readonly),
        "strides": strides,
    }  # fmt: skip


def _device(value: Any) -> int | None:
    """Return the number of the GPU that an array lies on."""
    said = getattr(value, "__dlpack_device__", None)
    if said is not None:
        kind, number = said()
        return int(number) if kind == CUDA_DEVICE else None
    known = getattr(value, "__cuda_array_interface__", None)
    return None if known is None else nvidia.gpu_of(known["data"][0])


def device_of(values: Sequence[Any]) -> int | None:
    """Return the number of the GPU that one call's arrays are on; ``None`` if there are none."""
    found = sorted({number for value in values if (number := _device(value)) is not None})
    if len(found) > 1:
        listed = " and ".join(map(str, found))
        raise CallError(
            f"the arrays of one call are on the GPUs {listed}, but a kernel runs on one GPU: copy "
            "the arrays to one"
        )
    return found[0] if found else None


def address_of(flat: np.ndarray, name: str, alignment: int) -> int:
    """Return the address of a described array; raise if it is not aligned.

    A kernel may access several of its elements at once.
    """
    address = int(flat.ctypes.data)
    if address % alignment and flat.size:
        raise CallError(
            f"{name} starts at an address that is not a multiple of {alignment} bytes, as a view "
            f"of another array may, but this kernel accesses {alignment} bytes at once: pass a copy"
        )
    return address


def library_of(value: Any) -> str:
    """Return the top package of a value's type, as ``"torch"``."""
    return type(value).__module__.partition(".")[0]


def streams_of(
    values: Sequence[Any], interfaces: Sequence[Mapping[str, Any]] | None = None
) -> tuple[int, ...]:
    """Return the streams that the arrays' libraries work on, or that they name.

    The default stream is 0. ``interfaces`` are their ``__cuda_array_interface__``, where they have
    been asked for.
    """
    found: dict[int, None] = {}
    for number, value in enumerate(values):
        library = library_of(value)
        if library == "torch":
            if not value.is_cuda:
                continue
            import torch

            found[int(torch.cuda.current_stream(value.device).cuda_stream)] = None
        elif library == "cupy":
            import cupy

            found[int(cupy.cuda.get_current_stream().ptr)] = None
        else:
            known = (
                getattr(value, "__cuda_array_interface__", None)
                if interfaces is None
                else interfaces[number]
            )
            if known is not None and known.get("stream"):
                found[int(known["stream"])] = None
    return tuple(found)


def empty_on_device(first: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return an uninitialised array in the library, and on the device, of ``first``."""
    library = library_of(first)
    if library == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=first.device)
    if library == "cupy":
        import cupy

        return cupy.empty(shape, dtype)
    if is_on_device(first):
        return nvidia.driver().device_array(shape, np.dtype(dtype))
    return np.empty(shape, dtype)


__all__ = ["Described", "address_of", "streams_of", "described", "device_of",
           "empty_on_device", "is_on_device", "library_of"]  # fmt: skip
