"""Damaged files of the cache folder: each kind is made again, and a warning names the file."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import binding
from llvmlite.binding.newpassmanagers import ModulePassManager
from numba.core.codegen import JITCPUCodegen

import schedlang as sl
from schedlang import topi
from schedlang.errors import BuildError, CacheWarning
from schedlang.runtime import cache_files, files
from schedlang.runtime.cache_files import KINDS, WEIGHTS, Kind, contents, memory_map, store
from schedlang.runtime.llvm import place
from tests.marks import compiles

CONTENT = bytes(range(256)) * 3
X = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
W = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache folder of its own."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "cache"


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


def damages(content: bytes) -> Iterator[bytes]:
    """Yield what a full disk, a killed process and a bad sector leave of a file."""
    yield from (b"", b"\xff\xfe garbage \x00", content[: len(content) // 2], content[:-1])
    yield from (content + b"\0", bytes(len(content)))
    for share in (0.0, 0.1, 0.35, 0.6, 0.9, 0.99):
        yield flipped(content, int(share * len(content)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
def test_what_was_stored_is_read(kind: Kind) -> None:
    path = kind.path("one")
    assert contents(kind, path) is None and memory_map(kind, path) is None
    digest = store(kind, path, CONTENT)
    read = memory_map(kind, path)
    assert read is not None and digest == read.digest
    assert contents(kind, path) == CONTENT == bytes(read.content)
    assert store(kind, path, np.arange(3, dtype="int32")) != digest
    assert contents(kind, path) == np.arange(3, dtype="int32").tobytes()
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("read", [contents, memory_map], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
def test_each_cut_and_each_flipped_byte_is_seen(kind: Kind, read: Callable[..., Any]) -> None:
    path = kind.path("one")
    store(kind, path, CONTENT)
    whole = path.read_bytes()
    cut = [whole[:n] for n in range(0, len(whole), 7)]
    for damage in (*cut, *(flipped(whole, n) for n in range(0, len(whole), 5))):
        path.write_bytes(damage)
        with pytest.warns(CacheWarning, match=f"{kind.what} .*{path.name}.*it is made again"):
            assert read(kind, path) is None
        assert not path.exists()
    assert read(kind, path) is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
def test_a_folder_in_place_of_a_file_keeps_its_files(kind: Kind) -> None:
    path = kind.path("one")
    path.mkdir(parents=True)
    (path / "notes.txt").write_text("mine")
    with pytest.warns(CacheWarning, match=path.name):
        assert contents(kind, path) is None
    store(kind, path, CONTENT)
    assert contents(kind, path) == CONTENT
    (moved,) = path.parent.glob(f"{path.name}.moved-*/notes.txt")
    assert moved.read_text() == "mine"


# a kernel or a network of each kind of file: its build, and its result


def product(target: str, compiler: str | None = None) -> Callable[[], np.ndarray]:
    def run() -> np.ndarray:
        A, B = sl.placeholder(X.shape, name="A"), sl.placeholder(W.shape, name="B")
        k = sl.reduce_axis(8, name="k")
        C = sl.compute((4, 5), lambda i, j: sl.sum(A[i, k] * B[j, k], axis=k), name="C")
        s = sl.schedule(C)
        s[C].parallel(C.op.axis[0])
        result: np.ndarray = sl.build(s, [A, B, C], target=target, compiler=compiler)(
            X, W
        )
        return result

    return run


def network(target: str) -> Callable[[], np.ndarray]:
    def run() -> np.ndarray:
        x, w = sl.placeholder(X.shape, name="x"), sl.placeholder(W.shape, name="w")
        out = sl.named("fc", topi.nn.dense(x, w))
        result: np.ndarray = sl.network(out, {w: W}, target=target)(X)
        return result

    return run


def counted() -> np.ndarray:
    """Count the loads of a kernel, by an instrumented file that numba compiles."""
    A = sl.placeholder(X.shape, name="A")
    B = sl.compute(X.shape, lambda i, j: A[i, j] + 1, name="B")
    counters = sl.build(sl.schedule(B), [A, B]).counters(X)
    return np.full((4, 5), counters.total.loads) + X @ W.T - X.size


CASES = {
    "source": (product("python"), "kernels/*.py"),
    "bytecode": (product("python"), "kernels/*.pyc"),
    "source of a network": (network("python"), "kernels/*.py"),
    "module": (network("python"), "networks/*.json"),
    "weights": (network("python"), "networks/*.weights"),
    "C source": (product("c"), "kernels/*.c"),
    "library": (product("c"), "kernels/*.so"),
    "library of a network": (network("c"), "kernels/*.so"),
    "compiled by numba": (product("cpu", "numba"), "kernels/*.nbc"),
    "compiled by LLVM": (product("cpu", "llvm"), "kernels/*.nbc"),
    "compiled network": (network("cpu"), "kernels/*.nbc"),
    "compiled with counts": (counted, "kernels/B_counted_*.nbc"),
}
COMPILED = {"compiled by numba", "compiled by LLVM", "library"}
SLOW = {
    "compiled by numba", "compiled network", "compiled with counts", "library of a network",
    "source of a network", "module", "C source", "library",
}  # fmt: skip


def as_in_a_new_process(run: Callable[[], np.ndarray]) -> np.ndarray:
    """Run without the emitted modules that this process has loaded."""
    for name in [n for n in sys.modules if n.startswith("schedlang_kernels.")]:
        del sys.modules[name]
    place._KNOWN.clear()
    return run()


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in CASES]
)
def test_a_damaged_file_is_made_again(case: str, folder: Path) -> None:
    run, pattern = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        run()
    paths = list(folder.glob(pattern))
    assert len(paths) == 1, list(folder.rglob("*"))
    (path,) = paths
    whole = path.read_bytes()
    listed = list(damages(whole))
    # each damage of a compiled file takes a compilation
    for damage in listed[::3] if case in COMPILED else listed:
        # a new file: this process has mapped the library
        path.unlink()
        path.write_bytes(damage)
        with pytest.warns(CacheWarning, match=path.name) as caught:
            result = as_in_a_new_process(run)
        np.testing.assert_allclose(result, X @ W.T, rtol=1e-5)
        assert len([w for w in caught if w.category is CacheWarning]) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error", CacheWarning)
            np.testing.assert_allclose(as_in_a_new_process(run), X @ W.T, rtol=1e-5)
    path.unlink()
    path.mkdir()
    with pytest.warns(CacheWarning, match=path.name):
        np.testing.assert_allclose(as_in_a_new_process(run), X @ W.T, rtol=1e-5)
    assert path.is_file()


@pytest.mark.slow
@compiles
def test_damaged_machine_code_of_a_gpu_is_made_again(folder: Path) -> None:
    def code() -> Any:
        A = sl.placeholder((64,), name="A")
        B = sl.compute((64,), lambda i: A[i] * 2, name="B")
        s = sl.schedule(B)
        s[B].bind(B.op.axis[0], "threadIdx.x")
        return sl.build(s, [A, B], target="cuda").machine_code

    expected = code()
    (path,) = folder.glob("machine_code/*")
    for damage in damages(path.read_bytes()):
        path.write_bytes(damage)
        with pytest.warns(CacheWarning, match=path.name):
            assert code() == expected


def test_all_files_of_the_folder_have_a_kind(folder: Path) -> None:
    for run in (network("python"), network("c"), product("cpu")):
        run()
    suffixes = {".py", ".c", ".measured", *(kind.suffix for kind in KINDS)}
    for path in folder.rglob("*"):
        assert path.is_dir() or any(path.name.endswith(s) for s in suffixes), path


TARGETS = pytest.mark.parametrize(
    "target, compiler", [("cpu", "numba"), ("cpu", "llvm"), ("c", None)], ids=["numba", "llvm", "c"]
)


@TARGETS
def test_a_full_disk_costs_only_the_time(
    target: str, compiler: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = cache_files.write_whole

    def full(path: Path, *parts: Any) -> None:
        if path.suffix in (".pyc", ".nbc", ".so"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, *parts)

    monkeypatch.setattr(cache_files, "write_whole", full)
    with pytest.warns(CacheWarning, match="No space left on device.*free some space") as caught:
        result = as_in_a_new_process(product(target, compiler))
    np.testing.assert_allclose(result, X @ W.T, rtol=1e-5)
    assert len(caught) == 1


class Interrupted:
    """A function that an interrupt stops once: before it begins, or when it has ended."""

    def __init__(self, function: Callable[..., Any], after: bool) -> None:
        self.function, self.after, self.armed = function, after, True

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self.armed:
            self.armed = False
            if self.after:
                self.function(*args, **named)
            raise KeyboardInterrupt
        return self.function(*args, **named)


# what a compilation calls: to read LLVM's code, to optimize it, and to write the object file
STEPS = {
    "parse": (binding, "parse_assembly"),
    "optimize": (ModulePassManager, "run"),
    "add": (JITCPUCodegen, "_add_module"),
    "replace": (os, "replace"),
}


# numba's hook misses a module that LLVM has, and no library has any more
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("compiler", ["llvm", "numba"])
def test_an_interrupt_leaves_no_half_written_file(
    compiler: str, step: str, after: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    A = sl.placeholder((8,), name="A")
    factor = 3 + list(STEPS).index(step) * 2 + after
    B = sl.compute((8,), lambda i: A[i] * factor, name="B")
    f = sl.build(sl.schedule(B), compiler=compiler)
    owner, name = STEPS[step]
    function = Interrupted(getattr(owner, name), after)
    monkeypatch.setattr(owner, name, lambda *args, **named: function(*args, **named))
    x = np.arange(8, dtype="float32")
    if step == "replace":
        # of the source, and of the object file
        f.write()
        function.armed = True
    with pytest.raises(KeyboardInterrupt):
        f(x)
    assert not list(folder.rglob("*.tmp"))
    for path in folder.rglob("*.nbc"):
        assert contents(cache_files.COMPILED, path) is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        np.testing.assert_array_equal(f(x), x * factor)
    assert len(list(folder.rglob("*.nbc"))) == 1


AS_ROOT = pytest.mark.skipif(
    not hasattr(os, "fork") or os.geteuid() != 0, reason="only root becomes another user"
)
NOBODY = 65534


def as_another_user(run: Callable[[], None]) -> None:
    """Run in a process of another user, in which each warning is an error."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setuid(NOBODY)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                run()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def umask() -> Iterator[None]:
    """Let all users read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@AS_ROOT
def test_two_users_of_a_folder_read_what_the_other_one_made(
    umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        kernels = Path(shared) / "kernels"
        kernels.mkdir()
        for path in (Path(shared), kernels):
            path.chmod(0o777)
        monkeypatch.setenv("SCHEDLANG_CACHE", shared)
        store(cache_files.COMPILED, kernels / "one.nbc", CONTENT)
        source = files.write("x = 1", "one")

        def other() -> None:
            assert contents(cache_files.COMPILED, kernels / "one.nbc") == CONTENT
            assert files.write("x = 1", "one") == source
            assert store(cache_files.COMPILED, kernels / "two.nbc", CONTENT)

        as_another_user(other)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert contents(cache_files.COMPILED, kernels / "two.nbc") == CONTENT
        assert (kernels / "two.nbc").stat().st_uid == NOBODY


@AS_ROOT
def test_a_folder_that_another_user_owns_takes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        kernels = Path(shared) / "kernels"
        kernels.mkdir()
        for path in (Path(shared), kernels):
            path.chmod(0o755)

        def other() -> None:
            monkeypatch.setenv("SCHEDLANG_CACHE", shared)
            what = "takes no compiled kernel .Permission denied"
            with pytest.warns(CacheWarning, match=what):
                assert store(cache_files.COMPILED, kernels / "one.nbc", CONTENT) is None
            with pytest.raises(BuildError, match="cannot be written to .*Permission denied"):
                files.write("x = 1", "one")

        as_another_user(other)


def test_no_room_for_the_source_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *parts: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "write_whole", full)
    with pytest.raises(BuildError, match="No space left on device.*free some space"):
        product("python")()


def test_a_c_compiler_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cc = tmp_path / "cc"
    cc.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n"
        "echo '/tmp/a.s: fatal error: error writing: No space left on device' >&2\nexit 1\n"
    )
    cc.chmod(0o755)
    monkeypatch.setenv("CC", str(cc))
    with pytest.raises(BuildError, match="the disk of .* is full. Free some space"):
        product("c")()


def test_what_a_killed_process_left_is_removed_after_a_day(folder: Path) -> None:
    kernels = folder / "kernels"
    kernels.mkdir(parents=True)
    old, young, other = (kernels / n for n in ("tmpold.tmp", "tmpyoung.tmp", "notes.txt"))
    for path, age in ((old, 25 * 3600), (young, 3600), (other, 90 * 24 * 3600)):
        path.write_text("half")
        os.utime(path, (time.time() - age,) * 2)
    product("python")()
    assert not old.exists() and young.exists() and other.exists()


def test_files_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Kind("test", "kernels", ".test", most_bytes=3 * 900)
    for k, name in enumerate("abc"):
        store(kind, kind.path(name), CONTENT)
        os.utime(kind.path(name), (k, k))
    # a is read, so that b is now the one that was not used for longest
    assert contents(kind, kind.path("a")) == CONTENT
    store(kind, kind.path("d"), CONTENT)
    assert sorted(p.stem for p in kind.path("a").parent.glob("*.test")) == ["a", "c", "d"]
    assert WEIGHTS.most_bytes == 4 << 30


@pytest.mark.slow
def test_a_new_process_survives_flipped_machine_code(folder: Path) -> None:
    """Flipped bits in machine code that is run kill a process, so here it is one of its own."""
    program = """
        import numpy as np, schedlang as sl, sys
        A = sl.placeholder((64,), name="A")
        B = sl.compute((64,), lambda i: A[i] * 2, name="B")
        f = sl.build(sl.schedule(B), [A, B], target=sys.argv[1], compiler=sys.argv[2] or None)
        assert (f(np.ones(64, "float32")) == 2).all()
    """
    script = folder.parent / "script.py"
    script.write_text("\n".join(line[8:] for line in program.splitlines()))
    for target, compiler, pattern in (
        ("cpu", "", "*.nbc"), ("cpu", "llvm", "*.nbc"), ("c", "", "*.so"),
    ):  # fmt: skip
        shutil.rmtree(folder, ignore_errors=True)
        run = [sys.executable, str(script), target, compiler]
        subprocess.run(run, check=True)
        (path,) = folder.glob(f"kernels/{pattern}")
        whole = path.read_bytes()
        for share in (0.2, 0.4, 0.6, 0.8):
            at = int(share * len(whole))
            changed = bytes(byte ^ 255 for byte in whole[at : at + 64])
            path.write_bytes(whole[:at] + changed + whole[at + 64 :])
            ran = subprocess.run(run, capture_output=True, text=True)
            assert ran.returncode == 0 and f"{path.name} is damaged" in ran.stderr, ran.stderr


@compiles
def test_numba_needs_no_folder_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.caching import CacheImpl

    def nowhere(*of: Any) -> None:
        return None

    run = product("cpu")
    run()
    for locator in CacheImpl._locator_classes:
        monkeypatch.setattr(locator, "from_function", nowhere)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        np.testing.assert_allclose(as_in_a_new_process(run), X @ W.T, rtol=1e-5)
    assert not any(path.name == "__pycache__" for path in folder.rglob("*"))


@compiles
@pytest.mark.parametrize("compiler", ["numba", "llvm"])
@pytest.mark.parametrize("name, value", [
    ("LOOP_VECTORIZE", 0), pytest.param("DEBUGINFO_DEFAULT", 1, marks=pytest.mark.slow),
    pytest.param("USING_SVML", True, marks=pytest.mark.slow),
])  # fmt: skip
def test_settings_of_numba_have_machine_code_of_their_own(
    compiler: str, name: str, value: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba.core import config

    run = product("cpu", compiler)
    run()
    assert len(list(folder.glob("kernels/*.nbc"))) == 1
    monkeypatch.setattr(config, name, value)
    np.testing.assert_allclose(as_in_a_new_process(run), X @ W.T, rtol=1e-5)
    assert len(list(folder.glob("kernels/*.nbc"))) == 2
