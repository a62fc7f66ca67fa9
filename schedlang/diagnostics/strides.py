"""Warnings about vector accesses whose lanes are far apart in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, prod

from schedlang.diagnostics.sites import extent_of, in_memory, iterations, name_of
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import Div, Extreme, Lin, Mod
from schedlang.index.simplify import has_mod, merge_div_mod, to_lin
from schedlang.ir.accesses import Site, stores
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer, For
from schedlang.ir.offsets import CLOSE, flat, gathers, lane_step
from schedlang.ir.printer import expr_text
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.sums import keep_sums
from schedlang.machine.loops.transposes import FEWEST, MOST
from schedlang.target import Target

# a warning needs this many accesses, and this share of all that the kernel computes: the copy of
# panels that a tile reads repeatedly stays below
LEAST, SHARE = 1 << 14, 1 / 8


@dataclass(frozen=True)
class Access:
    """An access of the lanes of ``loop``, ``step`` elements apart (``None``: no constant step)."""

    site: Site
    loop: For
    buffer: Buffer
    indices: tuple[Expr, ...]
    offset: Lin
    step: int | None
    written: bool


def strided_accesses(nest: Nest, target: Target) -> list[str]:
    """Return a sentence for each vector access that costs time because its lanes are far apart.

    There is none for an index that is read from a tensor or clamped at an edge, for sums that stay
    in registers, for blocks that unrolled loops transpose in registers, for storage that
    ``storage_align`` laid out, and for a copy that is small compared with its use.
    """
    found_at = stores(keep_sums(nest.body, LoopJob(nest, target)))
    total = sum(map(iterations, found_at))
    far = [
        a
        for site in found_at
        for a in _far(site, nest, target)
        if (count := _count(a)) >= LEAST and count >= SHARE * total
    ]
    return list(dict.fromkeys(_sentence(a, nest) for a in far))


def _far(site: Site, nest: Nest, target: Target) -> Iterator[Access]:
    """Yield the accesses of a store whose lanes are far apart."""
    loop = next((f for f in site.loops if f.kind == "vectorize" and extent_of(f) > 1), None)
    if loop is None:
        return
    # loads first
    for access in sorted(in_memory(site), key=lambda a: a.stores):
        buffer, indices, written = access.buffer, access.indices, access.stores
        offset = flat(buffer, indices)
        if has_mod(offset):
            offset = merge_div_mod(offset)
        step = lane_step(offset, loop.axis)
        if gathers(offset) or (step is not None and abs(step) <= CLOSE):
            continue
        if buffer.strides is not None or (step is None and _clamped(offset, loop.axis)):
            continue
        if written or not _transposed(site, offset):
            yield Access(site, loop, buffer, tuple(indices), offset, step, written)


def _transposed(site: Site, offset: Lin) -> bool:
    """Return whether an unrolled loop reads rows, which are then transposed in registers."""
    return any(
        f.kind == "unroll" and extent_of(f) >= FEWEST and lane_step(offset, f.axis) == 1
        for f in site.loops
    )


def _count(access: Access) -> int:
    """Return how often elements are accessed; unrolled copies that share one access it once."""
    return prod(
        extent_of(f)
        for f in access.site.loops
        if f.kind != "unroll" or lane_step(access.offset, f.axis) != 0
    )


def _sentence(access: Access, nest: Nest) -> str:
    loop, buffer = access.loop, access.buffer
    at = ", ".join(expr_text(i, nest.names) for i in access.indices)
    verb, kind = ("writes", "store") if access.written else ("reads", "load")
    apart = "scattered" if access.step is None else f"{abs(access.step)} elements apart"
    return (
        f"stage {access.site.stmt.stage}: vectorized {name_of(loop, nest)} {verb} "
        f"{buffer.name}[{at}] with lanes {apart}, so each lane is a separate {kind}. "
        f"{_advice(access, nest)}"
    )


def _advice(access: Access, nest: Nest) -> str:
    """Return the schedule step that would make the lanes adjacent."""
    if access.step is None:
        return _advice_for_index(access, nest)
    buffer = access.buffer
    own = buffer not in nest.args
    other = None if own and access.written else _neighbours(access, nest)
    if other is not None:
        return other
    if own:
        return (
            f"Change the layout of {buffer.name}: transform_layout({_layout(access)}) on its stage"
            + (", or the last factor_axis in rfactor." if ".rf" in buffer.name else ".")
        )
    if access.written:
        return f"Vectorize a loop along the last dimension of {buffer.name}."
    return (
        f"Vectorize another loop, or change the layout of {buffer.name} so that the lanes are "
        f"adjacent; if {buffer.name} is read repeatedly, a copy pays off: "
        f"cache_read({buffer.name}, ...), then transform_layout({_layout(access)}) on it."
    )


def _layout(access: Access) -> str:
    """Return the layout that would make the lanes adjacent, as a lambda of the dimensions."""
    count = len(access.buffer.shape)
    names = [f"d{at}" for at in range(count)]
    moving = [at for at, i in enumerate(access.indices) if _in_index(i, access.loop.axis)]
    last = moving[-1] if moving else count - 1
    outer = [n for at, n in enumerate(names) if at != last]
    inner = [names[last]]
    step = lane_step(to_lin(access.indices[last]), access.loop.axis)
    if step is not None and abs(step) > 1:
        inner = [f"{names[last]} % {abs(step)}", f"{names[last]} // {abs(step)}"]
    return f"lambda {', '.join(names)}: ({', '.join([*outer, *inner])})"


def _neighbours(access: Access, nest: Nest) -> str | None:
    """Return advice to vectorize or unroll another loop along which elements are adjacent."""
    store = access.site.stmt
    for loop in reversed(access.site.loops):
        if loop is access.loop or lane_step(access.offset, loop.axis) != 1:
            continue
        if extent_of(loop) < FEWEST:
            # too short for lanes, and for a block to transpose
            continue
        name, lanes = name_of(loop, nest), name_of(access.loop, nest)
        fits = all(
            abs(lane_step(flat(b, store.indices), loop.axis) or 99) == 1 for b in store.buffers
        )
        if fits and not loop.axis.is_reduce:
            return f"Vectorize {name}, along which elements are adjacent."
        if not access.written:
            if loop.axis.kind == "scan":
                # the loop over time is around the lanes of a step
                split = f"Split {name} by {MOST} and unroll the inner loop"
                first = split if extent_of(loop) > MOST else f"Unroll {name}"
                return f"{first}: rows are then loaded whole and transposed in registers."
            split = f"Split {name} by {MOST}, reorder the inner loop"
            first = split if extent_of(loop) > MOST else f"Reorder {name}"
            return (
                f"{first} outside {lanes} and unroll it: rows are then loaded whole and "
                "transposed in registers."
            )
    return None


def _advice_for_index(access: Access, nest: Nest) -> str:
    for atom in access.offset.atoms():
        if isinstance(atom, (Div, Mod)) and _moves(atom.num, access.loop.axis):
            step, size = lane_step(atom.num, access.loop.axis), atom.den.const
            lanes = gcd(size, extent_of(access.loop)) // (abs(step) or 1) if size and step else 0
            if lanes > 1:
                return (
                    f"Split by {lanes} and vectorize the inner loop: its {lanes} lanes stay within "
                    f"one block of {size}."
                )
    return "Vectorize another loop."


def _clamped(offset: Lin, axis: Axis) -> bool:
    """Return whether lanes are adjacent except where min or max keeps an index in bounds."""
    moving = [(p, c) for p, c in offset.terms.items() if any(_moves(Lin.of(a), axis) for a in p)]
    atoms = [product[0] for product, coef in moving if len(product) == 1 and abs(coef) == 1]
    return len(atoms) == len(moving) == 1 and _is_close(Lin.of(atoms[0]), axis)


def _is_close(lin: Lin, axis: Axis) -> bool:
    """Return whether ``lin`` moves by at most one element a lane, whichever side a clamp takes."""
    if (step := lane_step(lin, axis)) is not None:
        return abs(step) <= 1
    (atom, *others) = lin.atoms()
    return not others and isinstance(atom, Extreme) and all(_is_close(a, axis) for a in atom.args)


def _moves(lin: Lin, axis: Axis) -> bool:
    return lin.depends_on({axis})


def _in_index(index: Expr, axis: Axis) -> bool:
    return any(node is axis for node in postorder([index]))
