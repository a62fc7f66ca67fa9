"""Keywords of NumPy's functions that have no meaning for a computation, each with advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from schedlang.errors import ComputeTypeError, explain

_ADVICE = {
    "out": ("a tensor describes a computation and is not written to",
            "Use the result: C = {asked}(...). A kernel writes into an array that it is given: "
            "f(a, out)."),
    "order": ("arrays are stored row by row", "Leave out order=, or transpose: A.T."),
    "casting": ("dtypes promote by NumPy's rules", "Cast an operand: A.astype('float32')."),
    "where": ("every element is computed", "Choose elements: np.where(cond, {asked}(...), other)."),
    "subok": ("every result is a tensor", "Leave out subok=."),
    "signature": ("dtypes promote by NumPy's rules", "Cast an operand: A.astype('float32')."),
    "mean": ("the mean is computed",
             "Leave out mean=, or write the formula: ((A - m) ** 2).sum(axis) / n."),
    "device": ("a computation has no device", 'Choose one when you build: target="cuda".'),
    "overwrite_input": ("a tensor is not written to", "Leave out overwrite_input=."),
}  # fmt: skip
REFUSED = frozenset(_ADVICE)
# values that ask for nothing
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "out": (None,), "order": (None, "C", "K", "A"), "casting": ("same_kind",),
    "where": (True,), "subok": (True, False), "device": (None, "cpu"),
    "overwrite_input": (False,),
}  # fmt: skip


def refuse_keywords(asked: str, options: Mapping[str, Any]) -> None:
    """Raise for the first of ``options`` that asks for something."""
    for name, value in options.items():
        if not _asks_nothing(name, value):
            refuse_keyword(asked, name)


def _asks_nothing(name: str, value: Any) -> bool:
    if isinstance(value, tuple):
        # NumPy passes the out= of a ufunc in this form
        return all(v is None for v in value)
    simple = isinstance(value, (bool, str, type(None)))
    return simple and value in _DEFAULTS.get(name, ())


def refuse_keyword(asked: str, name: str) -> NoReturn:
    why, hint = _ADVICE.get(name, ("this keyword has no form here", f"Leave out {name}=."))
    raise ComputeTypeError(explain(f"{asked}({name}=...)", why, hint.format(asked=asked)))
