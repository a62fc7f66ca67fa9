"""Networks in folders as C programs: the source, the header, the weights, and a program."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError, NetworkError, explain
from schedlang.networks.c_linking import CLinked, linked_in_c
from schedlang.networks.c_main import makefile
from schedlang.networks.c_text import network_program
from schedlang.networks.c_weights import checksum, weights_file
from schedlang.networks.call import pack, weight_in
from schedlang.networks.compiled import Compiled, arrays_of, graph_of
from schedlang.networks.saved_indices import check_indices
from schedlang.networks.saving import check_folder, new_folder
from schedlang.runtime.c_saving import is_free
from schedlang.runtime.c_toolchain import build_line, described
from schedlang.target import Target
from schedlang.target_options import names_kind

# sem_open and such are functions of POSIX
_POSIX = frozenset({"mq", "sem", "shm"})


def check_c_destination(folder: str | os.PathLike[str], target: Any, name: str, of: Target) -> None:
    """Check what ``save`` is given for the network ``name``, which is for the target ``of``.

    Raises :class:`~schedlang.errors.NetworkError` for what no C program can be written for.
    """
    if not isinstance(target, str) or target != "c":
        triple = Target(target).triple if names_kind(target) else getattr(target, "triple", "")
        fix = 'Leave target out, or give target="c".'
        if triple:
            fix = (
                f'Build it by sl.network(..., target=sl.Target("c", triple={triple!r})), whose '
                'save(folder, target="c") writes the program.'
            )
        raise NetworkError(
            explain(
                f"save({os.fspath(folder)!r}, target={target!r})",
                "a network is saved as Python or as a C program, for its own processor",
                fix,
            )
        )
    check_folder(folder)
    free = is_free(name) and name not in _POSIX
    if not of.facts.binds_threads and free:
        return
    asked = f"{_asked(folder)}: network {name!r}"
    if of.facts.binds_threads:
        why = f'it is for target="{of.kind}", and a C program runs on a CPU'
        raise NetworkError(explain(asked, why, 'Build it for target="cpu".'))
    raise NetworkError(
        explain(
            asked,
            "its functions have the name of the network, and C or C++ cannot have this one, or has "
            "it already",
            'Give sl.network another one, like name="digits".',
        )
    )


def _asked(folder: str | os.PathLike[str]) -> str:
    return f'save({os.fspath(folder)!r}, target="c")'


def save_in_c(folder: str | os.PathLike[str], network: Compiled) -> Path:
    """Write a network with kernels and weights as a C program to a new folder, and return its path.

    Raises :class:`~schedlang.errors.NetworkError` as :meth:`Network.save` says.
    """
    name, asked = network.source.name, _asked(folder)
    path = check_folder(folder)
    weights = arrays_of(network)
    try:
        indexing = check_indices(network.prepared.outputs, network.recipe.inputs, weights)
        linked = linked_in_c(network, asked)
    except (BuildError, NetworkError) as error:
        text = str(error)
        raise NetworkError(text if text.startswith(asked) else f"{asked}: {text}") from None
    elements = pack(linked.storage, _named(linked, weights))
    fixed = _fixed(linked, weights, indexing, elements)
    file = weights_file(graph_of(network), linked.storage)
    tools = described(network.target)
    program = network_program(linked, file, fixed, name, build_line(tools, False, name))
    with new_folder(path, asked) as new:
        (new / f"{name}.h").write_text(program.header, encoding="utf-8")
        (new / f"{name}.c").write_text(program.source, encoding="utf-8")
        (new / "main.c").write_text(program.main, encoding="utf-8")
        built_by = makefile(name, tools, network.target.triple)
        (new / "Makefile").write_text(built_by, encoding="utf-8")
        with (new / f"{name}.weights").open("wb") as opened:
            opened.write(file.head(elements))
            elements.tofile(opened)
    return path


def _named(linked: CLinked, weights: Mapping[Tensor, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of weights, which stand in the order of the program, by their names."""
    return {place.name: array for place, array in zip(linked.storage.params, weights.values())}


def _fixed(
    linked: CLinked,
    weights: Mapping[Tensor, np.ndarray],
    indexing: Collection[Tensor],
    elements: np.ndarray,
) -> dict[str, int]:
    """Return the checksums of the weights that are in ``indexing``, or have facts."""
    checksums: dict[str, int] = {}
    for weight, place in zip(weights, linked.storage.params):
        if weight in indexing or place.has_facts:
            end = place.start + -(-weight_in(elements, place).nbytes // 8) * 8
            checksums[place.name] = checksum(elements[place.start : end])
    return checksums


__all__ = ["save_in_c"]
