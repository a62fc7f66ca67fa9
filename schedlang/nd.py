"""te's ``tvm.nd``: arrays on a device, as thin wrappers around NumPy arrays.

Kernels accept them wherever they accept an array, as outputs too. Plain NumPy arrays also work.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import CallError, CallTypeError
from schedlang.expr import dtypes
from schedlang.tvm_names import missing

DEVICE_TYPES = {"cpu": 1, "llvm": 1, "c": 1, "python": 1, "cuda": 2, "gpu": 2, "nvptx": 2,
                "cuda-emulator": 2}  # fmt: skip
REFUSED = {
    "context": ("devices are made by tvm.device", 'Write tvm.device("llvm") or tvm.cuda(0).'),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing(__name__, name, REFUSED, "tvm.nd")


@dataclass(frozen=True)
class Device:
    """A device that holds arrays; its ``str`` is ``"cpu(0)"`` or ``"cuda(0)"``."""

    kind: str
    device_id: int = 0

    @property
    def device_type(self) -> int:
        """DLPack's number: 1 for the CPU, 2 for CUDA."""
        return DEVICE_TYPES[self.kind]

    @property
    def exist(self) -> bool:
        """True if the machine has the device, or ``SCHEDLANG_CUDA`` asks for the emulator."""
        if self.kind == "cpu":
            return self.device_id == 0
        if os.environ.get("SCHEDLANG_CUDA") == "emulator":
            return True
        from numba import cuda as driver

        return bool(driver.is_available()) and self.device_id < len(driver.gpus)

    def sync(self) -> None:
        """Wait for the device; te's ``sync``, which is not needed, as each kernel call waits."""

    def __str__(self) -> str:
        return f"{self.kind}({self.device_id})"

    __repr__ = __str__


def device(kind: Any, index: int = 0) -> Device:
    """Return the device that a target runs on: ``device("llvm")``, ``device("cuda", 0)``.

    Raise :class:`~schedlang.errors.CallError` for an unknown kind of device.

    >>> device("llvm -mcpu=core-avx2"), device("cuda", 1)
    (cpu(0), cuda(1))
    """
    words = str(getattr(kind, "kind", kind)).split()
    code = DEVICE_TYPES.get(words[0] if words else "")
    if code is None:
        raise CallError(
            f'device({str(kind)!r}): unknown device; give "cpu" (or te\'s "llvm") or "cuda"'
        )
    return Device("cpu" if code == 1 else "cuda", index)


def enabled(target: str) -> bool:
    """Return whether kernels for ``target`` can run on this machine; te's ``tvm.runtime.enabled``.

    >>> enabled("llvm"), enabled("opencl")
    (True, False)
    """
    words = target.split()
    return bool(words) and words[0] in DEVICE_TYPES and device(words[0]).exist


def cpu(index: int = 0) -> Device:
    """Return the CPU."""
    return Device("cpu", index)


def cuda(index: int = 0) -> Device:
    """Return a CUDA device."""
    return Device("cuda", index)


gpu = cuda


class NDArray:
    """An array of ``shape`` and ``dtype`` on ``device``; it holds a NumPy array.

    >>> a = array(np.zeros(3, "float32"))
    >>> a[1:] = 2
    >>> a.numpy()
    array([0., 2., 2.], dtype=float32)
    """

    __slots__ = ("_data", "device")

    def __init__(self, data: np.ndarray, device: Device) -> None:
        self._data = data
        self.device = device

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> str:
        return self._data.dtype.name

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._data.__array_interface__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is None or np.dtype(dtype) == self._data.dtype:
            return self._data.copy() if copy else self._data
        return self._data.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self._data.__dlpack_device__()
        return int(kind), int(index)

    def numpy(self) -> np.ndarray:
        """Return a copy as a NumPy array."""
        return self._data.copy()

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Copy all elements of ``source``, an array of the same shape, into this array."""
        values = np.asarray(source)
        if values.shape != self.shape:
            raise CallError(
                f"copyfrom: got an array of shape {values.shape}, expected {self.shape}"
            )
        self._data[...] = values
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy into ``target``, or into a new array if ``target`` is a device; return the copy."""
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        if isinstance(target, Device):
            return array(self, target)
        raise CallTypeError(f"copyto({target!r}): give an array made by tvm.nd or a device")

    def same_as(self, other: object) -> bool:
        """Return whether ``other`` is the same object."""
        return self is other

    def __getitem__(self, index: Any) -> Any:
        return self._data[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._data[index] = value

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"<NDArray {self.shape} {self.dtype}, {self.device}>\n{self._data!r}"


def array(values: Any, device: Device | None = None) -> NDArray:
    """Return a copy of ``values``, of the same dtype, as an array on ``device`` (the CPU).

    Raise :class:`~schedlang.errors.ComputeTypeError` for a dtype that schedlang does not have.
    """
    copied = np.array(values, order="C")
    dtypes.canonical(copied.dtype)
    return NDArray(copied, device or cpu())


def empty(shape: Any, dtype: Any = "float32", device: Device | None = None) -> NDArray:
    """Return an uninitialized array on ``device``."""
    return NDArray(np.empty(shape, dtypes.canonical(dtype)), device or cpu())


def from_dlpack(source: Any) -> NDArray:
    """Return the array of another library, without a copy."""
    return NDArray(np.from_dlpack(source), cpu())


__all__ = [
    "Device", "NDArray", "array", "cpu", "cuda", "device", "empty", "enabled", "from_dlpack", "gpu",
]  # fmt: skip
