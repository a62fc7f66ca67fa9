"""The arrays of weights: checked, hashed, and read from a file straight into a module's bytes."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.codegen.network_storage import Storage
from schedlang.compute.arrays import as_numpy
from schedlang.compute.facts import Facts, check_facts, facts_of
from schedlang.compute.graph import operations
from schedlang.compute.tensor import Extent, PlaceholderOp, Tensor, declaration, shape_text
from schedlang.errors import CallError, NetworkError, explain
from schedlang.markup.text import printable
from schedlang.networks.call import new_bytes, weight_in

# how much of a file is read at once
CHUNK = 1 << 20
# the dtype and the shape of an array
Layout = tuple[np.dtype, tuple[int, ...]]
# what is raised for a file of arrays that is damaged, of another kind, encrypted, or absurdly large
UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    RuntimeError,
    EOFError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)


def weight_array(
    tensor: Any,
    value: Any,
    outputs: Sequence[Tensor] = (),
    layers: Mapping[str, str] | None = None,
) -> np.ndarray:
    """Return the array of a weight, in the byte order of this machine.

    Errors name the layer of ``outputs`` that reads it; ``layers`` has the layer of each stage.
    Raises :class:`~schedlang.errors.NetworkError` if the array does not fit or breaks a fact that
    ``sl.assume`` declared, and if ``tensor`` is not a placeholder.
    """
    if not isinstance(tensor, Tensor) or not isinstance(tensor.op, PlaceholderOp):
        name = tensor.name if isinstance(tensor, Tensor) else repr(tensor)
        raise NetworkError(
            explain(
                f"params with {name}",
                f"{name} is not a placeholder, so it takes no array",
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
                f"the weight {declaration(tensor)}{_reader(tensor, outputs, layers)}",
                f"its array is {array.dtype.name} of shape {shape_text(array.shape)}",
                "Give an array of the dtype and shape of the placeholder.",
            )
        )
    # the name of a dtype does not say its byte order, which kernels and digests rely on
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    try:
        check_facts(tensor.name, Facts(*weight_facts(tensor)), array, _number)
    except (CallError, NetworkError) as error:
        asked = f"the weight {declaration(tensor)}{_reader(tensor, outputs, layers)}"
        raise NetworkError(f"{asked}: {error}") from None
    return array


def weight_facts(tensor: Tensor) -> tuple[bool, tuple[int, int] | None]:
    """Return what ``sl.assume`` declared of a weight: whether it is monotonic, and its range.

    Raises :class:`~schedlang.errors.NetworkError` for a range that depends on sizes.
    """
    facts = facts_of(tensor) or Facts()
    if facts.within is None:
        return facts.monotonic, None
    low, high = facts.within
    if not (isinstance(low, int) and isinstance(high, int)):
        raise NetworkError(
            explain(
                f"sl.assume({tensor.name}, within=({low}, {high}))",
                "the range depends on sizes of a call, and weights are checked ahead of all calls",
                f"Declare a range of numbers, or make {tensor.name} an input of the network.",
            )
        )
    return facts.monotonic, (low, high)


def _number(end: Extent) -> int:
    assert isinstance(end, int)
    return end


def _reader(tensor: Tensor, outputs: Sequence[Tensor], layers: Mapping[str, str] | None) -> str:
    """Return a phrase for the layer that reads a weight, empty if none is known."""
    for op in operations(outputs) if layers else ():
        layer = layers.get(op.name) if layers and tensor in op.input_tensors else None
        if layer:
            return f" of layer {printable(layer)}"
    return ""


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
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(contiguous(array).reshape(-1).view("uint8").data)
    return sha.hexdigest()


def read_params(path: Path, storage: Storage) -> np.ndarray:
    """Return the bytes of all parameters of a module, read from an ``.npz`` file by their names.

    Raises as :func:`read_arrays` does, and :class:`~schedlang.errors.CallError`, which is one of
    ``UNREADABLE``, for an array that breaks a declared fact.
    """
    params = new_bytes(storage.param_bytes)
    arrays = {place.name: weight_in(params, place) for place in storage.params}
    read_arrays(path, {name: (array.dtype, array.shape) for name, array in arrays.items()}, arrays)
    end = 0
    for place in storage.params:
        # no bytes between parameters are left to chance
        params[end : place.start] = 0
        end = place.start + arrays[place.name].nbytes
        if place.has_facts:
            facts = Facts(place.monotonic, place.within)
            check_facts(place.name, facts, arrays[place.name], _number)
    params[end:] = 0
    return params


def read_arrays(
    path: Path, wanted: Mapping[str, Layout], into: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Return the ``wanted`` arrays of an ``.npz`` file by their names, read ``into`` given ones.

    Headers are read first, so that an array of another size takes no memory. Nothing is
    unpickled. Raises one of ``UNREADABLE`` for a file that has not all of these arrays.
    """
    with zipfile.ZipFile(path) as file:
        # memory that is there already is not taken
        for name, layout in wanted.items() if into is None else ():
            with file.open(f"{name}.npy") as member:
                _header(member, name, layout)
        arrays: dict[str, np.ndarray] = {}
        for name, (dtype, shape) in wanted.items():
            arrays[name] = np.empty(shape, dtype) if into is None else into[name]
            with file.open(f"{name}.npy") as member:
                stored, by_columns = _header(member, name, (dtype, shape))
                _read(member, arrays[name], stored, by_columns)
            # a compiled kernel takes the byte of a bool for its value
            if dtype.kind == "b" and arrays[name].view("uint8").max(initial=0) > 1:
                raise ValueError(f"{name} is of bools, and a byte of it is neither 0 nor 1")
    return arrays


def _header(member: Any, name: str, wanted: Layout) -> tuple[np.dtype, bool]:
    """Return the dtype of an array in a file, and whether it is stored by columns."""
    version = np.lib.format.read_magic(member)
    if version != (1, 0):
        # later ones are for structures, and for headers of any length
        raise ValueError(f"{name} has version {version} of the format of arrays")
    shape, by_columns, stored = np.lib.format.read_array_header_1_0(member)
    if stored.hasobject:
        raise ValueError(f"{name} has objects of Python, which are pickled")
    dtype, own = wanted
    # NumPy's files know no bfloat16
    same = stored.newbyteorder("=") == dtype or (dtype.name == "bfloat16" and stored == "V2")
    if not same or shape != own:
        raise ValueError(
            f"{name} is {stored.name} of shape {shape}, but must be {dtype.name} of shape {own}"
        )
    return (stored if dtype.name != "bfloat16" else dtype), by_columns


def _read(member: Any, into: np.ndarray, stored: np.dtype, by_columns: bool) -> None:
    """Read the elements of an array, all that are left in ``member``."""
    if stored == into.dtype and not (by_columns and into.ndim > 1):
        # an array without dimensions has no view as bytes
        _fill(into.reshape(-1).view("uint8"), member)
        return
    other = np.empty(into.shape[::-1] if by_columns else into.shape, stored)
    _fill(other.reshape(-1).view("uint8"), member)
    into[...] = other.T if by_columns else other


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
