"""Kernels of a traced function and parts of a network compile while others are prepared."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, CompilerWarning
from schedlang.networks.prepare import Prepared
from schedlang.runtime.llvm import parts, pool, together
from schedlang.runtime.llvm import place as compiling
from schedlang.runtime.llvm.pool import Pool, Task
from schedlang.runtime.one_process import one_process
from schedlang.runtime.together import compile_together
from schedlang.tracing import specialization
from tests.test_llvm_parts import child_that, children

pytestmark = pytest.mark.slow

# iterations of so many elements run on the host, each as a kernel
SIZE = 520


def power(a: Any, x: Any) -> Any:
    """Return the result of two loops, with kernels before, in and after them."""
    y = a @ x
    y = sl.fori_loop(0, 3, lambda k, y: a @ y / np.max(np.abs(y)), y)
    z = sl.fori_loop(0, 2, lambda k, z: np.tanh(z @ a), np.exp(y))
    return y * z + np.sum(z)


def by_numpy(a: Any, x: Any) -> Any:
    y = a @ x
    for _ in range(3):
        y = a @ y / np.max(np.abs(y))
    z = np.exp(y)
    for _ in range(2):
        z = np.tanh(z @ a)
    return y * z + np.sum(z)


class Compiling:
    """A cache folder of its own for each test, and the jobs of all pools."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder, self.jobs = folder, list[str]()
        self._before = set(children())
        monkeypatch.setenv("SCHEDLANG_CACHE", str(folder))
        monkeypatch.setattr(pool, "threads", lambda: 3)
        # another key names all symbols anew
        monkeypatch.setattr(compiling, "_printers_key", lambda: str(folder))
        submit = Pool.submit

        def noted(pool: Pool, job: Any, what: str) -> Task:
            self.jobs.append(what)
            return submit(pool, job, what)

        monkeypatch.setattr(Pool, "submit", noted)

    @property
    def children(self) -> set[str]:
        """The processes that this one has started since, by their numbers."""
        return set(children()) - self._before

    @property
    def kept(self) -> list[Path]:
        return [*self.folder.glob("kernels/*.nbc")]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiling:
    # the choice of schedules takes longer than all else
    monkeypatch.setattr(specialization, "schedule_for", lambda outputs, *_: sl.schedule([*outputs]))
    return Compiling(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def given() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return (rng.standard_normal((SIZE, SIZE)) / 50, rng.standard_normal(SIZE))


def check(function: Any, given: tuple[Any, Any]) -> None:
    np.testing.assert_allclose(function(*given), by_numpy(*given), rtol=1e-9)


def test_a_call_compiles_its_kernels_together(
    seen: Compiling, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule_for, jobs, kept = specialization.schedule_for, [], []

    def noted(*args: Any) -> Any:
        end = monotonic() + 20
        while jobs and not seen.kept and monotonic() < end:
            # another process compiles the first kernel, and the cache has it at once
            sleep(0.01)
        jobs.append(len(seen.jobs))
        kept.append(len(seen.kept))
        return schedule_for(*args)

    monkeypatch.setattr(specialization, "schedule_for", noted)
    f = sl.jit(power)
    check(f, given)
    assert len(f.kernels) == 5
    assert jobs == [0, 1, 2, 3, 4] and kept[:2] == [0, 1]
    assert len(seen.jobs) == len(seen.kept) == 5
    assert not seen.children


def test_nothing_is_compiled_before_a_call(seen: Compiling, given: Any) -> None:
    f = sl.jit(power)
    f.specialized(*given)
    assert not seen.jobs and not seen.kept
    check(f, given)
    assert len(seen.kept) == 5


def test_compile_now(seen: Compiling, given: Any) -> None:
    f = sl.jit(power, compile="now")
    f.specialized(*given)
    assert len(seen.jobs) == len(seen.kept) == 5
    check(f, given)
    assert len(seen.jobs) == 5


def test_compile_in_the_background(seen: Compiling, given: Any) -> None:
    f = sl.jit(power, compile="background")
    check(f, given)
    assert len(seen.jobs) == len(seen.kept) == 5


def test_a_full_cache_starts_no_process(
    seen: Compiling, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(sl.jit(power), given)
    # which would warn
    monkeypatch.setattr(pool, "COMMAND", ["/no/such/python"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(sl.jit(power), given)
        monkeypatch.setattr(compiling, "_KNOWN", {})
        check(sl.jit(power), given)
    assert len(seen.jobs) == 5


def test_equal_kernels_are_compiled_once(seen: Compiling) -> None:
    A = sl.placeholder((9,), name="A")
    s = sl.schedule(sl.compute((9,), lambda i: A[i] * 3, name="B"))
    first, second = (sl.build(s, name="tripled") for _ in range(2))
    with compile_together(2) as begin:
        begin(first)
        begin(second)
    assert len(seen.jobs) == len(seen.kept) == 1
    x = np.arange(9, dtype="float32")
    for f in (first, second):
        np.testing.assert_array_equal(f(x), 3 * x)
    assert len(seen.jobs) == 1


def test_what_was_compiled_meanwhile_is_not_compiled_again(seen: Compiling) -> None:
    """Another thread compiles the kernel between the look into the cache and the lock."""
    A = sl.placeholder((9,), name="A")
    f = sl.build(sl.schedule(sl.compute((9,), lambda i: A[i] * 4, name="B")))
    place = compiling.place_of(f.subject)
    f.compile()
    with together.Together(1) as several:
        several.add(place)
    assert len(seen.jobs) == len(seen.kept) == 1


def test_the_kernels_of_a_child_that_died_are_compiled_here(
    seen: Compiling, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "COMMAND", child_that("raise SystemExit(3)"))
    with pytest.warns(CompilerWarning, match="so that this process compiles it"):
        check(sl.jit(power), given)
    assert len(seen.kept) == 5


def test_without_children(seen: Compiling, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "threads", lambda: 1)
    check(sl.jit(power), given)
    assert len(seen.kept) == 5


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_what_another_process_compiles_is_left_to_it(
    seen: Compiling, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No kernel waits for another process while kernels of this one are held."""
    f = sl.jit(power)
    first = f.specialized(*given).kernels[0]
    add, left = together.Together.add, []

    def noted(self: together.Together, place: Any) -> None:
        before = len(seen.jobs)
        add(self, place)
        left.append(len(seen.jobs) == before)

    monkeypatch.setattr(together.Together, "add", noted)
    with one_process(Path(first.path)) as held:
        assert held
        waiting = Thread(target=check, args=(sl.jit(power), given))
        waiting.start()
        while len(seen.kept) < 4 and waiting.is_alive():
            waiting.join(0.05)
        assert not Path(first.path).with_suffix(".nbc").exists() and waiting.is_alive()
    waiting.join()
    assert left == [True, False, False, False, False] and len(seen.kept) == 5


def test_an_error_while_scheduling_ends_the_processes(
    seen: Compiling, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule_for, count = specialization.schedule_for, iter(range(9))

    def failing(*args: Any) -> Any:
        if next(count) == 2:
            raise KeyboardInterrupt
        return schedule_for(*args)

    monkeypatch.setattr(specialization, "schedule_for", failing)
    f = sl.jit(power)
    with pytest.raises(KeyboardInterrupt):
        f(*given)
    assert len(seen.jobs) == 2 and not seen.children
    # no lock is held
    check(f, given)
    assert len(seen.kept) == 5


def a_network(**options: Any) -> tuple[sl.Network, Any, Any]:
    """Return a network of two kernels, an input, and NumPy's result."""
    rng = np.random.default_rng(1)
    x, w, v = (rng.standard_normal(n, "float32") for n in ((9, 8), (8, 8), (8,)))
    X, W, V = (sl.placeholder(a.shape, name=name) for a, name in ((x, "X"), (w, "W"), (v, "V")))
    # computed from a weight alone, so ahead of all calls
    scaled = sl.compute((8,), lambda i: V[i] * 3, name="scaled")
    k, m = sl.reduce_axis(8, name="k"), sl.reduce_axis(8, name="m")
    H = sl.compute((9, 8), lambda i, j: sl.sum(X[i, k] * W[k, j], k), name="H")
    out = sl.compute((9,), lambda i: sl.sum(H[i, m] * scaled[m], m), name="out")
    return sl.network(out, {"W": w, "V": v}, name="net", **options), x, x @ w @ (v * 3)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of any size has parts."""
    monkeypatch.setattr(parts, "LARGE", 0)
    monkeypatch.setattr(parts, "ENOUGH", 1)


def while_weights(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let a network act before it computes its weights."""
    values = Prepared.values

    def later(self: Prepared) -> Any:
        act()
        return values(self)

    monkeypatch.setattr(Prepared, "values", later)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("moment", ["lazy", "now"])
def test_a_network_computes_its_weights_while_processes_compile_it(
    seen: Compiling, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    jobs = []

    def wait() -> None:
        jobs.append(len(seen.jobs))
        end = monotonic() + 20
        while not seen.kept and monotonic() < end:
            sleep(0.01)

    while_weights(monkeypatch, wait)
    net, x, want = a_network(compile=moment)
    assert len(seen.kept) == (moment == "now")
    for _ in range(2):
        np.testing.assert_allclose(net(x), want, rtol=1e-4)
    # the entry, and the kernels
    assert jobs == [3] and len(seen.jobs) == 3 and len(seen.kept) == 1
    assert not seen.children


@pytest.mark.usefixtures("in_parts")
def test_the_module_of_a_network_is_not_compiled_before_a_call(seen: Compiling) -> None:
    net, x, want = a_network()
    assert net.module.source and net.weights and not seen.jobs and not seen.kept
    np.testing.assert_allclose(net(x), want, rtol=1e-4)
    assert len(seen.kept) == 1


@pytest.mark.usefixtures("in_parts")
def test_an_error_in_the_weights_ends_the_processes(
    seen: Compiling, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    net, x, want = a_network()
    with monkeypatch.context() as context:
        # the processes never answer
        context.setattr(pool, "COMMAND", child_that("import time; time.sleep(60)"))
        while_weights(context, interrupt)
        with pytest.raises(KeyboardInterrupt):
            net(x)
    assert seen.jobs and not seen.children and not seen.kept
    # no lock is held
    np.testing.assert_allclose(net(x), want, rtol=1e-4)


def test_a_network_of_one_part_is_compiled_here(
    seen: Compiling, monkeypatch: pytest.MonkeyPatch
) -> None:
    # which would warn
    monkeypatch.setattr(pool, "COMMAND", ["/no/such/python"])
    net, x, want = a_network()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(net(x), want, rtol=1e-4)
    assert len(seen.jobs) == len(seen.kept) == 1


@pytest.mark.usefixtures("in_parts")
def test_a_call_with_wrong_arguments_raises_as_before(seen: Compiling) -> None:
    net, x, want = a_network()
    with pytest.raises(CallError):
        net(x[:3])
    np.testing.assert_allclose(net(x), want, rtol=1e-4)
    assert len(seen.kept) == 1
