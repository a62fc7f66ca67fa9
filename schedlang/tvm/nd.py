"""te's ``tvm.nd``: arrays on a device, as thin wrappers around NumPy arrays.

Kernels accept them wherever they accept an array, as outputs too. Plain NumPy arrays also work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import CallError, CallTypeError, missing_name
from schedlang.expr import dtypes
from schedlang.runtime.devices import Device, context, cpu, cuda, device, device_or, enabled, gpu
from schedlang.signatures import public

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing_name(__name__, name, {}, "tvm.nd")


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
    def ctx(self) -> Device:
        """The device, by its name before TVM 0.8."""
        return self.device

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


def array_over(memory: np.ndarray) -> NDArray:
    """Return an array on the CPU that has the memory of ``memory``."""
    return NDArray(memory, cpu())


@public
def array(values: Any, device: Device | None = None, ctx: Device | None = None) -> NDArray:
    """Return a copy of ``values``, of the same dtype, as an array on ``device`` (the CPU).

    ``ctx`` is TVM's name of ``device`` before 0.8, with a warning.
    Raise :class:`~schedlang.errors.ComputeTypeError` for a dtype that schedlang does not have.
    """
    copied = np.array(values, order="C")
    dtypes.canonical(copied.dtype)
    return NDArray(copied, device_or(device, ctx, "tvm.nd.array"))


@public
def empty(
    shape: Any, dtype: Any = "float32", device: Device | None = None, ctx: Device | None = None
) -> NDArray:
    """Return an uninitialized array on ``device``; ``ctx`` as for :func:`array`."""
    memory = np.empty(shape, dtypes.array_dtype(dtypes.canonical(dtype)))
    return NDArray(memory, device_or(device, ctx, "tvm.nd.empty"))


@public
def from_dlpack(source: Any) -> NDArray:
    """Return the array of another library, without a copy."""
    return NDArray(np.from_dlpack(source), cpu())


__all__ = [
    "Device", "NDArray", "array", "context", "cpu", "cuda", "device", "empty", "enabled",
    "from_dlpack", "gpu",
]  # fmt: skip
