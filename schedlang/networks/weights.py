"""The arrays of weights: checked, hashed, and read from a file straight into a module's bytes."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.codegen.network_storage import Storage
from schedlang.compute.arrays import as_numpy
from schedlang.compute.tensor import PlaceholderOp, Tensor, declared, shape_text
from schedlang.errors import NetworkError, explain
from schedlang.networks.call import new_bytes, weight_in

# how much of a file is read at once
CHUNK = 1 << 20
# what is raised for a file of arrays that is damaged, of another kind, or encrypted
UNREADABLE = (
    OSError, ValueError, KeyError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error
)  # fmt: skip


def weight_array(tensor: Any, value: Any) -> np.ndarray:
    """Return the array of a weight, in the byte order of this machine.

    Raises :class:`~schedlang.errors.NetworkError` if it does not fit, or if ``tensor`` is no
    placeholder.
    """
    if not isinstance(tensor, Tensor) or not isinstance(tensor.op, PlaceholderOp):
        name = tensor.name if isinstance(tensor, Tensor) else repr(tensor)
        raise NetworkError(
            explain(
                f"params with {name}",
                f"{name} is no placeholder, so that it takes no array",
                "Give a dict of placeholders, made by sl.placeholder, and arrays.",
            )
        )
    array = as_numpy(value, f"the array of weight {tensor.name}")
    same = len(array.shape) == tensor.ndim and all(
        not isinstance(own, int) or own == n for own, n in zip(tensor.shape, array.shape)
    )
    if not same or array.dtype.name != tensor.dtype:
        raise NetworkError(
            explain(
                f"the weight {declared(tensor)}",
                f"its array is {array.dtype.name} of shape {shape_text(array.shape)}",
                "Give an array of the dtype and shape of the placeholder.",
            )
        )
    # the name of a dtype does not say its byte order, which kernels and digests rely on
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def contiguous(array: np.ndarray) -> np.ndarray:
    """Return an array with its elements in row-major order, a copy if they are not.

    >>> contiguous(np.arange(4)[::-1]).strides, contiguous(np.zeros(())).shape
    ((8,), ())
    """
    return array if array.flags.c_contiguous else array.copy(order="C")


def digest(arrays: Iterable[np.ndarray]) -> str:
    """Return the SHA-256 of the elements of arrays, in row-major order, as hex.

    >>> digest([np.zeros(2, "int8"), np.ones(())]) == digest([np.zeros((1, 2), bool), np.ones(1)])
    True
    """
    found = hashlib.sha256()
    for array in arrays:
        found.update(contiguous(array).reshape(-1).view("uint8").data)
    return found.hexdigest()


def read_params(path: Path, storage: Storage) -> np.ndarray:
    """Return the bytes of all parameters of a module, read from an ``.npz`` file by their names.

    Nothing is unpickled, and no array is in memory twice. Raises one of ``UNREADABLE`` for a file
    that has not exactly these parameters.
    """
    made = new_bytes(storage.param_bytes)
    end = 0
    with zipfile.ZipFile(path) as file:
        if sorted(file.namelist()) != sorted(f"{place.name}.npy" for place in storage.params):
            raise ValueError(f"{path} has other arrays")
        for place in storage.params:
            into = weight_in(made, place)
            with file.open(f"{place.name}.npy") as member:
                version = np.lib.format.read_magic(member)
                if version != (1, 0):
                    raise ValueError(f"{place.name} has version {version} of the format")
                shape, by_columns, dtype = np.lib.format.read_array_header_1_0(member)
                # NumPy's files know no bfloat16
                same = dtype == into.dtype or (place.dtype == "bfloat16" and dtype == "V2")
                if shape != into.shape or not same or (by_columns and into.ndim > 1):
                    raise ValueError(f"{place.name} is another array")
                made[end : place.start] = 0
                end = place.start + into.nbytes
                _fill(made[place.start : end], member)
    made[end:] = 0
    return made


def _fill(into: np.ndarray, file: Any) -> None:
    """Read as many bytes as ``into`` has, which are all that ``file`` has."""
    at = 0
    while chunk := file.read(CHUNK):
        if at + len(chunk) > into.size:
            raise ValueError("an array has too many bytes")
        into[at : at + len(chunk)] = np.frombuffer(chunk, "uint8")
        at += len(chunk)
    if at != into.size:
        raise ValueError("an array has too few bytes")


__all__ = ["UNREADABLE", "contiguous", "digest", "read_params", "weight_array"]
