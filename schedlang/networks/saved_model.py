"""The model of a saved network: its graph and its weights, checked like a script's."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from schedlang.compute.data import from_data
from schedlang.compute.extern_op import ExternFunction
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor, declaration
from schedlang.errors import NetworkError, first_line
from schedlang.expr.dtypes import array_dtype
from schedlang.networks.given_model import check_outputs
from schedlang.networks.manifest import (
    MANIFEST,
    WEIGHTS,
    Head,
    as_count,
    as_index,
    as_text,
    as_texts,
    refusing,
)
from schedlang.networks.model import Model
from schedlang.networks.saved_indices import check_indices
from schedlang.networks.weight_files import UNREADABLE, Layout, read_arrays
from schedlang.networks.weights import weight_array


@dataclass(frozen=True, eq=False)
class Saved:
    """The model of a network as it was saved: its graph, and the arrays of its weights.

    ``names`` are the names of its weights in their file. Indices were checked with the elements of
    ``indexing``, names of weights.
    """

    model: Model
    names: Mapping[Tensor, str]
    indexing: tuple[str, ...]


def load_saved(
    folder: str | os.PathLike[str],
    manifest: bytes,
    head: Head,
    arrays: Mapping[str, np.ndarray] | None = None,
    functions: Sequence[ExternFunction] = (),
) -> Saved:
    """Return the network in a folder that :func:`save` wrote, whose ``manifest`` was read.

    Its Python is not run and nothing is unpickled: the graph in the manifest is checked as one that
    a script makes, and so are the weights, and indices that depend on them. ``arrays`` are the
    weights by their names, if they were read before, and ``functions`` the users' that the graph
    calls, in the order of the manifest. Raises
    :class:`~schedlang.errors.NetworkError` for a folder that has no such network.
    """
    with refusing(folder):
        data = json.loads(manifest)
        tensors = from_data(data["graph"], functions)
        outputs, read = tensors[: as_count(data["outputs"], tensors)], placeholders(tensors)
        inputs = tuple(read[as_index(k, read)] for k in data["inputs"])
        check_outputs(outputs, inputs)
        layers = as_texts(data["layers"])
        names = {read[as_index(place, read)]: as_text(name) for place, name in data["weights"]}
        if arrays is None:
            arrays = _arrays(Path(folder) / WEIGHTS, names)
        weights = {
            tensor: _weight(Path(folder), tensor, arrays[name], outputs, layers)
            for tensor, name in names.items()
        }
        given = Counter([*inputs, *weights])
        for tensor in read:
            if given[tensor] != 1:
                raise NetworkError(
                    f"{Path(folder) / MANIFEST}: {tensor.name} should be an input or a weight, once"
                )
        try:
            used = check_indices(outputs, inputs, weights)
        except NetworkError as error:
            raise NetworkError(f"load({os.fspath(folder)!r}): {error}") from None
        model = Model(outputs, inputs, weights, layers, head.structure)
    return Saved(model, names, tuple(names[t] for t in used))


def _arrays(path: Path, names: Mapping[Tensor, str]) -> dict[str, np.ndarray]:
    """Return the arrays of a file of weights by the names of their placeholders."""
    wanted: dict[str, Layout] = {}
    for tensor, name in names.items():
        shape = tuple(extent for extent in tensor.shape if isinstance(extent, int))
        if len(shape) != tensor.ndim:
            raise NetworkError(f"the weight {declaration(tensor)} has extents that are not numbers")
        wanted[name] = array_dtype(tensor.dtype), shape
    try:
        return read_arrays(path, wanted)
    except UNREADABLE as error:
        raise NetworkError(f"{path} does not hold these weights: {first_line(error)}") from None


def _weight(
    folder: Path,
    tensor: Tensor,
    array: np.ndarray,
    outputs: Sequence[Tensor],
    layers: Mapping[str, str],
) -> np.ndarray:
    """Return the array of a weight that is checked as one that a script gives."""
    try:
        return weight_array(tensor, array, outputs, layers)
    except NetworkError as error:
        raise NetworkError(f"{folder / WEIGHTS}: {error}") from None
