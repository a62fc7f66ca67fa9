"""Recorded schedules replay to the same loop nest, as Python and as JSON."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.tensor import Tensor
from schedlang.errors import ScheduleError
from schedlang.schedule.schedule import Schedule
from schedlang.state.primitives.table import PRIMITIVES
from tests.fuzz import steps
from tests.graphs import diamond, matmul, packed_product, pointwise, recurrence, signed_product

USES: dict[str, str] = {
    "split": "s[C].split(i, factor=5); s[C].split(j, nparts=7, tail='guard')",
    "fuse": "f = s[C].fuse(i, j); s[C].fuse(); s[C].split(f, factor=10)",
    "reorder": "s[C].reorder(k, j, i)",
    "tile": "s[C].tile(i, j, 6, 16); s[D].tile(x, y, 8, 8, tail='guard')",
    "vectorize": "s[C].vectorize(s[C].split(j, factor=16)[1])",
    "unroll": "s[C].unroll(s[C].split(k, factor=4)[1])",
    "parallel": "s[C].parallel(i); s[D].parallel(x)",
    "bind": "s[C].bind(i, 'blockIdx.x'); s[C].bind(j, sl.thread_axis('threadIdx.x'))",
    "pragma": "s[C].pragma(i, 'my.hint'); s[C].pragma(j, 'a.b', 'two \"words\"'); "
              "s[C].pragma(k, 'unroll_hint', 4)",
    "prefetch": "s[C].prefetch(B, k, 2); s[C].prefetch(D, i, 1); s[C].prefetch(B, i, 1, at=k)",
    "compute_at": "s[D].compute_at(s[C], i)",
    "compute_inline": "s[D].compute_inline()",
    "compute_root": "s[D].compute_inline(); s[D].compute_root()",
    "store_at": "s[D].compute_at(s[C], j); s[D].store_at(s[C], i)",
    "store_root": "s[D].compute_at(s[C], j); s[D].store_root()",
    "set_scope": "s[D].set_scope('shared')",
    "storage_align": "s[D].storage_align(x, 32, 1); s[D].storage_align(y, 2)",
    "transform_layout": "s[D].transform_layout("
                        "lambda x, y: (y // 4 % 2 ^ x % 2, x, y % 4, y // 8))",
    "transform_argument": "s.transform_argument(A, lambda x, y: (y % 4, x, y // 4)); "
                          "s.transform_argument(C, lambda i, j: (i // 8 % 8 * 48 + j, i % 8))",
    "double_buffer": "s[D].compute_at(s[C], i); s[D].double_buffer()",
    "pipeline": "c = s.cache_read(A, 'shared', [D]); s[c].compute_at(s[D], x); s[c].pipeline(3)",
    "set_store_predicate": "s[C].set_store_predicate((i < 60) & (j + 1 >= i))",
    "cache_read": "c = s.cache_read(A, 'local', [D]); d = s.cache_read(D, 'shared', C); "
                  "s[d].compute_at(s[C], i); s[c].compute_inline()",
    "cache_write": "c = s.cache_write(C, 'local'); s[c].compute_at(s[C], j); "
                   "s[c].split(s[c].op.reduce_axis[0], factor=8); s[c].unroll(s[c].op.axis[1])",
    "rfactor": "o, n = s[C].split(k, factor=8); F = s.rfactor(C, n); G = s.rfactor(F, s[F].op"
               ".reduce_axis[0], factor_axis=-1); s[G].compute_at(s[F], s[F].op.axis[0])",
    "tensorize": "jo, ji = s[C].split(j, factor=16); ko, ki = s[C].split(k, factor=4, tail='cut'); "
                 "s[C].reorder(i, jo, ko, ji, ki); "
                 "s[C].tensorize(ji, sl.instructions.vpdpbusd)",
    "pad_einsum": "c = s.cache_write(C, 'local'); P, Q = s.pad_einsum(c, [1, 32, 5]); "
                  "s[Q].transform_layout(lambda k, j: (j // 16, k, j % 16)); "
                  "s[c].compute_at(s[C], i)",
    "shift_operand": "S, T = s.shift_operand(C, B, 'uint8'); s[S].compute_inline(); "
                     "s[T].compute_at(s[C], i); (P,) = s.pad_einsum(C, [1, 16, 1])",
}  # fmt: skip
# the computation of a primitive's use, if it is not a product of floats
GRAPHS: dict[str, Callable[[], dict[str, Any]]] = {
    "tensorize": packed_product,
    "shift_operand": signed_product,
}


def scheduled(code: str, graph: Callable[[], dict[str, Any]] = matmul) -> tuple[Schedule, Any]:
    space = {"sl": sl, **graph()}
    exec(code, space)
    return space["s"], space


def use(primitive: str) -> tuple[Schedule, Any]:
    return scheduled(USES[primitive], GRAPHS.get(primitive, matmul))


def replayed(s: Schedule, space: dict[str, Any]) -> Schedule:
    """Run ``s.as_python()`` with only the tensors bound to names, and return the schedule."""
    bound = {"sl": sl, **{n: v for n, v in space.items() if isinstance(v, Tensor)}}
    exec(s.as_python(), bound)
    return bound["s"]  # type: ignore[return-value]


def check(s: Schedule, space: dict[str, Any]) -> None:
    text = str(s)
    again = replayed(s, space)
    assert str(again) == text
    assert again.as_python() == s.as_python()
    assert again.to_json() == s.to_json()
    read = Schedule.from_json(s.to_json(), list(s.outputs))
    assert str(read) == text
    assert read.to_json() == s.to_json()
    assert str(s) == text


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_primitive_replays(primitive: str) -> None:
    s, space = use(primitive)
    assert primitive in [step.primitive for step in s.steps]
    check(s, space)


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_primitive_on_an_equal_computation(primitive: str) -> None:
    s, _ = use(primitive)
    assert str(Schedule.from_json(s.to_json(), GRAPHS.get(primitive, matmul)()["C"])) == str(s)


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_primitive_pickles(primitive: str) -> None:
    s, _ = use(primitive)
    twin = pickle.loads(pickle.dumps(s))
    assert str(twin) == str(s)
    assert twin.to_json() == s.to_json()


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_every_prefix_prints_and_replays(primitive: str) -> None:
    s, _ = use(primitive)
    for count in range(len(s.steps) + 1):
        part = s.at(count)
        assert len(part.steps) == count
        assert str(Schedule.from_json(part.to_json(), list(s.outputs))) == str(part)


def test_steps_are_plain_data() -> None:
    for primitive in USES:
        s, _ = use(primitive)
        for step in s.steps:
            data = {k: v for k, v in step.args.items() if not isinstance(v, sl.Instruction)}
            assert json.loads(json.dumps(data)) == data
            assert len(data) == len(step.args) - (step.primitive == "tensorize")


PROGRAM = """
c = s.cache_write(C, "local")
io, jo, ii, ji = s[C].tile(i, j, 6, 16)
s[c].compute_at(s[C], jo)
(k,) = s[c].op.reduce_axis
ci, cj = s[c].op.axis
s[c].reorder(k, ci, cj)
s[c].vectorize(cj)
s[c].unroll(ci)
s[C].vectorize(ji)
ds = s.cache_read(D, "shared", [c])
s[ds].compute_at(s[c], k)
s[ds].storage_align(s[ds].op.axis[0], 32, 1)
s[D].compute_inline()
s[C].parallel(io)
"""


def test_a_program_as_python() -> None:
    s, space = scheduled(PROGRAM)
    check(s, space)
    assert (
        s.as_python()
        == """\
