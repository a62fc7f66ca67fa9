"""Parallel loops of emitted files, launched without numba's pass for parallel loops.

:mod:`schedlang.codegen.numba_launch` prints each parallel loop as a call, and says why. Here this
becomes a call of the threads that numba has started, by the scheduler of numba's pass, so that it
runs as fast.
Source of the calls: numba/parfors/parfor_lowering.py and numba/np/ufunc/parallel.py.

A function with parallel loops inside of another loop starts the threads once, as a team
(:mod:`.numba_team`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from schedlang.codegen.listing import AS_TEAM, PARALLEL_FOR, TEAM_FOR, Launch
from schedlang.runtime.numba_internals import cgutils, launch_threads, link
from schedlang.runtime.numba_team import (
    call_iteration,
    emit_member,
    emit_raise,
    emit_team,
    team_for,
)

BYTE_PTR = ir.IntType(8).as_pointer()
I64 = ir.IntType(64)
I64_PTR = I64.as_pointer()


def start_threads() -> None:
    """Start numba's threads, which also lets LLVM's code find the functions that launch them."""
    launch_threads()


def define(launch: Launch, module: ModuleType, by_team: bool = False) -> FunctionType:
    """Return the function of an emitted file that launches its loops, or what its team runs."""
    text, name = (launch.by_team, launch.team) if by_team else (launch.text, launch.name)
    names = vars(module)
    names |= {PARALLEL_FOR: parallel_for, AS_TEAM: as_team, TEAM_FOR: team_for}
    namespace: dict[str, Any] = {}
    # with the lines that the function has in the file
    exec(compile("\n" * (launch.line - 1) + text, str(module.__file__), "exec"), names, namespace)
    function = namespace[name]
    assert isinstance(function, FunctionType)
    return function


@intrinsic
def parallel_for(typingctx: Any, function: Any, stop: Any, step: Any, *args: Any) -> Any:
    """Call ``function(i, *args)`` for each ``i`` of ``range(0, stop, step)``, on all threads."""
    plain = tuple(types.unliteral(a) for a in args)
    called = function.get_call_type(typingctx, (types.int64, *plain), {})

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        compiled = link(context, function, called)
        _, stop, step, given = values
        shared = cgutils.make_anonymous_struct(builder, [step, given])

        def iteration(inside: ir.IRBuilder, held: ir.Value, index: ir.Value) -> None:
            call_iteration(context, inside, compiled, held, index)

        # the step is a positive literal
        count = builder.sdiv(builder.add(stop, builder.sub(step, I64(1))), step)
        launch_loop(builder, compiled.fndesc.llvm_func_name, count, shared, iteration)
        return context.get_dummy_value()

    star = types.StarArgTuple(plain)
    return types.void(function, types.int64, types.int64, star), codegen


@intrinsic
def as_team(typingctx: Any, function: Any, *args: Any) -> Any:
    """Call ``function(team, thread, *args)`` on one thread, with all others as its team."""
    plain = tuple(types.unliteral(a) for a in args)
    called = function.get_call_type(typingctx, (types.int64, types.int64, *plain), {})

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        compiled = link(context, function, called)

        def run(
            inside: ir.IRBuilder, team: ir.Value, number: ir.Value, given: ir.Value
        ) -> ir.Value:
            count = len(compiled.signature.args) - 2
            arguments = [inside.extract_value(given, k) for k in range(count)]
            callee = context.declare_function(inside.module, compiled.fndesc)
            status, _ = context.call_conv.call_function(
                inside, callee, types.void, compiled.signature.args, [team, number, *arguments]
            )  # fmt: skip
            return status.is_error

        name = compiled.fndesc.llvm_func_name
        emit_raise(context, builder, launch_team(context, builder, name, values[1], run))
        return context.get_dummy_value()

    return types.void(function, types.StarArgTuple(plain)), codegen


# emits an iteration of a loop, given the data of the loop and the number of the iteration
Iteration = Callable[[ir.IRBuilder, ir.Value, ir.Value], None]
# emits a kernel on one thread of a team, given the team, the number of the thread, and its data;
# returns whether it failed
TeamKernel = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]


def launch_loop(
    builder: ir.IRBuilder, name: str, count: ir.Value, shared: ir.Value, each: Iteration
) -> None:
    """Emit the launch of ``count`` iterations with the data ``shared``, on all threads.

    An iteration calls the function ``name``.
    """
    start_threads()
    data = cgutils.alloca_once_value(builder, shared)
    task = _task(builder.module, name, shared.type, each)
    with builder.if_then(builder.icmp_signed(">", count, I64(0))):
        _launch(builder, task, count, builder.bitcast(data, BYTE_PTR))


def launch_team(
    context: Any, builder: ir.IRBuilder, name: str, given: ir.Value, run: TeamKernel
) -> ir.Value:
    """Emit the launch of a team, one thread of which runs a kernel; return the team's address."""
    start_threads()
    threads = _call(builder, "get_num_threads", I64)
    words = emit_team(builder, threads)
    shared = cgutils.make_anonymous_struct(builder, [words, given])
    data = cgutils.alloca_once_value(builder, shared)

    def member(inside: ir.IRBuilder, held: ir.Value, number: ir.Value) -> None:
        team, given = (inside.extract_value(held, k) for k in range(2))
        emit_member(context, inside, team, number, lambda: run(inside, team, number, given))

    task = _task(builder.module, name, shared.type, member)
    # a range for each thread, whatever numba's user asked for
    chunk = _call(builder, "get_parallel_chunksize", I64)
    _call(builder, "set_parallel_chunksize", ir.VoidType(), I64(0))
    _launch(builder, task, threads, builder.bitcast(data, BYTE_PTR))
    _call(builder, "set_parallel_chunksize", ir.VoidType(), chunk)
    return words


