"""Calls of NumPy's functions on tensors: the match of arguments, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from schedlang.arrays.keywords import REFUSED, refuse_keywords
from schedlang.errors import ComputeTypeError, explain, nearest


class Form(NamedTuple):
    """The form of a NumPy function: what computes it, and the parameters of NumPy's in order.

    Parameters that have no meaning for a computation, such as ``out``, are listed too, since they
    may be given by position. A first parameter ``*operands`` takes all arguments by position.
    """

    function: Callable[..., Any]
    parameters: str

    @property
    def names(self) -> list[str]:
        return self.parameters.split()

    @property
    def variadic(self) -> bool:
        return self.parameters.startswith("*")


def call_form(asked: str, form: Form, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of ``form`` for the arguments of a call that the user wrote ``asked``.

    Raises :class:`ComputeTypeError` for arguments that have no form, each by name.
    """
    arguments = _matched(asked, form, args, kwargs)
    # what NumPy takes for "not given"
    arguments = {k: v for k, v in arguments.items() if v is not np._NoValue}
    if arguments.get("where") is True:
        del arguments["where"]
    for name in REFUSED & {*arguments}:
        if name != "where":
            refuse_keywords(asked, {name: arguments.pop(name)})
    positional = args if form.variadic else ()
    _check_complete(asked, form, positional, arguments)
    return form.function(*positional, **arguments)


def _check_complete(
    asked: str, form: Form, positional: Sequence[Any], given: Mapping[str, Any]
) -> None:
    """Raise if an argument is missing that has no default."""
    try:
        signature(form.function).bind(*positional, **given)
    except TypeError as error:
        raise ComputeTypeError(
            explain(asked, str(error), f"It takes {', '.join(form.names)}.")
        ) from None


def _matched(
    asked: str, form: Form, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments by name, except the arguments of a variadic form."""
    names = [n for n in form.names if not n.startswith("*")]
    if not form.variadic and len(args) > len(names):
        raise ComputeTypeError(
            f"{asked} takes {len(names)} argument{'s' * (len(names) != 1)} at most "
            f"({', '.join(names)}), got {len(args)}"
        )
    arguments = {} if form.variadic else dict(zip(names, args))
    for name, value in kwargs.items():
        if name in arguments:
            raise ComputeTypeError(f"{asked}: {name} is given twice, by position and by name")
        if name not in names and name not in REFUSED:
            raise ComputeTypeError(
                explain(
                    f"{asked}({name}=...)",
                    "this keyword has no form here" + nearest(name, names),
                    f"It takes {', '.join(names)}.",
                )
            )
        arguments[name] = value
    return arguments
