"""Networks in folders: Python that runs alone, the weights, and a manifest to load them again."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from schedlang.codegen.extern_text import HOW_TO_SAVE, unsaved
from schedlang.compute.data import to_data
from schedlang.compute.extern_op import ExternFunction
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError, NetworkError, explain
from schedlang.networks import structure
from schedlang.networks.data import ModuleData
from schedlang.networks.manifest import FORMAT, MANIFEST, SOURCE, VERSION, WEIGHTS
from schedlang.networks.model import Recipe
from schedlang.networks.origins import Origin
from schedlang.networks.saved_functions import as_items
from schedlang.networks.saved_indices import check_indices
from schedlang.networks.size_checks import SizeCheck, conditions
from schedlang.networks.usage import usage
from schedlang.runtime.bundle import bundle
from schedlang.target import Target
from schedlang.version import __version__


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
    asked, kind = f"save({os.fspath(folder)!r})", str(data.target.kind)
    path = check_destination(folder, data.target)
    # with the inputs that no output reads, which a call takes, too
    tensors = (*outputs, *recipe.inputs)
    functions: list[ExternFunction] = []
    graph = to_data(tensors, functions)
    labelled = as_items(functions)
    try:
        # load refuses a folder whose weights may lead an index astray
        check_indices(outputs, recipe.inputs, weights)
        text = _standalone(data, [label for label, *_ in labelled])
    except (BuildError, NetworkError) as error:
        raise NetworkError(f"{asked}: {error}") from None
    read = placeholders(tensors)
    named = dict(zip(weights, (place.name for place in data.storage.params)))
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "schedlang": __version__,
        "name": recipe.name,
        "graph": graph,
        "functions": labelled,
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
    with new_folder(path, asked) as new:
        (new / SOURCE).write_text(text, encoding="utf-8")
        _write_arrays(new / WEIGHTS, {name: weights[t] for t, name in named.items()})
        (new / MANIFEST).write_text(json.dumps(manifest, allow_nan=False), encoding="utf-8")
    return path


@contextmanager
def new_folder(path: Path, asked: str) -> Iterator[Path]:
    """Yield a folder to write, which is ``path`` afterwards, and nowhere after an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            yield new
            new.chmod(0o755)
            if path.exists():
                path.rmdir()
            new.replace(path)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise NetworkError(f"{asked}: {error.strerror or error}") from None


def _standalone(data: ModuleData, functions: Iterable[str]) -> str:
    """Return the text of a module that runs without schedlang, which says how to call it.

    ``functions`` are the labels of the users' functions.
    """
    if data.functions and (why := unsaved(called.function for called in data.functions)):
        raise BuildError(explain(f"network {data.public}", why, HOW_TO_SAVE))
    check_conditions(data.public, data.checks)
    if data.device is None:
        return usage(data, WEIGHTS, functions) + bundle(data.text)
    from schedlang.networks.device_backend import standalone

    return usage(data, WEIGHTS) + standalone(data)


def check_conditions(network: str, checks: Iterable[SizeCheck]) -> None:
    """Raise :class:`~schedlang.errors.BuildError` for a check of sizes that no file can hold."""
    for check in checks:
        if conditions(check) is None:
            raise BuildError(
                explain(
                    f"{check.title} of network {network}",
                    "it checks its reads against the sizes of each call, and a file cannot hold a "
                    "condition that says which sizes are right",
                    "Use constant sizes, indices that are linear in loops, guard the reads with "
                    "sl.if_then_else, or pickle the network, which keeps the check.",
                )
            )


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
                'Write a program of C by target="c", or build it with target="cpu", or for a GPU '
                'with "cuda" or "cuda-emulator".',
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


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file as ``np.savez`` does, which takes arrays of some names for options."""
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
