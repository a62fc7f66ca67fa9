"""Callable packages pickle by name, as functions do."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.callable_module import CallableModule

PACKAGES = ["compute", "schedule", "autotune"]


def test_every_callable_package_is_listed() -> None:
    """The list of callable packages is complete."""
    found = {n for n in dir(sl) if isinstance(getattr(sl, n), CallableModule)}
    assert set(PACKAGES) <= found
    for name in found:
        assert pickle.loads(pickle.dumps(getattr(sl, name))) is getattr(sl, name)


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_and_copy_return_the_package(name: str, protocol: int) -> None:
    package = getattr(sl, name)
    assert pickle.loads(pickle.dumps(package, protocol)) is package
    # the pickler written in Python takes another path
    assert pickle.loads(pickle._dumps(package, protocol)) is package  # type: ignore[attr-defined]
    assert copy.copy(package) is copy.deepcopy(package) is package


@pytest.mark.skipif(find_spec("cloudpickle") is None, reason="cloudpickle is not installed")
@pytest.mark.parametrize("name", PACKAGES)
def test_cloudpickle_returns_the_package(name: str) -> None:
    cloudpickle = import_module("cloudpickle")
    package = getattr(sl, name)
    data = cloudpickle.dumps((package, lambda: package))
    found, made = pickle.loads(data)
    assert found is package and made() is package


def test_a_process_without_the_import_unpickles_the_package(tmp_path: Path) -> None:
    data = tmp_path / "compute.pickle"
    data.write_bytes(pickle.dumps(sl.compute))
    code = f"import pickle; print(pickle.load(open({str(data)!r}, 'rb')).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "schedlang.compute", done.stderr


def test_a_process_pool_calls_the_package() -> None:
    """A pool runs ``sl.schedule``, as ``client.submit(sl.schedule, C)`` does on a cluster."""
    A = sl.placeholder((3,), name="A")
    C = sl.compute((3,), lambda i: A[i] * 2, name="C")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        s = pool.submit(sl.schedule, C).result(120)
    f = sl.build(s, target="python")
    np.testing.assert_array_equal(f(np.ones(3, "float32")), np.full(3, 2, "float32"))
