"""The rules for an operator's arguments: one for each parameter, checked before it runs.

>>> import schedlang as sl
>>> @operator(x=floats("rows"), mode=one_of("up", "down"))
... def rounded(x, mode="up"):
...     return (x, mode)
>>> rounded(sl.placeholder((4,), name="A"))[1]
'up'
>>> rounded(sl.placeholder((4,), name="A"), "left")
Traceback (most recent call last):
schedlang.errors.ComputeError: topi.rounded: mode='left' is none of 'up', 'down'
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from schedlang.signatures import public, spelled
from schedlang.tvm.topi.checks import (
    check_choice,
    check_float,
    check_index,
    check_list,
    check_scalar,
    check_tensor,
)

Function = TypeVar("Function", bound=Callable[..., Any])
# called with the operator's name, an argument and the name of its parameter; raises if it is wrong
Rule = Callable[[str, Any, str], object]

number: Rule = check_scalar
listed: Rule = check_list


def operator(**rules: Rule) -> Callable[[Function], Function]:
    """Return a decorator that checks the arguments of an operator by ``rules`` of its parameters.

    A default is not checked.
    """

    def declare(function: Function) -> Function:
        asked = spelled(function)
        names = tuple(signature(function).parameters)

        @public
        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            arguments = {**dict(zip(names, args)), **kwargs}
            for name, rule in rules.items():
                if name in arguments:
                    rule(asked, arguments[name], name)
            return function(*args, **kwargs)

        return cast(Function, checked)

    return declare


def tensor(*dims: str) -> Rule:
    """Return the rule for a tensor, with a dimension for each of ``dims`` if any are given."""
    return lambda asked, value, what: check_tensor(asked, value, what, *dims)


def floats(*dims: str) -> Rule:
    """Return the rule for a tensor of floats."""
    return lambda asked, value, what: check_float(asked, check_tensor(asked, value, what, *dims))


def integers(*dims: str) -> Rule:
    """Return the rule for a tensor of integers."""
    return lambda asked, value, what: check_index(
        asked, check_tensor(asked, value, what, *dims), what
    )


def one_of(*choices: Any) -> Rule:
    """Return the rule for an argument that is one of ``choices``."""
    return lambda asked, value, what: check_choice(asked, value, what, choices)
