"""Tests of swizzles: parts of a layout at the exclusive or with other parts."""

from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st

import schedlang as sl
from schedlang.ir.nodes import Buffer
from schedlang.ir.offsets import flat
from tests.conftest import Golden
from tests.marks import slow_beyond

N = 64


def transposition(tile: int, swizzle: str) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Return a transposition through shared memory, which one warp reads along columns."""
    A = sl.placeholder((N, N), name="A")
    B = sl.compute((N, N), lambda i, j: A[j, i], name="B")
    s = sl.schedule(B)
    S = s.cache_read(A, "shared", [B])
    io, jo, ii, ji = s[B].tile(*B.op.axis, tile, tile)
    s[B].bind(io, sl.thread_axis("blockIdx.y"))
    s[B].bind(jo, sl.thread_axis("blockIdx.x"))
    s[B].bind(ji, sl.thread_axis("threadIdx.x"))
    s[S].compute_at(s[B], jo)
    s[S].bind(s[S].op.axis[1], sl.thread_axis("threadIdx.x"))
    if swizzle:
        s[S].transform_layout(eval(f"lambda i, j: {swizzle}"))  # noqa: S307
    return s, [A, B]


@pytest.mark.parametrize(
    ("swizzle", "conflicts"),
    [
        ("", 4 * 32 * 31),
        ("(i, j // 32, j % 32 ^ i % 32)", 0),
        # each of 8 rows has its quarter of the banks, so four threads of a warp share each
        ("(i, j // 32, j // 4 % 8 ^ i % 8, j % 4)", 4 * 32 * 3),
    ],
)
def test_a_swizzle_removes_bank_conflicts(swizzle: str, conflicts: int) -> None:
    s, args = transposition(32, swizzle)
    f = sl.build(s, args, target="cuda-emulator")
    a = np.random.default_rng(0).random((N, N)).astype("float32")
    np.testing.assert_array_equal(f(a), a.T)
    counted = f.counters(a)["B"]
    assert counted.bank_conflicts == conflicts
    # the tile takes no more memory than without
    assert [b.bytes for b in s.nest().buffers if b.scope == "shared"] == [32 * 32 * 4]


def test_threads_meet_no_race_in_a_swizzled_tile() -> None:
    s, args = transposition(16, "(i, j // 16, j % 16 ^ i % 16)")
    f = sl.build(s, args, target="cuda-emulator")
    a = np.random.default_rng(1).random((N, N)).astype("float32")
    np.testing.assert_array_equal(f.check(a), a.T)
    plain = sl.build(*transposition(16, ""), target="cuda-emulator")
    assert f.counters(a)["B"].barriers == plain.counters(a)["B"].barriers


def test_the_nest_says_how_a_tile_is_swizzled(golden: Golden) -> None:
    s, _ = transposition(32, "(i, j // 32, j // 2 % 16 ^ i // 2 % 16, j % 2)")
    golden(s)


def test_vectors_inside_of_a_swizzled_chunk_are_one_access() -> None:
    A = sl.placeholder((32, 32), name="A")
    B = sl.compute((32, 32), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((32, 32), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    s[B].transform_layout(lambda i, j: (i, j // 32, j // 8 % 4 ^ i % 4, j % 8))
    s[B].vectorize(s[B].split(B.op.axis[1], factor=8)[1])
    s[C].vectorize(s[C].split(C.op.axis[1], factor=8)[1])
    f = sl.build(s, [A, C], compile="now")
    assert f.source.count("vload(") == 2 and f.source.count("vstore(") == 2
    assert "vgather" not in f.source and "vscatter" not in f.source
    a = np.random.default_rng(2).random((32, 32)).astype("float32")
    np.testing.assert_array_equal(f(a), a * 2 + 1)


@pytest.mark.parametrize("target", ["c", "cuda-emulator"])
def test_both_copies_of_a_double_buffer_are_swizzled(target: str) -> None:
    A = sl.placeholder((32, 64), "int32", name="A")
    k = sl.reduce_axis(64, name="k")
    B = sl.compute((32,), lambda i: sl.sum(A[i, k] * (k + 1), axis=k), name="B")
    s = sl.schedule(B)
    if target == "c":
        S = s.cache_read(A, "global", [B])
        s[S].transform_layout(lambda i, k: (i, k // 16, k % 16 ^ i % 16))
    else:
        S = s.cache_read(A, "shared", [B])
        ko, _ = s[B].split(k, factor=16)
        s[B].bind(B.op.axis[0], sl.thread_axis("threadIdx.x"))
        s[S].compute_at(s[B], ko)
        s[S].bind(s[S].op.axis[0], sl.thread_axis("threadIdx.x"))
        s[S].transform_layout(lambda i, k: (i, k // 16, k % 16 ^ i % 16))
        s[S].double_buffer()
    a = np.random.default_rng(3).integers(-9, 9, (32, 64), dtype="int32")
    np.testing.assert_array_equal(sl.build(s, [A, B], target=target)(a), a @ np.arange(1, 65))


def test_an_instruction_refuses_a_swizzled_operand() -> None:
    A, B = sl.placeholder((4, 64), "uint8", name="A"), sl.placeholder((64, 32), "int8", name="B")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute(
        (4, 32), lambda i, j: sl.sum(sl.cast(A[i, k], "int32") * B[k, j], axis=k), name="C"
    )
    s = sl.schedule(C)
    P = s.cache_read(B, "global", [C])
    s[P].transform_layout(lambda k, j: (j // 16, k // 4, j % 16 ^ k // 4 % 16, k % 4))
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=16)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(i, jo, ko, ji, ki)
    with pytest.raises(sl.errors.ScheduleError, match="by an uneven distance along j.inner"):
        s[C].tensorize(ji, sl.instructions.vpdpbusd)


bits = st.integers(1, 3)


@slow_beyond(20, 100, st.data())
def test_a_swizzle_moves_no_two_elements_to_one_place(data: st.DataObject) -> None:
    low, middle, width = (1 << data.draw(bits) for _ in range(3))
    by = 1 << data.draw(st.integers(0, middle.bit_length() - 1))
    divisor = data.draw(st.integers(1, 5))
    shape = (data.draw(st.integers(1, 9)), data.draw(st.integers(1, 40)))
    B = sl.compute(shape, lambda i, j: i * 100 + j, name="B")
    C = sl.compute(shape, lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    s[B].transform_layout(
        lambda i, j: (j // (low * middle), i, j // low % middle ^ i // divisor % by, j % low)
    )
    (buffer,) = (b for b in s.nest().buffers if b.tensor is B)
    sizes = [int(size) for size in buffer.shape]
    offsets = {_offset(buffer, index) for index in product(*map(range, sizes))}
    assert len(offsets) == np.prod(sizes) and offsets <= set(range(int(np.prod(sizes))))
    i, j = np.indices(shape)
    np.testing.assert_array_equal(sl.build(s, [C], target="python")(), i * 100 + j + 1)


def _offset(buffer: Buffer, index: tuple[int, ...]) -> int | None:
    return flat(buffer, [sl.const(i, "int64") for i in index], {}).const
