"""Functions of users as data: their source, or where other processes import them from."""

from __future__ import annotations

import base64
import copyreg
import pickle
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from schedlang.compute.extern_op import ADDRESS, LOOPS, ExternFunction
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, explain
from schedlang.externs.functions import from_source, function_of


def function_of_code(code: Sequence[Any]) -> ExternFunction:
    """Return the function of :attr:`~schedlang.compute.extern_op.ExternFunction.code`.

    It compiles C source, runs the source of Python and unpickles loops, so that the data have to
    come from a program of the user's, and not from a file. Raise
    :class:`~schedlang.errors.ComputeError` if the function cannot be made here.
    """
    kind, name, given, wanted, place, source = code
    inputs, outputs = (tensors_of(dtypes) for dtypes in (given, wanted))
    if kind == ADDRESS:
        return from_source(source, name, inputs, outputs)
    if kind == LOOPS:
        # only programs of te need the passes over loops
        from schedlang.externs.loops import of_loops

        nest, places = pickle.loads(base64.b64decode(source))
        return of_loops(nest, places, name, (tuple(given), tuple(wanted)))
    call = _imported(place) if place else _defined(source, name)
    return replace(function_of(call, name, inputs, outputs), source=source, place=place)


def _pickled(function: ExternFunction) -> tuple[Any, ...]:
    return function_of_code, (function.code,)


def tensors_of(dtypes: Sequence[str]) -> list[Tensor]:
    """Return tensors that stand for the arrays of a function, of which dtypes alone are known."""
    return [Tensor(f"t{k}", (), dtype, None, 0) for k, dtype in enumerate(dtypes)]


def _imported(place: str) -> Any:
    module, _, path = place.partition(":")
    try:
        value: Any = import_module(module)
        for name in path.split("."):
            value = getattr(value, name)
    except (ImportError, AttributeError) as error:
        raise ComputeError(
            explain(
                f"a computation that calls {path}",
                f"this process cannot import it from {module}: {error}",
                "Put the module on the path of the process, PYTHONPATH.",
            )
        ) from None
    return value


def _defined(source: str, name: str) -> Any:
    space: dict[str, Any] = {"__name__": "schedlang_extern"}
    exec(compile(source, f"<{name}>", "exec"), space)
    return space[name]


copyreg.pickle(ExternFunction, _pickled)

__all__ = ["function_of_code", "tensors_of"]
