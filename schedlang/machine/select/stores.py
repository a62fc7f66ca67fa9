"""Stores of one element, or of the lanes of a vector."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from schedlang.errors import BuildError, amount, explain
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Const, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, to_expr
from schedlang.instructions.fragments import MatrixLoad
from schedlang.ir.instructed import Instructed, Tile
from schedlang.ir.nodes import Buffer, Load
from schedlang.ir.nodes import Store as StoreNode
from schedlang.ir.offsets import lane_step
from schedlang.ir.updates import as_plain_store
from schedlang.machine.nodes import (
    INDEX,
    Fn,
    Iota,
    Let,
    Num,
    Op,
    Reg,
    SharedCopy,
    Store,
    Type,
    Value,
)
from schedlang.machine.nodes import Load as LoadValue
from schedlang.machine.select.context import Context
from schedlang.machine.select.evaluator import Evaluator
from schedlang.machine.select.sums import Spot, Sums
from schedlang.machine.walks import wide
from schedlang.state.atomics import operation

# Source: PTX ISA, "cp.async": the sizes of a copy
COPIED_BYTES = (4, 8, 16)


class Stores:
    """Builder of stores, by the evaluator of their values.

    ``streamed`` collects the stages whose stores bypass the cache; ``unfenced`` says that such a
    store was emitted and needs a fence after it. ``constant`` holds the places of stores of
    constants. Sums may start from these.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.streamed: set[str] = set()
        self.unfenced = False
        self.constant: dict[Store, Spot] = {}
        # updates as plain stores, which are the same in all copies
        self._updates: dict[StoreNode, StoreNode] = {}

    def store(self, store: StoreNode, context: Context) -> None:
        """Build ``store``."""
        e = self.evaluator
        e.forget_offsets()
        if store.scatters:
            store = self._named_places(store, context)
        if store.atomic:
            self._atomic(store, context)
            return
        if store.asynchronous:
            self._copies(store, context)
            return
        if isinstance(store.values[0], Instructed) and store.values[0].loads_matrices:
            self._load_matrices(store, context)
            return
        if store.reducer is not None:
            context = self._with_offsets(store, context)
            store = self._plain(store)
        values = list(e.values(store.values, context))
        constant = all(isinstance(v, Const) for v in store.values)
        if len(values) > 1 and not constant:
            # stores change the sums in registers, so values come first; other registers stay
            sums = () if context.sums is None else [s.reg for s in context.sums.named.values()]
            values = [v if isinstance(v, Reg) and v not in sums else e.let(v) for v in values]
        spots: dict[Store, Spot] = {}
        for k, (buffer, value) in enumerate(zip(store.buffers, values)):
            # a tuple of values is one element of the stage
            stage = "" if k else store.stage
            register = e.kept(buffer, store.indices, context)
            if register is not None:
                changed = _under_mask(register, wide(value, register.type.lanes), context)
                e.emit(Let(register, changed, number=e.number, stage=stage))
                continue
            one = replace(store, stage=stage) if k else store
            store_stmt, spot = self._store_one(one, buffer, value, context)
            if spot is not None:
                spots[store_stmt] = spot
        if constant and len(spots) == len(store.buffers):
            self.constant |= spots

    def _plain(self, update: StoreNode) -> StoreNode:
        """Return an update as a plain store."""
        plain = self._updates.get(update)
        if plain is None:
            plain = self._updates[update] = as_plain_store(update)
        return plain

    def _atomic(self, store: StoreNode, context: Context) -> None:
        """Build the atomic update of one element."""
        e, (buffer,) = self.evaluator, store.buffers
        assert store.reducer is not None and context.lanes is None
        how = operation(store.reducer)
        assert how is not None, "bind refuses a combiner without an atomic operation"
        value = e.value(store.values[0], context)
        at = e.index(e.offset(buffer, store.indices, context), context, buffer, store.indices)
        e.emit(Store(how, e.array(buffer), at, value, number=e.number, stage=store.stage))

    def _copies(self, store: StoreNode, context: Context) -> None:
        """Build asynchronous copies; refuse those that are not 4, 8 or 16 bytes at once."""
        e, lanes = self.evaluator, context.lanes
        for buffer, value in zip(store.buffers, store.values):
            assert isinstance(value, Load)
            places: list[tuple[Buffer, tuple[Expr, ...]]]
            places = [(buffer, store.indices), (value.buffer, value.indices)]
            offsets = [e.offset(b, at, context) for b, at in places]
            count = 1 if lanes is None else lanes.count
            if lanes is not None:
                steps = [lane_step(offset, lanes.axis) for offset in offsets]
                offsets = [o.substitute({lanes.axis: lanes.start}) for o in offsets]
                whole = all([e.aligned(b, o, count) for (b, _), o in zip(places, offsets)])
                if context.mask is not None or steps != [1, 1] or not whole:
                    raise no_wide_copy(buffer, count, "its lanes are not adjacent and aligned")
            if count * itemsize(buffer.dtype) not in COPIED_BYTES:
                raise no_wide_copy(buffer, count, "the hardware has no such copy")
            ends = [e.index(o, context, b, at) for o, (b, at) in zip(offsets, places)]
            array, source = (e.array(b) for b, _ in places)
            e.emit(SharedCopy("copy_async", array, ends[0], source, ends[1], count, e.number))

    def _load_matrices(self, store: StoreNode, context: Context) -> None:
        """Build the load of matrices into adjacent registers."""
        e, lanes, (value,), (buffer,) = self.evaluator, context.lanes, store.values, store.buffers
        assert lanes is not None and isinstance(value, Instructed)
        (tile,) = value.args
        assert isinstance(tile, Tile) and isinstance(value.emission, MatrixLoad)
        into = e.offset(buffer, store.indices, context)
        row = e.offset(tile.buffer, tile.indices, context)
        assert lane_step(into, lanes.axis) == 1, "the load fills adjacent registers"
        first = into.substitute({lanes.axis: lanes.start})
        assert all(n % tile.count == 0 for n in row.terms.values()), "rows are aligned"
        at = e.index(first, context, buffer, store.indices)
        start = e.index(row, context, tile.buffer, tile.indices)
        how = f"load_matrix{'_transposed' * value.emission.transposed}"
        array, source = e.array(buffer), e.array(tile.buffer)
        e.emit(SharedCopy(how, array, at, source, start, lanes.count, e.number))

    def _named_places(self, store: StoreNode, context: Context) -> StoreNode:
        """Return ``store`` with registers for the indices that depend on data, evaluated once.

        An index that differs between lanes stays unnamed.
        """
        e, lanes, indices = self.evaluator, context.lanes, list(store.indices)
        if context.mask is not None and not context.leads:
            return store
        for k, index in enumerate(indices):
            nodes = postorder([index])
            varies = lanes is not None and any(n is lanes.axis for n in nodes)
            if varies or not any(isinstance(n, Load) for n in nodes):
                continue
            reg = e.let(e.value(index, context.scalar), f"{e.array(store.buffers[0]).name}_at")
            indices[k] = place = Var(reg.name)
            e.names.share(place, reg.name)
        return replace(store, indices=tuple(indices))

    def _with_offsets(self, store: StoreNode, context: Context) -> Context:
        """Return ``context`` with the offsets of an update, as one object each."""
        e = self.evaluator
        offsets = dict(context.offsets)
        for buffer in store.buffers:
            if context.sums is not None and buffer in context.sums.buffers:
                continue
            offset = e.offset(buffer, store.indices, context)
            lanes = context.lanes
            if lanes is not None and lane_step(offset, lanes.axis) is None:
                break
            first = offset if lanes is None else offset.substitute({lanes.axis: lanes.start})
            offsets[buffer, first] = e.index(first, context, buffer, store.indices)
        return context._replace(offsets=offsets)

    def _store_one(
        self, store: StoreNode, buffer: Buffer, value: Value, context: Context
    ) -> tuple[Store, Spot | None]:
        """Build the store of one buffer; return its place unless it is masked or scattered."""
        e, lanes, mask, indices = self.evaluator, context.lanes, context.mask, store.indices
        stage = store.stage
        array = e.array(buffer)
        offset = e.offset(buffer, indices, context)
        spot: Spot | None = None
        number = e.number
        if lanes is None:
            at = e.index(offset, context, buffer, indices)
            stmt = Store("store", array, at, value, number=number, stage=stage)
            spot = (buffer, offset, 0, 1)
        else:
            value = wide(value, lanes.count)
            step = lane_step(offset, lanes.axis)
            first = offset.substitute({lanes.axis: lanes.start})
            if step == 1:
                at = e.index(first, context, buffer, indices)
                how = self._adjacent(store, buffer, first, context)
                stmt = Store(how, array, at, value, mask=mask, number=number, stage=stage)
                if stmt.how in ("vstore", "vstore_aligned"):
                    spot = (buffer, first, lanes.count, 1)
            elif step and mask is None:
                at, how = e.index(first, context), "vstore_strided"
                stmt = Store(how, array, at, value, step=step, number=number, stage=stage)
                spot = (buffer, first, lanes.count, step)
            else:
                at = e.value(to_expr(offset), context)
                how = "vscatter" if mask is None else "vscatter_masked"
                stmt = Store(how, array, at, value, mask=mask, number=number, stage=stage)
        e.emit(stmt)
        return stmt, spot

    def _adjacent(self, store: StoreNode, buffer: Buffer, first: Lin, context: Context) -> str:
        """Return the intrinsic that stores adjacent lanes."""
        if context.mask is not None:
            return "vstore_masked"
        if store.streamed:
            self.streamed.add(store.stage)
            self.unfenced = True
            return "vstore_stream"
        assert context.lanes is not None
        whole = self.evaluator.aligned(buffer, first, context.lanes.count)
        return "vstore_aligned" if whole else "vstore"

    def read_sums(self, sums: Sums, initialized: Container[Spot]) -> None:
        """Build loads of the sums that a reduction loop keeps, except those ``initialized``."""
        e, mask = self.evaluator, sums.mask
        for spot, kept_sum in sums.named.items():
            buffer, _, lanes, step = spot
            if spot in initialized:
                continue
            array, kind = e.array(buffer), kept_sum.reg.type
            if mask is not None and step != 1:
                at = _every_lane(kept_sum.at, step, kind)
                value = LoadValue("vgather_masked", array, at, kind, mask=mask)
            else:
                how = _access("load", lanes, step, mask)
                value = LoadValue(how, array, kept_sum.at, kind, step=step, mask=mask)
            e.emit(Let(kept_sum.reg, value, number=kept_sum.number))

    def write_sums(self, sums: Sums) -> None:
        """Build stores of the sums, after the loop."""
        e, mask = self.evaluator, sums.mask
        for (buffer, _, lanes, step), kept_sum in sums.named.items():
            array = e.array(buffer)
            if mask is not None and step != 1:
                at = _every_lane(kept_sum.at, step, kept_sum.reg.type)
                how = "vscatter_masked"
                e.emit(Store(how, array, at, kept_sum.reg, mask=mask, number=kept_sum.number))
            else:
                how = _access("store", lanes, step, mask)
                stmt = Store(how, array, kept_sum.at, kept_sum.reg, step, mask, kept_sum.number)
                e.emit(stmt)


