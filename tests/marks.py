"""Marks of tests: slow ones, which tests/README.md lists, and those that need a compiler."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from importlib.util import find_spec
from typing import Any

import pytest

import schedlang as sl

WIDE = sl.Target("cpu").vector_bytes >= 64
NARROW = "it is written for 32 registers of 64 bytes, and this processor has smaller vectors"
compiles = pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")


def slow_but(
    quick: Collection[str], cases: Iterable[Any], name: Callable[[Any], str] = str
) -> list[Any]:
    """Return ``cases`` as parameters, all of them marked slow except those named in ``quick``.

    Raise a KeyError if ``quick`` is empty or has a name that no case has.
    """
    named = {name(case): case for case in cases}
    if not quick or set(quick) - set(named):
        raise KeyError(f"no case is called {sorted(set(quick) - set(named))} of {sorted(named)}")
    return [
        pytest.param(case, id=key, marks=[] if key in quick else [pytest.mark.slow])
        for key, case in named.items()
    ]
