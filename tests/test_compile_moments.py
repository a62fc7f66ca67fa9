"""``compile="lazy"``, ``"now"`` and ``"background"``: when kernels and networks are compiled."""

from __future__ import annotations

import copy
import pickle
import shutil
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError
from schedlang.runtime.background import MOMENTS, compile_at
from schedlang.runtime.cache_files import COMPILED, LIBRARY

SIZE = 32
GIVEN = np.linspace(-2, 2, SIZE, dtype="float32")
SOON = 60.0
needs_c = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)
needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="os.fork is needed")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))


def doubled(number: float = 2.0, name: str = "doubled", **options: Any) -> sl.Kernel:
    A = sl.placeholder((SIZE,), name="A")
    B = sl.compute((SIZE,), lambda i: A[i] * number, name=name)
    return sl.build(sl.schedule(B), **options)


def small_network(name: str = "small", **options: Any) -> Any:
    X, W = sl.placeholder((4, SIZE), name="X"), sl.placeholder((8, SIZE), name="W")
    h = sl.topi.nn.relu(sl.named("fc", sl.topi.nn.dense(X, W)))
    weights = np.linspace(-1, 1, 8 * SIZE, dtype="float32").reshape(8, SIZE)
    return sl.network(sl.topi.nn.softmax(h), {W: weights}, name=name, **options)


def expected(x: np.ndarray) -> np.ndarray:
    """Return what the small network computes."""
    weights = np.linspace(-1, 1, 8 * SIZE, dtype="float32").reshape(8, SIZE)
    e = np.exp(np.maximum(x.astype("float64") @ weights.T, 0))
    return e / e.sum(axis=1, keepdims=True)


def machine_code(path: str) -> list[Path]:
    """Return the files of the cache folder with machine code of a source."""
    there = Path(path).parent.glob(f"{Path(path).stem}.*")
    return [p for p in there if p.suffix in (COMPILED.suffix, LIBRARY.suffix)]


def wait_for(path: str) -> None:
    """Wait until the machine code of a source is in the cache folder."""
    end = time.monotonic() + SOON
    while not machine_code(path):
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_for_the_end() -> None:
    """Wait until the thread has no more jobs."""
    end = time.monotonic() + SOON
    while any(t.name == "schedlang-compile" for t in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)


class Blocked:
    """A job whose only step lasts until :meth:`end`, so that others wait behind it."""

    def __init__(self) -> None:
        self._began, self._ends = threading.Event(), threading.Event()
        compile_at("background", [self._step])
        assert self._began.wait(SOON)

    def _step(self) -> None:
        self._began.set()
        self._ends.wait(SOON)

    def end(self) -> None:
        self._ends.set()


TARGETS = [
    pytest.param({"compiler": "numba"}, id="numba"),
    pytest.param({"compiler": "llvm"}, id="llvm"),
    pytest.param({"target": "c"}, id="c", marks=needs_c),
]


@pytest.mark.parametrize("options", TARGETS)
def test_a_kernel_is_compiled_when_it_was_asked(options: dict[str, Any]) -> None:
    lazy = doubled(2.0, **options)
    assert not machine_code(lazy.path)
    now = doubled(3.0, compile="now", **options)
    assert machine_code(now.path)
    behind = doubled(4.0, compile="background", **options)
    wait_for(behind.path)
    for f, number in ((lazy, 2), (now, 3), (behind, 4)):
        np.testing.assert_array_equal(f(GIVEN), GIVEN * number)
        assert len(machine_code(f.path)) == 1


