"""The first loop of a ufunc: it lets Python compile the loop for these dtypes, and calls it.

NumPy wants the loops of all dtypes when a ufunc is made, and most are never called. A ufunc gives
each loop its *slot*: the address of the compiled loop, which is null before, and the function of
Python that compiles it and stores the address.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir

from schedlang.runtime.llvm.entry import INT, OBJECT
from schedlang.runtime.llvm.ufunc_loop import LOOP
from schedlang.runtime.numba_internals import cgutils, compiler_lock, cpu_context

NAME = "schedlang_lazy_loop"


@cache
def lazy_loop() -> tuple[int, Any]:
    """Return the address of the loop, and the library that holds its code."""
    with compiler_lock():
        library = cpu_context().codegen().create_library(NAME)
        module = library.create_ir_module(NAME)
        _print(module)
        library.add_ir_module(module)
        library.finalize()
        return library.get_pointer_to_function(NAME), library


def _print(module: ir.Module) -> None:
    target = ir.Function(module, LOOP, NAME)
    builder = ir.IRBuilder(target.append_basic_block("entry"))

    def call(name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
        kind = ir.FunctionType(result, [a.type for a in args])
        return builder.call(cgutils.get_or_insert_function(module, kind, name), args)

    slot = builder.bitcast(target.args[3], OBJECT.as_pointer())
    known = cgutils.is_not_null(builder, builder.load(slot))
    with builder.if_then(builder.not_(known), likely=False):
        state = call("PyGILState_Ensure", INT)
        # NumPy may call the loop several times before it looks for an error
        before = cgutils.is_not_null(builder, call("PyErr_Occurred", OBJECT))
        with builder.if_then(before, likely=False):
            call("PyGILState_Release", ir.VoidType(), state)
            builder.ret_void()
        compiles = builder.load(builder.gep(slot, [INT(1)]))
        result = call("PyObject_CallObject", OBJECT, compiles, ir.Constant(OBJECT, None))
        failed = cgutils.is_null(builder, result)
        # the error stays with the thread: Python raises it when NumPy's call returns
        with builder.if_then(builder.not_(failed)):
            call("Py_DecRef", ir.VoidType(), result)
        call("PyGILState_Release", ir.VoidType(), state)
        with builder.if_then(failed, likely=False):
            builder.ret_void()
    compiled = builder.bitcast(builder.load(slot), LOOP.as_pointer())
    builder.call(compiled, target.args)
    builder.ret_void()
