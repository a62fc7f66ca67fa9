"""Files of saved kernels and networks refuse the sizes that a call refuses, in the same words."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, BuildError, CallError, NetworkError, SchedlangError
from schedlang.ir.size_conditions import size_conditions
from schedlang.ir.specialize import at_sizes
from schedlang.ir.verify import verify
from schedlang.lowering.lower import lower_state
from schedlang.runtime.simulator import simulate_file
from schedlang.state.initial import initial_state
from tests.marks import slow_but
from tests.test_network_gpu_file import File
from tests.test_network_sizes import shifted, view
from tests.test_saved_files import module_of

N, M = sl.var("n"), sl.var("m")
A, W = sl.placeholder((N,), name="A"), sl.placeholder((M,), name="W")
T = sl.placeholder((N, 3), name="T")
PLACES = sl.placeholder((M,), "int64", name="places")


def cumulated(rows: int) -> sl.Tensor:
    S = sl.placeholder((N, 3), name="S")
    init = sl.compute((rows, 3), lambda t, j: T[t, j], name="init")
    step = sl.compute((N, 3), lambda t, j: S[t - rows, j] + T[t, j], name="step")
    return sl.scan(init, step, S, inputs=[T], name="total")


def summed(k: Any) -> sl.Tensor:
    return sl.compute((M,), lambda i: sl.sum(A[k + 2] * W[i], axis=k), name="C")


CASES: dict[str, Callable[[], sl.Tensor]] = {
    "edge": lambda: np.pad(A, 2, mode="edge"),
    "reflect": lambda: np.pad(A, (1, 2), mode="reflect"),
    "wrap": lambda: np.pad(A, 1, mode="wrap"),
    "ahead": lambda: sl.compute((N,), lambda i: A[i] + W[i + 4], name="C"),
    "behind": lambda: sl.compute((N,), lambda i: A[i] + W[M - 3 - i], name="C"),
    "clamped": lambda: sl.compute((N,), lambda i: A[sl.min(i + 2, 4)], name="C"),
    "last": lambda: sl.compute((M,), lambda i: A[N - 1] + W[i], name="C"),
    "row": lambda: sl.compute((3,), lambda j: T[2, j], name="C"),
    "gathered": lambda: sl.compute((M,), lambda i: A[PLACES[i]], name="C"),
    "by modulo": lambda: sl.compute((M,), lambda i: A[(i + 3) % N] + W[i], name="C"),
    "pairs": lambda: sl.compute((M // 2,), lambda i: A[2 * i + 1] + W[i], name="C"),
    "sum": lambda: summed(sl.reduce_axis(M, name="k")),
    "guarded by sizes": lambda: sl.compute(
        (M,), lambda i: sl.if_then_else(M < 5, A[N - 1] + W[i], 0.0), name="C"),
    "one row": lambda: cumulated(1),
    "two rows": lambda: cumulated(2),
}  # fmt: skip


def refused_at(nest: Any, sizes: dict[str, int]) -> bool:
    """Return whether an access leaves its array at these sizes."""
    try:
        left = verify(at_sizes(nest, sizes))
    except SchedlangError:
        return True
    assert not any(access.exact for access in left)
    return False


@pytest.mark.parametrize("case", CASES)
def test_conditions_hold_exactly_where_a_read_is_outside(case: str) -> None:
    nest = lower_state(initial_state([CASES[case]()]))
    conditions = size_conditions(nest)
    assert conditions
    seen = set()
    for n, m in product(range(9), repeat=2):
        sizes = {"n": n, "m": m}
        refuses = any(condition.refuses(sizes) for condition in conditions)
        assert refuses == refused_at(nest, sizes), sizes
        seen.add(refuses)
    assert seen == {True, False}


def random_index(draw: Random, i: Any, j: Any, depth: int = 0) -> Any:
    """Return an index over two loops and sizes."""
    if depth > 2 or draw.random() < 0.2:
        return draw.choice([i, j])
    one = random_index(draw, i, j, depth + 1)
    return draw.choice([
        lambda: one + draw.randrange(-2, 4), lambda: one * 2, lambda: N - 1 - one,
        lambda: one + random_index(draw, i, j, depth + 1), lambda: i * M,
        lambda: sl.min(one, draw.choice([N - 1, M, 2])), lambda: sl.max(one, N - M),
        lambda: sl.max(0, sl.min(one, N - 1)), lambda: one % draw.choice([N, M, 3]),
        lambda: one // draw.choice([2, N]), lambda: N // 2 + 0 * i,
    ])()  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_conditions_of_random_reads_are_exact(seed: int) -> None:
    draw = Random(seed)
    rows, cells = sl.placeholder((N, M), name="X"), sl.placeholder((N, M), "int64", name="P")
    read = sl.placeholder((draw.choice([N, M + 1, N * 2, N // 2, 3, sl.min(N, M)]),), name="R")

    def element(i: Any, j: Any) -> Any:
        index = cells[i, j] if draw.random() < 0.1 else random_index(draw, i, j)
        tests = [i < M, (i < M) & (j < N), N > M, j > 0, (i < M) | (j < N), i * M + j < N]
        found = read[index]
        if draw.random() < 0.4:
            found = sl.if_then_else(draw.choice(tests), found, 0.0)
        return found + rows[i, j]

    try:
        nest = lower_state(initial_state([sl.compute((N, M), element, name="C")]))
    except BoundsError:
        # outside at all sizes
        return
    conditions = size_conditions(nest)
    for n, m in product(range(6), repeat=2) if conditions is not None else ():
        sizes = {"n": n, "m": m}
        refuses = any(condition.refuses(sizes) for condition in conditions or ())
        assert refuses == refused_at(nest, sizes), (sizes, str(nest))


def arrays_of(f: Any, sizes: dict[str, int]) -> dict[str, Any]:
    """Return all inputs of a kernel at these sizes, filled with zeros."""
    given: dict[str, Any] = {}
    for p in f.signature.inputs:
        shape = [e if isinstance(e, int) else sizes[e] for e in p.shape]
        given[p.name] = sizes[p.name] if p.is_size else np.zeros(shape, p.dtype)
    return given


@pytest.mark.parametrize("case", CASES)
def test_the_file_of_a_kernel_refuses_what_the_kernel_does(case: str, tmp_path: Path) -> None:
    C = CASES[case]()
    f = sl.build(sl.schedule(C), name="run")
    module = module_of(f.save(tmp_path / "k.py"))
    entry = next(name for name in vars(module) if name.endswith("_kernel"))
    ran: list[Any] = []
    # what the checks let through is not compiled
    setattr(module, entry, lambda *args: ran.append(args))
    twin = sl.build(sl.schedule(C), name="run", target="python")
    outcomes = set()
    for n, m in product((0, 1, 2, 3, 7, 8), repeat=2):
        given = arrays_of(f, {"n": n, "m": m})
        ran.clear()
        try:
            twin(**given)
        except CallError as error:
            with pytest.raises(ValueError) as caught:
                module.run(**given)
            assert str(caught.value) == str(error) and not ran
        else:
            module.run(**given)
            assert len(ran) == 1
        outcomes.add(bool(ran))
    assert outcomes == {True, False}


def test_a_scheduled_kernel_and_its_file_refuse_the_same_sizes(tmp_path: Path) -> None:
    s = sl.schedule(CASES["ahead"]())
    outer, inner = s["C"].split(s["C"].op.axis[0], factor=4)
    s["C"].vectorize(inner)
    s["C"].parallel(outer)
    f = sl.build(s)
    file = module_of(f.save(tmp_path / "k.py"))
    a, w = np.ones(9, "float32"), np.arange(13, dtype="float32")
    np.testing.assert_array_equal(file.C(a, w), w[4:] + 1)
    message = (
        r"kernel C cannot run where n=9, m=12: index 0 of W, i \+ 4, takes the values 4\.\.12, "
        r"outside 0\.\.12 \(in stage C\)\n  Guard the read with"
    )
    for run in (f, file.C):
        with pytest.raises(ValueError, match=message):
            run(a, w[:12])


def test_a_stage_without_loops_is_named(tmp_path: Path) -> None:
    A = sl.placeholder((N,), name="A")
    whole = sl.compute((N,), lambda i: A[i] + 1, name="whole")
    last = sl.compute((1,), lambda i: A[N - 1], name="last")
    f = sl.build(sl.schedule([whole, last]), name="run")
    file = module_of(f.save(tmp_path / "k.py"))
    message = r"n=0: index 0 of A, n - 1, cannot lie in 0\.\.0 \(in stage last\)\n"
    for run in (f, file.run):
        with pytest.raises(ValueError, match=message):
            run(np.zeros(0, "float32"))


def test_the_file_of_a_gpu_kernel_refuses_sizes(tmp_path: Path) -> None:
    s = sl.schedule(CASES["ahead"]())
    blocks, threads = s["C"].split(s["C"].op.axis[0], factor=4)
    s["C"].bind(blocks, "blockIdx.x")
    s["C"].bind(threads, "threadIdx.x")
    f = sl.build(s, target="cuda")
    saved = f.save(tmp_path / "k.py").read_text()
    assert saved.count("cannot run where") == 1
    launch = simulate_file(Path(f.path))["launch"]
    a, w, c = np.ones(6, "float32"), np.arange(10, dtype="float32"), np.zeros(6, "float32")
    with pytest.raises(ValueError, match="kernel C cannot run where n=6, m=9: index 0 of W"):
        launch(a, w[:9].copy(), c, 6, 9)
    assert not c.any()
    launch(a, w, c, 6, 10)
    np.testing.assert_array_equal(c, w[4:] + 1)


def test_a_file_refuses_storage_that_no_address_reaches(tmp_path: Path) -> None:
    x = sl.placeholder((N,), "int8", name="x")
    wide = sl.compute((N, N, N), lambda i, j, k: x[i] + x[j] + x[k], name="wide")
    y = sl.compute((N,), lambda i: wide[i, 0, i] + wide[0, i, 0], name="y")
    f = sl.build(sl.schedule(y))
    file = module_of(f.save(tmp_path / "k.py"))
    message = "kernel y where n=2097152: wide would take 9223372036854775808 bytes, more than an"
    for run in (f, file.y):
        with pytest.raises(ValueError, match=f"^{message} address can reach$"):
            run(np.ones(2**21, "int8"))


@pytest.mark.parametrize("target", slow_but(["cuda"], ["cpu", "cuda"]))
def test_the_file_of_a_network_refuses_what_a_call_does(target: str, tmp_path: Path) -> None:
    net = shifted(target)
    path = net.save(tmp_path / "net") / "network.py"
    if target == "cpu":
        run, given = module_of(path).shifts, {}
    else:
        file = File(net.module.path)
        run, given = file.names["shifts"], {"memory": file.names["memory_of"]()}
    with pytest.raises(ValueError) as caught:
        run(view(5), **given)
    assert str(caught.value) == (
        "network shifts: part shift of layer block.shift cannot run where n=5: index 0 of x, "
        "min(i + 2, 7), takes the values 2..6, outside 0..5 (in stage shift)\n"
        "  Guard the read with sl.if_then_else(cond, ..., 0)."
    )
    a = view(9)
    y, total = run(a, **given)
    np.testing.assert_array_equal(y, a[np.minimum(np.arange(9) + 2, 7)])
    np.testing.assert_allclose(total, np.exp(y).sum(), rtol=1e-5)
    if target == "cpu":
        with pytest.raises(CallError) as refused:
            net(view(5))
        assert str(refused.value) == str(caught.value)
        # a network of the folder checks, too
        with pytest.raises(CallError, match="part shift of layer block.shift cannot run where"):
            sl.load(path.parent)(view(5))


UNWRITTEN: dict[str, Callable[[], sl.Tensor]] = {
    "product": lambda: sl.compute((N, N), lambda i, j: W[i * j], name="C"),
    "twice": lambda: sl.compute((N,), lambda i: W[sl.max(i, 4 - i)] + A[i], name="C"),
    "guarded": lambda: sl.compute(
        (N,), lambda i: sl.if_then_else(i % 3 == 1, W[i], 0.0) + A[i], name="C"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNWRITTEN)
def test_sizes_that_are_no_condition_are_still_refused(case: str, tmp_path: Path) -> None:
    C = UNWRITTEN[case]()
    message = "that says which sizes are right\n  Use constant sizes, indices that are linear"
    with pytest.raises(BuildError, match=f"save: kernel C: .*{message}"):
        sl.build(sl.schedule(C)).save(tmp_path / "k.py")
    if case != "product":
        with pytest.raises(NetworkError, match=f"part C of network net: .*{message}"):
            sl.network(C, name="net").save(tmp_path / "net")
    assert not list(tmp_path.iterdir())