@pytest.mark.parametrize("target", ["python", "cuda-emulator"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_every_target_takes_every_moment(target: str, moment: str) -> None:
    A = sl.placeholder((SIZE,), name="A")
    B = sl.compute((SIZE,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    if target != "python":
        s[B].bind(B.op.axis[0], "threadIdx.x")
    f = sl.build(s, target=target, compile=moment)
    np.testing.assert_array_equal(f(GIVEN), GIVEN * 2)


@pytest.mark.parametrize("options", TARGETS)
def test_a_call_waits_for_the_thread_that_compiles_its_kernel(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from schedlang.runtime import c_library, cache_files, numba_cache
    from schedlang.runtime.llvm import together

    threads: list[str] = []

    def store(*args: Any) -> Any:
        if args[0] in (COMPILED, LIBRARY):
            threads.append(threading.current_thread().name)
        return cache_files.store(*args)

    for module in (c_library, numba_cache, together):
        monkeypatch.setattr(module, "store", store)
    f = doubled(5.0, compile="background", **options)
    callers = [threading.Thread(target=f, args=(GIVEN,)) for _ in range(3)]
    for caller in callers:
        caller.start()
    np.testing.assert_array_equal(f(GIVEN), GIVEN * 5)
    for caller in callers:
        caller.join()
    wait_for_the_end()
    assert len(threads) == 1


def test_a_call_does_not_wait_for_other_kernels() -> None:
    blocked = Blocked()
    try:
        f = doubled(6.0, compile="background")
        np.testing.assert_array_equal(f(GIVEN), GIVEN * 6)
        x = np.stack([GIVEN] * 4)
        net = small_network(compile="background")
        np.testing.assert_allclose(net(x), expected(x), rtol=1e-5)
    finally:
        blocked.end()


@needs_c
def test_an_error_of_the_thread_is_raised_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    f, net = doubled(target="c", compile="background"), small_network(target="c")
    with pytest.raises(BuildError, match="no-such-compiler"):
        doubled(target="c", compile="now")
    with pytest.raises(BuildError, match="no-such-compiler"):
        small_network(target="c", compile="now")
    for run in (lambda: f(GIVEN), lambda: net(np.zeros((4, SIZE), "float32"))):
        for _ in range(2):
            with pytest.raises(BuildError, match="no-such-compiler") as caught:
                run()
            frames = traceback.extract_tb(caught.value.__traceback__)
            assert frames[0].filename == __file__ and "background" not in str(frames)
    monkeypatch.delenv("CC")
    np.testing.assert_array_equal(f(GIVEN), GIVEN * 2)


def test_the_thread_goes_on_after_an_error_and_ends_when_all_is_done() -> None:
    def fail() -> None:
        raise ValueError("in the thread")

    done = threading.Event()
    compile_at("background", [fail, pytest.fail])
    compile_at("background", [done.set])
    assert done.wait(SOON)
    wait_for_the_end()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_network_is_made_when_it_was_asked(moment: str, tmp_path: Path) -> None:
    x = np.stack([GIVEN, -GIVEN, GIVEN * 2, GIVEN / 2])
    net = small_network(moment, compile=moment)
    # parts may be read while the thread works
    assert [part.name for part in net.partition] == ["fc", "softmax"]
    module = net.module
    assert bool(machine_code(module.path)) or moment != "now"
    if moment == "background":
        wait_for(module.path)
    np.testing.assert_allclose(net(x), expected(x), rtol=1e-5)
    again = sl.load(net.save(tmp_path / "saved"), compile=moment)
    np.testing.assert_allclose(again(x), expected(x), rtol=1e-5)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(net))(x), expected(x), rtol=1e-5)


@pytest.mark.parametrize("moment", MOMENTS)
def test_kernels_are_pickled_and_copied_whatever_the_moment(moment: str) -> None:
    f = doubled(7.0, compile=moment)
    for other in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f), f):
        np.testing.assert_array_equal(other(GIVEN), GIVEN * 7)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_traced_function_is_compiled_when_it_was_asked(moment: str) -> None:
    @sl.jit(compile=moment)
    def scaled(x: Any) -> Any:
        return x * 3 + 1

    (kernel,) = scaled.specialized(GIVEN).kernels
    assert bool(machine_code(kernel.path)) == (moment == "now") or moment == "background"
    np.testing.assert_allclose(scaled(GIVEN), GIVEN * 3 + 1, rtol=1e-6)


@pytest.mark.parametrize("bad", ["NOW", "", None, True, ["now"], "at once"])
def test_another_moment_is_refused_at_the_call(bad: Any, tmp_path: Path) -> None:
    A = sl.placeholder((4,), name="A")
    for asked, call in {
        "sl.build": lambda: doubled(compile=bad),
        "sl.network": lambda: sl.network(A * 2, compile=bad),
        "sl.load": lambda: sl.load(tmp_path / "none", compile=bad),
        "sl.jit": lambda: sl.jit(lambda x: x, compile=bad),
    }.items():
        with pytest.raises(BuildError) as caught:
            call()
        text = str(caught.value)
        assert text.startswith(f"{asked}(..., compile={bad!r}): ")
        assert all(f'"{moment}"' in text for moment in MOMENTS)


# what hangs says where, before the test ends it
HEAD = f"""
import faulthandler; faulthandler.dump_traceback_later({SOON - 10})
""" + """
import os, sys, threading, time
import numpy as np, schedlang as sl
from schedlang.runtime.background import compile_at
def doubled(name="B", **options):
    A = sl.placeholder((4,), name="A")
    return sl.build(sl.schedule(sl.compute((4,), lambda i: A[i] * 2, name=name)), **options)
began = threading.Event()
def slow():
    began.set()
    time.sleep(0.5)
    print("slow", flush=True)
"""


def run(code: str, first: str = "") -> list[str]:
    """Return the lines that a script prints, which must say nothing on standard error."""
    ran = subprocess.run(
        [sys.executable, "-c", first + HEAD + code], capture_output=True, text=True, timeout=SOON
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


@pytest.mark.slow
def test_the_end_of_a_process_waits_for_the_step_that_runs_and_for_no_other() -> None:
    code = """
options = {"target": "python", "compile": "background"}
later.append(lambda: print(doubled(**options)(np.ones(4, "float32")).tolist()))
compile_at("background", [slow, lambda: print("never")])
compile_at("background", [lambda: print("never")])
began.wait()
"""
    # the handler of the script was registered first, and runs behind the wait
    first = "import atexit\nlater = []\natexit.register(lambda: later[0]())\n"
    assert run(code, first) == ["slow", "[2.0, 2.0, 2.0, 2.0]"]


@pytest.mark.slow
def test_a_process_that_ends_while_it_compiles_ends_well() -> None:
    assert run("""
for k in range(3):
    doubled(name=f"kernel_{k}", compile="background")
print("end")
""") == ["end"]


@pytest.mark.slow
def test_threads_that_compile_the_first_kernels_of_a_process() -> None:
    lines = run("""
kernels = [
    doubled(f"kernel_{k}", compile="background", compiler=("llvm", "numba")[k % 2])
    for k in range(6)
]
results = []
def call(k):
    results.append((k, kernels[k](np.ones(4, "float32")).tolist()))
threads = [threading.Thread(target=call, args=(k,)) for k in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for k, result in sorted(results):
    print(k, result)
""")
    assert lines == [f"{k} [2.0, 2.0, 2.0, 2.0]" for k in range(6)]


@pytest.mark.slow
def test_a_kernel_waits_while_numba_makes_its_context_in_another_thread() -> None:
    """The context takes the lock of the compiler, and its first use another one around that."""
    lines = run("""
from numba.core import base
begin = base.BaseContext.__init__
def slow_begin(*args):
    began.set()
    time.sleep(0.5)
    begin(*args)
base.BaseContext.__init__ = slow_begin
first, second = (doubled(c, compiler=c) for c in ("numba", "llvm"))
thread = threading.Thread(target=first, args=(np.ones(4, "float32"),))
thread.start()
began.wait()
print(second(np.ones(4, "float32")).tolist())
thread.join()
""")
    assert lines == ["[2.0, 2.0, 2.0, 2.0]"]


@pytest.mark.slow
@needs_fork
def test_a_fork_waits_for_the_step_that_runs_and_the_child_compiles_itself() -> None:
    lines = run("""
compile_at("background", [slow])
f = doubled(compile="background")
began.wait()
child = os.fork()
if child == 0:
    print("child", f(np.ones(4, "float32")).tolist(), flush=True)
    g = doubled(name="other", compile="background")
    print("child", g(np.ones(4, "float32")).tolist(), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent", f(np.ones(4, "float32")).tolist())
""")
    assert lines == ["slow", *["child [2.0, 2.0, 2.0, 2.0]"] * 2, "parent [2.0, 2.0, 2.0, 2.0]"]


@needs_fork
def test_a_fork_waits_for_a_step_that_needs_what_other_hooks_lock() -> None:
    # before the fork, logging takes a lock that the import needs
    lines = run("""
def step():
    began.set()
    time.sleep(0.2)
    import logging
    logging.getLogger("numba.core")
    print("step", flush=True)
compile_at("background", [step])
began.wait()
if os.fork() == 0:
    os._exit(0)
print(os.wait()[1])
""")
    assert lines == ["step", "0"]


@pytest.mark.slow
@needs_fork
def test_a_fork_under_the_lock_of_a_network_does_not_wait_for_its_steps() -> None:
    lines = run("""
X = sl.placeholder((4,), name="X")
net = sl.network(sl.named("double", X * 2))
def within(now):
    # another thread has the network, whose thread in the background tries it again and again
    compile_at("background", net._steps())
    time.sleep(0.2)
    if os.fork() == 0:
        print("child", flush=True)
        os._exit(0)
    os.wait()
    return now
net._having(within)
print(net(np.ones(4, "float32")).tolist())
""")
    assert lines == ["child", "[2.0, 2.0, 2.0, 2.0]"]
