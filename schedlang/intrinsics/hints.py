"""Hints to LLVM: loops to unroll or to keep, arrays that do not alias, products not to fuse."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from schedlang.intrinsics.memory import I32
from schedlang.intrinsics.simd import call_llvm


@intrinsic(prefer_literal=True)
def rolled(typingctx: Any, vectors: Any) -> Any:
    """Keep the loop just before as a loop until LLVM's vectorizer has seen it.

    The vectorizer then takes `vectors` vectors, a literal, in each iteration.
    """
    count = vectors.literal_value

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        done = _metadata(builder, "llvm.loop.isvectorized", I32(1))
        hints = [
            _metadata(builder, "llvm.loop.unroll.disable"),
            # the line above alone would mean a count of 1 to the vectorizer
            _metadata(builder, "llvm.loop.interleave.count", I32(count)),
            _metadata(builder, "llvm.loop.vectorize.followup_all", done),
        ]
        _attach(builder, hints)
        return context.get_dummy_value()

    return types.void(vectors), codegen


@intrinsic
def unrolled(typingctx: Any) -> Any:
    """Ask LLVM to unroll the loop just before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        _attach(builder, [_metadata(builder, "llvm.loop.unroll.full")])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def apart(typingctx: Any, *arrays: Any) -> Any:
    """Tell LLVM that none of these parameters of the function aliases another."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        for parameter in _parameters(builder, args):
            if isinstance(parameter.type, ir.PointerType):
                parameter.add_attribute("noalias")
        return context.get_dummy_value()

    return types.void(types.StarArgTuple(arrays)), codegen


@intrinsic
def rounded(typingctx: Any, x: Any) -> Any:
    """Return the float `x`, a product that LLVM must not fuse with an addition."""
    if not isinstance(x, types.Float):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return call_llvm(builder, "arithmetic.fence", args[0].type, [args[0]])

    return x(x), codegen


def _metadata(builder: ir.IRBuilder, name: str, *values: Any) -> Any:
    """Return a metadata node with a name and values."""
    module = builder.module
    return module.add_metadata([ir.MetaDataString(module, name), *values])


def _attach(builder: ir.IRBuilder, hints: list[Any]) -> None:
    """Attach metadata to the loop just before, at its jumps back to the start."""
    module = builder.module
    for jump in _back_edges(builder.function, builder.block):
        node = ir.MDValue(module, [hints[0], *hints], name=str(len(module.metadata)))
        # a loop's node refers to itself first, which makes it distinct
        node.operands = (node, *hints)
        jump.set_metadata("llvm.loop", node)


def _parameters(builder: ir.IRBuilder, values: Any) -> set[ir.Argument]:
    """Return the function's parameters that ``values`` come from, through local variables too."""
    stored: dict[ir.Value, list[ir.Value]] = {}
    for block in builder.function.blocks:
        for item in block.instructions:
            if isinstance(item, ir.StoreInstr):
                stored.setdefault(item.operands[1], []).append(item.operands[0])
    arguments: set[ir.Argument] = set()
    seen: set[ir.Value] = set()
    left = list(values)
    while left:
        value = left.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, ir.Argument):
            arguments.add(value)
        elif isinstance(value, ir.InsertValue):
            left += value.operands
        elif isinstance(value, ir.LoadInstr):
            left += stored.get(value.operands[0], [])
    return arguments


def _back_edges(function: ir.Function, after: ir.Block) -> list[ir.Branch]:
    """Return the jumps back to the start of the loop that exits to the block ``after``."""
    successors = {block: _targets(block) for block in function.blocks}
    predecessors: dict[ir.Block, list[ir.Block]] = {}
    for block, targets in successors.items():
        for target in targets:
            predecessors.setdefault(target, []).append(block)
    edges: list[ir.Branch] = []
    for test in predecessors.get(after, []):
        before = _reached(predecessors, test)
        inside = (t for t in successors[test] if t is not after)
        loop = {b for t in inside for b in _reached(successors, t) & before}
        # where the loop is entered from outside
        starts = {b for b in loop for a in predecessors.get(b, []) if a not in loop}
        jumps = (b for b in loop if len(successors[b]) == 1)
        edges += [b.terminator for b in jumps if successors[b][0] in starts]
    return edges


def _targets(block: ir.Block) -> list[ir.Block]:
    end = block.terminator
    return [] if end is None else [x for x in end.operands if isinstance(x, ir.Block)]


def _reached(edges: dict[ir.Block, list[ir.Block]], start: ir.Block) -> set[ir.Block]:
    """Return the blocks reachable from ``start`` along ``edges``, itself too."""
    reached: set[ir.Block] = set()
    left = [start]
    while left:
        block = left.pop()
        if block not in reached:
            reached.add(block)
            left += edges.get(block, [])
    return reached
