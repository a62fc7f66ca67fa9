"""Networks with functions of users between their kernels: parts, memory, errors, files, threads."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import schedlang as sl
from schedlang import te, topi
from schedlang.contrib import cblas
from schedlang.errors import CallError, CallTypeError, ComputeTypeError, NetworkError
from schedlang.networks.partition import partition
from schedlang.runtime.cache_files import MODULE
from tests.fuzz.network_graphs import DECAYED, decayed, program

pytestmark = pytest.mark.slow

ROWS, INSIDE, COLUMNS = 5, 7, 6
X = np.random.default_rng(0).standard_normal((ROWS, INSIDE), "float32")
W = np.random.default_rng(1).standard_normal((COLUMNS, INSIDE), "float32")
V = np.random.default_rng(2).standard_normal((3, COLUMNS), "float32")
IN_C = DECAYED % ("third", 1, 1)


def decay(x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    for j in range(x.shape[1]):
        out[:, j] = x[:, j] + (out[:, j - 1] / 2 if j else 0)
    return out


def softly(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    out[...] = np.tanh(a) + b


def shared(a: np.ndarray, out: np.ndarray) -> None:
    out[...] = a[::-1]


def model(n: Any = ROWS, last: Any = None) -> tuple[sl.Tensor, dict[sl.Tensor, np.ndarray]]:
    """Return two products with functions of numba, of NumPy and of C between and behind them."""
    x, w = sl.placeholder((n, INSIDE), name="x"), sl.placeholder(W.shape, name="w")
    v = sl.placeholder(V.shape, name="v")
    h = topi.nn.relu(sl.named("fc", topi.nn.dense(x, w)))
    first = sl.extern((n, COLUMNS), [h], decayed, name="first")
    act = topi.sigmoid(sl.named("act", first * 2 - 1))
    second = act if last else sl.extern((n, COLUMNS), [act, h], softly, name="second")
    third = sl.extern((n, COLUMNS), [second], IN_C, name="third")
    return sl.named("fc2", topi.nn.dense(third, v)), {w: W, v: V}


def expected(x: np.ndarray) -> np.ndarray:
    h = np.maximum(x @ W.T, 0)
    act = 1 / (1 + np.exp(-(decay(h) * 2 - 1)))
    return decay(np.tanh(act) + h) @ V.T


def close(result: Any, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["python", "cpu", "c"])
@pytest.mark.parametrize("n", [ROWS, "n"])
def test_functions_between_kernels(n: Any, target: str) -> None:
    y, params = model(sl.var("n") if n == "n" else n)
    net = sl.network(y, params, target=target)
    for rows in (1, 2, ROWS) if n == "n" else (ROWS,):
        close(net(X[:rows]), expected(X[:rows]))
    close(sl.reference(y)(X, W, V), expected(X))
    out = np.empty((ROWS, 3), "float32")
    assert net(X, out) is out
    close(out, expected(X))


def test_a_function_is_a_part_of_its_own() -> None:
    y, params = model()
    found = partition(y)
    assert [part.name for part in found] == ["fc", "first", "sigmoid", "second", "third", "fc2"]
    assert [part.kind for part in found] == [
        "product", "extern", "elementwise", "extern", "extern", "product",
    ]  # fmt: skip
    assert found["first"].stages == ("first",) and found["fc"].stages == ("fc", "relu")
    assert found["first"].unknown == ("decayed",) and found["fc"].unknown == ()
    table = str(found)
    assert re.search(r"first +extern +float32\[5, 6\] +\? +120 B +120 B +first", table)
    assert sl.graph(y).nodes["first"]["kind"] == "extern"


def test_what_a_function_takes_is_not_computed_where_it_is_read() -> None:
    """A transpose has a kernel, since a function takes an array, and its readers have none."""
    A = sl.placeholder((4, 6), name="A")
    T = topi.transpose(sl.named("P", A * 2))
    B = sl.extern((6, 4), [T], shared, name="B")
    C = sl.named("C", topi.transpose(B) + A)
    found = partition(C)
    assert [part.stages for part in found] == [("P", "transpose"), ("B",), ("transpose_1", "C")]
    a = np.arange(24, dtype="float32").reshape(4, 6)
    close(sl.network(C, target="python")(a), (a * 2).T[::-1].T + a)


def test_stages_of_a_user_are_fused_and_cut() -> None:
    y, params = model()
    net = sl.network(y, params, target="python", fuse=[["first", "act"]], cut=["fc"])
    names = [part.stages for part in net.partition]
    assert ("first", "multiply", "act", "sigmoid") in names and ("fc",) in names
    whole = next(part for part in net.partition if "first" in part.stages)
    assert whole.unknown == ("decayed",)
    close(net(X), expected(X))


def test_blocks_of_channels_are_undone_for_a_function() -> None:
    A, K = sl.placeholder((1, 3, 6, 6), name="A"), sl.placeholder((16, 3, 3, 3), name="K")
    L = sl.placeholder((16, 16, 3, 3), name="L")
    h = topi.nn.relu(sl.named("c1", topi.nn.conv2d_nchw(A, K, 1, 1, 1)))
    B = sl.extern((1, 16, 6, 6), [h], shared, name="B")
    y = sl.named("c2", topi.nn.conv2d_nchw(sl.named("sum", B + h), L, 1, 1, 1))
    rng = np.random.default_rng(0)
    a, k, m = (rng.standard_normal(t.shape, "float32") for t in (A, K, L))
    net = sl.network(y, {K: k, L: m}, target=sl.Target("python", vector_bytes=32))
    assert "relu_plain" in net.partition.graph().nodes
    close(net(a), sl.reference(y)(a, k, m))


def test_memory_of_what_functions_take_and_write() -> None:
    A = sl.placeholder((64,), name="A")
    P = sl.named("P", A * 2)
    B = sl.extern((64,), [P], shared, name="B")
    net = sl.network(sl.named("C", B + 1), target="python")
    placed = {item.name: item for item in net.memory.placed}
    assert placed["P"].offset != placed["B"].offset
    a = np.arange(64, dtype="float32")
    close(net(a), a[::-1] * 2 + 1)


def test_a_function_alone_with_several_results_and_of_weights() -> None:
    def parts(a, low, high):
        low[...], high[...] = np.minimum(a, 0), np.maximum(a, 0)

    A, w = sl.placeholder((4, 3), name="A"), sl.placeholder((4, 3), name="w")
    low, high = sl.extern([(4, 3), (4, 3)], [A], parts, name="P")
    of_weights = sl.extern((4, 3), [w], shared, name="Q")
    a, b = X[:4, :3].copy(), W[:4, :3].copy()
    results = sl.network([low, high, sl.named("R", of_weights + A)], {w: b}, target="python")(a)
    for result, wanted in zip(results, (np.minimum(a, 0), np.maximum(a, 0), b[::-1] + a)):
        close(result, wanted)


def test_programs_of_te_and_packed_functions_in_a_network() -> None:
    A, M = te.placeholder((4, 6), name="A"), te.placeholder((6, 5), name="M")
    P = te.extern((4, 6), [A], program, name="P")
    Q = cblas.matmul(P, M)

    @sl.register_func("test.networks_twice", override=True)
    def twice(x, y):
        y.copyfrom(x.numpy() * 2)

    R = te.extern(
        Q.shape, [Q], lambda i, o: sl.tir.call_packed("test.networks_twice", i[0], o[0]), name="R"
    )
    a, m = X[:4, :6].copy(), W[:6, :5].copy()
    net = sl.network(te.compute(R.shape, lambda i, j: R[i, j] + 1, name="S"), {M: m})
    close(net(a), decay(a) @ m * 2 + 1)
    # the program is a part of the module, without a call through a table
    assert "P_program_kernel(A, P)" in net.source and "invoke" in net.source
    assert net.partition["C"].flops == 2 * 4 * 5 * 6 and not net.partition["C"].unknown


# functions that fail


@njit
def positive(a, out):
    for k in range(a.size):
        if a[k] < 0:
            raise ValueError("negative")
        out[k] = a[k]


def positive_on_host(a, out):
    positive.py_func(a, out)


FAILING = "int B(const float *a, float *b, const int64_t *s) { *b = *a; return a[0] < 0 ? 3 : 0; }"
FAILURES: dict[str, tuple[Any, str, type[Exception], str]] = {
    "host": (positive_on_host, "cpu", ValueError, "negative"),
    "host as Python": (positive_on_host, "python", ValueError, "negative"),
    "numba": (positive, "cpu", CallError, "network network: positive raised an exception"),
    "C": (FAILING, "cpu", CallError, "network network: the C function B returned a number other"),
    "C in C": (FAILING, "c", CallError, "network network: the C function B returned a number"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_function_that_fails(case: str) -> None:
    call, target, kind, message = FAILURES[case]
    A = sl.placeholder((1,), name="A")
    B = sl.extern((1,), [sl.named("P", A * 1)], call, name="B")
    net = sl.network(sl.named("C", B + 1), target=target)
    for _ in range(2):
        with pytest.raises(kind, match=message):
            net(np.array([-1], "float32"))
        close(net(np.array([2], "float32")), np.array([3]))


def test_threads_call_at_once() -> None:
    y, params = model()
    net = sl.network(y, params)
    net(X)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        x = X + np.float32(number)
        try:
            for _ in range(10):
                close(net(x), expected(x))
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []


def test_functions_run_in_the_mode_of_the_caller() -> None:
    """Kernels take denormal numbers as 0, and a function sees them."""
    A = sl.placeholder((4,), name="A")

    def doubled(a, out):
        out[...] = a * np.float32(2)

    net = sl.network(sl.extern((4,), [A], doubled, name="B"), flush_denormals=True)
    tiny = np.full(4, 1e-40, "float32")
    assert (net(tiny) == tiny * np.float32(2)).all() and tiny[0] > 0


# the cache, files and pickles


def known(net: sl.Network) -> bool:
    return bool(net._compiled.is_stored)


def test_other_processes_have_shared_functions_from_the_cache() -> None:
    y, params = model()
    first = sl.network(y, params, name="cached_externs")
    close(first(X), expected(X))
    again = sl.network(*model(), name="cached_externs")
    close(again(X), expected(X))
    # from the cache folder: the table has the functions of this graph
    assert known(first) and known(again) and again._compiled.data is not None
    assert again._compiled.kernels is None
    assert [c.function.name for c in again.module.data.functions] == ["decayed", "softly", "third"]


def test_a_function_of_this_process_alone_stays_out_of_the_cache() -> None:
    count = len(list(MODULE.path("x").parent.glob(f"*{MODULE.suffix}")))
    local = 3.0

    def own(a, out):
        out[...] = a + own_table[0] + local

    own_table = np.ones(1)
    net = sl.network(sl.extern((3,), [sl.placeholder((3,), name="A")], own, name="B"))
    close(net(np.zeros(3, "float32")), np.full(3, 4))
    assert not known(net)
    assert len(list(MODULE.path("x").parent.glob(f"*{MODULE.suffix}"))) == count


def test_a_saved_network_runs_alone_and_is_loaded_with_its_functions(tmp_path: Path) -> None:
    A = te.placeholder((4, 6), name="A")
    y, params = model(last=True)
    P = te.extern((4, 6), [A], program, name="P")
    net = sl.network([y, P], params, name="net")
    folder = net.save(tmp_path / "net")
    (x, *_), p = net.inputs, X[:4, :6].copy()
    assert x.name == "x"
    wanted = net(X, p)
    close(wanted[1], decay(p))
    np.savez(folder / "io.npz", x=X, p=p, y=wanted[0])
    # as in a process without schedlang
    code = (
        "import numpy as np, network; io = np.load('io.npz'); "
        "y, p = network.net(io['x'], io['p'], params=network.pack(np.load('weights.npz'))); "
        "np.testing.assert_array_equal(y, io['y'])"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    functions = {"decayed": decayed, "third": IN_C, "P_program": P}
    again = sl.load(folder, functions=functions)
    for result, one in zip(again(X, p), wanted):
        close(result, one)


def test_a_folder_is_loaded_with_its_functions(tmp_path: Path) -> None:
    A = te.placeholder((4, 6), name="A")
    P = te.extern((4, 6), [A], program, name="P")
    in_c, p = DECAYED % ("Q", 1, 1), X[:4, :6].copy()
    folder = sl.network(sl.extern((4, 6), [P], in_c, name="Q"), name="net").save(tmp_path / "net")
    load = 'schedlang.load(folder, functions={"P_program": P_program, "Q": Q})'
    assert f"{load} makes a network of this folder" in (folder / "network.py").read_text()
    functions: dict[str, Any] = {"P_program": P, "Q": in_c}
    close(sl.load(folder, target="python", functions=functions)(p), decay(decay(p)))
    with pytest.raises(NetworkError, match=r"calls Q, .*\n.*functions=\{'P_program': P_program, "):
        sl.load(folder, functions={"P_program": P})
    with pytest.raises(NetworkError, match="no such function; did you mean 'P_program'"):
        sl.load(folder, functions={"P_programme": P})
    with pytest.raises(CallTypeError, match="give a dict of functions by their names"):
        sl.load(folder, functions=[P])
    with pytest.raises(NetworkError, match="takes arrays of float64 and float64, and the network"):
        wide = sl.extern((3,), [sl.placeholder((3,), "float64", name="A")], shared, name="B")
        sl.load(folder, functions={**functions, "P_program": wide})


def test_a_function_of_python_is_not_saved(tmp_path: Path) -> None:
    y, params = model()
    with pytest.raises(NetworkError, match="no file holds softly: it is a function of Python"):
        sl.network(y, params).save(tmp_path / "net")
    assert not (tmp_path / "net").exists()


def test_functions_of_one_name_in_a_folder(tmp_path: Path) -> None:
    def another() -> Any:
        @njit
        def decayed(a, out):
            out[...] = a + 1

        return decayed

    other, A = another(), sl.placeholder((2, 3), name="A")
    B = sl.extern((2, 3), [A], decayed, name="B")
    C = sl.extern((2, 3), [B], other, name="C")
    D = sl.extern((2, 3), [C], decayed, name="D")
    folder = sl.network(D).save(tmp_path / "net")
    a = X[:2, :3].copy()
    net = sl.load(folder, target="python", functions={"decayed": decayed, "decayed_2": other})
    close(net(a), decay(decay(a) + 1))


def test_a_pickled_network() -> None:
    y, params = model()
    net = pickle.loads(pickle.dumps(sl.network(y, params, target="python")))
    close(net(X), expected(X))


# what looks at a network


def test_profile_and_pictures_say_what_is_unknown() -> None:
    y, params = model()
    net = sl.network(y, params, target="python")
    times = net.profile(X, repeat=1)
    assert times["first"].gflops is None and times["first"].bound is None
    assert times["fc"].gflops is not None
    assert re.search(r" \? .* \? .* first\n", f"{times}\n")
    box = next(b for b in sl.plot.partition(net.partition).data if b.name == "first")
    assert box.lines[1] == "decayed"


def test_a_search_for_each_kernel(tmp_path: Path) -> None:
    y, params = model()
    net = sl.network(y, params, database=tmp_path / "trials.jsonl")
    tuning = net.tune(trials=2)
    rates = {t.work.name: t.gflops for t in tuning.searches}
    assert rates["first"] is None and rates["fc"] is not None
    close(net(X), expected(X))


REFUSALS: dict[str, tuple[Callable[[sl.Tensor], Any], type[Exception], str]] = {
    "a GPU": (
        lambda y: sl.network(y, target="cuda-emulator"),
        ComputeTypeError,
        'sl.network.*target="cuda-emulator".*: first is computed by decayed, into which',
    ),
    "an index of a function and of weights": (
        lambda y: indexed().save("anywhere"),
        NetworkError,
        "it depends on k in the file by order, a function of yours",
    ),
}


def indexed() -> sl.Network:
    """Return a network that reads at places that a function computes from weights."""

    def order(a, out):
        out[:] = np.argsort(a)

    A, k = sl.placeholder((5,), name="A"), sl.placeholder((5,), name="k")
    O = sl.extern((5,), [k], order, name="O", dtype="int64")  # noqa: E741
    B = sl.compute((5,), lambda i: A[O[i]], name="B")
    net = sl.network(B, {k: np.arange(5, 0, -1).astype("float32")})
    close(net(X[0, :5].copy()), X[0, 4::-1])
    return net


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    act, kind, message = REFUSALS[case]
    with pytest.raises(kind, match=message):
        act(model()[0])
