"""Parallel loops that follow each other closely, by threads that wait for work in between.

A loop over time has a parallel loop in each step, and a network one in each kernel, of some
microseconds. Between such loops OpenMP makes all threads meet. On a machine with other work one of
them runs some milliseconds late, so that each step takes as long. Here all threads start once, as a
team: one of them runs the kernel, and the others wait for its parallel loops. A loop is divided
into pieces. Each thread has the same share of them in each loop, so that its data stay in its
caches, and takes pieces of others when its own are done (R. Blumofe and C. Leiserson, "Scheduling
Multithreaded Computations by Work Stealing", JACM 1999). So a loop ends when its pieces are done,
whether or not all threads came.

The state of a team is an array of 64-bit words, which threads read and write atomically.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic, register_jitable

from schedlang.runtime.numba_internals import cgutils, link

BYTE_PTR = ir.IntType(8).as_pointer()
I64 = ir.IntType(64)
I64_PTR = I64.as_pointer()
# what a thread runs for a piece of a loop: its first iteration, the one after its last, the data
TASK_TYPE = ir.FunctionType(ir.VoidType(), [I64, I64, BYTE_PTR])
# words of a cache line, which no two threads should write at once
LINE = 8
# the places of words: whether the kernel has a thread, whether it failed, and whether it is done;
# the number of the loop; the loop itself; its finished pieces; then a line for each thread, its
# ticket
TAKEN, FAILED, OVER, LOOP = 0, 1, LINE, 2 * LINE
JOB = 3 * LINE
THREADS, TASK, DATA, COUNT, SIZE = JOB, JOB + 1, JOB + 2, JOB + 3, JOB + 4
DONE, TICKETS = 4 * LINE, 5 * LINE
# behind a ticket is the sum of the first and the last piece of the share
MIRROR = 1
# a ticket has the number of the loop, the next piece of a thread, and the end of its share
FIELD = 16
FIELD_MASK = (1 << FIELD) - 1
# pieces of a thread's share of a loop
PIECES = 16
# pauses, some 40 nanoseconds each, after which a thread that waits lets others run: these may keep
# its core for milliseconds
PATIENCE = 20000


@register_jitable
def work(team: int, own: int) -> None:
    """Run the pieces of a loop that no thread has begun, first the pieces of thread ``own``."""
    threads, done = read(team, THREADS), 0
    for k in range(threads):
        thread = own + k if own + k < threads else own + k - threads
        ticket = TICKETS + LINE * thread
        while True:
            now = read(team, ticket)
            piece = (now >> FIELD) & FIELD_MASK
            if piece >= now & FIELD_MASK:
                break
            # this fails if another thread was faster, or if this is another loop by now
            if replaced(team, ticket, now, now + (1 << FIELD)):
                if now >> 2 * FIELD & 1:
                    # what the last loop read last is still in a cache
                    piece = read(team, ticket + MIRROR) - piece
                size, count = read(team, SIZE), read(team, COUNT)
                first = piece * size
                last = first + size if first + size < count else count
                call(read(team, TASK), first, last, read(team, DATA))
                done += 1
    if done:
        add(team, DONE, done)


@register_jitable
def help_team(team: int, own: int) -> None:
    """Work for a team as thread ``own`` until its kernel is done."""
    known, waited = 0, 0
    while read(team, OVER) == 0:
        loop = read(team, LOOP)
        if loop != known:
            known, waited = loop, 0
            work(team, own)
        else:
            waited += 1
            pause(waited > PATIENCE)


@register_jitable
def run_loop(team: int, own: int, task: int, data: int, count: int) -> None:
    """Run ``count`` iterations by all threads of a team, called by thread ``own``."""
    threads = read(team, THREADS)
    most = min(threads * PIECES, FIELD_MASK)
    size = quotient(count + most - 1, most)
    pieces = quotient(count + size - 1, size)
    share = quotient(pieces, threads)
    larger = pieces - share * threads
    write(team, TASK, task)
    write(team, DATA, data)
    write(team, COUNT, count)
    write(team, SIZE, size)
    write(team, DONE, 0)
    loop = read(team, LOOP) + 1
    first = 0
    for thread in range(threads):
        end = first + share + (1 if thread < larger else 0)
        ticket = TICKETS + LINE * thread
        write(team, ticket + MIRROR, first + end - 1)
        write(team, ticket, (loop << 2 * FIELD) | (first << FIELD) | end)
        first = end
    write(team, LOOP, loop)
    work(team, own)
    waited = 0
    while read(team, DONE) < pieces:
        waited += 1
        pause(waited > PATIENCE)


def _word(builder: ir.IRBuilder, team: ir.Value, place: ir.Value) -> ir.Value:
    return builder.gep(builder.inttoptr(team, I64_PTR), [place])


@intrinsic
def read(typingctx: Any, team: Any, place: Any) -> Any:
    """Return a word, and let what was written before it be seen."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.load_atomic(_word(builder, *args), "acquire", 8)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def write(typingctx: Any, team: Any, place: Any, value: Any) -> Any:
    """Write a word after all that was written before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        builder.store_atomic(args[2], _word(builder, *args[:2]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def replaced(typingctx: Any, team: Any, place: Any, old: Any, new: Any) -> Any:
    """Write ``new`` in place of ``old``; return whether the word was ``old``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        word = _word(builder, *args[:2])
        swap = builder.cmpxchg(word, args[2], args[3], "acq_rel", "acquire")
        return builder.extract_value(swap, 1)

    return types.boolean(types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def add(typingctx: Any, team: Any, place: Any, value: Any) -> Any:
    """Add to a word, after all that was written before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.atomic_rmw("add", _word(builder, *args[:2]), args[2], "acq_rel")

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def quotient(typingctx: Any, a: Any, b: Any) -> Any:
    """Return ``a // b`` of numbers above 0, without a test of ``b``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.sdiv(*args)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def call(typingctx: Any, task: Any, first: Any, last: Any, data: Any) -> Any:
    """Call the task at an address."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        task, first, last, data = args
        function = builder.inttoptr(task, TASK_TYPE.as_pointer())
        builder.call(function, [first, last, builder.inttoptr(data, BYTE_PTR)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def pause(typingctx: Any, long: Any) -> Any:
    """Wait some nanoseconds; if ``long``, let other threads of the machine run instead."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        nothing = ir.FunctionType(ir.VoidType(), [])
        processor = binding.get_process_triple().split("-", 1)[0]
        if processor == "x86_64":
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, nothing, name), [])
        elif processor in ("aarch64", "arm64"):
            builder.asm(nothing, "isb", "", [], side_effect=True)
        if sys.platform != "win32":
            with builder.if_then(args[0], likely=False):
                result = ir.FunctionType(ir.IntType(32), [])
                name = "sched_yield"
                builder.call(cgutils.get_or_insert_function(builder.module, result, name), [])
        return context.get_dummy_value()

    return types.void(types.boolean), codegen


