"""Messages in the words of NumPy: a traced function has arrays, and neither elements nor stages.

The functions of the language say what they refuse for an element over axes, ``x[i, j]``, and
advise what ``sl.compute`` takes. In a traced function these axes are ours, not the user's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_tb

from schedlang.arrays.stages import LETTERS
from schedlang.errors import SchedlangError
from schedlang.expr.functions import FUNCTIONS

# the language's functions under NumPy's names
_FUNCTIONS = {
    **{f.name: f.ufunc for f in FUNCTIONS.values() if f.ufunc},
    "abs": "abs", "min": "minimum", "max": "maximum", "pow": "power", "select": "where",
    "if_then_else": "where", "sum": "sum", "prod": "prod", "all": "all", "any": "any",
    "argmax": "argmax", "argmin": "argmin", "einsum": "einsum", "pad": "pad", "cast": "astype",
}  # fmt: skip
_WORDS = (
    ("a tensor describes a computation and is not written to",
     "a traced function does not write that way"),
    ("a tensor describes a computation and has no values yet",
     "its elements are unknown while the function is traced"),
    ("a number, an axis, or an element of a tensor such as A[i, j]", "a number or an array"),
    (' or a size made by sl.var("n")', ""),
    ("A kernel writes into an array that it is given: f(a, out).", "Assign it: out[...] = C."),
)  # fmt: skip
_OF_LANGUAGE = re.compile(rf"\bsl\.({'|'.join(_FUNCTIONS)})\b")
_NO_VALUES = re.compile(r"since an array of \w+ describes a computation and has no values yet")
# a reduction of the language, over an axis
_REDUCTION = re.compile(
    r"\b(?:sl|np)\.(min|max|sum|prod|any|all|argmin|argmax)(?: (?=of )|(\(.*?), axis=k\))"
)
# advice on computations by elements
_BY_ELEMENTS = re.compile(r"\bsl\.(compute|placeholder|scatter|scan|schedule|build|reduce_axis)\b")
# where a hint goes on with other advice
_ADVICE = re.compile(r"(?<=[.;] )|(?=, or )")
# an axis of ours, and the index of an element at such axes
_AXIS = re.compile(rf"[{LETTERS}]|i\d+")
_INDEX = re.compile(rf"(?<=\w)\[((?:[{LETTERS}]|i?\d+)(?:, (?:[{LETTERS}]|i?\d+))*)\]")
# a line that a message quotes stays as it is
_QUOTED = re.compile(r"(`[^`]*`)")


@contextmanager
def in_numpys_words() -> Iterator[None]:
    """Reword the messages of errors that other packages raise inside."""
    try:
        yield
    except SchedlangError as error:
        *_, (frame, _) = walk_tb(error.__traceback__)
        package = __name__.rpartition(".")[0]
        if len(error.args) == 1 and not frame.f_globals["__name__"].startswith(package):
            error.args = (reworded(str(error)),)
        raise


def reworded(message: str) -> str:
    """Return a message with NumPy's functions of arrays in place of the language's of elements.

    >>> reworded("x[i] < 1: complex numbers have no order\\n  Compare parts: z.real or sl.abs(z).")
    'x < 1: complex numbers have no order\\n  Compare parts: z.real or np.abs(z).'
    """
    first, newline, hint = message.partition("\n")
    asked, colon, why = first.partition(": ")
    asked = _outside_quotes(asked, lambda text: _INDEX.sub(_of_array, text))
    lines = [without_elements(line, asked) for line in (why, *hint.split("\n"))]
    text = newline.join([lines[0], *(line for line in lines[1:] if line)])
    return _outside_quotes(f"{asked}{colon}{text}", _named)


def _of_array(index: re.Match[str]) -> str:
    """Return the index of an array in place of the index of its element at axes of ours."""
    parts = index[1].split(", ")
    kept = [":" if _AXIS.fullmatch(part) else part for part in parts]
    return "" if set(kept) == {":"} else f"[{', '.join(kept)}]"


def without_elements(line: str, asked: str) -> str:
    """Return a line without advice on computations by elements, unless ``asked`` is one."""
    indent = line[: len(line) - len(line.lstrip())]
    kept = ""
    for part in _ADVICE.split(line.lstrip()):
        functions = {m[0] for m in _BY_ELEMENTS.finditer(part)}
        if all(name in asked for name in functions):
            kept += part if kept else part.removeprefix(", ").removeprefix("or ")
        elif kept and kept[-1] != " ":
            # what follows begins another piece of advice
            kept += "; " if part.endswith("; ") else ""
    if kept and kept[-1] in ";, ":
        kept = kept.rstrip(".;, ") + "."
    return kept and f"{indent}{kept[0].upper() if indent else kept[0]}{kept[1:]}"


def _named(text: str) -> str:
    """Return a text with NumPy's names of functions."""
    for words, others in _WORDS:
        text = text.replace(words, others)
    text = _NO_VALUES.sub("since its elements are unknown while the function is traced", text)
    text = re.sub(r"\ba tensor\b", "an array", text)
    text = re.sub(r"\btensor(s?)\b", r"array\1", text)
    text = _REDUCTION.sub(lambda m: f"np.{m[1]}{m[2]})" if m[2] else f"np.{m[1]} ", text)
    return _OF_LANGUAGE.sub(lambda m: f"np.{_FUNCTIONS[m[1]]}", text)


def _outside_quotes(text: str, change: Callable[[str], str]) -> str:
    """Return a text with a change of all but the lines that it quotes."""
    parts = _QUOTED.split(text)
    return "".join(part if part.startswith("`") else change(part) for part in parts)
