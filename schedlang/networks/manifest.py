"""The manifest of a saved network, whose head is all that a call needs and the cache lacks.

A process that loads a known network imports this, and no graphs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlang.errors import NetworkError, SchedlangError, explain, first_line
from schedlang.expr.dtypes import canonical
from schedlang.expr.names import check_name
from schedlang.markup.text import printable
from schedlang.networks import structure
from schedlang.networks.model import Options, options_of_prepared
from schedlang.networks.origins import Origin, origins_of
from schedlang.networks.saved_functions import SavedFunction
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
    this version of schedlang wrote it. ``functions`` are the users' that it calls.
    """

    name: str
    structure: Any
    options: Options
    steps: Mapping[str, str]
    origins: Mapping[str, Origin]
    target: Target
    is_current: bool
    functions: tuple[SavedFunction, ...] = ()


def manifest_of(folder: str | os.PathLike[str]) -> bytes:
    """Return the manifest of a folder that :func:`save` wrote.

    Raises :class:`~schedlang.errors.NetworkError` if it cannot be read.
    """
    with refusing(folder):
        content = (Path(folder) / MANIFEST).read_bytes()
    return content


def head_of(folder: str | os.PathLike[str], manifest: bytes) -> Head:
    """Return the head of a manifest.

    Raises :class:`~schedlang.errors.NetworkError` if it is none that this version reads.
    """
    with refusing(folder):
        data = _checked(Path(folder), json.loads(manifest))
        outputs = as_count(data["outputs"], data["graph"]["outputs"])
        of = data["target"]
        head = Head(
            check_name(data["name"], "a network"),
            structure.from_json(data["structure"], outputs),
            options_of_prepared(
                tuple(map(as_text, data["cut"])),
                tuple(tuple(map(as_text, f)) for f in data["fuse"]),
                as_flag(data["flush_denormals"]),
            ),
            as_texts(data["steps"]),
            origins_of(data["origins"], data["version"] == _TEXTS),
            Target(as_text(of["kind"]), arch=as_text(of["arch"])),
            (data["version"], data.get("schedlang")) == (VERSION, __version__),
            tuple(_function(*item) for item in data.get("functions", ())),
        )
    return head


def _function(label: Any, name: Any, *dtypes: Any) -> SavedFunction:
    inputs, outputs = (tuple(canonical(as_text(d)) for d in kinds) for kinds in dtypes)
    label, name = (check_name(text, "a function") for text in (label, name))
    return SavedFunction(label, name, inputs, outputs)


@contextmanager
def refusing(folder: str | os.PathLike[str]) -> Iterator[None]:
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
            f"load({os.fspath(folder)!r}): this is not a saved network: {what}{first_line(error)}"
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


def as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise NetworkError(f"{value!r} should be text")
    return value


def as_texts(value: Any) -> dict[str, str]:
    return {as_text(k): as_text(v) for k, v in value.items()}


def as_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NetworkError(f"{value!r} should be true or false")
    return value


def as_count(value: Any, of: Sequence[Any]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= len(of):
        raise NetworkError(f"{value!r} is not a number of outputs")
    return value


def as_index(value: Any, of: Sequence[Any]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(of):
        raise NetworkError(f"{value!r} is not the number of a placeholder")
    return value
