"""Tests of scatters on a GPU: atomic updates of global and shared memory, without a GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import RaceError, ScheduleError, VerifyError
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.simt import simulate
from schedlang.ir.nodes import Barrier, Block
from schedlang.ir.rewrite import deep
from schedlang.target import Target
from tests.marks import compiles, slow_but

rng = np.random.default_rng(0)
SIZE, BINS = 600, 32
x = rng.integers(0, BINS, SIZE).astype("uint8")
counts = np.bincount(x, minlength=BINS)


def histogram(dtype: str = "int32", combine: str = "sum") -> tuple[Any, sl.Tensor]:
    X = sl.placeholder((SIZE,), "uint8", name="X")
    H = sl.scatter((BINS,), (SIZE,), lambda k: (X[k], sl.const(1, dtype)), combine, name="H")
    return sl.schedule(H), H


def by_global_atomics(dtype: str = "int32", combine: str = "sum") -> tuple[Any, sl.Tensor]:
    s, H = histogram(dtype, combine)
    s[H].bind(H.op.axis[0], "threadIdx.x")
    ko, ki = s[H].split(H.op.reduce_axis[0], factor=64)
    s[H].bind(ko, "blockIdx.x")
    s[H].bind(ki, "threadIdx.x")
    return s, H


def by_shared_copies() -> tuple[Any, sl.Tensor]:
    """Each block updates a copy in shared memory; a second kernel adds the copies."""
    s, H = histogram()
    ko, _ = s[H].split(H.op.reduce_axis[0], nparts=4)
    P = s.rfactor(H, ko)
    L = s.cache_write(P, "shared")
    part, b = s[P].op.axis
    s[P].bind(part, "blockIdx.x")
    s[P].bind(b, "threadIdx.x")
    s[L].compute_at(s[P], part)
    s[L].bind(s[L].op.axis[1], "threadIdx.x")
    _, ki = s[L].split(s[L].op.reduce_axis[0], factor=32)
    s[L].bind(ki, "threadIdx.x")
    s[H].bind(H.op.axis[0], "threadIdx.x")
    return s, H


def checked(s: Any, wanted: np.ndarray, *arrays: np.ndarray, compiled: bool = False) -> Any:
    """Run a schedule in lockstep in three orders, its source, and ``compiled`` for the CPU."""
    f = sl.build(s, target="cuda-emulator")
    if compiled:
        np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-5)
    np.testing.assert_allclose(f.simulate(*arrays), wanted, rtol=1e-5)
    program = device_program(sl.lower(s), Target("cuda"))
    for order in ("forward", "reverse", "shuffle"):
        (found,) = simulate(program, arrays, {}, order).outputs
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    return f


def test_global_atomics(golden: Any) -> None:
    s, _ = by_global_atomics()
    golden(str(s))
    f = checked(s, counts, x, compiled=True)
    # 19 warps have updates: each loads X, loads its elements and stores them
    found = {k: (c.global_loads, c.global_stores) for k, c in f.counters(x).items()}
    assert found == {"H": (0, 1), "H_2": (38, 19)}


def test_shared_copies(golden: Any) -> None:
    s, _ = by_shared_copies()
    golden(sl.build(s, target="cuda").source.partition("def launch")[0].partition("@cuda")[2])
    checked(s, counts, x, compiled=True)


@pytest.mark.parametrize("combine", ["prod", "min", "max"])
def test_other_atomic_combiners(combine: str) -> None:
    P, V = sl.placeholder((64,), "int32", name="P"), sl.placeholder((64,), name="V")
    D = sl.scatter((8,), (64,), lambda t: (P[t], V[t]), combine, init=1, name="D")
    s = sl.schedule(D)
    s[D].bind(D.op.axis[0], "threadIdx.x")
    s[D].bind(D.op.reduce_axis[0], "threadIdx.x")
    p, v = rng.integers(0, 6, 64).astype("int32"), rng.normal(size=64).astype("float32")
    v[p == 2] = np.nan
    wanted = np.ones(8, "float32")
    with np.errstate(invalid="ignore"):
        {"prod": np.multiply, "min": np.minimum, "max": np.maximum}[combine].at(wanted, p, v)
    checked(s, wanted, p, v)


def test_rows_need_no_atomics() -> None:
    """Threads over the axis of a row update elements of their own."""
    P, G = sl.placeholder((20,), "int32", name="P"), sl.placeholder((20, 32), name="G")
    D = sl.scatter((8, 32), (20, 32), lambda t, j: ((P[t], j), G[t, j]), name="D")
    s = sl.schedule(D)
    s[D].bind(D.op.axis[1], "threadIdx.x")
    assert "atomic" not in str(s)
    p, g = rng.integers(0, 8, 20).astype("int32"), rng.normal(size=(20, 32)).astype("float32")
    wanted = np.zeros((8, 32), "float32")
    np.add.at(wanted, p, g)
    checked(s, wanted, p, g)


def test_one_constant_place() -> None:
    """Every thread counts, though no index names a thread; no register holds the sum."""
    V = sl.placeholder((96,), name="V")
    D = sl.scatter((4,), (96,), lambda t: (2, V[t]), name="D")
    s = sl.schedule(D)
    s[D].bind(D.op.axis[0], "threadIdx.x")
    ti, to = s[D].split(D.op.reduce_axis[0], nparts=32)
    s[D].bind(ti, "threadIdx.x")
    v = rng.normal(size=96).astype("float32")
    checked(s, np.array([0, 0, v.sum(), 0], "float32"), v)


def test_overlapping_patches() -> None:
    """Iterations of a serial loop around the threads may meet, so the updates are atomic."""
    P = sl.placeholder((16, 3), name="P")
    C = sl.scatter((18,), (16, 3), lambda i, d: (i + d, P[i, d]), name="C")
    s = sl.schedule(C)
    i, d = C.op.reduce_axis
    s[C].reorder(d, i)
    s[C].bind(i, "threadIdx.x")
    s[C].bind(C.op.axis[0], "threadIdx.x")
    assert "atomic C[i + d] += P[i, d]" in str(s)
    p = rng.normal(size=(16, 3)).astype("float32")
    wanted = np.zeros(18, "float32")
    for k in range(3):
        wanted[k : k + 16] += p[:, k]
    checked(s, wanted, p)


def test_strided_places_need_no_atomics() -> None:
    Y = sl.placeholder((32,), name="Y")
    D = sl.scatter((64,), (32,), lambda k: (2 * k, Y[k]), "last", name="D")
    s = sl.schedule(D)
    s[D].bind(s[D].split(D.op.axis[0], nparts=32)[0], "threadIdx.x")
    s[D].bind(D.op.reduce_axis[0], "threadIdx.x")
    assert "atomic" not in str(s)
    y = rng.normal(size=32).astype("float32")
    checked(s, np.stack([y, 0 * y], 1).ravel(), y)


def test_a_missing_barrier_is_a_race() -> None:
    """Atomic updates race with the plain stores and loads of other threads."""
    s, _ = by_shared_copies()
    program = device_program(sl.lower(s), Target("cuda"))

    first = program.launches[0]
    body = deep(first.body, lambda stmt: Block() if isinstance(stmt, Barrier) else stmt)
    wrong = replace(program, steps=tuple(
        replace(step, body=body) if step is first else step for step in program.steps
    ))  # fmt: skip
    with pytest.raises(RaceError, match=r"H\.rf\.shared.* without a barrier"):
        simulate(wrong, [x], {})


def test_places_are_checked() -> None:
    s, _ = by_global_atomics()
    f = sl.build(s, target="cuda-emulator")
    wrong = x.copy()
    wrong[7] = 200
    with pytest.raises(VerifyError, match=r"H: index 0 is 200, outside 0\.\.32 \(stage H\)"):
        f.check(wrong)


def test_an_update_of_an_unwritten_element_is_refused() -> None:
    s, _ = by_global_atomics()
    program = device_program(sl.lower(s), Target("cuda"))
    with pytest.raises(VerifyError, match=r"is updated before it is written \(stage H\)"):
        simulate(replace(program, steps=program.steps[1:]), [x], {})


@pytest.mark.parametrize("dtype, combine, what", [
    ("int8", "sum", "sum in int8"), ("float16", "sum", "sum in float16"),
    ("float32", "any", "any in bool"), ("float32", "argmax", "argmax in int64, float32"),
])  # fmt: skip
def test_refused_without_an_atomic_operation(dtype: str, combine: str, what: str) -> None:
    s, H = histogram(dtype, combine)
    with pytest.raises(ScheduleError, match=f"(?s)no atomic operation combines by {what}.*rfactor"):
        s[H].bind(H.op.reduce_axis[0], "threadIdx.x")


def test_threads_of_one_name_in_one_nest_are_refused() -> None:
    s, H = histogram()
    ko, ki = s[H].split(H.op.reduce_axis[0], factor=64)
    s[H].bind(ki, "threadIdx.x")
    with pytest.raises(ScheduleError, match=r"k\.inner of this stage is already bound"):
        s[H].bind(ko, "threadIdx.x")


def test_unbound_initialization_is_refused() -> None:
    s, H = histogram()
    s[H].bind(H.op.reduce_axis[0], "blockIdx.x")
    with pytest.raises(sl.errors.BuildError, match=r"none of its data axes \(i0\) is bound"):
        sl.build(s, target="cuda-emulator")


@compiles
@pytest.mark.parametrize(
    "dtype", slow_but(["uint64", "float32"], ["int32", "uint64", "float32", "float64"])
)
def test_atomics_compile(dtype: str) -> None:
    """Additions are one instruction, in global and in shared memory; others compare and swap."""
    ptx = sl.build(by_global_atomics(dtype)[0], target="cuda").ptx
    kind = {"int32": "u32", "uint64": "u64", "float32": "f32", "float64": "f64"}[dtype]
    assert set(re.findall(r"atom\.[\w.]+", ptx)) == {f"atom.global.add.{kind}"}
    ptx = sl.build(by_global_atomics(dtype, "prod")[0], target="cuda").ptx
    assert re.findall(r"atom\.[\w.]+", ptx) == [f"atom.global.cas.b{kind[1:]}"]
    assert "atom.shared.add.u32" in sl.build(by_shared_copies()[0], target="cuda").ptx
