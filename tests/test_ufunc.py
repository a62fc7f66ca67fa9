"""Ufuncs of NumPy that ``sl.ufunc`` makes: how NumPy calls their loops, beside NumPy's own."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.tracing.ufuncs.loop import Loop

add = sl.ufunc(lambda x, y: x + y, name="add")
# more elements than one thread computes, and no multiple of a vector
LARGE = 200_003


def values(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 9, count).astype("float64")


def test_it_is_a_ufunc_of_numpys() -> None:
    def shifted(x, y):  # type: ignore[no-untyped-def]
        """Return the sum of x and twice y."""
        return x + 2 * y

    f = sl.ufunc(shifted, dtypes=["float32", ("float64", "int64")])
    assert isinstance(f, np.ufunc) and (f.nin, f.nout, f.signature) == (2, 1, None)
    assert f.types == ["ff->f", "dl->d"] and f.__name__ == "shifted"
    assert "sum of x and twice y" in f.__doc__
    assert [*f.loops] == f.types and not f.loops["ff->f"].is_compiled


def test_a_loop_shows_what_runs() -> None:
    x = values(7)
    np.testing.assert_array_equal(add(x, x[::-1]), x + x[::-1])
    loop = add.loops["dd->d"]
    assert loop.is_compiled and not add.loops["ee->e"].is_compiled
    assert "vstore(add_out" in loop.source and loop.source in str(add.source)
    assert "vload(x" in str(loop.machine_nest)
    assert loop.path.read_text(encoding="utf-8") == loop.source
    assert "vaddpd" in loop.asm or "fadd" in loop.asm
    assert "fadd" in loop.llvm


@pytest.mark.parametrize("count", [0, 1, 5, 64, 1000, 2500])
def test_steps(count: int) -> None:
    wide, square = values(3 * count), values(4 * count).reshape(count, 4)
    fields = np.zeros(count, [("a", "f8"), ("b", "i4"), ("c", "f8")])
    fields["c"] = values(count, 1)
    inputs = {
        "adjacent": wide[:count], "backwards": wide[:count][::-1], "third": wide[::3],
        "third, backwards": wide[::-3], "number": np.array(3.0), "column": square[:, 1],
        "repeated": np.broadcast_to(np.float64(2.5), count), "unaligned": fields["c"],
        "swapped": wide[:count].astype(">f8"),
    }  # fmt: skip
    for x in inputs.values():
        for y in inputs.values():
            for out in (np.full(count, np.nan), np.full((count, 2), np.nan)[:, 0],
                        np.full(count, np.nan)[::-1]):  # fmt: skip
                assert add(x, y, out=out) is out
                np.testing.assert_array_equal(out, np.add(x, y))


def test_broadcasting_where_and_casting() -> None:
    x, y, chosen = values(12).reshape(3, 4), values(3).reshape(3, 1), values(4) > 0
    np.testing.assert_array_equal(add(x, y), x + y)
    np.testing.assert_array_equal(add(x.T[:, None], y.T), x.T[:, None] + y.T)
    out = np.full((3, 4), 7.0)
    assert add(x, y, out=out, where=chosen) is out
    np.testing.assert_array_equal(out, np.where(chosen, x + y, 7))
    assert add(3, 4) == 7 and isinstance(add(3, 4), np.int64)
    assert add(x.astype("float32"), 1.5).dtype == "float32"
    assert add(x.astype("float32"), np.int32(1)).dtype == "float64"
    whole = np.zeros((3, 4), "int32")
    add(x, y, out=whole, casting="unsafe")
    np.testing.assert_array_equal(whole, (x + y).astype("int32"))
    assert add(x, y, dtype="float64", casting="no").dtype == "float64"
    with pytest.raises(TypeError, match="Cannot cast"):
        add(x, y, out=whole)
    with pytest.raises(TypeError, match="Cannot cast"):
        add(x, y, dtype="int64")
    with pytest.raises(TypeError, match="not supported for the input types"):
        add(np.array(["a"]), 1)
    with pytest.raises(ValueError, match="could not be broadcast"):
        add(x, values(5))


def test_reductions() -> None:
    x = values(60).reshape(3, 4, 5)
    for axis in (0, 1, 2, (0, 2), None):
        np.testing.assert_array_equal(add.reduce(x, axis=axis), np.add.reduce(x, axis=axis))
    np.testing.assert_array_equal(
        add.reduce(x, axis=1, keepdims=True, initial=10, where=x > 0),
        np.add.reduce(x, axis=1, keepdims=True, initial=10, where=x > 0),
    )
    flat = values(1001)
    for y in (flat, flat[::-1], flat[::3]):
        np.testing.assert_array_equal(add.reduce(y), y.sum())
        np.testing.assert_array_equal(add.accumulate(y), np.add.accumulate(y))
    np.testing.assert_array_equal(add.accumulate(x, axis=1), np.add.accumulate(x, axis=1))
    ends = [0, 5, 900]
    np.testing.assert_array_equal(add.reduceat(flat, ends), np.add.reduceat(flat, ends))
    np.testing.assert_array_equal(add.outer(flat, flat[:7]), np.add.outer(flat, flat[:7]))
    at, expected = np.zeros(5), np.zeros(5)
    add.at(at, [0, 3, 3, 1], [1.0, 2.0, 3.0, 4.0])
    np.add.at(expected, [0, 3, 3, 1], [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(at, expected)
    assert add.reduce(np.zeros(0)) == 0 and add.identity == 0


def test_identities() -> None:
    assert sl.ufunc(lambda x, y: x * y).identity == 1
    assert sl.ufunc(lambda x, y: x & y).identity == -1
    assert sl.ufunc(lambda x, y: x - y).identity is None
    assert sl.ufunc(lambda x, y: np.logaddexp(x, y), identity=-np.inf).identity == -np.inf
    larger = sl.ufunc(lambda x, y: np.maximum(x, y), dtypes=["uint8", "uint32"], identity=0)
    assert larger.identity == 0


@pytest.mark.slow
def test_reductions_of_operations() -> None:
    larger = sl.ufunc(lambda x, y: np.maximum(x, y), dtypes=["float64"], name="larger")
    assert larger.identity is None
    x = values(12).reshape(3, 4)
    # an operation without an order reduces several axes at once
    assert larger.reduce(x, axis=None) == x.max() == larger.reduce(x, axis=(0, 1), initial=-100)
    with pytest.raises(ValueError, match="no identity"):
        larger.reduce(x[:0])
    minus = sl.ufunc(lambda x, y: x - y, dtypes=["float64"], name="minus")
    np.testing.assert_array_equal(minus.reduce(x), np.subtract.reduce(x))
    with pytest.raises(ValueError, match="not reorderable"):
        minus.reduce(x, axis=None)


def test_outputs_that_overlap_inputs() -> None:
    for size in (5, 1000):
        x = values(size)
        expected = x + x
        assert add(x, x, out=x) is x
        np.testing.assert_array_equal(x, expected)
        for source, target in ((slice(1, None), slice(-1)), (slice(-1), slice(1, None)),
                               (slice(None, None, -1), slice(None))):  # fmt: skip
            x = values(size)
            expected = x[source] + x[source]
            add(x[source], x[source], out=x[target])
            np.testing.assert_array_equal(x[target], expected)


def test_several_results() -> None:
    turned = sl.ufunc(lambda x, y: (y, x - y, x > y), dtypes=["float64"], name="turned")
    assert turned.types == ["dd->dd?"] and turned.nout == 3
    for x, y in ((values(77), values(77, 1)), (values(154)[::2], np.array(2.0))):
        for result, expected in zip(turned(x, y), (y + 0 * x, x - y, x > y)):
            np.testing.assert_array_equal(result, expected)
    # NumPy lets both be written while they are read, element by element
    x, y = values(1000), values(1000, 1)
    expected = y.copy(), x - y
    turned(x, y, out=(x, y, None))
    np.testing.assert_array_equal((x, y), expected)


def test_no_warnings_of_what_no_element_computes() -> None:
    ratio = sl.ufunc(lambda x, y: x / y, dtypes=["float64"], name="ratio")
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(ratio(np.ones(7), np.full(7, 4.0)), np.full(7, 0.25))
        assert ratio(1.0, 0.0) == np.inf


def test_an_element_of_records_whose_step_is_no_multiple() -> None:
    records = np.zeros(9, np.dtype([("z", "c16"), ("w", "f8")], align=True))
    records["z"] = values(9) + 1j * values(9, 1)
    total = add(records["z"], records["z"][::-1])
    np.testing.assert_array_equal(total, records["z"] + records["z"][::-1])


def test_threads() -> None:
    x, y = values(LARGE), values(LARGE, 1)
    for inputs in ((x, y), (x, 2.0), (x[::-1], y), (x[::2], y[::2])):
        np.testing.assert_array_equal(add(*inputs), np.add(*inputs))
    total, expected = x.copy(), x + y
    add(total, y, out=total)
    np.testing.assert_array_equal(total, expected)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda k: add(x, k), range(8)):
            assert (result - x).min() == (result - x).max()


def test_threads_that_call_a_new_ufunc_at_once() -> None:
    f = sl.ufunc(lambda x: 3 * x - 1, dtypes=["float64"], name="tripled")
    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(f, [values(50, k) for k in range(8)])]
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result, 3 * values(50, k) - 1)


def test_pickles_by_value() -> None:
    f = pickle.loads(pickle.dumps(sl.ufunc(lambda x, y: x + y, name="sum_of_two")))
    assert isinstance(f, np.ufunc) and f.identity == 0 and f.types == add.types
    np.testing.assert_array_equal(f(values(9), 1), values(9) + 1)
    assert pickle.loads(pickle.dumps(np.add)) is np.add


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_error_of_the_compiler_is_raised_by_the_call(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    f = sl.ufunc(lambda x, y: x * 5 + y, dtypes=["float64"], name="fivefold")
    x, calls = values(30000).reshape(30, 1000), []
    with monkeypatch.context() as patched:

        def refuse(loop: Loop) -> int:
            # C code that would see an error from before
            calls.append(json.dumps([str(loop)]))
            raise error("no room for the code")

        patched.setattr(Loop, "address", refuse)
        for call in (lambda: f(x[0], 1), lambda: f(x.astype("float32"), x[:, ::-1]),
                     lambda: f.reduce(x), lambda: f.accumulate(x), lambda: f.at(x[0], [1, 1], 2),
                     lambda: f.reduceat(x[0], [0, 5, 9])):  # fmt: skip
            calls.clear()
            with pytest.raises(error, match="no room"):
                call()
            # NumPy calls a loop several times before it looks for an error
            assert len(calls) == 1
    np.testing.assert_array_equal(f(values(3), 1), 5 * values(3) + 1)


DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
          "float16", "float32", "float64", "complex64", "complex128")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    f = sl.ufunc(lambda x, y: x * y + y, name="combined")
    for size in (1, 31, 1000):
        x, y = abs(values(size)).astype(dtype), abs(values(2 * size, 1))[::2].astype(dtype)
        for a, b in ((x, y), (x, y[:1]), (y, x[::-1])):
            result = f(a, b)
            assert result.dtype == (a * b + b).dtype
            np.testing.assert_allclose(result, a * b + b, rtol=1e-2 if dtype == "float16" else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("function", [
    lambda x: 1 / (1 + np.exp(-x)), lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x * x),
    lambda x: ((x * 0.5 + 0.25) * x - 1) * x + 3, lambda x: np.hypot(x, 1.5),
], ids=["sigmoid", "select", "polynomial", "hypot"])  # fmt: skip
def test_elements_of_much_work(function: Callable[[Any], Any]) -> None:
    f = sl.ufunc(function, dtypes=["float32", "float64"], name="much")
    for dtype in ("float32", "float64"):
        for x in (values(1001), values(3003)[::-3], values(LARGE), np.array(2.0)):
            x = x.astype(dtype)
            np.testing.assert_allclose(f(x), function(x), rtol=2e-6)
            out = np.zeros((*x.shape, 2), dtype)[..., 0]
            np.testing.assert_allclose(f(x, out=out), function(x), rtol=2e-6)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_random_views(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=3)))
    whole = values(int(np.prod([2 * n for n in shape]))).reshape([2 * n for n in shape])

    def view() -> np.ndarray:
        steps = [data.draw(st.sampled_from([1, 2, -1, -2])) for _ in shape]
        part = whole[tuple(slice(None, None, s) for s in steps)]
        part = part[tuple(slice(0, n) for n in shape)]
        single = [data.draw(st.booleans()) for _ in shape]
        return part[tuple(slice(0, 1 if one else None) for one in single)]

    x, y = view(), view()
    expected = np.broadcast_to(np.add(x, y), shape).copy()
    if data.draw(st.booleans()):
        kept = np.array(x)
        np.testing.assert_array_equal(add(x, y), np.add(x, y))
        np.testing.assert_array_equal(x, kept)
    else:
        order = data.draw(st.permutations(range(len(shape))))
        out = np.empty([shape[k] for k in order]).transpose(np.argsort(order))
        np.testing.assert_array_equal(add(x, y, out=out), expected)


@pytest.mark.slow
def test_arrays_of_other_libraries() -> None:
    from importlib import import_module

    f = sl.ufunc(lambda x, y: x / y, name="ratio")
    x = values(12).reshape(3, 4)
    for name, make in (("dask.array", lambda m: m.from_array(x, chunks=2)),
                       ("xarray", lambda m: m.DataArray(x, dims=("a", "b"))),
                       ("pandas", lambda m: m.DataFrame(x))):  # fmt: skip
        try:
            module = import_module(name)
        except ImportError:
            continue
        result = f(make(module), 4.0)
        assert type(result) is type(make(module))
        np.testing.assert_array_equal(np.asarray(result), x / 4)


FORKED = """
import multiprocessing
import numpy as np
import schedlang as sl
f = sl.ufunc(lambda x: x + 1, dtypes=["float64"], name="raised")
g = sl.ufunc(lambda x: x * 3, dtypes=["float64"], name="tripled")
x = np.arange(300000.0)
f(x)
def work(k):
    return f(x + k), g(x + k)
with multiprocessing.get_context("fork").Pool(1) as pool:
    for k, (raised, tripled) in enumerate(pool.map(work, range(2))):
        np.testing.assert_array_equal(raised, x + k + 1)
        np.testing.assert_array_equal(tripled, 3 * (x + k))
print("right")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="this system does not fork")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_forked_processes(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_THREADING_LAYER", layer)
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "right", done.stderr
