"""Copies of strided arrays, for calls that accept them: kernels take rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.compute.arrays import as_numpy
from schedlang.compute.conversions import as_contiguous
from schedlang.errors import CallError, CopyWarning, explain, warn_user
from schedlang.runtime.arrays import like_library
from schedlang.runtime.parameters import Binder

if TYPE_CHECKING:
    from schedlang.runtime.kernel import Kernel

# a copy of an argument of this many bytes is worth a warning
LARGE_COPY = 2**20
# the most elements whose places in memory are compared with each other
MOST_PLACES = 2**20


def lies_by_rows(value: Any) -> bool:
    """Return whether the elements of an array lie row by row, in the byte order of the machine."""
    flags = value.flags
    return bool(flags.c_contiguous and flags.aligned and value.dtype.isnative)


def overlaps_itself(array: np.ndarray) -> bool:
    """Return whether two elements of an array share memory, which ``as_strided`` allows."""
    if array.flags.c_contiguous or not array.size:
        return False
    steps = sorted((abs(step), extent) for step, extent in zip(array.strides, array.shape)
                   if extent > 1)  # fmt: skip
    reach = array.itemsize
    for step, extent in steps:
        if step < reach:
            break
        reach += step * (extent - 1)
    else:
        return False
    if array.size > MOST_PLACES:
        return True
    places = sum(np.ix_(*(np.arange(e) * s for e, s in zip(array.shape, array.strides))))
    return bool((np.diff(np.sort(places, axis=None)) < array.itemsize).any())


def copy_by_rows(value: np.ndarray, asked: str, title: str, convert: str) -> np.ndarray:
    """Return a copy of ``value`` row by row, in the byte order of the machine.

    ``convert`` is the call that makes such a copy. Warns with
    :class:`~schedlang.errors.CopyWarning` of a large one, which each call of ``title`` makes.
    """
    why = f"it is strided (strides {value.strides})"
    if value.flags.c_contiguous:
        why = f"its dtype is {value.dtype.str}"
    warn_of_large_copy(value.nbytes, why, asked, title, convert)
    return np.array(value, value.dtype.newbyteorder("="), order="C")


def warn_of_large_copy(size: int, why: str, asked: str, title: str, convert: str) -> None:
    """Warn with :class:`~schedlang.errors.CopyWarning` if a copy of ``size`` bytes is large."""
    if size >= LARGE_COPY:
        hint = f"If you call {title} several times, copy it once: {convert}."
        what = f"{asked} of {size / 2**20:.0f} MiB"
        warn_user(explain(what, f"{why}, so each call copies it", hint), CopyWarning)


@dataclass(frozen=True)
class CopyingKernel:
    """A kernel that copies strided arrays, from ``f.accepting_copies()``.

    A call takes what a call of ``kernel`` takes, and returns what it returns.
    """

    kernel: Kernel

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Call the kernel with copies in place of strided arrays; copy outputs back."""
        kernel = self.kernel
        binder, parameters = Binder(kernel.signature), kernel.signature.parameters
        values = binder.order(args, named)
        written: list[tuple[np.ndarray, np.ndarray]] = []
        originals: dict[int, Any] = {}
        for k, (p, given) in enumerate(zip(parameters, values)):
            if given is None or p.is_scalar or hasattr(given, "__cuda_array_interface__"):
                continue
            array = as_numpy(given, binder.places[k], p.is_output)
            if lies_by_rows(array):
                continue
            if p.is_output and not array.flags.writeable:
                raise CallError(f"{binder.places[k]} is written, but this array is read-only")
            asked = f"{kernel.name}({p.name}=...)"
            convert = f"{p.name} = {as_contiguous(given, p.name)}"
            copy = copy_by_rows(array, asked, kernel.name, convert)
            values[k] = like_library(given, copy)
            if p.is_output:
                originals[id(values[k])] = given
                written.append((array, copy))
        result = kernel(**{p.name: v for p, v in zip(parameters, values) if v is not None})
        for array, copy in written:
            np.copyto(array, copy)
        if isinstance(result, tuple):
            return tuple(originals.get(id(r), r) for r in result)
        return originals.get(id(result), result)

    def __repr__(self) -> str:
        return f"<{repr(self.kernel)[1:-1]}, accepting copies>"
