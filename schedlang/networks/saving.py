"""Networks in folders: Python that runs alone, the weights, and a manifest to load them again."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.compute.data import from_data, to_data
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError, NetworkError, SchedlangError, explain, first_line
from schedlang.networks import structure
from schedlang.networks.device_module import standalone
from schedlang.networks.model import Recipe
from schedlang.networks.program import ModuleData
from schedlang.runtime.bundle import bundle
from schedlang.target import Target
from schedlang.version import __version__

FORMAT, VERSION = "schedlang.network", 1
MANIFEST, WEIGHTS, SOURCE = "manifest.json", "weights.npz", "network.py"


@dataclass(frozen=True, eq=False)
class Saved:
    """A network as it was saved: its graph, the arrays of its weights, and its schedules.

    ``target`` is the one that the schedules are for.
    """

    recipe: Recipe
    outputs: tuple[Tensor, ...]
    weights: Mapping[Tensor, np.ndarray]
    steps: Mapping[str, str]
    target: Target


def save(
    folder: str | os.PathLike[str], recipe: Recipe, outputs: Sequence[Tensor], data: ModuleData,
    weights: Mapping[Tensor, np.ndarray], steps: Mapping[str, str],
) -> Path:  # fmt: skip
    """Write a network to a new folder; ``weights`` are those that the module reads, in its order.

    ``data`` are for a CPU or for ``target="cuda"``.
    """
    asked, path = f"save({os.fspath(folder)!r})", check_folder(folder)
    kind = str(data.target.kind)
    if kind not in ("cpu", "cuda"):
        raise NetworkError(
            explain(asked, f'the network is for target="{kind}"',
                    'Build it with target="cpu", or for a GPU with "cuda" or "cuda-emulator".')
        )  # fmt: skip
    try:
        text = bundle(data.text) if data.device is None else standalone(data)
    except BuildError as error:
        raise NetworkError(f"{asked}: {error}") from None
    read = placeholders(outputs)
    named = dict(zip(weights, (place.name for place in data.storage.params)))
    manifest = {
        "format": FORMAT, "version": VERSION, "schedlang": __version__, "name": recipe.name,
        "graph": to_data(outputs), "inputs": [read.index(t) for t in recipe.inputs],
        "weights": [[read.index(t), name] for t, name in named.items()],
        "layers": dict(recipe.layers), "cut": list(recipe.cut),
        "fuse": [list(names) for names in recipe.fuse],
        "structure": structure.to_json(recipe.structure), "steps": dict(steps),
        "target": {"kind": kind, "arch": data.target.arch},
    }  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            (made / SOURCE).write_text(text, encoding="utf-8")
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
        outputs = from_data(data["graph"])
        read = placeholders(outputs)
        recipe = Recipe(
            _text(data["name"]), tuple(read[_index(k, read)] for k in data["inputs"]),
            {_text(k): _text(v) for k, v in data["layers"].items()},
            tuple(map(_text, data["cut"])), tuple(tuple(map(_text, f)) for f in data["fuse"]),
            structure.from_json(data["structure"], len(outputs)),
        )  # fmt: skip
        steps = {_text(k): _text(v) for k, v in data["steps"].items()}
        # folders of the first version of the format are for a CPU
        of = data.get("target", {"kind": "cpu", "arch": ""})
        target = Target(_text(of["kind"]), arch=_text(of["arch"]))
        weights = _weights(path / WEIGHTS, read, data["weights"])
    except OSError as error:
        raise NetworkError(f"load({os.fspath(folder)!r}): {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, NetworkError):
            raise
        what = f"{type(error).__name__}: " if not isinstance(error, SchedlangError) else ""
        raise NetworkError(
            f"load({os.fspath(folder)!r}): this is no saved network: {what}{first_line(error)}"
        ) from None
    return Saved(recipe, outputs, weights, steps, target)


def _weights(
    path: Path, read: Sequence[Tensor], listed: Sequence[Any]
) -> dict[Tensor, np.ndarray]:  # fmt: skip
    """Return the arrays of a file of weights, by the placeholders that they are of."""
    found: dict[Tensor, np.ndarray] = {}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            for place, name in listed:
                found[read[_index(place, read)]] = arrays[_text(name)]
    except zipfile.BadZipFile as error:
        raise NetworkError(f"{path} is no file of weights: {error}") from None
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NetworkError(f"{value!r} should be text")
    return value


def _index(value: Any, of: Sequence[Any]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(of):
        raise NetworkError(f"{value!r} is no number of a placeholder")
    return value


__all__ = ["Saved", "check_folder", "load_saved", "save"]
