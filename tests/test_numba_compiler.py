"""numba's compiler on emitted files: shared functions, parts, and launches of parallel loops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.listing import PARALLEL_FOR, Launch
from schedlang.runtime.files import load_kernel
from schedlang.runtime.numba_compiler import PARTS, KernelCompiler, PartCompiler, SharedCompiler

HEAD = """
from numba import njit, prange
from schedlang.intrinsics.cpu import float32, int64, load, store, select

OPTIONS = dict(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
"""


def loaded(folder: Path, text: str, entry: str, launch: str = "") -> ModuleType:
    """Return an emitted file with these functions, loaded as a kernel loads it.

    ``launch`` is what numba compiles in place of ``entry``, of the same lines.
    """
    path = folder / f"{entry}.py"
    whole = dedent(HEAD) + dedent(text)
    path.write_text(whole, encoding="utf-8")
    launches = [Launch(entry, line_of(entry, whole), dedent(launch).strip())] if launch else []
    return load_kernel(path, entry, launches=launches)


def line_of(function: str, text: str) -> int:
    """Return the line of a file in which a function begins."""
    return text[: text.index(f"def {function}(")].count("\n") + 1


def test_a_function_of_two_names_is_compiled_once(tmp_path: Path) -> None:
    module = loaded(tmp_path, """
        @njit(**OPTIONS)
        def first(A, B):
            for i in range(8):
                store(B, i, load(A, i) * float32(0.0))

        second = first

        @njit(**OPTIONS)
        def third(B, C):
            for j in range(8):
                store(C, j, load(B, j) * float32(-0.0))

        @njit(**OPTIONS)
        def sharing_kernel(A, B, C, D):
            first(A, B)
            second(A, C)
            third(A, D)
    """, "sharing_kernel")  # fmt: skip
    assert module.sharing_kernel._compiler.pipeline_class is KernelCompiler
    a, b, c, d = np.ones(8, "float32"), *np.ones((3, 8), "float32")
    module.sharing_kernel(a, b, c, d)
    assert module.second is module.first and module.third is not module.first
    compilers = [f._compiler.pipeline_class for f in (module.first, module.third)]
    assert compilers == [SharedCompiler, PartCompiler]
    # 1 * 0.0 is 0.0, and 1 * -0.0 is -0.0
    assert not np.signbit(b).any() and not np.signbit(c).any() and np.signbit(d).all()
    assert not (b.any() or c.any() or d.any())
    # a part has no machine code of its own, and says so
    with pytest.raises(TypeError):
        module.third(a, b)
    # in another process the machine code comes from the disk, and no part gets a compiler
    del sys.modules[module.__name__]
    again = load_kernel(Path(module.__file__), "sharing_kernel")
    b[:] = c[:] = d[:] = 1
    again.sharing_kernel(a, b, c, d)
    assert not (b.any() or c.any() or d.any()) and not again.sharing_kernel.stats.cache_misses
    assert PARTS in vars(again) and PARTS not in vars(module)


LOOPS = """
    @njit(**OPTIONS)
    def rows(i, A, B, scale, flag):
        for j in range(3):
            store(B, i*3 + j, load(B, i*3 + j) + select(flag, load(A, i*3 + j)*scale, float32(1)))

    @njit(parallel=True, **OPTIONS)
    def loops_kernel(A, B, scale, flag, n):
        for i in prange(n):
            rows(int64(i), A, B, scale, flag)
        for k in range(2):
            if n > 5:
                for i in prange(0, n, 4):
                    rows(int64(i), A, B, scale, flag)
"""
LAUNCHED = f"""
    def loops_kernel(A, B, scale, flag, n):
        {PARALLEL_FOR}(rows, n, 1, A, B, scale, flag)

        for k in range(2):
            if n > 5:
                {PARALLEL_FOR}(rows, n, 4, A, B, scale, flag)

"""


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8, 1001])
def test_parallel_loops_run_each_iteration_once(tmp_path_factory, n: int) -> None:
    folder = tmp_path_factory.getbasetemp()
    kernel = loaded(folder, LOOPS, "loops_kernel", LAUNCHED).loops_kernel
    assert not kernel.targetoptions["parallel"]
    a = np.arange(n * 3, dtype="float32").reshape(n, 3)
    for flag in (True, False):
        b = np.full((n, 3), 7, "float32")
        kernel(a.reshape(-1), b.reshape(-1), np.float32(0.5), flag, n)
        added = a * 0.5 if flag else np.ones_like(a)
        expected = 7 + added
        if n > 5:
            expected[::4] += 2 * added[::4]
        np.testing.assert_array_equal(b, expected)


def test_launches_stand_in_the_lines_of_their_functions() -> None:
    """So the lines that numba knows of machine code are those of the file."""
    A = sl.placeholder((64, 8), name="A")
    B = sl.compute((64, 8), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((64, 8), lambda i, j: B[63 - i, j] + 1, name="C")
    s = sl.schedule(C)
    s[B].parallel(B.op.axis[0])
    s[C].parallel(C.op.axis[0])
    f = sl.build(s, compiler="numba")
    (launch,) = f._built.launches
    shown, printed = f.source.splitlines()[launch.line - 1 :], launch.text.splitlines()
    assert shown[0] == printed[0] == "def C_kernel(A, C):"
    pairs = dict(zip(shown, printed))
    loops = [line for line in shown if "prange(64)" in line]
    assert len(loops) == 2 and all(PARALLEL_FOR in pairs[line] for line in loops)
    rest = [(a, b) for a, b in zip(shown, printed) if "prange" not in a and "int64(" not in a]
    assert rest and all(a == b for a, b in rest)
    a = np.arange(512, dtype="float32").reshape(64, 8)
    np.testing.assert_array_equal(f(a), a[::-1] * 2 + 1)


def test_a_parallel_loop_of_another_form_is_left_to_numba(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, """
        @njit(parallel=True, **OPTIONS)
        def other_kernel(A, B, n):
            for i in prange(n):
                store(B, i, load(A, i))
                store(A, i, float32(0))
    """, "other_kernel").other_kernel  # fmt: skip
    assert kernel.targetoptions["parallel"]
    a, b = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    kernel(a, b, 5)
    assert b.tolist() == [0, 1, 2, 3, 4] and not a.any()


def test_a_long_kernel_agrees_with_numpy() -> None:
    """Equal stages, others, a heap array among them, and a parallel loop behind."""
    tensor = sl.placeholder((20_000,), name="A")
    for k in range(28):
        source, step = tensor, 1.0 if k % 7 else float(k)
        tensor = sl.compute((20_000,), lambda i, a=source, b=step: a[i] + b, name=f"T{k}")
    s = sl.schedule(tensor)
    s[tensor].parallel(s[tensor].split(tensor.op.axis[0], factor=1000)[0])
    f = sl.build(s, compiler="numba")
    assert "heap_array" in f.source and "prange" in f.source and "\nT2_i = T1_i\n" in f.source
    a = np.arange(20_000, dtype="float32")
    np.testing.assert_array_equal(f(a), a + 24 + (0 + 7 + 14 + 21))


def test_storage_on_the_heap_inside_a_parallel_loop() -> None:
    A = sl.placeholder((3, 20_000), name="A")
    B = sl.compute((3, 20_000), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((3, 20_000), lambda i, j: B[i, 19_999 - j] + 1, name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].parallel(C.op.axis[0])
    f = sl.build(s, compiler="numba")
    functions = f.machine_nest.functions
    assert "heap_array" in f.source and [g.parallel for g in functions] == [False, True]
    a = np.arange(60_000, dtype="float32").reshape(3, 20_000)
    np.testing.assert_array_equal(f(a), a[:, ::-1] * 2 + 1)


# an odd kernel: storage on the heap, whose references numba's runtime counts, or a loop that is
# left to numba
ODD = """
    @njit(**OPTIONS)
    def plain_kernel(A, B):
        for i in range(8):
            store(B, i, load(A, i) * float32(2))

    @njit(**OPTIONS)
    def row(i, A, B):
        H = heap_array(8, float32)
        for j in range(8):
            store(H, j, load(A, i*8 + j) + float32(1))
        for j in range(8):
            store(B, i*8 + j, load(H, 7 - j))

    @njit(parallel=True, **OPTIONS)
    def heap_kernel(A, B):
        for i in prange(3):
            row(int64(i), A, B)

    @njit(parallel=True, **OPTIONS)
    def left_kernel(A, B):
        for i in prange(8):
            store(B, i, load(A, i) + float32(3))
            store(A, i, float32(0))
"""

AGAIN = """
import sys
from pathlib import Path
import numpy as np
import numba
from numba.core.runtime import rtsys
from schedlang.codegen.listing import Launch
from schedlang.runtime.files import load_kernel

a, b = np.arange(24, dtype="float32"), np.zeros(24, "float32")
path = Path(sys.argv[1])

def kernel(name, *launches):
    found = getattr(load_kernel(path.with_name(f"{name}.py"), name, (), launches), name)
    found(a, b)
    assert sum(found.stats.cache_hits.values()) == 1 and not found.stats.cache_misses
    return found

plain = kernel("plain_kernel")
assert b[:8].tolist() == (2 * a[:8]).tolist() and not b[8:].any()
# neither numba's runtime nor what its compiler imports was needed
assert not rtsys._init and "numba.np.linalg" not in sys.modules, sys.modules
kernel("heap_kernel", Launch("heap_kernel", int(sys.argv[2]), sys.argv[3]))
assert b.tolist() == (a.reshape(3, 8)[:, ::-1] + 1).ravel().tolist() and rtsys._init
kernel("left_kernel")
assert b[:8].tolist() == list(range(3, 11)) and not a[:8].any()

@numba.njit
def twice(A, B):
    plain(A, B)
    plain(B, A)

# a caller that is compiled now takes the code of the kernel that was loaded
a[:] = 1
twice(a, b)
assert a[:8].tolist() == [4] * 8 and a[8:].all()
print("done")
"""


@pytest.mark.slow
def test_a_process_that_loads_machine_code_prepares_no_compiler(tmp_path: Path) -> None:
    head = "from schedlang.intrinsics.cpu import heap_array\n"
    a, b = np.zeros((2, 24), "float32")
    launch = f"def heap_kernel(A, B):\n    {PARALLEL_FOR}(row, 3, 1, A, B)"
    for entry in ("plain_kernel", "heap_kernel", "left_kernel"):
        launched = launch if entry == "heap_kernel" else ""
        getattr(loaded(tmp_path, head + dedent(ODD), entry, launched), entry)(a, b)
    line = line_of("heap_kernel", (tmp_path / "heap_kernel.py").read_text())
    command = [sys.executable, "-c", AGAIN, tmp_path / "plain_kernel.py", str(line), launch]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0 and done.stdout.strip() == "done", done.stdout + done.stderr
