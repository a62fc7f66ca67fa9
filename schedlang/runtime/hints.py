"""What LLVM is told beside the code: loops to keep, arrays that are apart, products to round."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .simd import call_llvm


@intrinsic
def rolled(typingctx: Any) -> Any:
    """Keep the loop that ends just before as a loop until LLVM's vectorizer has seen it."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        done = _note(builder, "llvm.loop.isvectorized", ir.IntType(32)(1))
        behind = _note(builder, "llvm.loop.vectorize.followup_all", done)
        _tell(builder, [_note(builder, "llvm.loop.unroll.disable"), behind])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def unrolled(typingctx: Any) -> Any:
    """Ask LLVM to unroll the loop that ends just before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        _tell(builder, [_note(builder, "llvm.loop.unroll.full")])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def apart(typingctx: Any, *arrays: Any) -> Any:
    """Promise that each of these parameters of the function shares memory with no other."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        for parameter in _parameters(builder, args):
            if isinstance(parameter.type, ir.PointerType):
                parameter.add_attribute("noalias")
        return context.get_dummy_value()

    return types.void(types.StarArgTuple(arrays)), codegen


@intrinsic
def rounded(typingctx: Any, x: Any) -> Any:
    """`x`, a float, as it is: an addition that follows is not fused with the product it may be."""
    if not isinstance(x, types.Float):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return call_llvm(builder, "arithmetic.fence", args[0].type, [args[0]])

    return x(x), codegen


def _note(builder: ir.IRBuilder, name: str, *values: Any) -> Any:
    """A named piece of metadata."""
    module = builder.module
    return module.add_metadata([ir.MetaDataString(module, name), *values])


def _tell(builder: ir.IRBuilder, notes: list[Any]) -> None:
    """Give the loop ahead of here some metadata, at its jump back to the start."""
    module = builder.module
    for jump in _back_edges(builder.function, builder.block):
        node = ir.MDValue(module, [notes[0], *notes], name=str(len(module.metadata)))
        # a loop's node names itself first, so that no two loops share one
        node.operands = (node, *notes)
        jump.set_metadata("llvm.loop", node)


def _parameters(builder: ir.IRBuilder, values: Any) -> set[ir.Argument]:
    """The function's parameters that ``values`` are made of, also by way of local variables."""
    stored: dict[ir.Value, list[ir.Value]] = {}
    for block in builder.function.blocks:
        for item in block.instructions:
            if isinstance(item, ir.StoreInstr):
                stored.setdefault(item.operands[1], []).append(item.operands[0])
    found: set[ir.Argument] = set()
    seen: set[ir.Value] = set()
    left = list(values)
    while left:
        value = left.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, ir.Argument):
            found.add(value)
        elif isinstance(value, ir.InsertValue):
            left += value.operands
        elif isinstance(value, ir.LoadInstr):
            left += stored.get(value.operands[0], [])
    return found


def _back_edges(function: ir.Function, after: ir.Block) -> list[ir.Branch]:
    """The jumps back to the start of the loop that leads to the block ``after``."""
    ways = {block: _targets(block) for block in function.blocks}
    back: dict[ir.Block, list[ir.Block]] = {}
    for block, targets in ways.items():
        for target in targets:
            back.setdefault(target, []).append(block)
    found: list[ir.Branch] = []
    for test in back.get(after, []):
        before = _reached(back, test)
        loop = {b for t in ways[test] if t is not after for b in _reached(ways, t) & before}
        # where the loop is entered from outside
        starts = {b for b in loop for a in back.get(b, []) if a not in loop}
        found += [b.terminator for b in loop if len(ways[b]) == 1 and ways[b][0] in starts]
    return found


def _targets(block: ir.Block) -> list[ir.Block]:
    end = block.terminator
    return [] if end is None else [x for x in end.operands if isinstance(x, ir.Block)]


def _reached(ways: dict[ir.Block, list[ir.Block]], start: ir.Block) -> set[ir.Block]:
    """The blocks that ``start`` leads to, itself too."""
    found: set[ir.Block] = set()
    left = [start]
    while left:
        block = left.pop()
        if block not in found:
            found.add(block)
            left += ways.get(block, [])
    return found
