"""The cache of networks: from a digest of a source, a target and a plan to the module of the three.

A process that finds a network here neither prepares, schedules nor links it. The digest leaves out
the values of weights: another checkpoint of a model may have the same module, though not always,
since a scale that is not finite is not folded. So an :class:`Artifact` also has a hash of the
prepared graph, for which it serves if the weights differ, and what tells its packed weights.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from schedlang.errors import BuildError
from schedlang.networks.call import new_bytes
from schedlang.networks.data import ModuleData
from schedlang.networks.data import from_data as module_from_data
from schedlang.networks.data import to_data as module_data
from schedlang.networks.looked_up import FileState, LookedUp, states
from schedlang.networks.model import FORMS
from schedlang.networks.plan import Plan
from schedlang.runtime.cache_files import MODULE, WEIGHTS, contents, memory_map
from schedlang.runtime.cache_files import store as store_file
from schedlang.runtime.collection import no_collection
from schedlang.runtime.environment import machine, sources, threads, versions
from schedlang.runtime.files import intrinsics_key
from schedlang.runtime.tuning_files import own_file, packaged_files
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.compute.extern_op import ExternFunction
    from schedlang.compute.tensor import Tensor


@dataclass(frozen=True)
class PackedWeights:
    """The hashes by which the packed weights of an artifact are known.

    They are in a file of the cache folder with this ``digest``, if it took one, and ``values`` is
    the hash of the weights that they were packed of. Weights of a folder are known by the state of
    its file, too, which is its ``stamp``. ``indexing`` has the hash of each weight of a folder, by
    its name, with whose elements indices were checked.
    """

    values: str = ""
    digest: str = ""
    stamp: str = ""
    indexing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Artifact:
    """The part of a network in the cache folder: the data of its module, and more.

    ``graph`` is the hash of the prepared graph that the module computes, and ``forms`` has the
    forms of its convolutions, by the names of their stages. ``weights`` is ``None`` if no process
    has packed the weights. ``trials`` are those that its schedules and forms depend on.
    """

    data: ModuleData
    graph: str
    forms: Mapping[str, int] = field(default_factory=dict)
    weights: Optional[PackedWeights] = None
    trials: tuple[LookedUp, ...] = ()


def cache_key(source: Any, target: Target, plan: Plan) -> str:
    """Return a key of a network of a ``source``, as JSON values, for ``target`` by ``plan``.

    It also hashes the machine, the versions, the sizes and times of the files of schedlang's source
    and of the target that a package brings, and the names of the databases that schedules of
    ``plan`` come from. The schedules of a folder come from none.
    """
    whole = [
        source,
        plan.facts,
        astuple(target),
        _machine(target),
        threads(),
        versions(),
        intrinsics_key(),
        sources(),
        [str(path) for path in _databases(plan)],
        _code(target),
    ]
    return _hash(whole)[:24]


def graph_key(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    layers: Mapping[str, str],
    weights: Sequence[Tensor],
) -> str:
    """Return a hash of a prepared graph; the ``weights`` are in the order of the module."""
    # a process that loads a known network imports no graphs
    from schedlang.compute.data import hashed_data
    from schedlang.compute.graph import placeholders
    from schedlang.compute.tensor import declaration

    places = {t: k for k, t in enumerate(placeholders(outputs))}
    # an input that no output reads is an argument, too
    positions = [places.get(t, declaration(t)) for t in inputs]
    return _hash([hashed_data(outputs), dict(layers), positions, [places[t] for t in weights]])


def _hash(value: Any) -> str:
    # a target that a package brings may have options of any kind, and names may be no text
    text = json.dumps(value, sort_keys=True, allow_nan=False, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def is_cached(key: str) -> bool:
    """Return whether the cache folder has an artifact under a key.

    Raises :class:`~schedlang.errors.BuildError` if there can be no such folder.
    """
    return MODULE.path(key).exists()


def load_artifact(
    key: str, target: Target, functions: Callable[[], Sequence[ExternFunction]] = tuple
) -> Artifact | None:
    """Return the artifact that :func:`store` wrote, ``None`` if there is none.

    There is none, either, if a database has other trials now of what the artifact computes.
    ``functions`` returns the functions of users that the network calls.
    """
    try:
        content = contents(MODULE, MODULE.path(key))
        if content is None:
            return None
        # thousands of small objects, of which none is garbage
        with no_collection():
            entry = json.loads(content)
            trials = tuple(map(LookedUp.from_data, entry["trials"]))
            if not all(record.stands() for record in trials):
                return None
            texts = str(entry["text"]), str(entry["serial_text"])
            data = module_from_data(entry["data"], *texts, functions)
        weights = None if entry["weights"] is None else PackedWeights(**entry["weights"])
        graph, forms = entry["graph"], entry["forms"]
        hashes = [graph, *(() if weights is None else (weights.values, *weights.indexing.values()))]
        valid = all(type(form) is int and form in FORMS for form in forms.values())
        if not valid or not all(map(_is_hex, hashes)):
            return None
        return Artifact(replace(data, target=target), graph, forms, weights, trials)
    except (ValueError, KeyError, TypeError, AttributeError, BuildError):
        # no folder, or a file with the digest of other data
        return None


def store(
    key: str, artifact: Artifact, functions: Callable[[], Sequence[ExternFunction]] = tuple
) -> None:
    """Write an artifact, unless the cache folder takes no file.

    ``functions`` returns the functions of users that the network calls.
    """
    data, weights = artifact.data, artifact.weights
    known = functions() if data.functions else ()
    entry = {
        "graph": artifact.graph,
        "forms": dict(artifact.forms),
        "weights": None if weights is None else asdict(weights),
        "trials": [asdict(record) for record in artifact.trials],
        "data": module_data(data, known),
        "text": data.text,
        "serial_text": data.serial_text,
    }
    store_file(MODULE, MODULE.path(key), json.dumps(entry).encode())


def is_shared(data: ModuleData, functions: Callable[[], Sequence[ExternFunction]]) -> bool:
    """Return whether other processes have all functions of users that a module calls.

    ``functions`` returns those that stages name. An instruction may call others.
    """
    known = functions() if data.functions else ()
    return all(c.function in known and c.function.is_shared for c in data.functions)


def load_weights(key: str, weights: PackedWeights, size: int) -> np.ndarray | None:
    """Return the packed weights of a network, ``None`` if they are not there as they were written.

    The array is a private map of the file: processes share its pages, and what is written to it
    stays in this process.
    """
    if not size:
        return new_bytes(0)
    packed = memory_map(WEIGHTS, _packed_path(key, weights.values))
    # the same weights are packed in other ways for other forms
    if packed is None or len(packed.content) != size or packed.digest != weights.digest:
        return None
    return np.frombuffer(packed.content, "uint8")


def is_packed(key: str, values: str) -> bool:
    """Return whether the cache folder has packed weights whose values have this hash."""
    return _packed_path(key, values).exists()


def store_weights(key: str, values: str, params: np.ndarray) -> PackedWeights | None:
    """Write packed weights, whose values have this hash, and return what tells them.

    The file of other values under this key is removed. Return ``None`` if the file is larger than
    all weights together may be, or if the cache folder takes no file.
    """
    path = _packed_path(key, values)
    digest = store_file(WEIGHTS, path, params)
    if digest is None:
        return None
    for other in path.parent.glob(f"{key}-*{WEIGHTS.suffix}"):
        if other != path:
            # another process removed it, or maps it on a system that forbids this
            with suppress(OSError):
                other.unlink()
    return PackedWeights(values, digest)


def _packed_path(key: str, values: str) -> Path:
    return WEIGHTS.path(f"{key}-{values[:16]}")


def _is_hex(value: Any) -> bool:
    return isinstance(value, str) and all(c in "0123456789abcdef" for c in value)


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


def database_states(plan: Plan) -> tuple[FileState, ...]:
    """Return the states of the databases that schedules of ``plan`` come from.

    Raises :class:`~schedlang.errors.BuildError` if there can be no cache folder.
    """
    return states(_databases(plan))


def _databases(plan: Plan) -> list[Path]:
    """Return the files of the databases that schedules of ``plan`` come from."""
    database = plan.database
    if plan.saved is not None:
        return []
    if database is None:
        return [own_file(), *packaged_files()]
    if isinstance(database, (str, os.PathLike)) and not str(database).startswith("~"):
        return [Path(database)]
    from schedlang.autotune.database import Database

    return [Database.open(database).path]


def _stamp(path: Path) -> list[Any]:
    try:
        status = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), status.st_size, status.st_mtime_ns]
