"""The functions of users that a saved network calls: their names in its manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlang.errors import CallTypeError, NetworkError, explain, nearest

if TYPE_CHECKING:
    from schedlang.compute.extern_op import ExternFunction


@dataclass(frozen=True)
class SavedFunction:
    """A function that a manifest names, and the dtypes of the arrays that it takes and writes.

    ``label`` is the name by which it is given: its ``name``, if it is the first one of that.
    """

    label: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def as_items(functions: Sequence[ExternFunction]) -> list[list[Any]]:
    """Return what a manifest has of functions, which is none of their code.

    Functions of one source have one label, for all dtypes that they are called with.
    """
    labels: dict[tuple[str, str], str] = {}
    for name, identity in dict.fromkeys((f.name, f.identity) for f in functions):
        label, number = name, 1
        while label in labels.values():
            number += 1
            label = f"{name}_{number}"
        labels[name, identity] = label
    return [[labels[f.name, f.identity], f.name, *map(list, f.dtypes)] for f in functions]


def given_functions(
    folder: str | os.PathLike[str], saved: Sequence[SavedFunction], given: Any
) -> list[ExternFunction]:
    """Return the functions of a saved network, which are ``given`` by their names.

    A tensor that such a function computes stands for it.

    Raises :class:`~schedlang.errors.NetworkError` for one that is missing or unknown,
    :class:`~schedlang.errors.CallTypeError` if they are not given as a dict, and what
    :func:`schedlang.extern` raises for functions.
    """
    if not saved and not given:
        return []
    # a process that loads a network without functions needs none of this
    from schedlang.compute.extern_op import ExternOp
    from schedlang.compute.tensor import Tensor
    from schedlang.externs.functions import function_of
    from schedlang.externs.shared import tensors_of

    asked, labels = f"load({os.fspath(folder)!r})", [function.label for function in saved]
    if given is not None and not isinstance(given, Mapping):
        raise CallTypeError(
            f"{asked}, functions={given!r}: give a dict of functions by their names"
        )
    known = dict(given or {})
    unknown = next((label for label in known if label not in labels), None)
    if unknown is not None:
        listed = f"; it calls {', '.join(dict.fromkeys(labels)) or 'none'}"
        raise NetworkError(
            f"{asked}, functions={{{unknown!r}: ...}}: the network calls no such function"
            f"{nearest(str(unknown), labels) or listed}"
        )
    missing = next((label for label in labels if label not in known), None)
    if missing is not None:
        listed = ", ".join(f"{label!r}: {label}" for label in dict.fromkeys(labels))
        raise NetworkError(
            explain(
                asked,
                f"the network calls {missing}, a function of yours, and no code of a folder is run",
                f"Give it: sl.load(..., functions={{{listed}}}).",
            )
        )
    functions = []
    for f in saved:
        call, arrays = known[f.label], (tensors_of(f.inputs), tensors_of(f.outputs))
        if isinstance(call, Tensor) and isinstance(call.op, ExternOp):
            # the stage that a program of te defines
            call = call.op.function
        function = function_of(call, f.name, *arrays)
        if function.dtypes != (f.inputs, f.outputs):
            raise NetworkError(
                f"{asked}, functions={{{f.label!r}: ...}}: {function.name} takes arrays of "
                f"{' and '.join(', '.join(kinds) for kinds in function.dtypes)}, and the network "
                f"calls it with {' and '.join(', '.join(k) for k in (f.inputs, f.outputs))}"
            )
        functions.append(function)
    return functions


__all__ = ["SavedFunction", "as_items", "given_functions"]
