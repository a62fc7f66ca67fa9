"""The values of expressions, of offsets into arrays, and of sums in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedlang.expr.nodes import Axis, Binary, Const, Expr, Var
from schedlang.expr.printer import is_index
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Buffer
from schedlang.ir.offsets import lane_step, offset_of, strides
from schedlang.machine.names import Names
from schedlang.machine.nodes import INDEX, Num, Op, Reg, Type, Value
from schedlang.machine.select.builder import Builder
from schedlang.machine.select.context import Context
from schedlang.machine.select.expressions import LONGEST, Evaluation
from schedlang.machine.select.sums import Sum

# an offset shorter than this gets no register
SHORT = 16
# nested operations of an index that is tried as it stands, before the walk that names long parts
DEEPEST_SHORT = 6


def no_alignment(buffer: Buffer, first: Lin, count: int) -> bool:
    """Return ``False``, since a CPU needs no alignment for access to a vector."""
    return False


class Evaluator(Builder):
    """A builder of values (:class:`~schedlang.machine.select.values.Values`).

    Statements that a value needs come before it.
    """

    def __init__(
        self, names: Names, aligned: Callable[[Buffer, Lin, int], bool] = no_alignment,
        tested: bool = True, shuffled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(names)
        self.aligned = aligned
        self.tested = tested
        self.shuffled = shuffled
        self._regs: dict[Axis | Var, Reg] = {}

    def reg(self, scalar: Axis | Var) -> Reg:
        """Return the register of a loop's index, a size or a scalar argument."""
        found = self._regs.get(scalar)
        if found is None or found.name != self.names[scalar]:
            found = self._regs[scalar] = Reg(self.names[scalar], Type(scalar.dtype))
        return found

    def value(self, root: Expr, context: Context) -> Value:
        """Return the value of ``root``, after statements for its shared and long parts."""
        if is_index(root):
            short = self._short_index(root, context, DEEPEST_SHORT)
            if isinstance(short, Op) and len(self.text(short).text) >= LONGEST:
                short = None
            if short is not None:
                return short
        return Evaluation(self, context).run(root)

    def values(self, roots: Sequence[Expr], context: Context) -> tuple[Value, ...]:
        """Return the values of ``roots``, after statements for what they share and long parts."""
        if len(roots) == 1 or all(isinstance(root, Const) for root in roots):
            return tuple(self.value(root, context) for root in roots)
        return Evaluation(self, context).run_together(roots)

    def _short_index(self, node: Expr, context: Context, depth: int) -> Value | None:
        """Return index arithmetic as it stands, since none of its parts needs a register.

        Return ``None`` if it is nested deeper than ``depth``, or has more than operations on loop
        indices, sizes and constants. Most offsets are such.
        """
        if isinstance(node, Binary):
            if not depth or not is_index(node):
                return None
            a = self._short_index(node.a, context, depth - 1)
            b = None if a is None else self._short_index(node.b, context, depth - 1)
            return None if a is None or b is None else _index_op(node.op, a, b)
        if isinstance(node, Axis):
            lanes = context.lanes
            known = node in context.values or (lanes is not None and node is lanes.axis)
            return None if known else self.reg(node)
        if isinstance(node, Const):
            return Num(node.value) if is_index(node) else None
        return self.reg(node) if isinstance(node, Var) and is_index(node) else None

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...], context: Context) -> Lin:
        """Return the flat element offset of ``buffer[indices]``."""
        return offset_of(buffer, indices, context.values)

    def index(
        self, lin: Lin, context: Context, buffer: Buffer | None = None,
        indices: tuple[Expr, ...] = (),
    ) -> Value:  # fmt: skip
        """Return a scalar index; an offset into ``buffer`` has a term a dimension."""
        if buffer is not None and context.copies and lin.const is None:
            base = self._base(lin, context, buffer, indices)
            if base is not None:
                return base
        if buffer is not None and len(indices) > 1:
            named = context.offsets.get((buffer, lin))
            if named is not None:
                return named
            start = {} if context.lanes is None else {context.lanes.axis: context.lanes.start}
            values = {**context.values, **start}
            parts = [to_lin(i, values) for i in indices]
            steps = strides(buffer)
            joined = Lin.of(buffer.part)
            for part, step in zip(parts, steps):
                joined = joined + part * step
            if joined == lin:
                return self._by_dimension(parts, steps, context.scalar, buffer.part)
        return self.value(to_expr(lin), context.scalar)

    def _base(
        self, lin: Lin, context: Context, buffer: Buffer, indices: tuple[Expr, ...]
    ) -> Value | None:
        """Return ``lin`` as a register that unrolled copies share plus a constant.

        Return ``None`` if the shared part would be short.
        """
        lanes, number = context.lanes, lin.terms.get((), 0)
        if lanes is not None and lanes.start.const is None:
            return None
        rest = lin - number
        key = ("base", rest)
        if key not in context.shared:
            value = self.index(rest, context._replace(copies={}, offsets={}), buffer, indices)
            if len(self.text(value).text) < SHORT:
                return None
            context.shared[key] = self.let(value, f"{self.array(buffer).name}_at")
        shared = context.shared[key]
        if not number:
            return shared
        return _index_op("-" if number < 0 else "+", shared, Num(abs(number)))

    def kept(self, buffer: Buffer, indices: tuple[Expr, ...], context: Context) -> Reg | None:
        """Return the register that holds ``buffer[indices]``, if the loop around keeps that sum."""
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
            reg = self.fresh(f"{self.array(buffer).name}_sum", Type(buffer.dtype, count))
            # the offset stands before the loop, so only registers defined there may be used
            outside = context._replace(copies={}, named=sums.index)
            with self.collected() as before:
                at = self.index(first, outside, buffer, indices)
            found = Sum(reg, at, tuple(before), self.number)
            sums.named[buffer, first, count, step] = found
        return found.reg

    def _by_dimension(
        self, parts: Sequence[Lin], steps: Sequence[Lin], context: Context, first: int = 0
    ) -> Value:
        """Return an offset as ``row*1024 + column``: a term a dimension, constants at the end."""
        rest = Lin.of(first)
        total: Value | None = None
        for part, step in zip(parts, steps):
            if part.const is not None or step.const == 1:
                rest = rest + part * step
                continue
            if len(part.terms) == 1:
                term = self.value(to_expr(part * step), context)
            else:
                row = self.value(to_expr(part), context)
                term = _index_op("*", row, self.value(to_expr(step), context))
            total = term if total is None else _index_op("+", total, term)
        if total is None:
            return self.value(to_expr(rest), context)
        if not rest.terms:
            return total
        if rest.const is not None and rest.const < 0:
            return _index_op("-", total, Num(-rest.const))
        return _added(total, self.value(to_expr(rest), context))


def _index_op(op: str, a: Value, b: Value) -> Op:
    return Op(op, a, b, INDEX, index=True)


def _added(left: Value, right: Value) -> Value:
    """Return the sum, with the terms of ``right`` added one after the other."""
    if isinstance(right, Op) and right.index and right.op in ("+", "-"):
        return _index_op(right.op, _added(left, right.a), right.b)
    return _index_op("+", left, right)
