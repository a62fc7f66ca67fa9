"""Computations scheduled for GPUs, with their inputs and NumPy's results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl


@dataclass(frozen=True)
class Scheduled:
    """A schedule with its arguments, inputs, and the expected result."""

    schedule: Any
    args: list[Any]
    inputs: tuple[np.ndarray, ...]
    expected: np.ndarray


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).integers(-8, 9, shape)
    return (values / (8 if np.issubdtype(dtype, np.floating) else 1)).astype(dtype)


def scaled(n: int | Any = 1000, threads: int = 256, at: int = 1000) -> Scheduled:
    """Return a scaled array with one thread per element."""
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], factor=threads)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    a = numbers(at)
    return Scheduled(s, [A, B], (a,), a * 2)


def gemm(
    n: int, m: int, inner: int, tile: int = 16, rows: int = 4, depth: int = 8, vector: int = 0,
    double: bool = False, virtual: bool = False, align: bool = False, dtype: str = "float32",
    stages: int = 0,
) -> Scheduled:  # fmt: skip
    """Return a matrix product with shared tiles and a register tile in each thread."""
    A, B = sl.placeholder((n, inner), dtype, name="A"), sl.placeholder((inner, m), dtype, name="B")
    k = sl.reduce_axis(inner, "k")
    C = sl.compute((n, m), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    AS, BS = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    CL = s.cache_write(C, "local")
    AL, BL = s.cache_read(AS, "local", [CL]), s.cache_read(BS, "local", [CL])
    i, j = s[C].op.axis
    count = tile // rows
    by, i = s[C].split(i, tile)
    bx, j = s[C].split(j, tile)
    outer = []
    if virtual:
        vy, i = s[C].split(i, nparts=2)
        vx, j = s[C].split(j, nparts=2)
        outer = [vy, vx]
    ty, i = s[C].split(i, nparts=count)
    tx, j = s[C].split(j, nparts=count)
    s[C].reorder(by, bx, *outer, ty, tx, i, j)
    for axis, name in zip(
        (by, bx, ty, tx), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    ):
        s[C].bind(axis, name)
    for axis in outer:
        s[C].bind(axis, "vthread")
    s[CL].compute_at(s[C], tx)
    ci, cj = s[CL].op.axis
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], depth)
    s[CL].reorder(ko, ki, ci, cj)
    s[CL].unroll(ci)
    s[CL].unroll(cj)
    s[AL].compute_at(s[CL], ki)
    s[BL].compute_at(s[CL], ki)
    for S in (AS, BS):
        s[S].compute_at(s[CL], ko)
        fused = s[S].fuse(*s[S].op.axis)
        if vector:
            fused, lanes = s[S].split(fused, vector)
            s[S].vectorize(lanes)
        fused, x = s[S].split(fused, count)
        fused, y = s[S].split(fused, count)
        s[S].bind(y, "threadIdx.y")
        s[S].bind(x, "threadIdx.x")
        if double:
            s[S].double_buffer()
        if stages:
            s[S].pipeline(stages)
        if align:
            s[S].storage_align(s[S].op.axis[0], 2 * depth, 1)
    a, b = numbers(n, inner, dtype=dtype), numbers(inner, m, dtype=dtype, seed=1)
    return Scheduled(s, [A, B, C], (a, b), a @ b)


def row_reduction(
    rows: int, columns: int, x: int, y: int = 1, kind: str = "sum", factored: bool = False
) -> Scheduled:
    """Return a reduction of each row across ``x`` threads."""
    A = sl.placeholder((rows, columns), name="A")
    k = sl.reduce_axis(columns, "k")
    B = sl.compute((rows,), lambda i: getattr(sl, kind)(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    _, inner = s[B].split(s[B].op.reduce_axis[0], x)
    factor: Any = s.rfactor(B, inner) if factored else None
    block, thread = s[B].split(s[B].op.axis[0], y)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.y")
    if factored:
        (inner,) = s[B].op.reduce_axis
        first = factor[0] if isinstance(factor, list) else factor
        s[first].compute_at(s[B], inner)
    s[B].bind(inner, "threadIdx.x")
    a = numbers(rows, columns)
    expected = {"sum": a.sum(1), "max": a.max(1), "argmax": a.argmax(1)}[kind]
    return Scheduled(s, [A, B], (a,), expected)


def softmax(rows: int, columns: int, threads: int) -> Scheduled:
    """Return a softmax with one block per row and two reductions across its threads."""
    A = sl.placeholder((rows, columns), name="A")
    k, k2 = sl.reduce_axis(columns, "k"), sl.reduce_axis(columns, "k2")
    M = sl.compute((rows,), lambda i: sl.max(A[i, k], axis=k), name="M")
    E = sl.compute((rows, columns), lambda i, j: sl.exp(A[i, j] - M[i]), name="E")
    S = sl.compute((rows,), lambda i: sl.sum(E[i, k2], axis=k2), name="S")
    C = sl.compute((rows, columns), lambda i, j: E[i, j] / S[i], name="C")
    s = sl.schedule(C)
    s[E].compute_inline()
    i, j = s[C].op.axis
    s[C].bind(i, "blockIdx.x")
    _, thread = s[C].split(j, threads)
    s[C].bind(thread, "threadIdx.x")
    for T in (S, M):
        s[T].compute_at(s[C], i)
        _, inner = s[T].split(s[T].op.reduce_axis[0], threads)
        s[T].bind(inner, "threadIdx.x")
    a = numbers(rows, columns)
    e = np.exp(a - a.max(1, keepdims=True))
    return Scheduled(s, [A, C], (a,), e / e.sum(1, keepdims=True))


CASES = {
    "scaled": scaled,
    "gemm": lambda: gemm(64, 64, 64),
    "gemm of odd sizes": lambda: gemm(50, 47, 33, vector=4),
    "gemm with double buffers": lambda: gemm(48, 32, 40, double=True),
    "gemm with pipelines": lambda: gemm(48, 32, 40, stages=3, vector=4),
    "gemm with pipelines, odd": lambda: gemm(50, 47, 33, stages=4),
    "gemm with double buffers, odd": lambda: gemm(50, 47, 33, double=True, align=True),
    "gemm with virtual threads": lambda: gemm(64, 32, 24, virtual=True),
    "gemm with virtual threads, odd": lambda: gemm(50, 47, 33, virtual=True, vector=2),
    "gemm in float64": lambda: gemm(33, 20, 17, dtype="float64", vector=2),
    "gemm in int32": lambda: gemm(33, 20, 17, dtype="int32"),
    "sum by a warp": lambda: row_reduction(64, 256, 32, 4),
    "sum by several warps": lambda: row_reduction(7, 300, 128, factored=True),
    "sum by 20 threads": lambda: row_reduction(10, 20, 20, 2),
    "max by two warps of rows": lambda: row_reduction(33, 100, 64, 2, "max", factored=True),
    "argmax": lambda: row_reduction(33, 100, 16, 3, "argmax", factored=True),
    "argmax by several warps": lambda: row_reduction(5, 130, 64, 1, "argmax"),
    "softmax": lambda: softmax(20, 100, 24),
    "softmax by warps": lambda: softmax(20, 100, 64),
}
