"""Calls of public functions that do not fit: each suggests the nearest argument."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallTypeError, SchedlangError
from schedlang.signatures import public, spelled

LISTED = Path(__file__).with_name("public_names.txt")


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each public function with its name in ``public_names.txt``."""
    for line in LISTED.read_text().split():
        place, _, name = line.rpartition(".")
        value = getattr(import_module(place), name)
        if inspect.isfunction(value):
            yield line, value


def misspelt(function: Callable[..., Any]) -> str:
    """Return the name of an argument with one letter too much, ``""`` if any name is taken."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return ""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return next((f"{p.name}_" for p in parameters if p.kind in kinds), "other")


def test_each_public_function_suggests_an_argument() -> None:
    lacking, count = [], 0
    for name, function in public_functions():
        wrong = misspelt(function)
        if not wrong or name == "schedlang.reference":
            continue
        count += 1
        with pytest.raises(TypeError) as caught:
            function(**{wrong: 1})
        near = "" if wrong == "other" else f"; did you mean .*'{re.escape(wrong[:-1])}'"
        said = re.search(f"it has no argument '{wrong}'{near}", str(caught.value))
        if not isinstance(caught.value, SchedlangError) or not said:
            lacking.append(f"{name}: {caught.value}")
    assert not lacking and count > 300


@pytest.mark.parametrize(("call", "text"), [
    (lambda A, k: sl.sum(A[k], axs=k), r"sl\.sum\(\.\.\., axs=.*'axs'; did you mean 'axis'"),
    (lambda A, k: sl.var("n", dtpe="int32"), r"sl\.var\(.*'dtpe'; did you mean 'dtype'"),
    (lambda A, k: sl.reduce_axis(8, nme="k"), r"sl\.reduce_axis\(.*'nme'; did you mean 'name'"),
    (lambda A, k: sl.gradient(A, [A], haed=A), r"sl\.gradient\(.*'haed'; did you mean 'head'"),
    (lambda A, k: sl.scan(A, A, A, input=[A]), r"sl\.scan\(.*'input'; did you mean 'inputs'"),
    (lambda A, k: sl.exp(y=A[0]), r"sl\.exp\(\.\.\., y=\.\.\.\): it has no argument 'y'"),
    (lambda A, k: sl.topi.nn.relu(y=A), r"topi\.nn\.relu\(\.\.\., y=\.\.\.\): it has no argument"),
    (lambda A, k: sl.topi.sum(A, axes=0), r"topi\.sum\(.*'axes'; did you mean 'axis'"),
    (lambda A, k: sl.te.compute((8,), fcomput=1), r"te\.compute\(.*did you mean 'fcompute'"),
    (lambda A, k: sl.plot.memory(A, cache=()), r"sl\.plot\.memory\(.*did you mean 'caches'"),
    (lambda A, k: sl.Target("cpu", vector_byte=8), r"sl\.Target\(.*did you mean 'vector_bytes'"),
    (lambda A, k: sl.network(), r"sl\.network\(\.\.\.\): outputs is missing"),
])  # fmt: skip
def test_calls_that_do_not_fit(call: Any, text: str) -> None:
    with pytest.raises(CallTypeError, match=f"^{text}"):
        call(sl.placeholder((8,), name="A"), sl.reduce_axis(8, name="k"))


def test_an_error_inside_of_a_function_stays_as_it_is() -> None:
    @public
    def halved(x: Any) -> Any:
        return x / 2

    assert spelled(halved).startswith("sl.") and halved(np.float32(3)) == 1.5
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        halved("3")
    assert not isinstance(caught.value, SchedlangError)


def test_functions_keep_their_signatures_and_names() -> None:
    assert str(inspect.signature(sl.sum)).startswith("(expr: 'ExprLike', axis: 'Any' = None,")
    assert sl.sum.__module__ == "schedlang.compute.reduce" and sl.sum.__qualname__ == "sum"
