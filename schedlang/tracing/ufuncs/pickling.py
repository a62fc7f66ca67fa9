"""Ufuncs of ours are pickled by value: their computations, which another process compiles."""

from __future__ import annotations

import copyreg
from functools import cache
from typing import Any

import numpy as np

from schedlang.tracing.ufuncs.identity import Identity
from schedlang.tracing.ufuncs.loop import Loop
from schedlang.tracing.ufuncs.numpy_api import new_ufunc

Description = tuple[str, str, tuple[Loop, ...], Identity, str]


class Loops(dict[str, Loop]):
    """The loops of a ufunc by their types, as in ``f.loops["dd->d"]``."""

    def __repr__(self) -> str:
        return f"<loops of a ufunc: {', '.join(self)}>"


class Source:
    """The text of the loops that calls have compiled; before a call, of the one of float64."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops

    def __str__(self) -> str:
        loops = [*self._loops.values()]
        shown = [loop for loop in loops if loop.is_compiled]
        shown = shown or [self._loops.get("d->d") or self._loops.get("dd->d") or loops[-1]]
        return "\n\n".join(loop.source for loop in shown)

    __repr__ = __str__


def described_ufunc(*description: Any) -> Any:
    """Return a ufunc of ours of its name, its docstring, its loops, its identity and signature."""
    _register()
    name, doc, loops, identity, signature = description
    ufunc = new_ufunc(name, doc, loops, identity, signature)
    ufunc.loops = Loops({loop.types: loop for loop in loops})
    ufunc.source = Source(ufunc.loops)
    ufunc._schedlang = description
    return ufunc


@cache
def _register() -> None:
    """Let pickle and its like ask :func:`_reduced` for ufuncs; NumPy's own stay as they are."""
    before = copyreg.dispatch_table[np.ufunc]

    def reduced(ufunc: Any) -> Any:
        description = getattr(ufunc, "_schedlang", None)
        return before(ufunc) if description is None else (described_ufunc, description)

    copyreg.pickle(np.ufunc, reduced)
