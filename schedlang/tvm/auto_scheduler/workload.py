"""Workloads: registered functions of plain arguments that return the tensors of a computation."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from schedlang.compute.tensor import PlaceholderOp, Tensor
from schedlang.errors import TuningError, explain, nearest
from schedlang.signatures import public

Workload = Callable[..., Sequence[Tensor]]
# workloads by name; one belongs to the process, as in TVM
_WORKLOADS: dict[str, Workload] = {}


@public
def register_workload(func_name: Any, f: Workload | None = None, override: bool = False) -> Any:
    """Register a function that returns the inputs and the outputs of a computation.

    Use it as a decorator, ``@auto_scheduler.register_workload``, or with a name. The arguments of
    the function are numbers, strings and tuples of these. A name that is registered again means
    the later function. Raise :class:`~schedlang.errors.TuningError` for what is neither a name nor
    a function.
    """
    if callable(func_name):
        return register_workload(func_name.__name__, func_name)
    if not isinstance(func_name, str) or not func_name:
        raise TuningError(
            f"auto_scheduler.register_workload({func_name!r}): give a function, or its name"
        )

    def register(function: Workload) -> Workload:
        if not callable(function):
            raise TuningError(
                f"auto_scheduler.register_workload({func_name!r}): decorate a function that "
                "returns tensors"
            )
        _WORKLOADS[func_name] = function
        return function

    return register if f is None else register(f)


@public
def make_workload_key(func: Any, args: Sequence[Any]) -> str:
    """Return the key of a workload, its name and arguments as JSON.

    Raise :class:`~schedlang.errors.TuningError` for an unknown function, or arguments that are not
    plain data.
    """
    names = [name for name, known in _WORKLOADS.items() if func in (name, known)]
    if not names:
        name = func if isinstance(func, str) else getattr(func, "__name__", repr(func))
        raise TuningError(
            explain(
                f"auto_scheduler: the workload {name}",
                f"no function of this name is registered{nearest(name, _WORKLOADS)}",
                "Register it first, by @auto_scheduler.register_workload.",
            )
        )
    try:
        return json.dumps([names[0], *args])
    except TypeError as error:
        raise TuningError(
            f"auto_scheduler: the arguments of {names[0]} must be numbers, strings, and tuples of "
            f"these: {error}"
        ) from None


def tensors_of(workload_key: str) -> list[Tensor]:
    """Return the tensors that a workload returns, its inputs and outputs.

    Raise :class:`~schedlang.errors.TuningError` for another key, and for a workload without an
    output.
    """
    try:
        name, *args = json.loads(workload_key)
        function = _WORKLOADS[name]
    except (TypeError, ValueError, KeyError):
        raise TuningError(
            f"auto_scheduler: {workload_key!r} is not the key of a registered workload; "
            "auto_scheduler.make_workload_key(func, args) makes one"
        ) from None
    given: Any = function(*(tuple(arg) if isinstance(arg, list) else arg for arg in args))
    tensors = list(given) if isinstance(given, (list, tuple)) else [given]
    if not all(isinstance(t, Tensor) for t in tensors) or not computed(tensors):
        raise TuningError(
            f"auto_scheduler: the workload {name} returns {given!r}: return the list of its input "
            "and output tensors, as in `return [A, B, C]`"
        )
    return tensors


def computed(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the tensors that are not inputs."""
    return tuple(t for t in tensors if not isinstance(t.op, PlaceholderOp))
