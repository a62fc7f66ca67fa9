"""Messages in the words of a ufunc, whose parameters are numbers without axes and stages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from schedlang.errors import ComputeTypeError, MissingNameError, SchedlangError, explain
from schedlang.expr.nodes import Expr
from schedlang.tracing.wording import without_elements

# refusals of functions over arrays, whose hints are for elements over axes
_OF_ARRAYS = re.compile(
    r"NumPy works on arrays, but .*"
    r"|it has no form here, since .*"
    r"|a reduction needs an axis made by sl\.reduce_axis"
)
_WORDS = (
    ("a number, an axis, or an element of a tensor such as A[i, j]",
     "a number or what is computed from the parameters"),
    ("the lambda returns None; return the value of an element",
     "the function returns None; return its result"),
    ("with an axis, which has no value here", "with a number, which has no value yet"),
    ('Make the array an input: declare arr = sl.placeholder(shape, dtype, name="arr"), index arr, '
     "and pass the NumPy array to the kernel.",
     'Make the array a parameter: sl.ufunc(lambda x, arr: arr[x], signature="(),(n)->()").'),
    ("the expression ", ""),
)  # fmt: skip


@contextmanager
def in_words_of_ufunc(name: str, parameters: Sequence[str]) -> Iterator[None]:
    """Reword the errors of a function over numbers, and Python's errors on our expressions."""
    try:
        yield
    except SchedlangError as error:
        if len(error.args) == 1:
            error.args = (_reworded(str(error), name, parameters),)
        raise
    except (AttributeError, TypeError) as error:
        why = _of_python(error)
        if not why:
            raise
        advice = _advice(parameters)
        text = explain(f"sl.ufunc({name})", _without_axis(why, parameters), advice)
        kind = MissingNameError if isinstance(error, AttributeError) else ComputeTypeError
        raise kind(text).with_traceback(error.__traceback__) from None


@contextmanager
def named_ufunc(name: str) -> Iterator[None]:
    """Let the messages of errors begin with the ufunc."""
    try:
        yield
    except SchedlangError as error:
        if len(error.args) == 1:
            error.args = (_named(str(error), name),)
        raise


def _reworded(message: str, name: str, parameters: Sequence[str]) -> str:
    """Return a message without axes, elements and stages.

    >>> text = "iterating over x[i]: it is one value\\n  Write sl.sum(..., axis=sl.reduce_axis(n))."
    >>> print(_reworded(text, "f", ["x"]))
    sl.ufunc(f): iterating over x: it is one value
      If x is an array, give its dimensions: sl.ufunc(..., signature="(n)->()").
    """
    message = message.replace(f"sl.compute for {name}_out", f"sl.ufunc({name})")
    for words, others in _WORDS:
        message = message.replace(words, others)
    first, newline, hint = _without_axis(message, parameters).partition("\n")
    asked, colon, why = first.partition(": ")
    if _OF_ARRAYS.match(why):
        text = explain(asked, "it takes an array, and each parameter is one number here")
        kept, dropped = [text], True
    else:
        lines = [why, *hint.split("\n")] if newline else [why]
        shortened = [without_elements(line, "") for line in lines]
        dropped = shortened != lines
        kept = [f"{asked}{colon}{shortened[0]}", *filter(None, shortened[1:])]
    if dropped:
        kept.append(f"  {_advice(parameters)}")
    return _named("\n".join(kept), name)


def _named(message: str, name: str) -> str:
    own = f"sl.ufunc({name}"
    return message if message.startswith(own) else f"{own}): {message}"


def _without_axis(text: str, parameters: Sequence[str]) -> str:
    """Return a text with ``x`` in place of ``x[i]``, its element at an axis of ours."""
    return re.sub(rf"\b({'|'.join(map(re.escape, parameters))})\[i\]", r"\1", text)


def _advice(parameters: Sequence[str]) -> str:
    signature = f"{','.join(['(n)'] * len(parameters))}->()"
    which = parameters[0] if len(parameters) == 1 else "a parameter"
    return f'If {which} is an array, give its dimensions: sl.ufunc(..., signature="{signature}").'


def _of_python(error: AttributeError | TypeError) -> str:
    """Return what Python refuses to do with an expression; "" if it is about something else."""
    if isinstance(error, AttributeError):
        if not isinstance(error.obj, Expr):
            return ""
        text = str(error.obj)
        subject = text if re.fullmatch(r"[\w\[\]]+", text) else f"({text})"
        return f"{subject}.{error.name}: {subject} is a number here, without this attribute"
    kinds = "|".join(_names(Expr))
    text = re.sub(
        rf"'({kinds})' object|object of type '({kinds})'|'({kinds})'", "a number", str(error)
    )
    return "" if text == str(error) else f"{text}; each parameter is one number here"


def _names(kind: type[Expr]) -> list[str]:
    """Return the names of the classes below ``kind``."""
    return [name for c in kind.__subclasses__() for name in (c.__name__, *_names(c))]
