"""The function of Python that calls a kernel: it takes the arguments, and releases the GIL.

It has the parameters of the entry of a machine nest. An array is read from NumPy's object, whose
first field behind the object's head is the address (``PyArrayObject`` in NumPy's C API).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from schedlang.intrinsics.simd import convert
from schedlang.machine.nodes import Array, Reg
from schedlang.runtime.llvm.dialect import I64, type_of
from schedlang.runtime.llvm.statements import STATUS
from schedlang.runtime.llvm.symbols import ARRAY_CLASS, MEMORY_ERROR, NONE, TYPE_ERROR
from schedlang.runtime.numba_internals import cgutils

BYTE = ir.IntType(8)
# a pointer to an object of Python
OBJECT = BYTE.as_pointer()
INT = ir.IntType(32)
HEAD = object.__basicsize__
# the class of an object follows the count of its references
CLASS = HEAD - tuple.__itemsize__


class _Python:
    """Calls of functions of Python's C API."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.builder = builder

    def call(self, name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
        """Emit a call of a function."""
        kind = ir.FunctionType(result, [a.type for a in args])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, args)

    def named(self, name: str) -> ir.Value:
        """Return an object that has a name."""
        module = self.builder.module
        known = module.globals.get(name)
        return ir.GlobalVariable(module, BYTE, name) if known is None else known

    def raised(self, holds: ir.Value, error: str, message: str) -> None:
        """Emit that the function raises an error if ``holds`` does."""
        with self.builder.if_then(holds, likely=False):
            self.raise_error(error, message)

    def raise_error(self, error: str, message: str) -> None:
        """Emit that the function raises an error."""
        builder = self.builder
        content = cgutils.make_bytearray(f"{message}\0".encode())
        text = cgutils.global_constant(builder.module, "message", content)
        described = builder.bitcast(text, OBJECT)
        self.call("PyErr_SetString", ir.VoidType(), self.named(error), described)
        builder.ret(ir.Constant(OBJECT, None))


def print_entry(
    module: ir.Module, symbol: str, name: str, entry: ir.Function,
    parameters: Sequence[Array | Reg],
) -> None:  # fmt: skip
    """Print the function ``symbol``, which Python calls with a tuple of arguments for ``entry``."""
    called = ir.Function(module, ir.FunctionType(OBJECT, [OBJECT] * 3), symbol)
    called.attributes.add("nounwind")
    builder = ir.IRBuilder(called.append_basic_block("entry"))
    python = _Python(builder)
    given = python.call("PyTuple_Size", I64, called.args[1])
    wrong = builder.icmp_signed("!=", given, I64(len(parameters)))
    with builder.if_then(cgutils.is_not_null(builder, called.args[2]), likely=False):
        names = python.call("PyDict_Size", I64, called.args[2])
        python.raised(cgutils.is_not_null(builder, names), TYPE_ERROR, f"{name} takes no names")
    count = f"{name} takes {len(parameters)} arguments, in order"
    python.raised(wrong, TYPE_ERROR, count)
    args: list[ir.Value] = []
    for at, parameter in enumerate(parameters):
        value = python.call("PyTuple_GetItem", OBJECT, called.args[1], I64(at))
        if isinstance(parameter, Array):
            args.append(_address(python, value, f"{name}: {parameter.name} must be a NumPy array"))
        else:
            args.append(_scalar(python, value, parameter))
        args[-1] = _fitting(builder, args[-1], entry.args[at].type)
    if not all(isinstance(p, Array) for p in parameters):
        error = python.call("PyErr_Occurred", OBJECT)
        with builder.if_then(cgutils.is_not_null(builder, error), likely=False):
            builder.ret(ir.Constant(OBJECT, None))
    thread = python.call("PyEval_SaveThread", OBJECT)
    status = builder.call(entry, args)
    python.call("PyEval_RestoreThread", ir.VoidType(), thread)
    if entry.ftype.return_type == STATUS:
        lacked = cgutils.is_not_null(builder, status)
        python.raised(lacked, MEMORY_ERROR, "no memory for the arrays of a kernel")
    none = python.named(NONE)
    python.call("Py_IncRef", ir.VoidType(), none)
    builder.ret(none)


def _fitting(builder: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.bitcast(value, kind) if isinstance(kind, ir.PointerType) else value


def _field(builder: ir.IRBuilder, thing: ir.Value, at: int) -> ir.Value:
    """Emit the load of a pointer in an object."""
    place = builder.gep(thing, [I64(at)])
    return builder.load(builder.bitcast(place, OBJECT.as_pointer()))


def _address(python: _Python, value: ir.Value, message: str) -> ir.Value:
    """Emit the address of the first element of an array."""
    builder, wanted = python.builder, python.named(ARRAY_CLASS)
    kind = _field(builder, value, CLASS)
    with builder.if_then(builder.icmp_unsigned("!=", kind, wanted), likely=False):
        derived = python.call("PyType_IsSubtype", INT, kind, wanted)
        python.raised(cgutils.is_null(builder, derived), TYPE_ERROR, message)
    return _field(builder, value, HEAD)


def _scalar(python: _Python, value: ir.Value, parameter: Reg) -> ir.Value:
    """Emit the conversion of a number of Python or of NumPy."""
    builder, kind = python.builder, type_of(parameter.type)
    dtype = parameter.type.dtype
    if dtype == "bool":
        return builder.icmp_signed("!=", python.call("PyObject_IsTrue", INT, value), INT(0))
    if "int" in dtype:
        bits: Any = python.call("PyLong_AsUnsignedLongLongMask", I64, value)
        return bits if kind.bitwidth == 64 else builder.trunc(bits, ir.IntType(kind.bitwidth))
    number = python.call("PyFloat_AsDouble", ir.DoubleType(), value)
    return convert(builder, number, types.float64, kind)
