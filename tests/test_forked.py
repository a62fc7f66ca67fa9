"""Tests of processes forked after a parallel kernel ran, which GNU OpenMP would abort."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.marks import slow_but

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

KERNELS = """
import multiprocessing, os, warnings
import numpy as np
import schedlang as sl
import schedlang.runtime.ceilings
from schedlang.errors import ForkWarning

# the ceilings of this machine need not be accurate here
schedlang.runtime.ceilings.SAMPLE_SECONDS = 0.05

def times(factor, dtype="float32"):
    A = sl.placeholder((1024,), name="A", dtype=dtype)
    B = sl.compute((1024,), lambda i: A[i] * factor, name="B")
    s = sl.schedule(B)
    outer, inner = s[B].split(B.op.axis[0], 64)
    s[B].parallel(outer)
    return sl.build(s, compiler=os.environ["COMPILER"])

a = np.arange(1024, dtype="float32")
double = times(2)
"""
POOL = (
    KERNELS
    + """
other = times(3)

def work(k):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        twice = double(a + k)
        # a kernel compiled in neither process, and the unchecked function
        thrice = other(a + k)
        flat = np.empty(1024, "float32")
        double.unchecked(a, flat)
    told = [w.category for w in said]
    return twice, thrice, flat, told

def seconds():
    return sl.evaluate(double, a, repeat=1, min_time=0.0).seconds

def check(warned, timed=False):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for k, (twice, thrice, flat, told) in enumerate(pool.map(work, range(2))):
            np.testing.assert_array_equal(twice, (a + k) * 2)
            np.testing.assert_array_equal(thrice, (a + k) * 3)
            np.testing.assert_array_equal(flat, a * 2)
            assert told == [ForkWarning] * (warned and k == 0), told
        # it also measures the ceilings of the machine
        assert not timed or pool.apply(seconds) > 0
"""
)


def run(script: str, **env: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "COMPILER": "numba", **env},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.strip() == "done", done.stdout + done.stderr


@pytest.mark.parametrize("compiler", slow_but(["llvm"], ["numba", "llvm"]))
def test_fork_after_a_parallel_kernel_has_run(compiler: str) -> None:
    """Children run parallel kernels on one thread; the parent keeps its threads."""
    script = """
np.testing.assert_array_equal(double(a), a * 2)
from numba.np.ufunc import omppool, parallel
check(parallel.threading_layer() == "omp" and omppool.openmp_vendor == "GNU", timed=True)
np.testing.assert_array_equal(double(a), a * 2)
print("done")
"""
    run(POOL + script, COMPILER=compiler)


@pytest.mark.parametrize("compiler", slow_but(["llvm"], ["numba", "llvm"]))
def test_fork_before_any_parallel_kernel_has_run(compiler: str) -> None:
    """Children start threads of their own."""
    script = "check(False); np.testing.assert_array_equal(double(a), a * 2); print('done')"
    run(POOL + script, COMPILER=compiler)


@pytest.mark.slow
def test_layers_that_survive_a_fork_keep_their_threads() -> None:
    script = "np.testing.assert_array_equal(double(a), a * 2); check(False); print('done')"
    run(POOL + script, NUMBA_THREADING_LAYER="workqueue")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_kernels_run_in_workers_of_a_data_loader() -> None:
    script = """
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, k):
        return double(torch.full((1024,), float(k)))

double(a)
rows = torch.cat(list(DataLoader(Rows(), num_workers=1, multiprocessing_context="fork")))
assert rows.shape == (4, 1024) and bool((rows == 2 * torch.arange(4.0)[:, None]).all())
print("done")
"""
    run(KERNELS + script)
