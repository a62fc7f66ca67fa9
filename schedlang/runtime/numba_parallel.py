"""Parallel loops of emitted files, launched without numba's pass for parallel loops.

That pass makes three functions of a loop, each of which LLVM optimizes together with the function
that the loop calls: it takes most of the time of compiling a parallel kernel. The parallel loops of
an emitted file have one form, ``for i in prange(n): f(int64(i), A, B)``. Here each becomes a call
of the threads that numba has started, by the scheduler of numba's pass, so that it runs as fast.
Source of the calls: numba/parfors/parfor_lowering.py and numba/np/ufunc/parallel.py.
"""

from __future__ import annotations

import ast
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.ufunc.parallel import _launch_threads

BYTE_PTR = ir.IntType(8).as_pointer()
I64 = ir.IntType(64)
I64_PTR = I64.as_pointer()
# the name of the intrinsic in an emitted file, whose own names do not start so
NAME = "__parallel_for"


def start_threads() -> None:
    """Start numba's threads, which also lets LLVM's code find the functions that launch them."""
    _launch_threads()


def without_prange(function: FunctionType, module: ModuleType) -> FunctionType | None:
    """Return a function of an emitted file with its parallel loops as calls of an intrinsic.

    Return ``None`` if one of its parallel loops is more than a call.
    """
    path = Path(function.__code__.co_filename)
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function.__name__]
    changed = _Loops().visit(found[-1])
    if any(isinstance(n, ast.Name) and n.id == "prange" for n in ast.walk(changed)):
        return None
    changed.decorator_list = []
    tree.body = [changed]
    names = vars(module)
    names[NAME] = parallel_for
    made: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), names, made)
    result = made[function.__name__]
    assert isinstance(result, FunctionType)
    return result


class _Loops(ast.NodeTransformer):
    """Makes a call of the intrinsic of each parallel loop whose body is one call."""

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
        launch = ast.Call(ast.Name(NAME, ast.Load()), [call.func, stop, step, *call.args[1:]], [])
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
        task = _task(context, builder.module, compiled, shared.type)
        # the step is a positive literal
        count = builder.sdiv(builder.add(stop, builder.sub(step, I64(1))), step)
        with builder.if_then(builder.icmp_signed(">", count, I64(0))):
            _launch(builder, task, count, builder.bitcast(data, BYTE_PTR))
        return context.get_dummy_value()

    star = types.StarArgTuple(plain)
    return types.void(function, types.int64, types.int64, star), codegen


def _task(context: Any, module: ir.Module, compiled: Any, shared: ir.Type) -> ir.Function:
    """Return what a thread runs: calls of a compiled function for ranges of iterations.

    Its parameters are those of a generalized ufunc's loop. The first array holds the ranges, their
    ends included, and the data are ``shared``: the step and the arguments.
    """
    kind = ir.FunctionType(ir.VoidType(), [BYTE_PTR.as_pointer(), I64_PTR, I64_PTR, BYTE_PTR])
    name = f"__gufunc__.{compiled.fndesc.llvm_func_name}"
    task = ir.Function(module, kind, module.get_unique_name(name))
    task.linkage = "internal"
    builder = ir.IRBuilder(task.append_basic_block())
    arrays, dimensions, steps, data = task.args
    ranges, apart = builder.load(arrays), builder.load(steps)
    held = builder.load(builder.bitcast(data, shared.as_pointer()))
    step, given = builder.extract_value(held, 0), builder.extract_value(held, 1)
    arguments = [builder.extract_value(given, k) for k in range(len(compiled.signature.args) - 1)]
    callee = context.declare_function(module, compiled.fndesc)
    with cgutils.for_range(builder, builder.load(dimensions)) as each:
        here = builder.gep(ranges, [builder.mul(each.index, apart)])
        ends = builder.bitcast(here, I64_PTR)
        first, last = builder.load(ends), builder.load(builder.gep(ends, [I64(1)]))
        stop = builder.add(last, I64(1))
        with cgutils.for_range_slice(builder, first, stop, I64(1), I64) as (index, _):
            # the function of a parallel loop raises nothing, so its status says nothing
            context.call_conv.call_function(
                builder, callee, types.void, compiled.signature.args,
                [builder.mul(index, step), *arguments],
            )  # fmt: skip
    builder.ret_void()
    return task


def _launch(builder: ir.IRBuilder, task: ir.Function, count: ir.Value, data: ir.Value) -> None:
    """Emit the call of ``task`` for all iterations, in the ranges that numba would make."""

    def call(name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
        kind = ir.FunctionType(result, [a.type for a in args])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

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


__all__ = ["NAME", "parallel_for", "start_threads", "without_prange"]
