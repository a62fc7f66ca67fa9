"""Values, offsets and sums as emitted text: what the writers of statements ask for."""

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

# an offset this short needs no name
SHORT = 16


def never(buffer: Buffer, first: Lin, count: int) -> bool:
    """Return ``False``: a CPU may access a vector at any element."""
    return False


class Expressions:
    """Emits values; statements that must come first go through ``line``.

    ``aligned`` tells whether ``count`` elements from ``first`` on are one access of the target's;
    with ``tested`` it has loads of vectors behind a test, in which no branch is seen, and with
    ``shuffled`` vectors whose lanes are taken in another order than they lie.
    """

    def __init__(
        self, names: Names, line: Callable[[str], None], use: Callable[[str], str],
        aligned: Callable[[Buffer, Lin, int], bool] = never, tested: bool = True,
        shuffled: bool = True,
    ) -> None:  # fmt: skip
        self.aligned = aligned
        self.tested = tested
        self.shuffled = shuffled
        self.names = names
        self.line = line
        self.use = use

    def value(self, root: Expr, context: Context) -> Text:
        """Return the text of ``root``; shared and long parts become named temporaries first."""
        return Emission(self, context, always=always_read(root, context)).run(
            settled(root, context)
        )

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...], context: Context) -> Lin:
        """Return the flat element offset of ``buffer[indices]``."""
        found = merge_div_mod(flat(buffer, indices, context.values))
        if context.values and has_mod(found):
            # numbers of unrolled loops hide what quotients and remainders have in common
            joined = merge_div_mod(flat(buffer, indices))
            if not has_mod(joined):
                return joined.substitute(dict(context.values))
        return found

    def index(
        self, lin: Lin, context: Context, buffer: Buffer | None = None,
        indices: tuple[Expr, ...] = (),
    ) -> str:  # fmt: skip
        """Return a scalar index expression; an offset into ``buffer`` shows its dimensions."""
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
        """Return ``lin`` as a name that unrolled copies share, and a number.

        Return ``None`` if it is short.
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
        """Return the name of an element (or of lanes) that stays in registers here."""
        sums, lanes = context.sums, context.lanes
        if sums is None or buffer not in sums.buffers:
            return None
        offset = self.offset(buffer, indices, context)
        first = offset if lanes is None else offset.substitute({lanes.axis: lanes.start})
        count = 0 if lanes is None else lanes.count
        step = 1 if lanes is None else lane_step(offset, lanes.axis)
        assert step is not None, "the lanes of a sum that is kept are at one distance"
        found = sums.named.get((buffer, first, count, step))
        if found is None:
            name = self.names.fresh(f"{self.names[buffer]}_sum")
            before: list[str] = []
            held, self.line = self.line, before.append
            # ahead of the loop there are the names from there, and those that sums gave each other
            ahead = replace(context, copies={}, named=sums.index)
            at = self.index(first, ahead, buffer, indices)
            self.line = held
            found = Sum(name, at, tuple(before))
            sums.named[buffer, first, count, step] = found
        return Text(found.name, ATOM, count)

    def _by_dimension(self, parts: Sequence[Lin], steps: Sequence[Lin], context: Context) -> str:
        """Return ``row*1024 + column``: one term a dimension, numbers gathered at the end."""
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
