"""The text of stores, of one element or of the lanes of a vector."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from schedlang.codegen.context import Context, Text
from schedlang.codegen.expression import SHORT, Expressions
from schedlang.codegen.plain_loops import unfused
from schedlang.codegen.sums import Spot, Start, Sums
from schedlang.expr.linear import to_expr
from schedlang.expr.nodes import Const, Expr
from schedlang.ir.nodes import Buffer, Store
from schedlang.ir.offsets import lane_step
from schedlang.ir.updates import combined

# columns of a line kept free for the names of the intrinsic and the buffer, and the offset
CALL = 32


class Stores:
    """Emitter of stores, through the lines of ``expressions``.

    ``streamed`` collects the stages whose stores bypass the cache; ``unfenced`` says that such a
    store was emitted and needs a fence after it.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.streamed: set[str] = set()
        self.unfenced = False

    def store(self, store: Store, context: Context, width: int) -> tuple[Start, ...]:
        """Emit ``store``; a value too long for a line of ``width`` gets a name.

        Return the stores of constants, from which sums may start.
        """
        e = self.expressions
        if store.reducer is not None or context.stream != store.stage:
            context = replace(context, stream="")
        if store.reducer is not None:
            context = self._named_offset(store, context)
            store = combined(store)
            if context.sums is not None and context.sums.latency_bound:
                store = replace(store, values=tuple(map(unfused, store.values)))
        texts = [e.value(v, context) for v in store.values]
        constant = all(isinstance(v, Const) for v in store.values)
        if len(texts) > 1 and not constant:
            named = []
            for text in texts:
                name = e.names.fresh("t")
                e.line(f"{name} = {text.text}")
                named.append(Text(name, lanes=text.lanes))
            texts = named
        starts: list[Start | None] = []
        for buffer, text in zip(store.buffers, texts):
            kept = e.kept(buffer, store.indices, context)
            if kept is not None:
                e.line(f"{kept.text} = {self._under_mask(kept, text, context)}")
            else:
                starts.append(self._store_one(buffer, store.indices, text, context, width))
        found = tuple(s for s in starts if s is not None)
        return found if constant and len(found) == len(store.buffers) else ()

    def _under_mask(self, kept: Text, text: Text, context: Context) -> str:
        """Return the next value of a sum in a register; lanes outside the mask keep theirs."""
        if not context.mask:
            return text.text
        return f"{self.expressions.use('select')}({context.mask}, {text.text}, {kept.text})"

    def _named_offset(self, store: Store, context: Context) -> Context:
        """Give a name to the offset that an update reads and writes, unless it is short."""
        e = self.expressions
        for buffer in store.buffers:
            if context.sums is not None and buffer in context.sums.buffers:
                continue
            offset = e.offset(buffer, store.indices, context)
            lanes = context.lanes
            if lanes is not None and lane_step(offset, lanes.axis) is None:
                return context
            first = offset if lanes is None else offset.substitute({lanes.axis: lanes.start})
            text = e.index(first, context, buffer, store.indices)
            if len(text) < SHORT:
                continue
            name = e.names.fresh(f"{e.names[buffer]}_at")
            e.line(f"{name} = {text}")
            context = replace(context, offsets={**context.offsets, (buffer, first): name})
        return context

    def _store_one(
        self, buffer: Buffer, indices: tuple[Expr, ...], text: Text, context: Context, width: int
    ) -> Start | None:
        """Emit the store of one buffer; return ``None`` if it is masked or scattered."""
        e = self.expressions
        offset = e.offset(buffer, indices, context)
        name, half = e.names[buffer], "_half" if buffer.dtype == "float16" else ""
        lanes = context.lanes
        if len(text.text) > width - CALL:
            short = e.names.fresh("t")
            e.line(f"{short} = {text.text}")
            text = replace(text, text=short)
        if lanes is None:
            at = e.index(offset, context, buffer, indices)
            line = f"{e.use('store' + half)}({name}, {at}, {text.text})"
            e.line(line)
            return Start((buffer, offset, 0, 1), line, at, text.text)
        value = text.text
        if not text.lanes:
            value = f"{e.use('broadcast')}({value}, {lanes.count})"
        step = lane_step(offset, lanes.axis)
        mask = context.mask
        if step == 1:
            first = offset.substitute({lanes.axis: lanes.start})
            at = e.index(first, context, buffer, indices)
            if mask:
                e.line(f"{e.use('vstore_masked' + half)}({name}, {at}, {value}, {mask})")
            elif context.stream:
                self.streamed.add(context.stream)
                self.unfenced = True
                e.line(f"{e.use('vstore_stream' + half)}({name}, {at}, {value})")
            else:
                whole = e.aligned(buffer, first, lanes.count)
                vstore = "vstore_aligned" if whole else "vstore"
                line = f"{e.use(vstore + half)}({name}, {at}, {value})"
                e.line(line)
                return Start((buffer, first, lanes.count, 1), line, at, value)
        elif step is not None and step != 0 and not mask:
            first = offset.substitute({lanes.axis: lanes.start})
            at = e.index(first, context)
            line = f"{e.use('vstore_strided' + half)}({name}, {at}, {step}, {value})"
            e.line(line)
            return Start((buffer, first, lanes.count, step), line, at, value)
        else:
            at = e.value(to_expr(offset), context).text
            if mask:
                e.line(f"{e.use('vscatter_masked' + half)}({name}, {at}, {value}, {mask})")
            else:
                e.line(f"{e.use('vscatter' + half)}({name}, {at}, {value})")
        return None

    def read_sums(self, sums: Sums, initialized: Container[Spot]) -> None:
        """Emit loads of the sums that a reduction loop keeps, except those ``initialized``."""
        e = self.expressions
        for spot, kept in sums.named.items():
            buffer, _, lanes, step = spot
            for line in kept.before:
                e.line(line)
            if spot in initialized:
                continue
            half = "_half" if buffer.dtype == "float16" else ""
            load = e.use(f"{_access('load', lanes, step)}{half}")
            count = f", {lanes}" if lanes else ""
            at = f"{kept.at}{_step_argument(step)}"
            e.line(f"{kept.name} = {load}({e.names[buffer]}, {at}{count})")

    def write_sums(self, sums: Sums) -> None:
        """Emit stores of the sums, after the loop."""
        e = self.expressions
        for (buffer, _, lanes, step), kept in sums.named.items():
            half = "_half" if buffer.dtype == "float16" else ""
            store = e.use(f"{_access('store', lanes, step)}{half}")
            at = f"{kept.at}{_step_argument(step)}"
            e.line(f"{store}({e.names[buffer]}, {at}, {kept.name})")


def _access(kind: str, lanes: int, step: int) -> str:
    """Return the intrinsic that loads or stores ``lanes`` elements, ``step`` apart."""
    return f"{'v' if lanes else ''}{kind}{'' if step == 1 else '_strided'}"


def _step_argument(step: int) -> str:
    """Return the distance of lanes as an argument; adjacent lanes have none."""
    return "" if step == 1 else f", {step}"
