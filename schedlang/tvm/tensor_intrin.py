"""``te.decl_tensor_intrin``: an instruction in memory, whose function te programs describe."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Binary, Const, Expr, Unary, Var
from schedlang.expr.visit import postorder
from schedlang.externs.functions import C_TYPES, from_source
from schedlang.instructions.declaration import MEMORY, Instruction, instruction
from schedlang.instructions.emission import MemoryFunction
from schedlang.ir.instruction_match import packed_strides
from schedlang.signatures import public
from schedlang.state.state import FRAGMENTS
from schedlang.tvm.buffers import AccessPtr, Buffer
from schedlang.tvm.extern import packed_function
from schedlang.tvm.extern_calls import ExternCall
from schedlang.tvm.imported_objects import object_of
from schedlang.tvm.matrix_intrinsics import MatrixCall, declared_by
from schedlang.tvm.packed import Handle, PackedCall

# what a call may compute of strides
_OPERATIONS = ("+", "-", "*")
# C++ has it before functions for C, and C has no other functions
_FOR_C = re.compile(r'extern\s+"C"\s+(?!\s*\{)')


@dataclass(frozen=True)
class Described(MemoryFunction):
    """A function in memory that makes ``calls`` of C, for ``buffers``: operands, then the result.

    What it calls comes with the pragmas ``import_c`` and ``import_llvm``.
    """

    calls: tuple[ExternCall, ...] = ()
    buffers: tuple[Buffer, ...] = ()

    def check(self, declared: Instruction) -> None:
        """Accept all calls: the functions come with pragmas of a schedule."""

    def function(self, declared: Instruction, imported: Sequence[tuple[str, str]]) -> Any:
        texts = [_FOR_C.sub("", text) for name, text in imported if name == "import_c"]
        modules = [text for name, text in imported if name == "import_llvm"]
        defined = "\n".join(texts)
        lines = [*texts, *self._prototypes(defined), *self._definition(declared)]
        # the name of the file says which code it is linked with
        lines += [f"// {hashlib.sha256(text.encode()).hexdigest()}" for text in modules]
        objects = [object_of(text) for text in modules]
        given = declared.operands, (declared.output,)
        return from_source("\n".join(lines), _title(declared), *given, objects)

    def _prototypes(self, defined: str) -> Iterator[str]:
        """Yield the declaration of each function that no text defines."""
        for call in {call.name: call for call in self.calls}.values():
            if not re.search(rf"\b{call.name}\s*\(", defined):
                kinds = ", ".join(_parameter(arg) for arg in call.args) or "void"
                yield f"{_result(call.dtype)} {call.name}({kinds});"

    def _definition(self, declared: Instruction) -> Iterator[str]:
        tensors = (*declared.operands, declared.output)
        *operands, result = (
            f"{'const ' * (t is not declared.output)}{C_TYPES[t.dtype]} *a{k}"
            for k, t in enumerate(tensors)
        )
        yield f"int {_title(declared)}({', '.join([*operands, result])}, const int64_t *sizes) {{"
        strides, at = {}, 0
        for buffer in self.buffers:
            rank = len(buffer.shape)
            for k, stride in enumerate(buffer.strides):
                strides[stride] = f"sizes[{at + rank + k}]"
            at += 2 * rank
        for call in self.calls:
            args = ", ".join(self._argument(arg, strides) for arg in call.args)
            yield f"  {call.name}({args});"
        yield "  return 0;\n}"

    def _argument(self, arg: AccessPtr | Expr, strides: Mapping[Any, str]) -> str:
        if isinstance(arg, AccessPtr):
            place = next(k for k, buffer in enumerate(self.buffers) if buffer is arg.buffer)
            offset = arg.offset if isinstance(arg.offset, Expr) else Const(arg.offset, "int64")
            return f"({C_TYPES[arg.buffer.dtype]} *)a{place} + {_number(offset, strides)}"
        return _number(arg, strides)

    def __str__(self) -> str:
        return ", ".join(call.name for call in self.calls)


def _title(declared: Instruction) -> str:
    """Return the name of the function of C that makes the calls, which is none of theirs."""
    return f"te_{declared.name}"


def _number(value: Expr, strides: Mapping[Any, str]) -> str:
    """Return a number or a polynomial of strides in C, with ``strides`` for its variables."""
    if isinstance(value, Const):
        return f"({int(value.value) if value.dtype == 'bool' else repr(value.value)})"
    if isinstance(value, Var):
        return strides[value]
    if isinstance(value, Unary):
        return f"(-{_number(value.a, strides)})"
    assert isinstance(value, Binary) and value.op in _OPERATIONS, "the call was checked"
    return f"({_number(value.a, strides)} {value.op} {_number(value.b, strides)})"


def _parameter(arg: AccessPtr | Expr) -> str:
    if isinstance(arg, AccessPtr):
        return f"{C_TYPES[arg.buffer.dtype]} *"
    return "float" if isinstance(arg, Const) and isinstance(arg.value, float) else "int"


def _result(dtype: str) -> str:
    return C_TYPES.get(dtype, "void")


@public
def decl_tensor_intrin(
    op: Any, fcompute: Callable[[list[Buffer], list[Buffer]], Any], name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None, scalar_params: Any = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> Instruction:  # fmt: skip
    """Return an intrinsic that computes the operation ``op`` by functions of C, or a packed one.

    ``op`` is a sum, or elements, over placeholders of constant shape. ``fcompute`` gets a buffer
    for each of them, and one for the result, and returns what
    ``tvm.tir.ir_builder.create().get()`` does, with calls that ``ib.emit`` took of
    ``tvm.tir.call_extern``, or ``tvm.tir.call_packed(...)``. If it returns a tuple, of a body, a
    reset and an update, the update is what runs: the result of a sum begins with 0, which loops
    write, and each use adds to it. With a body alone, the whole reduction is in the tensorized
    loops.

    The call may also be one of ``tvm_load_matrix_sync``, ``tvm_mma_sync`` and
    ``tvm_store_matrix_sync`` of ``tvm.tir.call_intrin``, on fragments in te's scopes, such as
    ``"wmma.matrix_a"``. It stands for uses of ``sl.instructions.mma_f16`` and its like, of
    ``ldmatrix``, or for copies of elements. The loops around it decide which fragments it has.

    ``binds`` says which buffer of :func:`tvm.tir.decl_buffer` stands for a tensor, with its
    strides. The functions come with ``s[C].pragma(axis, "import_c", source)``, or with
    ``"import_llvm"`` and LLVM's code. ``scalar_params`` must be left out, and
    ``default_buffer_params`` has no effect: arrays begin at any element.

    Raise :class:`~schedlang.errors.ComputeError` for an operation, a buffer or a body that an
    instruction cannot have.

    >>> import schedlang as tvm
    >>> from schedlang import te
    >>> a = te.placeholder((8,), name="a")
    >>> c = te.compute((8,), lambda i: a[i] * 2.0, name="c")
    >>> def twice(ins, outs):
    ...     ib = tvm.tir.ir_builder.create()
    ...     call = "int32", "twice8", outs[0].access_ptr("w"), ins[0].access_ptr("r")
    ...     ib.emit(tvm.tir.call_extern(*call))
    ...     return ib.get()
    >>> te.decl_tensor_intrin(c.op, twice)
    <Instruction twice8(a: float32[8]) -> c: float32[8]>
    """
    asked = f"te.decl_tensor_intrin for {getattr(op, 'name', op)}"
    if scalar_params:
        raise ComputeError(
            explain(
                asked, "scalar_params are not supported", "Declare an intrinsic for each value."
            )
        )
    if not isinstance(op, ComputeOp) or len(op.outputs) != 1:
        raise ComputeTypeError(
            f"{asked}: the operation is {type(op).__name__}; give c.op of a te.compute"
        )
    if not callable(fcompute) or isinstance(fcompute, Expr):
        raise ComputeTypeError(
            f"{asked}: fcompute must be a function of inputs and outputs, got "
            f"{type(fcompute).__name__}; write lambda ins, outs: tvm.tir.call_extern(...)"
        )
    output = op.outputs[0]
    tensors = (*placeholders([output]), output)
    given = {} if binds is None else binds
    if not isinstance(given, Mapping) or not all(any(b is t for t in tensors) for b in given):
        raise ComputeTypeError(
            f"{asked}: binds= must map {', '.join(t.name for t in tensors)} to buffers of "
            "tvm.tir.decl_buffer, and no other tensors"
        )
    buffers = tuple(_buffer(asked, t, given) for t in tensors)
    returned = fcompute([*buffers[:-1]], [buffers[-1]])
    chosen, whole = _chosen(asked, returned)
    emitted = list(getattr(chosen, "calls", ()))
    for call in emitted:
        if isinstance(call, MatrixCall):
            if len(emitted) > 1:
                raise ComputeError(
                    f"{asked}: its body has {len(emitted)} calls, and one of a matrix unit stands "
                    "alone; declare an intrinsic for each"
                )
            parts = [*returned] if isinstance(returned, (tuple, list)) else [returned]
            reset = getattr(parts[1], "calls", ()) if len(parts) > 1 else ()
            return declared_by(
                asked, op, call, reset, tensors, buffers,
                call.title if name == "tensor_intrin" else name,
            )  # fmt: skip
    for buffer in buffers:
        _check_places(asked, buffer)
    strides = tuple(_needed(t, b) for t, b in zip(tensors, buffers))
    whole = whole and op.reducer is not None
    if isinstance(chosen, PackedCall):
        own = _packed(chosen, buffers)
        described, title = MemoryFunction(own, strides, whole), own.__name__
    else:
        calls = _calls(asked, chosen, buffers)
        described = Described("", strides, whole, calls=calls, buffers=buffers)
        title = calls[0].name
    title = title if name == "tensor_intrin" else name
    scopes = {t.name: buffer.scope for t, buffer in zip(tensors, buffers) if buffer.scope}
    starts = {t.name: b.alignment for t, b in zip(tensors, buffers) if b.alignment > 1}
    emit = {MEMORY: described}
    return instruction(title, output, emit=emit, scopes=scopes, alignment=starts)


def _buffer(asked: str, tensor: Tensor, binds: Mapping[Tensor, Buffer]) -> Buffer:
    """Return the buffer of a tensor, which has its shape and its dtype."""
    shape = tuple(tensor.shape)
    own = binds.get(tensor, Buffer(tensor.name, shape, tensor.dtype))  # type: ignore[arg-type]
    if not isinstance(own, Buffer) or (own.shape, own.dtype) != (shape, tensor.dtype):
        shown = f"{own.dtype}{list(own.shape)}" if isinstance(own, Buffer) else type(own).__name__
        raise ComputeError(
            explain(
                asked,
                f"{tensor.name} is {tensor.dtype}{[*shape]}, and its buffer is {shown}",
                "Give binds= a tvm.tir.decl_buffer of its shape and its dtype.",
            )
        )
    return own


def _needed(tensor: Tensor, buffer: Buffer) -> tuple[int | None, ...]:
    """Return the strides that a buffer needs; ``None`` is any."""
    if buffer.strides:
        return tuple(s if isinstance(s, int) else None for s in buffer.strides)
    return tuple(step.const for step in packed_strides(tensor))


def _check_places(asked: str, buffer: Buffer) -> None:
    """Refuse what a buffer promises of fragments and offsets to a function of C or of Python."""
    if buffer.offset_factor > 1:
        raise ComputeError(
            explain(
                asked,
                f"offset_factor={buffer.offset_factor} of {buffer.name} needs tiles that begin at "
                f"multiples of {buffer.offset_factor} elements, which no schedule promises",
                "Write a function that takes any offset, and give offset_factor=1.",
            )
        )
    if buffer.scope in FRAGMENTS:
        raise ComputeError(
            explain(
                asked,
                f"{buffer.name} is in {buffer.scope}, which the threads of a warp hold together, "
                "and a function runs on the CPU",
                'Call a matrix unit, such as tvm.tir.call_intrin("handle", "tir.tvm_mma_sync", '
                "...), or give another scope.",
            )
        )


def _chosen(asked: str, returned: Any) -> tuple[Any, bool]:
    """Return the part of what ``fcompute`` returned that runs, and whether it is a body alone."""
    parts = [*returned] if isinstance(returned, (tuple, list)) else [returned]
    if not 0 < len(parts) < 4:
        raise ComputeTypeError(
            f"{asked}: its function returns {len(parts)} statements; return a body, or a body, a "
            "reset and an update"
        )
    update = parts[2] if len(parts) > 2 and parts[2] is not None else None
    return parts[0] if update is None else update, update is None


def _packed(call: PackedCall, buffers: Sequence[Buffer]) -> Callable[..., None]:
    """Return a packed call as a function of the arrays of ``buffers``."""
    handles = [Handle(b.name, b.shape, b.dtype) for b in buffers]
    own: dict[Any, Handle] = dict(zip(buffers, handles))
    args = tuple(own.get(arg, arg) if isinstance(arg, Buffer) else arg for arg in call.args)
    return packed_function(PackedCall(call.name, args), handles)


def _calls(asked: str, chosen: Any, buffers: Sequence[Buffer]) -> tuple[ExternCall, ...]:
    """Return the calls of C of a statement."""
    calls = (chosen,) if isinstance(chosen, ExternCall) else getattr(chosen, "calls", ())
    if not calls:
        raise ComputeTypeError(
            explain(
                asked,
                f"its function returns {type(chosen).__name__}, which calls no function of C",
                "Emit tvm.tir.call_extern(dtype, name, ...) with tvm.tir.ir_builder, and return "
                "ib.get(); or return tvm.tir.call_packed(name, ...).",
            )
        )
    known = {s for buffer in buffers for s in buffer.strides if isinstance(s, Var)}
    for call in calls:
        for arg in call.args:
            _check_argument(asked, call, arg, buffers, known)
    return tuple(calls)


def _check_argument(
    asked: str, call: ExternCall, arg: Any, buffers: Sequence[Buffer], known: set[Var]
) -> None:
    """Refuse an address of another buffer, and a variable that is not a stride."""
    value = arg
    if isinstance(arg, AccessPtr):
        if not any(arg.buffer is buffer for buffer in buffers):
            raise ComputeError(
                f"{asked}: {call.name} gets {arg.buffer.name}, which is another intrinsic's; use "
                "the buffers that its function gets"
            )
        value = arg.offset
    for node in postorder([value]) if isinstance(value, Expr) else ():
        if isinstance(node, Var) and node not in known:
            raise ComputeError(
                f"{asked}: {call.name} gets {node.name}, which is the stride of none of its "
                "buffers; name it in strides= of tvm.tir.decl_buffer"
            )
        plain = isinstance(node, (Const, Var)) or getattr(node, "op", "") in _OPERATIONS
        if not plain or (isinstance(node, Const) and not isfinite(node.value)):
            raise ComputeError(
                explain(
                    asked,
                    f"{call.name} gets {value}, which is neither a finite number nor made of "
                    "strides by +, - and *",
                    "Compute the rest in the function of C.",
                )
            )


__all__ = ["decl_tensor_intrin"]
