"""Traced functions in pickles, which name their functions or hold them, as cloudpickle decides."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl

X = np.arange(4.0)


@sl.jit(target="python", static_argnames="power", cache_size=3)
def of_module(x: Any, power: int = 2, *, scale: float = 3.0) -> Any:
    """Return a polynomial."""
    return x**power * scale


def plain(x: Any) -> Any:
    return x * 2


OTHER_NAME = sl.jit(plain, target="python")


def closure(k: float) -> Any:
    @sl.jit(target="python")
    def f(x: Any, n: float = 5.0) -> Any:
        return helper(x) * k + n

    @sl.jit(target="python")
    def helper(x: Any) -> Any:
        return x + 1

    return f


def test_a_function_by_value_keeps_its_options() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    given = sl.jit(lambda x: x * 2, compiler="numba", compile="now", progress=False)
    own = pickle.loads(cloudpickle.dumps(given))
    for name in ("target", "_static", "_size", "_compiler", "_moment", "_progress"):
        assert getattr(own, name) == getattr(given, name)
    np.testing.assert_array_equal(own(X), X * 2)


def test_a_function_of_a_module_is_pickled_by_name() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(of_module, protocol)) is of_module
    assert copy.copy(of_module) is copy.deepcopy(of_module) is of_module
    assert b"polynomial" not in pickle.dumps(of_module)
    again = pickle.loads(pickle.dumps(OTHER_NAME))
    np.testing.assert_array_equal(again(X), X * 2)


def test_functions_by_value() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    f = closure(3.0)
    again = pickle.loads(cloudpickle.dumps(f))
    assert (again.__name__, again.__qualname__) == (f.__name__, f.__qualname__)
    np.testing.assert_array_equal(again(X), (X + 1) * 3 + 5)
    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(f)
    module = import_module(__name__)
    cloudpickle.register_pickle_by_value(module)
    try:
        data = cloudpickle.dumps(of_module)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    again = pickle.loads(data)
    assert again.function is not of_module.function
    np.testing.assert_array_equal(again(X, power=3, scale=2.0), X**3 * 2)
    assert again.__doc__ == "Return a polynomial." and again.function.__qualname__ == "of_module"


SCRIPT = """
import pickle, sys
import numpy as np
import schedlang as sl
from multiprocessing import get_context

TABLE = np.array([1.0, 5.0, 2.0])

@sl.jit(target="python")
def helper(x):
    return x + TABLE

@sl.jit(target="python")
def f(x, scale=2.0):
    "Return a scaled sum."
    return helper(x) * scale + (f.__name__ == "f")

if __name__ == "__main__":
    import cloudpickle
    assert pickle.loads(pickle.dumps(f)) is f
    with get_context("spawn").Pool(1) as pool:
        print(pool.apply(f, (np.zeros(3),)))
    with open(sys.argv[1], "wb") as file:
        cloudpickle.dump([f, f], file)
"""


@pytest.mark.slow
def test_functions_of_a_script_reach_other_processes(tmp_path: Path) -> None:
    """A pool finds them by name; a worker without the script gets them by value."""
    pytest.importorskip("cloudpickle")
    script, data = tmp_path / "script.py", tmp_path / "f.pickle"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(data)], capture_output=True, text=True, timeout=200
    )
    assert done.stdout.strip() == "[ 3. 11.  5.]", done.stderr
    first, second = pickle.loads(data.read_bytes())
    assert first is second and first.__doc__ == "Return a scaled sum."
    np.testing.assert_array_equal(first(np.ones(3), 3.0), [7, 19, 10])
    np.testing.assert_array_equal(first(np.zeros(3)), [3, 11, 5])