s = sl.schedule(C)
C_local = s.cache_write(C, "local")
i, j = s[C].op.axis
i_outer, j_outer, i_inner, j_inner = s[C].tile(i, j, 6, 16)
s[C_local].compute_at(s[C], j_outer)
(k,) = s[C_local].op.reduce_axis
C_local_i, C_local_j = s[C_local].op.axis
s[C_local].reorder(k, C_local_i, C_local_j)
s[C_local].vectorize(C_local_j)
s[C_local].unroll(C_local_i)
s[C].vectorize(j_inner)
D_shared = s.cache_read(D, "shared", [C_local])
s[D_shared].compute_at(s[C_local], k)
x, y = s[D_shared].op.axis
s[D_shared].storage_align(x, 32, 1)
s[D].compute_inline()
s[C].parallel(i_outer)
"""
    )


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("s[C].split(i, factor=4)", "i_outer, i_inner = s[C].split(i, factor=4)"),
        ("s[C].split(i, nparts=4, tail='cut')", "= s[C].split(i, nparts=4, tail=\"cut\")"),
        ("s[C].tile(i, j, 8, 4)", "i_outer, j_outer, i_inner, j_inner = s[C].tile(i, j, 8, 4)"),
        ("s[C].fuse(i, j)", "i_j_fused = s[C].fuse(i, j)"),
        ("s[C].fuse()", "fused = s[C].fuse()"),
        ("s[C].bind(i, 'blockIdx.x')", 's[C].bind(i, "blockIdx.x")'),
        ("s[C].pragma(i, 'my.hint', 4)", 's[C].pragma(i, "my.hint", 4)'),
        ("s[C].pragma(i, 'my.hint')", 's[C].pragma(i, "my.hint")'),
        ("s[C].prefetch(B, k, 2)", "s[C].prefetch(B, k, 2)"),
        ("s[C].prefetch(B, i, 2, at=k)", "s[C].prefetch(B, i, 2, at=k)"),
        ("s[D].compute_at(s[C], i)", "s[D].compute_at(s[C], i)"),
        ("s[D].storage_align(x, 32)", "s[D].storage_align(x, 32)"),
        ("s.rfactor(C, k)", "C_rf = s.rfactor(C, k)"),
        ("s.rfactor(C, k, 1)", "C_rf = s.rfactor(C, k, factor_axis=1)"),
        ("s.cache_read(A, 'local', D)", 'A_local = s.cache_read(A, "local", [D])'),
        ("s[C].set_store_predicate((i < 60) & ~(j == i))",
         "s[C].set_store_predicate((i < 60) & ~(j == i))"),
        ("s[C].set_store_predicate(sl.thread_axis('threadIdx.x') == 0)",
         's[C].set_store_predicate(tx == 0)'),
        ("s[C].split(k, factor=4)", "(k,) = s[C].op.reduce_axis"),
    ],
)  # fmt: skip
def test_the_python_is_idiomatic(code: str, line: str) -> None:
    s, space = scheduled(code)
    assert line in s.as_python()
    check(s, space)


def test_copy_branches() -> None:
    s, space = scheduled("outer, inner = s[C].split(i, factor=4)")
    left, right = s.copy(), s.copy()
    C, outer, inner = space["C"], space["outer"], space["inner"]
    before = str(s)
    left[C].parallel(outer)
    right[C].unroll(inner)
    assert str(s) == before
    assert [p.primitive for p in left.steps] == ["split", "parallel"]
    assert [p.primitive for p in right.steps] == ["split", "unroll"]
    assert "parallel i.outer" in str(left) and "unroll" not in str(left)
    assert "unroll i.inner" in str(right) and "parallel" not in str(right)
    assert left[C].leaf_axes == right[C].leaf_axes == s[C].leaf_axes


def test_a_refused_step_changes_neither_a_copy_nor_its_original() -> None:
    s, space = scheduled("s[C].parallel(i)")
    twin = s.copy()
    with pytest.raises(ScheduleError):
        twin[space["C"]].vectorize(space["k"])
    assert str(twin) == str(s) and len(twin.steps) == len(s.steps) == 1


def test_at_goes_back_and_can_be_continued() -> None:
    s, space = scheduled("outer, inner = s[C].split(i, factor=4); s[C].parallel(outer)")
    early = s.at(1)
    assert str(s.at(0)) == str(sl.schedule(space["C"]))
    assert str(s.at(2)) == str(s)
    early[space["C"]].unroll(space["inner"])
    assert [p.primitive for p in early.steps] == ["split", "unroll"]
    assert [p.primitive for p in s.steps] == ["split", "parallel"]


def test_diff_shows_what_a_step_changed() -> None:
    s, _ = scheduled("s[C].parallel(i); s[D].compute_inline(); s[C].pragma(i, 'my.hint')")
    assert s.diff(1).splitlines()[:2] == ["--- before", "+++ step 1: parallel on C"]
    assert "-for i in 0..64:" in s.diff(1) and "+parallel i in 0..64:" in s.diff(1)
    assert "-D: float32[64, 32]   global, 8192 B" in s.diff(2)
    assert "+parallel i in 0..64:   # pragma my.hint" in s.diff(3)
    assert s.diff() == s.diff(3)


def test_diff_of_a_cache_names_no_stage() -> None:
    s, _ = scheduled("s.cache_read(A, 'local', D)")
    assert "+++ step 1: cache_read\n" in s.diff(1)


@pytest.mark.parametrize(
    "code",
    [
        "s[step].split(step.op.axis[1], factor=2); s[twice].unroll(twice.op.axis[1])",
        "s[twice].compute_at(s[step], step.op.axis[1])",
        "s[twice].compute_at(s[R], t); s[R].pragma(t, 'my.hint')",
        "c = s.cache_read(R, 'local', [out]); s[c].compute_at(s[out], a)",
        "c = s.cache_read(X, 'local', [first, step]); s[first].parallel(first.op.axis[1])",
    ],
)
def test_scans_replay(code: str) -> None:
    check(*scheduled(code, recurrence))


def test_several_readers_and_stages() -> None:
    check(*scheduled("c = s.cache_read(D, 'shared', [C, E]); s[c].compute_at(s[E], j); "
                     "s[C].compute_at(s[E], j); s[F].compute_inline()", diamond))  # fmt: skip


def test_symbolic_sizes_replay() -> None:
    code = "o, n = s[B].split(i, factor=8, tail='cut'); s[B].vectorize(n)"
    check(*scheduled(code, lambda: pointwise(sl.var("n"))))


def test_a_size_in_a_predicate() -> None:
    n = sl.var("n")
    s, space = scheduled("s[B].set_store_predicate(i < m - 1)", lambda: {**pointwise(n), "m": n})
    check(s, space)


def test_several_outputs() -> None:
    A = sl.placeholder((8, 16), name="A")
    k = sl.reduce_axis(16, name="k")
    both = sl.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda t, u: (0.0, 1.0), name="both"
    )
    total, product = sl.compute((8,), lambda i: both((A[i, k], A[i, k]), axis=k), name="T")
    s = sl.schedule([total, product])
    _, inner = s[total].split(k, factor=4)
    parts = s.rfactor([total, product], inner)
    caches = s.cache_write(parts, "local")
    s[caches[1]].unroll(s[caches[0]].op.axis[0])
    check(s, {"A": A, "T_v0": total, "T_v1": product})
    assert "T_rf_v0, T_rf_v1 = s.rfactor(T_v0, k_inner)" in s.as_python()


def test_one_of_several_outputs() -> None:
    A = sl.placeholder((8,), name="A")
    _, second = sl.compute((8,), lambda i: (A[i] + 1, A[i] - 1), name="T")
    s = sl.schedule(second)
    s[second].parallel(second.op.axis[0])
    check(s, {"A": A, "T_v1": second})


def test_argmax() -> None:
    A = sl.placeholder((8, 16), name="A")
    k = sl.reduce_axis(16, name="k")
    best = sl.compute((8,), lambda i: sl.argmax(A[i, k], axis=k), name="best")
    s = sl.schedule(best)
    s.rfactor(best, s[best].split(k, factor=4)[1])
    s.cache_write(best, "local")
    check(s, {"A": A, "best": best})


def test_tensors_of_equal_names() -> None:
    A = sl.placeholder((8,), name="T")
    B = sl.compute((8,), lambda i: A[i] + 1, name="T")
    C = sl.compute((8,), lambda i: B[i] * 2, name="T")
    s = sl.schedule(C)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], factor=4)[0])
    s.cache_read(A, "local", [B])
    s.cache_read(B, "local", [C])
    check(s, {"T": A, "T_1": C})


def test_names_that_python_or_the_text_reserves() -> None:
    first = sl.placeholder((8, 8), name="sl")
    second = sl.compute((8, 8), lambda in_, C: first[in_, C] + 1, name="s")
    third = sl.compute((8, 8), lambda s, sl: second[s, sl] * 2, name="C")
    s = sl.schedule(third)
    s[second].compute_at(s[third], third.op.axis[0])
    s[second].parallel(second.op.axis[1])
    s[third].reorder(third.op.axis[1], third.op.axis[0])
    s.cache_read(first, "local", [second])
    check(s, {"sl_": first, "s_": second, "C": third})
    assert s.as_python().startswith("s = sl.schedule(C)\n")


def test_inputs_without_a_variable_come_from_their_readers() -> None:
    A, scale = sl.placeholder((8,), name="A"), sl.placeholder((8,), name="s")
    nameless = [sl.placeholder((8,)) for _ in range(2)]
    out = sl.compute((8,), lambda i: A[i] * scale[i] + nameless[0][i] * nameless[1][i], name="out")
    s = sl.schedule(out)
    for tensor in (scale, *nameless):
        s.cache_read(tensor, "global", [out])
    check(s, {"A": A, "out": out, "placeholder": nameless[0]})
    plain = sl.compute((8,), lambda i: A[i] + 1, name="s")
    s = sl.schedule(plain)
    s[plain].split(plain.op.axis[0], factor=4)
    check(s, {"A": A, "s": plain})
    assert s.as_python().startswith('s = sl.schedule(s)\ns_ = s.tensor("s")\n')


def test_an_axis_named_as_an_input() -> None:
    A = sl.placeholder((8,), name="i")
    B = sl.compute((8,), lambda i: A[i] + 1, name="B")
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=4)
    s.cache_read(A, "local", [B])
    check(s, {"i": A, "B": B})


def test_names_that_caches_would_take() -> None:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] + 1, name="B_local")
    C = sl.compute((8,), lambda i: B[i] + 1, name="B")
    s = sl.schedule(C)
    s.cache_write(C, "local")
    s.cache_write(C, "local")
    s[B].parallel(B.op.axis[0])
    s.cache_read(A, "local", [B])
    check(s, {"A": A, "B_local": B, "B": C})


def test_threads_keep_their_names() -> None:
    code = """
