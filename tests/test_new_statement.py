"""A statement that no pass knows: walks, passes and verifiers go through it by what it declares."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

import schedlang as sl
from schedlang.errors import VerifyError
from schedlang.expr.nodes import Const, Expr
from schedlang.gpu_lowering.emulation import as_loops
from schedlang.gpu_lowering.filled_ahead import with_copies
from schedlang.gpu_lowering.kernels import host_statements
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.threads import shared_first
from schedlang.gpu_lowering.vthread import without_vthreads
from schedlang.index.linear import Lin
from schedlang.ir import nodes
from schedlang.ir.accesses import accesses, read_buffers, sites, written_buffers
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, If, Load, Stmt, Store, block_of, bound, walk
from schedlang.ir.numbers import number_statements
from schedlang.ir.printer import nest_text
from schedlang.ir.rewrite import (
    deep,
    relocate,
    replace_statements,
    storage,
    substitute,
    with_buffers,
)
from schedlang.ir.specialize import at_sizes
from schedlang.ir.verify import verify
from schedlang.lowering import lower
from schedlang.lowering.complex_storage import Splitter
from schedlang.lowering.hoist import hoist
from schedlang.machine import nodes as machine
from schedlang.machine.identifiers import name_all
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.lower import CPU_LOOP_PASSES, CPU_PASSES, arranged_nest
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Function, Let, Num, Op, Reg, Type
from schedlang.machine.passes.job import Job
from schedlang.machine.printer import machine_text
from schedlang.machine.rewrite import swap_values
from schedlang.machine.select.cpu import select_cpu
from schedlang.machine.verify import verify_machine
from schedlang.machine.walks import with_bodies, with_statements

CPU = sl.Target("cpu", vector_bytes=16, vector_registers=16)


@dataclass(frozen=True, eq=False)
class Watched(nodes.Statement):
    """Statements that run while ``buffer[indices]`` is watched, from ``first`` on."""

    HELD = ("body",)
    EXPRESSIONS = ("indices",)
    POLYNOMIALS = ("first",)
    READ = ("buffer",)

    body: Block
    buffer: Buffer
    indices: tuple[Expr, ...]
    first: Lin = Lin.of(0)


def watched(nest: Nest) -> Nest:
    """Return ``nest`` with the body of each outermost loop under a statement that no pass knows."""
    read = next(a for a in nest.args if isinstance(a, Buffer))
    at = tuple(Const(0, "int64", True) for _ in read.shape)

    def around(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For):
            return stmt
        inner = cast(Any, Watched(stmt.body, read, at, Lin.of(stmt.axis)))
        return replace(stmt, body=Block((inner,)))

    return replace(nest, body=Block(tuple(map(around, nest.body.stmts))))


def unwatched(block: Block) -> Block:
    """Return ``block`` with what the unknown statements hold in their place."""

    def bare(stmt: Any) -> Stmt:
        return stmt.body if isinstance(stmt, Watched) else stmt

    found = deep(block, bare)
    assert isinstance(found, Block)
    return found


def passes_through(run: Callable[[Nest], Block], nest: Nest) -> None:
    """Assert that a pass does to a watched nest what it does to the nest."""
    through = run(watched(nest))
    assert any(isinstance(s, Watched) for s, _ in walk(through))
    after, expected = (nest_text(replace(nest, body=b)) for b in (unwatched(through), run(nest)))
    assert after == expected


def products(n: Any = 30) -> sl.Schedule:
    """Return a tiled product with lanes, copies, a guarded tail and sums in registers."""
    A, B = sl.placeholder((n, 16), name="A"), sl.placeholder((16, 24), name="B")
    k = sl.reduce_axis(16, name="k")
    C = sl.compute((n, 24), lambda i, j: sl.sum(A[i, k] * B[k, j], k), name="C")
    s = sl.schedule(C)
    i, j = s[C].op.axis
    io, ii = s[C].split(i, factor=4, tail="guard")
    jo, ji = s[C].split(j, factor=4)
    s[C].reorder(io, jo, k, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    return s


def borders() -> sl.Schedule:
    """Return a stencil that repeats its border, so that its lanes are clamped at the edges."""
    A = sl.placeholder((8, 64), name="A")

    def near(y: Any, x: Any) -> Any:
        return A[y, sl.max(x - 1, 0)] + A[y, sl.min(x + 1, 63)]

    C = sl.compute((8, 64), near, name="C")
    s = sl.schedule(C)
    _, lanes = s[C].split(s[C].op.axis[1], factor=8)
    s[C].vectorize(lanes)
    return s


def ragged() -> sl.Schedule:
    n = sl.var("n")
    indptr = sl.placeholder((n + 1,), "int64", name="indptr")
    V = sl.placeholder((sl.var("count"),), name="V")
    sl.assume(indptr, monotonic=True, within=(0, V.shape[0]))
    C = sl.compute(
        (n,), lambda i: sl.sum(V[k := sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")], k),
        name="C",
    )  # fmt: skip
    return sl.schedule(C)


def guarded() -> sl.Schedule:
    A = sl.placeholder((30, 8), name="A")
    C = sl.compute((30, 8), lambda i, j: A[i, j] + 1, name="C")
    s = sl.schedule(C)
    s[C].split(s[C].op.axis[0], factor=4, tail="guard")
    return s


def complex_values() -> sl.Schedule:
    A = sl.placeholder((8, 4), "complex64", name="A")
    B = sl.compute((8, 4), lambda i, j: A[i, j] * 2j, name="B")
    C = sl.compute((8, 4), lambda i, j: B[i, j] + A[i, j], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], s[C].op.axis[0])
    return s


@pytest.mark.parametrize(
    "run, schedule",
    [
        (lambda nest: number_statements(nest).body, products),
        (lambda nest: at_sizes(nest, {"n": 30}).body, lambda: products(sl.var("n"))),
        (lambda nest: replace_statements(nest.body, Splitter().statement), complex_values),
    ],
    ids=["numbered", "at_sizes", "split_complex"],
)
def test_passes_over_whole_nests(
    run: Callable[[Nest], Block], schedule: Callable[[], sl.Schedule]
) -> None:
    passes_through(run, sl.lower(schedule()))


def test_hoisting() -> None:
    nest = sl.lower(guarded())

    def inward(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, If):
            return stmt
        (loop,) = stmt.body.stmts
        assert isinstance(loop, For)
        return replace(loop, body=Block((replace(stmt, body=loop.body),)))

    inside = replace(nest, body=block_of(deep(nest.body, inward)))
    assert nest_text(inside) != nest_text(nest)
    assert nest_text(replace(nest, body=hoist(inside.body))) == nest_text(nest)
    passes_through(lambda n: hoist(n.body), inside)


@pytest.mark.parametrize("name, schedule", [("trim", ragged), ("split_edges", borders)])
def test_passes_of_lowering(
    name: str, schedule: Callable[[], sl.Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = getattr(lower, name), list[Block]()

    def alone(block: Block) -> Block:
        return cast(Block, run(block, Findings()))

    def noted(block: Block, findings: Findings) -> Block:
        seen.append(block)
        return cast(Block, run(block, findings))

    monkeypatch.setattr(lower, name, noted)
    nest = sl.lower(schedule())
    before = replace(nest, body=seen[0])
    assert nest_text(before) != nest_text(replace(nest, body=alone(seen[0])))
    passes_through(lambda n: alone(n.body), before)


@pytest.mark.parametrize("schedule", [products, borders, guarded])
def test_passes_over_loops(schedule: Callable[[], sl.Schedule]) -> None:
    nest = sl.lower(schedule())
    passes_through(lambda n: arranged_nest(n, CPU).body, nest)
    body, plain = watched(nest).body, nest.body
    for run in CPU_LOOP_PASSES:
        body, plain = (run(b, LoopJob(nest, CPU)) for b in (body, plain))
        texts = [nest_text(replace(nest, body=b)) for b in (unwatched(body), plain)]
        assert texts[0] == texts[1], run.__name__


def tiles_of_a_gpu() -> Nest:
    """Return a nest of virtual threads with tiles of its input in shared and local memory."""
    A = sl.placeholder((64, 64), name="A")
    B = sl.compute((64, 64), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((64, 64), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    i, j = s[C].op.axis
    v, inside = s[C].split(i, nparts=2)
    s[C].bind(v, "vthread")
    s[B].compute_at(s[C], inside)
    s[B].set_scope("shared")
    s[B].double_buffer()
    return sl.lower(s)


def test_passes_of_a_gpu() -> None:
    nest = tiles_of_a_gpu()
    passes_through(lambda n: without_vthreads(n.body), nest)
    passes_through(lambda n: shared_first(n.body), nest)
    passes_through(lambda n: with_copies(n.body), nest)
    passes_through(lambda n: Block(tuple(host_statements(n.body))), nest)


def test_the_emulator_passes_through() -> None:
    A = sl.placeholder((8, 64), name="A")
    B = sl.compute((8, 64), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((8, 64), lambda i, j: B[i, 63 - j], name="C")
    s = sl.schedule(C)
    i, j = s[C].op.axis
    s[C].bind(j, "threadIdx.x")
    s[C].reorder(j, i)
    s[B].compute_at(s[C], i)
    s[B].set_scope("shared")
    s[B].bind(s[B].op.axis[1], "threadIdx.x")
    program = device_program(sl.lower(s), sl.Target("cuda", arch="sm_90"))
    (launch,) = program.launches

    def run(nest: Nest) -> Block:
        changed = replace(launch, body=nest.body)
        return as_loops(replace(program, steps=(changed,))).body

    passes_through(run, replace(program.nest, body=launch.body))


def test_rewriting() -> None:
    nest = sl.lower(guarded())
    A, C = (b for b in nest.buffers)
    (loop,) = watched(nest).body.stmts
    assert isinstance(loop, For)
    three = Const(3, "int64", True)
    (moved,) = cast(Any, substitute(loop.body, {loop.axis: three})).stmts
    assert moved.first == Lin.of(3) and bound(loop) == (loop.axis,)
    assert loop.axis not in {n for s, _ in walk(moved) for n in nodes.expressions(s)}

    other = Buffer("other", A.dtype, A.shape)
    (again,) = cast(Any, with_buffers(loop.body, {A: other})).stmts
    assert again.buffer is other
    assert read_buffers(again) == {other} and written_buffers(again) == {C}
    first = (*again.indices[1:], three)
    shifted = cast(Any, relocate(again, lambda b, at: (b, first) if b is other else None))
    assert shifted.indices == first
    assert [a.indices for a in accesses(shifted)] == []
    assert storage(shifted) == []
    (site,) = (site for site in sites(loop) if isinstance(site.stmt, Store))
    assert any(isinstance(s, Watched) for s in site.around) and site.loops[0] is loop


def test_the_verifier_looks_inside() -> None:
    nest = watched(sl.lower(guarded()))
    verify(nest)

    def beyond(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Store):
            return stmt
        (value,) = stmt.values
        load = next(n for n in nodes.expressions(stmt)[-1].children if isinstance(n, Load))
        at = (load.indices[0], Const(8, "int64", True))
        return replace(stmt, values=(Load(load.buffer, at, load.dtype),))

    with pytest.raises(VerifyError, match=re.escape("8")):
        verify(replace(nest, body=cast(Block, deep(nest.body, beyond))))


@dataclass(frozen=True, eq=False)
class Within(machine.Statement):
    """Statements in which the register ``count`` is ``value``."""

    BODIES = ("body",)
    VALUES = ("value",)
    BINDS = ("count",)

    body: machine.Body
    value: machine.Value
    count: Reg


def within(body: machine.Body) -> machine.Body:
    """Return a function's body whose loops are under a statement that no pass knows."""

    def around(stmt: machine.Stmt) -> machine.Stmt:
        if not isinstance(stmt, machine.For):
            return stmt
        inner = cast(Any, Within(stmt.body, Num(0), Reg("watched")))
        return replace(stmt, body=(inner,))

    return tuple(map(around, body))


