"""Linked modules in the cache folder, so that a network that was built before starts at once."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from schedlang.compute.data import to_data
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor, declared
from schedlang.errors import BuildError
from schedlang.networks.data import ModuleData
from schedlang.networks.data import from_data as module_from_data
from schedlang.networks.data import to_data as module_data
from schedlang.networks.model import Recipe
from schedlang.networks.plan import Plan
from schedlang.runtime.cache_files import MODULE, contents
from schedlang.runtime.cache_files import store as store_file
from schedlang.runtime.environment import machine, sources, threads, versions
from schedlang.runtime.files import intrinsics_key
from schedlang.runtime.tuning_files import own_file, packaged_files
from schedlang.target import Target


def cache_key(what: Any, target: Target, plan: Plan | None = None) -> str:
    """Return a key of ``what`` a module is made from, as JSON values, and of what makes it.

    It hashes ``what`` (a graph, names, cuts, fusions), the target and the machine, the versions,
    the sizes and times of the files of schedlang's source and of a target that a package brings,
    and those of each file that schedules of ``plan`` come from; those of a folder come from none.
    """
    files = [] if plan is None or plan.saved is not None else _files(plan.database)
    whole = [
        what, astuple(target), _machine(target), threads(), versions(), intrinsics_key(), sources(),
        [_stamp(path) for path in files], _code(target),
    ]  # fmt: skip
    # a target that a package brings may have options of any kind
    text = json.dumps(whole, sort_keys=True, allow_nan=False, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def module_facts(
    recipe: Recipe, outputs: Sequence[Tensor], weights: Sequence[Tensor], schedules: Any
) -> list[Any]:
    """Return what tells the module of a network from others, as data.

    ``weights`` are in the order in which it has them.
    """
    places = {t: k for k, t in enumerate(placeholders(outputs))}
    # an input that no output reads is an argument, too
    inputs = [places.get(t, declared(t)) for t in recipe.inputs]
    return [
        to_data(outputs), recipe.name, dict(recipe.layers), recipe.cut, recipe.fuse,
        recipe.flush_denormals, schedules, inputs, [places[t] for t in weights],
    ]  # fmt: skip


def cached(key: str, target: Target) -> ModuleData | None:
    """Return the data of a module that :func:`store` wrote, ``None`` if there is none."""
    try:
        content = contents(MODULE, MODULE.path(key))
        if content is None:
            return None
        found = json.loads(content)
        made = module_from_data(found["data"], str(found["text"]), str(found["serial_text"]))
        return replace(made, target=target)
    except (ValueError, KeyError, TypeError, BuildError):
        # no folder, or a file with the digest of other data
        return None


def store(key: str, data: ModuleData) -> None:
    """Write the data of a module, unless the cache folder takes no file."""
    texts = {"text": data.text, "serial_text": data.serial_text}
    content = json.dumps({"data": module_data(data), **texts}).encode()
    store_file(MODULE, MODULE.path(key), content)


def _code(target: Target) -> list[list[Any]]:
    """Return the stamps of the files with the classes of a target that a package brings."""
    if target.backend is None:
        return []
    modules = [sys.modules.get(kind.__module__) for kind in type(target.backend).__mro__[:-1]]
    files = {getattr(module, "__file__", None) for module in modules}
    # a class that a prompt or a notebook defines has no file, and is not known to another process
    here = [[os.getpid(), id(type(target.backend))]] if None in files else []
    return [*(_stamp(Path(file)) for file in sorted(filter(None, files))), *here]


def _machine(target: Target) -> str:
    """Return the processor, or the GPU for a GPU's target."""
    if not target.facts.needs_driver:
        return machine()
    from schedlang.autotune.record import machine_for

    return machine_for(target)


def _files(database: Any) -> list[Path]:
    if database is None:
        return [own_file(), *packaged_files()]
    if isinstance(database, (str, os.PathLike)) and not str(database).startswith("~"):
        return [Path(database)]
    from schedlang.autotune.database import Database

    return [Database.open(database).path]


def _stamp(path: Path) -> list[Any]:
    try:
        found = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), found.st_size, found.st_mtime_ns]
