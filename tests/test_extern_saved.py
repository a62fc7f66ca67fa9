"""Functions of users in files and other processes: saved kernels, pickles, colliding names."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from numba import int8, njit, prange

import schedlang as sl
from schedlang.errors import BuildError, CallError, ComputeError, ComputeTypeError
from schedlang.externs.python_text import Unreadable, python_text
from schedlang.externs.shared import function_of_code
from tests.test_saved_files import module_of

pytestmark = pytest.mark.slow

SCALE, OFFSETS = 2.5, (1, 2.0)
DECAY, NUMBER = np.float32(0.9), 1
TABLE = np.arange(3)
X = np.arange(12, dtype="float32")


@njit
def scaled(v):
    return v * SCALE + OFFSETS[1]


@njit(fastmath={"contract"}, error_model="numpy")
def scaled_all(a, out):
    """Return nothing; the text of several lines is a docstring.

    It stays.
    """
    for k in range(a.shape[0]):
        out[k] = scaled(a[k]) + math.floor(0.5)


@njit(parallel=True)
def in_parallel(a, out):
    for k in prange(a.shape[0]):
        out[k] = scaled(a[k])


@njit
def raising(a, out):
    for k in range(a.shape[0]):
        if a[k] < 0:
            raise ValueError("negative")
        out[k] = a[k]


@njit
def of_a_table(a, out):
    out[:] = a + TABLE[0]


def long_text(a, out):
    out[...] = len("""one
two""")


def on_host(a, out):
    out[...] = a * SCALE + 2


SOURCE = r"""
#define SCALE 2.5f /* "a text" */
static float scaled(float v) { return v * SCALE + 2; }
int B(const float *a, float *out, const int64_t *sizes) {
    const char *text = "\"\\n'''";
    for (int64_t k = 0; k < sizes[0]; k++) out[k * sizes[3]] = scaled(a[k * sizes[1]]) + !text;
    return 0;
}
"""
FAILING = "int B(const float *a, float *out, const int64_t *n) { return a[0] < 0; }"


def scaled_stage(call: Any, n: Any = 12, name: str = "C") -> sl.Tensor:
    """Return ``A * 2.5 + 3``, whose middle ``call`` computes at a parallel loop."""
    A = sl.placeholder((n,), name="A")
    B = sl.extern((n,), [A], call, name="B", reads=lambda i: np.s_[i])
    return sl.compute((n,), lambda i: B[i] + 1, name=name)


def schedule(C: sl.Tensor) -> sl.Schedule:
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[C].parallel(outer)
    s[C.op.input_tensors[0]].compute_at(s[C], outer)
    return s


def saved(C: sl.Tensor, folder: Path) -> Path:
    return sl.build(schedule(C)).save(folder / "saved.py")


@pytest.mark.parametrize("calls", [[scaled_all, SOURCE], [in_parallel]])
def test_saved_files_run_without_the_program(calls: list[Any], tmp_path: Path) -> None:
    paths = []
    for k, (call, n) in enumerate(zip(calls, (sl.var("n"), 12))):
        folder = tmp_path / str(k)
        folder.mkdir()
        paths.append(str(saved(scaled_stage(call, n), folder)))
    program = f"""
import sys, importlib.util, numpy as np
for k, path in enumerate({paths!r}):
    spec = importlib.util.spec_from_file_location(f"m{{k}}", path)
    sys.modules[f"m{{k}}"] = m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    x = np.arange(12, dtype="float32")
    np.testing.assert_allclose(m.C(x), x * 2.5 + 3)
    np.testing.assert_allclose(m.C(x), x * 2.5 + 3)
assert not any(name.startswith(("schedlang", "tests")) for name in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert not ran.returncode, ran.stderr


def test_the_text_of_a_saved_file(tmp_path: Path) -> None:
    text = saved(scaled_stage(SOURCE), tmp_path).read_text("utf-8")
    assert SOURCE.strip().splitlines()[1] in text and "0x" not in text.partition("C_kernel")[0]
    numba_text = saved(scaled_stage(scaled_all), tmp_path).read_text("utf-8")
    assert "    SCALE = 2.5\n    OFFSETS = (1, 2.0)\n" in numba_text
    assert "    @njit\n    def scaled(v):\n" in numba_text
    assert "    @njit(error_model='numpy', fastmath={'contract'})\n    def scaled_all" in numba_text


def test_several_functions_in_one_file(tmp_path: Path) -> None:
    @njit
    def first(a, out):
        for k in range(a.shape[0]):
            out[k] = a[k] * 3

    A = sl.placeholder((12,), name="A")
    B = sl.extern((12,), [A], first, name="B", reads=lambda i: np.s_[i])
    F = sl.extern((12,), [A], first, name="F")
    D = sl.extern((12,), [F], SOURCE.replace("int B(", "int D("), name="D")
    C = sl.compute((12,), lambda i: B[i] + D[i], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], factor=4)[0])
    f = sl.build(s)
    for run in (f, module_of(f.save(tmp_path / "k.py")).C):
        np.testing.assert_allclose(run(X), X * 3 + (X * 3 * 2.5 + 2), rtol=1e-6)


