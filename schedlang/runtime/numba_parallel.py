"""Parallel loops of emitted files, launched without numba's pass for parallel loops.

That pass makes three functions of a loop, each of which LLVM optimizes together with the function
that the loop calls: it takes most of the time of compiling a parallel kernel. The parallel loops of
an emitted file have one form, ``for i in prange(n): f(int64(i), A, B)``. Here each becomes a call
of the threads that numba has started, by the scheduler of numba's pass, so that it runs as fast.
Source of the calls: numba/parfors/parfor_lowering.py and numba/np/ufunc/parallel.py.

A function with parallel loops inside of another loop starts the threads once, as a team
(:mod:`.numba_team`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.ufunc.parallel import _launch_threads

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
# the names of the intrinsics, and of what a team runs, in an emitted file, whose own names do not
# start so
NAME, TEAM, TEAM_FOR, RUN_BY = "__parallel_for", "__as_team", "__team_for", "__by_team_"
# the parameters of what a team runs, before its own: the team, and the number of the thread
MEMBER = ("__team", "__thread")


@dataclass(frozen=True)
class Launching:
    """A function of an emitted file that launches its parallel loops itself.

    ``by_team`` is what a team runs, to be compiled under its name before ``function`` is.
    """

    function: FunctionType
    by_team: FunctionType | None = None


def start_threads() -> None:
    """Start numba's threads, which also lets LLVM's code find the functions that launch them."""
    _launch_threads()


def without_prange(function: FunctionType, module: ModuleType) -> Launching | None:
    """Return a function of an emitted file with its parallel loops as calls of an intrinsic.

    Return ``None`` if one of its parallel loops is more than a call.
    """
    path = Path(function.__code__.co_filename)
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function.__name__]
    definition = found[-1]
    closely = any(map(_has_loops_inside, definition.body))
    changed = _Loops((TEAM_FOR, *MEMBER) if closely else (NAME,)).visit(definition)
    if any(isinstance(n, ast.Name) and n.id == "prange" for n in ast.walk(changed)):
        return None
    names = vars(module)
    names |= {NAME: parallel_for, TEAM: as_team, TEAM_FOR: team_for}
    if not closely:
        return Launching(_defined(changed, tree, path, names))
    parameters = [a.arg for a in changed.args.args]
    changed.name = f"{RUN_BY}{function.__name__}"
    call = ast.Call(_name(TEAM), [_name(changed.name), *map(_name, parameters)], [])
    launching = ast.FunctionDef(function.__name__, _parameters(parameters), [ast.Expr(call)], [])
    ast.copy_location(launching, definition)
    changed.args = _parameters([*MEMBER, *parameters])
    by_team = _defined(changed, tree, path, names)
    return Launching(_defined(launching, tree, path, names), by_team)


def _defined(
    definition: ast.FunctionDef, tree: ast.Module, path: Path, names: dict[str, Any]
) -> FunctionType:  # fmt: skip
    """Return the function that a definition in a file makes."""
    definition.decorator_list = []
    tree.body = [definition]
    made: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), names, made)
    result = made[definition.name]
    assert isinstance(result, FunctionType)
    return result


def _parameters(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _has_loops_inside(stmt: ast.stmt) -> bool:
    """Return whether a statement is, or holds, a serial loop with a parallel one inside."""
    serial = (
        n for n in ast.walk(stmt) if isinstance(n, ast.For) and not _is_call(n.iter, "prange")
    )
    return any(_is_call(n, "prange") for loop in serial for n in ast.walk(loop))


class _Loops(ast.NodeTransformer):
    """Makes a call of an intrinsic of each parallel loop whose body is one call.

    ``launch`` has the names of the intrinsic and of its first arguments.
    """

    def __init__(self, launch: tuple[str, ...]) -> None:
        self.launch = launch

    def visit_For(self, node: ast.For) -> ast.AST:  # noqa: N802
        call = node.body[0].value if isinstance(node.body[0], ast.Expr) else None
        if not (_is_call(node.iter, "prange") and len(node.body) == 1):
            return self.generic_visit(node)
        if not (isinstance(call, ast.Call) and call.args and _is_call(call.args[0], "int64")):
            return node
        assert isinstance(node.iter, ast.Call)
        stop, step = node.iter.args[0], ast.Constant(1)
        if len(node.iter.args) == 3:
            _, stop, step = node.iter.args  # type: ignore[assignment]
        intrinsic, *first = map(_name, self.launch)
        launch = ast.Call(intrinsic, [*first, call.func, stop, step, *call.args[1:]], [])
        return ast.copy_location(ast.Expr(launch), node)


def _is_call(node: ast.AST, name: str) -> bool:
    """Return whether ``node`` calls the function of this name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


