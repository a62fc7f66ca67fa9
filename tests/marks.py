"""Marks of tests: slow ones, which tests/README.md lists, and what needs a compiler or a device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

import schedlang as sl

WIDE = sl.Target("cpu").vector_bytes >= 64
NARROW = "it is written for 32 registers of 64 bytes, and this processor has smaller vectors"
compiles = pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")


@cache
def no_opencl() -> str:
    """Return why no kernel for OpenCL runs here, or an empty text."""
    if find_spec("pyopencl") is None:
        return "pyopencl is not installed"
    import pyopencl as cl

    try:
        return "" if cl.create_some_context(interactive=False).devices else "no device of OpenCL"
    except (cl.Error, RuntimeError) as error:
        return f"there is no device of OpenCL: {error}"


@pytest.fixture
def opencl() -> None:
    """Skip the test where no kernel for OpenCL runs, with the reason."""
    if why := no_opencl():
        pytest.skip(why)


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


def slow_beyond(
    few: int, many: int, *strategies: SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Run a test on ``few`` examples of ``strategies``, and on ``many`` as a slow test."""

    def decorate(test: Callable[..., None]) -> Callable[[int], None]:
        runs = {n: settings(max_examples=n)(given(*strategies)(test)) for n in (few, many)}

        @pytest.mark.parametrize("examples", slow_but([str(few)], runs))
        def run(examples: int) -> None:
            runs[examples]()

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorate
