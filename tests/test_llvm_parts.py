"""Large kernels in parts: what is divided, and the child processes that compile parts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError, CompilerWarning
from schedlang.machine.nodes import Run
from schedlang.machine.walks import walk
from schedlang.runtime import perf_map
from schedlang.runtime.llvm import dialect, parts, pool, printed
from schedlang.runtime.llvm import place as compiling
from schedlang.runtime.llvm.library import Subject
from schedlang.runtime.llvm.objects import Job, Machine
from schedlang.runtime.llvm.parts import Whole
from schedlang.runtime.llvm.pool import Pool
from schedlang.runtime.numba_internals import machine_options
from tests.test_llvm_compiler import scanned

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no signals that end a process")


class Divided:
    """What divides kernels, however small, and lets ``count`` processes compile them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch, self._folder, self._times = monkeypatch, folder, 0
        self.set()

    def set(self, large: int = 0, count: int = 3) -> None:
        """Let nests from ``large`` statements on have parts, and forget what was compiled."""
        self._times += 1
        self._monkeypatch.setenv("SCHEDLANG_CACHE", str(self._folder / str(self._times)))
        self._monkeypatch.setattr(parts, "LARGE", large)
        self._monkeypatch.setattr(parts, "ENOUGH", 1)
        self._monkeypatch.setattr(pool, "threads", lambda: count)
        key = f"{self._folder} {self._times}"
        # another key names all symbols anew
        self._monkeypatch.setattr(compiling, "_printers_key", lambda: key)

    @property
    def kept(self) -> list[Path]:
        return [*(self._folder / str(self._times)).glob("kernels/*.nbc")]


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Divided:
    return Divided(monkeypatch, tmp_path)


def network(
    rows: int = 8, **options: Any
) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return a network of several kernels, an input, and the result that NumPy has for it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 16), dtype="float32")
    X = sl.placeholder((rows, 16), name="X")
    params, H, want = {}, X, x.astype("float64")
    for n, bias in enumerate((0, 0, 1)):
        w = rng.standard_normal((16, 16), dtype="float32")
        W, k = sl.placeholder((16, 16), name=f"W{n}"), sl.reduce_axis(16, name=f"k{n}")
        params[W.name] = w
        product = sl.compute(
            (rows, 16), lambda i, j, H=H, W=W, k=k: sl.sum(H[i, k] * W[k, j], k), name=f"product{n}"
        )
        H = sl.compute(
            (rows, 16), lambda i, j, p=product, b=bias: sl.exp(p[i, j] * 0.1 - b), name=f"H{n}"
        )
        want = np.exp(want @ w * 0.1 - bias)
    k = sl.reduce_axis(16, name="k")
    total = sl.compute((rows,), lambda i: sl.sum(H[i, k], k), name="total")
    out = sl.compute((rows, 16), lambda i, j: H[i, j] / total[i], name="out")
    net = sl.network(out, params, name="net", **options)
    return net, x, want / want.sum(1, keepdims=True)


def children() -> list[str]:
    """Return the numbers of the processes that this one started."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return file.read().split()


def test_kernels_become_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels have modules of their own, with the functions that they alone call."""
    net, _, _ = network(4096)
    nest = net.module.machine_nest
    first, *others = nest.functions
    nest = nest.with_functions([first, replace(first, name="twin"), *others])
    assert Whole(nest).parts == (Whole(nest).one,)
    monkeypatch.setattr(parts, "LARGE", 0)
    monkeypatch.setattr(parts, "ENOUGH", 1)
    whole = Whole(nest)
    assert nest.entry.name in whole.parts[-1].functions and not whole.parts[-1].called
    names = [name for part in whole.parts for name in part.functions]
    assert sorted(names) == sorted(f.name for f in nest.functions if f.name != "twin")
    place = {name: k for k, part in enumerate(whole.parts) for name in part.functions}
    crossing = set()
    for name in names:
        body = whole.by_name[name].body
        calls = {s.function for s, _ in walk(body) if isinstance(s, Run)}
        crossing |= {callee for callee in calls if place[callee] != place[name]}
        if name != nest.entry.name:
            assert {place[callee] for callee in calls} <= {place[name]}
    assert crossing == {name for part in whole.parts for name in part.called}
    # the mean has a plain loop, and the products have none
    assert {part.level for part in whole.parts} == {2, 3}


@pytest.mark.slow
def test_parts_compute_what_one_module_does(divided: Divided) -> None:
    """Parts, compiled by children or here, compute the bits of one module, and NumPy's result."""
    results = []
    for large, count in ((1 << 30, 1), (0, 1), (0, 3)):
        divided.set(large, count)
        net, x, want = network(4096)
        results.append(net(x))
        np.testing.assert_allclose(results[-1], want, rtol=1e-5)
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


@pytest.mark.parametrize("moment", ["now", "background"])
def test_parts_at_each_moment(moment: str, divided: Divided) -> None:
    net, x, want = network(compile=moment)
    np.testing.assert_allclose(net(x), want, rtol=1e-5)
    assert len(divided.kept) == 1


LOADED = """
import numpy as np
from schedlang.runtime.llvm import parts, place, pool
parts.LARGE, parts.ENOUGH, pool.threads = 0, 1, lambda: 3
from tests.test_llvm_parts import network
net, x, want = network()
np.testing.assert_allclose(net(x), want, rtol=1e-5)
(known,) = place._KNOWN.values()
from schedlang.runtime.llvm.library import unpacked
print(len(unpacked(known.code)))
"""


@pytest.mark.slow
def test_parts_are_kept_in_one_file(tmp_path: Path) -> None:
    env = {**os.environ, "SCHEDLANG_CACHE": str(tmp_path)}
    run = [sys.executable, "-c", LOADED]
    places = []
    for _ in range(2):
        assert subprocess.check_output(run, env=env, text=True) == "4\n"
        (kept,) = (tmp_path / "kernels").glob("net*.nbc")
        places.append(kept.stat().st_ino)
    # the second process read it, and wrote no other one
    assert places[0] == places[1]


@pytest.mark.slow
def test_a_child_makes_the_same_object_file() -> None:
    """The bytes are those of this process, also for a team of threads that numba compiled."""
    net, _, _ = network(4096)
    subjects = [net.module.machine_nest, sl.build(scanned(8, 64)[0]).machine_nest]
    options = machine_options()
    with Pool(2, options, 2) as processes:
        for nest in subjects:
            whole = Whole(nest)
            subject = Subject("net", nest.entry.name, Path("-"), False, False, lambda n=nest: n)
            level, modules = printed.printed_part(subject, whole, whole.one, "prefix").job
            ((child,), here) = processes._children, Machine(**options)
            assert child.object_of((level, modules)) == here.object_of((level, modules))
    assert len(modules) > 1


def test_parts_have_listings_and_names_for_perf(divided: Divided) -> None:
    net, x, want = network()
    names = [function.name for function in net.module.machine_nest.functions]
    np.testing.assert_allclose(net(x), want, rtol=1e-5)
    codes = net.module._backend._runner.codes(net.module._backend._function())
    places = [place for code in codes for place in perf_map.functions_with_places(code, names)]
    assert {*names, f"{names[-1]}.from_python"} <= {name for _, _, name in places}
    ends = sorted((start, start + size) for start, size, _ in places)
    assert all(end <= start for (_, end), (start, _) in zip(ends, ends[1:]))


def test_what_llvm_refuses_in_a_child_is_named(
    divided: Divided, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(builder: Any, kind: Any, a: Any, b: Any) -> Any:
        return builder.shl(a, b)

    net, x, _ = network()
    monkeypatch.setitem(dialect.ARITHMETIC, "*", refused)
    with pytest.raises(BuildError, match="^kernel net, at .*\n.*") as refusal:
        net(x)
    assert "LLVM does not compile it (invalid operand type for instr" in str(refusal.value)
    assert not divided.kept


# a child that does something when it is sent its first job
CHILD = """
import os, signal, sys
sys.path[:0] = [{llvmlite!r}, {folder!r}]
import objects
def object_of(self, job):
    {does}
objects.Machine.object_of = object_of
objects._main()
"""


def child_that(does: str) -> list[str]:
    """Return the command of a child that does something else when it is sent a part."""
    llvmlite, folder = pool.COMMAND[-2], str(Path(pool.COMMAND[-1]).parent)
    text = CHILD.format(llvmlite=llvmlite, folder=folder, does=does)
    return [sys.executable, "-c", text]


@posix
@pytest.mark.parametrize(
    "does, how",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended by signal SIGKILL, which a system short"),
        ("raise MemoryError('no room')", "ended with status 1: MemoryError: no room"),
    ],
)
def test_the_parts_of_a_child_that_died_are_compiled_here(
    does: str, how: str, divided: Divided, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "COMMAND", child_that(does))
    object_of = Machine.object_of

    def late(self: Machine, job: Job) -> bytes:
        # so that children take parts
        time.sleep(0.1)
        return object_of(self, job)

    monkeypatch.setattr(Machine, "object_of", late)
    net, x, want = network()
    with pytest.warns(CompilerWarning, match="so that this process compiles it") as caught:
        np.testing.assert_allclose(net(x), want, rtol=1e-5)
    for warning in caught:
        message = str(warning.message)
        assert message.startswith("the process that compiled ") and how in message
        assert warning.filename == __file__
    assert len(divided.kept) == 1 and not children()


@pytest.mark.slow
@posix
def test_what_ends_llvm_is_an_error(divided: Divided, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM ends its process where it lacks memory. That would be this one."""
    lacks = """
    import resource
    text = "".join(f"@a{n} = global i32 0\\n" for n in range(400_000))
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20),) * 2)
    objects.binding.parse_assembly(text)
    """
    monkeypatch.setattr(pool, "COMMAND", child_that(lacks))
    net, x, _ = network()
    why = r"the process that compiled '\w+_kernel' ended by signal SIGABRT: LLVM ERROR: out of mem"
    asked = r"kernel net: LLVM does not compile it \("
    with pytest.raises(BuildError, match=rf"{asked}{why}ory\)"):
        net(x)
    assert not divided.kept and not children()


def test_without_children(divided: Divided, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "COMMAND", ["/no/such/python"])
    net, x, want = network()
    with pytest.warns(CompilerWarning, match="No such file or directory.*takes longer"):
        np.testing.assert_allclose(net(x), want, rtol=1e-5)


INTERRUPTED = """
import os, signal, sys, threading, time
from schedlang.runtime.llvm import parts, pool
from tests.test_llvm_parts import child_that, children, network
parts.LARGE, parts.ENOUGH, pool.threads = 0, 1, lambda: 3
pool.COMMAND = child_that("import time; time.sleep(60)")
net, x, _ = network()
net.module
threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    net(x)
except KeyboardInterrupt:
    print("interrupted", children())
"""


@posix
@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.1, 0.5, 2])
def test_an_interrupt_leaves_no_child_and_no_object_file(seconds: float, tmp_path: Path) -> None:
    env = {**os.environ, "SCHEDLANG_CACHE": str(tmp_path)}
    run = [sys.executable, "-c", INTERRUPTED, str(seconds)]
    done = subprocess.run(run, env=env, text=True, stdout=-1, timeout=50, check=True)
    assert done.stdout.strip() == "interrupted []"
    assert not [*(tmp_path / "kernels").glob("*.nbc")]
