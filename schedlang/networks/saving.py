"""Networks in folders: Python that runs alone, the weights, and a manifest to load them again."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.compute.data import from_data, to_data
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor, check_name, declaration
from schedlang.errors import BuildError, NetworkError, SchedlangError, explain, first_line
from schedlang.expr.dtypes import array_dtype
from schedlang.markup.text import printable
from schedlang.networks import structure
from schedlang.networks.data import ModuleData
from schedlang.networks.model import Model, Options, Recipe, check_outputs, options_of_prepared
from schedlang.networks.origins import Origin, origins_of
from schedlang.networks.weights import UNREADABLE, Layout, read_arrays, weight_array
from schedlang.runtime.bundle import bundle
from schedlang.target import Target
from schedlang.version import __version__

FORMAT, VERSION = "schedlang.network", 2
# in version 1 the origins were texts, not pairs
_TEXTS, _READ = 1, (1, 2)
MANIFEST, WEIGHTS, SOURCE = "manifest.json", "weights.npz", "network.py"


@dataclass(frozen=True, eq=False)
class Head:
    """The part of a manifest besides the graph: all that a call needs and the cache does not have.

    ``options`` belong to a graph that was prepared before. ``steps`` are the schedules of kernels
    as JSON for ``target``, and ``origins`` say where these came from. ``is_current`` is true if
    this version of schedlang wrote it.
    """

    name: str
    structure: Any
    options: Options
    steps: Mapping[str, str]
    origins: Mapping[str, Origin]
    target: Target
    is_current: bool


@dataclass(frozen=True, eq=False)
class Saved:
    """The model of a network as it was saved: its graph, and the arrays of its weights.

    ``names`` are the names of its weights in their file. Indices were checked with the elements of
    ``indexing``, names of weights.
    """

    model: Model
    names: Mapping[Tensor, str]
    indexing: tuple[str, ...]


def save(
    folder: str | os.PathLike[str],
    recipe: Recipe,
    outputs: Sequence[Tensor],
    data: ModuleData,
    weights: Mapping[Tensor, np.ndarray],
    steps: Mapping[str, str],
    origins: Mapping[str, Origin],
) -> Path:
    """Write a network to a new folder; ``weights`` are those that the module reads, in its order.

    ``steps`` are the schedules of kernels as JSON, and ``origins`` say where these came from, each
    with a note. ``data`` are for a CPU or for ``target="cuda"``.
    """
    # a process that loads a known folder does not import this
    from schedlang.networks.saved_indices import check_indices

    asked, kind = f"save({os.fspath(folder)!r})", str(data.target.kind)
    path = check_destination(folder, data.target)
    try:
        # load refuses a folder whose weights may lead an index astray
        check_indices(outputs, recipe.inputs, weights)
        text = _standalone(data)
    except (BuildError, NetworkError) as error:
        raise NetworkError(f"{asked}: {error}") from None
    # with the inputs that no output reads, which a call takes, too
    tensors = (*outputs, *recipe.inputs)
    read = placeholders(tensors)
    named = dict(zip(weights, (place.name for place in data.storage.params)))
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "schedlang": __version__,
        "name": recipe.name,
        "graph": to_data(tensors),
        "outputs": len(outputs),
        "inputs": [read.index(t) for t in recipe.inputs],
        "weights": [[read.index(t), name] for t, name in named.items()],
        "layers": dict(recipe.layers),
        "cut": list(recipe.cut),
        "fuse": [list(names) for names in recipe.fuse],
        "structure": structure.to_json(recipe.structure),
        "flush_denormals": recipe.flush_denormals,
        "steps": dict(steps),
        "origins": dict(origins),
        "target": {"kind": kind, "arch": data.target.arch},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            (new / SOURCE).write_text(text, encoding="utf-8")
            _write_arrays(new / WEIGHTS, {name: weights[t] for t, name in named.items()})
            (new / MANIFEST).write_text(json.dumps(manifest, allow_nan=False), encoding="utf-8")
            new.chmod(0o755)
            if path.exists():
                path.rmdir()
            new.replace(path)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise NetworkError(f"{asked}: {error.strerror or error}") from None
    return path


def _standalone(data: ModuleData) -> str:
    """Return the text of a module that runs without schedlang, which says how to call it."""
    # a process that loads a folder imports no printer
    from schedlang.networks.size_checks import conditions
    from schedlang.networks.usage import usage

    for check in data.checks:
        if conditions(check) is None:
            raise BuildError(
                explain(
                    f"{check.title} of network {data.public}",
                    "it checks its reads against the sizes of each call, and a file cannot hold a "
                    "condition that says which sizes are right",
                    "Use constant sizes, indices that are linear in loops, guard the reads with "
                    "sl.if_then_else, or pickle the network, which keeps the check.",
                )
            )
    if data.device is None:
        return usage(data, WEIGHTS) + bundle(data.text)
    from schedlang.networks.device_backend import standalone

    return usage(data, WEIGHTS) + standalone(data)


def check_destination(folder: str | os.PathLike[str], target: Target) -> Path:
    """Return the path of a folder to write a network to that is for ``target``.

    Raises :class:`~schedlang.errors.NetworkError` for a target whose networks are not saved, and
    what :func:`check_folder` raises.
    """
    if not target.facts.saved:
        raise NetworkError(
            explain(
                f"save({os.fspath(folder)!r})",
                f'the network is for target="{target.kind}"',
                'Build it with target="cpu", or for a GPU with "cuda" or "cuda-emulator".',
            )
        )
    return check_folder(folder)


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the path of a folder to write.

    Raises :class:`~schedlang.errors.NetworkError` if it exists already and is not empty.
    """
    path = Path(folder).resolve()
    if path == Path.cwd():
        raise NetworkError(
            explain(
                f"save({os.fspath(folder)!r})",
                "it is the current folder",
                "Give a new folder, or an empty one.",
            )
        )
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise NetworkError(
            explain(
                f"save({os.fspath(folder)!r})",
                "it exists already",
                "Give a new folder, or an empty one.",
            )
        )
    return path


