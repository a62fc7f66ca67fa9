"""Processes that want the same kernel at the same time: one compiles it, the others load it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from schedlang.runtime import one_process as module
from schedlang.runtime.locks import fcntl
from schedlang.runtime.one_process import one_process
from tests.marks import compiles

pytestmark = pytest.mark.skipif(fcntl is None, reason="this system has no locks of files")

WORK = """
import sys, numpy as np, schedlang as sl
A = sl.placeholder((40, 40), name="A")
B = sl.compute((40, 40), lambda i, j: sl.exp(A[i, j]) + sl.sin(A[j, i]), name="B")
s = sl.schedule(B)
s[B].vectorize(s[B].split(B.op.axis[1], factor=8)[1])
how = {"target": "c"} if sys.argv[1] == "c" else {"compiler": sys.argv[1]}
f = sl.build(s, **how)
sys.stdin.readline()  # all processes go on at the same time
x = np.linspace(0, 1, 1600, dtype="float32").reshape(40, 40)
assert np.allclose(f(x), np.exp(x) + np.sin(x.T), rtol=1e-6)
compilations = {
    "c": lambda: "ran",
    "llvm": lambda: int("schedlang.runtime.llvm.printed" in sys.modules),
    "numba": lambda: f.unchecked.stats.cache_misses.total(),
}
print(compilations[sys.argv[1]]())
"""


def outputs(compiler: str, environment: dict[str, str]) -> list[str]:
    """Return what four processes print that call one kernel at the same time."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WORK, compiler], stdin=-1, stdout=-1, text=True,
            env={**os.environ, **environment},
        )
        for _ in range(4)
    ]  # fmt: skip
    time.sleep(1.5)
    return [process.communicate("go\n")[0].strip() for process in running]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["numba", "llvm"])
def test_one_process_compiles(compiler: str, tmp_path: Path) -> None:
    misses = outputs(compiler, {"SCHEDLANG_CACHE": str(tmp_path)})
    assert sorted(misses) == ["0", "0", "0", "1"]


@compiles
@pytest.mark.slow
def test_the_c_compiler_runs_once(tmp_path: Path) -> None:
    wrapper = tmp_path / "cc"
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *-lm*) echo x >> {tmp_path}/runs;; esac\nexec cc "$@"\n'
    )
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    cache = tmp_path / "cache"
    assert outputs("c", {"SCHEDLANG_CACHE": str(cache), "CC": str(wrapper)}) == ["ran"] * 4
    compilations = (tmp_path / "runs").read_text().split()
    assert len(compilations) == 1


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    source, inside, most = tmp_path / "k.py", [0], [0]
    source.write_text("")

    def run() -> None:
        with one_process(source):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.01)
            inside[0] -= 1

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_suspended_process_does_not_stop_others(tmp_path: Path) -> None:
    source = tmp_path / "k.py"
    source.write_text("")
    with one_process(source) as first, one_process(source, patience=0.05) as second:
        assert first and not second


def test_the_lock_is_free_after_an_error_and_without_a_file(tmp_path: Path) -> None:
    source = tmp_path / "k.py"
    with one_process(source):
        pass  # there is no such file
    source.write_text("")
    with pytest.raises(KeyError), one_process(source):
        raise KeyError
    started = time.monotonic()
    with one_process(source):
        assert time.monotonic() - started < module.PATIENCE / 2