@pytest.mark.parametrize("call", [raising, FAILING])
def test_a_saved_file_says_which_function_failed(call: Any, tmp_path: Path) -> None:
    run = module_of(saved(scaled_stage(call), tmp_path)).C
    with pytest.raises(RuntimeError, match=f"{'B' if call is FAILING else 'raising'} failed"):
        run(X - 4)
    if call is raising:
        np.testing.assert_array_equal(run(X), X + 1)


def test_a_saved_file_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = module_of(saved(scaled_stage(SOURCE), tmp_path)).C
    monkeypatch.setenv("CC", str(tmp_path / "missing"))
    with pytest.raises(RuntimeError, match="the C compiler .*missing for B does not run"):
        run(X)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="B is C source, and there is no cc, .*: install GCC"):
        run(X)


@pytest.mark.parametrize(
    "call, why",
    [
        (on_host, "no file holds on_host: it is a function of Python"),
        (njit(lambda a, out: None), "no file holds B: it is a lambda, whose text"),
        (of_a_table, "of_a_table reads TABLE of its program, which is ndarray"),
    ],
)
def test_what_no_file_holds(call: Any, why: str, tmp_path: Path) -> None:
    f = sl.build(schedule(scaled_stage(call)))
    with pytest.raises(BuildError, match=f"save.*kernel C: .*{why}.*\n  Give the text of its C"):
        f.save(tmp_path / "k.py")
    assert not (tmp_path / "k.py").exists()


def test_no_file_holds_an_address(tmp_path: Path) -> None:
    call = sl.extern((12,), [sl.placeholder((12,))], SOURCE, name="B").op.function.call
    f = sl.build(schedule(scaled_stage(call)))
    np.testing.assert_allclose(f(X), X * 2.5 + 3)
    with pytest.raises(BuildError, match="no file holds B: it is known by its address, which"):
        f.save(tmp_path / "k.py")
    with pytest.raises(ComputeTypeError, match="no other process knows B: it is known by its add"):
        pickle.dumps(f)


def renamed(name: str, **globals_: Any) -> Any:
    """Return a function of numba with this name, in a file of its own, which reads ``globals_``."""
    body = " + ".join(["a[k] * 2", *globals_])
    text = f"def {name}(a, out):\n    for k in range(a.shape[0]):\n        out[k] = {body}\n"
    space: dict[str, Any] = dict(globals_)
    path = Path(f"{name}_{'_'.join(globals_)}.py").absolute()
    path.write_text(text)
    exec(compile(text, str(path), "exec"), space)
    return njit(space[name])


@pytest.mark.parametrize("name", ["_functions", "c_function", "COMPILERS", "_make_B"])
def test_a_kernel_with_the_name_of_a_helper(name: str, tmp_path: Path) -> None:
    f = sl.build(schedule(scaled_stage(SOURCE, name="B")), name=name)
    module = module_of(f.save(tmp_path / "k.py"))
    np.testing.assert_allclose(getattr(module, module.__all__[0])(X), f(X))