@intrinsic
def team_for(
    typingctx: Any, team: Any, own: Any, function: Any, stop: Any, step: Any, *args: Any
) -> Any:
    """Call ``function(i, *args)`` for each ``i`` of ``range(0, stop, step)``, by a team."""
    plain = tuple(types.unliteral(a) for a in args)
    called = function.get_call_type(typingctx, (types.int64, *plain), {})

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        compiled = link(context, function, called)
        team, own, _, stop, step, given = values
        shared = cgutils.make_anonymous_struct(builder, [step, given])

        def iteration(inside: ir.IRBuilder, held: ir.Value, index: ir.Value) -> None:
            call_iteration(context, inside, compiled, held, index)

        # the step is a positive literal
        count = builder.sdiv(builder.add(stop, builder.sub(step, I64(1))), step)
        name = compiled.fndesc.llvm_func_name
        emit_loop(context, builder, team, own, name, count, shared, iteration)
        return context.get_dummy_value()

    star = types.StarArgTuple(plain)
    return types.void(types.int64, types.int64, function, types.int64, types.int64, star), codegen


def emit_loop(
    context: Any, builder: ir.IRBuilder, team: ir.Value, own: ir.Value, called: str,
    count: ir.Value, shared: ir.Value, each: Callable[[ir.IRBuilder, ir.Value, ir.Value], None],
) -> None:  # fmt: skip
    """Emit ``count`` iterations by a team, called by its thread ``own``.

    ``each`` emits an iteration, given the data ``shared`` and its number; it calls ``called``.
    """
    data = cgutils.alloca_once_value(builder, shared)
    task = builder.ptrtoint(_loop_task(builder.module, called, shared.type, each), I64)
    with builder.if_then(builder.icmp_signed(">", count, I64(0))):
        data = builder.ptrtoint(data, I64)
        _emit_call(context, builder, run_loop, [team, own, task, data, count])


