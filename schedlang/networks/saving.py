"""Networks in folders: Python that runs alone, the weights, and a manifest to load them again."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.compute.data import from_data, to_data
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor, check_name
from schedlang.errors import NetworkError, SchedlangError, explain, first_line
from schedlang.expr.dtypes import array_dtype
from schedlang.networks import structure
from schedlang.networks.model import Recipe, check_outputs
from schedlang.networks.program import ModuleData
from schedlang.runtime.bundle import bundle
from schedlang.version import __version__

FORMAT, VERSION = "schedlang.network", 1
MANIFEST, WEIGHTS, SOURCE = "manifest.json", "weights.npz", "network.py"


# the errors of zipfile and NumPy for a file that is cut off, changed, encrypted or absurdly large
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, MemoryError,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Saved:
    """A network as it was saved: its graph, the arrays of its weights, and its schedules."""

    recipe: Recipe
    outputs: tuple[Tensor, ...]
    weights: Mapping[Tensor, np.ndarray]
    steps: Mapping[str, str]


def save(
    folder: str | os.PathLike[str], recipe: Recipe, outputs: Sequence[Tensor], data: ModuleData,
    weights: Mapping[Tensor, np.ndarray], steps: Mapping[str, str],
) -> Path:  # fmt: skip
    """Write a network to a new folder; ``weights`` are those that the module reads, in its order.
    """
    asked, path = f"save({os.fspath(folder)!r})", check_folder(folder)
    if data.target.kind != "cpu":
        raise NetworkError(
            explain(asked, f'the network is for target="{data.target.kind}"',
                    'Build it with target="cpu".')
        )  # fmt: skip
    # with the inputs that no output reads, which a call takes, too
    tensors = (*outputs, *recipe.inputs)
    read = placeholders(tensors)
    named = dict(zip(weights, (place.name for place in data.storage.params)))
    manifest = {
        "format": FORMAT, "version": VERSION, "schedlang": __version__, "name": recipe.name,
        "graph": to_data(tensors), "outputs": len(outputs),
        "inputs": [read.index(t) for t in recipe.inputs],
        "weights": [[read.index(t), name] for t, name in named.items()],
        "layers": dict(recipe.layers), "cut": list(recipe.cut),
        "fuse": [list(names) for names in recipe.fuse],
        "structure": structure.to_json(recipe.structure),
        "flush_denormals": recipe.flush_denormals, "steps": dict(steps),
    }  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            (made / SOURCE).write_text(bundle(data.text), encoding="utf-8")
            _write_arrays(made / WEIGHTS, {name: weights[t] for t, name in named.items()})
            (made / MANIFEST).write_text(json.dumps(manifest, allow_nan=False), encoding="utf-8")
            made.chmod(0o755)
            if path.exists():
                path.rmdir()
            made.replace(path)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise NetworkError(f"{asked}: {error.strerror or error}") from None
    return path


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the path of a folder to write.

    Raises :class:`~schedlang.errors.NetworkError` if it exists already and is not empty.
    """
    path = Path(folder).resolve()
    if path == Path.cwd():
        raise NetworkError(
            explain(f"save({os.fspath(folder)!r})", "it is the current folder",
                    "Give a new folder, or an empty one.")
        )  # fmt: skip
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise NetworkError(
            explain(f"save({os.fspath(folder)!r})", "it exists already",
                    "Give a new folder, or an empty one.")
        )  # fmt: skip
    return path


def load_saved(folder: str | os.PathLike[str]) -> Saved:
    """Return the network in a folder that :func:`save` wrote.

    Its Python is not run and nothing is unpickled: the graph and the schedules in the manifest are
    checked as those that a script makes. Raises :class:`~schedlang.errors.NetworkError` for a
    folder that has no such network.
    """
    path = Path(folder)
    try:
        data = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise NetworkError(f"{path / MANIFEST} has another format")
        if data["version"] != VERSION:
            raise NetworkError(
                f"{path}: version {data['version']} of the format, which schedlang {__version__} "
                f"does not read; it was written by {data.get('schedlang', 'another version')}"
            )
        tensors = from_data(data["graph"])
        outputs, read = tensors[: _index(data["outputs"], tensors)], placeholders(tensors)
        check_outputs(outputs)
        recipe = Recipe(
            check_name(data["name"], "a network"),
            tuple(read[_index(k, read)] for k in data["inputs"]),
            {_text(k): _text(v) for k, v in data["layers"].items()},
            tuple(map(_text, data["cut"])), tuple(tuple(map(_text, f)) for f in data["fuse"]),
            structure.from_json(data["structure"], len(outputs)), _flag(data["flush_denormals"]),
        )  # fmt: skip
        steps = {_text(k): _text(v) for k, v in data["steps"].items()}
        weights = _weights(path / WEIGHTS, read, data["weights"])
        given = Counter([*recipe.inputs, *weights])
        for tensor in read:
            if given[tensor] != 1:
                raise NetworkError(
                    f"{path / MANIFEST}: {tensor.name} should be an input or a weight, once"
                )
    except OSError as error:
        raise NetworkError(f"load({os.fspath(folder)!r}): {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, NetworkError):
            raise
        what = f"{type(error).__name__}: " if not isinstance(error, SchedlangError) else ""
        raise NetworkError(
            f"load({os.fspath(folder)!r}): this is no saved network: {what}{first_line(error)}"
        ) from None
    return Saved(recipe, outputs, weights, steps)


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file as ``np.savez`` does, which takes arrays of some names for options."""
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _weights(
    path: Path, read: Sequence[Tensor], listed: Sequence[Any]
) -> dict[Tensor, np.ndarray]:  # fmt: skip
    """Return the arrays of a file of weights, by the placeholders that they are of."""
    found: dict[Tensor, np.ndarray] = {}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            for place, name in listed:
                tensor, array = read[_index(place, read)], arrays[_text(name)]
                # NumPy's files know no bfloat16
                bytes_alone = array.dtype.kind == "V" and tensor.dtype == "bfloat16"
                found[tensor] = array.view(array_dtype("bfloat16")) if bytes_alone else array
    except _DAMAGE as error:
        raise NetworkError(f"{path} is no file of weights: {first_line(error)}") from None
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NetworkError(f"{value!r} should be text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NetworkError(f"{value!r} should be true or false")
    return value


def _index(value: Any, of: Sequence[Any]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(of):
        raise NetworkError(f"{value!r} is no number of a placeholder")
    return value


__all__ = ["Saved", "check_folder", "load_saved", "save"]
