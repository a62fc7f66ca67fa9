"""Calls that do not fit a function's signature: what is missing, unknown or too much.

Python's own message names a parameter, such as ``parent``. :func:`refuses` replaces it by one that
says what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from schedlang.errors import CallTypeError, SchedlangError, explain, nearest

Called = TypeVar("Called", bound=Callable[..., Any])


@dataclass(frozen=True)
class Misfit:
    """A call that does not fit: its arguments by parameter, and the ``missing`` parameters.

    ``why`` says what else does not fit; it is empty if arguments are only missing.
    """

    given: Mapping[str, Any]
    missing: tuple[str, ...]
    why: str


def misfit(function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> Misfit:
    """Return how a call with these arguments fails to fit ``function``.

    >>> def tile(x, y, factor=8): ...
    >>> misfit(tile, (1,), {})
    Misfit(given={'x': 1}, missing=('y',), why='')
    >>> misfit(tile, (1, 2), {"factr": 3}).why
    "it has no argument 'factr'; did you mean 'factor'?"
    >>> def compute(shape, fcompute, **options): ...
    >>> misfit(compute, (1,), {"tag": "x"}).missing
    ('fcompute',)
    """
    parameters = signature(function).parameters
    by_position = [p.name for p in parameters.values() if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    kinds = {p.kind for p in parameters.values()}
    takes_more, takes_any = Parameter.VAR_POSITIONAL in kinds, Parameter.VAR_KEYWORD in kinds
    bound = dict(zip(by_position, args))
    unknown = [name for name in named if name not in parameters and not takes_any]
    twice = [name for name in named if name in bound]
    why = ""
    if unknown:
        why = f"it has no argument {unknown[0]!r}{nearest(unknown[0], parameters)}"
    elif twice:
        why = f"{twice[0]} is given twice"
    elif len(args) > len(by_position) and not takes_more:
        # the object of a method is not an argument of its call
        own = "self" in by_position
        most, count = len(by_position) - own, len(args) - own
        takes = f"{most or 'no'} argument{'s' * (most != 1)}{' at most' * (most > 0)}"
        why = f"it takes {takes}, not {count}"
    bound |= {name: value for name, value in named.items() if name in parameters}
    missing = tuple(
        p for p in by_position if p not in bound and parameters[p].default is Parameter.empty
    )
    return Misfit(bound, missing, why)


def call_refusal(
    function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]
) -> CallTypeError:
    """Return the error for a call of the public ``function`` that does not fit its signature."""
    call = misfit(function, args, named)
    known = ", ".join(name for name in signature(function).parameters if name != "self")
    unknown = [name for name in named if name not in call.given]
    written = f"..., {unknown[0]}=..." if unknown else "..."
    are = "is" if len(call.missing) == 1 else "are"
    why = call.why or f"{' and '.join(call.missing)} {are} missing"
    hint = f"Its arguments: {known}." if known else "It takes no arguments."
    return CallTypeError(explain(f"{spelled(function)}({written})", why, hint))


def spelled(function: Callable[..., Any]) -> str:
    """Return a public function as users write it: ``sl.sum``, ``sl.plot.memory``, ``topi.nn.relu``.

    >>> spelled(spelled)
    'sl.spelled'
    """
    path = function.__module__.removeprefix("schedlang.")
    place = next((place for module, place in _PLACES.items() if path.startswith(module)), "sl")
    return f"{place}.{function.__qualname__.removesuffix('.__init__')}"


# what users write for the functions of a package or a module that are not in ``sl`` itself
_PLACES = {
    **{f"tvm.topi.{name}": f"topi.{name}" for name in ("image", "nn", "sparse")},
    **{f"tvm.{name}": name for name in ("contrib.cblas", "nd", "testing", "tir", "topi")},
    "tvm.packed": "tvm", "tvm": "te",
    "course": "sl.testing", "frontend": "sl.frontend", "plot": "sl.plot",
}  # fmt: skip


def refuses(refusal: Callable[..., SchedlangError]) -> Callable[[Called], Called]:
    """Return a decorator of a function whose calls may not fit its signature.

    Such a call raises ``refusal(function, args, named)`` in place of Python's ``TypeError``.
    """

    def decorate(function: Called) -> Called:
        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            try:
                return function(*args, **named)
            except TypeError:
                # nothing is checked as long as calls succeed
                try:
                    signature(function).bind(*args, **named)
                except TypeError:
                    raise refusal(function, args, named) from None
                raise

        return call  # type: ignore[return-value]

    return decorate


def public(function: Called) -> Called:
    """Return a public function whose calls that do not fit raise a :class:`CallTypeError`.

    It suggests the nearest argument, and lists all.

    >>> @public
    ... def tile(x, y, factor=8): ...
    >>> tile(1, 2, factr=4)
    Traceback (most recent call last):
    schedlang.errors.CallTypeError: sl.tile(..., factr=...): it has no argument 'factr'; did you \
mean 'factor'?
      Its arguments: x, y, factor.
    """
    return refuses(call_refusal)(function)


__all__ = ["Misfit", "misfit", "public", "refuses", "spelled"]
