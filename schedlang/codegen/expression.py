"""The text of values, offsets and sums, for the writers of statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from schedlang.codegen.context import Context, Text
from schedlang.codegen.emission import Emission
from schedlang.codegen.names import Names
from schedlang.codegen.sums import Sum
from schedlang.codegen.truth import always_read, settled
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Expr
from schedlang.expr.printer import (
    ATOM,
    PRECEDENCE,
)
from schedlang.expr.simplify import has_mod, merge_div_mod, to_lin
from schedlang.ir.nodes import Buffer
from schedlang.ir.offsets import flat, lane_step, strides

# an offset shorter than this gets no name
SHORT = 16


def no_alignment(buffer: Buffer, first: Lin, count: int) -> bool:
    """Return ``False``, since a CPU needs no alignment for access to a vector."""
    return False


class Expressions:
    """Emitter of values; it passes the statements that must come first to ``line``.

    ``aligned(buffer, first, count)`` says whether ``count`` elements from ``first`` on are one
    access of the target. ``tested`` and ``shuffled`` say whether the target has the intrinsics
    ``vload_if`` (a vector load under a scalar test) and ``vload_shuffled`` (a vector load whose
    lanes are then permuted).
    """

    def __init__(
        self, names: Names, line: Callable[[str], None], use: Callable[[str], str],
        aligned: Callable[[Buffer, Lin, int], bool] = no_alignment, tested: bool = True,
        shuffled: bool = True,
    ) -> None:  # fmt: skip
        self.aligned = aligned
        self.tested = tested
        self.shuffled = shuffled
        self.names = names
        self.line = line
        self.use = use

    def value(self, root: Expr, context: Context) -> Text:
        """Return the text of ``root``, after statements that name its shared and long parts."""
        return Emission(self, context, always=always_read(root, context)).run(
            settled(root, context)
        )

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...], context: Context) -> Lin:
        """Return the flat element offset of ``buffer[indices]``."""
        found = merge_div_mod(flat(buffer, indices, context.values))
        if context.values and has_mod(found):
            # merge quotients and remainders before the values of unrolled axes make them differ
            joined = merge_div_mod(flat(buffer, indices))
            if not has_mod(joined):
                return joined.substitute(dict(context.values))
        return found

    def index(
        self, lin: Lin, context: Context, buffer: Buffer | None = None,
        indices: tuple[Expr, ...] = (),
    ) -> str:  # fmt: skip
        """Return the text of a scalar index; an offset into ``buffer`` has a term a dimension."""
        if buffer is not None and context.copies and lin.const is None:
            base = self._base(lin, context, buffer, indices)
            if base is not None:
                return base
        scalar = replace(context, lanes=None)
        if buffer is not None and len(indices) > 1:
            named = context.offsets.get((buffer, lin))
            if named is not None:
                return named
            start = {} if context.lanes is None else {context.lanes.axis: context.lanes.start}
            values = {**context.values, **start}
            parts = [to_lin(i, values) for i in indices]
            steps = strides(buffer)
            joined = Lin.of(0)
            for part, step in zip(parts, steps):
                joined = joined + part * step
            if joined == lin:
                return self._by_dimension(parts, steps, scalar)
        return self.value(to_expr(lin), scalar).text

    def _base(
        self, lin: Lin, context: Context, buffer: Buffer, indices: tuple[Expr, ...]
    ) -> str | None:
        """Return ``lin`` as a name that unrolled copies share plus a constant.

        Return ``None`` if the named part would be short.
        """
        lanes, number = context.lanes, lin.terms.get((), 0)
        if lanes is not None and lanes.start.const is None:
            return None
        rest = lin - number
        key = ("base", rest)
        if key not in context.shared:
            text = self.index(rest, replace(context, copies={}, offsets={}), buffer, indices)
            if len(text) < SHORT:
                return None
            name = self.names.fresh(f"{self.names[buffer]}_at")
            self.line(f"{name} = {text}")
            context.shared[key] = Text(name)
        name = context.shared[key].text
        return name if not number else f"{name} {'-' if number < 0 else '+'} {abs(number)}"

    def kept(self, buffer: Buffer, indices: tuple[Expr, ...], context: Context) -> Text | None:
        """Return the variable that holds ``buffer[indices]``, if the loop around keeps that sum."""
        sums, lanes = context.sums, context.lanes
        if sums is None or buffer not in sums.buffers:
            return None
        offset = self.offset(buffer, indices, context)
        first = offset if lanes is None else offset.substitute({lanes.axis: lanes.start})
        count = 0 if lanes is None else lanes.count
        step = 1 if lanes is None else lane_step(offset, lanes.axis)
        assert step is not None, "the lanes of a kept sum are a constant distance apart"
        found = sums.named.get((buffer, first, count, step))
        if found is None:
            name = self.names.fresh(f"{self.names[buffer]}_sum")
            before: list[str] = []
            outer_line, self.line = self.line, before.append
            # the offset stands before the loop, so only names that are defined there may be used
            outside = replace(context, copies={}, named=sums.index)
            at = self.index(first, outside, buffer, indices)
            self.line = outer_line
            found = Sum(name, at, tuple(before))
            sums.named[buffer, first, count, step] = found
        return Text(found.name, ATOM, count)

    def _by_dimension(self, parts: Sequence[Lin], steps: Sequence[Lin], context: Context) -> str:
        """Return an offset as ``row*1024 + column``: a term a dimension, constants at the end."""
        rest = Lin.of(0)
        terms: list[str] = []
        for part, step in zip(parts, steps):
            if part.const is not None or step.const == 1:
                rest = rest + part * step
                continue
            if len(part.terms) == 1:
                terms.append(self.value(to_expr(part * step), context).text)
                continue
            row = self.value(to_expr(part), context).at(PRECEDENCE["*"])
            terms.append(f"{row}*{self.value(to_expr(step), context).at(PRECEDENCE['*'] + 1)}")
        if rest.terms or not terms:
            last = self.value(to_expr(rest), context).text
            if terms and last.startswith("-"):
                return f"{' + '.join(terms)} - {last[1:]}" if rest.const is not None else (
                    f"{' + '.join(terms)} + ({last})")  # fmt: skip
            terms.append(last)
        return " + ".join(terms)
