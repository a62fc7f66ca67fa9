"""Parallel loops inside of another loop, by a team of threads that starts once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import numba
import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.listing import AS_TEAM, TEAM_FOR, Launch
from schedlang.codegen.numba_launch import RUN_BY
from schedlang.runtime.files import load_kernel

TEXT = """
    from numba import njit, prange
    from schedlang.intrinsics.cpu import float32, int64, load, store

    OPTIONS = dict(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})

    @njit(**OPTIONS)
    def moved(i, A, B, n):
        store(B, i, load(A, (i*7 + 3)%n) + float32(1))

    @njit(**OPTIONS)
    def counted(i, A, B):
        store(A, i, load(A, i) + load(B, i))

    @njit(parallel=True, **OPTIONS)
    def steps_kernel(A, B, steps, n):
        for t in range(steps):
            for i in prange(n):
                moved(int64(i), A, B, n)
            for i_outer in prange(0, n, 2):
                counted(int64(i_outer), A, B)
"""


def launched(name: str, parameters: str, body: str) -> Launch:
    """Return the launch of a function whose loops a team runs, from line 1 on."""
    team = f"{RUN_BY}{name}"
    by_team = f"def {team}(__team, __thread, {parameters}):\n{body}"
    text = f"def {name}({parameters}):\n    {AS_TEAM}({team}, {parameters})"
    return Launch(name, 1, text, team, by_team)


STEPS = launched("steps_kernel", "A, B, steps, n", f"""
    for t in range(steps):
        {TEAM_FOR}(__team, __thread, moved, n, 1, A, B, n)
        {TEAM_FOR}(__team, __thread, counted, n, 2, A, B)
""")


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("team") / "steps_kernel.py"
    path.write_text(dedent(TEXT), encoding="utf-8")
    return load_kernel(path, "steps_kernel", launches=[STEPS])


def _expected(a: np.ndarray, steps: int) -> np.ndarray:
    n, a = len(a), a.copy()
    for _ in range(steps):
        b = a[(np.arange(n) * 7 + 3) % n] + np.float32(1) if n else a
        a[::2] += b[::2]
    return a


def _check(module: ModuleType, n: int, steps: int) -> None:
    a = np.arange(n, dtype="float32") % 3
    want, b = _expected(a, steps), np.zeros(n, "float32")
    module.steps_kernel(a, b, steps, n)
    np.testing.assert_array_equal(a, want)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 31, 32, 33, 1000, 70001])
def test_each_iteration_runs_once_after_the_loop_before(module: ModuleType, n: int) -> None:
    # few steps, as the values double in each
    for steps in (0, 1, 2, 17):
        _check(module, n, steps)


def test_one_thread(module: ModuleType) -> None:
    assert f"{RUN_BY}steps_kernel" in vars(module)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        _check(module, 100, 9)
    finally:
        numba.set_num_threads(before)


def test_chunks_that_a_user_asked_for(module: ModuleType) -> None:
    """They are of numba's own loops: a team has one range for each thread."""
    before = numba.set_parallel_chunksize(8)
    try:
        _check(module, 100, 9)
        assert numba.get_parallel_chunksize() == 8
    finally:
        numba.set_parallel_chunksize(before)


def test_calls_at_once(module: ModuleType) -> None:
    if numba.threading_layer() == "workqueue":
        pytest.skip("numba's workqueue runs one loop at a time")
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(_check, module, n, 12) for n in (5, 50, 500, 5000) * 8]:
            done.result()


def test_memory_that_there_is_not(tmp_path: Path) -> None:
    """An error that the kernel raises on a thread of the team reaches the caller."""
    path = tmp_path / "large_kernel.py"
    text = TEXT[: TEXT.index("    @njit(parallel=True")].replace("load,", "heap_array, load,") + """
    @njit(parallel=True, **OPTIONS)
    def large_kernel(A, steps, n):
        B = heap_array(n, float32)
        for t in range(steps):
            for i in prange(4):
                moved(int64(i), A, B, 4)
    """
    path.write_text(dedent(text), encoding="utf-8")
    launch = launched("large_kernel", "A, steps, n", f"""
    B = heap_array(n, float32)
    for t in range(steps):
        {TEAM_FOR}(__team, __thread, moved, 4, 1, A, B, 4)
    """)
    kernel = load_kernel(path, "large_kernel", launches=[launch]).large_kernel
    a = np.ones(4, "float32")
    kernel(a, 3, 4)
    with pytest.raises(MemoryError, match="no memory for the arrays of a kernel"):
        kernel(a, 3, 1 << 55)


def test_machine_code_from_the_disk(module: ModuleType) -> None:
    _check(module, 10, 3)
    del sys.modules[module.__name__]
    again = load_kernel(Path(module.__file__ or ""), "steps_kernel", launches=[STEPS])
    _check(again, 10, 3)
    assert not again.steps_kernel.stats.cache_misses


def test_a_scan() -> None:
    """Steps with a parallel loop, and storage of the kernel on its heap and stack."""
    S = sl.placeholder((40, 300), name="S")
    first = sl.compute((1, 300), lambda t, i: sl.cast(i, "float32"), name="first")
    twice = sl.compute((40, 300), lambda t, i: S[t - 1, 299 - i] * 0.5, name="twice")
    step = sl.compute((40, 300), lambda t, i: twice[t, (i + 1) % 300] + 1, name="step")
    y = sl.scan(first, step, S, name="y")
    s = sl.schedule(y)
    s[twice].parallel(twice.op.axis[1])
    s[step].parallel(s[step].split(step.op.axis[1], factor=16)[0])
    kernel = sl.build(s, [y], compiler="numba")
    want = np.arange(300, dtype="float32")
    got = kernel()
    for t in range(40):
        np.testing.assert_array_equal(got[t], want)
        want = (want[::-1] * np.float32(0.5))[(np.arange(300) + 1) % 300] + np.float32(1)