def _task(module: ir.Module, called: str, shared: ir.Type, each: Iteration) -> ir.Function:
    """Return what a thread runs for ranges of iterations.

    It has the parameters of a generalized ufunc's loop. The first array holds the ranges, their
    ends included, and the data are ``shared``. ``each`` emits an iteration, which calls ``called``.
    """
    kind = ir.FunctionType(ir.VoidType(), [BYTE_PTR.as_pointer(), I64_PTR, I64_PTR, BYTE_PTR])
    name = f"__gufunc__.{called}"
    task = ir.Function(module, kind, module.get_unique_name(name))
    task.linkage = "internal"
    builder = ir.IRBuilder(task.append_basic_block())
    arrays, dimensions, steps, data = task.args
    ranges, apart = builder.load(arrays), builder.load(steps)
    held = builder.load(builder.bitcast(data, shared.as_pointer()))
    with cgutils.for_range(builder, builder.load(dimensions)) as part:
        here = builder.gep(ranges, [builder.mul(part.index, apart)])
        ends = builder.bitcast(here, I64_PTR)
        first, last = builder.load(ends), builder.load(builder.gep(ends, [I64(1)]))
        stop = builder.add(last, I64(1))
        with cgutils.for_range_slice(builder, first, stop, I64(1), I64) as (index, _):
            each(builder, held, index)
    builder.ret_void()
    return task


def _launch(builder: ir.IRBuilder, task: ir.Function, count: ir.Value, data: ir.Value) -> None:
    """Emit the call of ``task`` for all iterations, in the ranges that numba would make."""

    def call(name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
        return _call(builder, name, result, *args)

    def stored(*values: ir.Value) -> ir.Value:
        cell = cgutils.alloca_once(builder, I64, size=len(values))
        for k, value in enumerate(values):
            builder.store(value, builder.gep(cell, [I64(k)]))
        return cell

    first, last = stored(I64(0)), stored(builder.sub(count, I64(1)))
    threads, chunk = call("get_num_threads", I64), call("get_parallel_chunksize", I64)
    ranges = call("get_sched_size", I64, threads, I64(1), first, last)
    # parallel loops inside have ranges of numba's choice
    call("set_parallel_chunksize", ir.VoidType(), I64(0))
    plan = call("allocate_sched", I64_PTR, builder.mul(ranges, I64(2)))
    call("do_scheduling_signed", I64_PTR, I64(1), first, last, ranges, plan, I64(0))
    arrays = cgutils.alloca_once_value(builder, builder.bitcast(plan, BYTE_PTR))
    dimensions, steps = stored(ranges, I64(2)), stored(I64(16), I64(8))
    pointers = [builder.bitcast(p, BYTE_PTR) for p in (task, arrays, dimensions, steps)]
    call("numba_parallel_for", ir.VoidType(), *pointers, data, I64(1), I64(1), threads)
    call("set_parallel_chunksize", ir.VoidType(), chunk)
    call("deallocate_sched", ir.VoidType(), plan)


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
    """Emit a call of a function of numba's threads."""
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)