def _loop_task(
    module: ir.Module, called: str, shared: ir.Type,
    each: Callable[[ir.IRBuilder, ir.Value, ir.Value], None],
) -> ir.Function:  # fmt: skip
    """Return the task of a loop, which runs a range of iterations; its data are ``shared``."""
    name = module.get_unique_name(f"__piece__.{called}")
    task = ir.Function(module, TASK_TYPE, name)
    task.linkage = "internal"
    builder = ir.IRBuilder(task.append_basic_block())
    first, last, data = task.args
    held = builder.load(builder.bitcast(data, shared.as_pointer()))
    with cgutils.for_range_slice(builder, first, last, I64(1), I64) as (index, _):
        each(builder, held, index)
    builder.ret_void()
    return task


def call_iteration(
    context: Any, builder: ir.IRBuilder, compiled: Any, held: ir.Value, index: ir.Value
) -> None:
    """Emit iteration ``index`` of a parallel loop: a call of ``compiled``.

    ``held`` are the step of the loop and the other arguments.
    """
    step, rest = (builder.extract_value(held, k) for k in range(2))
    count = len(compiled.signature.args) - 1
    arguments = [builder.mul(index, step), *(builder.extract_value(rest, k) for k in range(count))]
    callee = context.declare_function(builder.module, compiled.fndesc)
    # the function of a parallel loop raises nothing, so its status says nothing
    context.call_conv.call_function(builder, callee, types.void, compiled.signature.args, arguments)


def emit_member(
    context: Any, builder: ir.IRBuilder, team: ir.Value, number: ir.Value,
    run: Callable[[], ir.Value],
) -> None:  # fmt: skip
    """Emit what thread ``number`` of a team does: it runs the kernel, or it helps.

    The first thread that comes does what ``run`` emits, which returns whether the kernel failed.
    """
    word = builder.inttoptr(team, I64_PTR)
    claimed, failed, over = (builder.gep(word, [I64(at)]) for at in (TAKEN, FAILED, OVER))
    swap = builder.cmpxchg(claimed, I64(0), I64(1), "acq_rel", "acquire")
    with builder.if_else(builder.extract_value(swap, 1)) as (first, later):
        with first:
            builder.store(builder.zext(run(), I64), failed)
            builder.store_atomic(I64(1), over, "release", 8)
        with later:
            _emit_call(context, builder, help_team, [team, number])


def emit_failed(builder: ir.IRBuilder, team: ir.Value) -> ir.Value:
    """Emit whether the kernel of a team failed, which can only lack memory for its arrays."""
    failed = builder.load(builder.gep(builder.inttoptr(team, I64_PTR), [I64(FAILED)]))
    return builder.icmp_signed("!=", failed, I64(0))


def emit_raise(context: Any, builder: ir.IRBuilder, team: ir.Value) -> None:
    """Emit what raises the error of a team's kernel."""
    with builder.if_then(emit_failed(builder, team), likely=False):
        why = "no memory for the arrays of a kernel"
        context.call_conv.return_user_exc(builder, MemoryError, (why,))


def _emit_call(context: Any, builder: ir.IRBuilder, function: Any, numbers: list[ir.Value]) -> None:
    """Emit a call of a function of this file, which raises nothing."""
    kind = types.void(*[types.int64] * len(numbers))
    compiled = context.compile_subroutine(builder, function, kind)
    context.call_internal_no_propagate(builder, compiled.fndesc, kind, numbers)


def emit_team(builder: ir.IRBuilder, threads: ir.Value) -> ir.Value:
    """Emit the words of a team of ``threads``, on the stack; return their address."""
    words = builder.add(I64(TICKETS), builder.mul(threads, I64(LINE)))
    team = builder.alloca(I64, size=words)
    team.align = 8 * LINE
    cgutils.memset(builder, team, builder.mul(words, I64(8)), 0)
    builder.store(threads, builder.gep(team, [I64(THREADS)]))
    return builder.ptrtoint(team, I64)
