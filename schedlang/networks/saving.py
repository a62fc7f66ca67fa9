"""Networks in folders: Python that runs alone, the weights, and a manifest to load them again."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.compute.data import from_data, to_data
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor
from schedlang.errors import NetworkError, SchedlangError, explain, first_line
from schedlang.networks import structure
from schedlang.networks.data import ModuleData
from schedlang.networks.model import Recipe
from schedlang.runtime.bundle import bundle
from schedlang.version import __version__

FORMAT, VERSION = "schedlang.network", 1
MANIFEST, WEIGHTS, SOURCE = "manifest.json", "weights.npz", "network.py"


@dataclass(frozen=True, eq=False)
class Head:
    """What a manifest says besides the graph: all that a call needs which the cache does not have.

    ``steps`` are the schedules of kernels as JSON, and ``origins`` say where these came from.
    """

    name: str
    structure: Any
    steps: Mapping[str, str]
    origins: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Saved:
    """The graph of a network as it was saved, and the arrays of its weights.

    ``names`` are those of its weights in their file.
    """

    recipe: Recipe
    outputs: tuple[Tensor, ...]
    weights: Mapping[Tensor, np.ndarray]
    names: Mapping[Tensor, str]


def save(
    folder: str | os.PathLike[str], recipe: Recipe, outputs: Sequence[Tensor], data: ModuleData,
    weights: Mapping[Tensor, np.ndarray], steps: Mapping[str, str], origins: Mapping[str, str],
) -> Path:  # fmt: skip
    """Write a network to a new folder; ``weights`` are those that the module reads, in its order.

    ``steps`` are the schedules of kernels as JSON, and ``origins`` say where these came from.
    """
    asked, path = f"save({os.fspath(folder)!r})", check_folder(folder)
    if data.target.kind != "cpu":
        raise NetworkError(
            explain(asked, f'the network is for target="{data.target.kind}"',
                    'Build it with target="cpu".')
        )  # fmt: skip
    read = placeholders(outputs)
    named = dict(zip(weights, (place.name for place in data.storage.params)))
    manifest = {
        "format": FORMAT, "version": VERSION, "schedlang": __version__, "name": recipe.name,
        "graph": to_data(outputs), "inputs": [read.index(t) for t in recipe.inputs],
        "weights": [[read.index(t), name] for t, name in named.items()],
        "layers": dict(recipe.layers), "cut": list(recipe.cut),
        "fuse": [list(names) for names in recipe.fuse],
        "structure": structure.to_json(recipe.structure), "steps": dict(steps),
        "origins": dict(origins),
    }  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            (made / SOURCE).write_text(bundle(data.text), encoding="utf-8")
            arrays: dict[str, Any] = {name: weights[t] for t, name in named.items()}
            np.savez(made / WEIGHTS, **arrays)
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
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise NetworkError(
            explain(f"save({os.fspath(folder)!r})", "it exists already",
                    "Give a new folder, or an empty one.")
        )  # fmt: skip
    return path


def manifest_of(folder: str | os.PathLike[str]) -> bytes:
    """Return the manifest of a folder that :func:`save` wrote.

    Raises :class:`~schedlang.errors.NetworkError` if it cannot be read.
    """
    with _refusing(folder):
        found = (Path(folder) / MANIFEST).read_bytes()
    return found


def head_of(folder: str | os.PathLike[str], manifest: bytes) -> Head:
    """Return the head of a manifest.

    Raises :class:`~schedlang.errors.NetworkError` if it is none that this version reads.
    """
    with _refusing(folder):
        data = _checked(Path(folder), json.loads(manifest))
        outputs = len(data["graph"]["outputs"])
        found = Head(
            _text(data["name"]), structure.from_json(data["structure"], outputs),
            _texts(data["steps"]), _texts(data.get("origins", {})),
        )  # fmt: skip
    return found


def load_saved(
    folder: str | os.PathLike[str], manifest: bytes, head: Head,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> Saved:  # fmt: skip
    """Return the network in a folder that :func:`save` wrote, whose ``manifest`` was read.

    Its Python is not run and nothing is unpickled: the graph and the schedules in the manifest are
    checked as those that a script makes. ``arrays`` are the weights by their names, if they were
    read before. Raises :class:`~schedlang.errors.NetworkError` for a folder that has no such
    network.
    """
    with _refusing(folder):
        data = json.loads(manifest)
        outputs = from_data(data["graph"])
        read = placeholders(outputs)
        recipe = Recipe(
            head.name, tuple(read[_index(k, read)] for k in data["inputs"]),
            _texts(data["layers"]), tuple(map(_text, data["cut"])),
            tuple(tuple(map(_text, f)) for f in data["fuse"]), head.structure,
        )  # fmt: skip
        names = {read[_index(place, read)]: _text(name) for place, name in data["weights"]}
        if arrays is None:
            arrays = _arrays(Path(folder) / WEIGHTS, names.values())
        weights = {tensor: arrays[name] for tensor, name in names.items()}
        found = Saved(recipe, outputs, weights, names)
    return found


@contextmanager
def _refusing(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Make errors of files and of other data than :func:`save` writes a ``NetworkError``."""
    try:
        yield
    except OSError as error:
        raise NetworkError(f"load({os.fspath(folder)!r}): {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, NetworkError):
            raise
        what = f"{type(error).__name__}: " if not isinstance(error, SchedlangError) else ""
        raise NetworkError(
            f"load({os.fspath(folder)!r}): this is no saved network: {what}{first_line(error)}"
        ) from None


def _checked(path: Path, data: Any) -> Any:
    """Return the data of a manifest of this format and version."""
    if data["format"] != FORMAT:
        raise NetworkError(f"{path / MANIFEST} has another format")
    if data["version"] != VERSION:
        raise NetworkError(
            f"{path}: version {data['version']} of the format, which schedlang {__version__} "
            f"does not read; it was written by {data.get('schedlang', 'another version')}"
        )
    return data


def _arrays(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the arrays of these names in a file of weights."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
        raise NetworkError(f"{path} is no file of weights: {error}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NetworkError(f"{value!r} should be text")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {_text(k): _text(v) for k, v in value.items()}


def _index(value: Any, of: Sequence[Any]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(of):
        raise NetworkError(f"{value!r} is no number of a placeholder")
    return value


__all__ = [
    "WEIGHTS", "Head", "Saved", "check_folder", "head_of", "load_saved", "manifest_of", "save",
]  # fmt: skip