@pytest.mark.parametrize(
    "name, stage, globals_",
    [
        ("numba_function", "_make_numba_function", {"array_maker": 2}),
        ("C_kernel", "C", {"numba_function": 3, "lru_cache": 1, "np": 2}),
    ],
)
def test_names_that_collide_in_a_saved_file(
    name: str, stage: str, globals_: dict[str, int], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    f = sl.build(schedule(scaled_stage(renamed(name, **globals_), name=stage)))
    want = X * 2 + sum(globals_.values()) + 1
    np.testing.assert_allclose(f(X), want)
    run = getattr(module_of(f.save(tmp_path / "k.py")), stage)
    np.testing.assert_allclose(run(X), want)


@pytest.mark.parametrize(
    "number",
    [np.float32(0.9), np.float16(0.1), np.float64(1e-300), np.int8(-3), np.uint64(2**64 - 1)],
    ids=lambda n: n.dtype.name,
)
def test_numbers_of_numpy_keep_their_dtypes(number: Any) -> None:
    text = python_text(number_reader(number))
    space: dict[str, Any] = {}
    exec(text, space)
    kept = space["NUMBER"]
    assert type(kept) is type(number) and kept == number


def test_a_saved_function_reads_a_number_of_numpy(tmp_path: Path) -> None:
    f = sl.build(schedule(scaled_stage(factor_of_numpy)))
    module = module_of(f.save(tmp_path / "k.py"))
    np.testing.assert_array_equal(getattr(module, module.__all__[0])(X), f(X))
    np.testing.assert_array_equal(f(X), X * np.float32(0.9) + 1)


@pytest.mark.parametrize("number", [np.float32("nan"), np.complex64(1j), np.datetime64("2020")])
def test_what_no_text_keeps_of_numpy(number: Any) -> None:
    with pytest.raises(Unreadable, match="reads NUMBER of its program, which is"):
        python_text(number_reader(number))


def number_reader(number: Any) -> Any:
    """Return a function that reads a ``number`` of its program."""
    return FunctionType(reading.__code__, {"NUMBER": number}, "reading")


def reading(a, out):
    out[:] = a * NUMBER


@njit
def factor_of_numpy(a, out):
    for k in range(a.shape[0]):
        out[k] = a[k] * DECAY


@njit(locals={"total": int8})
def of_short_sums(a, out):
    total = 0
    for k in range(a.shape[0]):
        total += k
    out[0] = total


@njit("int64(int64)")
def rounded(x):
    return x


@njit
def of_an_integer(a, out):
    out[0] = rounded(a[0])


@njit(fastmath={"nsz", "nnan", "arcp", "contract"})
def of_flags(a, out):
    out[0] = a[0]


def test_the_text_of_options_is_the_same_in_each_process() -> None:
    assert "fastmath={'arcp', 'contract', 'nnan', 'nsz'}" in python_text(of_flags)


def _two_factors() -> Any:
    factor = 2.0

    def inner(a):
        return a * factor

    def made() -> Any:
        factor = 3.0

        def outer(a, out):
            out[...] = inner(a) * factor

        return outer

    return made()


def _default() -> Any:
    def call(a, out, more=np.zeros(3)):  # noqa: B008
        out[...] = a

    return call


def _decorated() -> Any:
    def shown(function: Any) -> Any:
        def call(a: Any, out: Any) -> None:
            function(a, out)

        call.__wrapped__ = function
        return call

    @shown
    def call(a, out):
        out[...] = a

    return call


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda: np.sin, "it is ufunc, which has no source"),
        (_two_factors, "two of its functions have a factor of their own"),
        (_default, "whose default is not a number"),
        (_decorated, "its source is not what was compiled"),
        (lambda: long_text, "has a text of several lines"),
        (lambda: of_short_sums, "of_short_sums is compiled with locals="),
        (lambda: of_an_integer, "rounded has a signature that converts its arguments"),
    ],
)
def test_functions_without_a_text(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        python_text(make())


def test_the_text_of_a_function_defines_it() -> None:
    space: dict[str, Any] = {}
    exec(python_text(scaled_all), space)
    out = np.empty(12, "float32")
    space["scaled_all"](X, out)
    np.testing.assert_allclose(out, X * 2.5 + 2)


@pytest.mark.parametrize("call", [scaled_all, SOURCE, on_host, of_a_table])
def test_pickles(call: Any) -> None:
    """A function of a module is imported; another one is made from its source."""
    C = scaled_stage(call)
    want = X * 2.5 + 3 if call is not of_a_table else X + 1
    again = pickle.loads(pickle.dumps(sl.build(schedule(C))))
    np.testing.assert_allclose(again(X), want)
    np.testing.assert_allclose(sl.reference(pickle.loads(pickle.dumps(C)))(X), want)
    copy = pickle.loads(pickle.dumps(schedule(C)))
    assert str(copy) == str(schedule(C))


def test_what_no_other_process_knows() -> None:
    C = scaled_stage(lambda a, out: None)
    for value in (C, schedule(C), sl.build(schedule(C))):
        with pytest.raises(
            ComputeTypeError,
            match=r"no other process knows B: it is a lambda.*\n  Give the text of its C source",
        ):
            pickle.dumps(value)


def test_data_hold_no_code() -> None:
    from schedlang.compute.data import dumps, from_data, to_data

    C, functions = scaled_stage(SOURCE), list[Any]()
    with pytest.raises(ComputeTypeError, match="B is a function of yours, and data hold no code"):
        dumps(C)
    data = to_data(C, functions)
    (again,) = from_data(data, functions)
    np.testing.assert_allclose(sl.reference(again)(X), X * 2.5 + 3)
    with pytest.raises(ComputeError, match="B calls function 0 of a program, and 0 are given"):
        from_data(data)
    item = next(item for item in data["items"] if item[0] == "extern")
    for field, value, message in [
        (2, True, "B calls function True"),
        (4, [[[12], "float64"]], "scaled|B takes arrays of other dtypes"),
        (4, [], "arrays of other dtypes|names"),
        (5, [[], [], []], "other boxes than its arrays"),
        (5, [[[0, 0]], [[0, 0]], [[[0, 0]]]], "cannot be item 0|not variables|depends on"),
        (1, "two words", "cannot name a tensor"),
    ]:
        before, item[field] = item[field], value
        with pytest.raises(ComputeError, match=message):
            from_data(data, functions)
        item[field] = before
    with pytest.raises(ComputeError, match="cannot import it from tests.test_extern_saved: .*gone"):
        function_of_code(["host", "gone", ["float32"], ["float32"], f"{__name__}:gone", ""])


def test_calls_from_threads_fail_one_by_one() -> None:
    """A function that raises in one call leaves the others alone, also inside parallel loops."""
    for target in ("cpu", "c"):
        f = sl.build(schedule(scaled_stage(raising)), target=target)
        f.compile()

        def run(k: int, f: Any = f) -> Any:
            try:
                return f(X - 4 if k % 2 else X)
            except CallError as error:
                return str(error)

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(run, range(40)))
        for k, result in enumerate(results):
            if k % 2:
                assert "raising raised an exception" in result
            else:
                np.testing.assert_array_equal(result, X + 1)