def no_wide_copy(buffer: Buffer, count: int, why: str) -> BuildError:
    """Return why ``count`` elements of a pipeline's tile are not one copy."""
    elements, size = amount(count, "element"), amount(count * itemsize(buffer.dtype), "byte")
    return BuildError(
        explain(
            f"the pipeline of {buffer.name}",
            f"each thread copies {elements} of {buffer.dtype}, {size}, at once, and {why}",
            "Vectorize the stage that copies, so that one copy has 4, 8 or 16 bytes which are "
            "adjacent and aligned in both arrays, with a factor that divides their rows.",
        )
    )


def _under_mask(kept: Reg, value: Value, context: Context) -> Value:
    """Return the next value of a sum in a register; lanes outside the mask keep theirs.

    Under the mask around the loop alone, the other lanes are never stored.
    """
    if context.mask is None or (context.sums is not None and context.mask is context.sums.mask):
        return value
    return Fn("select", (context.mask, value, kept), kept.type)


def _every_lane(first: Value, step: int, wide: Type) -> Value:
    """Return the offsets of lanes that are ``step`` elements apart."""
    lanes = Type(INDEX.dtype, wide.lanes)
    steps = Op("*", Iota(lanes), Num(step), lanes, index=True)
    return Op("+", steps, first, lanes, index=True)


def _access(kind: str, lanes: int, step: int, mask: Value | None) -> str:
    """Return the intrinsic that loads or stores ``lanes`` elements, ``step`` apart."""
    how = "_masked" if mask is not None else "" if step == 1 else "_strided"
    return f"v{kind}{how}" if lanes else kind