fused = s[C].fuse(i, j)
block, thread = s[C].split(fused, factor=64)
s[C].bind(block, "blockIdx.x")
s[C].bind(thread, "threadIdx.x")
c = s.cache_read(B, "shared", [C])
s[c].compute_at(s[C], block)
s[c].bind(s[c].fuse(*s[c].op.axis), sl.thread_axis("threadIdx.x"))
s[C].set_store_predicate((sl.thread_axis("threadIdx.x") < 60) & (thread >= 0))
"""
    s, space = scheduled(code)
    check(s, space)
    assert 'tx = sl.thread_axis("threadIdx.x")\ns[C].set_store_predicate((tx < 60)' in s.as_python()


def test_outputs_that_share_a_graph_pickle_as_one() -> None:
    g = diamond()
    s = sl.schedule([g["C"], g["E"]])
    s[g["D"]].compute_inline()
    twin = pickle.loads(pickle.dumps(s))
    assert str(twin) == str(s)
    assert len(twin.stages) == len(s.stages) == 4


def test_long_schedules_replay() -> None:
    s, space = scheduled("")
    for _ in range(100):
        s[space["C"]].pragma(space["i"], "my.hint", "x")
        s[space["C"]].reorder(space["j"], space["i"])
        s[space["C"]].reorder(space["i"], space["j"])
    check(s, space)


def test_the_fuzzer_draws_each_primitive() -> None:
    assert set(steps.PRIMITIVES) == set(PRIMITIVES)


def test_stages_of_a_traced_function_are_asked_of_the_schedule() -> None:
    """Nobody has a variable of them, also where the function gives one a name of its own."""

    def sums(a: np.ndarray, x: np.ndarray) -> np.ndarray:
        scaled = a * x + 1
        return np.sum(scaled, axis=1) * 2

    A, x = sl.placeholder((7, 9), name="A"), sl.placeholder((9,), name="x")
    y = sl.trace(sums, A, x)
    s = sl.schedule(y)
    for name in ("multiply", "scaled"):
        s[s.tensor(name)].compute_inline()
    i = y.op.axis[0]
    s[s.tensor("sum")].compute_at(s[y], s[y].split(i, factor=4)[0])
    # the output is the only tensor that a program has in a variable
    bound: dict[str, Any] = {"sl": sl, y.name: y}
    exec(s.as_python(), bound)
    assert str(bound["s"]) == str(s) and bound["s"].as_python() == s.as_python()
    a, b = np.ones((7, 9), "float32"), np.arange(9, dtype="float32")
    np.testing.assert_array_equal(sl.build(bound["s"], [A, x, y])(a, b), sums(a, b))