def manifest_of(folder: str | os.PathLike[str]) -> bytes:
    """Return the manifest of a folder that :func:`save` wrote.

    Raises :class:`~schedlang.errors.NetworkError` if it cannot be read.
    """
    with _refusing(folder):
        content = (Path(folder) / MANIFEST).read_bytes()
    return content


def head_of(folder: str | os.PathLike[str], manifest: bytes) -> Head:
    """Return the head of a manifest.

    Raises :class:`~schedlang.errors.NetworkError` if it is none that this version reads.
    """
    with _refusing(folder):
        data = _checked(Path(folder), json.loads(manifest))
        outputs = _count(data["outputs"], data["graph"]["outputs"])
        of = data["target"]
        head = Head(
            check_name(data["name"], "a network"),
            structure.from_json(data["structure"], outputs),
            options_of_prepared(
                tuple(map(_text, data["cut"])),
                tuple(tuple(map(_text, f)) for f in data["fuse"]),
                _flag(data["flush_denormals"]),
            ),
            _texts(data["steps"]),
            origins_of(data["origins"], data["version"] == _TEXTS),
            Target(_text(of["kind"]), arch=_text(of["arch"])),
            (data["version"], data.get("schedlang")) == (VERSION, __version__),
        )
    return head


def load_saved(
    folder: str | os.PathLike[str],
    manifest: bytes,
    head: Head,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> Saved:
    """Return the network in a folder that :func:`save` wrote, whose ``manifest`` was read.

    Its Python is not run and nothing is unpickled: the graph in the manifest is checked as one that
    a script makes, and so are the weights, and indices that depend on them. ``arrays`` are the
    weights by their names, if they were read before. Raises
    :class:`~schedlang.errors.NetworkError` for a folder that has no such network.
    """
    with _refusing(folder):
        data = json.loads(manifest)
        tensors = from_data(data["graph"])
        outputs, read = tensors[: _count(data["outputs"], tensors)], placeholders(tensors)
        inputs = tuple(read[_index(k, read)] for k in data["inputs"])
        check_outputs(outputs, inputs)
        layers = _texts(data["layers"])
        names = {read[_index(place, read)]: _text(name) for place, name in data["weights"]}
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
        # a process that takes the module from the cache folder does not import this
        from schedlang.networks.saved_indices import check_indices

        try:
            used = check_indices(outputs, inputs, weights)
        except NetworkError as error:
            raise NetworkError(f"load({os.fspath(folder)!r}): {error}") from None
        model = Model(outputs, inputs, weights, layers, head.structure)
    return Saved(model, names, tuple(names[t] for t in used))


@contextmanager
def _refusing(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Make errors of files and of other data than :func:`save` writes a ``NetworkError``."""
    try:
        yield
    except OSError as error:
        file = "" if error.filename is None else f"{Path(os.fsdecode(error.filename)).name}: "
        raise NetworkError(
            f"load({os.fspath(folder)!r}): {file}{error.strerror or error}"
        ) from None
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
    version, writer = data["version"], data.get("schedlang", "another version")
    if isinstance(version, bool) or version not in _READ:
        raise NetworkError(
            explain(
                f"load({os.fspath(path)!r})",
                f"it has version {version!r} of the format, and schedlang {__version__} reads "
                f"{' and '.join(map(str, _READ))}; schedlang {printable(str(writer))} wrote it",
                f"Build the network again, and save it again with schedlang {__version__}: "
                "net.save(...).",
            )
        )
    return data


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file as ``np.savez`` does, which takes arrays of some names for options."""
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _arrays(path: Path, names: Mapping[Tensor, str]) -> dict[str, np.ndarray]:
    """Return the arrays of a file of weights by the names of their placeholders."""
    wanted: dict[str, Layout] = {}
    for tensor, name in names.items():
        shape = tuple(extent for extent in tensor.shape if isinstance(extent, int))
        if len(shape) != tensor.ndim:
            raise NetworkError(f"the weight {declaration(tensor)} has extents that are no numbers")
        wanted[name] = array_dtype(tensor.dtype), shape
    try:
        return read_arrays(path, wanted)
    except UNREADABLE as error:
        raise NetworkError(f"{path} is no file of these weights: {first_line(error)}") from None


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


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NetworkError(f"{value!r} should be text")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {_text(k): _text(v) for k, v in value.items()}


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NetworkError(f"{value!r} should be true or false")
    return value


def _count(value: Any, of: Sequence[Any]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= len(of):
        raise NetworkError(f"{value!r} is no number of outputs")
    return value


def _index(value: Any, of: Sequence[Any]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(of):
        raise NetworkError(f"{value!r} is no number of a placeholder")
    return value