def without(body: machine.Body) -> machine.Body:
    found: list[machine.Stmt] = []
    for stmt in cast(Any, body):
        inner = with_bodies(stmt, without)
        found += inner.body if isinstance(inner, Within) else [inner]
    return tuple(found)


def bare(nest: MachineNest) -> str:
    return machine_text([replace(f, body=without(f.body)) for f in nest.functions])


@pytest.mark.parametrize("schedule", [products, borders, guarded])
def test_passes_over_machine_nests(schedule: Callable[[], sl.Schedule]) -> None:
    def made(change: Callable[[machine.Body], machine.Body]) -> tuple[MachineNest, Job]:
        nest = arranged_nest(sl.lower(schedule()), CPU)
        names = name_all(nest, ())
        entry, function_name = select_cpu(nest, nest.body, names, CPU, "C")
        entry = replace(entry, body=change(entry.body))
        return MachineNest((entry,), names.known()), Job("C", names.fresh, function_name)

    (through, job), (plain, own) = made(within), made(lambda body: body)
    for run in CPU_PASSES:
        through, plain = run(through, job), run(plain, own)
        assert bare(through) == bare(plain), run.__name__
    verify_machine(through)
    assert through.identifiers() == plain.identifiers() | {"watched"}


def test_the_verifier_of_machine_nests_looks_inside() -> None:
    x, watch = Reg("x"), Reg("watched")
    inside = cast(Any, Within((Let(x, Op("+", watch, Num(1))),), Num(0), watch))
    verify_machine(MachineNest((Function("f", (), (inside,)),)))
    assert swap_values(inside, {Num(0): Num(2)}).value == Num(2)
    after = Let(Reg("y"), Op("+", watch, Num(1)))
    with pytest.raises(VerifyError, match="watched is used before it is defined"):
        verify_machine(MachineNest((Function("f", (), (inside, after)),)))
    wrong = Let(x, Num(1.0, Type("float32")))
    with pytest.raises(VerifyError, match="x is int64, but its value is float32"):
        body = with_statements((inside,), lambda stmt: with_bodies(stmt, lambda _: (wrong,)))
        verify_machine(MachineNest((Function("f", (), body),)))
