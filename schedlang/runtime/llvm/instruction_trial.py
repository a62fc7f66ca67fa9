"""An instruction as a module of LLVM's of its own: operands from memory, the result to memory."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from schedlang.expr.dtypes import register_dtype, storage_dtype
from schedlang.instructions.c_forms import CFunction, CSnippet
from schedlang.instructions.declaration import Instruction, ValueEmission, elements
from schedlang.instructions.emission import MemoryFunction, in_order
from schedlang.instructions.fragments import ElementCopy, InParts
from schedlang.instructions.needs import alternatives
from schedlang.intrinsics.simd import Vec, llvm_type
from schedlang.markup.text import uncoloured
from schedlang.runtime.kept_trials import Trial
from schedlang.runtime.llvm.dialect import Context, scalar_type
from schedlang.runtime.llvm.instructed import instructed
from schedlang.runtime.llvm.traced import traced
from schedlang.runtime.llvm.trial import compiled_alone
from schedlang.runtime.llvm.unprintable import Unprintable
from schedlang.runtime.numba_internals import NumbaError, cpu_context, kernel_features
from schedlang.runtime.processor import missing_features, of_tiles


def trial(declared: Instruction) -> Trial:
    """Return the assembly of an instruction, or why LLVM cannot write it.

    It is compiled for this processor, and as if it had the features that the instruction needs. If
    it has them, it also runs.
    """
    emission = declared.emit["llvm"]
    assert not isinstance(emission, (CFunction, CSnippet, MemoryFunction, InParts, ElementCopy))
    processor = cpu_context().codegen().magic_tuple()[1]
    lacking = [alternatives(name)[0] for name in missing_features(declared.needs)]
    needed = ",".join([kernel_features(), *(f"+{name}" for name in lacking)])
    try:
        module = module_of(declared, emission)
    except (NumbaError, Unprintable, ArithmeticError, LookupError, NameError, TypeError,
            ValueError) as error:  # fmt: skip
        # a function of the user's may call intrinsics in any way
        return Trial("", uncoloured(str(error)) or type(error).__name__)
    # the child does not ask for tiles of AMX
    run = "" if lacking or of_tiles(declared.needs) else "tile"
    compiled = compiled_alone(str(module), processor, needed, run)
    called = [f.name for f in module.functions if f.is_declaration and f.name.startswith("llvm.")]
    # LLVM takes a name that it does not know for a function of the user's
    if unknown := [name for name in called if name in compiled.assembly]:
        return Trial("", f"this processor has no function {unknown[0]}")
    return compiled


def module_of(declared: Instruction, emission: ValueEmission) -> ir.Module:
    """Return a module with one function, which computes the instruction on one tile."""
    module = ir.Module(declared.name)
    operands_given = (declared.output,) * declared.accumulates + declared.operands
    ordered = in_order(emission, operands_given)
    kinds = [_kind(storage_dtype(t.dtype), elements(t)) for t in ordered]
    result = _kind(register_dtype(declared.output.dtype), declared.lanes)
    pointers = [llvm_type(kind).as_pointer() for kind in (result, *kinds)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), pointers), "tile")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    operands = [
        (kind, builder.load(pointer, align=1)) for kind, pointer in zip(kinds, function.args[1:])
    ]
    _, value = instructed(Context(traced), builder, declared, emission, operands)
    builder.store(value, function.args[0], align=1)
    builder.ret_void()
    return module


def _kind(dtype: str, count: int) -> types.Type:
    return Vec(scalar_type(dtype), count) if count > 1 else scalar_type(dtype)