@intrinsic
def parallel_for(typingctx: Any, function: Any, stop: Any, step: Any, *args: Any) -> Any:
    """Call ``function(i, *args)`` for each ``i`` of ``range(0, stop, step)``, on all threads."""
    plain = tuple(types.unliteral(a) for a in args)
    called = function.get_call_type(typingctx, (types.int64, *plain), {})

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        compiled = function.dispatcher.overloads[called.args]
        context.active_code_library.add_linking_library(compiled.library)
        start_threads()
        _, stop, step, given = values
        shared = cgutils.make_anonymous_struct(builder, [step, given])
        data = cgutils.alloca_once_value(builder, shared)

        def iteration(inside: ir.IRBuilder, held: ir.Value, index: ir.Value) -> None:
            call_iteration(context, inside, compiled, held, index)

        task = _task(builder.module, compiled, shared.type, iteration)
        # the step is a positive literal
        count = builder.sdiv(builder.add(stop, builder.sub(step, I64(1))), step)
        with builder.if_then(builder.icmp_signed(">", count, I64(0))):
            _launch(builder, task, count, builder.bitcast(data, BYTE_PTR))
        return context.get_dummy_value()

    star = types.StarArgTuple(plain)
    return types.void(function, types.int64, types.int64, star), codegen


@intrinsic
def as_team(typingctx: Any, function: Any, *args: Any) -> Any:
    """Call ``function(team, thread, *args)`` on one thread, with all others as its team."""
    plain = tuple(types.unliteral(a) for a in args)
    called = function.get_call_type(typingctx, (types.int64, types.int64, *plain), {})

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        compiled = function.dispatcher.overloads[called.args]
        context.active_code_library.add_linking_library(compiled.library)
        start_threads()
        threads = _call(builder, "get_num_threads", I64)
        words = emit_team(builder, threads)
        shared = cgutils.make_anonymous_struct(builder, [words, values[1]])
        data = cgutils.alloca_once_value(builder, shared)

        def member(inside: ir.IRBuilder, held: ir.Value, number: ir.Value) -> None:
            team, given = (inside.extract_value(held, k) for k in range(2))
            count = len(compiled.signature.args) - 2
            arguments = [inside.extract_value(given, k) for k in range(count)]
            emit_member(context, inside, compiled, team, number, arguments)

        task = _task(builder.module, compiled, shared.type, member)
        # a range for each thread, whatever numba's user asked for
        chunk = _call(builder, "get_parallel_chunksize", I64)
        _call(builder, "set_parallel_chunksize", ir.VoidType(), I64(0))
        _launch(builder, task, threads, builder.bitcast(data, BYTE_PTR))
        _call(builder, "set_parallel_chunksize", ir.VoidType(), chunk)
        emit_raise(context, builder, words)
        return context.get_dummy_value()

    return types.void(function, types.StarArgTuple(plain)), codegen


def _task(
    module: ir.Module, compiled: Any, shared: ir.Type,
    each: Callable[[ir.IRBuilder, ir.Value, ir.Value], None],
) -> ir.Function:  # fmt: skip
    """Return what a thread runs for ranges of iterations.

    Its parameters are those of a generalized ufunc's loop. The first array holds the ranges, their
    ends included, and the data are ``shared``. ``each`` emits an iteration, given the data and its
    number; ``compiled`` is the function that it calls.
    """
    kind = ir.FunctionType(ir.VoidType(), [BYTE_PTR.as_pointer(), I64_PTR, I64_PTR, BYTE_PTR])
    name = f"__gufunc__.{compiled.fndesc.llvm_func_name}"
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


__all__ = [
    "NAME", "Launching", "as_team", "parallel_for", "start_threads", "without_prange",
]  # fmt: skip
