"""Random programs of loops, branches and assignments under ``sl.jit``, beside NumPy."""

from __future__ import annotations

import copy
import linecache
from collections.abc import Callable
from itertools import count
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.tracing import specialization

SIZE, EDGE = 7, 2
NUMBERS = count()
RANGES = [
    f"range({EDGE}, {SIZE})",
    f"range({SIZE - 1}, {EDGE - 1}, -1)",
    f"range({EDGE}, {SIZE}, 2)",
]
FORMS = [
    "{0} * 0.5 + {1} * 0.25",
    "{0} - 0.5 * {1}",
    "max({0}, {1})",
    "({0} * 0.5 if {0} > {1} else 0.125)",
    "0.5 * {0} + {2}",
]
OFFSETS = ["", " - 1", " + 1", " - 2", " + 2"]


@st.composite
def elements(draw: st.DrawFn, indices: list[str]) -> str:
    """Return an element of an array at indices of loops, or of a row by a slice's sum."""
    i = draw(st.sampled_from(indices)) + draw(st.sampled_from(OFFSETS))
    j = draw(st.sampled_from(indices)) + draw(st.sampled_from(OFFSETS))
    return draw(st.sampled_from([f"x[{i}]", f"y[{i}]", f"a[{i}, {j}]", "t", f"a[{i}, :3].sum()"]))


@st.composite
def expressions(draw: st.DrawFn, indices: list[str]) -> str:
    """Return a sum, product or choice of elements and numbers."""
    first, second = draw(elements(indices)), draw(elements(indices))
    form = draw(st.sampled_from(FORMS))
    return form.format(first, second, indices[-1])


@st.composite
def statements(draw: st.DrawFn, indices: list[str], depth: int) -> list[str]:
    """Return the lines of one statement, which may hold others."""
    kinds = ["assign", "assign", "add", "number", "row"]
    kinds += ["if", "if"] if depth < 3 else []
    kinds += ["loop", "triangle"] if depth < 2 else []
    kind = draw(st.sampled_from(kinds))
    i, j = indices[0], indices[-1]
    value = draw(expressions(indices))
    if kind == "assign":
        target = draw(st.sampled_from([f"x[{j}]", f"y[{i}]", f"a[{i}, {j}]", f"a[{j}, 1]"]))
        return [f"{target} = {value}"]
    if kind == "add":
        target = draw(st.sampled_from([f"x[{j}]", f"a[{i}, {j}]", "y[0]"]))
        return [f"{target} += {value}"]
    if kind == "number":
        return [draw(st.sampled_from([f"t += {value}", f"t = {value}", f"t = max(t, {value})"]))]
    if kind == "row":
        return [f"a[{i}, 1:5] = a[{j}, 0:4] * 0.5 + {value}"]
    inner = [*indices, "ij"[len(indices)]] if kind != "if" else indices
    body = draw(st.lists(statements(inner, depth + 1), min_size=1, max_size=2))
    lines = ["    " + line for part in body for line in part]
    if kind == "if":
        head = f"if {draw(elements(indices))} > {draw(elements(indices))}:"
        more = draw(statements(indices, depth + 1)) if draw(st.booleans()) else []
        return [head, *lines, *(["else:"] if more else []), *("    " + line for line in more)]
    given_range = f"range({EDGE}, {i} + 1)" if kind == "triangle" else draw(st.sampled_from(RANGES))
    return [f"for {inner[-1]} in {given_range}:", *lines]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Return the source of a function of two vectors, a matrix and a number."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        body = draw(st.lists(statements(["i"], 1), min_size=1, max_size=3))
        lines += [f"for i in {draw(st.sampled_from(RANGES))}:"]
        lines += ["    " + line for part in body for line in part]
    head = "def program(x, y, a, t):"
    return "\n".join([head, *("    " + line for line in lines), "    return t"])


def function_of(text: str) -> Callable[..., Any]:
    """Return the function of a source that is found by its lines."""
    path = f"<random program {next(NUMBERS)}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    names: dict[str, Any] = {"np": np}
    exec(compile(text, path, "exec"), names)
    function: Callable[..., Any] = names["program"]
    return function


def compare(text: str) -> None:
    function = function_of(text)
    random = np.random.default_rng(len(text))
    size = SIZE + EDGE
    theirs = [random.random(size), random.random(size), random.random((size, size)), 0.25]
    ours = copy.deepcopy(theirs)
    wanted = function(*theirs)
    # the meaning of loops does not depend on schedules, which take most of the time
    with mock.patch.object(specialization, "schedule_for", lambda out, *_: sl.schedule(out)):
        found = sl.jit(function, target="python")(*ours)
    for a, b in zip([found, *ours[:3]], [wanted, *theirs[:3]]):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=text)


SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@pytest.mark.slow
@settings(max_examples=4, derandomize=True, **SETTINGS)
@given(programs())
def test_random_programs(text: str) -> None:
    compare(text)


@pytest.mark.slow
@settings(max_examples=100, derandomize=True, **SETTINGS)
@given(programs())
def test_many_random_programs(text: str) -> None:
    compare(text)
